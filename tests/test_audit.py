"""The exhaustive audit: the ranking, the controls, and California's figures in the paper."""

from __future__ import annotations

import json
import random
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from conftest import needs_data
from hypothesis import given, settings
from hypothesis import strategies as st
from test_controls import MIXED, slot_of

import scopefe
from scopefe.audit.controls import CONTROLS, control, matched
from scopefe.audit.model import AuditFacts
from scopefe.audit.ranking import Ranking
from scopefe.cli.main import cli
from scopefe.data.dataset import load_dataset
from scopefe.report.audited import render
from scopefe.run.auditing import Scored, audit_pool
from scopefe.run.engines import engine_of
from scopefe.run.store import Store
from scopefe.score.baseline import out_of_fold
from scopefe.score.featureboost import Block, LightGBM, score
from scopefe.score.halving import folded, round_rows
from scopefe.score.objective import Objective
from scopefe.space.scope import Scope

CALIFORNIA = "{gate: list, use: ['+', min, '-', GroupByThenRank, '/', '*', max]}"
SPLIT = "data.split={train: 0.5, selection: 0.3, test: 0.2}"


def frame(rows=300):
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, rows))
    g = rng.integers(0, 4, size=rows)
    return pd.DataFrame({"a": a, "b": b, "c": c, "g": g, "y": a * b + g + 0.1 * rng.normal(size=rows)})


def spec_of(*overrides):
    document = {"name": "small", "data": {"target": "y"}, "baseline": {"max_trees": 50}}
    return scopefe.load_spec(document, overrides=[SPLIT, "evaluation.seeds=0", *overrides])


def ranked(gains=None, seed=0):
    ids = MIXED.unique()
    rng = np.random.default_rng(seed)
    return Ranking(MIXED, ids, rng.normal(size=len(ids)) if gains is None else gains)


def some_pool(ranking, seed=1, size=40):
    inside = np.zeros(len(ranking), dtype=bool)
    inside[np.random.default_rng(seed).choice(len(ranking), size, replace=False)] = True
    return inside


# --- the ranking


def test_unique_candidates_are_as_many_as_are_counted():
    everything = Scope.everything(MIXED)
    counted = sum(everything.count_unique(i) for i in range(len(MIXED.operators)))
    assert len(MIXED.unique()) == counted
    formulas = [e.formula for e in MIXED.expressions(MIXED.unique())]
    assert len(set(formulas)) == len(formulas)
    whole = {e.formula for e in MIXED.expressions(np.arange(MIXED.size))}
    assert whole == set(formulas)


def test_a_candidate_that_repeats_another_is_that_one():
    ids = np.arange(MIXED.size)
    same = MIXED.canonical(ids)
    changed = ids[same != ids]
    assert len(changed) == MIXED.size - len(MIXED.unique())
    for first, second in zip(MIXED.expressions(changed), MIXED.expressions(same[changed]), strict=True):
        assert first == second


def test_ties_are_in_the_order_of_the_universe_and_failures_last():
    gains = np.zeros(len(MIXED.unique()))
    gains[5], gains[7] = 1.0, np.nan
    ranking = ranked(gains)
    assert ranking.order[:3].tolist() == [5, 0, 1]
    assert ranking.order[-1] == 7
    assert ranking.ranks[5] == 1


def test_the_whole_universe_is_no_better_than_chance():
    ranking = ranked()
    inside = ranking.members(Scope.everything(MIXED))
    assert inside.all()
    assert ranking.enrichment(inside).value == 1
    assert ranking.recall(inside, [10, 10**9]) == {10: 1.0}


def test_the_best_candidates_are_the_most_enriched_pool():
    ranking = ranked()
    inside = ranking.ranks <= 30
    assert ranking.enrichment(inside).hits == 30
    assert ranking.recall(inside, [15, 60]) == {15: 1.0, 60: 0.5}


# --- controls


