"""Names of new columns: plain identifiers, whatever columns and operators are called."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_recipe import fit

import scopefe
from scopefe import Recipe
from scopefe.data.frames import codes_of
from scopefe.recipe.naming import LONGEST, column_names
from scopefe.space.expression import Apply, Leaf

PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
AWKWARD = ["", "a", "A", "a b", "a_b", "a,b", 'say "x"', "it's", "[1] <2>", "长度", "größe", "Größe",
           "2nd", "a" * 80, "a" * 79 + "b", "freq_a", "FREQ_A", "\u212a", "\ud800", "😀", "x\ny", "a+b",
           "__"]  # fmt: skip
OPERATORS = ["freq", "+", "-", "*", "/", "GroupByThenMean", "GroupByThenQuantile[q=0.75]", "log|a|", "9",
             "名"]  # fmt: skip

columns = st.sampled_from(AWKWARD) | st.text(max_size=20)


@st.composite
def expressions(draw: st.DrawFn) -> tuple[list[str], list[Apply]]:
    """Return names of a table's columns, and different expressions of them."""
    names = draw(st.lists(columns, min_size=1, max_size=6, unique=True))
    leaf = st.sampled_from(names).map(Leaf)
    operators = st.sampled_from(OPERATORS) | st.text(min_size=1, max_size=20)
    made = st.builds(Apply, operators, st.lists(leaf, min_size=1, max_size=3).map(tuple))
    return names, draw(st.lists(made, max_size=12, unique=True))


@settings(max_examples=300, deadline=None)
@given(expressions())
def test_names_are_identifiers_that_differ_by_more_than_case(drawn):
    taken, made = drawn
    names = column_names(made, taken)
    assert len(names) == len(made)
    assert all(PLAIN.fullmatch(name) and len(name.encode()) <= LONGEST for name in names)
    assert len({name.lower() for name in names} | {name.casefold() for name in taken}) == (
        len(names) + len({name.casefold() for name in taken})
    )
    assert column_names(made, taken) == names
    assert column_names(made[::-1], taken) == names[::-1]


@pytest.mark.parametrize(
    ("operator", "inputs", "name"),
    [
        ("/", ["length", "diameter"], "length_over_diameter"),
        ("+", ["a", "b"], "a_plus_b"),
        ("-", ["a", "b"], "a_minus_b"),
        ("*", ["a", "b"], "a_times_b"),
        ("freq", ["shell_weight"], "freq_shell_weight"),
        ("GroupByThenRank", ["diameter", "height"], "GroupByThenRank_diameter_height"),
        ("GroupByThenQuantile[q=0.75]", ["area", "heating"], "GroupByThenQuantile_q_0_75_area_heating"),
        ("freq", ["when.month"], "freq_when_month"),
        ("freq", ["__Größe, in m²__"], "freq_Gro_e_in_m2"),
        ("freq", ["长度"], "freq_x"),
        ("/", ["2nd", "1st"], "x2nd_over_1st"),
    ],
)
def test_a_name_says_what_the_feature_is(operator, inputs, name):
    assert column_names([Apply(operator, tuple(map(Leaf, inputs)))], inputs) == [name]


def test_only_names_that_are_too_long_or_taken_have_a_suffix():
    made = [Apply("abs", (Leaf(c),)) for c in ("x", "a b", "a_b", "y", "l" * 80)]
    first, spaced, scored, taken, long = column_names(made, ["ABS_Y", "x"])
    assert first == "abs_x"
    assert re.fullmatch(r"abs_a_b_[0-9a-f]{6}", spaced) and re.fullmatch(r"abs_a_b_[0-9a-f]{6}", scored)
    assert re.fullmatch(r"abs_y_[0-9a-f]{6}", taken)
    assert re.fullmatch(r"abs_l+_[0-9a-f]{6}", long) and len(long) == LONGEST
    assert column_names(made, ["ABS_Y", taken])[3] != taken


def test_one_expression_twice_has_two_names():
    made = [Apply("+", (Leaf("a"), Leaf("b")), True), Apply("+", (Leaf("b"), Leaf("a")), True)] * 2
    assert len(set(column_names(made, []))) == 4


# --- what takes them


