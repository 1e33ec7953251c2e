"""The SQL of recipes in PostgreSQL, on a server of the tests' own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scopefe.operators import DEFAULT
from test_datetimes import dated_recipe, table_with_dates
from test_export import hostile
from test_recipe import SOURCES, fit, fit_every_operator, frame_of, invented

from scopefe import Recipe, to_sql
from scopefe.data.frames import codes_of

PLACES = os.pathsep.join([os.environ.get("PATH", ""), *map(str, Path("/usr/lib/postgresql").glob("*/bin"))])
CONTROL = shutil.which("pg_ctl", path=PLACES)
pytestmark = pytest.mark.skipif(CONTROL is None, reason="PostgreSQL is not installed")
USER = {"user": "postgres"} if hasattr(os, "geteuid") and os.geteuid() == 0 else {}  # it does not run as root
TOO_LARGE, TOO_SMALL = 1e150, 1e-150


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Start a server, and give what connects to it."""
    pytest.importorskip("psycopg")
    pytest.importorskip("sqlglot")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    folder = Path(subprocess.check_output(["mktemp", "-d"], text=True, **USER).strip())

    def control(command: str, *options: str) -> None:
        asked = [CONTROL, "-D", folder / "data", "-s", command, *options]
        subprocess.run(asked, check=True, timeout=100, stdout=subprocess.DEVNULL, **USER)

    control("init", "-o", "-A trust -E UTF8 --no-locale -U tests")
    settings = f"-k '' -h localhost -p {port} -c fsync=off -c log_min_messages=fatal"
    control("start", "-w", "-l", str(folder / "log"), "-o", settings)
    yield f"host=localhost port={port} user=tests dbname=postgres"
    control("stop", "-m", "immediate")
    shutil.rmtree(folder)


def in_postgres(server: str, recipe: Recipe, frame: pd.DataFrame, **options: Any) -> pd.DataFrame:
    """Run a recipe's SQL on a frame; the values in the order of its rows."""
    import psycopg

    frame = frame.assign(**{"row number": np.arange(len(frame))})
    columns = ", ".join(f'"{quoted(name)}" {type_of(column)}' for name, column in frame.items())
    *tables, select = to_sql(recipe, dialect="postgres", keep=["row number"], **options).split(";\n")[:-1]
    rows = frame.astype(object).where(frame.notna(), None).itertuples(index=False)
    with psycopg.connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("SET TimeZone = 'Asia/Tokyo'")
        cursor.execute(f"CREATE TABLE data ({columns})")
        cursor.executemany(f"INSERT INTO data VALUES ({', '.join(['%s'] * frame.shape[1])})", list(rows))
        for statement in tables:
            cursor.execute(statement)
        found = pd.DataFrame(cursor.execute(select).fetchall(), columns=[c.name for c in cursor.description])
        connection.rollback()
    return found.sort_values("row number", ignore_index=True).drop(columns="row number").astype(np.float64)


def quoted(name: str) -> str:
    return name.replace('"', '""')


def type_of(column: pd.Series[Any]) -> str:
    if pd.api.types.is_bool_dtype(column.dtype):
        return "boolean"
    if pd.api.types.is_integer_dtype(column.dtype):
        return "bigint"
    if pd.api.types.is_float_dtype(column.dtype):
        return "real" if column.dtype == np.float32 else "double precision"
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return "timestamptz" if getattr(column.dtype, "tz", None) else "timestamp"
    return "interval" if pd.api.types.is_timedelta64_dtype(column.dtype) else "text"


def assert_same(server: str, recipe: Recipe, frame: pd.DataFrame, **options: Any) -> None:
    expected = codes_of(recipe.transform(bounded(frame)))
    found = in_postgres(server, recipe, frame, **options)
    assert list(found.columns) == list(expected.columns)
    single = {i.name for i in recipe.inputs if i.single}
    for feature in recipe.features:
        unit = np.finfo(np.float32 if set(feature.inputs) <= single else np.float64).eps
        places = 4 if feature.operator.name in {"log", "sigmoid"} else 0
        np.testing.assert_allclose(
            found[feature.name], expected[feature.name], rtol=places * unit, atol=0, err_msg=feature.name
        )


