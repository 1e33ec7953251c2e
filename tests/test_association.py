"""Association against its definition, pair by pair, and the clusters made of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.cluster.hierarchy import average, fcluster
from scipy.stats import chi2_contingency, pearsonr
from scopefe.gates import association as module
from scopefe.gates.association import association
from scopefe.gates.pair_gates import by_size
from threadpoolctl import threadpool_info, threadpool_limits

from scopefe.data.kinds import encode
from scopefe.data.table import Table
from scopefe.registry import components
from scopefe.space.scope import Scope
from scopefe.space.universe import Universe

SETTINGS = settings(deadline=None, max_examples=60)


def table_of(frame, kinds=None):
    chosen = {c: "numerical" if frame[c].dtype.kind == "f" else "categorical" for c in frame} | (kinds or {})
    return encode(frame, np.arange(len(frame)), kinds=chosen)


def pearson(a, b):
    both = pd.DataFrame({"a": a, "b": b}).replace([np.inf, -np.inf], np.nan).dropna()
    if len(both) < 3 or both["a"].nunique() < 2 or both["b"].nunique() < 2:
        return 0.0
    return abs(pearsonr(both["a"].to_numpy(), both["b"].to_numpy())[0])


def cramer(a, b):
    both = pd.DataFrame({"a": a, "b": b}).dropna()
    n = len(both)
    if n < 2:
        return 0.0
    counts = pd.crosstab(both["a"], both["b"]).to_numpy()
    r, k = counts.shape
    phi2 = chi2_contingency(counts, correction=False)[0] / n
    phi2 = max(0.0, phi2 - (k - 1) * (r - 1) / (n - 1))
    smaller = min(k - (k - 1) ** 2 / (n - 1), r - (r - 1) ** 2 / (n - 1)) - 1
    return min(1.0, np.sqrt(phi2 / smaller)) if smaller > 0 else 0.0


def eta2(groups, values):
    both = pd.DataFrame({"g": groups, "v": values}).replace([np.inf, -np.inf], np.nan).dropna()
    if len(both) < 3 or both["v"].nunique() < 2:
        return 0.0
    v = both["v"] - both["v"].mean()
    return float((v.groupby(both["g"]).transform("mean") ** 2).sum() / (v**2).sum())


def defined(frame):
    """The similarity matrix, and which of its entries are Cramér's V."""
    d = frame.shape[1]
    result, nominal = np.eye(d), np.zeros((d, d), dtype=bool)
    for i, j in combinations(range(d), 2):
        a, b = frame.iloc[:, i], frame.iloc[:, j]
        numeric = a.dtype.kind == "f", b.dtype.kind == "f"
        if all(numeric):
            value = pearson(a, b)
        elif any(numeric):
            value = eta2(b, a) if numeric[0] else eta2(a, b)
        else:
            value, nominal[i, j] = cramer(a, b), True
        result[i, j] = result[j, i] = value
    return result, nominal | nominal.T


def check(frame, tolerance=1e-12):
    found = association(table_of(frame))
    expected, nominal = defined(frame)
    # Near 0 the root in Cramér's V magnifies the last digit of chi-squared: compare what is under it.
    exponent = np.where(nominal, 2, 1)
    assert np.abs(found**exponent - expected**exponent).max() <= tolerance
    assert np.array_equal(found, found.T)
    assert (np.diagonal(found) == 1).all()
    assert found.min() >= 0
    assert found.max() <= 1
    return found


