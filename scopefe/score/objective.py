"""What is optimised: task, loss, and LightGBM's words for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.special
from sklearn.metrics import log_loss, roc_auc_score

from scopefe.components import Array
from scopefe.data.dataset import Task
from scopefe.errors import DataError

Metric = Literal["rmse", "binary_logloss", "multi_logloss", "auc"]
DEFAULT_METRIC: dict[Task, Metric] = {
    "regression": "rmse",
    "binary": "binary_logloss",
    "multiclass": "multi_logloss",
}


@dataclass(frozen=True)
class Objective:
    """A task with the metric that gains are measured in.

    Parameters
    ----------
    task
        What is predicted.
    metric
        ``auc`` is better when larger, the others when smaller.
    classes
        Number of classes; 1 for a regression.
    """

    task: Task
    metric: Metric
    classes: int = 1

    @classmethod
    def of(cls, task: Task, classes: int, metric: str = "auto") -> Objective:
        """Return the objective of a task.

        Raises
        ------
        DataError
            If the metric does not suit the task.
        """
        allowed = [DEFAULT_METRIC[task], *(["auc"] if task == "binary" else [])]
        chosen = DEFAULT_METRIC[task] if metric == "auto" else metric
        if chosen not in allowed:
            raise DataError(
                f"selection.metric {metric!r} does not suit a {task} task; use {' or '.join(allowed)}"
            )
        return cls(task, chosen, max(classes, 1))  # type: ignore[arg-type]

    @property
    def columns(self) -> int:
        """Number of raw scores per row."""
        return self.classes if self.task == "multiclass" else 1

    @property
    def sign(self) -> int:
        """1 if smaller is better, -1 if larger is."""
        return -1 if self.metric == "auc" else 1

    def lightgbm(self) -> dict[str, Any]:
        """Return LightGBM's parameters for the task and metric."""
        parameters: dict[str, Any] = {"objective": self.task, "metric": self.metric}
        if self.task == "multiclass":
            parameters["num_class"] = self.classes
        return parameters

    def derivatives(self, target: Array, scores: Array, weights: Array | None = None) -> tuple[Array, Array]:
        """Return first and second derivatives of each row's weighted loss, float64, shape (outputs, n).

        The loss is the squared error, halved, or the log-loss, whatever the metric.

        Parameters
        ----------
        target, scores, weights
            See `loss`.
        """
        if self.task == "regression":
            first, second = (scores - target)[None, :], np.ones((1, len(target)))
        elif self.task == "binary":
            shares = scipy.special.expit(scores)[None, :]
            first, second = shares - target, shares * (1 - shares)
        else:
            shares = scipy.special.softmax(scores, axis=1).T
            first = shares - (np.arange(self.classes)[:, None] == target)
            second = shares * (1 - shares)
        return (first, second) if weights is None else (first * weights, second * weights)

    def row_losses(self, target: Array, scores: Array) -> Array:
        """Return each row's loss, float64, shape (n,): squared error or log-loss, whatever the metric.

        Parameters
        ----------
        target, scores
            See `loss`.
        """
        losses: Array
        if self.task == "regression":
            losses = np.square(scores - target)
        elif self.task == "binary":
            losses = np.logaddexp(0.0, np.where(target > 0, -scores, scores))
        else:
            own = np.take_along_axis(scores, target.astype(np.int64)[:, None], axis=1)[:, 0]
            losses = scipy.special.logsumexp(scores, axis=1) - own
        return losses

    def loss(self, target: Array, scores: Array, weights: Array | None = None) -> float:
        """Return the metric of raw scores.

        Parameters
        ----------
        target
            float64, shape (n,).
        scores
            Raw scores, shape (n,) or (n, classes).
        weights
            What each row counts, shape (n,); None where all count the same.

        Returns
        -------
        float
            NaN where the metric has no value, as the area under the ROC curve of one class.
        """
        if self.metric == "rmse":
            return float(np.sqrt(np.average(np.square(target - scores), weights=weights)))
        if self.metric == "auc":
            if len(np.unique(target)) < 2:
                return np.nan
            return float(roc_auc_score(target, scores, sample_weight=weights))
        shares = scipy.special.softmax(scores, axis=1) if scores.ndim > 1 else scipy.special.expit(scores)
        labels = range(max(self.classes, 2))
        return float(log_loss(target, shares, labels=list(labels), sample_weight=weights))
