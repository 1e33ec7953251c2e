"""What a model is measured by, and what it stops by."""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.special
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, get_scorer, roc_auc_score

from scopefe.components import Array
from scopefe.data.dataset import Task
from scopefe.errors import RunError
from scopefe.score.objective import DEFAULT_METRIC
from scopefe.spec.models import Evaluation

METRIC: dict[Task, tuple[str, bool]] = {
    "regression": ("rmse", False),
    "binary": ("auc", True),
    "multiclass": ("accuracy", True),
}
ERROR: dict[Task, str] = {"regression": "rmse", "binary": "binary_error", "multiclass": "multi_error"}
SCORERS = {"roc_auc": "auc", "neg_root_mean_squared_error": "rmse", "neg_mean_squared_error": "rmse"}


def metric_of(task: Task, metric: str) -> tuple[str, bool]:
    """Return a metric's name, and whether larger is better; all of scikit-learn's scorers are so."""
    return METRIC[task] if metric == "auto" else (metric, True)


def stopping_of(task: Task, settings: Evaluation) -> str:
    """Return what models of an evaluation stop by, as LightGBM calls it.

    Left to itself, that is the metric of several classes, whose error rate goes on falling when the loss
    rises again, and else the loss; in the OpenFE benchmark's protocol it is the error rate.

    Raises
    ------
    RunError
        If models are to stop by a metric that none of the learners stops by.
    """
    metric, stopping = settings.metric, settings.stopping
    if stopping == "auto":
        several = (task, metric) == ("multiclass", "auto")
        stopping = "error" if settings.protocol == "benchmark" else "metric" if several else "loss"
    if stopping == "error":
        return ERROR[task]
    if stopping == "loss" or metric == "neg_log_loss":
        return DEFAULT_METRIC[task]
    name = metric_of(task, metric)[0]
    name = SCORERS.get(name, name)
    if name == "accuracy":
        return ERROR[task]
    if name not in ("auc", "rmse") or (name == "auc") != (task == "binary"):
        raise RunError(f"evaluation.stopping: no model stops by {metric} of a {task} task; write loss")
    return name


def measure(task: Task, truth: Array, scores: Array, metric: str, weights: Array | None = None) -> float:
    """Return a metric of raw scores.

    Parameters
    ----------
    truth
        Targets in their own unit, or class numbers, float64, shape (rows,).
    scores
        Predictions in the target's unit, log-odds of shape (rows,), or raw scores of shape (rows, classes).
    metric
        ``auto``, or scikit-learn's name of a scorer.
    weights
        What each row counts; None where all count the same.

    Returns
    -------
    float
        NaN where the metric is not defined on these rows, as the area under the ROC curve of one class.

    Raises
    ------
    RunError
        If the metric does not suit the task.
    """
    if metric == "auto":
        if task == "regression":
            return float(np.sqrt(np.average(np.square(truth - scores), weights=weights)))
        if task == "binary":
            if len(np.unique(truth)) < 2:
                return np.nan
            return float(roc_auc_score(truth, scipy.special.expit(scores), sample_weight=weights))
        return float(accuracy_score(truth, scores.argmax(axis=1), sample_weight=weights))
    rows = np.arange(len(truth))[:, None]
    counted = {} if weights is None else {"sample_weight": weights}
    model = Predictor(scores) if task == "regression" else ClassPredictor(scores)
    try:
        return float(get_scorer(metric)(model.fit(), rows, truth, **counted))
    except (TypeError, ValueError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise RunError(f"evaluation.metric {metric!r} does not suit a {task} task: {reason}") from None


class Predictor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """What a scorer is given instead of a model: its predictions, by position."""

    def __init__(self, scores: Array) -> None:
        self.scores = scores

    def fit(self) -> Self:
        """Be fitted."""
        self.is_fitted_ = True
        return self

    def predict(self, rows: Array) -> Array:
        """Return predictions of rows, given as positions of shape (n, 1)."""
        result: Array = self.scores[rows[:, 0]]
        return result


class ClassPredictor(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What a scorer is given instead of a classifier: its raw scores, by position."""

    def __init__(self, scores: Array) -> None:
        self.scores = scores

    def fit(self) -> Self:
        """Tell the classes."""
        self.classes_ = np.arange(2 if self.scores.ndim == 1 else self.scores.shape[1]).astype(np.float64)
        return self

    def predict_proba(self, rows: Array) -> Array:
        """Return the probability of each class."""
        scores = self.scores[rows[:, 0]]
        if scores.ndim == 1:
            share = scipy.special.expit(scores)
            return np.stack([1 - share, share], axis=1)
        shares: Array = scipy.special.softmax(scores, axis=1)
        return shares

    def predict(self, rows: Array) -> Array:
        """Return the likeliest class."""
        result: Array = self.classes_[self.predict_proba(rows).argmax(axis=1)]
        return result
