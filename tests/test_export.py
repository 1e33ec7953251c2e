"""Recipes elsewhere: SQL and Python that give what transform gives."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scopefe.operators import DEFAULT
from test_recipe import NAMES, SOURCES, fit, fit_every_operator, frame_of, in_python, invented, leaves

import scopefe
from scopefe import CAT, NUM, ComponentError, Lookup, Recipe, RecipeError, RunError, to_python
from scopefe.data.frames import codes_of
from scopefe.data.kinds import encode
from scopefe.export.python import write_python
from scopefe.recipe.arrays import LARGE
from scopefe.recipe.fitting import fit_recipe
from scopefe.registry import Components, collecting, operator
from scopefe.space.expression import Apply

# In units of the last place: databases compute these otherwise than numpy.
INEXACT = {"log": 2, "sigmoid": 4, "own[n=3]": 4}
DIALECTS = ("duckdb", "postgres", "bigquery", "snowflake")
UNSEEN = ["never seen", None, "", 'it\'s "odd"; \\ --', "é", "true", "nan", None]
NUMBERS = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e300, 0.1, -1e300]


def to_sql(*args: Any, **options: Any) -> str:
    pytest.importorskip("sqlglot")
    return scopefe.to_sql(*args, **options)


def in_duckdb(recipe: Recipe, frame: pd.DataFrame, **options: Any) -> pd.DataFrame:
    """Run a recipe's SQL on a frame; the values in the order of its rows."""
    connection = pytest.importorskip("duckdb").connect()
    connection.execute("SET threads = 1")
    connection.execute(f"SET TimeZone = '{options.pop('zone', 'UTC')}'")
    connection.register(
        options.pop("register", "data"), frame.assign(**{"row number": np.arange(len(frame))})
    )
    found = connection.execute(to_sql(recipe, keep=["row number"], **options)).df()
    return found.sort_values("row number", ignore_index=True).drop(columns="row number").astype(np.float64)


def assert_same_everywhere(recipe: Recipe, frame: pd.DataFrame, **options: Any) -> None:
    whole = recipe.transform(frame)
    pd.testing.assert_frame_equal(in_python(recipe, frame), whole, check_exact=True)
    found, expected = in_duckdb(recipe, frame, **options), codes_of(whole)
    assert list(found.columns) == list(expected.columns)
    single = {i.name for i in recipe.inputs if i.single}
    for feature in recipe.features:
        ours, theirs = expected[feature.name].to_numpy(), found[feature.name].to_numpy()
        unit = np.finfo(np.float32 if set(feature.inputs) <= single else np.float64).eps
        places = INEXACT.get(feature.operator.name, 0)
        np.testing.assert_allclose(
            theirs, ours, rtol=places * unit, atol=places * 1e-300, err_msg=feature.name
        )


def hostile(frame: pd.DataFrame) -> pd.DataFrame:
    """Return rows with missing, unseen and infinite values in every column of a frame."""

    def column(series: pd.Series[Any]) -> pd.Series[Any]:
        if pd.api.types.is_bool_dtype(series.dtype):
            return pd.Series([True, None, False, None, True, True, False, True], dtype="boolean")
        if not pd.api.types.is_numeric_dtype(series.dtype):
            return pd.Series(UNSEEN, dtype=object)
        with np.errstate(over="ignore"):
            return pd.Series(np.array(NUMBERS).astype(series.dtype if series.dtype.kind == "f" else float))

    return pd.DataFrame({name: column(frame[name]) for name in frame})


# --- the values of transform -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SOURCES)
def test_every_operator_everywhere(name, seed):
    frame = frame_of(name)
    learned = frame.iloc[:250]
    recipe, at_fit = fit_every_operator(learned, seed)
    assert {f.operator.name for f in recipe.features} == set(DEFAULT)
    pd.testing.assert_frame_equal(codes_of(recipe.transform(learned)), at_fit, check_exact=True)
    assert_same_everywhere(recipe, frame)
    assert_same_everywhere(recipe, hostile(frame))


