"""What values are read as: missing ones, truth values, objects, times of which some are none."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner
from test_recipe import in_python

import scopefe
from scopefe import DataError, Recipe, RecipeError
from scopefe.cli.main import cli
from scopefe.data.frames import plain
from scopefe.data.kinds import nearly_numbers
from scopefe.data.source import read
from scopefe.spec.models import FileSource


def found(frame: Any, *features: tuple[str, ...], **data: Any) -> scopefe.Run:
    """A run whose recipe is of these features."""
    document = {
        "name": "r",
        "data": {"target": "y", "split": {"train": 0.7, "selection": 0.3, "test": 0.0}, **data},
        "scope": {"operators": {"gate": "features", "use": [list(f) for f in features]}},
        "selection": {"keep": "all", "data_blocks": 1},
        "baseline": {"max_trees": 5},
        "evaluation": {"seeds": 0},
        "execution": {"jobs": 1, "cache": False},
    }
    return scopefe.execute(scopefe.load_spec(document), data=frame, write=False)


def with_target(rows: int = 60, **columns: Any) -> pd.DataFrame:
    return pd.DataFrame({**columns, "y": np.arange(rows) % 7 + 0.5})


def in_sql(recipe: Recipe, frame: pd.DataFrame) -> pd.DataFrame:
    data = frame.assign(row=range(len(frame)))
    with duckdb.connect() as connection:
        connection.register("data", data)
        query = scopefe.to_sql(recipe, table="data", keep=["row"])
        return connection.execute(query).df().sort_values("row").drop(columns="row")


# --- missing -----------------------------------------------------------------------------------------------


def test_a_text_is_missing_only_where_the_spec_says_so(tmp_path):
    frame = with_target(60, k=["NA", "ZA", ""] * 20)
    frame.to_csv(tmp_path / "t.csv", index=False)
    source = str(tmp_path / "t.csv")
    for given, more in ((frame, {}), (None, {"source": source})):
        recipe = found(given, ("freq", "k"), **more).recipe
        assert recipe.transform(frame)["freq_k"].tolist()[:2] == [20, 20]
        assert np.isnan(recipe.transform(frame)["freq_k"][2])
        np.testing.assert_array_equal(in_python(recipe, frame), recipe.transform(frame))
        np.testing.assert_array_equal(in_sql(recipe, frame), recipe.transform(frame))
        recipe = found(given, ("freq", "k"), missing=["NA"], **more).recipe
        assert np.isnan(recipe.transform(frame)["freq_k"][0])
        assert recipe.transform(frame)["freq_k"].tolist()[1:3] == [20, 20]
        np.testing.assert_array_equal(in_sql(recipe, frame), recipe.transform(frame))


def test_numbers_with_another_sign_for_missing(tmp_path):
    frame = with_target(60, a=["?", *map(str, range(59))])
    frame.to_csv(tmp_path / "t.csv", index=False)
    source = str(tmp_path / "t.csv")
    run = found(None, ("freq", "a"), source=source)
    assert any("numbers, but for 1 of 60 values such as '?'" in note for note in run.report.notes)
    recipe = found(None, ("abs", "a"), source=source, missing=["", "?"]).recipe
    assert [i.kind for i in recipe.inputs] == ["ordinal"]
    expected = [np.nan, *range(59)]
    for served in (frame, frame.replace("?", None), frame.replace("?", "NA")):
        np.testing.assert_array_equal(recipe.transform(served)["abs_a"], expected)
        np.testing.assert_array_equal(in_python(recipe, served)["abs_a"], expected)
    with pytest.raises(RecipeError, match="column 'a' is to be numeric"):
        recipe.transform(frame.replace("?", "none at all"))


@pytest.mark.parametrize("values", [[True, False], [None, "a"], ["1", "x"], [dt.date(2024, 1, 1), None]])
def test_remarks_are_made_of_columns_of_text_alone(values):
    series = pd.Series(values * 30, dtype=object, name="k")
    remarks = nearly_numbers(series, np.arange(60))
    assert remarks == []


def test_texts_of_numbers_and_truth_values_may_be_missing_in_many_ways(tmp_path):
    (tmp_path / "t.csv").write_text("a,f,k\n1,true,x\nNA,NULL,NA\n,,\nnan,False,null\n2.5,TRUE,y\n")
    frame = read(FileSource(type="csv", path=str(tmp_path / "t.csv")))
    assert frame["a"].isna().tolist() == [False, True, True, True, False]
    assert frame["f"].dropna().tolist() == [True, False, True]
    assert frame["k"].fillna("?").tolist() == ["x", "NA", "?", "null", "y"]


# --- truth values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [True, 1, 1.0, "True", "true", "TRUE", "1", "t", "yes", "Y", "on"])
def test_truth_values_in_every_spelling(value):
    frame = with_target(60, f=[True, False, True] * 20)
    recipe = found(frame, ("freq", "f")).recipe
    for served in (pd.DataFrame({"f": [value]}), pd.DataFrame({"f": pd.Series([value], dtype=object)})):
        assert recipe.transform(served).iloc[0, 0] == 40
        assert in_python(recipe, served).iloc[0, 0] == 40
    assert in_sql(recipe, pd.DataFrame({"f": [value]})).iloc[0, 0] == 40


@pytest.mark.parametrize("value", [2, "maybe", "tru", 0.5])
def test_what_is_no_truth_value_is_said(value):
    recipe = found(with_target(60, f=[True, False, True] * 20), ("freq", "f")).recipe
    for apply in (recipe.transform, lambda served: in_python(recipe, served)):
        with pytest.raises((RecipeError, ValueError), match="but held truth values when the recipe was made"):
            apply(pd.DataFrame({"f": pd.Series([value], dtype=object)}))


# --- objects -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([decimal.Decimal("1.50"), None, decimal.Decimal("2")], "float64"),
        ([decimal.Decimal("0.12345678901234567890"), None, decimal.Decimal(2)], object),
        ([1.5, None, 2], "float64"),
        ([1, None, 2**60 + 1], "Int64"),
        ([1, 2**63, 3], "uint64"),
        ([np.float32(1.5), None, 2], "float64"),
        ([decimal.Decimal("1.5"), 2.5, 3], "float64"),
        ([b"ab", None, b"c"], "str"),
        ([True, None, False], object),
        (["a", None, "b"], object),
    ],
)
def test_objects_are_what_they_hold(values, dtype):
    series = plain(pd.Series(values, dtype=object, index=[5, 5, 6], name="x"))
    assert series.dtype == dtype
    assert series.index.tolist() == [5, 5, 6]
    assert series.isna().tolist() == [v is None for v in values]


def test_a_target_of_decimals_is_a_regression():
    frame = with_target(60, a=np.arange(60.0))
    frame["y"] = [decimal.Decimal(f"{v}.25") for v in range(60)]
    assert found(frame, ("abs", "a")).report.data.task == "regression"


def test_bytes_that_are_no_text_are_refused_by_name():
    with pytest.raises(DataError, match="column 'k' holds bytes that are no UTF-8"):
        found(with_target(60, k=[b"\xff", b"a", b"b"] * 20), ("freq", "k"))


# --- times of which some are none --------------------------------------------------------------------------

DAYS = pd.Series(pd.date_range("2023-01-01", periods=60, freq="31h").strftime("%Y-%m-%d %H:%M:%S"))


@pytest.mark.parametrize("wrong", ["0000-00-00 00:00:00", "2023-02-30 00:00:00", "soon"])
def test_a_few_texts_that_are_no_times_are_missing_and_told(wrong, tmp_path):
    frame = with_target(60, when=DAYS.where(DAYS.index != 7, wrong))
    run = found(frame, ("abs", "when.hour"))
    assert (
        f"Column 'when' holds times, but for 1 value such as {wrong!r}: these are missing."
        in run.report.notes
    )
    recipe = Recipe.load(run.recipe.save(tmp_path / "r.json"))
    expected = pd.to_datetime(DAYS).dt.hour.astype(float).where(DAYS.index != 7)
    np.testing.assert_array_equal(recipe.transform(frame)["abs_when_hour"], expected)
    np.testing.assert_array_equal(in_python(recipe, frame)["abs_when_hour"], expected)
    np.testing.assert_array_equal(in_sql(recipe, frame)["abs_when_hour"], expected)
    for row in (0, 7):
        assert_same(recipe.transform(frame.iloc[row : row + 1]).iloc[0, 0], expected[row])
    with pytest.raises(RecipeError, match="at which postgres ends a query"):
        scopefe.to_sql(recipe, dialect="postgres")


def assert_same(one: float, other: float) -> None:
    np.testing.assert_array_equal([one], [other])


def test_a_time_among_many_texts_that_are_none_is_what_it_is_alone():
    frame = with_target(60, when=DAYS.where(DAYS.index != 7, "soon"), lasts="1 days 02:00:00")
    frame["lasts"] = frame["lasts"].where(frame.index % 9 > 0, "2 days").where(frame.index != 7, "2024-01-01")
    recipe = found(frame, ("abs", "when.hour"), ("abs", "lasts.duration")).recipe
    many = pd.DataFrame({"when": ["soon"] * 1000, "lasts": ["2024-01-01"] * 1000})
    many.loc[501] = [DAYS[3], "3 days"]
    for transform in (recipe.transform, lambda served: in_python(recipe, served)):
        alone, among = transform(many.iloc[501:502]), transform(many)
        np.testing.assert_array_equal(among.iloc[501], alone.iloc[0])
        assert alone.notna().all(axis=None) and among.notna().sum().tolist() == [1, 1]


def test_bytes_that_are_no_text_may_stand_in_a_column_that_is_dropped():
    frame = with_target(60, a=np.arange(60.0), raw=[b"\xff", b"a", b"b"] * 20)
    for given in (frame, pl.from_pandas(frame)):
        run = found(given, ("abs", "a"), features={"drop": ["raw"]})
        assert run.report.data.left_out == {"y": "target", "raw": "dropped by the spec"}
        with pytest.raises(DataError, match="column 'raw' holds bytes that are no UTF-8"):
            found(given, ("abs", "a"))


def test_more_of_them_make_a_text_and_are_told_too():
    frame = with_target(60, when=DAYS.where(DAYS.index > 9, "soon"))
    run = found(frame, ("freq", "when"))
    assert any("read as text: times, but for" in note for note in run.report.notes)
    features = {"unreadable_times": 0.4}
    assert [i.name for i in found(frame, ("abs", "when.hour"), features=features).recipe.inputs] == [
        "when.hour"
    ]


def test_where_all_were_times_another_text_is_an_error():
    frame = with_target(60, when=DAYS)
    recipe = found(frame, ("abs", "when.hour")).recipe
    with pytest.raises(RecipeError, match="column 'when' is to hold datetimes, of which hour is read"):
        recipe.transform(pd.DataFrame({"when": ["soon"]}))


@pytest.mark.parametrize("zone", ["Europe/Berlin", "CET", "Japan", "GB", "EST5EDT", "UTC"])
def test_the_clock_is_that_of_the_zone_whatever_its_name(zone):
    when = pd.Series(pd.date_range("2024-01-01", periods=60, freq="31h", tz="UTC")).dt.tz_convert(zone)
    frame = with_target(60, when=when)
    recipe = found(frame, ("abs", "when.hour"), ("abs", "when.day")).recipe
    for given in (recipe.transform(frame), in_python(recipe, frame), in_sql(recipe, frame)):
        np.testing.assert_array_equal(given["abs_when_hour"], when.dt.hour)
        np.testing.assert_array_equal(given["abs_when_day"], when.dt.day)


# --- files -------------------------------------------------------------------------------------------------


def test_codes_in_a_text_file_are_read_as_they_were_learned(tmp_path):
    codes = ["007", "7", "A7", "12E3"]
    frame = with_target(60, code=codes * 15)
    frame.to_csv(tmp_path / "train.csv", index=False)
    recipe = found(None, ("freq", "code"), source=str(tmp_path / "train.csv")).recipe
    path = recipe.save(tmp_path / "r.json")
    for batch in (codes, ["007"], ["7", "007"], ["12E3"], ["7", "8"]):
        pd.DataFrame({"code": batch}).to_csv(tmp_path / "in.csv", index=False)
        done = CliRunner().invoke(cli, ["transform", str(path), str(tmp_path / "in.csv"), "--only-new"])
        assert done.exit_code == 0
        expected = [15.0 if code in codes else 0.0 for code in batch]
        assert [float(v) for v in done.stdout.split()[1:]] == expected


@pytest.mark.parametrize("number", [2297490387508990, -2297490387508990, 2**53, -(2**53), 2**53 + 1, 10**15])
def test_integers_about_as_long_as_a_double_holds_are_the_same_as_text(number):
    frame = with_target(60, id=[number, 5, 7] * 20)
    recipe = found(frame, ("freq", "id"), features={"kinds": {"id": "categorical"}}).recipe
    for served in (number, str(number), float(number) if abs(number) <= 2**53 else number):
        assert recipe.transform(pd.DataFrame({"id": [served]})).iloc[0, 0] == 20
        assert in_python(recipe, pd.DataFrame({"id": [served]})).iloc[0, 0] == 20


def test_long_integers_of_a_text_file_are_exact_with_missing_ones_beside_them(tmp_path):
    ids = [2**60 + 1, 2**60 + 2, None] * 20
    frame = with_target(60, id=pd.array(ids, dtype="Int64"), a=[2.0**60, 0.5, None] * 20)
    frame.to_csv(tmp_path / "t.csv", index=False)
    features = {"kinds": {"id": "categorical"}}
    recipe = found(None, ("freq", "id"), source=str(tmp_path / "t.csv"), features=features).recipe
    assert recipe.transform(frame)["freq_id"].tolist()[:2] == [20, 20]
    assert read(FileSource(type="csv", path=str(tmp_path / "t.csv")))["a"].tolist()[:2] == [2.0**60, 0.5]


def test_columns_that_are_no_input_leave_as_they_came(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = found(with_target(60, x=np.arange(60.0)), ("abs", "x")).recipe.save(tmp_path / "r.json")
    table = pa.table(
        {
            "long": pa.array([2**60 + 1, None, 7], pa.int64()),
            "price": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.00")], pa.decimal128(9, 2)),
            "raw": pa.array([b"ab", None, b"c"]),
            "x": [1.0, -2.0, 3.0],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    recipe = Recipe.load(path)
    from scopefe.recipe.files import transform_file

    transform_file(recipe, tmp_path / "t.parquet", tmp_path / "o.parquet")
    assert pq.read_table(tmp_path / "o.parquet").drop_columns("abs_x").equals(table)
    transform_file(recipe, tmp_path / "t.parquet", tmp_path / "o.csv")
    assert (tmp_path / "o.csv").read_text().splitlines() == [
        "long,price,raw,x,abs_x",
        "1152921504606846977,1.50,ab,1.0,1.0",
        ",,,-2.0,2.0",
        "7,2.00,c,3.0,3.0",
    ]
    pq.write_table(pa.table({"x": [1.0], "raw": [b"\xff"]}), tmp_path / "t.parquet")
    with pytest.raises(DataError, match="column 'raw' holds bytes that are no text, which CSV cannot hold"):
        transform_file(recipe, tmp_path / "t.parquet", tmp_path / "o.csv")


def test_the_index_of_a_parquet_file_is_a_column_if_it_has_a_name(tmp_path):
    frame = with_target(60, x=np.arange(60.0))
    days = pd.date_range("2024-01-01", periods=60)
    frame.set_index(days).to_parquet(tmp_path / "plain.parquet")
    frame.set_index(days.rename("day")).to_parquet(tmp_path / "named.parquet")
    columns = [
        list(read(FileSource(type="parquet", path=str(tmp_path / f"{n}.parquet"))))
        for n in ("plain", "named")
    ]
    assert columns == [["x", "y"], ["x", "y", "day"]]