def drawn_one_by_one(ranking, inside, name, seeds):
    """Draw the control's pools candidate by candidate, as its definition says."""
    rng = np.random.default_rng(99)
    unary, size = ranking.unary, int(inside.sum())
    operators = ranking.decoded[0]
    slots = {i: slot_of(MIXED, int(c)) for i, c in enumerate(ranking.ids) if not unary[i]}
    label = {
        "random-pair": lambda i: operators[i],
        "random-operator": lambda i: slots[i],
        "random-joint": lambda i: 0,
    }[name]
    groups: dict = {}
    for i in np.flatnonzero(~unary):
        groups.setdefault(label(i), []).append(i)
    values = []
    for _ in range(seeds):
        pool = list(np.flatnonzero(inside & unary))
        for members in groups.values():
            pool += list(rng.choice(members, sum(inside[i] for i in members), replace=False))
        hits = (ranking.ranks[pool] <= size).sum()
        values.append(hits / size / (size / len(ranking)))
    return np.array(values)


@pytest.mark.parametrize("name", CONTROLS)
def test_controls_are_distributed_as_pools_that_are_drawn_one_by_one(name):
    ranking = ranked()
    inside = some_pool(ranking)
    fast = control(ranking, inside, name, seeds=4000)
    slow = drawn_one_by_one(ranking, inside, name, 1500)
    spread = np.hypot(fast.drawn.std() / np.sqrt(4000), slow.std() / np.sqrt(1500))
    assert abs(fast.drawn.mean() - slow.mean()) < 4 * spread + 1e-12
    assert fast.drawn.std() == pytest.approx(slow.std(), rel=0.15, abs=1e-12)
    assert fast.observed == ranking.enrichment(inside).value


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**16), size=st.integers(1, 200))
def test_a_control_that_has_no_choice_is_the_pool_itself(seed, size):
    ranking = ranked(seed=seed)
    inside = some_pool(ranking, seed, min(size, len(ranking)))
    inside[~ranking.unary] = True
    for name in CONTROLS:
        found = control(ranking, inside, name, seeds=5)
        np.testing.assert_allclose(found.drawn, found.observed)
        assert found.p == 1


def test_controls_depend_on_their_seed_only():
    ranking = ranked()
    inside = some_pool(ranking)
    first, again, other = (
        control(ranking, inside, "random-joint", seeds=50, seed=s).drawn for s in (1, 1, 2)
    )
    assert (first == again).all()
    assert (first != other).any()


def test_pools_are_compared_at_the_smaller_ones_size():
    ranking = ranked()
    binary = np.flatnonzero(~ranking.unary)
    few, many = np.zeros((2, len(ranking)), dtype=bool)
    few[binary[:20]] = True
    many[binary] = True
    budget, first, second = matched(ranking, few, many, seeds=2000)
    assert budget == 20
    best = ranking.ranks <= 20
    np.testing.assert_allclose(first, (few & best).sum() / 20 / (20 / len(ranking)))
    share = (many & best).sum() / len(binary)
    assert second.mean() * 20 * 20 / len(ranking) == pytest.approx(20 * share, rel=0.1)


# --- from a spec


def test_an_audit_says_what_the_gates_cost():
    spec = spec_of("scope.pairs={gate: hard-intra, target_cluster_size: 2}")
    store = Store()
    found = audit_pool(spec, data=frame(), store=store, seeds=50)
    compiled = scopefe.compile(spec, data=frame(), store=store)
    assert found.enrichment.pool == compiled.space.pool.unique
    assert found.enrichment.universe == compiled.space.universe.unique
    assert sum(part.pool for part in found.operators) == found.enrichment.pool
    assert sum(part.hits for part in found.operators) == found.enrichment.hits
    assert sum(part.best for part in found.operators) == found.enrichment.pool
    assert found.inside.candidates + found.outside.candidates == found.enrichment.universe
    assert {c.control for c in found.controls} == set(CONTROLS)
    full = scopefe.execute(spec_of(), data=frame(), write=False)
    selected = [s.formula for s in full.report.selection.selected]
    assert [s.formula for s in found.selected] == selected
    lost = {s.formula: s.lost_by for s in found.selected if not s.in_pool}
    pool = {e.formula for e in compiled.universe.expressions(compiled.scope.ids())}
    assert set(lost) == set(selected) - pool
    assert set(lost.values()) <= {"pairs"}


