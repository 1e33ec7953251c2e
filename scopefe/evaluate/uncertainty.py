"""How sure a difference of two scores is: test rows, or groups of them, are the sampling units.

A metric of independent units is close to its mean plus one contribution of each unit, and its variance is
close to that of their sum. Contributions of two models on the same units are paired: their differences are
the contributions to the difference, and those of several seeds are averaged like the scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.special
import scipy.stats

from scopefe.components import Array
from scopefe.data.dataset import Dataset, Task
from scopefe.errors import RunError
from scopefe.evaluate.metrics import measure

CONFIDENCE, BLOCKS = 0.95, 50

Verdict = Literal["better", "worse", "no difference"]


@dataclass(frozen=True)
class Difference:
    """A paired difference of two scores, and how far test rows may have made it.

    Parameters
    ----------
    mean
        Second score minus first, averaged over seeds.
    error
        Its standard error over units.
    low, high
        Confidence interval at 95 %.
    units
        How many rows, groups or blocks of rows it rests on.
    """

    mean: float
    error: float
    low: float
    high: float
    units: int

    @classmethod
    def of(cls, mean: float, contributions: Array) -> Difference:
        """Return the difference of a mean and contributions of units to it, float64, shape (units,)."""
        units = len(contributions)
        error = float(contributions.std(ddof=1) * np.sqrt(units)) if units > 1 else np.nan
        if not np.isfinite(error):
            return cls(mean, np.nan, -np.inf, np.inf, units)
        reach = float(scipy.stats.t.ppf((1 + CONFIDENCE) / 2, units - 1)) * error
        return cls(mean, error, mean - reach, mean + reach, units)

    def verdict(self, larger_is_better: bool) -> Verdict:
        """Return what the interval allows to say."""
        if self.low <= 0 <= self.high:
            return "no difference"
        return "better" if (self.mean > 0) == larger_is_better else "worse"


def contributions(data: Dataset, scores: Array, metric: str) -> Array:
    """Return what each unit of the test rows contributes to a metric.

    Rows are units, or the groups that the split keeps whole. RMSE, accuracy and the area under the ROC curve
    (DeLong's components) have a formula; other metrics are measured without each of 50 random blocks of units
    (jackknife), which are the units then.

    Parameters
    ----------
    scores
        As `measure` takes them.

    Returns
    -------
    ndarray
        float64, shape (units,).
    """
    rows, task = data.rows.test, data.labels.task
    truth, weights = data.labels.values[rows], data.weights_of(rows)
    groups = data.groups_of(rows)
    units = np.arange(len(rows)) if groups is None else np.unique(groups, return_inverse=True)[1]
    if metric != "auto":
        return _jackknife(task, truth, scores, metric, weights, units)
    weight = np.ones(len(rows)) if weights is None else weights
    by_row = _of_area(truth, scores, weight) if task == "binary" else _of_mean(task, truth, scores, weight)
    return np.bincount(units, by_row)


def _of_mean(task: Task, truth: Array, scores: Array, weights: Array) -> Array:
    """Return the contributions of rows to accuracy, or to the root of the mean squared error."""
    if task == "regression":
        losses = np.square(truth - scores)
        slope = 1 / (2 * np.sqrt(np.average(losses, weights=weights)) or np.inf)
    else:
        losses, slope = (scores.argmax(axis=1) == truth).astype(np.float64), 1.0
    share = weights / weights.sum()
    centred: Array = slope * share * (losses - share @ losses)
    return centred


def _of_area(truth: Array, scores: Array, weights: Array) -> Array:
    """Return the contributions of rows to the area under the ROC curve.

    A positive row's is how much more of the negatives' weight it outranks than positives do on average; a
    negative row's how much more of the positives' weight outranks it.
    """
    shares = scipy.special.expit(scores)
    positive = truth > 0
    result = np.zeros(len(truth))
    for own, sign in ((positive, 1), (~positive, -1)):
        other = shares[~own] * sign
        order = np.argsort(other, kind="stable")
        below = np.append(0.0, np.cumsum(weights[~own][order]))
        least, most = (np.searchsorted(other[order], shares[own] * sign, side) for side in ("left", "right"))
        outranked = (below[least] + below[most]) / (2 * below[-1])
        share = weights[own] / weights[own].sum()
        result[own] = share * (outranked - share @ outranked)
    return result


def _jackknife(
    task: Task, truth: Array, scores: Array, metric: str, weights: Array | None, units: Array
) -> Array:
    """Return the contributions of blocks of units: how far the metric falls without each.

    NaN where there is one unit, or the metric has no value without some block that has all rows of a class.
    """
    count = int(units.max()) + 1
    if count < 2:
        return np.full(count, np.nan)
    blocks = min(BLOCKS, count)
    block = np.random.default_rng(0).permutation(np.arange(count) % blocks)[units]
    without = np.empty(blocks)
    for number in range(blocks):
        rest = block != number
        counted = None if weights is None else weights[rest]
        try:
            without[number] = measure(task, truth[rest], scores[rest], metric, counted)
        except RunError:  # the metric suits the task: it has a value on all rows
            return np.full(blocks, np.nan)
    fall: Array = (blocks - 1) / blocks * (without.mean() - without)
    return fall