def random_frame(seed, rows, columns):
    """Columns of all sorts, related to each other, with gaps."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=rows)
    made = {}
    for i in range(columns):
        own = rng.normal(size=rows) + rng.choice([0, 1, 5]) * common
        sort = rng.choice(["number", "few", "infinite", "constant", "shifted", "text", "single", "unique"])
        if sort == "few":
            own = np.round(own)
        elif sort == "infinite":
            own[rng.random(rows) < 0.2] = rng.choice([np.inf, -np.inf])
        elif sort == "constant":
            own[:] = rng.choice([0.0, 0.1, 1e9 + 0.1])
        elif sort == "shifted":
            own = 1e4 * rng.choice([-1, 1]) + own * 1e-2 * 1e3 ** rng.choice([0, 1])
        if sort in ("text", "single", "unique"):
            codes = {"text": np.round(own), "single": np.zeros(rows), "unique": np.arange(rows)}[sort]
            values = pd.Series([f"v{c:g}" for c in codes], dtype=object)
            values[rng.random(rows) < rng.choice([0, 0, 0.3, 0.9])] = None
        else:
            values = pd.Series(own)
            values[rng.random(rows) < rng.choice([0, 0, 0.3, 0.9, 1])] = np.nan
        made[f"c{i}"] = values
    return pd.DataFrame(made)


@SETTINGS
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 60), columns=st.integers(1, 7))
def test_association_is_its_definition(seed, rows, columns):
    check(random_frame(seed, rows, columns))


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), block=st.integers(1, 20), cells=st.integers(1, 60))
def test_blocks_of_rows_and_batches_of_keys_do_not_matter(seed, block, cells):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        patch.setattr(module, "CELLS", cells)
        check(random_frame(seed, 30, 7))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_taken_from_a_table_are_read_like_a_table_of_them(dtype):
    frame = random_frame(1, 200, 12)
    numeric = [c for c in frame if frame[c].dtype.kind == "f"]
    frame = frame.astype(dict.fromkeys(numeric, dtype))
    rows = np.random.default_rng(2).permutation(200)[:150]
    taken = association(table_of(frame).take(rows))
    assert np.array_equal(taken, association(table_of(frame.iloc[rows].reset_index(drop=True))))


def test_the_number_of_threads_changes_no_bit():
    rng = np.random.default_rng(6)
    frame = pd.DataFrame(rng.normal(size=(3000, 100)) + rng.normal(size=(3000, 1)))
    frame = frame.rename(columns=str).mask(rng.random(frame.shape) < 0.01 * (np.arange(100) % 3))
    frame["g"] = rng.choice(list("abcdef"), 3000)
    found = []
    for threads in (1, 2, 3, 4):
        with threadpool_limits(threads):
            before = [pool["num_threads"] for pool in threadpool_info()]
            found.append(association(table_of(frame)))
            assert [pool["num_threads"] for pool in threadpool_info()] == before
    assert all(np.array_equal(found[0], other) for other in found[1:])


@SETTINGS
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 60), columns=st.integers(1, 7))
def test_the_order_of_columns_moves_the_matrix_and_nothing_else(seed, rows, columns):
    frame = random_frame(seed, rows, columns)
    order = np.random.default_rng(seed).permutation(columns)
    moved = association(table_of(frame.iloc[:, order]))
    assert np.abs(moved - association(table_of(frame))[np.ix_(order, order)]).max() <= 1e-12


@SETTINGS
@given(seed=st.integers(0, 10**6), power=st.integers(-900, 900))
def test_rows_and_units_do_not_matter(seed, power):
    frame = random_frame(seed, 40, 5)
    order = np.random.default_rng(seed).permutation(40)
    other = frame.iloc[order].reset_index(drop=True)
    numeric = [c for c in other if other[c].dtype.kind == "f"]
    other[numeric] = other[numeric] * -(2.0**power)
    found = association(table_of(other))
    assert np.abs(found**2 - association(table_of(frame)) ** 2).max() <= 1e-12


def test_known_values():
    frame = pd.DataFrame(
        {
            "x": [1.0, 2.0, 3.0, 4.0],
            "minus": [8.0, 6.0, 4.0, 2.0],
            "g": ["a", "a", "b", "b"],
            "same": ["u", "u", "v", "v"],
            "other": ["u", "v", "u", "v"],
        }
    )
    found = pd.DataFrame(check(frame), frame.columns, frame.columns)
    assert found.loc["x", "minus"] == pytest.approx(1)
    assert found.loc["x", "g"] == pytest.approx(0.8)
    assert found.loc["g", "same"] == pytest.approx(1)
    assert found.loc["g", "other"] == 0


def test_infinite_values_count_as_missing():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 30))
    with_gaps, with_infinities = x.copy(), x.copy()
    with_gaps[:4] = np.nan
    with_infinities[:4] = [np.inf, -np.inf, np.inf, np.nan]
    found = [association(table_of(pd.DataFrame({"x": v, "y": y}))) for v in (with_gaps, with_infinities)]
    assert np.array_equal(*found)
    assert found[0][0, 1] == pytest.approx(abs(pearsonr(x[4:], y[4:])[0]), abs=1e-12)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_fewer_than_three_rows_say_nothing(rows):
    frame = pd.DataFrame({"x": [1.0, 2.0], "y": [2.0, 5.0], "g": ["a", "b"]}).iloc[:rows]
    frame["g"] = frame["g"].astype(object)
    assert np.array_equal(association(table_of(frame)), np.eye(3))


def test_fewer_than_three_rows_in_common_say_nothing():
    x = pd.Series([1.0, 2, 3, 4, np.nan, np.nan])
    y = pd.Series([np.nan, np.nan, 5, 7, 8, 1])
    g = pd.Series(["a", "b", None, None, None, None], dtype=object)
    assert np.array_equal(association(table_of(pd.DataFrame({"x": x, "y": y, "g": g}))), np.eye(3))


def test_a_column_that_is_constant_where_the_other_is_known_says_nothing():
    x = pd.Series([0.1, 0.1, 0.1, 0.1, 7.0])
    y = pd.Series([1.0, 2.0, 5.0, 3.0, np.nan])
    g = pd.Series(["a", "b", "b", "a", None], dtype=object)
    found = check(pd.DataFrame({"x": x, "y": y, "g": g}))
    assert found[0, 1] == found[0, 2] == 0


@pytest.mark.parametrize("offset", [1e6, 1e9, -1e9])
def test_a_huge_offset_costs_no_digits(offset):
    """Timestamps: of 1e9 + noise the noise is kept to 1e-7, and what is kept is used."""
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 500))
    g = pd.Series(rng.choice(["a", "b", "c"], size=500))
    check(pd.DataFrame({"x": x + offset, "y": x + y + offset, "z": y, "g": g}), tolerance=1e-11)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("outlier", [1e6, 1e9, 1e12, 1e100])
def test_an_outlier_outside_the_common_rows_costs_no_digits(outlier, sign):
    """A mark such as 999999999 in one column where the other is missing."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(2, 200))
    g = pd.Series(rng.choice(["a", "b"], size=200)).astype(object)
    x = x + y + (g == "a")
    x[3], x[4], y[3:5], g[3:5] = outlier, sign * outlier, np.nan, None
    found = check(pd.DataFrame({"x": x, "y": y, "g": g}))
    assert found[0, 1] > 0.3
    assert found[0, 2] > 0.05


