"""Rows that count more or less than others."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import mean_absolute_error, roc_auc_score

import scopefe
from scopefe import ScopeFE
from scopefe.data.dataset import load_dataset
from scopefe.evaluate.learners import LEARNERS
from scopefe.evaluate.metrics import measure
from scopefe.run.compiling import compile

FEW = ["baseline.max_trees=30", "evaluation.max_trees=60", "evaluation.seeds=2", "selection.keep=3"]
TASKS = ["regression", "binary", "multiclass"]


def table(task="regression", rows=1200):
    """A target that a product tells in the rows that count, and another one in those that hardly do."""
    rng = np.random.default_rng(0)
    a, b, c, d = rng.normal(size=(4, rows))
    heavy = rng.random(rows) < 0.5
    y = np.where(heavy, a * b, c * d) + 0.1 * rng.normal(size=rows)
    if task != "regression":
        y = np.array(["low", "mid", "top"])[np.digitize(y, [0] if task == "binary" else [-0.3, 0.3])]
    weight = np.where(heavy, 1 + rng.random(rows), 0.0)
    return pd.DataFrame({"a": a, "b": b, "c": c, "d": d, "exposure": weight, "y": y})


def spec_of(*overrides, weight="exposure"):
    document = {
        "name": "weights",
        "data": {"target": "y", "weight": weight},
        "operators": {"use": ["*", "+"]},
    }
    return scopefe.load_spec(document, overrides=[*FEW, *overrides])


def first(spec, frame):
    return scopefe.execute(spec, data=frame, write=False).report.selection.selected[0].formula


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_what_helps_the_rows_that_count_is_found(task):
    frame = table(task)
    assert first(spec_of(), frame) == "(a*b)"
    assert first(spec_of(), frame.assign(exposure=np.where(frame["exposure"] > 0, 0.01, 1))) == "(c*d)"


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("evaluator", ["kernel", "lightgbm"])
def test_rows_that_all_count_the_same_count_as_without_weights(task, evaluator):
    frame, settings = table(task), [f"selection.evaluator={evaluator}"]
    alike = scopefe.execute(spec_of(*settings), data=frame.assign(exposure=1), write=False).report
    none = scopefe.execute(
        spec_of(*settings, weight=None), data=frame.drop(columns="exposure"), write=False
    ).report
    assert [(f.formula, f.gain) for f in alike.selection.selected] == [
        (f.formula, pytest.approx(f.gain, abs=1e-7)) for f in none.selection.selected
    ]
    assert alike.evaluation.with_features.values == pytest.approx(none.evaluation.with_features.values)


@pytest.mark.parametrize("factor", [1e-6, 1 / 700, 1024.0])
def test_only_ratios_of_weights_matter(factor):
    frame = table("binary")
    recommended = ["scope.operators={gate: quantised, budget: 0.5}", "selection.gain=cross-fitted"]
    first, second = (
        scopefe.execute(spec_of(*recommended), data=frame.assign(exposure=by), write=False).report
        for by in (frame["exposure"], factor * frame["exposure"])
    )
    assert [f.formula for f in second.selection.selected] == [f.formula for f in first.selection.selected]
    assert second.evaluation.base.mean == pytest.approx(first.evaluation.base.mean, rel=1e-3)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("boosting", [True, False])
def test_the_kernels_score_as_lightgbm_does(task, boosting):
    rounds = [
        scopefe.execute(
            spec_of(f"selection.evaluator={evaluator}", f"baseline.boosting={boosting}".lower()),
            data=table(task),
            write=False,
        ).report.selection
        for evaluator in ("kernel", "lightgbm")
    ]
    ours, theirs = ([(f.formula, f.gain, f.importance) for f in r.selected] for r in rounds)
    assert [f for f, _, _ in ours] == [f for f, _, _ in theirs]
    np.testing.assert_allclose([f[1:] for f in ours], [f[1:] for f in theirs], rtol=1e-6)


@pytest.mark.parametrize(
    "gate",
    [
        "scope.operators={gate: probe, keep: 1}",
        "scope.pairs={gate: fast, budget: 1}",
        "scope.pairs={gate: tree-path, budget: 2}",
    ],
)
def test_gates_look_at_the_rows_that_count(gate):
    frame = table()
    if "pairs" not in gate:
        assert first(spec_of(gate), frame) == "(a*b)"
        return
    light = frame.assign(exposure=1.01 - (frame["exposure"] > 0))
    heavy, light = (set(compile(spec_of(gate), data=f).scope.ids().tolist()) for f in (frame, light))
    assert heavy != light


def test_the_quantised_gate_ranks_by_the_rows_that_count():
    frame = table()
    for exposure, formula in ((frame["exposure"], "(a*b)"), (1.01 - (frame["exposure"] > 0), "(c*d)")):
        found = scopefe.execute(
            spec_of("scope.operators={gate: quantised, budget: 1}"),
            data=frame.assign(exposure=exposure),
            write=False,
        ).report
        assert [f.formula for f in found.selection.selected] == [formula]


def test_weights_are_no_feature_and_the_recipe_does_not_ask_for_them():
    frame = table()
    run = scopefe.execute(spec_of(), data=frame, write=False)
    assert "exposure" not in [i.name for i in run.recipe.inputs]
    run.recipe.transform(frame.drop(columns=["exposure", "y"]))
    assert run.report.data.left_out["exposure"] == "weight"


@pytest.mark.parametrize(
    ("metric", "task", "theirs"),
    [
        ("auto", "binary", roc_auc_score),
        ("roc_auc", "binary", roc_auc_score),
        ("neg_mean_absolute_error", "regression", lambda *a, **k: -mean_absolute_error(*a, **k)),
    ],
)
def test_scores_weigh_the_test_rows(metric, task, theirs):
    data = load_dataset(spec_of().data, table(task))
    scores = data.unscaled(np.random.default_rng(1).normal(size=len(data.rows.test)))
    truth, weights = data.labels.values[data.rows.test], data.weights[data.rows.test]
    found = measure(data.labels.task, truth, scores, metric, weights)
    assert found == pytest.approx(theirs(truth, scores, sample_weight=weights))
    assert found != pytest.approx(theirs(truth, scores))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_learns_more_from_rows_that_count_more(learner, task):
    if learner in ("xgboost", "catboost") and not find_spec(learner):
        pytest.skip(f"{learner} is not installed")
    rng = np.random.default_rng(3)
    frame = table(task)
    heavy = frame["exposure"] > 0
    told = np.where((frame["a"] > 0) == heavy, 1, -1)
    frame["y"] = (
        told + 0.1 * rng.normal(size=len(frame))
        if task == "regression"
        else np.array(["low", "top"])[(told + 1) // 2]
    )
    if task == "multiclass":
        frame.loc[rng.random(len(frame)) < 0.05, "y"] = "mid"
    frame["exposure"] = np.where(heavy, 1.0, 0.05)
    run = scopefe.execute(spec_of(f"evaluation.learner={learner}"), data=frame, write=False)
    base = run.report.evaluation.base.mean
    assert base < 0.8 if task == "regression" else base > 0.8


def test_keep_auto_decides_by_the_rows_that_count():
    frame = table()
    spec = spec_of("selection.keep=auto", "selection.gain=cross-fitted")
    report = scopefe.execute(spec, data=frame, write=False).report
    assert report.selection.selected[0].formula == "(a*b)"
    assert report.evaluation.with_features.mean < 0.7 * report.evaluation.base.mean


# --- what is refused


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["x"], "data.weight 'exposure' is no number"),
        ([1, -1], "data.weight 'exposure' is missing, infinite or less than 0 in 600 of 1200 rows"),
        ([1, np.nan], "data.weight 'exposure' is missing, infinite or less than 0 in 600 of 1200 rows"),
        ([1, np.inf], "data.weight 'exposure' is missing, infinite or less than 0 in 600 of 1200 rows"),
        ([0], "all training rows have zero weight"),
    ],
)
def test_weights_that_are_none_are_told(values, message):
    with pytest.raises(scopefe.DataError, match=message):
        load_dataset(spec_of().data, table().assign(exposure=np.resize(values, 1200)))


def test_a_misspelt_column_is_told():
    with pytest.raises(scopefe.DataError, match=r"data.weight: there is no column 'exposur'.*'exposure'"):
        load_dataset(spec_of(weight="exposur").data, table())


def test_the_openfe_package_knows_no_weights():
    with pytest.raises(scopefe.SpecError, match=r"data\.weight is for selection\.engine: native"):
        spec_of("selection.engine=openfe")


# --- scikit-learn


def test_sample_weight_is_what_the_spec_calls_weight():
    frame = table()
    features, y = frame[["a", "b", "c", "d"]], frame["y"]
    found = ScopeFE(
        "openfe", overrides=["baseline.max_trees=30", "selection.keep=1", "operators.use=['*', +]"]
    )
    names = found.fit(features, y, sample_weight=frame["exposure"]).get_feature_names_out()
    assert names[-1] == "a_times_b"
    with pytest.raises(ValueError, match="less than 0"):
        found.fit(features, y, sample_weight=-frame["exposure"])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        found.fit(features, y, sample_weight=[1.0])
