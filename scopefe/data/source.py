"""Reading tables: files, files shipped by installed packages, frames."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path
from typing import Any

import narwhals as nw
import pandas as pd
import pyarrow as pa
import pyarrow.feather
from narwhals.typing import IntoDataFrame

from scopefe.errors import DataError
from scopefe.spec.models import FileSource, FrameSource, PackageSource, SqlSource

EXACT: dict[str, Any] = {} if int(pd.__version__.split(".")[0]) >= 3 else {"float_precision": "round_trip"}
"""Options under which pandas reads the numbers of a CSV file to the last digit."""


def read(
    source: FileSource | PackageSource | SqlSource | FrameSource, frame: IntoDataFrame | None = None
) -> pd.DataFrame:
    """Read a table.

    Parameters
    ----------
    source
        What the spec says.
    frame
        The caller's frame, of pandas, polars, pyarrow or what else narwhals knows; wins over the source.

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
            frame = read_file(shipped_file(source), "csv")
        else:
            frame = read_file(Path(source.path), source.type)
    if not isinstance(frame, pd.DataFrame):
        frame = to_pandas(frame)
    named = frame.set_axis([str(c) for c in frame.columns], axis="columns")
    duplicated = named.columns[named.columns.duplicated()]
    if len(duplicated):
        raise DataError(f"two columns are named {str(duplicated[0])!r}: rename one of them")
    if not len(frame):
        raise DataError("the table has no rows")
    return named


def to_pandas(frame: Any) -> pd.DataFrame:
    """Return a frame of another library as one of pandas.

    Raises
    ------
    DataError
        If it is none.
    """
    known = nw.from_native(frame, eager_only=True, pass_through=True)
    if not isinstance(known, nw.DataFrame):
        raise DataError(f"the data must be a pandas, polars or pyarrow frame, not {type(frame).__name__}")
    return known.to_pandas()


def read_file(path: Path, kind: str | None = None) -> pd.DataFrame:
    """Read a CSV, Parquet or Arrow/Feather file.

    Raises
    ------
    DataError
        If the file is absent or is not what its type says.
    """
    if not path.is_file():
        raise DataError(f"there is no file {str(path)!r}")
    kind = kind or ("csv" if ".csv" in path.name or ".tsv" in path.name else path.suffix[1:])
    frame: pd.DataFrame
    try:
        if kind == "csv":
            frame = read_csv(path)
        elif kind in ("parquet", "pq"):
            frame = pd.read_parquet(path)
        else:
            frame = pyarrow.feather.read_table(path).to_pandas()
    except DataError:
        raise
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise DataError(f"{str(path)!r} cannot be read as {kind}: {reason}") from error
    return frame


def read_csv(path: Path, **options: Any) -> Any:
    """Read a CSV file with pandas, compressed or not; options are those of `pandas.read_csv`.

    Raises
    ------
    DataError
        If two columns have one name.
    """

    def opened(**given: Any) -> Any:
        file = pa.input_stream(str(path), compression="zstd") if path.suffix == ".zst" else path
        return pd.read_csv(file, sep="\t" if ".tsv" in path.name else ",", **given)

    names = opened(header=None, nrows=1, dtype=str).iloc[0].tolist()
    twice = [n for i, n in enumerate(names) if n in names[:i]]
    if twice:
        raise DataError(f"two columns are named {str(twice[0])!r}: rename one of them")
    return opened(low_memory=False, **EXACT, **options)


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
    if source.path is not None and not Path(source.path).is_file():
        raise DataError(f"there is no file {source.path!r}")
    try:
        with duckdb.connect(source.path or ":memory:", read_only=source.path is not None) as connection:
            return connection.execute(source.query).df()
    except duckdb.Error as error:
        raise DataError(f"the query of data.source fails: {str(error).strip().splitlines()[0]}") from None


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
        raise DataError(
            f"the data comes with the package {source.distribution}: pip install {source.distribution}"
        ) from None
    path = Path(str(distribution.locate_file(source.path)))
    if not path.is_file():
        raise DataError(f"{source.distribution} {distribution.version} does not ship {source.path!r}")
    return path