def test_tables_beside_the_select_give_the_same():
    frame = invented(1500)
    recipe = fit(frame, ("GroupByThenRank", "x", "text"), ("freq", "flag"), ("abs", "x"))
    text = to_sql(recipe, create_tables=True)
    assert (text.count("CREATE TABLE"), text.count("INSERT INTO")) == (2, 3)
    assert text.index("WITH") > text.rindex("INSERT INTO")
    assert_same_everywhere(recipe, frame, create_tables=True)


def test_a_number_that_stands_on_no_step_of_its_group():
    frame = pd.DataFrame({"x": [1.0, 2.0, 2.0, 4.0, 3.0, np.nan, -np.inf], "k": list("aaaabcc")})
    recipe = fit(frame, ("GroupByThenRank", "x", "k"), kinds={"x": "numerical"})
    new = pd.DataFrame({"x": [0.0, 1.0, 1.5, 2.0, 9.0, 3.0, 3.5, -np.inf, 1.0, np.inf, np.nan, 1.0],
                        "k": ["a", "a", "a", "a", "a", "b", "b", "c", "c", "c", "a", None]})  # fmt: skip
    assert recipe.transform(new).iloc[:5, 0].tolist() == [0.125, 0.25, 0.375, 0.625, 1]
    assert_same_everywhere(recipe, new)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["b", None, "b", "a"], "categorical"),
        ([2.0, np.nan, 1.5, 2.0], "categorical"),
        ([2.0, np.nan, 1.5, 2.0], "ordinal"),
        ([1, 2, 2, 3], "categorical"),
        ([True, False, True, True], "categorical"),
    ],
)
@pytest.mark.parametrize("missing_as", [None, "none", "b"])
def test_missing_values_that_are_a_category(values, kind, missing_as):
    frame = pd.DataFrame({"k": values, "x": [1.0, 2.0, 4.0, 8.0], "o": ["u", "v", "u", "u"]})
    names = [("GroupByThenMean", "x", "k"), ("freq", "k"), ("CombineThenFreq", "k", "o"),
             ("GroupByThenRank", "x", "k"), ("Combine", "o", "k")]  # fmt: skip
    kinds = {"k": kind, "x": "numerical"}
    recipe = fit(frame, *names, kinds=kinds, missing_as=missing_as)
    assert_same_everywhere(recipe, frame)
    assert_same_everywhere(recipe, hostile(frame).assign(o="u"))
    without = fit(frame.dropna(), *names, kinds=kinds, missing_as=missing_as)
    assert_same_everywhere(without, frame)


def test_truth_values_given_as_numbers():
    frame = pd.DataFrame({"k": [True, True, False, None], "x": [1.0, 2.0, 4.0, 8.0]})
    recipe = fit(frame, ("freq", "k"), ("GroupByThenMean", "x", "k"))
    assert_same_everywhere(recipe, frame.assign(k=pd.array([1, 0, 1, None], dtype="Int64")))


def test_nothing_but_missing_values_was_learned():
    frame = pd.DataFrame({"k": pd.Series([None, None], dtype=object), "x": [1.0, np.nan]})
    recipe = fit(frame, ("freq", "k"), ("GroupByThenMax", "x", "k"), ("Combine", "k", "x"),
                 kinds={"x": "ordinal"})  # fmt: skip
    assert_same_everywhere(recipe, pd.DataFrame({"k": ["a", None], "x": [1.0, 2.0]}))
    assert_same_everywhere(recipe, pd.DataFrame({"k": ["a", None], "x": [1.0, 2.0]}), create_tables=True)


def test_numbers_in_text_and_categories_of_many_types_in_exported_python():
    frame = pd.DataFrame({"k": [1.0, "1", True, None, 2, "b"], "x": list("123456")}, dtype=object)
    frame["when"] = pd.to_datetime(["2020", None, "2021", "2021", "2022", "2020"])
    frame["c"] = pd.Categorical([2, 1, 2, None, 1, 1], categories=[3, 2, 1])
    recipe = fit(frame, ("freq", "k"), ("freq", "when"), ("freq", "c"), ("GroupByThenMean", "x", "k"),
                 kinds={"x": "numerical", "k": "categorical", "c": "categorical"})  # fmt: skip
    pd.testing.assert_frame_equal(in_python(recipe, frame), recipe.transform(frame), check_exact=True)
    renamed = frame.set_axis([7, "x", "when", "c"], axis=1)
    with pytest.raises(ValueError, match="the table has no column named 'k'"):
        in_python(recipe, renamed)
    with pytest.raises(ValueError, match="the table has two columns named 'k'"):
        in_python(recipe, frame.set_axis(["k", "x", "when", "k"], axis=1))


