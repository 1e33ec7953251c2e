"""The gate that scores operators on histograms of gradients."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scopefe.gates.quantised as gate_module
from conftest import needs_data
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

import scopefe
from scopefe.run.auditing import Scored
from scopefe.run.compiling import compile
from scopefe.run.store import Store

SPLIT = "data.split={train: 0.6, selection: 0.2, test: 0.2}"


def spec_of(*overrides, **gate):
    document = {
        "name": "q",
        "data": {"target": "y"},
        "baseline": {"max_trees": 60},
        "scope": {"operators": {"gate": "quantised", **gate}},
    }
    return scopefe.load_spec(document, overrides=[SPLIT, "evaluation.seeds=0", *overrides])


def table(rows=2000, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=rows) for i in range(5)})
    frame["k"] = rng.choice(list("abcdefgh"), size=rows)
    frame["m"] = rng.choice(list("pqrst"), size=rows)
    frame["o"] = rng.integers(0, 6, size=rows)
    return frame, rng


def planted(kind, seed=0, rows=3000):
    frame, rng = table(rows, seed)
    x0, x1 = frame["x0"].to_numpy(), frame["x1"].to_numpy()
    if kind == "product":
        return frame.assign(y=x0 * x1 + 0.3 * rng.normal(size=rows)), "(x0*x1)"
    if kind == "ratio":
        frame["x1"] = np.exp(x1)
        return frame.assign(y=np.clip(x0 / frame["x1"], -3, 3) + 0.3 * rng.normal(size=rows)), "(x0/x1)"
    if kind == "group mean":
        groups = rng.integers(0, 500, size=rows)
        level = rng.normal(size=500)[groups]
        frame["k"] = [f"g{g}" for g in groups]
        frame["x0"] = level + rng.normal(size=rows)
        return frame.assign(y=level + 0.3 * rng.normal(size=rows)), "GroupByThenMean(x0,k)"
    if kind == "rank":
        frame["x0"] = x0 + 10.0 * (frame["k"].map(ord) - ord("a"))
        return frame.assign(y=np.sin(3 * x0) + 0.3 * rng.normal(size=rows)), "GroupByThenRank(x0,k)"
    crossed = rng.normal(size=(8, 5))[
        frame["k"].map(ord).to_numpy() - ord("a"), frame["m"].map(ord).to_numpy() - ord("p")
    ]
    return frame.assign(y=crossed + 0.3 * rng.normal(size=rows)), "Combine(k,m)"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["product", "ratio", "group mean", "rank", "crossed"])
def test_a_planted_signal_is_in_the_best_hundredth_of_a_large_universe(kind):
    missed = []
    for seed in range(20):
        frame, formula = planted(kind, seed)
        more = np.random.default_rng(seed + 100).normal(size=(len(frame), 12))
        wide = pd.concat([frame, pd.DataFrame(more, columns=[f"z{i}" for i in range(12)])], axis=1)
        kept = compile(spec_of(budget=0.01), data=wide)
        missed += [seed] if formula not in ranked(kept) else []
    assert missed == []


def many_signals(rows=6000):
    """Return a table in which many candidates help."""
    frame, rng = table(rows)
    x = [frame[f"x{i}"].to_numpy() for i in range(5)]
    level = rng.normal(size=8)[frame["k"].map(ord).to_numpy() - ord("a")]
    y = 2 * x[0] * x[1] + np.abs(x[2] - x[3]) + level * x[4] + np.sin(4 * x[0]) + 0.2 * rng.normal(size=rows)
    return frame.assign(y=y)


def ranked(compiled):
    """Return the formulas that a gate keeps."""
    return [e.formula for e in compiled.universe.expressions(compiled.scope.ids())]


@pytest.mark.parametrize("kind", ["product", "ratio", "group mean", "rank", "crossed"])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_planted_signal_is_among_the_best(kind, seed):
    frame, formula = planted(kind, seed)
    kept = ranked(compile(spec_of(budget=0.03), data=frame))
    assert formula in kept


@pytest.mark.parametrize("statistic", ["boosting", "chi2"])
@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_scores_go_with_exact_gains(task, statistic):
    frame = many_signals()
    if task != "regression":
        frame["y"] = pd.qcut(frame["y"], 2 if task == "binary" else 3, labels=False)
    store = Store()
    spec = spec_of("baseline.max_trees=30", budget=0.1, statistic=statistic)
    scored = Scored(spec, frame, store, lambda _: None)
    inside = scored.ranking.members(scored.compile(spec).scope)
    assert scored.ranking.enrichment(inside).value > 3
    assert scored.ranking.recall(inside, [10])[10] >= 0.6


def test_a_budget_is_a_share_or_a_number():
    frame, _ = planted("product")
    whole = compile(spec_of(budget=10**9), data=frame)
    unique = whole.space.universe.unique
    assert whole.pool_size == unique
    assert compile(spec_of(budget=0.25), data=frame).pool_size == round(0.25 * unique)
    assert compile(spec_of(budget=17), data=frame).pool_size == 17
    assert compile(spec_of(budget=0.01, at_least=33), data=frame).pool_size == 33
    assert compile(spec_of(budget=0.01, at_least=10**6), data=frame).pool_size == unique


def test_only_what_a_pair_gate_admits_is_scored():
    frame, _ = planted("product")
    chosen = "scope.pairs={gate: hard-intra, target_cluster_size: 3}"
    gated = compile(spec_of(chosen, budget=10**9), data=frame)
    pairs = compile(spec_of(chosen, "scope.operators=all"), data=frame)
    assert gated.pool_size == pairs.space.pool.unique
    assert gated.facts["quantised"]["candidates"] == gated.pool_size


def test_jobs_and_missing_values_change_nothing_they_should_not():
    frame, _ = planted("group mean")
    frame.loc[::7, "x0"] = np.nan
    frame.loc[::11, "k"] = None
    frame.loc[::13, "x2"] = np.inf
    frame["constant"], frame["empty"] = 1.5, np.nan
    pools = [
        compile(spec_of(f"execution.jobs={jobs}", budget=0.1), data=frame).scope.ids() for jobs in (1, 2)
    ]
    assert (pools[0] == pools[1]).all()


OWN = """
import numpy as np
from scopefe import operator