def bounded(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows as they are read: very large numbers as infinite, very small ones as 0."""
    doubles = frame.select_dtypes(np.float64)
    large, small = doubles.abs() >= TOO_LARGE, doubles.abs() <= TOO_SMALL
    return frame.assign(**doubles.mask(large, np.sign(doubles) * np.inf).mask(small, 0.0))


@pytest.mark.parametrize("name", SOURCES)
def test_every_operator(name, server):
    frame = frame_of(name)
    recipe, _ = fit_every_operator(frame.iloc[:250])
    assert {f.operator.name for f in recipe.features} == set(DEFAULT)
    assert_same(server, recipe, frame)
    assert_same(server, recipe, hostile(frame))


def test_numbers_whose_products_are_too_large_or_too_small(server):
    frame = pd.DataFrame({"x": [1e308, -1e200, 1e-200, 3.0, 1e149, np.inf, np.nan, -np.inf],
                          "y": [1e308, 1e-200, 1e-200, 2.0, 1e-149, 0.0, 1.0, np.inf]})  # fmt: skip
    names = [(operator, "x", "y") for operator in ("*", "/", "+", "-", "min", "max")]
    recipe = fit(frame, *names, ("square", "x"), ("sigmoid", "x"), ("residual", "x"),
                 kinds={"x": "numerical", "y": "numerical"})  # fmt: skip
    assert_same(server, recipe, frame)
    single = frame.where(frame.abs().to_numpy() < 1e38).astype(np.float32)
    recipe = fit(single, *names, ("sigmoid", "x"), kinds={"x": "numerical", "y": "numerical"})
    assert_same(server, recipe, single)
    tiny = pd.DataFrame(
        {"x": [1e-50, -1e-50, -110.0, 1e-45, 7e-46, 2e-46], "y": [1.0, 0.0, 2.0, 3.0, 1.0, 1.0]}
    )
    pd.testing.assert_frame_equal(
        in_postgres(server, recipe, tiny), codes_of(recipe.transform(tiny)), check_exact=False, rtol=1e-6
    )


def test_tables_beside_the_select(server):
    frame = invented(1500)
    recipe = fit(frame, ("GroupByThenRank", "x", "text"), ("freq", "flag"), ("abs", "x"))
    assert_same(server, recipe, frame, create_tables=True)


@pytest.mark.parametrize("missing_as", [None, "none"])
def test_missing_values_that_are_a_category(missing_as, server):
    frame = pd.DataFrame(
        {"k": ["b", None, "b", "a"], "x": [1.0, 2.0, 4.0, 8.0], "f": [True, False, None, True]}
    )
    recipe = fit(frame, ("GroupByThenMean", "x", "k"), ("freq", "k"), ("Combine", "k", "f"),
                 ("GroupByThenRank", "x", "k"), kinds={"x": "numerical"}, missing_as=missing_as)  # fmt: skip
    assert_same(server, recipe, frame)
    assert_same(server, recipe, frame.assign(k=["c", None, "it's", "a"]))


@pytest.mark.parametrize("name", ['a"b', "select", "x1", "scopefe_1", "a'b; --", "é %s {0}", "keep1", "A"])
def test_a_column_and_a_category_of_any_name(name, server):
    frame = pd.DataFrame({name: [1.0, 2.0, 5.0], "b": [0.5, 4.0, 2.0], "key1": [name, name, "'); --"]})
    recipe = fit(frame, ("-", name, "b"), ("GroupByThenMax", name, "key1"), ("freq", "key1"))
    assert_same(server, recipe, frame)


@pytest.mark.parametrize("zone", [None, "Asia/Kolkata"])
def test_datetimes_and_durations(zone, server):
    frame = table_with_dates()
    if zone is not None:
        frame["when"] = frame["when"].dt.tz_localize("UTC").dt.tz_convert(zone)
    recipe, at_fit = dated_recipe(frame)
    found = in_postgres(server, recipe, frame)
    for name in at_fit:
        np.testing.assert_allclose(found[name], at_fit[name], rtol=1e-15, err_msg=name)