@pytest.mark.parametrize("scale", [1e-300, 1e300])
def test_huge_and_tiny_units_neither_overflow_nor_vanish(scale):
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 50))
    plain = association(table_of(pd.DataFrame({"x": x, "y": y})))
    assert np.abs(association(table_of(pd.DataFrame({"x": x * scale, "y": y}))) - plain).max() <= 1e-12


def test_ordinal_features_count_as_numbers():
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"o": rng.integers(0, 5, 80).astype(float), "x": rng.normal(size=80)})
    frame["g"] = rng.choice(["a", "b"], size=80)
    ordinal = association(table_of(frame, {"o": "ordinal"}))
    assert np.array_equal(ordinal, association(table_of(frame)))
    assert ordinal[0, 1] == pytest.approx(pearson(frame["o"], frame["x"]), abs=1e-12)


def test_many_categories_need_no_dense_table():
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 1500, 2000)
    frame = pd.DataFrame({"a": [f"a{c}" for c in codes], "b": [f"b{c // 3}" for c in codes]})
    check(frame, tolerance=1e-10)


# --- clusters ---------------------------------------------------------------


@dataclass
class Known:
    """A context with rows: what the gates that cluster need."""

    rows: Table
    facts: dict[str, Any] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    computed: list[str] = field(default_factory=list)

    @property
    def universe(self):
        registered = components().operators
        return Universe(self.rows.names, self.rows.kinds, list(registered))

    def table(self):
        return self.rows

    def note(self, name, fact):
        self.facts[name] = fact

    def remember(self, name, parameters, compute, *, by_target=True):
        key = repr((name, dict(parameters)))
        if key not in self.known:
            self.computed.append(name)
            self.known[key] = compute()
        return self.known[key]