@operator("harmonic", takes=("numeric", "numeric"), symmetric=True)
def harmonic(a, b):
    return 2 * a * b / (a + b)

@operator("distance to mean", takes=("numeric", "categorical"))
class Distance:
    def fit(self, values, keys):
        sums = np.bincount(keys.codes, values, minlength=keys.size)
        return {"labels": keys.labels, "values": sums / np.maximum(keys.counts, 1)}

    def apply(self, state, values, keys):
        return values - np.append(state["values"], np.nan)[keys.coded_as(state["labels"])]
"""


def test_operators_of_ones_own_are_scored(tmp_path):
    (tmp_path / "own.py").write_text(OWN)
    frame, rng = table(3000)
    level = 5 * rng.normal(size=8)[frame["k"].map(ord).to_numpy() - ord("a")]
    frame["x0"] += level
    frame["y"] = np.cos(4 * (frame["x0"] - level)) + 0.2 * rng.normal(size=3000)
    own = [
        f"operators.modules=[{tmp_path / 'own.py'}]",
        "operators.use=[default, harmonic, distance to mean]",
    ]
    kept = ranked(compile(spec_of(*own, budget=0.02), data=frame))
    assert "distance to mean(x0,k)" in kept


def test_pairs_of_categories_need_no_other_operator():
    frame, _ = planted("crossed")
    for name in ("Combine", "CombineThenFreq", "GroupByThenNUnique"):
        compiled = compile(spec_of(f"operators.use=[{name}]", budget=10**9), data=frame)
        assert compiled.facts["quantised"]["failed"] == 0
        assert compiled.pool_size == compiled.space.universe.unique


def test_an_operator_that_fails_is_told_and_ranks_last(tmp_path):
    (tmp_path / "own.py").write_text(OWN.replace("return 2 * a * b / (a + b)", "raise ValueError('no')"))
    frame, _ = planted("product")
    own = [f"operators.modules=[{tmp_path / 'own.py'}]", "operators.use=['*', harmonic]"]
    compiled = compile(spec_of(*own, budget=10**9), data=frame)
    facts = compiled.facts["quantised"]
    assert facts["failures"] == {"harmonic": "ValueError: no"}
    assert facts["failed"] == compiled.pool_size // 2
    assert not any("harmonic" in f for f in ranked(compile(spec_of(*own, budget=0.5), data=frame)))


def test_of_many_failures_the_same_one_is_told_for_any_number_of_jobs(tmp_path):
    body = "raise ValueError(f'no {a.sum():.3f}')"
    (tmp_path / "own.py").write_text(OWN.replace("return 2 * a * b / (a + b)", body))
    frame, _ = planted("product")
    own = [f"operators.modules=[{tmp_path / 'own.py'}]", "operators.use=['*', harmonic]"]
    told = {
        compile(spec_of(*own, f"execution.jobs={jobs}", budget=10**9), data=frame).facts["quantised"][
            "failures"
        ]["harmonic"]
        for jobs in (1, 2, 4, 8)
    }
    assert len(told) == 1


def test_a_budget_is_checked():
    frame, _ = planted("product")
    with pytest.raises(scopefe.SpecError, match=r"2\.5 is neither a share below 1 nor a whole number"):
        compile(spec_of(budget=2.5), data=frame)


@pytest.mark.parametrize(("texts", "pool"), [(1, 45), (5, 500)])
def test_the_recommended_gate_starves_no_small_table(texts, pool):
    """A tenth of 45 candidates is 4: all of them together cost seconds."""
    rng = np.random.default_rng(3)
    columns = {f"k{i}": rng.integers(0, 9, 300).astype(str) for i in range(texts)}
    columns |= {f"x{i}": rng.normal(size=300) for i in range(3 if texts == 1 else 6)}
    frame = pd.DataFrame({**columns, "y": rng.normal(size=300)})
    compiled = compile(
        scopefe.load_spec("recommended", overrides=["data.source={type: frame}", "data.target=y"]), data=frame
    )
    assert compiled.space.pool.unique >= min(pool, compiled.space.universe.unique)


def test_compile_and_report_tell_what_a_gate_took_and_added():
    frame, _ = planted("product")
    spec = spec_of("evaluation.seeds=0", "selection.keep=1", budget=20, noise=1)
    (every, gate) = compile(spec, data=frame).space.gates
    assert (every.place, every.gate, every.removed, every.added) == ("pairs", "all", 0, {})
    assert (gate.place, gate.gate, gate.added) == ("operators", "quantised", {"for noise": 20})
    assert gate.came_in - gate.removed == 40
    report = scopefe.execute(spec, data=frame, write=False).report
    assert report.space.gates == [every, gate]
    assert report.space.never_tried == report.space.universe.unique - 40
    left_out = f"{report.space.never_tried:,} candidates were left out before the search, and never tried."
    assert left_out in report.notes
    assert any("hardly agree between folds: 20 more" in note for note in report.notes)


def test_the_gate_says_how_far_the_folds_agree():
    signal, _ = planted("product")
    noise = signal.assign(y=np.random.default_rng(5).normal(size=len(signal)))
    agreement = [
        compile(spec_of(), data=data).facts["quantised"]["fold_correlation"] for data in (signal, noise)
    ]
    assert agreement[0] > agreement[1] + 0.2


def test_it_needs_data_and_a_target():
    spec = scopefe.load_spec(
        {
            "name": "q",
            "data": {"target": "y", "features": {"kinds": {"a": "numerical", "b": "numerical"}}},
            "scope": {"operators": "quantised"},
        }
    )
    assert compile(spec, static=True).bounded == ["scope.operators"]


def test_features_of_other_rows_play_no_part():
    frame, _ = planted("product")
    rows = compile(spec_of(), data=frame).data.rows
    other = frame.copy()
    other.loc[rows.test, "y"] = 0.0
    assert (compile(spec_of(), data=frame).scope.ids() == compile(spec_of(), data=other).scope.ids()).all()


@needs_data("telecom")
@pytest.mark.slow
def test_it_keeps_what_scope_fe_leaves_out_on_telecom(data_folder):
    store = Store()
    names = ["evaluation.seeds=0", "data.sample={fraction: 0.4}"]
    scope_fe = scopefe.load_spec("scope-fe", fragments=["data/telecom"], overrides=names)
    quantised = scopefe.load_spec(
        "openfe",
        fragments=["data/telecom"],
        overrides=[*names, "scope.operators={gate: quantised, budget: 0.1}"],
    )
    scored = Scored(scope_fe, None, store, lambda _: None)
    recall = [
        scored.ranking.recall(scored.ranking.members(scored.compile(s).scope), [100])[100]
        for s in (scope_fe, quantised)
    ]
    assert recall[1] > recall[0] + 0.2


def test_the_quadratic_loss_is_the_loss_of_a_regression():
    from scopefe.gates import histograms

    rng = np.random.default_rng(0)
    rows = 4000
    values, target = rng.integers(0, 20, size=rows), rng.normal(size=rows)
    target += (values % 3 == 0) * 0.5
    fold = rng.permutation(np.arange(rows) % 5)
    sums = histograms.cell_sums(values, 20, fold, -target[None, :], np.ones((1, rows)))
    scores = histograms.fold_scores(sums, 0.0)
    best = []
    for number in range(5):
        inside = fold == number
        means = np.array([target[~inside & (values == v)].mean() for v in range(20)])
        fitted = means[values[inside]]
        best.append((np.square(target[inside]) - np.square(target[inside] - fitted)).mean() / 2)
    assert spearmanr(scores, best).statistic > 0.5
    assert scores == pytest.approx(best, rel=0.25)


def test_of_a_large_table_candidates_are_scored_on_a_part_of_the_rows():
    frame, formula = planted("group mean", rows=5000)

    def kept(**gate):
        compiled = compile(spec_of(budget=0.03, **gate), data=frame)
        return compiled.facts["quantised"], ranked(compiled)

    few, formulas = kept(rows=1500)
    assert (few["rows_scored"], few["rows"]) == (1500, 4000) and formula in formulas
    assert kept(rows=1500) == (few, formulas) and kept(rows=1500, seed=2)[0] != few
    assert kept(rows=4000) == kept(rows=None)


@pytest.mark.parametrize(("rows", "told"), [(1500, True), (4000, False)])
def test_a_report_says_how_many_rows_candidates_were_scored_on(rows, told):
    frame, _ = planted("product", rows=5000)
    run = scopefe.execute(spec_of("selection.keep=1", budget=0.03, rows=rows), data=frame, write=False)
    said = "The gate quantised scored candidates on 1,500 of 4,000 rows, drawn at random."
    assert (said in run.report.notes) == told


def test_a_part_of_rows_with_missing_values_rare_classes_and_keys_of_one_row():
    frame = many_signals(3000)
    frame["y"] = pd.qcut(frame["y"], [0, 0.01, 0.5, 1], labels=False)
    frame["id"] = np.arange(3000).astype(str)
    frame.loc[::7, "k"] = None
    frame.loc[::5, "x0"] = np.nan
    facts = compile(spec_of(rows=300), data=frame).facts["quantised"]
    assert facts["failed"] == 0 and facts["kept"] > 0 and np.isfinite(facts["lowest_kept"])


def test_where_folds_hardly_agree_the_pool_is_widened_by_importance():
    frame, rng = table(1500, 3)
    frame["y"] = frame["x0"] + rng.normal(size=1500)
    agreed, widened = (compile(spec_of(budget=20, noise=noise), data=frame) for noise in (-1, 1))
    facts = widened.facts["quantised"]
    assert (facts["kept"], facts["kept_by_importance"], widened.pool_size) == (40, 20, 40)
    assert agreed.facts["quantised"]["kept_by_importance"] == 0
    kept, more = set(ranked(agreed)), set(ranked(widened))
    assert kept < more
    assert all("x0" in formula for formula in more - kept)
    spec = spec_of(budget=20, noise=1, statistic="chi2")
    assert compile(spec, data=frame).facts["quantised"]["kept_by_importance"] == 0


def test_a_report_says_that_gains_are_noise():
    frame, rng = table(600, 4)
    frame["y"] = rng.normal(size=600)
    notes = scopefe.execute(spec_of("selection.gain=cross-fitted"), data=frame, write=False).report.notes
    assert any("mostly noise" in note for note in notes)
    assert any("kept, by the importance of their features" in note for note in notes)


def test_of_very_many_values_close_ones_stand_for_each_other(monkeypatch):
    frame, rng = table(4000, 5)
    frame["y"] = np.abs(frame["x0"]) + np.square(frame["x1"]) + 0.2 * rng.normal(size=4000)
    spec = spec_of("operators.use=[abs, square, sigmoid, round, residual]", budget=6)
    exact = ranked(compile(spec, data=frame))
    monkeypatch.setattr(gate_module, "FINE", 300)
    coarse = ranked(compile(spec, data=frame))
    assert {"abs(x0)", "abs(x1)"} <= set(exact) & set(coarse)


def test_chi2_does_not_depend_on_how_much_the_baseline_leaves():
    frame, rng = table(4000, 6)
    signal, noise = frame["x0"] * frame["x1"], rng.normal(size=4000)
    kept = {}
    for explained in (0, 100):  # a main effect that the baseline finds shrinks what is left in standard units
        data = frame.assign(y=explained * frame["x2"] + signal + 0.3 * noise)
        spec = spec_of("baseline.max_trees=300", statistic="chi2", budget=0.03)
        kept[explained] = ranked(compile(spec, data=data))
    assert "(x0*x1)" in kept[0]
    assert "(x0*x1)" in kept[100]


@pytest.mark.parametrize("statistic", ["boosting", "chi2"])
def test_what_is_constant_is_kept_last(statistic):
    frame, rng = table(1500, 7)
    frame = frame.assign(c=1.0, y=rng.normal(size=1500))
    gate = compile(spec_of(statistic=statistic, budget=40, noise=-1), data=frame)
    constant = {
        "abs(c)",
        "square(c)",
        "log(c)",
        "round(c)",
        "freq(c)",
        "GroupByThenStd(c,k)",
        "GroupByThenRank(c,k)",
    }
    assert constant.isdisjoint(ranked(gate))


@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(5, 300),
    folds=st.integers(1, 5),
    outputs=st.integers(1, 3),
)
def test_sums_of_pairs_and_of_ranks_are_those_of_their_cells(seed, rows, folds, outputs):
    from scopefe.gates import histograms

    rng = np.random.default_rng(seed)
    fold = rng.permutation(np.arange(rows) % folds)
    first, second = rng.normal(size=(2, outputs, rows))
    order, starts = np.argsort(fold, kind="stable"), np.append(0, np.cumsum(np.bincount(fold)))
    left, right = rng.integers(0, 4, rows), rng.integers(0, 7, rows)
    derivatives = np.ascontiguousarray(np.stack([first, second], axis=2).swapaxes(0, 1)[order])
    bins = (side[order].astype(np.uint16) for side in (left, right))
    found = histograms.pair_sums(*bins, (4, 7), starts, derivatives.reshape(rows, -1))
    np.testing.assert_array_equal(found, histograms.cell_sums(left * 7 + right, 28, fold, first, second))
    ranks = np.where(rng.random(rows) < 0.2, np.nan, rng.random(rows))
    cells = np.where(np.isnan(ranks), 0, np.ceil(np.nan_to_num(ranks) * 10) + 1).astype(np.int64)
    np.testing.assert_array_equal(
        histograms.rank_sums(ranks, 10, fold, first, second),
        histograms.cell_sums(cells, 12, fold, first, second),
    )
