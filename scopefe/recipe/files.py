"""Applying a recipe to a table in a file, some rows at a time."""

from __future__ import annotations

import csv
import gzip
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeAlias, cast

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

from scopefe.data.frames import refuse_twice
from scopefe.data.source import read_csv, read_typed_csv, separator
from scopefe.data.values import NO_VALUE, blanked
from scopefe.errors import DataError, ScopefeError, first_line
from scopefe.recipe.recipe import Recipe
from scopefe.spec.models import SUFFIXES, file_type

ROWS = 100_000

Columns: TypeAlias = Any  # a frame of pandas, or a table of Arrow, which has no types


def transform_file(
    recipe: Recipe, source: Path, target: Path, *, only_new: bool = False, rows: int = ROWS
) -> tuple[int, int]:
    """Write a table with the features of a recipe beside its own columns.

    A table without rows gives one. Only some rows are in memory at a time, but for a CSV file that becomes
    Parquet or Arrow: its types are those of all its rows.

    Parameters
    ----------
    source, target
        Files; their names tell the format.
    only_new
        Leave the columns of the table out.
    rows
        Rows at a time.

    Returns
    -------
    tuple
        Number of rows and of columns that were written.

    Raises
    ------
    DataError
        If the table cannot be read, or has a column of a feature's name.
    RecipeError
        If it lacks a column that the recipe reads, or one does not hold what it should.
    """
    formats = [_format(path) for path in (source, target)]
    whole = formats[0] == "csv" and formats[1] != "csv"
    written, names = 0, list[str]()
    with _writer(target, formats[1]) as write:
        for given, own in _parts(recipe, source, formats, None if whole else rows):
            new = recipe.transform(given)
            taken = [] if only_new else [name for name in _names(new) if name in _names(own)]
            if taken:
                raise DataError(
                    f"the table already has a column {taken[0]!r}; write the new ones alone: --only-new"
                )
            columns = new if only_new else _beside(own, new)
            names = _names(columns)
            try:
                write(columns)
            except pa.ArrowException as error:
                raise DataError(f"{formats[1]} cannot hold the table: {first_line(error)}") from error
            written += len(given)
    return written, len(names)


def _format(path: Path) -> str:
    kind = file_type(path.name)
    if kind is None:
        raise DataError(
            f"cannot tell the format of {str(path)!r}: its name must end in {', '.join(SUFFIXES)}"
        )
    return kind


def _names(columns: Columns) -> list[str]:
    return list(columns.columns) if isinstance(columns, pd.DataFrame) else columns.column_names


def _beside(own: Columns, new: Columns) -> Columns:
    if isinstance(own, pd.DataFrame):
        return pd.concat([own, new], axis="columns")
    for name in new.column_names:
        own = own.append_column(name, new.column(name))
    return own


def _parts(
    recipe: Recipe, path: Path, formats: list[str], rows: int | None
) -> Iterator[tuple[Columns, Columns]]:
    """Yield a table part by part: the frame that a recipe reads, and the columns as they are to be written.

    Columns of the table stay what they were, to the last digit of an integer and the spelling of a text.
    """
    if not path.is_file():
        raise DataError(f"there is no file {str(path)!r}")
    if formats[0] == "csv":
        read = _csv_parts(recipe, path, rows)
    else:
        read = ((table, table) for table in _tables(path, formats[0], rows or ROWS))
    try:
        yield from read
    except ScopefeError:
        raise
    except Exception as error:
        raise DataError(f"{str(path)!r} cannot be read as {formats[0]}: {first_line(error)}") from error


def _csv_parts(recipe: Recipe, path: Path, rows: int | None) -> Iterator[tuple[Columns, Columns]]:
    """Yield parts of a CSV file: texts, which a recipe reads as what it learned from, and texts to write.

    A file that is to have types is one part, whose own columns are typed as all rows tell.
    """
    unsaid = {i.column for i in recipe.inputs} if recipe.missing is None else set[str]()
    if rows is None:
        texts = read_csv(path, dtype=str, keep_default_na=False)
        yield _read_as_before(texts, unsaid), read_typed_csv(path)
        return
    with read_csv(path, chunksize=rows, dtype=str, keep_default_na=False) as parts:
        for texts in parts:
            yield _read_as_before(texts, unsaid), texts