def gate(name, context, **parameters):
    chosen = components().pair_gates[name]
    return chosen(context, Scope.everything(context.universe), chosen.parameters(**parameters))


def numbers(d, seed=0):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(60, 4))
    return pd.DataFrame({f"c{i}": common[:, i % 4] + rng.normal(size=60) * 0.5 for i in range(d)})


@pytest.mark.parametrize(
    ("d", "size", "clusters"),
    [
        *[(1, 16, 1), (2, 16, 2), (3, 16, 2), (16, 16, 2), (32, 16, 2), (33, 16, 3), (49, 16, 4)],
        *[(9, 4, 3), (5, 1, 5), (5, 100, 2), (1, 1, 1)],
    ],
)
def test_the_number_of_clusters(d, size, clusters):
    context = Known(table_of(numbers(d)))
    gate("hard-intra", context, target_cluster_size=size)
    labels = context.facts["clusters"]
    assert len(labels) == d
    assert sorted(set(labels)) == list(range(clusters))


@pytest.mark.parametrize("linkage", ["average", "complete", "single"])
@pytest.mark.parametrize("d", [1, 2, 7, 40])
def test_intra_and_inter_part_all_pairs(d, linkage):
    context = Known(table_of(numbers(d)))
    intra = gate("hard-intra", context, linkage=linkage, target_cluster_size=8)
    labels = context.facts["clusters"]
    inter = gate("hard-inter", context, linkage=linkage, target_cluster_size=8)
    assert context.facts["clusters"] == labels
    assert inter == ~intra
    for i, j in combinations(range(d), 2):
        assert intra.matrix[i, j] == (labels[i] == labels[j])
    assert gate("all", context) == intra | inter


@pytest.mark.parametrize(("d", "across"), [(1, 0), (2, 1)])
def test_one_and_two_features_have_no_pairs_inside(d, across):
    context = Known(table_of(numbers(d)))
    assert len(gate("hard-intra", context)) == 0
    assert len(gate("hard-inter", context)) == across


def test_no_features_have_no_clusters():
    context = Known(Table([], 5))
    assert len(gate("hard-intra", context)) == 0
    assert context.facts["clusters"] == []


def test_clusters_are_those_of_average_linkage():
    frame = numbers(20, seed=3)
    frame["g"] = np.where(frame["c0"] > 0, "a", "b")
    context = Known(table_of(frame))
    pairs = gate("hard-intra", context, target_cluster_size=5)
    distance = 1 - defined(frame)[0]
    tree = average(distance[np.triu_indices(21, 1)])
    labels = fcluster(tree, 5, criterion="maxclust")
    assert np.array_equal(pairs.matrix | np.eye(21, dtype=bool), labels[:, None] == labels[None, :])


def test_clusters_are_numbered_from_the_largest():
    assert by_size(np.array([5, 1, 1, 0, 5, 1])).tolist() == [1, 0, 0, 2, 1, 0]
    assert by_size(np.array([9, 2, 9, 2, 0])).tolist() == [0, 1, 0, 1, 2], "equal ones by their first feature"
    context = Known(table_of(numbers(30)))
    gate("hard-intra", context)
    sizes = np.bincount(context.facts["clusters"])
    assert sizes.tolist() == sorted(sizes, reverse=True)


def test_the_gates_share_one_association():
    context = Known(table_of(numbers(6)))
    gate("hard-intra", context)
    gate("hard-inter", context, target_cluster_size=3, linkage="single")
    assert context.computed == ["association"]