def test_gains_of_an_audit_are_those_of_the_last_round():
    data, store = frame(), Store()
    full = scopefe.execute(spec_of("selection.data_blocks=4"), data=data, store=store, write=False)
    scored = Scored(spec_of("selection.data_blocks=4"), data, store, lambda _: None)
    ranking = scored.ranking
    known = dict(
        zip((e.formula for e in ranking.universe.expressions(ranking.ids)), ranking.gains, strict=True)
    )
    for selected in full.report.selection.selected:
        assert known[selected.formula] == selected.gain


def test_a_pool_of_another_universe_is_refused():
    scored = Scored(spec_of(), frame(), Store(), lambda _: None)
    assert len(scored.ranking)
    with pytest.raises(scopefe.SpecError, match="another universe"):
        scored.compile(spec_of("operators.use=[freq]"))


def test_an_audit_keeps_to_the_budget_of_candidates():
    with pytest.raises(scopefe.RunError, match="max_candidates: 10; an audit scores them all"):
        audit_pool(spec_of("execution.budget.max_candidates=10"), data=frame())


def test_gains_are_counted_in_and_out_of_the_pool_over_one_range():
    found = audit_pool(spec_of("scope.operators={gate: list, use: ['*', freq]}"), data=frame(), seeds=5)
    low, high = found.gain_range
    assert low < high
    for side in (found.inside, found.outside):
        assert sum(side.counts) == side.candidates
        assert side.quantiles["0"] >= low or side.counts[0] > 0
        assert side.quantiles["1"] <= high or side.counts[-1] > 0
    older = found.model_dump(exclude={"gain_range": True, "inside": {"counts"}, "outside": {"counts"}})
    page = render([found, AuditFacts.model_validate(older)])
    assert page.count('<svg class="hist"') == 2
    for random_pool in found.controls:
        assert page.count(f"<code>{random_pool.control}</code>") == 2


def test_an_empty_pool_is_audited():
    found = audit_pool(spec_of("scope.operators={gate: list, use: []}"), data=frame(), seeds=5)
    assert "The pool is empty." in render([found])
    assert found.enrichment.pool == 0
    assert found.enrichment.enrichment is None
    assert found.controls == []
    assert {s.lost_by for s in found.selected} == {"operators"}


def test_the_command_prints_json_and_writes_a_file(tmp_path):
    table, written = tmp_path / "t.csv", tmp_path / "audit.json"
    frame().to_csv(table, index=False)
    spec = tmp_path / "s.yaml"
    spec.write_text("name: small\ndata: {source: t.csv, target: y}\nbaseline: {max_trees: 20}\n"
                    "scope: {operators: {gate: list, use: ['*', freq]}}\n")  # fmt: skip
    asked = ["audit", str(spec), "--controls", "20", "--fresh", "--json", "-o", str(written)]
    run = CliRunner().invoke(cli, asked)
    assert run.exit_code == 0, run.stderr
    (facts,) = json.loads(run.stdout)
    assert facts["enrichment"]["pool"] == facts["fresh"]["enrichment"]["pool"] == 10
    assert json.loads(written.read_text()) == [facts]
    page = written.with_suffix(".html")
    again = CliRunner().invoke(cli, [*asked[:-1], str(page)])
    assert again.exit_code == 0, again.stderr
    assert "Audit of small" in page.read_text()
    assert "of the best 10" in run.stderr
    assert "on the rows of the search, as in the paper:\n    enrichment" in run.stderr
    assert re.search(r"on fresh rows, 60 test rows in 5 folds.*:\n    enrichment", run.stderr)


# --- fresh rows