def _read_as_before(texts: pd.DataFrame, columns: set[str]) -> pd.DataFrame:
    """Return texts for a recipe that does not say what is missing in these columns: all of `NO_VALUE`."""
    return texts.assign(**{name: blanked(texts[name], NO_VALUE) for name in texts.columns if name in columns})


def _tables(path: Path, kind: str, rows: int) -> Iterator[pa.Table]:
    """Yield a file's tables: one without rows if there are none."""
    if kind == "parquet":
        with pq.ParquetFile(path) as file:
            if not file.metadata.num_rows:
                yield file.schema_arrow.empty_table()
            for batch in file.iter_batches(rows):
                yield pa.Table.from_batches([batch], file.schema_arrow)
        return
    try:
        reader = pa.ipc.open_file(str(path))
    except pa.ArrowInvalid:  # the first version of Feather
        yield pyarrow.feather.read_table(path)
        return
    with reader:
        if not reader.num_record_batches:
            yield reader.schema.empty_table()
        for number in range(reader.num_record_batches):
            yield pa.Table.from_batches([reader.get_batch(number)], reader.schema)


@contextmanager
def _writer(path: Path, kind: str) -> Iterator[Callable[[Columns], None]]:
    """Give what appends a part to a file."""
    if kind == "csv":
        with _text_file(path) as file:
            yield _CsvWriter(file, separator(path))
        return
    writer = _ArrowWriter(path, parquet=kind == "parquet")
    try:
        yield writer
    finally:
        writer.close()


@dataclass
class _CsvWriter:
    file: IO[bytes]
    separator: str
    header: bool = True

    def __call__(self, part: Columns) -> None:
        frame = part if isinstance(part, pd.DataFrame) else _texts(part)
        frame.to_csv(
            self.file,
            sep=self.separator,
            index=False,
            header=self.header,
            quoting=csv.QUOTE_ALL if _has_returns(frame) else csv.QUOTE_MINIMAL,
            mode="wb",
        )
        self.header = False


def _has_returns(part: pd.DataFrame) -> bool:
    """Whether a text has a carriage return, which pandas does not quote."""
    texts = (part[c] for c in part.columns if not pd.api.types.is_numeric_dtype(part[c].dtype))
    return any(column.astype("str").str.contains("\r", regex=False).any() for column in texts)


def _texts(table: pa.Table) -> pd.DataFrame:
    """Return a table as pandas writes it to CSV without a change to a value."""
    refuse_twice(table.column_names)
    columns: dict[str, Any] = {}
    for name in table.column_names:
        column = table.column(name)
        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
            try:
                column = column.cast(pa.large_string())
            except pa.ArrowException:
                raise DataError(
                    f"column {name!r} holds bytes that are no text, which CSV cannot hold: write Parquet"
                ) from None
        exact = pa.types.is_integer(kind) or pa.types.is_decimal(kind)
        columns[name] = pd.Series(column.to_pylist(), dtype=object) if exact else column.to_pandas()
    return pd.DataFrame(columns, index=pd.RangeIndex(len(table)))


@dataclass
class _ArrowWriter:
    path: Path
    parquet: bool
    schema: pa.Schema | None = None

    def __call__(self, part: Columns) -> None:
        table = pa.Table.from_pandas(part) if isinstance(part, pd.DataFrame) else part
        if self.schema is None:
            path, schema = str(self.path), table.schema if self.parquet else _plain(table.schema)
            self.writer = pq.ParquetWriter(path, schema) if self.parquet else pa.ipc.new_file(path, schema)
            self.schema = schema
        self.writer.write_table(table.cast(self.schema))

    def close(self) -> None:
        if self.schema is not None:
            self.writer.close()


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return a schema without dictionaries: in a file of Arrow all parts share them, which these may not."""
    for place, field in enumerate(schema):
        if pa.types.is_dictionary(field.type):
            schema = schema.set(place, field.with_type(field.type.value_type))
    return schema


@contextmanager
def _text_file(path: Path) -> Iterator[IO[bytes]]:
    suffix = path.suffix.lower()
    if suffix == ".zip":
        with (
            zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
            archive.open(re.sub(r"^\.\d+\.", "", path.stem), "w", force_zip64=True) as file,
        ):
            yield file
    elif suffix == ".zst":
        with pa.output_stream(str(path), compression="zstd") as file:
            yield file
    else:
        with cast(IO[bytes], gzip.open(path, "wb") if suffix == ".gz" else path.open("wb")) as file:
            yield file
