"""Frames of pandas and of other libraries, which are imported when a frame is of one.

Whatever brings a column, it has one of few types inside: NumPy's numbers (with missing ones among integers:
pandas' own integers), truth values, text, times, or categories of these.
"""

from __future__ import annotations

import contextlib
import decimal
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from scopefe.errors import DataError, first_line

if TYPE_CHECKING:
    import narwhals as nw

NUMBERS = (int, float, decimal.Decimal, np.number)
DIGITS = 15
"""Digits of a decimal number that a double always holds."""


def to_pandas(frame: Any, names: Iterable[str] | None = None) -> pd.DataFrame:
    """Return a frame of another library as one of pandas.

    Parameters
    ----------
    names
        Columns to read, those of them that are there; None for all.

    Raises
    ------
    DataError
        If it is none, or a column cannot be read.
    """
    import narwhals as nw
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        return from_arrow(frame, names)
    try:
        known = nw.from_native(frame, pass_through=True)
    except (nw.exceptions.NarwhalsError, TypeError) as error:
        raise DataError(f"the frame cannot be read: {first_line(error)}") from error
    if isinstance(known, nw.DataFrame):
        refuse_twice(known.columns)
        wanted = known.columns if names is None else [n for n in dict.fromkeys(names) if n in known.columns]
        columns = {name: _arrow_of(name, known[name]) for name in wanted}
        return _joined({n: _pandas_of(n, c) for n, c in columns.items()}, len(known))
    if isinstance(known, nw.LazyFrame):
        raise DataError("the data is lazy: collect it first")
    hint = ": a row becomes one by pd.DataFrame([row])" if isinstance(frame, Mapping | pd.Series) else ""
    raise DataError(f"the data must be a pandas, polars or pyarrow frame, not {type(frame).__name__}{hint}")


def from_arrow(table: Any, names: Iterable[str] | None = None) -> pd.DataFrame:
    """Return a table of pyarrow as a frame of pandas; an index that pandas stored is a column."""
    refuse_twice(table.column_names)
    held = table.column_names
    wanted = held if names is None else [name for name in dict.fromkeys(names) if name in held]
    plain = table.select([name for name in wanted if _is_plain(table.column(name))])
    together = plain.to_pandas(ignore_metadata=True)  # side by side
    columns = {
        name: together[name] if name in plain.column_names else _pandas_of(name, table.column(name))
        for name in wanted
    }
    return _joined(columns, len(table))


def _is_plain(column: Any) -> bool:
    """Whether a column of pyarrow has a type that pandas reads as it is."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return not column.null_count
    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind) or pa.types.is_string(kind))


def _joined(columns: dict[str, pd.Series[Any]], rows: int) -> pd.DataFrame:
    frame = pd.DataFrame(columns, index=pd.RangeIndex(rows), copy=False)
    return frame.set_axis(pd.Index(list(columns), dtype="str"), axis="columns")


def _arrow_of(name: str, column: nw.Series[Any]) -> Any:
    """Return a column as one of pyarrow."""
    import narwhals as nw
    import pyarrow as pa

    try:
        if column.dtype in (nw.Int128, nw.UInt128):  # pyarrow has none: those that fit have 64 bits
            column = column.cast(nw.Int64 if column.dtype == nw.Int128 else nw.UInt64)
        found = column.to_arrow()
    except Exception as error:
        kind = f"{column.dtype}"
        raise DataError(f"column {name!r} of type {kind} cannot be read: {first_line(error)}") from error
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


def _pandas_of(name: str, column: Any) -> pd.Series[Any]:
    """Return a column of pyarrow as one of pandas."""
    import pyarrow as pa

    kind = column.type
    try:
        if pa.types.is_dictionary(kind) and any(chunk.dictionary.null_count for chunk in column.chunks):
            column, kind = column.cast(kind.value_type), kind.value_type
        if pa.types.is_decimal(kind) and kind.precision <= DIGITS:
            column = column.cast(pa.float64())
        elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
            with contextlib.suppress(pa.ArrowInvalid):  # bytes that are no text stay bytes
                column = column.cast(pa.large_string())
        elif pa.types.is_integer(kind) and column.null_count:
            unsigned = pa.types.is_unsigned_integer(kind)
            column = column.cast(pa.uint64() if unsigned else pa.int64())
            dtype: Any = pd.UInt64Dtype() if unsigned else pd.Int64Dtype()
            return pd.Series(dtype.__from_arrow__(column), copy=False)
        found: pd.Series[Any] = column.to_pandas()
        return _plain_objects(found) if found.dtype == object else found
    except (pa.ArrowException, ValueError, TypeError) as error:
        raise DataError(f"column {name!r} of type {kind} cannot be read: {first_line(error)}") from error


def plain(series: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of pandas with one of the types that are known inside; most have it already.

    Raises
    ------
    DataError
        If it cannot be read.
    """
    dtype, name = series.dtype, str(series.name)
    if isinstance(dtype, np.dtype) and dtype.kind != "O":
        return series
    if isinstance(dtype, pd.ArrowDtype):
        import pyarrow as pa

        return _like(_pandas_of(name, pa.chunked_array([pa.array(series.array)])), series)
    if isinstance(dtype, pd.SparseDtype):
        return _like(pd.Series(np.asarray(series.array)), series)
    if pd.api.types.is_float_dtype(dtype):
        return series.astype(dtype.numpy_dtype if hasattr(dtype, "numpy_dtype") else np.float64)
    return _plain_objects(series) if isinstance(dtype, np.dtype) else series