FRESH = "data.split={train: 0.4, selection: 0.1, test: 0.5}"
QUANTISED = "scope.operators={gate: quantised, budget: 0.05}"


def scored_on(data, *overrides):
    return Scored(spec_of(FRESH, *overrides), data, Store(), lambda _: None)


def of_test_rows(spec, data, ids):
    """Compute fresh gains step by step, float64, shape (ids, folds); candidates are scored by LightGBM."""
    whole = load_dataset(spec.data, data)
    rows = whole.fresh(spec.seed).rows
    assert sorted(rows.development) == sorted(whole.rows.test)
    assert len(rows.selection) / len(rows.development) == pytest.approx(0.2, abs=0.01)
    table, y = whole.table.take(rows.development), whole.labels.values
    target = (y[rows.development] - y[rows.train].mean()) / y[rows.train].std()
    objective, engine = Objective.of("regression", 0), engine_of(spec.execution)
    settings = spec.baseline.model_dump(exclude={"boosting"})
    scores = out_of_fold(table, target, objective, engine, seed=spec.seed, **settings).scores
    shuffled, _ = round_rows(len(rows.train), len(rows.selection), 1, random.Random(spec.seed))[-1]
    universe = scopefe.compile(spec, data=data).universe
    gains = []
    for places, fitted in folded(target[shuffled], 5):
        part = shuffled[places]
        block = Block(table.take(part), fitted, target[part], scores[part], objective)
        found = score(universe, ids, block.table, block.measured(), LightGBM(), engine, stage="")
        gains.append([gain for (gain,) in found])
    return np.array(gains).T


def test_gains_on_fresh_rows_are_cross_fitted_on_the_test_rows_alone():
    data, scored = frame(), scored_on(frame())
    some = np.arange(0, len(scored.ids), 7)
    expected = of_test_rows(scored.spec, data, scored.ids[some])
    np.testing.assert_allclose(scored.fresh_gains[some], expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(scored.fresh.gains, scored.fresh_gains.mean(axis=1))
    assert scored.fresh.ids is scored.ranking.ids


def test_fresh_rows_and_the_rows_of_the_search_say_nothing_of_each_other():
    data = frame()
    roles = load_dataset(spec_of(FRESH).data, data).rows
    scored = scored_on(data, QUANTISED)
    for changed, kept, other in (("development", "fresh", "ranking"), ("test", "ranking", "fresh")):
        rows, y = getattr(roles, changed), data["y"].to_numpy().copy()
        y[rows] = np.random.default_rng(1).permutation(y[rows])
        again = scored_on(data.assign(y=y), QUANTISED)
        np.testing.assert_array_equal(getattr(again, kept).gains, getattr(scored, kept).gains)
        assert (getattr(again, other).gains != getattr(scored, other).gains).any()
    pools = [s.compile(s.spec).scope.ids() for s in (scored, again)]
    np.testing.assert_array_equal(*pools)


def numbers(seed, signal):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({f"x{i}": rng.normal(size=2000) for i in range(6)})
    return data.assign(y=signal * np.sign(data["x0"] * data["x1"]) + 0.5 * rng.normal(size=2000))


def enriched_on_fresh_rows(seed, signal, budget):
    spec = spec_of(
        FRESH,
        QUANTISED,
        f"scope.operators.budget={budget}",
        "operators.use=['+', '-', '*', '/', min, max, abs]",
    )
    found = audit_pool(spec, data=numbers(seed, signal), seeds=5, fresh=True)
    assert found.fresh.rows == 1000
    assert found.fresh.folds == 5
    return found.fresh


def test_a_gate_that_finds_the_signal_is_enriched_on_fresh_rows():
    found = enriched_on_fresh_rows(0, signal=1, budget=0.05)
    assert found.enrichment.enrichment > 10
    assert found.agreement > 0.7
    assert found.recall[0].found >= 4


def test_of_noise_no_gate_is_enriched_on_fresh_rows():
    found = [enriched_on_fresh_rows(seed, signal=0, budget=0.25) for seed in range(4)]
    assert 0.6 < np.mean([f.enrichment.enrichment for f in found]) < 1.5
    assert np.mean([f.agreement for f in found]) < 0.2


def test_fresh_rows_are_optional():
    found = audit_pool(spec_of(), data=frame(), seeds=5)
    assert found.fresh is None
    document = found.model_dump(mode="json")
    del document["fresh"]
    assert AuditFacts.model_validate(document) == found
    without = audit_pool(
        spec_of("data.split={train: 0.8, selection: 0.2, test: 0}"), data=frame(), fresh=True
    )
    assert without.fresh is None


@pytest.mark.parametrize(
    ("y", "rows", "message"),
    [
        (np.arange(40.0), 44, "4 test rows are too few for 5 folds of a fresh audit"),
        (np.arange(40.0), 60, "the target is constant on the test rows"),
        (np.tile(["no", "yes"], 20), 60, "fewer than two classes have 5 test rows"),
    ],
)
def test_test_rows_that_cannot_be_divided_are_one_line(y, rows, message):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"a": rng.normal(size=rows), "b": rng.normal(size=rows)})
    data["y"] = np.r_[y, np.repeat(y[:1], rows - 40)]
    data["role"] = np.r_[np.repeat(["train", "val"], [30, 10]), np.repeat("test", rows - 40)]
    spec = scopefe.load_spec(
        {"name": "small", "data": {"target": "y", "split": {"by": "column", "column": "role"}}}
    )
    with pytest.raises(scopefe.DataError, match=message) as error:
        audit_pool(spec, data=data, fresh=True)
    assert len(str(error.value).splitlines()) == 1