# --- names -------------------------------------------------------------------------------------------------

IN_A_DATABASE = [n for n in NAMES if n.strip() and "\x00" not in n]


@pytest.mark.parametrize(
    "name", [*IN_A_DATABASE, "select", "x1", "f1", "i", "scopefe_1", "a'b", "keep1", "--"]
)
def test_a_column_and_a_category_of_any_name(name):
    frame = pd.DataFrame({name: [1.0, 2.0, 5.0], "b": [0.5, 4.0, 2.0], "key1": [name, name, "'); --"]})
    recipe = fit(frame, ("-", name, "b"), ("GroupByThenMax", name, "key1"), ("freq", "key1"))
    assert_same_everywhere(recipe, frame)
    expected = ["id", *(f.name for f in recipe.features)]
    for dialect in DIALECTS:
        text = to_sql(recipe, dialect=dialect, keep=["id"])
        select = parsed(text, dialect)[-1]
        if dialect == "duckdb" or (dialect != "bigquery" and len(name) < 40):
            assert select.named_selects == expected
        assert name in literals(select)
        assert name in {i.this for i in select.find_all(sqlglot().exp.Identifier)}


def sqlglot() -> Any:
    return pytest.importorskip("sqlglot")


def parsed(text: str, dialect: str) -> list[Any]:
    return [statement for statement in sqlglot().parse(text, read=dialect) if statement is not None]


def literals(statement: Any) -> set[str]:
    return {found.this for found in statement.find_all(sqlglot().exp.Literal) if found.is_string}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("create_tables", [False, True])
def test_every_dialect_is_read_back(dialect, create_tables):
    recipe, _ = fit_every_operator(invented(60))
    statements = parsed(to_sql(recipe, dialect=dialect, create_tables=create_tables), dialect)
    assert len(statements[-1].named_selects) == len(recipe.features)
    tables = sum(f.operator.learns for f in recipe.features)
    assert sum(s.key == "create" for s in statements) == (tables if create_tables else 0)
    levels = list(statements[-1].find_all(sqlglot().exp.CTE))
    assert len(levels) == 2 + (0 if create_tables else tables)
    found = set().union(*map(literals, statements))
    assert {"a", "b", "a_b", "", "é", "u", "v", "inf"} <= found


def test_names_of_older_recipes_that_a_dialect_would_not_take():
    long = "a" * 80
    frame = pd.DataFrame({long: [1.0, 2.0], f"{long}b": [1.0, 3.0], "é": [1.0, 2.0], "è": [3.0, 4.0]})
    recipe = fit(frame, ("abs", long), ("abs", f"{long}b"), ("abs", "é"), ("abs", "è"))
    recipe = replace(recipe, features=tuple(replace(f, name=f.formula) for f in recipe.features))
    names = {d: parsed(to_sql(recipe, dialect=d, keep=["id"]), d)[-1].named_selects for d in DIALECTS}
    assert names["postgres"] == ["id", f"abs({'a' * 59}", f"abs({'a' * 57}_2", "abs(é)", "abs(è)"]
    assert names["bigquery"] == ["id", f"abs_{long}_", f"abs_{long}b_", "abs___", "abs____2"]
    assert names["duckdb"] == names["snowflake"] == ["id", *(f.name for f in recipe.features)]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("houses", "houses"),
        ('"odd name"', "odd name"),
        ("t where 1=1", "t where 1=1"),
        ("main.houses", "houses"),
        ("Scopefe_Inputs", "scopefe_inputs"),
    ],
)
def test_the_name_of_the_table(written, name):
    frame = invented(40)
    recipe = fit(frame, ("freq", "text"), ("abs", "x"))
    assert_same_everywhere(recipe, frame, table=written, register=name)