def _plain_objects(series: pd.Series[Any]) -> pd.Series[Any]:
    """Return objects that are all numbers, or all bytes, or missing, as numbers, or as text."""
    kind = pd.api.types.infer_dtype(series, skipna=True)
    if kind == "bytes":
        with contextlib.suppress(UnicodeDecodeError):  # refused where it is a feature
            return series.map(lambda v: v.decode() if isinstance(v, bytes) else None).astype("str")
        return series
    if kind in ("integer", "floating", "mixed-integer-float", "decimal") or kind.startswith("mixed"):
        return _numbers(series)
    return series


def _numbers(series: pd.Series[Any]) -> pd.Series[Any]:
    """Return objects as numbers, if all are; decimals that a double does not hold stay what they are."""
    present = series.notna()
    values = series[present].tolist()
    if not all(isinstance(v, NUMBERS) and not isinstance(v, bool | np.bool_) for v in values):
        return series
    if all(isinstance(v, int | np.integer) for v in values):
        dtype = _whole(min(values, default=0), max(values, default=0), missing=len(values) < len(series))
        if dtype is None:  # beyond 64 bits
            return series.map(lambda v: str(int(v)), na_action="ignore").astype("str")
        found = pd.array([int(v) if k else None for v, k in zip(series, present, strict=True)], dtype=dtype)
        return pd.Series(found, series.index, name=series.name)
    floats = [float(v) for v in values]
    pairs = zip(values, floats, strict=True)
    if any(isinstance(v, decimal.Decimal) and decimal.Decimal(repr(f)) != v for v, f in pairs):
        return series
    found = np.full(len(series), np.nan)
    found[present.to_numpy()] = floats
    return pd.Series(found, series.index, name=series.name)


def _whole(least: int, most: int, *, missing: bool) -> Any:
    """Return the type of integers in these bounds, None if there is none."""
    if least >= -(2**63) and most < 2**63:
        return pd.Int64Dtype() if missing else np.dtype("int64")
    if least >= 0 and most < 2**64:
        return pd.UInt64Dtype() if missing else np.dtype("uint64")
    return None


def _like(values: pd.Series[Any], series: pd.Series[Any]) -> pd.Series[Any]:
    return pd.Series(values.array, series.index, name=series.name, copy=False)


def in_library_of(frame: nw.DataFrame[Any], new: pd.DataFrame) -> nw.DataFrame[Any]:
    """Return columns of numbers and categories as a frame of the library that another is of.

    Missing is what the library calls it: null in polars and pyarrow.
    """
    import narwhals as nw

    columns = [_series(str(name), new[name], frame.implementation).to_frame() for name in new]
    return nw.concat(columns, how="horizontal") if columns else frame.select()


def _series(name: str, values: pd.Series[Any], backend: Any) -> nw.Series[Any]:
    """Return a column of a library; categories as its type that keeps their order."""
    import narwhals as nw
    import pyarrow as pa

    if not isinstance(values.dtype, pd.CategoricalDtype):
        return nw.new_series(name, values.to_numpy(), backend=backend).fill_nan(None)
    codes, labels = values.cat.codes.to_numpy(), _texts(values.cat.categories)
    if backend.is_pyarrow():
        coded = pa.array(codes, pa.int32(), mask=codes < 0)
        chunked = pa.chunked_array([pa.DictionaryArray.from_arrays(coded, pa.array(labels, pa.string()))])
        named: nw.Series[Any] = nw.from_native(chunked, series_only=True).alias(name)
        return named
    texts = [None if code < 0 else labels[code] for code in codes.tolist()]
    return nw.new_series(name, texts, nw.Enum(labels), backend=backend)


def _texts(labels: Iterable[Any]) -> list[str]:
    """Return a text for each label; those with the same text also say their type."""
    labels = list(labels)
    shared = {text for text, count in Counter(map(str, labels)).items() if count > 1}
    return [f"{label} ({type(label).__name__})" if str(label) in shared else str(label) for label in labels]


def codes_of(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the frame with float64 codes in place of categories; missing is NaN."""
    coded = {
        name: values.cat.codes.where(values.notna()).astype("float64")
        for name, values in frame.items()
        if isinstance(values.dtype, pd.CategoricalDtype)
    }
    return frame.assign(**coded)  # type: ignore[arg-type]


def refuse_twice(names: Iterable[str]) -> None:
    """Check that no two columns have one name.

    Raises
    ------
    DataError
        If they have.
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"two columns are named {name!r}: rename one of them")
        seen.add(name)