@needs_data("california_housing")
def test_california_has_the_papers_figures(data_folder):
    spec, inter = (
        scopefe.load_spec(
            name,
            fragments=["data/california_housing"],
            overrides=[f"scope.operators={CALIFORNIA}", "evaluation.seeds=0"],
        )
        for name in ("scope-fe", "hard-inter")
    )
    found = audit_pool(spec, against={"hard-inter": inter})
    facts = found.enrichment
    assert (facts.universe, facts.pool, facts.hits) == (274, 132, 58)
    assert f"{facts.enrichment:.3f}" == "0.912"
    (compared,) = found.matched
    assert compared.budget == 43
    assert f"{compared.other:.3f}" == "1.186"
    assert compared.other_range == (compared.other, compared.other)
    # the paper has 1.482, which is one draw of 43 from the 132; the median of a thousand is lower
    assert f"{compared.enrichment:.3f}" == "1.037"
    assert compared.range[0] < 1.482 <= round(compared.range[1], 3)
    wanted = {"random-pair": (0.0, 0.62), "random-operator": (0.047, 0.015), "random-joint": (-0.031, 0.788)}
    for row in found.controls:
        difference, p = wanted[row.control]
        one_hit = 274 / 132**2  # the median of a thousand draws lies between two numbers of hits
        assert row.median_difference == pytest.approx(difference, abs=one_hit + 0.0006)
        assert row.p == pytest.approx(p, abs=0.03)


def test_enrichment_of_a_part_of_the_pool_is_what_draws_of_it_have_on_average():
    rng = np.random.default_rng(0)
    ranking = Ranking(MIXED, np.arange(200), rng.normal(size=200))
    inside = rng.random(200) < 0.4
    drawn = []
    for _ in range(4000):
        part = np.zeros(200, dtype=bool)
        part[rng.choice(np.flatnonzero(inside), 20, replace=False)] = True
        drawn.append(ranking.enrichment(part).value)
    assert ranking.enrichment_at(inside, 0.1) == pytest.approx(np.mean(drawn), rel=0.03)
    assert ranking.enrichment_at(part, 0.1) == pytest.approx(ranking.enrichment(part).value)
    assert ranking.enrichment_at(part & False, 0.1) is None
