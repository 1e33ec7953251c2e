"""The built-in operators: the openfe package's values, rules for new rows, one row alone as in a batch."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pandas as pd
import pytest
from conftest import find_data_folder, needs_data
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scopefe.operators import DEFAULT, kernels
from scopefe.operators.kernels import kernel

from scopefe import CAT, NUM, Keys, jit
from scopefe.components import Operator
from scopefe.data.kinds import encode, encode_column
from scopefe.registry import Components, collecting, components, operator
from scopefe.score.featureboost import compute
from scopefe.space.universe import Universe

OPERATORS = components().operators
NAN, INF = np.nan, np.inf
ROWS = 600

PACKAGE = """
import pickle, sys
from openfe.FeatureGenerator import FNode, Node

with open(sys.argv[1], "rb") as file:
    tables = pickle.load(file)
values = {
    table: [Node(name, [FNode(i) for i in inputs]).calculate(frame) for name, inputs in candidates]
    for table, (frame, candidates) in tables.items()
}
values = {table: [v.to_numpy(dtype="float64") for v in found] for table, found in values.items()}
with open(sys.argv[2], "wb") as file:
    pickle.dump(values, file)
"""
REAL = {
    "adult": ["age", "workclass", "capital-gain", "occupation"],
    "telecom": ["MonthlyRevenue", "PercChangeMinutes", "RoamingCalls", "CreditRating"],
    "california_housing": ["MedInc", "HouseAge", "Latitude"],
    "diabetes130": ["race", "num_lab_procedures", "patient_nbr"],
    "nomao": ["V1", "V7", "V8"],
}


# --- the package's values ----------------------------------------------------------------------------------


def roughened(frame: pd.DataFrame) -> pd.DataFrame:
    """Add columns with missing, infinite, zero and negative numbers, missing text and text of numbers."""
    frame, n = frame.copy(), len(frame)
    rng = np.random.default_rng(7)
    first = frame.select_dtypes("number").iloc[:, 0]
    rough = first.astype(np.result_type(first.dtype, np.float32)).to_numpy().copy()
    at = rng.permutation(n)
    rough[at[:60]], rough[at[60:64]], rough[at[64:68]] = NAN, INF, -INF
    rough[at[68:200]], rough[at[200:400]] = 0, 0 - rough[at[200:400]]
    text = rng.choice(["1", "1.0", "nan", "", "a b", "naïve", "None"], n).astype(object)
    text[at[100:180]] = NAN
    few = rng.choice([-1.5, 0.0, 2.0, NAN], n)
    return frame.assign(rough=rough, text=text, few=few)


def invented() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "x": rng.normal(size=400).round(2) * 40,
            "single": rng.lognormal(size=400).astype(np.float32),
            "whole": rng.integers(-3, 4, 400),
            "letter": rng.choice(list("abc"), 400),
        }
    )


def frame_of(name: str) -> pd.DataFrame:
    if name == "invented":
        return roughened(invented())
    if name == "sorted":
        return invented().sort_values("letter", ignore_index=True)
    folder = find_data_folder()
    assert folder is not None
    frame = pd.read_parquet(folder / f"{name}.parquet", columns=REAL[name]).iloc[:ROWS]
    texts = frame.select_dtypes("category").columns
    return roughened(frame.astype(dict.fromkeys(texts, object)))


def universe_of(frame: pd.DataFrame) -> tuple[Any, Universe]:
    table = encode(frame, np.arange(len(frame)))
    return table, Universe(table.names, table.kinds, [OPERATORS[name] for name in DEFAULT], "both")


@pytest.fixture(scope="module")
def package(tmp_path_factory) -> dict[str, tuple[pd.DataFrame, list[np.ndarray]]]:
    """Every table's frame, with the package's values of every candidate in the order of the universe."""
    folder = find_data_folder()
    there = [n for n in REAL if folder is not None and (folder / f"{n}.parquet").is_file()]
    asked = {}
    for name in ("invented", "sorted", *there):
        frame = frame_of(name)
        _, universe = universe_of(frame)
        expressions = universe.expressions(np.arange(universe.size))
        asked[name] = (frame, [(e.operator, [a.name for a in e.arguments]) for e in expressions])
    for case, frame in APART.items():
        asked[case] = (frame, [(o, ["left", "right"]) for o in ("Combine", "CombineThenFreq")])
    values = run_package(asked, tmp_path_factory.mktemp("package"))
    return {name: (asked[name][0], found) for name, found in values.items()}


def run_package(asked: dict[str, Any], folder: Path) -> dict[str, list[np.ndarray]]:
    """Run the package in a process of its own: importing it changes the warning filters for good."""
    given_file, told = folder / "asked.pickle", folder / "told.pickle"
    given_file.write_bytes(pickle.dumps(asked))
    command = [sys.executable, "-W", "ignore", "-c", PACKAGE, str(given_file), str(told)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert told.is_file(), done.stderr
    return pickle.loads(told.read_bytes())


APART = {
    "colliding": pd.DataFrame({"left": ["a_b", "a", "a_b"], "right": ["c", "b_c", "c"]}),
    "minus zero": pd.DataFrame({"left": [0.0, -0.0, 0.0], "right": ["c", "c", "c"]}),
}
TABLES = ["invented", "sorted", *(pytest.param(name, marks=needs_data(name)) for name in REAL)]


@pytest.mark.parametrize("name", DEFAULT)
@pytest.mark.parametrize("table", TABLES)
def test_values_are_the_packages_to_the_last_bit(table, name, package):
    frame, theirs = package[table]
    encoded, universe = universe_of(frame)
    block = universe.blocks[DEFAULT.index(name)]
    ids = np.arange(block.offset, block.offset + block.size)
    assert len(ids)
    for candidate, left, right in zip(ids, *universe.decode(ids)[1:], strict=True):
        ours = compute(OPERATORS[name], encoded, int(left), int(right))
        formula = universe.expression(candidate).formula
        if (table, name) == ("sorted", "GroupByThenMean"):  # pandas 3 sums these without compensation
            one_ulp = np.finfo(encoded.numeric(int(left)).dtype).eps
            np.testing.assert_allclose(ours, theirs[candidate], rtol=4 * one_ulp, err_msg=formula)
            continue
        np.testing.assert_array_equal(ours, theirs[candidate], err_msg=formula)
        signs = np.signbit(ours) == np.signbit(theirs[candidate])
        assert (signs | np.isnan(ours)).all(), formula


def test_the_comparison_meets_every_special_value(package):
    frame, theirs = package["invented"]
    rough = frame["rough"]
    assert rough.isna().any() and np.isinf(rough).any() and (rough == 0).any() and (rough < 0).any()
    assert frame["text"].isna().any()
    assert any(np.isinf(v).any() for v in theirs) and any(np.isnan(v).any() for v in theirs)
    assert {"numerical", "ordinal", "categorical"} <= set(universe_of(frame)[0].kinds)


@pytest.mark.parametrize(("place", "name"), [(0, "Combine"), (1, "CombineThenFreq")])
def test_texts_that_collide_in_the_package_stay_apart_here(place, name, package):
    frame, theirs = package["colliding"]
    ours = compute(OPERATORS[name], encode(frame, np.arange(3)), 0, 1)
    assert theirs[place].tolist() == ([0, 0, 0], [3, 3, 3])[place]
    assert ours.tolist() == ([0, 1, 0], [2, 1, 2])[place]


@pytest.mark.parametrize(("place", "name"), [(0, "Combine"), (1, "CombineThenFreq")])
def test_zeros_of_either_sign_that_the_package_takes_for_two_values_are_one_here(place, name, package):
    frame, theirs = package["minus zero"]
    ours = compute(OPERATORS[name], encode(frame, np.arange(3)), 0, 1)
    assert theirs[place].tolist() == ([0, 1, 0], [2, 1, 2])[place]
    assert ours.tolist() == ([0, 0, 0], [3, 3, 3])[place]


@pytest.mark.parametrize(
    "table", [pytest.param("california_housing", marks=needs_data("california_housing"))]
)
def test_single_precision_is_kept_and_matters(table):
    frame = frame_of(table)[["MedInc", "Latitude"]]
    single, double = (encode(f, np.arange(ROWS)) for f in (frame, frame.astype(np.float64)))
    ratio = OPERATORS["/"]
    assert single.numeric(0).dtype == np.float32
    expected = (frame["MedInc"] / frame["Latitude"]).astype(np.float64)
    np.testing.assert_array_equal(compute(ratio, single, 0, 1), expected)
    assert (compute(ratio, single, 0, 1) != compute(ratio, double, 0, 1)).any()


# --- by hand -----------------------------------------------------------------------------------------------


def numbers(*values: float, dtype: Any = np.float64) -> np.ndarray:
    return np.array(values, dtype=dtype)


def keys(*values: Any) -> Keys:
    found = encode_column("k", pd.Series(list(values), dtype=object), "categorical").codes
    assert found is not None
    return found


def fitted(name: str, *columns: Any, new: tuple[Any, ...] | None = None) -> list[float]:
    """Fit an operator on columns and apply it to them, or to others."""
    operator = OPERATORS[name]
    state = operator.fit(*columns)
    return operator.apply(state, *(columns if new is None else new)).tolist()


def same(found: list[float], expected: list[float]) -> None:
    np.testing.assert_array_equal(np.array(found, dtype=float), np.array(expected, dtype=float))


@pytest.mark.parametrize(
    ("name", "x", "expected"),
    [
        ("abs", [-2, 0, 3, NAN, -INF], [2, 0, 3, NAN, INF]),
        ("log", [1, -1, 0, NAN, INF], [0, 0, NAN, NAN, INF]),
        ("sqrt", [4, -9, 0, NAN, -INF], [2, 3, 0, NAN, INF]),
        ("square", [-3, 0, 0.5, NAN, -INF], [9, 0, 0.25, NAN, INF]),
        ("sigmoid", [0, INF, -INF, NAN, -1e9], [0.5, 1, 0, NAN, 0]),
        ("round", [1.9, -0.5, 2, NAN, INF], [1, -1, 2, NAN, INF]),
        ("residual", [1.75, -0.25, 2, NAN, INF], [0.75, 0.75, 0, NAN, NAN]),
    ],
)
def test_one_number(name, x, expected):
    same(fitted(name, numbers(*x)), expected)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("min", [1, -3, NAN, NAN, 0, 5]),
        ("max", [2, -1, NAN, NAN, 4, INF]),
        ("+", [3, -4, NAN, NAN, 4, INF]),
        ("-", [-1, 2, NAN, NAN, 4, INF]),
        ("*", [2, 3, NAN, NAN, 0, INF]),
        ("/", [0.5, 1 / 3, NAN, NAN, NAN, INF]),
    ],
)
def test_two_numbers(name, expected):
    same(fitted(name, numbers(1, -1, NAN, 1, 4, INF), numbers(2, -3, 1, NAN, 0, 5)), expected)


def test_elementwise_operators_do_not_change_their_inputs():
    x, y = numbers(0, -1, NAN), numbers(0, 2, 0)
    for name in DEFAULT:
        if set(OPERATORS[name].takes) == {NUM}:
            fitted(name, *(x, y)[: OPERATORS[name].arity])
    same(x.tolist(), [0, -1, NAN])
    same(y.tolist(), [0, 2, 0])


GROUPED = (numbers(1, 2, 6, 10, NAN, 7, NAN), keys("a", "a", "a", "b", "b", None, "c"))
STATISTICS = {
    "GroupByThenMin": (1, 10),
    "GroupByThenMax": (6, 10),
    "GroupByThenMean": (3, 10),
    "GroupByThenMedian": (2, 10),
    "GroupByThenStd": (np.sqrt(7), NAN),
}


@pytest.mark.parametrize(("name", "a", "b"), [(name, *values) for name, values in STATISTICS.items()])
def test_statistics_of_groups(name, a, b):
    """A group's missing values are left out; the row with a missing value still has its group's statistic."""
    same(fitted(name, *GROUPED), [a, a, a, b, b, NAN, NAN])
    new = (numbers(99, NAN, 99, 99, 99), keys("a", "b", None, "new", "c"))
    same(fitted(name, *GROUPED, new=new), [a, b, NAN, NAN, NAN])


def test_statistics_are_rounded_to_the_type_of_the_column():
    values, groups = numbers(0.1, 9, 0.2, 0.4, dtype=np.float32), keys("b", "a", "b", "b")
    for name in ("GroupByThenMean", "GroupByThenMedian", "GroupByThenStd"):
        state = OPERATORS[name].fit(values, groups)
        found = OPERATORS[name].apply(state, values, groups)
        assert found.dtype == np.float64
        assert found[0] == np.float64(np.float32(found[0]))


def test_rank_of_fitted_and_of_new_values():
    values, groups = numbers(1, 2, 2, 4, NAN, 5, 3), keys("a", "a", "a", "a", "a", None, "b")
    same(fitted("GroupByThenRank", values, groups), [0.25, 0.625, 0.625, 1, NAN, NAN, 1])
    x = numbers(0, 1, 1.5, 2, 3, 4, 9, 9, 9, NAN, INF, -INF)
    new = keys("a", "a", "a", "a", "a", "a", "a", "new", None, "a", "a", "a")
    expected = [0.125, 0.25, 0.375, 0.625, 0.875, 1, 1, NAN, NAN, NAN, 1, 0.125]
    same(fitted("GroupByThenRank", values, groups, new=(x, new)), expected)


def test_rank_in_a_group_without_fitted_values_is_missing():
    same(fitted("GroupByThenRank", numbers(NAN, 1), keys("a", "b"), new=(numbers(3), keys("a"))), [NAN])


def test_frequency():
    assert fitted("freq", keys("a", "b", "a")) == [2, 1, 2]
    same(fitted("freq", keys("a", "b", "a", None), new=(keys("b", "new", None, "a"),)), [1, 0, NAN, 2])
    numeric = encode_column("x", pd.Series([1.5, 2, 1.5, NAN]), "numerical").keys
    same(fitted("freq", numeric), [2, 1, 2, NAN])


def test_combine_numbers_pairs_by_first_appearance():
    left, right = keys("b", "a", "b", None, "a"), keys("x", "x", "x", "x", None)
    assert fitted("Combine", left, right) == [0, 1, 0, -1, -1]
    new = (keys("a", "a", "b", "new", None), keys("x", "y", "x", "x", "x"))
    assert fitted("Combine", left, right, new=new) == [1, -1, 0, -1, -1]


def test_frequency_of_pairs():
    left, right = keys("b", "a", "b", None, "a"), keys("x", "x", "x", "x", None)
    same(fitted("CombineThenFreq", left, right), [2, 1, 2, NAN, NAN])
    new = (keys("a", "a", "b", "new", None, "b"), keys("x", "y", "x", "x", "x", None))
    same(fitted("CombineThenFreq", left, right, new=new), [1, 0, 2, 0, NAN, NAN])


def test_distinct_values_within_groups():
    values, groups = keys("a", "b", "a", None, "c", None), keys("x", "x", "x", "x", None, "y")
    same(fitted("GroupByThenNUnique", values, groups), [2, 2, 2, 2, NAN, 0])
    same(fitted("GroupByThenNUnique", values, groups, new=(keys("q", "q", "q"), keys("x", "z", None))),
         [2, NAN, NAN])  # fmt: skip


def test_the_text_of_a_number_and_the_number_are_two_keys():
    assert fitted("freq", keys(1.0, "1.0", 1.0, "1")) == [2, 1, 2, 1]


# --- the compiled loops ------------------------------------------------------------------------------------

COLUMN = st.lists(
    st.sampled_from([0.0, 1.0, -2.5, 0.1, 1e6, 1e-6, NAN]) | st.floats(-1e9, 1e9, width=32), max_size=40
)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), single=st.booleans())
def test_statistics_of_groups_are_those_of_pandas(data, single):
    x = np.array(data.draw(COLUMN), dtype=np.float32 if single else np.float64)
    codes = np.array(
        data.draw(st.lists(st.integers(-1, 5), min_size=len(x), max_size=len(x))), dtype=np.int64
    )
    groups = Keys(codes, np.arange(6.0))
    grouped = pd.Series(x).groupby(pd.Series(codes).where(codes >= 0))
    for name in STATISTICS:
        ours = OPERATORS[name].apply(OPERATORS[name].fit(x, groups), x, groups)
        theirs = grouped.transform(name.removeprefix("GroupByThen").lower()).to_numpy(np.float64)
        tolerance = np.finfo(x.dtype).eps * 4
        scale = np.abs(x[~np.isnan(x)]).max(initial=0.0)
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance * scale, err_msg=name)
    ranks = OPERATORS["GroupByThenRank"]
    np.testing.assert_array_equal(ranks.apply(ranks.fit(x, groups), x, groups), grouped.rank(pct=True))


@pytest.mark.parametrize("labels", [3, 5000], ids=["a slot for each pair", "a hash table"])
def test_pairs_of_many_and_of_few_labels(labels):
    rng = np.random.default_rng(labels)
    left, right = (Keys(rng.integers(-1, labels, 2000), np.arange(float(labels))) for _ in range(2))
    left.codes[500:700], right.codes[500:700] = left.codes[:200], right.codes[:200]
    pairs = pd.Series(list(zip(left.codes, right.codes, strict=True)), dtype=object)
    pairs = pairs.where((left.codes >= 0) & (right.codes >= 0))
    assert fitted("Combine", left, right) == pd.factorize(pairs)[0].tolist()
    same(fitted("CombineThenFreq", left, right), pairs.map(pairs.value_counts()).tolist())
    distinct = pd.DataFrame({"v": left.codes, "k": right.codes})
    distinct["v"] = distinct["v"].where(distinct["v"] >= 0)
    expected = distinct.groupby("k")["v"].transform("nunique").where(distinct["k"] >= 0)
    same(fitted("GroupByThenNUnique", left, right), expected.tolist())


@pytest.mark.parametrize("name", [*STATISTICS, "GroupByThenRank"])
def test_arrays_that_are_read_only_or_not_contiguous(name):
    values, groups = GROUPED
    strided = np.repeat(values, 2)[::2]
    frozen, codes = values.copy(), groups.codes.copy()
    frozen.setflags(write=False)
    codes.setflags(write=False)
    expected = fitted(name, *GROUPED)
    same(fitted(name, strided, groups), expected)
    same(fitted(name, frozen, Keys(codes, groups.labels)), expected)


def test_threads_that_share_a_table_compute_what_one_does():
    table, universe = universe_of(invented())
    ids = np.arange(universe.size)
    _, left, right = universe.decode(ids)
    operators = [OPERATORS[e.operator] for e in universe.expressions(ids)]
    work = list(zip(operators, left.tolist(), right.tolist(), strict=True))
    expected = [compute(o, table, i, j) for o, i, j in work]
    fresh = table.take(np.arange(table.rows))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda c: compute(c[0], fresh, *c[1:]), work))
    assert [v.tobytes() for v in found] == [v.tobytes() for v in expected]


def test_machine_code_is_kept_where_numba_keeps_it(tmp_path):
    call = "group_means(np.ones(2), np.zeros(2, dtype=int), 1)[0]"
    code = f"import numba; from scopefe.operators.kernels import *; print({call})"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout == "1.0\n", done.stderr
    assert any(tmp_path.rglob("*.nbi"))


def kernel_calls(dtype: type) -> dict[str, tuple[Any, ...]]:
    """Arguments of every kernel: missing, infinite and tied numbers; pairs by table and by hash."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=400).round(1).astype(dtype)
    values[:8] = [NAN, INF, -INF, 0, -0.0, NAN, INF, -INF]
    codes, order = rng.integers(-1, 8, 400), np.argsort(values, kind="stable")
    starts, fitted = kernels.group_sorted.__wrapped__(values, order, codes, 9)
    new = np.append(values[:200], rng.normal(size=200)).astype(np.float64)
    left, right, known = rng.integers(-1, 9, 400), rng.integers(-1, 90_000, 400), np.array([5, 77, 17])
    return {
        "group_extremes": (values, codes, 9, True),
        "group_means": (values, codes, 9),
        "group_deviations": (values, codes, 9),
        "group_sorted": (values, order, codes, 9),
        "group_ranks": (new, np.argsort(new, kind="stable"), codes, starts, fitted.astype(np.float64)),
        "number_pairs": (left, right, 9, 90_000, known, True),
        "number_pairs of few": (left, codes, 9, 9, known, False),
    }


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("call", kernel_calls(np.float64))
def test_a_kernel_gives_the_same_bytes_interpreted(call, dtype):
    arguments, function = kernel_calls(dtype)[call], getattr(kernels, call.partition(" ")[0])
    with np.errstate(all="ignore"):
        interpreted = function.__wrapped__(*arguments)
    compiled = function(*arguments)
    pairs = (
        zip(interpreted, compiled, strict=True) if isinstance(compiled, tuple) else [(interpreted, compiled)]
    )
    for one, other in pairs:
        assert (one.dtype, one.tobytes()) == (other.dtype, other.tobytes())


