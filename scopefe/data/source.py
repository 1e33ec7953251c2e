"""Reading tables: files, files shipped by installed packages, frames."""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
from narwhals.typing import IntoDataFrame

from scopefe.data.frames import from_arrow, plain, refuse_twice, to_pandas
from scopefe.data.values import NO_VALUE, blanked
from scopefe.errors import DataError, first_line
from scopefe.spec.environment import expanded, hidden, hidden_words
from scopefe.spec.models import FileSource, FrameSource, PackageSource, SqlSource, file_type

EXACT: dict[str, Any] = {} if int(pd.__version__.split(".")[0]) >= 3 else {"float_precision": "round_trip"}
"""Options under which pandas reads the numbers of a CSV file to the last digit."""


OTHER_SEPARATORS = (";", "\t", "|")


def read(
    source: FileSource | PackageSource | SqlSource | FrameSource,
    frame: IntoDataFrame | None = None,
    missing: Collection[str] = ("",),
) -> pd.DataFrame:
    """Read a table.

    Parameters
    ----------
    source
        What the spec says.
    frame
        The caller's frame, of pandas, polars, pyarrow or what else narwhals knows; wins over the source.
    missing
        Texts that are missing values.

    Raises
    ------
    DataError
        If there is nothing to read, it cannot be read, or two columns have one name.
    """
    if frame is None:
        if isinstance(source, FrameSource):
            raise DataError("data.source is missing: name a file, or pass data= in Python")
        if isinstance(source, SqlSource):
            frame = read_query(source)
        elif isinstance(source, PackageSource):
            frame = read_file(shipped_file(source), "csv", missing)
        else:
            frame = read_file(source.path, source.type, missing)
    if not isinstance(frame, pd.DataFrame):
        frame = to_pandas(frame)
    named = frame.set_axis([str(c) for c in frame.columns], axis="columns")
    refuse_twice(named.columns)
    if not len(frame):
        raise DataError("the table has no rows")
    return _plain(named, missing)


def _plain(frame: pd.DataFrame, missing: Collection[str]) -> pd.DataFrame:
    """Return a frame whose columns have types that are known inside, without the texts that are missing."""
    changed = {}
    for name, series in frame.items():
        known = plain(blanked(series, missing))
        if known is not series:
            changed[name] = known
    if not changed:
        return frame
    columns = {name: changed.get(name, series) for name, series in frame.items()}
    return pd.DataFrame(columns, frame.index, copy=False).set_axis(frame.columns, axis="columns")


def read_file(
    name: str | os.PathLike[str], kind: str | None = None, missing: Collection[str] = ("",)
) -> pd.DataFrame:
    """Read a CSV, Parquet or Arrow/Feather file.

    Parameters
    ----------
    name
        As it is written, with environment variables.
    missing
        Texts that are missing values.

    Raises
    ------
    DataError
        If the file is absent or is not what its type says.
    """
    name = os.fspath(name)
    path = Path(expanded(name))
    if not path.is_file():
        raise DataError(f"there is no file {name!r}")
    kind = kind or file_type(path.name) or path.suffix[1:]
    frame: pd.DataFrame
    try:
        if kind == "csv":
            frame = read_typed_csv(path, missing)
        elif kind in ("parquet", "pq"):
            frame = _without_positions(from_arrow(pq.read_table(path)))
        else:
            frame = _without_positions(from_arrow(pyarrow.feather.read_table(path)))
    except DataError as error:
        raise DataError(hidden(str(error), name)) from error
    except Exception as error:
        raise DataError(f"{name!r} cannot be read as {kind}: {hidden(first_line(error), name)}") from error
    return frame


