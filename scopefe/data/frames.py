"""Frames of pandas and of other libraries, which are imported when a frame is of one."""

from __future__ import annotations

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
    """Return columns of numbers and categories as a frame of the library that another is of."""
    import narwhals as nw
    import pyarrow as pa

    backend = frame.implementation
    columns: dict[str, Any] = {}
    for name in new:
        values = new[name]
        if not isinstance(values.dtype, pd.CategoricalDtype):
            columns[str(name)] = values.to_numpy()
            continue
        codes, labels = values.cat.codes.to_numpy(), [str(label) for label in values.cat.categories]
        if backend.is_pyarrow():
            coded = pa.array(codes, pa.int32(), mask=codes < 0)
            chunked = pa.chunked_array([pa.DictionaryArray.from_arrays(coded, pa.array(labels, pa.string()))])
            columns[str(name)] = nw.from_native(chunked, series_only=True)
        else:
            texts = [None if code < 0 else labels[code] for code in codes.tolist()]
            columns[str(name)] = nw.new_series(str(name), texts, nw.Enum(labels), backend=backend)
    return nw.from_dict(columns, backend=backend) if columns else frame.select()


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
