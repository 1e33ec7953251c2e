"""A row has the same features whatever brings it: libraries, files, an exported module, SQL, alone or not."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_recipe import OPERATORS, in_python, leaves

import scopefe
from scopefe import Recipe
from scopefe.data.dataset import load_dataset
from scopefe.data.source import read_csv
from scopefe.recipe.files import transform_file
from scopefe.recipe.fitting import fit_recipe
from scopefe.space.expression import Apply
from scopefe.spec.models import Data

ROWS = 12
SINGLE = st.floats(-1e6, 1e6, width=32).map(lambda v: v + 0.0)
TYPES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "small": (pa.int16(), st.integers(-3, 3)),
    "integer": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(2**60, 2**60 + 3)),
    "unsigned": (pa.uint64(), st.integers(2**63, 2**64 - 1)),
    "float": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False).map(lambda v: v + 0.0)),
    "single": (pa.float32(), SINGLE),
    "decimal": (pa.decimal128(30, 4), st.decimals(-(10**9), 10**9, places=4)),
    "truth": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.sampled_from(["a", "B", "NA", "null", "true", "é", "a,b", 'q"', " x", "x "])),
    "code": (pa.string(), st.sampled_from(["007", "7", "1e3", "12E3", "A7", "-0"])),
    "bytes": (pa.binary(), st.sampled_from([b"01", b"1", b"AB"])),
    "date": (pa.date32(), st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))),
    "moment": (pa.timestamp("us"), st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2100, 1, 1))),
    "zoned": (
        pa.timestamp("us", "Europe/Berlin"),
        st.datetimes(dt.datetime(1990, 1, 1), dt.datetime(2030, 1, 1)).map(
            lambda v: v.replace(tzinfo=dt.UTC, microsecond=0)
        ),
    ),
    "lasting": (pa.duration("us"), st.timedeltas(dt.timedelta(-9), dt.timedelta(300))),
    "category": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["x", "y", "z"])),
}
NUMBERS = ("small", "integer", "unsigned", "float", "single", "decimal")
CATEGORIES = ("truth", "text", "code", "bytes", "category")
AS_CATEGORIES = ("small", "integer", "unsigned")


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A table of a few columns of any type, with missing values, and a target."""
    columns: dict[str, Any] = {}
    for name in draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=4, unique=True)):
        kind, values = TYPES[name]
        present = draw(st.lists(values, min_size=2, max_size=4, unique=True))
        cells = draw(st.lists(st.sampled_from([*present, None]), min_size=ROWS, max_size=ROWS))
        columns[name] = pa.array([*present[:2], *cells[2:]], kind)
    return pa.table(columns | {"y": pa.array(np.arange(ROWS) % 5 * 1.5)})


def pandas_of(table: pa.Table) -> pd.DataFrame:
    """A frame of pandas' usual types; its own where integers have missing ones among them."""
    frame = table.to_pandas()
    for name in table.column_names:
        if pa.types.is_integer(table[name].type) and table[name].null_count:
            unsigned = pa.types.is_unsigned_integer(table[name].type)
            frame[name] = pd.array(table[name].to_pylist(), dtype="UInt64" if unsigned else "Int64")
    return frame


def nullable(table: pa.Table) -> pd.DataFrame:
    return pandas_of(table).convert_dtypes()


def objects(table: pa.Table) -> pd.DataFrame:
    return pd.DataFrame({n: pd.Series(table[n].to_pylist(), dtype=object) for n in table.column_names})


LIBRARIES: dict[str, Callable[[pa.Table], Any]] = {
    "pyarrow": lambda table: table,
    "pandas": pandas_of,
    "pandas nullable": nullable,
    "pandas Arrow": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas objects": objects,
    "polars": pl.from_arrow,
}


