"""Frames of pandas and of other libraries, which are imported when a frame is of one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from scopefe.errors import DataError, first_line

if TYPE_CHECKING:
    import narwhals as nw


def to_pandas(frame: Any) -> pd.DataFrame:
    """Return a frame of another library as one of pandas.

    Raises
    ------
    DataError
        If it is none.
    """
    import narwhals as nw
    import pyarrow as pa

    if isinstance(frame, pa.Table):
        refuse_twice(frame.column_names)
    try:
        known = nw.from_native(frame, pass_through=True)
        if isinstance(known, nw.DataFrame):
            return known.to_pandas()
    except (nw.exceptions.NarwhalsError, pa.ArrowException, TypeError) as error:
        raise DataError(f"the frame cannot be read: {first_line(error)}") from error
    if isinstance(known, nw.LazyFrame):
        raise DataError("the data is lazy: collect it first")
    hint = ": a row becomes one by pd.DataFrame([row])" if isinstance(frame, Mapping | pd.Series) else ""
    raise DataError(f"the data must be a pandas, polars or pyarrow frame, not {type(frame).__name__}{hint}")


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
