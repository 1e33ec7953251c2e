"""Datetimes and durations: what is read of them, and that it is the same everywhere."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scopefe.operators import DEFAULT
from test_export import in_duckdb, in_python, to_sql

import scopefe
from scopefe import NUM, DataError, Recipe, RecipeError
from scopefe.data.datetimes import TimePart, part_of, times_of, with_parts
from scopefe.data.frames import codes_of
from scopefe.data.kinds import encode
from scopefe.recipe.fitting import fit_recipe
from scopefe.registry import components
from scopefe.space.expression import Apply, Leaf

OPERATORS = components().operators
TEXTS = ["2024-02-29 23:59:30", None, "1969-12-31 00:00:00", "2025-01-01 12:30:00.5"]
WHEN = pd.Series(pd.to_datetime(TEXTS, format="ISO8601"))
EXPECTED = {
    "elapsed": [19782 + 86370 / 86400, np.nan, -1, 20089 + 45000.5 / 86400],
    "year": [2024, np.nan, 1969, 2025],
    "month": [2, np.nan, 12, 1],
    "day": [29, np.nan, 31, 1],
    "weekday": [3, np.nan, 2, 2],
    "hour": [23, np.nan, 0, 12],
    "minute": [59, np.nan, 0, 30],
}
DATES = [None if t is None else dt.date.fromisoformat(t[:10]) for t in TEXTS]
FORMS = {
    "nanoseconds": WHEN.astype("datetime64[ns]"),
    "seconds": WHEN.dt.floor("s").astype("datetime64[s]"),
    "text": pd.Series(TEXTS, dtype=object),
    "text with a T": pd.Series([t and t.replace(" ", "T") for t in TEXTS], dtype="str"),
    "arrow": WHEN.astype(pd.ArrowDtype(pa.timestamp("us"))),
    "arrow dates": pd.Series(DATES, dtype=pd.ArrowDtype(pa.date32())),
    "objects": pd.Series([None if pd.isna(t) else t.to_pydatetime() for t in WHEN], dtype=object),
    "dates": pd.Series(DATES, dtype=object),
    "Period objects": pd.Series(pd.PeriodIndex(WHEN, freq="D")).astype(object),
    "NumPy objects": pd.Series(
        [np.datetime64("NaT") if pd.isna(t) else np.datetime64(t) for t in WHEN], dtype=object
    ),
    "long fractions": pd.Series(
        [t and (t + ".000" if "." not in t else t) + "0000" for t in TEXTS], dtype=object
    ),
    "periods": pd.Series(pd.PeriodIndex(WHEN, freq="D")),
    "zoned": WHEN.dt.tz_localize("UTC"),
    "text in UTC": pd.Series([t and t + "Z" for t in TEXTS], dtype=object),
}


@pytest.mark.parametrize("form", FORMS)
def test_parts_are_those_of_the_calendar_and_the_clock(form):
    found = times_of(FORMS[form])
    assert found is not None
    whole_days = form in ("dates", "arrow dates", "periods", "Period objects")
    for part, expected in EXPECTED.items():
        values = part_of(found, part)
        wanted = np.array(expected)
        if whole_days:
            wanted = np.where(np.isnan(wanted), np.nan, 0) if part in ("hour", "minute") else np.floor(wanted)
        if form == "seconds" and part == "elapsed":
            wanted[3] = 20089 + 45000 / 86400
        np.testing.assert_array_equal(values, wanted, part)
        assert values.dtype == np.float64


def test_a_zone_moves_the_clock_and_not_the_instant():
    berlin = pd.Series(pd.to_datetime(["2024-07-01 23:30:00Z"])).dt.tz_convert("Europe/Berlin")
    found = times_of(berlin)
    assert [part_of(found, p)[0] for p in ("day", "hour", "elapsed")] == [2, 1, 19905 + 23.5 / 24]
    text = times_of(pd.Series(["2024-07-02T01:30:00+02:00", "2024-07-01 23:30:00Z"]))
    assert [part_of(text, p).tolist() for p in ("day", "hour")] == [[1, 1], [23, 23]]


def test_offsets_may_differ_and_far_dates_are_dates():
    zones = [dt.timezone(dt.timedelta(hours=5)), dt.UTC]
    objects = pd.Series([dt.datetime(2024, 1, 1, 3, tzinfo=zone) for zone in zones], dtype=object)
    assert part_of(times_of(objects), "hour").tolist() == [22, 3]
    far = pd.Series(["9999-12-31 00:00:00.0000000", "2024-07-02 00:00:00.1234567"])
    assert part_of(times_of(far), "year").tolist() == [9999, 2024]


def test_a_duration_is_in_days():
    found = times_of(pd.Series(pd.to_timedelta(["36h", None, "-1s"])))
    np.testing.assert_array_equal(part_of(found, "duration"), [1.5, np.nan, -1 / 86400])
    written = times_of(pd.Series(["1 days 12:00:00", None, "-1 days +23:59:59", "0 days"]))
    np.testing.assert_array_equal(part_of(written, "duration"), [1.5, np.nan, -1 / 86400, 0])


@pytest.mark.parametrize(
    "values",
    [
        ["2024", "2025"],
        ["2024-01", "2024-02"],
        ["2024-01-01", "none"],
        ["2024-13-01", "2024-01-01"],
        ["01.02.2024", "03.02.2024"],
        ["2024-01-01 now", "2024-01-01"],
        ["x", "2024-01-01"],
        [None, None],
        [],
        [True, False],
        [20240101, 20240102],
        [dt.time(1), dt.time(2)],
        [("2024-01-01",), None],
    ],
)
def test_what_is_no_datetime(values):
    assert times_of(pd.Series(values, dtype=object)) is None
    if not values or isinstance(values[0], str | None):
        assert times_of(pd.Series(values, dtype="str")) is None


def test_categories_stay_categories():
    assert times_of(pd.Series(TEXTS, dtype=object).astype("category")) is None


def test_parts_stand_in_the_place_of_their_column():
    frame = pd.DataFrame(
        {"a": [1, 2, 3], "when": pd.to_datetime(["2024-01-01", "2024-02-01", "2025-02-01"]), "b": 0}
    )
    new, names, found, _ = with_parts(frame, ["a", "when", "b"], np.arange(2), [])
    assert names == ["a", "when.elapsed", "when.month", "when.weekday", "b"]
    assert found["when.month"] == TimePart("when", "month", None)
    assert new["when.month"].tolist() == [1, 2, 2]
    assert list(frame) == ["a", "when", "b"]
    assert "when.year" in with_parts(frame, ["when"], np.arange(3), [])[1]
    assert "when.year" in with_parts(frame, ["when"], np.arange(2), ["when.year"])[1]
    assert with_parts(frame, ["when"], np.arange(2), ["when"])[1] == ["when"]
    taken = frame.rename(columns={"a": "when.month"})
    assert "when.month #2" in with_parts(taken, ["when.month", "when"], np.arange(2), [])[1]


def table_with_dates(n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    when = pd.Timestamp("1965-03-01") + pd.to_timedelta(rng.integers(0, 86_400 * 9000, n), unit="s")
    frame = pd.DataFrame(
        {
            "when": when,
            "size": rng.normal(size=n),
            "until": pd.to_timedelta(rng.integers(0, 9**6, n), unit="s"),
        }
    )
    frame["target"] = np.sin(frame["when"].dt.hour / 4) * frame["size"] + 0.1 * rng.normal(size=n)
    frame.loc[5:9, "when"] = pd.NaT
    return frame


def dated_recipe(frame: pd.DataFrame) -> tuple[Recipe, pd.DataFrame]:
    """Return a recipe with every operator on parts of datetimes, and the values at fit."""
    features = frame.drop(columns="target")
    wide, names, found, _ = with_parts(features, list(features), np.arange(len(frame)), [])
    table = encode(wide, np.arange(len(frame)), columns=names)
    rng, chosen = np.random.default_rng(0), []
    for name in DEFAULT:
        operator = OPERATORS[name]
        able = [
            [n for n, k in zip(table.names, table.kinds, strict=True) if needed == NUM or k == "ordinal"]
            for needed in operator.takes
        ]
        inputs = [Leaf(str(rng.choice(a))) for a in able]
        if len({i.name for i in inputs}) == len(inputs):
            chosen.append((Apply(name, tuple(inputs), operator.symmetric), operator, 1.0, 1.0))
    chosen += [(Apply("abs", (Leaf(part),)), OPERATORS["abs"], 1.0, 1.0) for part in found]
    recipe = fit_recipe("dated", "key", table, chosen, time_parts=found)
    columns = {name: table[i] for i, name in enumerate(table.names)}
    return recipe, pd.DataFrame({f.name: f.apply(columns) for f in recipe.features}, index=frame.index)


def test_saved_exported_and_in_sql_they_are_the_same(tmp_path):
    frame = table_with_dates()
    recipe, at_fit = dated_recipe(frame)
    assert {i.column for i in recipe.inputs} >= {"when", "until"}
    loaded = Recipe.load(recipe.save(tmp_path / "r.json"))
    assert loaded.inputs == recipe.inputs
    found = codes_of(loaded.transform(frame[["until", "size", "when"]]))
    pd.testing.assert_frame_equal(found, at_fit, check_exact=True)
    pd.testing.assert_frame_equal(codes_of(in_python(recipe, frame)), found, check_exact=True)
    in_database = in_duckdb(recipe, frame)
    for name in found:
        np.testing.assert_allclose(in_database[name], found[name], rtol=1e-15, err_msg=name)
    as_text = frame.assign(when=frame["when"].dt.strftime("%Y-%m-%dT%H:%M:%S"))
    pd.testing.assert_frame_equal(codes_of(loaded.transform(as_text)), found, check_exact=True)
    with pytest.raises(RecipeError, match="bigquery cannot read the duration 'until'"):
        to_sql(recipe, dialect="bigquery")
    single = [codes_of(loaded.transform(frame.iloc[[i]])) for i in range(12)]
    pd.testing.assert_frame_equal(pd.concat(single), found.iloc[:12], check_exact=True)


@pytest.mark.parametrize("form", ["named", "fixed", "text"])
def test_time_zones_are_the_same_everywhere(form, tmp_path):
    frame = table_with_dates().drop(columns="until")
    times = frame["when"].dt.tz_localize("UTC")
    frame["when"] = times.dt.tz_convert(
        "Asia/Kolkata" if form == "named" else dt.timezone(dt.timedelta(hours=5))
    )
    if form == "text":
        frame["when"] = frame["when"].map(lambda t: None if pd.isna(t) else t.isoformat())
    recipe, at_fit = dated_recipe(frame)
    assert {i.time_part.zone for i in recipe.inputs if i.time_part} == {
        "Asia/Kolkata" if form == "named" else "UTC"
    }
    loaded = Recipe.load(recipe.save(tmp_path / "r.json"))
    pd.testing.assert_frame_equal(codes_of(loaded.transform(frame)), at_fit, check_exact=True)
    pd.testing.assert_frame_equal(codes_of(in_python(recipe, frame)), at_fit, check_exact=True)
    pd.testing.assert_frame_equal(
        codes_of(loaded.transform(frame.assign(when=times))), at_fit, check_exact=True
    )
    for session in ("Asia/Tokyo", "UTC"):
        found = in_duckdb(recipe, frame, zone=session)
        for name in found:
            np.testing.assert_allclose(found[name], at_fit[name], rtol=1e-15, err_msg=name)


def test_texts_with_and_without_a_zone_are_read_one_by_one():
    frame = table_with_dates().drop(columns="until")
    frame["when"] = frame["when"].dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin")
    recipe, _ = dated_recipe(frame)
    naive = frame["when"].dt.tz_localize(None).dt.strftime("%Y-%m-%dT%H:%M:%S")
    mixed = frame.assign(when=[text if i % 2 else f"{text}+02:00" for i, text in enumerate(naive)])
    mixed.loc[frame["when"].isna(), "when"] = None
    whole = recipe.transform(mixed)
    alone = pd.concat([recipe.transform(mixed.iloc[[i]]) for i in range(len(mixed))])
    pd.testing.assert_frame_equal(whole, alone, check_exact=True)
    pd.testing.assert_frame_equal(in_python(recipe, mixed), whole, check_exact=True)


def test_a_column_that_is_no_datetime_in_production():
    recipe, _ = dated_recipe(table_with_dates())
    frame = table_with_dates(20)
    with pytest.raises(RecipeError, match="the table has no column 'when'; did you mean 'then'"):
        recipe.transform(frame.rename(columns={"when": "then"}))
    for wrong in ("yesterday", pd.Timedelta("1 day")):
        with pytest.raises(
            RecipeError, match=r"column 'when' is to hold datetimes, .* but holds (.*1 day|'yest)"
        ):
            recipe.transform(frame.assign(when=wrong))
    with pytest.raises(RecipeError, match="column 'until' is to hold durations"):
        recipe.transform(frame.assign(until=frame["when"]))
    nothing = pd.Series([None] * len(frame), dtype="str")
    assert recipe.transform(frame.assign(when=nothing)).isna().any(axis=None)
    assert len(recipe.transform(frame.assign(when=nothing).iloc[:0])) == 0


def test_every_library_of_frames_gives_the_same_run():
    frame = table_with_dates()
    spec = {
        "name": "dated",
        "data": {"target": "target"},
        "operators": {"use": ["*", "GroupByThenMean"]},
        "selection": {"keep": 3},
        "evaluation": {"seeds": 0},
    }
    frames = {"pandas": frame, "polars": pl.from_pandas(frame), "pyarrow": pa.Table.from_pandas(frame)}
    results = {
        name: scopefe.execute(scopefe.load_spec(spec), data=data, write=False)
        for name, data in frames.items()
    }
    recipes = {name: result.recipe.to_json() for name, result in results.items()}
    assert recipes["polars"] == recipes["pandas"] == recipes["pyarrow"]
    recipe = results["pandas"].recipe
    assert any("when.hour" in f.inputs for f in recipe.features)
    values = recipe.transform(frame)
    for name, data in frames.items():
        new = recipe.transform(data)
        assert type(new) is type(data)
        found = new if name == "pandas" else new.to_pandas()
        pd.testing.assert_frame_equal(found, values, check_exact=True)


def test_the_spec_may_ask_for_categories():
    frame = table_with_dates(60)
    spec = {"name": "n", "data": {"target": "target", "features": {"datetimes": "categories"}}}
    compiled = scopefe.compile(scopefe.load_spec(spec), data=frame)
    assert compiled.universe.names == ["when", "size", "until"]
    parts = scopefe.compile(scopefe.load_spec({"name": "n", "data": {"target": "target"}}), data=frame)
    assert parts.universe.names[:2] == ["when.elapsed", "when.year"]
    assert parts.data.dropped == {
        "target": "target",
        "when": "read as its parts",
        "until": "read as its parts",
    }


def test_parts_may_be_dropped_and_mistakes_are_one_line():
    frame = table_with_dates(60)

    def loaded(frame: pd.DataFrame = frame, **features: object) -> list[str]:
        spec = {"name": "n", "data": {"target": "target", "features": features}}
        return scopefe.compile(scopefe.load_spec(spec), data=frame).universe.names

    assert loaded(drop=["when.month"]) == [n for n in loaded() if n != "when.month"]
    assert loaded(drop=["when"]) == ["size", "until.duration"]
    with pytest.raises(DataError, match=r"drop names 'when\.mnth'; did you mean 'when\.month'"):
        loaded(drop=["when.mnth"])
    with pytest.raises(DataError, match="column 'when' is to be numeric, but holds datetimes: name a part"):
        loaded(kinds={"when": "numerical"})
    with pytest.raises(DataError, match=r"holds durations: name a part of it, until\.duration"):
        loaded(kinds={"until": "numerical"})
    with pytest.raises(DataError, match="target 'target' holds datetimes: predict a number"):
        loaded(frame.assign(target=frame["when"].fillna(frame["when"].max())))
    with pytest.raises(DataError, match="no column is left as a feature"):
        loaded(frame[["when", "target"]].assign(when=pd.Timestamp("2024-01-01")))
