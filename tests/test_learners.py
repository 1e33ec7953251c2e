"""Downstream learners and metrics of the evaluation."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score, mean_absolute_error

import scopefe
from scopefe.evaluate.downstream import predict
from scopefe.evaluate.learners import LEARNERS, require
from scopefe.evaluate.metrics import measure, metric_of, stopping_of
from scopefe.recipe.fitting import fit_recipe
from scopefe.run.compiling import compile
from scopefe.run.engines import Threads
from scopefe.spec.models import Evaluation

OTHERS = [name for name in LEARNERS if name != "lightgbm"]


def table(task, rows=900):
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, rows))
    k = rng.choice([f"k{i}" for i in range(12)], size=rows)
    y = a + 2 * (k < "k2") + 0.3 * rng.normal(size=rows)
    frame = pd.DataFrame({"a": a, "b": np.where(b > 1, np.nan, b), "c": c, "k": k})
    frame.loc[::17, "k"] = None
    if task == "binary":
        y = np.where(y > y.mean(), "yes", "no")
    elif task == "multiclass":
        y = np.array(["low", "mid", "top"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    return frame.assign(y=y)


def spec_of(*overrides, **evaluation):
    document = {
        "name": "l",
        "data": {"target": "y"},
        "scope": {"operators": {"gate": "list", "use": ["+", "freq"]}},
        "selection": {"keep": 2},
        "baseline": {"max_trees": 20},
        "evaluation": {"seeds": 2, "max_trees": 60, **evaluation},
    }
    return scopefe.load_spec(document, overrides=overrides)


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_learns_from_numbers_categories_and_missing_values(name, task):
    package = {"xgboost": "xgboost", "catboost": "catboost"}.get(name)
    if package:
        pytest.importorskip(package)
    report = scopefe.execute(spec_of(learner=name), data=table(task), write=False).report
    found = report.evaluation
    for score in (found.base, found.with_features):
        if task == "regression":
            assert score.mean < 0.75 * table(task)["y"].std()
        else:
            assert score.mean > 0.75
    assert report.spec["evaluation"]["learner"] == {"learner": name}


@pytest.mark.parametrize("name", OTHERS)
def test_a_learner_gives_the_same_for_any_number_of_jobs_and_depends_on_its_seed_alone(name):
    pytest.importorskip({"random-forest": "sklearn", "linear": "sklearn"}.get(name, name))
    data = compile(spec_of(), data=table("binary")).data
    settings = {
        "parameters": {},
        "stopping": "binary_logloss",
        "seeds": [0, 1],
        "max_trees": 30,
        "early_stopping": 5,
    }
    matrix = fit_recipe("r", "", data.development, []).matrix(data.table)
    one, two = (
        [scores for scores, _ in predict(data, matrix, Threads(jobs), learner=name, **settings)]
        for jobs in (1, 2)
    )
    np.testing.assert_array_equal(one, two)
    assert np.isfinite(one).all()


def test_parameters_are_handed_on():
    few, many = (
        scopefe.execute(
            spec_of(learner={"learner": "random-forest", "max_depth": depth}),
            data=table("binary"),
            write=False,
        )
        for depth in (1, 12)
    )
    assert few.report.evaluation.base.values != many.report.evaluation.base.values


def test_keep_auto_decides_by_the_learner_too():
    spec = spec_of("selection.keep=auto", learner="linear")
    frame = table("regression")
    frame["y"] = frame["a"] * frame["c"] + 0.1 * frame["y"]
    spec = scopefe.load_spec(
        {"name": "l", "data": {"target": "y"}, "scope": {"operators": {"gate": "list", "use": ["*"]}},
         "selection": {"keep": "auto"}, "baseline": {"max_trees": 20},
         "evaluation": {"seeds": 1, "learner": "linear"}},
    )  # fmt: skip
    report = scopefe.execute(spec, data=frame, write=False).report
    assert [f.formula for f in report.selection.selected][:1] == ["(a*c)"]
    assert report.evaluation.with_features.mean < 0.7 * report.evaluation.base.mean


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        ("forest", "learner: must be 'lightgbm', .*did you mean 'random-forest'"),
        ({"learner": "linear", "alpha": [1]}, "parameter alpha must be a number"),
    ],
)
def test_what_is_no_learner_is_told_before_anything_runs(learner, message):
    with pytest.raises(scopefe.SpecError, match=message):
        spec_of(learner=learner)


@pytest.mark.parametrize(
    ("learner", "misspelt", "meant"),
    [
        ("lightgbm", "num_leavs", "num_leaves"),
        ("lightgbm", "lambda_11", "lambda_l1"),
        ("xgboost", "learnin_rate", "learning_rate"),
        ("catboost", "dept", "depth"),
        ("random-forest", "n_estimator", "n_estimators"),
        ("linear", "alpa", "alpha"),
    ],
)
def test_a_misspelt_parameter_is_told_before_the_search(learner, misspelt, meant):
    if learner in ("xgboost", "catboost"):
        pytest.importorskip(learner)
    require(learner, {meant: 3})
    spec = spec_of(learner={"learner": learner, misspelt: 3})
    said = f"^evaluation.learner {learner} has no parameter '{misspelt}'; did you mean '{meant}'"
    with pytest.raises(scopefe.RunError, match=said):
        scopefe.execute(spec, data=None, write=False)


def test_a_wrong_value_of_a_parameter_is_one_line():
    spec = spec_of(learner={"learner": "random-forest", "max_depth": "deep"})
    with pytest.raises(scopefe.RunError, match=r"learner random-forest: InvalidParameterError: ") as error:
        scopefe.execute(spec, data=table("binary"), write=False)
    assert "\n" not in str(error.value)


def test_an_absent_package_is_told_before_the_search(monkeypatch):
    monkeypatch.setitem(sys.modules, "catboost", None)
    with pytest.raises(scopefe.RunError, match=r"pip install 'scopefe\[catboost\]'"):
        scopefe.execute(spec_of(learner="catboost"), data=table("binary"), write=False)


# --- metrics


def test_metrics_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    truth, scores = rng.normal(size=(2, 50))
    found = measure("regression", truth, scores, "neg_mean_absolute_error")
    assert found == pytest.approx(-mean_absolute_error(truth, scores))
    truth, scores = rng.integers(0, 3, 50).astype(float), rng.normal(size=(50, 3))
    expected = f1_score(truth, scores.argmax(axis=1), average="macro")
    assert measure("multiclass", truth, scores, "f1_macro") == pytest.approx(expected)
    assert metric_of("binary", "neg_log_loss") == ("neg_log_loss", True)


@pytest.mark.parametrize(
    ("task", "metric", "stopping", "benchmark", "stops_by"),
    [
        ("regression", "auto", "auto", False, "rmse"),
        ("regression", "neg_mean_absolute_error", "auto", False, "rmse"),
        ("binary", "auto", "auto", False, "binary_logloss"),
        ("binary", "auto", "metric", False, "auc"),
        ("binary", "roc_auc", "metric", False, "auc"),
        ("binary", "accuracy", "metric", False, "binary_error"),
        ("binary", "neg_log_loss", "metric", False, "binary_logloss"),
        ("binary", "auto", "auto", True, "binary_error"),
        ("binary", "auto", "loss", True, "binary_logloss"),
        ("multiclass", "auto", "auto", False, "multi_error"),
        ("multiclass", "f1_macro", "auto", False, "multi_logloss"),
        ("multiclass", "auto", "loss", False, "multi_logloss"),
        ("multiclass", "auto", "error", False, "multi_error"),
    ],
)
def test_models_stop_by_what_the_spec_says(task, metric, stopping, benchmark, stops_by):
    protocol = "benchmark" if benchmark else "inductive"
    assert stopping_of(task, Evaluation(metric=metric, stopping=stopping, protocol=protocol)) == stops_by


@pytest.mark.parametrize("metric", ["f1", "average_precision"])
def test_a_metric_that_no_model_stops_by_is_told_before_the_search(metric):
    with pytest.raises(scopefe.RunError, match=rf"no model stops by {metric} of a binary task; write loss"):
        scopefe.execute(
            spec_of("evaluation.stopping=metric", metric=metric), data=table("binary"), write=False
        )


@pytest.mark.parametrize("learner", ["lightgbm", "xgboost", "catboost"])
def test_a_run_tells_what_its_models_stopped_by_and_their_trees(learner):
    found = {}
    for stopping in ("loss", "metric", "error"):
        spec = spec_of(f"evaluation.stopping={stopping}", learner={"learner": learner, "learning_rate": 0.3})
        facts = scopefe.execute(spec, data=table("binary"), write=False).report.evaluation
        assert len(facts.base.trees) == facts.seeds
        assert all(1 <= trees <= 2000 for trees in facts.base.trees)
        found[facts.stopping] = facts.base.trees
    assert list(found) == ["binary_logloss", "auc", "binary_error"]


@pytest.mark.parametrize("metric", ["neg_log_loss", "average_precision", "neg_brier_score", "f1", "roc_auc"])
def test_a_run_is_measured_by_any_metric_of_the_task(metric):
    found = scopefe.execute(spec_of(metric=metric), data=table("binary"), write=False).report.evaluation
    assert found.metric == metric
    assert found.larger_is_better
    assert found.base.mean > (0.75 if not metric.startswith("neg") else -0.6)


def test_a_metric_that_does_not_suit_or_is_none_is_one_line():
    with pytest.raises(scopefe.SpecError, match="no scorer 'roc_ac'; did you mean 'roc_auc'"):
        spec_of(metric="roc_ac")
    with pytest.raises(scopefe.RunError, match="'roc_auc' does not suit a regression task") as error:
        scopefe.execute(spec_of(metric="roc_auc"), data=table("regression"), write=False)
    assert "\n" not in str(error.value)
