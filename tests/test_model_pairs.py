"""The pair gates that go by the target: fast, tree-path and importance-product."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scopefe.gates.model_pairs import feature_bins, importance_products, path_gains, quadrant_gains

import scopefe
from scopefe import Splits
from scopefe.components import Keys
from scopefe.data.table import Feature, Table
from scopefe.run.compiling import compile
from scopefe.run.store import Store
from scopefe.run.workbench import Context
from scopefe.score import splits
from scopefe.score.baseline import out_of_fold
from scopefe.score.objective import Objective
from scopefe.space.context import Gradients

GATES = ["fast", "tree-path", "importance-product"]
SPLIT = "data.split={train: 0.6, selection: 0.2, test: 0.2}"


def spec_of(gate, *overrides, **parameters):
    document = {
        "name": "p",
        "data": {"target": "y"},
        "baseline": {"max_trees": 40, "early_stopping": 10},
        "scope": {"pairs": {"gate": gate, **parameters}},
        "execution": {"jobs": 1},
    }
    return scopefe.load_spec(document, overrides=[SPLIT, *overrides])


def admitted(compiled):
    """Return the pairs of names that a pool has candidates of."""
    ids = compiled.scope.of_arity(2).ids()
    _, left, right = compiled.universe.decode(ids)
    names = compiled.universe.names
    return {frozenset((names[a], names[b])) for a, b in set(zip(left.tolist(), right.tolist(), strict=True))}


def kept(frame, gate, *overrides, **parameters):
    return admitted(compile(spec_of(gate, *overrides, **parameters), data=frame))


def table(seed=0, rows=1500):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=rows) for i in range(6)})
    x = frame.to_numpy().T
    return frame.assign(y=2 * x[1] * x[2] + x[3] + 0.3 * rng.normal(size=rows))


def mixed(rows=600):
    rng = np.random.default_rng(3)
    frame = table(3, rows)
    frame["k"] = rng.choice(list("abcdefgh"), size=rows)
    frame["o"] = rng.integers(0, 6, size=rows)
    frame.loc[::7, "x1"] = np.nan
    frame.loc[::13, "x2"] = np.inf
    frame.loc[::11, "k"] = None
    frame["constant"], frame["empty"] = 1.5, np.nan
    return frame


# --- what they find ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("gate", ["fast", "tree-path"])
@pytest.mark.parametrize("seed", range(4))
def test_a_planted_interaction_comes_first(gate, seed):
    assert kept(table(seed), gate, budget=1) == {frozenset(("x1", "x2"))}


@pytest.mark.parametrize("gate", ["fast", "tree-path"])
def test_an_interaction_of_categories_comes_first(gate):
    rng = np.random.default_rng(0)
    frame = table().assign(k=rng.choice(list("abcd"), 1500), m=rng.choice(list("pq"), 1500))
    frame["y"] = 2.0 * frame["k"].isin(["a", "b"]) * (frame["m"] == "p") + 0.3 * rng.normal(size=1500)
    assert kept(frame, gate, budget=1) == {frozenset(("k", "m"))}


def test_a_product_of_importances_goes_by_main_effects():
    frame = table()
    frame["y"] = 4 * frame["x3"] + 4 * frame["x4"] + frame["x1"] * frame["x2"]
    assert kept(frame, "importance-product", budget=1) == {frozenset(("x3", "x4"))}


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("classes", [2, 3])
def test_classes_are_targets_too(gate, classes):
    frame = table()
    frame["y"] = pd.qcut(frame["x1"] * frame["x2"], classes, labels=list("abc")[:classes]).astype(str)
    assert frozenset(("x1", "x2")) in kept(frame, gate, budget=2)


# --- budgets and facts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize(
    ("budget", "count"), [(0.2, 3), ("20%", 3), ("100 %", 15), (0.01, 1), (1, 1), (4, 4), (10**9, 15)]
)
def test_a_budget_is_a_share_or_a_number(gate, budget, count):
    compiled = compile(spec_of(gate, budget=budget), data=table(rows=200))
    assert len(admitted(compiled)) == count
    facts = compiled.facts[gate]
    assert (facts["pairs"], facts["kept"]) == (15, count)
    assert facts["lowest_kept"] >= 0


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (2.5, r"budget: 2\.5 is neither a share below 1 nor a whole number"),
        (1.0, "budget: 1.0 may be a share or a count: write 100% for all, or 1 for one"),
        (300.0, "300 is neither a share below 1 nor a whole number: write 300 for a count"),
        (0, "greater than 0"),
        (float("nan"), "greater than 0|write a share"),
        (-1, "greater than 0"),
        ("0%", "write a share"),
        ("101%", "write a share"),
        ("many", "write a share"),
        (True, "write a share"),
    ],
)
def test_a_budget_is_checked(gate, budget, said):
    with pytest.raises(scopefe.SpecError, match=said):
        compile(spec_of(gate, budget=budget), data=table(rows=100))


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize(("budget", "count"), [(0.2, 7), (0.9, 14), (4, 4)])
def test_a_share_has_a_floor_and_a_count_has_none(gate, budget, count):
    compiled = compile(spec_of(gate, budget=budget, at_least=7), data=table(rows=200))
    assert len(admitted(compiled)) == count


@pytest.mark.parametrize("gate", GATES)
def test_more_budget_keeps_what_less_does_and_equal_pairs_go_by_their_order(gate):
    frame = mixed()
    few, more = (kept(frame, gate, budget=budget) for budget in (5, 12))
    assert few < more
    equal = [frozenset(pair) for pair in combinations(["constant", "empty", "x3"], 2)]
    for budget in (1, 2):
        plain = frame[["constant", "empty", "x3", "y"]]
        assert kept(plain, gate, budget=budget) == set(equal[:budget])


@pytest.mark.parametrize("gate", GATES)
def test_one_feature_has_no_pairs(gate):
    compiled = compile(spec_of(gate), data=table(rows=100)[["x0", "y"]])
    assert compiled.pool_size == len(compiled.scope.of_arity(1))
    assert compiled.facts[gate] == {"pairs": 0, "kept": 0, "lowest_kept": None}


@pytest.mark.parametrize("gate", GATES)
def test_they_need_data(gate):
    kinds = "data.features.kinds={a: numerical, b: numerical}"
    assert compile(spec_of(gate, kinds), static=True).bounded == ["scope.pairs"]


# --- what they may see -------------------------------------------------------------------------------------


@pytest.mark.parametrize("gate", GATES)
def test_jobs_change_nothing(gate):
    ids = [compile(spec_of(gate, f"execution.jobs={jobs}", budget=7), data=mixed()) for jobs in (1, 2)]
    assert ids[0].facts == ids[1].facts
    assert admitted(ids[0]) == admitted(ids[1])


@pytest.mark.parametrize("gate", GATES)
def test_only_training_rows_play_a_part(gate):
    frame = table()
    rows = compile(spec_of(gate, budget=4), data=frame).data.rows
    other = frame.copy()
    for column in ("x1", "y"):
        other.loc[np.concatenate([rows.selection, rows.test]), column] *= -3
    one, two = (compile(spec_of(gate, budget=4), data=f) for f in (frame, other))
    assert one.facts == two.facts
    assert admitted(one) == admitted(two)
    other.loc[rows.train, "y"] *= other.loc[rows.train, "x1"]
    assert compile(spec_of(gate, budget=4), data=other).facts != one.facts


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("change", ["seed=2", "baseline.learning_rate=0.02", "baseline.early_stopping=1"])
def test_what_is_remembered_is_of_the_same_settings(gate, change):
    frame, shared = table(rows=400), Store()
    for overrides in ([], [change]):
        spec = spec_of(gate, *overrides, budget=5)
        assert compile(spec, data=frame, store=shared).facts == compile(spec, data=frame).facts


def test_a_model_is_trained_once(monkeypatch):
    trained = []
    train = splits.splits_of
    monkeypatch.setattr(splits, "splits_of", lambda booster: trained.append(booster) or train(booster))
    frame, store = table(rows=300), Store()
    for gate in ("tree-path", "importance-product", "tree-path"):
        compile(spec_of(gate), data=frame, store=store)
    assert len(trained) == 1
    compile(spec_of("tree-path", "seed=2"), data=frame, store=store)
    assert len(trained) == 2


# --- contexts ----------------------------------------------------------------------------------------------


def context_of(frame, *overrides):
    """Return the context that a pair gate is given."""
    compiled = compile(spec_of("all", *overrides), data=frame)
    assert compiled.bench is not None and compiled.data is not None
    return Context(compiled.bench, compiled.data, compiled.universe, None, training_only=True, code="")


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_gradients_are_those_of_a_baseline_of_the_training_rows(classes):
    frame = table(rows=500)
    if classes:
        frame["y"] = pd.qcut(frame["y"], classes, labels=False)
    context = context_of(frame)
    data, gradients = context.data, context.gradients()
    objective = Objective.of(data.labels.task, len(data.labels.classes))
    target = data.scaled_target[: len(data.rows.train)]
    settings = {"folds": 5, "learning_rate": 0.1, "max_trees": 40, "early_stopping": 10, "seed": 1}
    scores = out_of_fold(data.training, target, objective, context.bench.engine, **settings).scores
    assert gradients.first.shape == gradients.second.shape == (classes if classes > 2 else 1, len(target))
    for found, expected in zip(
        (gradients.first, gradients.second), objective.derivatives(target, scores), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("classes", [0, 3])
def test_splits_are_those_of_the_model(classes, monkeypatch):
    frame = mixed()
    if classes:
        frame["y"] = pd.qcut(frame["y"], classes, labels=False)
    boosters = []
    convert = splits.splits_of
    monkeypatch.setattr(splits, "splits_of", lambda booster: boosters.append(booster) or convert(booster))
    context = context_of(frame, "baseline.early_stopping=3")
    found = context.splits()
    (booster,) = boosters
    d, best = context.universe.d, booster.best_iteration
    assert best < booster.current_iteration() <= 100
    assert (found.feature.dtype, found.parent.dtype, found.gain.dtype) == (np.int64, np.int64, np.float64)
    gains = np.bincount(found.feature, found.gain, minlength=d)
    assert gains == pytest.approx(booster.feature_importance("gain", iteration=best))
    assert (found.parent < np.arange(len(found.parent))).all()
    assert (found.parent < 0).sum() <= best * max(classes, 1)

    paths = walked(booster, best * max(classes, 1))
    importances = booster.feature_importance("gain", iteration=best)
    pairs = list(combinations(range(d), 2))
    assert path_gains(found, d) == pytest.approx([paths.get(frozenset(pair), 0) for pair in pairs])
    assert importance_products(found, d) == pytest.approx([importances[a] * importances[b] for a, b in pairs])


def walked(booster, trees):
    """Return the gains of pairs of features, walking up from each split of the first trees."""
    frame = booster.trees_to_dataframe()
    frame = frame[(frame["tree_index"] < trees) & frame["split_feature"].notna()]
    nodes = frame.set_index("node_index").to_dict("index")
    gains: dict[frozenset[int], float] = {}
    for node in nodes.values():
        above, up = set(), node["parent_index"]
        while up in nodes:
            above.add(nodes[up]["split_feature"])
            up = nodes[up]["parent_index"]
        for name in above - {node["split_feature"]}:
            pair = frozenset(int(feature[1:]) for feature in (name, node["split_feature"]))
            gains[pair] = gains.get(pair, 0) + node["split_gain"]
    return gains


def test_too_few_rows_for_a_model_are_said():
    with pytest.raises(scopefe.DataError, match="3 rows are too few for a model"):
        compile(spec_of("tree-path", "data.task=regression"), data=table(rows=7))


def test_a_feature_above_counts_once():
    chain = Splits(
        np.array([0, 1, 0, 1, 2]), np.array([-1, 0, 1, 2, 3]), np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    )
    assert path_gains(chain, 3).tolist() == [2 + 4 + 8, 16, 16]
    assert importance_products(chain, 4).tolist() == [50, 80, 0, 160, 0, 0]
    empty = Splits(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    assert path_gains(empty, 3).tolist() == importance_products(empty, 3).tolist() == [0, 0, 0]


# --- FAST --------------------------------------------------------------------------------------------------


@dataclass
class Fake:
    """A gate context of a table and its derivatives."""

    rows: Table
    derivatives: Gradients
    facts: dict[str, Any] = field(default_factory=dict)

    def table(self):
        return self.rows

    def gradients(self):
        return self.derivatives

    def map(self, work, numbers):
        return map(work, numbers)


def numeric(values):
    return Feature("x", "numerical", np.array([np.nan if v is None else v for v in values], dtype=np.float64))


def categorical(values):
    codes = np.array([-1 if v is None else v for v in values], dtype=np.int64)
    return Feature("k", "categorical", None, Keys(codes, np.array(list("abcde"), dtype=object)))


def levels(values):
    """Return the place of each value in the order of the values, missing first."""
    ranked = sorted(set(values), key=lambda v: -1 if v is None else v)
    return np.array([ranked.index(v) for v in values])


def brute_force(a, b, first, second):
    """Return the best gain of a cut of each of two features, over outputs, by trying all."""

    def worth(k, inside):
        h = second[k, inside].sum()
        return first[k, inside].sum() ** 2 / h if inside.any() else 0.0

    total = 0.0
    for k in range(len(first)):
        gains = [0.0]
        for x in range(1, a.max() + 1):
            for y in range(1, b.max() + 1):
                quadrants = [s & t for s in (a < x, a >= x) for t in (b < y, b >= y)]
                gains.append(sum(worth(k, q) for q in quadrants) - worth(k, np.ones(len(a), dtype=bool)))
        total += max(gains)
    return total


VALUE = st.one_of(st.none(), st.integers(0, 4))


@st.composite
def small_tables(draw):
    n, outputs = draw(st.integers(1, 20)), draw(st.sampled_from([1, 3]))
    columns = draw(st.lists(st.lists(VALUE, min_size=n, max_size=n), min_size=2, max_size=4))
    kinds = draw(st.lists(st.sampled_from([numeric, categorical]), min_size=4, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    return columns, kinds, rng.normal(size=(outputs, n)), rng.uniform(0.1, 1, size=(outputs, n))


@settings(deadline=None, max_examples=60)
@given(small_tables())
def test_scores_are_those_of_trying_every_cut(drawn):
    columns, kinds, first, second = drawn
    features = [kind(values) for kind, values in zip(kinds, columns, strict=False)]
    found = quadrant_gains(Fake(Table(features, first.shape[1]), Gradients(first, second)), 32)
    ranks = [levels(values) for values in columns]
    expected = [brute_force(a, b, first, second) for a, b in combinations(ranks, 2)]
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_a_feature_that_cannot_be_cut_has_no_score():
    rng = np.random.default_rng(0)
    features = [numeric([1.0] * 50), numeric([None] * 50), numeric(rng.normal(size=50))]
    context = Fake(Table(features, 50), Gradients(rng.normal(size=(1, 50)), np.ones((1, 50))))
    assert quadrant_gains(context, 32).tolist() == [0, 0, 0]


@pytest.mark.parametrize("bins", [2, 5, 32, 300])
def test_numbers_are_binned_in_their_order(bins):
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=900), np.zeros(300), np.full(20, np.nan)])
    rng.shuffle(values)
    found = feature_bins(Table([numeric(values)], len(values)), 0, bins)
    missing = np.isnan(values)
    assert ((found == 0) == missing).all()
    assert len(np.unique(found)) == found.max() + 1 <= bins + 1
    order = np.argsort(values[~missing], kind="stable")
    assert (np.diff(found[~missing][order].astype(int)) >= 0).all()
    if bins == 32:
        zeros = found == found[values == 0][0]
        assert (values[zeros] == 0).all(), "what many rows share has a bin of its own"
        assert np.bincount(found[~zeros])[1:].max() < 2.5 * 900 / (bins - 1)
    assert feature_bins(Table([numeric(values[~missing])], (~missing).sum()), 0, bins).min() == 0


def test_rare_categories_are_joined_after_the_frequent_ones():
    values = [0] * 2 + [1] * 9 + [2] * 3 + [3] * 5 + [4] * 3 + [None] * 4
    table = Table([categorical(values)], len(values))
    joined = dict(zip(values, feature_bins(table, 0, 3).tolist(), strict=True))
    assert joined == {None: 0, 1: 1, 2: 2, 3: 3, 0: 4, 4: 4}
    apart = dict(zip(values, feature_bins(table, 0, 5).tolist(), strict=True))
    assert apart == {None: 0, 0: 1, 1: 2, 2: 3, 3: 4, 4: 5}
    assert feature_bins(Table([categorical(values[:-4])], len(values) - 4), 0, 3).min() == 0
