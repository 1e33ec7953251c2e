"""The recipe: the values at fit, in another process, one row at a time, on any frame that has the columns."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from conftest import find_data_folder, needs_data
from hypothesis import given, settings
from hypothesis import strategies as st
from scopefe.operators import DEFAULT

from scopefe import CAT, Recipe, RecipeError, to_python
from scopefe.data.frames import codes_of
from scopefe.data.kinds import encode
from scopefe.data.table import finite
from scopefe.recipe.arrays import LARGE
from scopefe.recipe.distribution import Distribution
from scopefe.recipe.fitting import described, fit_recipe
from scopefe.registry import components
from scopefe.score.featureboost import compute
from scopefe.space.expression import Apply, Leaf
from scopefe.space.universe import Universe

OPERATORS = components().operators
ALONE = 25
APPLY = """
import pickle, sys
import pandas as pd
from scopefe.data.frames import codes_of
import scopefe

with open(sys.argv[1], "rb") as file:
    asked = pickle.load(file)
told = {}
for name, (path, frame, alone) in asked.items():
    recipe = scopefe.Recipe.load(path)
    rows = [recipe.transform(frame.iloc[[i]]) for i in range(alone)]
    extra = frame.sample(frac=1, random_state=1).assign(**{"not an input": 1})
    extra = extra[sorted(extra.columns, key=lambda c: c[::-1])]
    told[name] = (
        codes_of(recipe.transform(frame)),
        codes_of(pd.concat(rows)),
        codes_of(recipe.transform(extra)).loc[frame.index],
    )
with open(sys.argv[2], "wb") as file:
    pickle.dump(told, file)
"""
REAL = {
    "adult": ["age", "workclass", "fnlwgt", "education", "hours-per-week"],
    "telecom": ["MonthlyRevenue", "PercChangeMinutes", "RoamingCalls", "CreditRating", "Homeownership"],
    "california_housing": ["MedInc", "HouseAge", "Latitude", "Longitude"],
}
SOURCES = ["invented", *(pytest.param(name, marks=needs_data(name)) for name in REAL)]


def invented(n: int = 300) -> pd.DataFrame:
    """Every kind of column, with missing and infinite values."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=n) * 20
    x[:9] = [np.nan, np.inf, -np.inf, 0, -0.0, 1e-300, -1, 0, np.nan]
    text = rng.choice(["a", "b", "a_b", "", "é"], n).astype(object)
    text[5:15] = None
    return pd.DataFrame(
        {
            "x": x,
            "single": rng.lognormal(size=n).astype(np.float32),
            "whole": rng.integers(-2, 3, n),
            "text": text,
            "flag": rng.random(n) > 0.5,
            "category": pd.Categorical(rng.choice(["u", "v"], n), categories=["v", "u", "never"]),
            "nullable": pd.array(rng.choice([1, 2, pd.NA], n), dtype="Int64"),
        }
    )


def frame_of(name: str) -> pd.DataFrame:
    if name == "invented":
        return invented()
    folder = find_data_folder()
    assert folder is not None
    frame = pd.read_parquet(folder / f"{name}.parquet", columns=REAL[name]).iloc[:400]
    first = frame.iloc[:, 0].to_numpy(dtype=np.result_type(frame.iloc[:, 0].dtype, np.float32)).copy()
    first[3:6] = [np.nan, np.inf, -np.inf]
    some = np.where(np.arange(len(frame)) % 7 == 0, None, np.arange(len(frame)) % 5)
    return frame.assign(first=first, some=pd.Series(some, index=frame.index).map(str, na_action="ignore"))


def leaves(*names: str) -> tuple[Leaf, ...]:
    return tuple(Leaf(n) for n in names)


def fit(
    frame: pd.DataFrame, *asked: tuple[str, ...], missing: tuple[str, ...] = (), **options: Any
) -> Recipe:
    """Fit the features given as (operator, column, …) on a frame."""
    table = encode(frame, np.arange(len(frame)), **options)
    chosen = [
        (Apply(name, leaves(*inputs), OPERATORS[name].symmetric), OPERATORS[name], 0.25, 7.0)
        for name, *inputs in asked
    ]
    return fit_recipe("named", "key", table, chosen, options.get("missing_as"), missing=missing)


def in_python(recipe: Recipe, frame: pd.DataFrame) -> pd.DataFrame:
    """Run a recipe's exported module on a frame."""
    module: dict[str, Any] = {"__name__": "exported"}
    exec(compile(to_python(recipe), "exported.py", "exec", dont_inherit=True), module)
    found: pd.DataFrame = module["transform"](frame)
    return found