def test_a_kernel_is_compiled_when_interpreting_has_taken_long():
    code = (
        "import sys, numpy as np\n"
        "from scopefe.operators.kernels import *\n"
        "few, many = (np.zeros(n, dtype=int) for n in (2, FEW))\n"
        "for codes in (few, many, few):\n"
        "    print(group_means(codes.astype(float), codes, 1)[0], 'numba' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split("\n")[:3] == ["0.0 False", "0.0 True", "0.0 True"], done.stderr


def test_machine_code_need_not_be_kept(monkeypatch, caplog):
    def without_a_folder(*signatures, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return compiler(*signatures, **options)

    compiler = numba.njit
    monkeypatch.setattr(numba, "njit", without_a_folder)
    jit.warn_once.cache_clear()
    assert kernel("int64(int64)")(lambda x: 2 * x)(4) == 8
    assert jit.njit(lambda x: 3 * x)(4) == 12
    (record,) = caplog.records
    assert "NUMBA_CACHE_DIR" in record.message


class WidestGap:
    """Largest difference of neighbouring values."""

    def fit(self, x):
        return {"gap": np.nanmax(np.diff(x.values[x.order]), keepdims=True)}

    def apply(self, state, x):
        return np.where(np.isnan(x.values), NAN, state["gap"])


def test_an_operator_of_ones_own_is_given_the_order():
    with collecting(Components()) as own:
        operator("widest gap", takes=(NUM,), ordered=True)(WidestGap)
    widest = own.operators["widest gap"]
    values = numbers(5, NAN, 1, 2)
    same(widest.apply(widest.fit(values), values).tolist(), [3, NAN, 3, 3])
    table = encode(pd.DataFrame({"x": values}), np.arange(4), kinds={"x": "numerical"})
    same(compute(widest, table, 0, 0).tolist(), [3, NAN, 3, 3])
    assert "_order" in table[0].ordered.__dict__, "and it is computed once"


@pytest.mark.parametrize("name", DEFAULT)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_shapes_and_types(name, dtype):
    operator = OPERATORS[name]
    columns = [numbers(1, 2, NAN, dtype=dtype) if k == NUM else keys("a", None, "b") for k in operator.takes]
    state = operator.fit(*columns)
    found = operator.apply(state, *columns)
    assert found.shape == (3,)
    assert found.dtype == (np.int64 if operator.gives == CAT else np.float64)
    assert all(values.ndim == 1 for values in state.values())
    assert bool(state) == operator.learns


@pytest.mark.parametrize("name", DEFAULT)
def test_what_a_spec_is_told_of_an_operator(name):
    operator = OPERATORS[name]
    assert operator.summary
    assert operator.words and operator.latex
    assert operator.source.module.startswith("scopefe.operators.")
    assert operator.source.line > 0


def test_the_default_operators_in_their_order():
    assert len(DEFAULT) == len(set(DEFAULT)) == 23
    assert DEFAULT[0] == "freq" and DEFAULT[-1] == "Combine"
    symmetric = {name for name in DEFAULT if OPERATORS[name].symmetric}
    assert symmetric == {"min", "max", "+", "*", "Combine", "CombineThenFreq"}
    assert {name for name in DEFAULT if OPERATORS[name].one_way} == {"-", "/"}


# --- one row alone is the row in a batch -------------------------------------------------------------------

VALUES = st.sampled_from(
    [0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 2.5, 1e-40, 1e30, -7.25, NAN, INF, -INF]
) | st.floats(width=32)
TEXTS = st.sampled_from(["a", "b", "", "a_b", "nan", None]) | st.text(max_size=3)


def draw_columns(data: st.DataObject, operator: Operator, rows: int, single: list[bool]) -> list[pd.Series]:
    columns = []
    for place, kind in enumerate(operator.takes):
        if kind == NUM or (kind != CAT and single[0]):
            values = data.draw(st.lists(VALUES, min_size=rows, max_size=rows))
            columns.append(pd.Series(values, dtype=np.float32 if single[place] else np.float64))
        else:
            values = data.draw(st.lists(TEXTS, min_size=rows, max_size=rows))
            columns.append(pd.Series(values, dtype=object))
    return columns


def encoded(operator: Operator, columns: list[pd.Series]) -> list[Any]:
    found = []
    for kind, column in zip(operator.takes, columns, strict=True):
        numeric = pd.api.types.is_numeric_dtype(column.dtype)
        feature = encode_column("x", column, "numerical" if numeric else "categorical")
        found.append(feature.numbers if kind == NUM else feature.keys)
    return found


@pytest.mark.parametrize("name", OPERATORS.names())
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_one_row_alone_is_the_row_in_a_batch(name, data):
    operator = OPERATORS[name]
    single = data.draw(st.lists(st.booleans(), min_size=2, max_size=2))
    learned = draw_columns(data, operator, data.draw(st.integers(0, 12)), single)
    rows = data.draw(st.integers(1, 12))
    new = draw_columns(data, operator, rows, single)
    state = operator.fit(*encoded(operator, learned))
    batch = operator.apply(state, *encoded(operator, new))
    alone = [operator.apply(state, *encoded(operator, [c.iloc[[i]] for c in new])) for i in range(rows)]
    np.testing.assert_array_equal(np.concatenate(alone), batch)
    assert np.concatenate(alone).dtype == batch.dtype
    missing = np.isnan(batch)
    assert np.concatenate(alone)[~missing].tobytes() == batch[~missing].tobytes()


@pytest.mark.parametrize("name", OPERATORS.names())
def test_one_row_alone_is_the_row_in_a_long_batch(name):
    """Vectorised loops take other paths on long arrays, and on arrays that are not contiguous."""
    operator = OPERATORS[name]
    rng = np.random.default_rng(11)
    single = rng.lognormal(size=1003).astype(np.float32)
    for values in (single, rng.normal(size=1003) * 30, np.asarray(rng.normal(size=(1003, 4)) * 30)[:, 1]):
        columns = [
            pd.Series(values if kind == NUM else rng.choice(list("abcdef"), 1003)) for kind in operator.takes
        ]
        state = operator.fit(*encoded(operator, [c.iloc[:700] for c in columns]))
        batch = operator.apply(state, *encoded(operator, columns))
        for i in (0, 1, 511, 1001, 1002):
            alone = operator.apply(state, *encoded(operator, [c.iloc[[i]] for c in columns]))
            np.testing.assert_array_equal(alone, batch[[i]])


@pytest.mark.parametrize("name", OPERATORS.names())
def test_the_order_of_the_fitted_rows_changes_numbering_only(name):
    operator = OPERATORS[name]
    rng = np.random.default_rng(5)
    n = 300
    columns = [
        pd.Series(rng.integers(-8, 8, n) / 4.0 if kind == NUM else rng.choice(list("abcd"), n))
        for kind in operator.takes
    ]
    shuffled = [c.iloc[::-1] for c in columns]
    values = encoded(operator, columns)
    first, second = (
        operator.apply(operator.fit(*encoded(operator, rows)), *values) for rows in (columns, shuffled)
    )
    if operator.gives == CAT:
        first, second = (pd.factorize(v)[0] for v in (first, second))
    np.testing.assert_allclose(first, second, rtol=1e-12)