def test_small_integers_among_too_large_ones():
    large = 2**53 + 1
    frame = pd.DataFrame({"k": [1, 2, 2, large, large + 2, -5] * 4, "x": np.arange(24.0)})
    recipe = fit(frame, ("freq", "k"), ("GroupByThenMean", "x", "k"), kinds={"k": "categorical"})
    assert not recipe.transform(frame).isna().any(axis=None)
    assert_same_everywhere(recipe, frame)


@pytest.mark.parametrize("name", ["a;b", ""])
def test_what_is_no_name_of_a_table(name):
    with pytest.raises(RecipeError, match="is no name of a table in duckdb"):
        to_sql(fit(invented(40), ("abs", "x")), table=name)


# --- what cannot be exported -------------------------------------------------------------------------------


def own_recipe(
    target: Any, frame: pd.DataFrame, *inputs: str, bound: dict[str, Any] | None = None, **declared: Any
) -> Recipe:
    """Fit a recipe of one operator of one's own."""
    with collecting(Components()) as own:
        operator("own", **declared)(target)
    used = own.operators["own"].bind(bound or {})
    chosen = [(Apply(used.name, leaves(*inputs)), used, 1.0, 1.0)]
    return fit_recipe("n", "k", encode(frame, np.arange(len(frame))), chosen)


class Centred:
    """Distance from the mean."""

    def fit(self, x):
        return {"mean": np.nanmean(x, keepdims=True)}

    def apply(self, state, x):
        return x - state["mean"]


def test_operators_that_give_nothing_are_named():
    frame = invented(30)
    recipe = own_recipe(Centred, frame, "x", takes=(NUM,))
    for export, language in ((to_sql, "sql"), (to_python, "python")):
        with pytest.raises(
            RecipeError,
            match=f"^an export needs operators with {language} or a lookup, but 'own' gives neither$",
        ):
            export(recipe)
    two = Recipe(
        "n", (*recipe.features, *own_recipe(Centred, frame, "x", takes=(NUM,)).features), recipe.inputs, "k"
    )
    with pytest.raises(RecipeError, match="but 'own' gives neither"):
        to_python(two)


def power(x, *, n: int = 2):
    """A power."""
    return x**n


@pytest.mark.parametrize("bound", [{}, {"n": 3}, {"n": -1}])
def test_expressions_of_one_s_own_with_parameters(bound):
    recipe = own_recipe(
        power, invented(30), "x", bound=bound, takes=(NUM,), sql="POWER({0}, {n})", python="{0} ** {n}"
    )
    assert_same_everywhere(recipe, invented(60).query("x != 0"))


class Cumulated:
    """Share of the fitted values that are at most as large."""

    def fit(self, x):
        return {"values": np.sort(x[~np.isnan(x)])}

    def apply(self, state, x):
        places = np.searchsorted(state["values"], x, side="right")
        return np.where(np.isnan(x), np.nan, places / len(state["values"]))

    def lookup(self, state):
        known, counts = np.unique(state["values"], return_counts=True)
        return Lookup({}, np.cumsum(counts) / counts.sum(), default=0, lower=(0, known))


class Parity:
    """Whether a number is below the middle, as a category."""

    def fit(self, x):
        return {"edge": np.array([np.nanmedian(x)])}

    def apply(self, state, x):
        return np.where(np.isnan(x), -1, x >= state["edge"])

    def lookup(self, state):
        return Lookup({}, np.array([0, 1]), lower=(0, np.array([-np.inf, state["edge"][0]])))


@pytest.mark.parametrize(("target", "gives"), [(Cumulated, NUM), (Parity, CAT)])
def test_steps_without_keys(target, gives):
    frame = invented(50)
    recipe = own_recipe(target, frame, "x", takes=(NUM,), gives=gives)
    assert_same_everywhere(recipe, frame)
    assert_same_everywhere(recipe, hostile(frame))