def fit_every_operator(frame: pd.DataFrame, seed: int = 0) -> tuple[Recipe, pd.DataFrame]:
    """Return a recipe with two features of every operator, and their values at fit."""
    table = encode(frame, np.arange(len(frame)))
    universe = Universe(table.names, table.kinds, [OPERATORS[n] for n in DEFAULT])
    rng = np.random.default_rng(seed)
    chosen, values = [], {}
    for block in universe.blocks:
        for candidate in block.offset + rng.choice(block.size, min(block.size, 2), replace=False):
            (_,), (left,), (right,) = universe.decode(np.array([candidate]))
            expression = universe.expression(candidate)
            chosen.append((expression, block.operator, float(candidate), 1.0))
            found = finite(compute(block.operator, table, left, right))
            found[(found < 0) & (block.operator.gives == CAT)] = np.nan
            values[len(values)] = found
    recipe = fit_recipe("all", "key", table, chosen)
    at_fit = pd.DataFrame(values, index=frame.index).set_axis([f.name for f in recipe.features], axis=1)
    return recipe, at_fit


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory) -> dict[str, Any]:
    """What another process computes from saved recipes, beside the values at fit."""
    folder = tmp_path_factory.mktemp("recipes")
    data = find_data_folder()
    there = [n for n in REAL if data is not None and (data / f"{n}.parquet").is_file()]
    asked, at_fit = {}, {}
    for name in ("invented", *there):
        frame = frame_of(name)
        recipe, at_fit[name] = fit_every_operator(frame)
        asked[name] = (recipe.save(folder / f"{name}.json"), frame, ALONE)
    (folder / "asked").write_bytes(pickle.dumps(asked))
    command = [sys.executable, "-W", "error", "-c", APPLY, str(folder / "asked"), str(folder / "told")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    told = pickle.loads((folder / "told").read_bytes())
    return {name: (at_fit[name], *told[name]) for name in asked}


# --- the values at fit -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOURCES)
def test_another_process_gives_the_values_at_fit(name, elsewhere):
    at_fit, whole, alone, shuffled = elsewhere[name]
    assert len(at_fit.columns) > 30
    pd.testing.assert_frame_equal(whole, at_fit, check_exact=True)
    pd.testing.assert_frame_equal(alone, at_fit.iloc[:ALONE], check_exact=True)
    pd.testing.assert_frame_equal(shuffled, at_fit, check_exact=True)


@pytest.mark.parametrize("seed", range(4))
def test_saving_and_loading_changes_nothing(seed, tmp_path):
    frame = invented()
    recipe, at_fit = fit_every_operator(frame, seed)
    loaded = Recipe.load(recipe.save(tmp_path / "recipe.json"))
    assert_same_recipe(loaded, recipe)
    pd.testing.assert_frame_equal(codes_of(loaded.transform(frame)), at_fit, check_exact=True)
    again = loaded.save(tmp_path / "again.json")
    assert again.read_bytes() == (tmp_path / "recipe.json").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.json", "recipe.json"]


def assert_same_recipe(one: Recipe, other: Recipe) -> None:
    assert (one.name, one.key, one.inputs, one.formulas) == (
        other.name,
        other.key,
        other.inputs,
        other.formulas,
    )
    for a, b in zip(one.features, other.features, strict=True):
        assert (a.name, a.gain, a.importance, a.operator.name) == (
            b.name,
            b.gain,
            b.importance,
            b.operator.name,
        )
        assert list(a.state) == list(b.state)
        for key in a.state:
            assert a.state[key].dtype == b.state[key].dtype, (a.name, key)
            assert [*map(type, a.state[key].tolist())] == [*map(type, b.state[key].tolist())]
            np.testing.assert_array_equal(a.state[key], b.state[key])


def test_fitted_on_other_rows_than_it_is_applied_to():
    learned = pd.DataFrame({"x": [1.0, 3.0, 5.0], "k": ["a", "a", "b"]})
    recipe = fit(learned, ("GroupByThenMean", "x", "k"), ("freq", "k"), ("Combine", "k", "x"))
    found = recipe.transform(pd.DataFrame({"x": [3.0, 9.0, 1.0, 1.0], "k": ["a", "b", "new", None]}))
    expected = [[2, 2, 1], [5, 1, np.nan], [np.nan, 0, np.nan], [np.nan, np.nan, np.nan]]
    np.testing.assert_array_equal(codes_of(found).to_numpy(), expected)


def test_infinite_results_are_missing_and_infinite_states_survive(tmp_path):
    frame = pd.DataFrame({"x": [1.0, np.inf, -np.inf, 2.0], "k": ["a", "a", "b", "c"]})
    recipe = fit(
        frame, ("GroupByThenMax", "x", "k"), ("GroupByThenMin", "x", "k"), ("GroupByThenStd", "x", "k")
    )
    loaded = Recipe.load(recipe.save(tmp_path / "r.json"))
    assert_same_recipe(loaded, recipe)
    assert loaded.features[0].state["values"].tolist() == [np.inf, -np.inf, 2]
    assert np.isnan(loaded.features[2].state["values"]).all()
    np.testing.assert_array_equal(loaded.transform(frame).iloc[:, 0], [np.nan, np.nan, np.nan, 2])


@pytest.mark.parametrize("numeric", [True, False])
def test_single_precision_survives_a_csv_file(numeric, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.lognormal(size=(200, 2)).astype(np.float32), columns=["a", "b"])
    recipe = fit(frame, ("/", "a", "b"), ("freq", "a"), ("GroupByThenMean", "a", "b"), ("log", "b"),
                 kinds={"b": "ordinal"})  # fmt: skip
    loaded = Recipe.load(recipe.save(tmp_path / "r.json"))
    double = pd.read_csv(io.StringIO(frame.to_csv(index=False)), dtype=None if numeric else str)
    assert (double.dtypes != np.float32).all()
    pd.testing.assert_frame_equal(loaded.transform(double), recipe.transform(frame), check_exact=True)


# --- frames ------------------------------------------------------------------------------------------------

INDEXES = {
    "duplicates": lambda n: np.arange(n) // 3,
    "texts": lambda n: [f"row {i}" for i in range(n)],
    "dates": lambda n: pd.date_range("2020", periods=n),
    "levels": lambda n: pd.MultiIndex.from_arrays([np.arange(n) % 2, np.arange(n)], names=["a", "b"]),
    "one label": lambda n: np.zeros(n),
}


@pytest.mark.parametrize("kind", INDEXES)
def test_the_index_is_kept_and_plays_no_part(kind):
    frame = invented(60)
    recipe, at_fit = fit_every_operator(frame)
    labelled = frame.set_axis(pd.Index(INDEXES[kind](60)), axis="index")
    found = recipe.transform(labelled)
    pd.testing.assert_index_equal(found.index, labelled.index)
    np.testing.assert_array_equal(codes_of(found).to_numpy(), at_fit.to_numpy())


def test_the_frame_is_not_changed():
    frame = invented()
    frame.attrs["kept"] = [1]
    before, axes = pickle.dumps(frame), (frame.index, frame.columns)
    recipe, _ = fit_every_operator(frame)
    result = recipe.transform(frame)
    assert (frame.index is axes[0], frame.columns is axes[1]) == (True, True)
    pd.testing.assert_frame_equal(frame, pickle.loads(before), check_exact=True)
    assert frame.attrs == {"kept": [1]}
    result.iloc[:, :40] = -1.0
    pd.testing.assert_frame_equal(frame, pickle.loads(before), check_exact=True)


def test_a_frame_without_rows_and_a_recipe_without_features():
    frame = invented()
    recipe, at_fit = fit_every_operator(frame)
    nothing = codes_of(recipe.transform(frame.iloc[:0]))
    assert nothing.shape == (0, at_fit.shape[1]) and set(nothing.dtypes) == {np.dtype("float64")}
    assert fit(frame).transform(frame).shape == (len(frame), 0)


def test_columns_that_are_not_named_by_text():
    frame = pd.DataFrame(np.arange(12.0).reshape(4, 3))
    recipe = fit(frame, ("+", "0", "2"))
    assert recipe.transform(frame)["x0_plus_2"].tolist() == [2, 8, 14, 20]
    assert frame.columns.tolist() == [0, 1, 2]


def test_an_absent_column_is_named_with_the_nearest():
    frame = pd.DataFrame({"income": [1.0, 2.0], "age": [1.0, 3.0]})
    recipe = fit(frame, ("+", "income", "age"))
    with pytest.raises(RecipeError, match=r"^the table has no column 'income'; did you mean 'incme'\?$"):
        recipe.transform(frame.rename(columns={"income": "incme"}))
    with pytest.raises(RecipeError, match=r"^the table has no columns 'income', 'age'$"):
        recipe.transform(frame.rename(columns={"income": "incme", "age": "years"}))


@pytest.mark.parametrize(
    "values",
    [["1", "two"], ["a\nb", "1"], [object(), 1.0], [[1], 2.0], pd.to_datetime(["2020", "2021"]), [1j, 2]],
)
def test_values_that_are_no_numbers_in_a_numeric_column(values):
    recipe = fit(pd.DataFrame({"x": [1.0, 2.0]}), ("abs", "x"))
    with pytest.raises(RecipeError, match="'x'") as error:
        recipe.transform(pd.DataFrame({"x": pd.Series(values)}))
    assert "\n" not in str(error.value)


def test_values_that_are_no_categories_in_a_categorical_column():
    recipe = fit(pd.DataFrame({"k": ["a", "b"]}), ("freq", "k"))
    with pytest.raises(RecipeError, match="'k'"):
        recipe.transform(pd.DataFrame({"k": [["a"], ["b"]]}))


def test_two_columns_of_an_input_s_name():
    recipe = fit(pd.DataFrame({"x": [1.0, 2.0]}), ("abs", "x"))
    frame = pd.DataFrame([[1.0, 2.0, 3.0]], columns=["x", "x", "y"])
    with pytest.raises(RecipeError, match=r"^the table has two columns named 'x'$"):
        recipe.transform(frame)
    other = frame.set_axis(["x", "y", "y"], axis="columns")
    assert recipe.transform(other)["abs_x"].tolist() == [1]


# --- one value, many types ---------------------------------------------------------------------------------

CATEGORIES = {
    "text": (["b", "a", "b", None], [
        pd.Series(["b", "a", "b", None], dtype=object),
        pd.Series(["b", "a", "b", None], dtype="str"),
        pd.Series(["b", "a", "b", None], dtype="string"),
        pd.Series(["b", "a", "b", None], dtype="string[pyarrow]"),
        pd.Series(pd.Categorical(["b", "a", "b", None])),
        pd.Series(pd.Categorical(["b", "a", "b", None], categories=["z", "b", "y", "a"], ordered=True)),
    ]),
    "whole numbers": ([2, 1, 2, None], [
        pd.Series([2, 1, 2, None]),
        pd.Series([2, 1, 2, None], dtype="Int64"),
        pd.Series([2, 1, 2, None], dtype="Int8"),
        pd.Series([2, 1, 2, None], dtype="int64[pyarrow]"),
        pd.Series([2, 1, 2, None], dtype=object),
        pd.Series([2, 1, 2, None], dtype=np.float32),
        pd.Series(pd.Categorical([2, 1, 2, None])),
    ]),
    "truth": ([True, False, True, None], [
        pd.Series([True, False, True, None], dtype=object),
        pd.Series([True, False, True, None], dtype="boolean"),
        pd.Series([True, False, True, None], dtype="bool[pyarrow]"),
        pd.Series(pd.Categorical([True, False, True, None])),
        pd.Series(["True", "False", "True", None]),
    ]),
}  # fmt: skip


@pytest.mark.parametrize("case", CATEGORIES)
def test_categories_of_any_type_are_the_same_categories(case):
    _, given_as = CATEGORIES[case]
    x = pd.Series([1.0, 2.0, 4.0, 8.0])
    for learned in given_as:
        recipe = fit(pd.DataFrame({"k": learned, "x": x}), ("freq", "k"), ("GroupByThenMean", "x", "k"),
                     kinds={"k": "categorical"})  # fmt: skip
        for series in given_as:
            found = recipe.transform(pd.DataFrame({"k": series, "x": x}))
            expected = [[2, 2.5], [1, 2], [2, 2.5], [np.nan, np.nan]]
            np.testing.assert_array_equal(
                found.to_numpy(), expected, err_msg=f"{learned.dtype} {series.dtype}"
            )


@pytest.mark.parametrize(
    "dtype", ["int8", "uint16", "float32", "Int64", "Float64", "double[pyarrow]", "object", "str"]
)
def test_numbers_of_any_type_are_the_same_numbers(dtype):
    recipe = fit(pd.DataFrame({"x": [1, 2, 4]}), ("square", "x"), ("freq", "x"))
    found = recipe.transform(pd.DataFrame({"x": pd.Series([4, 1, 3]).astype(dtype)}))
    np.testing.assert_array_equal(found.to_numpy(), [[16, 1], [1, 1], [9, 0]])


@pytest.mark.parametrize(
    ("learned", "given", "label", "held"),
    [
        (["1", "2"], [1, 2], 1.0, "text"),
        (["a", "b"], ["a", 2], 2.0, "text"),
        ([1, 2], ["1", "two"], "two", "numbers"),
        ([True, False], [1, 2], 2.0, "truth values"),
    ],
)
def test_categories_of_another_type_would_never_be_found(learned, given, label, held, tmp_path):
    recipe = fit(pd.DataFrame({"k": learned}), ("freq", "k"), kinds={"k": "categorical"}, missing_as="?")
    recipe = Recipe.load(recipe.save(tmp_path / "recipe.json"))
    said = f"^column 'k' holds {label!r}, but held {held} when the recipe was made$"
    frame = pd.DataFrame({"k": pd.Series(given, dtype=object)})
    with pytest.raises(RecipeError, match=said):
        recipe.transform(frame)
    with pytest.raises(ValueError, match=said):
        in_python(recipe, frame)


@pytest.mark.parametrize("given", [[1, 0, None], [1.0, 0.0, np.nan], [True, False, None]])
def test_truth_values_may_be_numbers(given):
    learned = pd.DataFrame({"k": [True, True, False], "x": [1.0, 2.0, 4.0]})
    recipe = fit(learned, ("freq", "k"), ("GroupByThenMean", "x", "k"))
    found = recipe.transform(pd.DataFrame({"k": given, "x": 0.0}))
    np.testing.assert_array_equal(found.to_numpy(), [[2, 1.5], [1, 4], [np.nan, np.nan]])


def test_integers_that_floats_cannot_hold_are_numbers_still():
    large = 2**53 + 1
    for learned in ([large, large + 2], [1, large], [1, 2]):
        recipe = fit(pd.DataFrame({"k": learned}), ("freq", "k"), kinds={"k": "categorical"})
        for new in ([1, large], [1, 2], [large, large + 2]):
            expected = [learned.count(label) for label in new]
            for found in (recipe.transform, lambda frame, r=recipe: in_python(r, frame)):
                values = found(pd.DataFrame({"k": new})).iloc[:, 0]
                np.testing.assert_array_equal(values, expected)


def test_columns_of_text_and_numbers_take_both():
    recipe = fit(pd.DataFrame({"k": pd.Series([1, "a", "a"], dtype=object)}), ("freq", "k"))
    for labels, expected in [([1, 2], [1, 0]), (["a", "b"], [2, 0])]:
        np.testing.assert_array_equal(recipe.transform(pd.DataFrame({"k": labels})).iloc[:, 0], expected)


def test_missing_values_can_stand_for_a_category():
    learned = pd.DataFrame({"k": ["a", None, None], "x": [1.0, 2.0, 4.0]})
    recipe = fit(learned, ("GroupByThenMean", "x", "k"), missing_as="?")
    found = recipe.transform(pd.DataFrame({"k": [None, "?", "a", "b"], "x": 0.0}))
    np.testing.assert_array_equal(found.iloc[:, 0], [3, 3, 1, np.nan])


NAMES = ['a,b (c)-"d"', "\N{SNAKE}", "line\nbreak", "", " ", "a/b+c", "{x}", "null", "\x00", "né", "x" * 300]


@settings(max_examples=40, deadline=None)
@given(names=st.lists(st.sampled_from(NAMES) | st.text(max_size=8), min_size=3, max_size=3, unique=True))
def test_columns_may_have_any_name(names, tmp_path_factory):
    x, y, k = names
    frame = pd.DataFrame({x: [1.0, 2.0, 5.0], y: [0.5, 4.0, 2.0], k: ["a", "a", "b"]})
    recipe = fit(frame, ("-", x, y), ("GroupByThenMax", x, k), ("freq", k))
    loaded = Recipe.load(recipe.save(tmp_path_factory.mktemp("named") / "r.json"))
    assert_same_recipe(loaded, recipe)
    assert [i.name for i in loaded.inputs] == [x, y, k]
    found = loaded.transform(frame)
    np.testing.assert_array_equal(found.to_numpy(), [[0.5, 2, 2], [-2, 2, 2], [3, 5, 1]])
    assert len(set(found.columns) | set(frame.columns)) == 6


def test_a_row_needs_nothing_heavy(tmp_path):
    frame = invented()
    recipe, at_fit = fit_every_operator(frame)
    recipe.save(tmp_path / "r.json")
    frame.iloc[[20]].to_pickle(tmp_path / "row")
    code = (
        "import sys, pandas as pd, scopefe\n"
        "recipe = scopefe.Recipe.load(sys.argv[1] + '/r.json')\n"
        "recipe.transform(pd.read_pickle(sys.argv[1] + '/row')).to_pickle(sys.argv[1] + '/new')\n"
        "heavy = ['numba', 'scipy', 'sklearn', 'lightgbm', 'networkx', 'pydantic', 'scopefe.gates']\n"
        "print([m for m in heavy if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr
    found = codes_of(pd.read_pickle(tmp_path / "new"))
    pd.testing.assert_frame_equal(found, at_fit.iloc[[20]], check_exact=True)


def test_features_can_be_left_out():
    frame = pd.DataFrame({"x": [1.0, -2.0, 3.0], "y": [3.0, 4.0, 5.0], "k": ["a", "b", "a"]})
    recipe = fit(frame, ("abs", "x"), ("/", "x", "y"), ("GroupByThenMean", "y", "k"))
    fewer = recipe.without(["x_over_y", "GroupByThenMean(y,k)"])
    assert (fewer.formulas, [i.name for i in fewer.inputs]) == (["abs(x)"], ["x"])
    pd.testing.assert_frame_equal(fewer.transform(frame[["x"]]), recipe.transform(frame)[["abs_x"]])
    assert recipe.without([]).names == recipe.names
    assert recipe.without("abs_x").formulas == ["(x/y)", "GroupByThenMean(y,k)"]
    assert not recipe.without(recipe.names).inputs
    with pytest.raises(RecipeError, match=r"^the recipe has no feature 'abs_y'; did you mean 'abs_x'\?$"):
        recipe.without(["abs_y"])


# --- what is saved -----------------------------------------------------------------------------------------


def test_labels_that_only_rows_outside_the_fit_have_are_not_in_the_file(tmp_path):
    frame = pd.DataFrame(
        {"k": ["a", "b", "a", "secret"], "o": [1.0, 2.0, 1.0, 987654.0], "x": [0.5, 1.5, 2.5, 123456.0]}
    )
    table = encode(frame, np.arange(3), kinds={"o": "ordinal", "x": "numerical"})
    names = [("GroupByThenMean", "x", "k"), ("GroupByThenRank", "x", "o"), ("freq", "x"), ("freq", "o"),
             ("Combine", "k", "o"), ("CombineThenFreq", "k", "o"),
             ("GroupByThenNUnique", "o", "k")]  # fmt: skip
    chosen = [(Apply(n, leaves(*i)), OPERATORS[n], 1.0, 1.0) for n, *i in names]
    text = fit_recipe("n", "k", table.take(np.arange(3)), chosen).save(tmp_path / "r.json").read_text("utf-8")
    assert not any(word in text for word in ("secret", "987654", "123456"))
    assert "secret" in fit_recipe("n", "k", table, chosen).save(tmp_path / "all.json").read_text("utf-8")


def test_large_states_go_to_a_table_beside_the_file(tmp_path):
    n = LARGE + 5
    rng = np.random.default_rng(0)
    mixed = [float(i) if i % 3 else f"t{i}" for i in range(n)]
    frame = pd.DataFrame({"k": pd.Series(mixed, dtype=object), "x": rng.normal(size=n)})
    frame.loc[:2, "x"] = [np.nan, np.inf, -np.inf]
    recipe = fit(frame, ("freq", "k"), ("GroupByThenMean", "x", "k"), ("Combine", "k", "x"), ("abs", "x"),
                 kinds={"x": "ordinal"})  # fmt: skip
    path = recipe.save(tmp_path / "deep" / "r.json")
    assert sorted(p.name for p in path.parent.iterdir()) == ["r.json", "r.parquet"]
    assert path.stat().st_size < 10_000
    moved = path.parent.rename(tmp_path / "moved")
    loaded = Recipe.load(moved / "r.json")
    assert_same_recipe(loaded, recipe)
    pd.testing.assert_frame_equal(loaded.transform(frame), recipe.transform(frame), check_exact=True)


def test_a_table_beside_the_file_replaces_no_other_file(tmp_path):
    frame = pd.DataFrame({"k": [f"c{i}" for i in range(LARGE + 5)]})
    recipe = fit(frame, ("freq", "k"))
    pd.DataFrame({"id": [1]}).to_parquet(tmp_path / "customers.parquet")
    (tmp_path / "notes.parquet").write_text("no table")
    for name in ("customers.json", "customers.parquet", "notes.json"):
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(RecipeError, match=r"\.parquet', for the recipe's large tables, is another file"):
            recipe.save(tmp_path / name)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    for _ in range(2):
        recipe.save(tmp_path / "r.json")


def test_a_state_without_a_part_is_one_line(tmp_path):
    path = fit(invented(), ("freq", "text")).save(tmp_path / "r.json")
    document = json.loads(path.read_text("utf-8"))
    state = document["features"][0]["state"]
    lacking = list(state)[-1]
    del state[lacking]
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(RecipeError, match=rf"is damaged: .* 'freq' has no '{lacking}'"):
        Recipe.load(path)


def test_truth_values_are_no_numbers_in_any_order():
    values = [1, "1", True, None, 0, False, True, np.bool_(True)]
    learned = pd.DataFrame({"k": pd.Series(values, dtype=object)})
    recipe = fit(learned, ("freq", "k"))
    rng = np.random.default_rng(0)
    expected = np.array([1, 1, 3, np.nan, 1, 1, 3, 3])
    for _ in range(5):
        rows = rng.permutation(len(values))[: rng.integers(1, 9)]
        for found in (recipe.transform, lambda frame: in_python(recipe, frame)):
            np.testing.assert_array_equal(found(learned.iloc[rows]).iloc[:, 0], expected[rows])


def test_the_file_says_what_it_holds(tmp_path):
    frame = invented()
    document = json.loads(fit(frame, ("/", "x", "single")).save(tmp_path / "r.json").read_text("utf-8"))
    (feature,) = document["features"]
    assert document["recipe_version"] == 2
    assert feature["formula"] == "(x/single)"
    assert feature["operator"] == {"name": "/", "parameters": {}, "version": OPERATORS["/"].version}
    assert [(i["name"], i["type"]) for i in document["inputs"]] == [("x", "float64"), ("single", "float32")]


def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    frame = invented()
    path = fit(frame, ("abs", "x")).save(tmp_path / "r.json")
    before = path.read_bytes()
    monkeypatch.setattr(Path, "write_text", lambda *a, **k: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        fit(frame, ("sqrt", "x")).save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["r.json"]
    assert path.read_bytes() == before


def test_a_recipe_as_one_document(tmp_path):
    n = LARGE + 5
    frame = pd.DataFrame({"k": [f"t{i}" for i in range(n)], "x": np.arange(float(n))})
    recipe = fit(frame, ("freq", "k"), ("GroupByThenMean", "x", "k"))
    path = tmp_path / "r.json"
    path.write_text(recipe.to_json(), encoding="utf-8")
    assert_same_recipe(Recipe.load(path), recipe)
    small = fit(frame.head(), ("freq", "k"))
    assert small.save(tmp_path / "small.json").read_text("utf-8") == small.to_json()


GOLDEN = Path(__file__).parent / "golden"


def test_a_recipe_of_the_first_version_gives_its_values():
    """It has no distributions; every operator is in it."""
    recipe = Recipe.load(GOLDEN / "recipe-1.json")
    assert {f.operator.name for f in recipe.features} == set(DEFAULT)
    assert all(f.distribution is None for f in recipe.features)
    known = json.loads((GOLDEN / "recipe-1-values.json").read_text("utf-8"))
    found, expected = recipe.transform(pd.DataFrame(known["rows"])), pd.DataFrame(known["values"])
    pd.testing.assert_frame_equal(found, expected, rtol=1e-14, atol=0)


# --- how values are distributed ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "categorical", "expected"),
    [
        ([3, 1, np.nan, 1, 5], False, Distribution(5, 0.2, 3, (1, 1, 2, 3.5, 5))),
        ([np.nan, np.nan], False, Distribution(2, 1, 0)),
        ([], False, Distribution(0, 0, 0)),
        ([2, 0, 2, np.nan], True, Distribution(4, 0.25, 2, (), ((2, 2), (0, 1)))),
        ([6, 5, 4, 3, 2, 1, 6], True, Distribution(7, 0, 6, (), ((6, 2), (1, 1), (2, 1), (3, 1), (4, 1)))),
        ([np.nan], True, Distribution(1, 1, 0)),
    ],
)
def test_a_distribution(values, categorical, expected):
    found = Distribution.of(np.array(values, dtype=np.float64), categorical=categorical)
    assert found == expected
    assert Distribution.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_distributions_are_kept_with_the_recipe(tmp_path):
    frame = invented()
    recipe, at_fit = fit_every_operator(frame)
    recipe = described(recipe, encode(frame, np.arange(len(frame))))
    for feature in recipe.features:
        values, found = at_fit[feature.name], feature.distribution
        assert (found.count, found.distinct) == (len(frame), values.nunique())
        assert found.missing == pytest.approx(values.isna().mean())
        if feature.labels is None:
            np.testing.assert_array_equal(found.quartiles, values.quantile([0, 0.25, 0.5, 0.75, 1]))
    loaded = Recipe.load(recipe.save(tmp_path / "r.json"))
    assert [f.distribution for f in loaded.features] == [f.distribution for f in recipe.features]


# --- files that are no recipes -----------------------------------------------------------------------------


def test_an_absent_file(tmp_path):
    with pytest.raises(RecipeError, match=r"^there is no recipe '.*r\.json'$"):
        Recipe.load(tmp_path / "r.json")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"null", b"{}", b"\xff\xfe\x00", b"PAR1", b'"recipe_version"']
)
def test_a_file_that_is_something_else(content, tmp_path):
    path = tmp_path / "r.json"
    path.write_bytes(content)
    with pytest.raises(RecipeError, match="is no recipe") as error:
        Recipe.load(path)
    assert "\n" not in str(error.value)