def learned(frame: Any, table: pa.Table, kinds: dict[str, str]) -> tuple[Recipe, dict[str, str]]:
    """A recipe of every column, and the kinds that they were taken for."""
    split = {"by": "fractions", "train": 0.6, "selection": 0.4, "test": 0.0}
    content = {"target": "y", "task": "regression", "split": split, "features": {"kinds": kinds}}
    data = load_dataset(Data.model_validate(content), frame)
    found = dict(zip(data.table.names, data.table.kinds, strict=True))
    chosen = []
    for name, kind in found.items():
        operator = OPERATORS["freq" if kind == "categorical" or kinds.get(name) else "abs"]
        chosen.append((Apply(operator.name, leaves(name), operator.symmetric), operator, 1.0, 1.0))
    recipe = fit_recipe("n", "k", data.table, chosen, time_parts=data.time_parts, missing=("",))
    return recipe, found


def values(found: Any) -> np.ndarray[Any, Any]:
    """Float64 values of a frame of any library, missing is NaN."""
    frame = found if isinstance(found, pd.DataFrame) else found.to_pandas()
    return frame.to_numpy(dtype=np.float64, na_value=np.nan)


def check(table: pa.Table, fitted: str, folder: Any) -> None:
    """Fit from one library, and serve from all others, files, the exported module and SQL."""
    kinds = {name: "categorical" for name in AS_CATEGORIES if name in table.column_names}
    recipe, found = learned(LIBRARIES[fitted](table), table, kinds)
    expected = values(recipe.transform(table))
    for name, make in LIBRARIES.items():
        frame = make(table)
        assert learned(frame, table, kinds)[1] == found, name
        np.testing.assert_array_equal(values(recipe.transform(frame)), expected, name)
    frame = pandas_of(table)
    for row in range(0, ROWS, 5):
        alone = values(recipe.transform(table.slice(row, 1)))
        np.testing.assert_array_equal(alone, expected[row : row + 1], "one row of pyarrow")
        some = pd.DataFrame({n: frame[n].iloc[row : row + 1] for n in frame})
        np.testing.assert_array_equal(values(recipe.transform(some)), alone, "one row of pandas")
    np.testing.assert_array_equal(values(in_python(recipe, frame)), expected, "exported module")
    pq.write_table(table, folder / "t.parquet")
    texts(table).to_csv(folder / "t.csv", index=False)
    for name in ("t.parquet", "t.csv"):
        transform_file(recipe, folder / name, folder / "out.parquet", only_new=True)
        np.testing.assert_array_equal(values(pq.read_table(folder / "out.parquet")), expected, name)
        transform_file(recipe, folder / name, folder / "out.csv", only_new=True, rows=5)
        read = read_csv(folder / "out.csv", skip_blank_lines=False)
        np.testing.assert_array_equal(values(read.astype(float)), expected, f"{name} in parts")
    data = table.append_column("row", pa.array(range(ROWS)))  # noqa: F841
    query = scopefe.to_sql(recipe, table="data", keep=["row"])
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        answer = connection.execute(query).df().sort_values("row").drop(columns="row")
    np.testing.assert_allclose(values(answer), expected, rtol=1e-15, err_msg="SQL")


def texts(table: pa.Table) -> pd.DataFrame:
    """The table as a text file has it."""
    frame = table.to_pandas()
    for name in frame:
        if name in ("integer", "unsigned", "small", "decimal"):
            frame[name] = pd.Series(table[name].to_pylist(), dtype=object)
        if name == "single":  # written as the double that it is
            frame[name] = frame[name].astype(float)
        if name == "bytes":
            frame[name] = [None if v is None else v.decode() for v in table[name].to_pylist()]
    return frame


@settings(max_examples=40, deadline=None)
@given(table=tables(), fitted=st.sampled_from(sorted(LIBRARIES)))
def test_a_row_has_the_same_features_by_every_path(table, fitted, tmp_path_factory):
    check(table, fitted, tmp_path_factory.getbasetemp())


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(table=tables(), fitted=st.sampled_from(sorted(LIBRARIES)))
def test_a_row_has_the_same_features_by_every_path_a_thousand_times(table, fitted, tmp_path_factory):
    check(table, fitted, tmp_path_factory.getbasetemp())