def awkward(n: int = 120) -> pd.DataFrame:
    """A table with columns of difficult names, and one that has the name of a feature."""
    rng = np.random.default_rng(0)
    names = ['say "x", y', "[1] <2>", "长度", "a b", "a_b", "A_B", "l" * 80]
    frame = pd.DataFrame(rng.normal(size=(n, len(names))), columns=names)
    return frame.assign(freq_K=1.0, k=rng.choice(["u", "v", "w"], n))


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    asked = [("/", 'say "x", y', "[1] <2>"), ("+", "长度", "a b"), ("abs", "a b"), ("abs", "a_b"),
             ("abs", "A_B"), ("GroupByThenMean", "l" * 80, "k"), ("freq", "k"), ("-", "长度", "长度"),
             ("Combine", "k", "k")]  # fmt: skip
    return fit(awkward(), *asked)


@pytest.fixture
def new(recipe: Recipe) -> pd.DataFrame:
    return recipe.transform(awkward())


def test_they_lead_back_to_the_formulas(recipe, new):
    assert list(recipe.names) == list(new)
    assert list(recipe.names.values()) == recipe.formulas
    assert recipe.names["say_x_y_over_1_2"] == '(say "x", y/[1] <2>)'


LEARNERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "lightgbm": ("LGBMRegressor", {"n_estimators": 3, "num_threads": 1, "verbose": -1}, "feature_name_"),
    "xgboost": (
        "XGBRegressor",
        {"n_estimators": 3, "n_jobs": 1, "enable_categorical": True},
        "feature_names_in_",
    ),
    "catboost": (
        "CatBoostRegressor",
        {"iterations": 3, "thread_count": 1, "verbose": False, "allow_writing_files": False},
        "feature_names_",
    ),
}


@pytest.mark.parametrize("package", LEARNERS)
def test_learners_take_them(package, new):
    kind, options, names = LEARNERS[package]
    model = getattr(pytest.importorskip(package), kind)(**options)
    new = codes_of(new) if package == "catboost" else new  # which takes no missing categories
    model.fit(new, np.arange(len(new), dtype=float))
    assert list(getattr(model, names)) == list(new)
    assert len(model.predict(new)) == len(new)


def test_queries_take_them(new):
    for name in new:
        assert new.query(f"{name} == {name}").equals(new[new[name].notna()])


def test_databases_take_them_without_quotes(recipe, new):
    duckdb, new = pytest.importorskip("duckdb"), codes_of(new)
    with duckdb.connect() as connection:
        connection.register("given", new)
        typed = ", ".join(f"{name} DOUBLE" for name in new)
        connection.execute(f"CREATE TABLE made ({typed}); INSERT INTO made SELECT * FROM given")
        found = connection.execute(f"SELECT {', '.join(new)} FROM made").df()
    pd.testing.assert_frame_equal(found, new)


def test_a_query_s_columns_are_found_without_quotes(recipe):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("sqlglot")
    frame = awkward().drop(columns="A_B")  # to DuckDB, that is a_b
    recipe = replace(
        recipe.without("abs(A_B)"), originals=tuple(o for o in recipe.originals if o.name != "A_B")
    )
    query = scopefe.to_sql(recipe).rstrip(";\n")
    with duckdb.connect() as connection:
        connection.register("data", frame)
        found = connection.execute(f"SELECT {', '.join(recipe.names)} FROM ({query})").df()
    assert list(found) == list(recipe.names)


def test_files_keep_them(new, tmp_path):
    new.to_parquet(tmp_path / "new.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "new.parquet"), new)


# --- what else has a name


def test_no_name_is_that_of_a_column_which_is_no_feature():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 2)), columns=["a", "b"])
    frame = frame.assign(A_Times_B=1.0, a_plus_b=frame["a"] * frame["b"], a_minus_b="left out")
    spec = {
        "extends": "openfe",
        "name": "taken",
        "data": {
            "source": {"type": "frame"},
            "target": "a_plus_b",
            "features": {"drop": ["a_minus_b", "A_Times_B"]},
        },
        "operators": {"use": ["+", "-", "*"]},
        "selection": {"keep": "all"},
        "evaluation": {"seeds": 0},
    }  # fmt: skip
    run = scopefe.execute(
        scopefe.load_spec(spec, overrides=["baseline.max_trees=5"]), data=frame, write=False
    )
    assert set(run.recipe.formulas) == {"(a+b)", "(a-b)", "(a*b)"}
    for name in run.recipe.names:
        assert re.fullmatch(r"a_(plus|minus|times)_b_[0-9a-f]{6}", name)
    assert [s.name for s in run.report.selection.selected] == list(run.recipe.names)