def test_sql_that_cannot_be_read():
    recipe = own_recipe(power, invented(30), "x", takes=(NUM,), sql="CASE WHEN {0} THEN")
    with pytest.raises(ComponentError, match=r"^the SQL of operator 'own' cannot be read: [^\n]+$"):
        to_sql(recipe)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"dialect": "postgre"}, ComponentError, "unknown dialect 'postgre'; did you mean 'postgres'?"),
        ({"table": ""}, RecipeError, "'' is no name of a table in duckdb"),
        ({"keep": ["abs_x"]}, RecipeError, "the column to keep 'abs_x' has the name of a feature"),
    ],
)
def test_options_that_do_not_fit(options, error, said):
    with pytest.raises(error, match=f"^{re.escape(said)}$"):
        to_sql(fit(invented(30), ("abs", "x")), **options)


def test_columns_that_a_dialect_does_not_tell_apart():
    frame = pd.DataFrame({"Age": [1.0, 2.0, 3.0], "age": [3.0, 2.0, 1.0], "x": [1.0, 5.0, 2.0]})
    both = fit(frame, ("/", "Age", "age"))
    one, other = fit(frame, ("abs", "age")), fit(frame, ("abs", "x"))
    for dialect in ("duckdb", "bigquery"):
        for recipe, keep in ((both, ()), (one, ()), (other, ("age", "Age"))):
            with pytest.raises(RecipeError, match=f"to {dialect}, the columns '[Aa]ge' and '[Aa]ge' are one"):
                scopefe.to_sql(recipe, dialect=dialect, keep=keep)
    for dialect in ("postgres", "snowflake"):
        assert '"Age"' in scopefe.to_sql(both, dialect=dialect)


@pytest.mark.parametrize("name", ["", "a\x00b"])
def test_columns_that_sql_has_no_name_for(name):
    recipe = fit(pd.DataFrame({name: [1.0, -2.0, 3.0]}), ("abs", name))
    with pytest.raises(RecipeError, match="SQL has no name for the column"):
        scopefe.to_sql(recipe)


def test_a_recipe_without_features():
    recipe = fit(invented(30))
    with pytest.raises(RecipeError, match=r"^the recipe has no features$"):
        to_sql(recipe)
    assert in_python(recipe, invented(30)).shape == (30, 0)


def test_sqlglot_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    monkeypatch.delitem(sys.modules, "scopefe.export.query", raising=False)
    recipe = fit(invented(30), ("abs", "x"))
    with pytest.raises(RunError, match=r"^an export to SQL needs sqlglot: pip install 'scopefe\[sql\]'$"):
        scopefe.to_sql(recipe)


# --- files -------------------------------------------------------------------------------------------------


def test_a_module_needs_numpy_and_pandas_only(tmp_path):
    n = LARGE + 5
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"k": [float(i) if i % 3 else f"t{i}\x00" for i in range(n)], "x": rng.normal(size=n)}
    )
    recipe = fit(frame, ("freq", "k"), ("GroupByThenMean", "x", "k"), ("GroupByThenRank", "x", "k"),
                 ("abs", "x"))  # fmt: skip
    assert "large(" not in to_python(recipe).partition("LOOKUPS = {")[2]
    path = write_python(recipe, tmp_path / "deep" / "features.py")
    assert sorted(p.name for p in path.parent.iterdir()) == ["features.npz", "features.py"]
    assert path.stat().st_size < 20_000
    part = frame.iloc[::97]
    part.to_pickle(tmp_path / "in")
    places = f"{str(tmp_path / 'in')!r}", f"{str(tmp_path / 'out')!r}"
    code = (
        "import sys, pandas, features\n"
        f"features.transform(pandas.read_pickle({places[0]})).to_pickle({places[1]})\n"
        "assert 'scopefe' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=path.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    pd.testing.assert_frame_equal(
        pd.read_pickle(tmp_path / "out"), codes_of(recipe.transform(part)), check_exact=True
    )


def test_an_export_that_fails_leaves_nothing(tmp_path):
    recipe = own_recipe(Centred, invented(30), "x", takes=(NUM,))
    with pytest.raises(RecipeError):
        write_python(recipe, tmp_path / "features.py")
    assert not list(tmp_path.iterdir())
