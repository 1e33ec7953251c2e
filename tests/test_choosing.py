"""Cross-fitted gains, importance on held-out rows, and keeping only what helps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scopefe
from scopefe.data.dataset import load_dataset
from scopefe.data.kinds import encode
from scopefe.evaluate import choosing
from scopefe.evaluate.choosing import ALPHA, chance, considered, decided
from scopefe.evaluate.downstream import predict
from scopefe.recipe.fitting import fit_recipe
from scopefe.run.budgets import Stop
from scopefe.run.engines import Threads
from scopefe.run.store import Store
from scopefe.score.attribution import Attribution
from scopefe.score.baseline import fold_rows
from scopefe.score.boosting import Part, parameters, train
from scopefe.score.halving import Halving, folded
from scopefe.score.held_out import held_out_gains
from scopefe.score.objective import Objective
from scopefe.score.selection import Selected
from scopefe.space.universe import Universe
from scopefe.spec.check import resolved_operators

SPLIT = "data.split={train: 0.6, selection: 0.2, test: 0.2}"


def signal(rows=1500, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=rows) for i in range(4)})
    frame["k"] = rng.choice(list("abcdef"), size=rows)
    return frame.assign(y=np.sign(frame["x0"] * frame["x1"]) + 0.3 * rng.normal(size=rows))


def noise(rows=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=rows) for i in range(4)})
    frame["k"] = rng.choice([f"c{i}" for i in range(40)], size=rows)
    frame["m"] = rng.choice([f"c{i}" for i in range(40)], size=rows)
    return frame.assign(y=rng.normal(size=rows))


def heavy_noise(rows=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{i}": rng.standard_t(2, size=rows) for i in range(4)})
    frame["k"] = rng.choice([f"c{i}" for i in range(40)], size=rows)
    ratio = seed % 2 == 0
    y = rng.uniform(size=rows) / rng.uniform(0.02, 1, size=rows) if ratio else rng.standard_t(2, size=rows)
    return frame.assign(y=y)


def rare_noise(rows=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=rows) for i in range(4)})
    frame["k"] = rng.choice([f"c{i}" for i in range(40)], size=rows)
    return frame.assign(y=np.where(rng.permutation(rows) < 0.03 * rows, "yes", "no"))


def category_noise(rows=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=rows) for i in range(2)})
    for name, count in (("k", 50), ("m", 100), ("o", 200)):
        frame[name] = rng.choice([f"c{i}" for i in range(count)], size=rows)
    return frame.assign(y=rng.normal(size=rows))


def ratio(rows=1500, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({name: rng.normal(size=rows) for name in "abcd"})
    return frame.assign(y=frame["a"] / frame["b"])


def weak(rows=1000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=rows) for i in range(4)})
    frame["k"] = rng.choice(list("abcdef"), size=rows)
    return frame.assign(y=0.25 * np.sign(frame["x0"] * frame["x1"]) + rng.normal(size=rows))


def recommended(*overrides):
    document = {
        "extends": "recommended",
        "data": {"source": {"type": "frame"}, "target": "y", "task": "auto"},
    }
    few = ["baseline.max_trees=60", "evaluation.max_trees=100", "evaluation.seeds=1"]
    return scopefe.load_spec(document, overrides=[SPLIT, *few, *overrides])


# --- folds


@given(rows=st.integers(5, 200), folds=st.integers(2, 7), classes=st.integers(1, 4), seed=st.integers(0, 9))
def test_each_row_is_measured_once_and_classes_are_spread(rows, folds, classes, seed):
    rng = np.random.default_rng(seed)
    target = rng.integers(classes, size=rows).astype(float)
    parts = folded(target, folds)
    assert len(parts) == min(folds, rows)
    assert sorted(np.concatenate([p[fit:] for p, fit in parts])) == list(range(rows))
    for order, _ in parts:
        assert sorted(order) == list(range(rows))
    for value in range(classes):
        counts = [(target[order[fit:]] == value).sum() for order, fit in parts]
        assert max(counts) - min(counts) <= 1


def test_agreement_is_the_mean_correlation_of_folds():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=5000)
    by_fold = np.stack([shared + rng.normal(size=5000) for _ in range(3)], axis=1)
    by_fold[7, 1] = np.nan
    assert scopefe.agreement(by_fold) == pytest.approx(0.5, abs=0.05)
    assert scopefe.agreement(by_fold[:, :1]) is None
    assert scopefe.agreement(by_fold[:2]) is None
    assert scopefe.agreement(np.zeros((9, 3))) is None


def test_cross_fitted_gains_are_measured_on_all_rows_and_the_report_says_how_they_agree():
    spec = recommended("selection.unseen=selection", "evaluation.seeds=0")
    report = scopefe.execute(spec, data=signal(), write=False).report
    (found,) = report.selection.rounds
    assert found.train_rows + found.selection_rows == report.data.rows["train"]
    assert 0.5 < found.agreement <= 1
    single = recommended("selection.gain=single-split")
    assert scopefe.execute(single, data=signal(), write=False).report.selection.rounds[0].agreement is None


# --- importance on held-out rows


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_gains_on_held_out_rows_add_up_to_what_the_model_gains(task):
    rng = np.random.default_rng(1)
    values = rng.normal(size=(3000, 6))
    values[rng.random(values.shape) < 0.1] = np.nan
    known = np.nan_to_num(values)
    raw = known[:, 0] * 2 + known[:, 1] * known[:, 2] + 0.5 * rng.normal(size=3000)
    target = raw if task == "regression" else np.digitize(raw, [0.0] if task == "binary" else [-1.0, 1.0])
    objective = Objective.of(task, 0 if task == "regression" else len(np.unique(target)))
    start = np.zeros((3000, 3)) if task == "multiclass" else np.full(3000, target[:1500].mean())
    parts = [
        Part(values[rows], target[rows].astype(float), start[rows]) for rows in np.split(np.arange(3000), 2)
    ]
    options = parameters(objective, seed=1, threads=1, num_leaves=16)
    booster, _ = train(options, *parts, categorical=[], trees=60, patience=10)
    gains = held_out_gains(booster, parts[1], objective, 1)
    held = parts[1]
    before = objective.row_losses(held.target, held.start).sum()
    raw_scores = booster.predict(held.values, raw_score=True, num_iteration=booster.best_iteration)
    after = objective.row_losses(held.target, held.start + raw_scores).sum()
    if task == "regression":
        assert gains.sum() == pytest.approx((before - after) / 2, rel=1e-5)
    else:
        assert gains.sum() == pytest.approx(before - after, rel=0.1)
    assert gains[:3].min() > 5 * np.abs(gains[3:]).max()


def test_a_column_that_memorises_has_importance_on_training_rows_only():
    rng = np.random.default_rng(2)
    rows = 2000
    values = np.column_stack([rng.normal(size=rows), rng.permutation(rows)]).astype(float)
    target = values[:, 0] + rng.normal(size=rows) * 2
    objective = Objective.of("regression", 0)
    fit, held = (Part(values[r], target[r], np.zeros(1000)) for r in np.split(np.arange(rows), 2))
    options = parameters(objective, seed=1, threads=1, num_leaves=16)
    booster, _ = train(options, fit, held, categorical=[], trees=200, patience=200)
    seen, unseen = booster.feature_importance("gain"), held_out_gains(booster, held, objective, 1)
    assert seen[1] > 0.1 * seen[0]
    assert unseen[1] < 0.02 * unseen[0]


# --- what may be kept


def chosen_of(frame, formulas, operators=("default",), gains=()):
    table = encode(frame, np.arange(len(frame)), columns=list(frame), ordinal_max_unique=3)
    spec = scopefe.load_spec({"name": "c", "data": {"target": "y"}, "operators": {"use": list(operators)}})
    universe = Universe(table.names, table.kinds, resolved_operators(spec))
    ids = {e.formula: i for i, e in enumerate(universe.expressions(universe.unique()))}
    ranked = np.array([ids[f] for f, _ in formulas])
    ranking = Attribution(ranked, np.array([v for _, v in formulas]), 1, ())
    selected = Selected(Halving((), ranked), ranking, gains={ids[f]: g for f, g in dict(gains).items()})
    kept = considered(universe, table, selected, 3)
    names = {i: f for f, i in ids.items()}
    return [names[i] for i in kept.tolist()]


def test_what_a_tree_cannot_tell_apart_is_considered_once():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(1, 2, 300), "b": rng.uniform(1, 2, 300), "y": 0.0})
    frame["c"] = 1 / frame["b"]
    formulas = [
        ("square(a)", 9.0),  # as `a` itself
        ("(a/b)", 8.0),
        ("(a*c)", 7.0),  # the same values
        ("(a+b)", 6.0),
        ("(a-b)", 0.0),
        ("(b-c)", -1.0),
    ]
    assert chosen_of(frame[["a", "b", "c"]], formulas) == ["(a/b)", "(a+b)"]


def test_candidates_take_turns_by_importance_and_by_gain():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.uniform(1, 2, 300), "b": rng.uniform(1, 2, 300)})
    formulas = [("(a*b)", 2.0), ("(a+b)", 0.0), ("(a-b)", 0.0), ("(a/b)", -1.0), ("min(a,b)", 0.0)]
    gains = {"(a*b)": 0.1, "(a+b)": -0.1, "(a-b)": 0.2, "(a/b)": 0.3}
    assert chosen_of(frame, formulas, gains=gains) == ["(a*b)", "(a/b)", "(a-b)"]
    two = [(formula, 1.0 if formula == "(a+b)" else importance) for formula, importance in formulas]
    assert chosen_of(frame, two, gains=gains) == ["(a*b)", "(a/b)", "(a+b)"]
    without = [(formula, min(importance, 0.0)) for formula, importance in formulas]
    assert chosen_of(frame, without, gains=gains) == []


def test_categories_are_the_same_under_other_names():
    rng = np.random.default_rng(0)
    k = rng.choice(list("abcd"), 300)
    frame = pd.DataFrame({"k": k, "n": [{"a": "z", "b": "q", "c": "e", "d": "r"}[v] for v in k],
                          "m": rng.choice(list("xy"), 300)})  # fmt: skip
    formulas = [("Combine(k,n)", 3.0), ("Combine(k,m)", 2.0), ("Combine(n,m)", 1.0)]
    assert chosen_of(frame, formulas) == ["Combine(k,m)"]


# --- the test


def test_without_effect_the_probability_is_as_often_small_as_it_says():
    rng = np.random.default_rng(0)
    p = []
    for _ in range(200):
        shared = rng.normal(size=(200, 1))
        p.append(chance(shared + 0.5 * rng.normal(size=(200, 4)), np.random.default_rng(1)))
    assert 0.01 < np.mean(np.array(p) < ALPHA) < 0.1
    assert 0.4 < np.mean(p) < 0.6


def test_an_effect_is_sure_and_repeating_a_size_changes_nothing():
    rng = np.random.default_rng(0)
    lower = rng.normal(size=(400, 1)) + 0.15
    alone, repeated = (chance(lower[:, columns], np.random.default_rng(1)) for columns in ([0], [0, 0, 0]))
    assert alone < 0.02
    assert repeated == pytest.approx(alone, abs=0.003)
    assert chance(np.zeros((50, 3)), rng) == 1.0
    assert chance(lower[:1], rng) == 1.0


def normal_chance(lower):
    """Return what normal draws would say of the plain means: what skew and heavy tails break."""
    spread = lower.std(axis=0)
    lower, spread = lower[:, spread > 0], spread[spread > 0]
    correlation = np.atleast_2d(np.corrcoef(lower, rowvar=False))
    observed = (lower.mean(axis=0) / spread).max() * np.sqrt(len(lower) - 1)
    rng = np.random.default_rng(0)
    drawn = rng.multivariate_normal(np.zeros(len(spread)), correlation, size=20_000, method="eigh")
    return (1 + (drawn.max(axis=1) >= observed).sum()) / 20_001


def sizes_like(each, rng):
    """Return decreases of three sizes, each row alike in most."""
    rows = len(each)
    return np.stack([np.where(rng.random(rows) < 0.8, each, rng.permutation(each)) for _ in range(3)], axis=1)


def sure(make, seeds=40, rows=400):
    """Return the decreases of each seed, and which of them are sure now and by normal draws."""
    rngs = [np.random.default_rng(seed) for seed in range(seeds)]
    found = [sizes_like(make(rng, rows), rng) for rng in rngs]
    kept = [decided(x, len(x), np.array([1, 2, 5]), np.random.default_rng(1)).kept > 0 for x in found]
    normal = [normal_chance(lower) < ALPHA and lower.mean(axis=0).max() > 0 for lower in found]
    return found, np.array(kept), np.array(normal)


def of_ratio(rng, rows):
    """Return the decreases of a model that tells a tenth of a/b, with errors of its own."""
    y = rng.normal(size=rows) / rng.normal(size=rows)
    return y**2 - (0.9 * y + 0.5 * rng.normal(size=rows)) ** 2


def test_few_rows_with_large_decreases_do_not_hide_what_helps_the_others():
    _, kept, normal = sure(of_ratio)
    assert kept.mean() > normal.mean() + 0.2
    assert kept.mean() > 0.5


@pytest.mark.parametrize(("loss", "bound"), [(0.1 * 0.97 / 0.03, 0.1), (5.0, 0.025)])
def test_where_the_median_row_gets_better_and_the_mean_does_not_nothing_is_kept(loss, bound):
    def rare_losses(rng, rows):
        return np.where(rng.random(rows) < 0.03, -loss, 0.1) + 0.01 * rng.normal(size=rows)

    found, kept, _ = sure(rare_losses)
    assert all((np.median(lower, axis=0) > 0).all() for lower in found)
    assert kept.mean() <= bound
    assert not any(k and lower.mean(axis=0).max() <= 0 for k, lower in zip(kept, found, strict=True))


def test_where_the_median_row_gets_worse_and_the_mean_better_features_are_kept():
    def rare_gains(rng, rows):
        return np.where(rng.random(rows) < 0.03, 8.0, -0.1) + 0.01 * rng.normal(size=rows)

    found, kept, normal = sure(rare_gains)
    assert all((np.median(lower, axis=0) < 0).all() for lower in found)
    assert kept.mean() >= max(normal.mean(), 0.5)


def test_skewed_decreases_are_no_surer_than_they_are():
    def skewed(rng, rows):
        return np.exp(0.5) - rng.lognormal(size=rows)

    _, kept, normal = sure(skewed, seeds=100)
    assert kept.mean() < 0.12
    assert kept.mean() < normal.mean()


def test_the_size_with_the_largest_mean_decrease_is_kept_and_weights_have_no_scale():
    rng = np.random.default_rng(0)
    lower = rng.normal(size=(500, 1)) + np.array([[-0.1, 0.2, 0.3, 0.1]])
    sizes = np.array([1, 2, 5, 10])
    choices = [decided(factor * lower, 500, sizes, np.random.default_rng(1)) for factor in (1, 1e-6, 1e6)]
    assert [choice.kept for choice in choices] == [5, 5, 5]
    assert len({choice.p for choice in choices}) == 1
    np.testing.assert_allclose(choices[0].decreases, lower.mean(axis=0))
    assert decided(-np.abs(lower), 500, sizes, rng).kept == 0


# --- whole runs


@pytest.mark.parametrize(
    ("unseen", "roles"), [("selection", ["selection"]), ("parts", ["train", "selection"])]
)
def test_a_planted_signal_is_kept_and_helps(unseen, roles):
    spec = recommended("evaluation.seeds=2", f"selection.unseen={unseen}")
    report = scopefe.execute(spec, data=signal(), write=False).report
    choice, evaluation = report.selection.choice, report.evaluation
    assert choice.kept == len(report.selection.selected) > 0
    assert choice.p < ALPHA
    assert choice.rows == sum(report.data.rows[role] for role in roles)
    assert report.selection.protocol == ("nested" if unseen == "selection" else "cross-fitted")
    assert {"x0", "x1"} <= set(report.selection.selected[0].inputs)
    assert evaluation.with_features.mean < 0.95 * evaluation.base.mean


@pytest.mark.parametrize("unseen", ["selection", "parts"])
@pytest.mark.parametrize("seed", [0, 1])
def test_of_noise_nothing_is_kept_and_that_is_a_result(seed, unseen):
    spec = recommended(f"selection.unseen={unseen}")
    run = scopefe.execute(spec, data=noise(seed=seed), write=False)
    assert run.report.selection.choice.kept == 0
    assert run.report.selection.ranking
    assert not run.failed
    assert any("Nothing is kept" in note for note in run.report.notes)
    assert run.recipe.features == ()


@pytest.mark.slow
def test_of_noise_of_four_kinds_little_is_kept_in_100_seeds_each():
    spec = recommended("evaluation.seeds=0", "execution.jobs=1")
    kept = {
        make.__name__: sum(
            bool(scopefe.execute(spec, data=make(seed=s), write=False).report.selection.selected)
            for s in range(100)
        )
        for make in (noise, heavy_noise, rare_noise, category_noise)
    }
    assert max(kept.values()) <= 9, kept
    assert sum(kept.values()) <= 27, kept


@pytest.mark.slow
@pytest.mark.parametrize(("make", "more"), [(weak, 0), (ratio, 4)])
def test_of_a_signal_at_least_as_much_is_kept_as_normal_draws_would(make, more, monkeypatch):
    seen = []

    def told(both, rng):
        seen.append(both[:, : both.shape[1] // 2])  # as they are, before the clipped ones
        return chance(both, rng)

    monkeypatch.setattr(choosing, "chance", told)
    spec = recommended("evaluation.seeds=0", "execution.jobs=1")
    kept = [
        bool(scopefe.execute(spec, data=make(seed=s), write=False).report.selection.selected)
        for s in range(30)
    ]
    normal = [normal_chance(lower) < ALPHA for lower in seen]
    assert sum(kept) >= sum(normal) + more


def test_selection_rows_decide_and_nothing_else():
    data = signal()
    spec = recommended("evaluation.seeds=0", "selection.unseen=selection")
    first = scopefe.execute(spec, data=data, write=False).report.selection
    rows = scopefe.compile(spec, data=data).data.rows.selection
    other = data.copy()
    other.loc[rows, "y"] = np.random.default_rng(5).permutation(other.loc[rows, "y"])
    second = scopefe.execute(spec, data=other, write=False).report.selection
    assert first.ranking == second.ranking
    assert first.choice.kept > 0
    assert second.choice.kept == 0


def test_many_selection_rows_decide_alone():
    data = pd.DataFrame({"a": np.arange(26_000.0), "y": np.arange(26_000.0) % 7})
    spec = recommended("scope.operators=all")
    few, many = (scopefe.compile(spec, data=data[: 5 * n]) for n in (4_990, 5_000))
    assert (few.decides, few.protocol) == ("parts", "cross-fitted")
    assert (many.decides, many.protocol) == ("selection", "nested")
    assert scopefe.compile(recommended("selection.keep=3"), data=data[:500]).decides is None


@given(rows=st.integers(20, 200), count=st.integers(2, 6), seed=st.integers(0, 9))
def test_parts_of_the_rows_are_left_out_in_turn(rows, count, seed):
    data = load_dataset(recommended().data, noise(rows, seed))
    parts = data.parts(count, seed)
    tested = np.concatenate([part.rows.test for part in parts])
    assert len(tested) == len(set(tested.tolist()))
    untested = {*data.rows.development.tolist()} - {*tested.tolist()}
    assert not untested or {*data.rows.selection.tolist()} <= untested
    for part in parts:
        used = [*part.rows.train, *part.rows.selection]
        assert {*used}.isdisjoint(part.rows.test.tolist())
        assert {*part.rows.train} <= {*data.rows.train.tolist()}
        assert len(used) + len(part.rows.test) == len(data.rows.development)


def grouped(rows=400, groups=23):
    frame = noise(rows)
    return frame.assign(g=np.random.default_rng(1).integers(groups, size=rows), t=np.arange(rows)[::-1] // 7)


def roles(data, column):
    return [set(column[part].tolist()) for part in (data.rows.train, data.rows.selection, data.rows.test)]


BY_GROUPS = "data.split={by: groups, column: g}"
BY_TIME = "data.split={by: time, column: t}"


def test_no_division_takes_a_group_apart():
    frame = grouped()
    data = load_dataset(recommended(BY_GROUPS).data, frame)
    g = frame["g"].to_numpy()
    parts = data.parts(5, 0)
    assert sorted(np.concatenate([part.rows.test for part in parts])) == sorted(data.rows.development)
    for divided in [*parts, data.nested(0), data.fresh(0)]:
        train, selection, test = roles(divided, g)
        assert train.isdisjoint(selection)
        assert test.isdisjoint(train | selection)
    rows, objective = data.rows.development, Objective.of("regression", 0)
    for fit, held in fold_rows(data.scaled_target, objective, 5, g[rows]):
        assert set(g[rows][fit]).isdisjoint(g[rows][held])
    order = np.random.default_rng(0).permutation(len(rows))
    groups = g[rows][order]
    for part, fitted in folded(data.scaled_target[order], 5, groups):
        assert set(groups[part[:fitted]]).isdisjoint(groups[part[fitted:]])


def test_later_rows_decide_over_what_earlier_ones_teach():
    frame = grouped()
    data = load_dataset(recommended(BY_TIME).data, frame)
    t = frame["t"].to_numpy()
    parts = data.parts(5, 0)
    assert len(parts) == 5
    tested = np.concatenate([part.rows.test for part in parts])
    assert len(tested) == len(set(tested)) > 0.8 * len(data.rows.development)
    for divided in [*parts, data.nested(0), data.fresh(0)]:
        assert t[divided.rows.train].max() < t[divided.rows.selection].min()
        assert not len(divided.rows.test) or (t[divided.rows.test].min() >= t[divided.rows.selection].max())
    for part in parts:
        assert t[part.rows.test].min() > t[part.rows.selection].max()


def memorised(rows=3000):
    """Return a table in which the sum of two features tells the group, and the group tells the target."""
    rng = np.random.default_rng(0)
    g, level = rng.permutation(np.arange(rows) % 100), rng.normal(size=100)
    frame = pd.DataFrame({"a": g % 10, "b": g // 10 * 10, "g": g})
    return frame.assign(y=level[g] + 0.5 * rng.normal(size=rows))


@pytest.mark.parametrize("unseen", ["selection", "parts"])
def test_what_only_tells_the_group_is_not_kept(unseen):
    overrides = [BY_GROUPS, f"selection.unseen={unseen}", "evaluation.seeds=0"]
    report = scopefe.execute(recommended(*overrides), data=memorised(), write=False).report
    assert report.selection.selected == []


@pytest.mark.parametrize("split", [BY_GROUPS, BY_TIME])
def test_a_signal_is_found_by_groups_and_in_time(split):
    frame = grouped(1500).drop(columns="y").join(signal()["y"]).assign(x0=signal()["x0"], x1=signal()["x1"])
    drop = "data.features.drop=[t]" if split == BY_TIME else "data.features.drop=[m]"
    found = scopefe.execute(recommended(split, drop, "evaluation.seeds=0"), data=frame, write=False).report
    assert {"x0", "x1"} == set(found.selection.selected[0].inputs)


def test_with_two_groups_nothing_can_be_decided():
    frame = noise(300).assign(g=np.repeat(["a", "b", "c"], 100))
    overrides = [BY_GROUPS, "evaluation.seeds=0", "selection.unseen=parts"]
    report = scopefe.execute(recommended(*overrides), data=frame, write=False).report
    assert report.selection.selected == []
    assert any(note.startswith("Nothing is kept") for note in report.notes)


def test_a_model_of_the_first_columns_is_that_of_a_table_of_these():
    data = load_dataset(recommended().data, signal(400))
    matrix = fit_recipe("r", "", data.development, []).matrix(data.table)
    settings = {
        "learner": "lightgbm",
        "parameters": {},
        "stopping": "rmse",
        "seeds": range(2),
        "max_trees": 20,
        "early_stopping": 5,
    }
    alone = [
        list(
            predict(data, replace(matrix, columns=matrix.columns[:width], categorical=kept), one, **settings)
        )
        for one in [Threads(1)]
        for width, kept in ((2, []), (5, [4]))
    ]
    for jobs in (1, 2):
        found = list(predict(data, matrix, Threads(jobs), widths=[2, 5], **settings))
        expected = [*alone[0], *alone[1]]
        np.testing.assert_array_equal([s for s, _ in found], [s for s, _ in expected])
        assert [trees for _, trees in found] == [trees for _, trees in expected]


@pytest.mark.parametrize("name", ["jannis", "covtype", "telecom"])
def test_the_shipped_tables_leave_it_to_the_spec_how_many_are_kept(name, monkeypatch):
    monkeypatch.setenv("SCOPEFE_DATA", "tables")
    assert scopefe.load_spec("recommended", fragments=[f"data/{name}"]).selection.keep == "auto"
    assert scopefe.load_spec("scope-fe", fragments=[f"data/{name}"]).selection.keep == 10


def test_a_budget_of_candidates_is_that_of_the_run_s_own_pool():
    overrides = ["scope.operators={gate: probe, keep: 2}", "evaluation.seeds=0"]
    pool = scopefe.compile(recommended(*overrides), data=signal(300)).pool_size
    enough, few = (
        scopefe.execute(
            recommended(*overrides, f"execution.budget.max_candidates={most}"), data=signal(300), write=False
        )
        for most in (pool, pool - 1)
    )
    assert enough.report.selection.stopped is None
    assert not enough.failed
    assert few.report.selection.stopped.budget == "max_candidates"
    assert few.failed


def test_a_budget_spent_before_it_is_decided_is_a_failure(monkeypatch):
    monkeypatch.setattr(
        "scopefe.run.budgets.Watch._spent",
        lambda _, before: Stop(before, "max_seconds", "spent") if before == "choice" else None,
    )
    run = scopefe.execute(recommended(), data=signal(300), write=False)
    assert run.report.selection.ranking
    assert run.report.selection.selected == []
    assert run.failed
    assert "Nothing is kept: it was not decided how many features help." in run.report.notes


@pytest.mark.parametrize("blocks", [1, 8])
def test_all_are_kept_whatever_they_are_worth(blocks):
    data = noise(400, 3)
    overrides = ["selection.keep=all", f"selection.data_blocks={blocks}", "scope.operators=all"]
    run = scopefe.execute(recommended(*overrides, "evaluation.seeds=0"), data=data, write=False)
    report = run.report
    assert report.selection.survivors == len(run.recipe.features) == report.space.pool.raw
    assert any(f.gain <= 0 for f in run.recipe.features)
    assert len(report.selection.rounds) == 1
    assert "Every candidate of the pool is kept, whatever its gain." in report.notes


def test_a_choice_is_kept_in_the_store(cache_dir):
    spec = recommended("evaluation.seeds=0")
    first, second = (scopefe.execute(spec, data=signal(), write=False).report for _ in range(2))
    assert first.selection == second.selection
    assert next(t for t in second.volatile.times if t.step == "choice").reused > 0.9


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["selection.engine=openfe"], "gain: cross-fitted is for engine: native"),
        (["selection={engine: openfe, gain: single-split, keep: all}"], "keep: all is for engine: native"),
        (
            ["selection={engine: openfe, gain: single-split, keep: 3}"],
            "categories: declared is for engine: native",
        ),
    ],
)
def test_what_does_not_go_together_is_said(overrides, message):
    with pytest.raises(scopefe.SpecError, match=message):
        recommended(*overrides)


def test_seconds_of_what_a_run_computes_itself_are_counted_once():
    report = scopefe.execute(recommended(), data=signal(), write=False).report
    assert report.volatile.run_stored_seconds == 0
    assert report.volatile.run_seconds < report.volatile.seconds


def test_where_nothing_ranked_is_worth_a_trial_the_report_says_so():
    report = scopefe.execute(recommended(), data=noise(rows=40), write=False).report
    assert report.selection.selected == []
    assert report.selection.choice is None
    assert any("no ranked candidate has importance" in note for note in report.notes)


def test_a_matched_pool_is_that_of_the_rows_that_the_search_sees():
    data = noise(rows=600)
    document = {
        "name": "m",
        "data": {},
        "scope": {"operators": {"gate": "random-joint", "match": "scope-fe"}},
    }
    of_frame = ["data.source={type: frame}", "data.target=y", "data.task=regression", SPLIT]
    spec = scopefe.load_spec(document, overrides=[*of_frame, "baseline.max_trees=20"])
    whole = scopefe.compile(spec, data=data)
    part = whole.data.parts(5, 1)[0]
    other = data.copy()
    other.loc[part.rows.test, "y"] = np.random.default_rng(9).permutation(other.loc[part.rows.test, "y"])
    again = scopefe.compile(spec, data=other)
    pools = [c.within(replace(part, labels=c.data.labels)).scope.ids().tolist() for c in (whole, again)]
    assert pools[0] == pools[1]


def test_associations_are_computed_once_for_all_seeds():
    store, data = Store(), signal(rows=300)
    made = []
    for seed in (1, 2):
        spec = recommended("scope.pairs=hard-intra", "scope.operators=all", f"seed={seed}")
        made.append(scopefe.compile(spec, data=data, store=store))
    times = {t.step: t for t in made[1].bench.times}
    assert times["pairs"].stored_seconds > 0