def test_a_folder_stands_for_its_recipe(tmp_path):
    with pytest.raises(RecipeError, match=r"there is no recipe '.*recipe\.json'"):
        Recipe.load(tmp_path)
    recipe = fit(invented(), ("abs", "x"))
    recipe.save(tmp_path / "recipe.json")
    assert_same_recipe(Recipe.load(tmp_path), recipe)


@pytest.mark.parametrize("version", [3, 0, "1", None])
def test_another_version(version, tmp_path):
    path = fit(invented(), ("abs", "x")).save(tmp_path / "r.json")
    document = json.loads(path.read_text("utf-8")) | {"recipe_version": version}
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(
        RecipeError, match=f"has recipe version {version}; this scopefe reads versions 1 to 2"
    ):
        Recipe.load(path)


def change(*path: Any, to: Any) -> Any:
    def changed(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = to

    return changed


DAMAGES = {
    "no features": lambda d: d.pop("features"),
    "no inputs": lambda d: d.pop("inputs"),
    "features that are none": change("features", to=[1]),
    "features that are no list": change("features", to=3),
    "an input without a kind": lambda d: d["inputs"][0].pop("kind"),
    "an input that is not listed": change("inputs", to=[]),
    "an unknown kind": change("inputs", 0, "kind", to="colour"),
    "no expression": change("features", 0, "expression", to={}),
    "an expression that is a leaf": change("features", 0, "expression", to={"feature": "x"}),
    "an expression of one input": change("features", 0, "expression", "arguments", to=[{"feature": "x"}]),
    "a nested expression": change("features", 0, "expression", "arguments", 0,
                                  to={"operator": "abs", "arguments": [{"feature": "x"}]}),
    "text among numbers": change("features", 0, "state", "values", "values", to=["a"]),
    "no such type": change("features", 0, "state", "values", "dtype", to="float1"),
    "a state without values": change("features", 0, "state", "values", to={}),
    "values that are no list": change("features", 0, "state", "values", "values", to=None),
    "an unknown parameter": change("features", 0, "operator", "parameters", to={"p": 1}),
    "a table that is not there": change("tables", to="absent.parquet"),
    "a table that is none": change("tables", to="r.json"),
    "a distribution of something else": change("features", 0, "distribution", to={"count": 1}),
    "an infinity of words": change("features", 0, "state", "values", "values", to=[{"inf": "x"}]),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_one_clear_line(damage, tmp_path):
    path = fit(invented(), ("GroupByThenMean", "x", "text")).save(tmp_path / "r.json")
    document = json.loads(path.read_text("utf-8"))
    DAMAGES[damage](document)
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(RecipeError, match=r"r\.json") as error:
        Recipe.load(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_missing_is_what_the_library_calls_it(library):
    frame = invented()
    frame["b"] = np.arange(len(frame)) % 3.0
    recipe = fit(frame, ("/", "x", "b"))
    wanted = recipe.transform(frame).iloc[:, 0].isna().sum()
    assert wanted
    if library == "polars":
        column = recipe.transform(pytest.importorskip("polars").from_pandas(frame[["x", "b"]])).to_series()
        assert column.null_count() == wanted == len(column) - len(column.drop_nulls().drop_nans())
    elif library == "pyarrow":
        assert recipe.transform(pa.Table.from_pandas(frame[["x", "b"]])).column(0).null_count == wanted


STATES = {
    "freq: a label less": ("freq", lambda s: s["labels"]["values"].pop()),
    "freq: a label twice": ("freq", lambda s: s["labels"].update(values=["a"] * len(s["labels"]["values"]))),
    "freq: a count below 0": ("freq", change("counts", "values", 0, to=-1)),
    "mean: a value more": ("GroupByThenMean", lambda s: s["values"]["values"].append(1.0)),
    "mean: values that are whole": ("GroupByThenMean", change("values", "dtype", to="int64")),
    "rank: starts too large": ("GroupByThenRank", change("starts", "values", -1, to=10**9)),
    "rank: starts that descend": ("GroupByThenRank", lambda s: s["starts"]["values"].reverse()),
    "rank: a label more": ("GroupByThenRank", lambda s: s["labels"]["values"].append("new")),
    "rank: values that descend": ("GroupByThenRank", lambda s: s["values"]["values"].reverse()),
    "pairs: a code of a million": ("Combine", change("left", "values", 0, to=10**6)),
    "pairs: a code below 0": ("Combine", change("left", "values", 0, to=-(10**6))),
    "pairs: a label less": ("CombineThenFreq", lambda s: s["left_labels"]["values"].pop()),
    "pairs: a pair twice": (
        "Combine",
        lambda s: [s[k]["values"].append(s[k]["values"][0]) for k in s if "_" not in k],
    ),
    "a state of an operator without one": ("abs", change("values", to={"dtype": "int64", "values": [1]})),
    "numbers beyond their type": ("freq", change("counts", "values", 0, to=10**30)),
}


@pytest.mark.parametrize("damage", STATES)
def test_a_state_that_does_not_fit_is_refused(damage, tmp_path):
    name, spoil = STATES[damage]
    inputs = {"abs": ["x"], "freq": ["text"]}.get(name, ["x", "text"] if "Group" in name else ["text", "m"])
    frame = invented().assign(m=lambda f: pd.Series(list("uvw") * len(f))[: len(f)].to_numpy())
    path = fit(frame, (name, *inputs)).save(tmp_path / "r.json")
    document = json.loads(path.read_text("utf-8"))
    spoil(document["features"][0]["state"])
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(RecipeError, match=r"r\.json' is damaged: "):
        Recipe.load(path)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A recipe of every operator that learns, as JSON, its file and its table."""
    frame = invented().assign(m=lambda f: pd.Series(list("uvw") * len(f))[: len(f)].to_numpy())
    chosen = [("abs", "x"), ("freq", "text"), ("Combine", "text", "m")]
    chosen += [("CombineThenFreq", "text", "m"), ("GroupByThenNUnique", "text", "m")]
    chosen += [("GroupByThenRank", "x", "text"), ("GroupByThenMedian", "x", "text")]
    path = fit(frame, *chosen).save(tmp_path_factory.mktemp("sound") / "r.json")
    return json.loads(path.read_text("utf-8")), path, frame


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a JSON document holds something; of lists the first ones."""
    if place:
        yield place
    children = (
        value.items() if isinstance(value, dict) else enumerate(value[:4]) if isinstance(value, list) else ()
    )
    for key, child in children:
        yield from places(child, (*place, key))


ODD = [
    None,
    -1,
    10**6,
    10**30,
    "x",
    "",
    [],
    {},
    [[1]],
    1.5,
    True,
    {"inf": 1},
    "int8",
    "object",
    "S4",
    "label",
]


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_whatever_is_damaged_is_refused_or_does_no_harm(sound, data):
    document, path, frame = copy.deepcopy(sound[0]), sound[1], sound[2]
    *above, last = data.draw(st.sampled_from(list(places(document))))
    part = document
    for step in above:
        part = part[step]
    how = data.draw(st.sampled_from(["another", "gone", "twice", "one less"]))
    if how == "another":
        part[last] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
    elif how == "gone":
        del part[last]
    elif isinstance(part[last], list):
        part[last] = part[last] * 2 if how == "twice" else part[last][:-1]
    bad = path.with_name("bad.json")
    bad.write_text(json.dumps(document), "utf-8")
    with contextlib.suppress(RecipeError):
        assert len(Recipe.load(bad).transform(frame)) == len(frame)


def test_an_operator_of_ones_own_needs_its_module(tmp_path):
    own = tmp_path / "own.py"
    own.write_text(
        "from scopefe import NUM, operator\n\n"
        "@operator('power [n]', takes=(NUM,))\n"
        "def power(x, *, n: int = 2):\n    return x ** n\n",
        encoding="utf-8",
    )
    frame = pd.DataFrame({"x": [2.0, 3.0]})
    operator = components([own]).operators["power [n]"].bind({"n": 3})
    table = encode(frame, np.arange(2))
    recipe = fit_recipe("n", "k", table, [(Apply(operator.name, leaves("x")), operator, 1.0, 1.0)])
    path = recipe.save(tmp_path / "r.json")
    with pytest.raises(RecipeError, match=r"needs an operator of yours, 'power .*name its module"):
        Recipe.load(path)
    loaded = Recipe.load(path, modules=[str(own)])
    assert loaded.transform(frame).iloc[:, 0].tolist() == [8, 27]
    assert_same_recipe(loaded, recipe)


def test_what_is_no_frame_is_refused():
    recipe = Recipe("n", (), (), "k")
    with pytest.raises(
        RecipeError, match="must be a pandas, polars or pyarrow frame, not dict: a row becomes one by"
    ):
        recipe.transform({"x": 1.0})