def _without_positions(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame without the index that pandas kept in its file, where that had no name."""
    return frame.drop(columns=[name for name in frame.columns if re.fullmatch(r"__index_level_\d+__", name)])


def read_typed_csv(path: Path, missing: Collection[str] = ("",)) -> pd.DataFrame:
    """Read a CSV file; columns of numbers and truth values are such, others are text as it stands.

    Parameters
    ----------
    missing
        Texts that are missing values; in columns of numbers and truth values `NO_VALUE` are, too.

    Raises
    ------
    DataError
        If two columns have one name.
    """
    frame: pd.DataFrame = read_csv(path, keep_default_na=False, na_values=[*NO_VALUE, *missing])
    texts = [n for n in frame.columns if pd.api.types.infer_dtype(frame[n], skipna=True) == "string"]
    long = [n for n in frame.columns if _may_be_long_integers(frame[n])]
    if not texts and not long:
        return frame
    again = read_csv(path, usecols=[*texts, *long], dtype=str, keep_default_na=False, na_values=list(missing))
    for name in long:
        cells = [None if pd.isna(text) or text in NO_VALUE else text for text in again[name]]
        if all(text is None or re.fullmatch(r"-?\d+", text) for text in cells):
            whole = [None if text is None else int(text) for text in cells]
            again[name] = plain(pd.Series(whole, dtype=object, name=name))
        else:
            again[name] = frame[name]
    return frame.assign(**{name: again[name] for name in [*texts, *long]})


def _may_be_long_integers(series: pd.Series[Any]) -> bool:
    """Whether numbers, read as floats for want of some, may be integers that floats do not hold."""
    return series.dtype == np.float64 and bool(series.isna().any() and (series.abs() >= 2**53).any())


def read_csv(path: Path, **options: Any) -> Any:
    """Read a CSV file with pandas, compressed or not; options are those of `pandas.read_csv`.

    Raises
    ------
    DataError
        If two columns have one name.
    """

    def opened(**given: Any) -> Any:
        file = pa.input_stream(str(path), compression="zstd") if path.suffix.lower() == ".zst" else path
        return pd.read_csv(file, sep=separator(path), **given)

    text: dict[str, Any] = {"header": None, "dtype": str, "keep_default_na": False}
    names = opened(nrows=1, **text).iloc[0].tolist()
    other = next((s for s in OTHER_SEPARATORS if s in names[0]), None)
    if len(names) == 1 and other:
        raise DataError(
            f"the fields of {str(path)!r} seem to be separated by {other!r}: save it with commas, or with "
            "tabs as .tsv, or read it by a query (data.source: {type: sql, query: …})"
        )
    # the row after the header as well: one of more fields is refused, whose first would else be an index
    names = opened(nrows=2, **text).iloc[0].tolist()
    refuse_twice([name for name in names if name])
    return opened(low_memory=False, **EXACT, **options)


def separator(path: Path) -> str:
    """Return what separates the fields of a text file, by its name."""
    return "\t" if ".tsv" in [suffix.lower() for suffix in path.suffixes[-2:]] else ","


def read_query(source: SqlSource) -> pd.DataFrame:
    """Read what a query gives.

    Raises
    ------
    DataError
        If duckdb is not installed, there is no such database, or the query fails.
    """
    try:
        import duckdb
    except ModuleNotFoundError:
        raise DataError("a SQL source needs duckdb: pip install 'scopefe[duckdb]'") from None
    path = None if source.path is None else expanded(source.path)
    if path is not None and not Path(path).is_file():
        raise DataError(f"there is no file {source.path!r}")
    try:
        with duckdb.connect(path or ":memory:", read_only=path is not None) as connection:
            found = connection.sql(expanded(source.query))
            if found is None:
                raise DataError("the query of data.source gives no table")
            return from_arrow(found.to_arrow_table())
    except duckdb.Error as error:
        reason = hidden_words(first_line(error), f"{source.query} {source.path}")
        raise DataError(f"the query of data.source fails: {reason}") from None


def shipped_file(source: PackageSource) -> Path:
    """Return the path of a file that an installed distribution ships.

    Raises
    ------
    DataError
        If the distribution or the file is not there.
    """
    try:
        distribution = importlib.metadata.distribution(source.distribution)
    except importlib.metadata.PackageNotFoundError:
        what = requirement(source.distribution)
        raise DataError(
            f"the data comes with the package {source.distribution}: pip install {what}"
        ) from None
    path = Path(str(distribution.locate_file(source.path)))
    if not path.is_file():
        raise DataError(f"{source.distribution} {distribution.version} does not ship {source.path!r}")
    return path


def requirement(distribution: str) -> str:
    """Return what pip is told to install: an extra of scopefe's that brings a distribution, or its name."""
    extra = _extras().get(_normalised(distribution))
    return f"'scopefe[{extra}]'" if extra else distribution


def _extras() -> dict[str, str]:
    """Return the first extra of scopefe's that brings a distribution, by its normalised name."""
    try:
        required = importlib.metadata.requires("scopefe") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found: dict[str, str] = {}
    for line in required:
        name, extra = re.match(r"[\w.-]+", line), re.search(r"extra == ['\"]([^'\"]+)", line)
        if name and extra and extra[1] != "dev":
            found.setdefault(_normalised(name[0]), extra[1])
    return found


def _normalised(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()
