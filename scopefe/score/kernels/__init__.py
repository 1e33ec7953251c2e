"""Compiled FeatureBoost: what LightGBM gives on a single feature, without LightGBM."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from weakref import WeakKeyDictionary

import numpy as np

from scopefe.components import Array
from scopefe.data.table import Table
from scopefe.score.featureboost import Block, LightGBM
from scopefe.score.kernels.binning import Binned, bin_categories, bin_rows, sampled_rows
from scopefe.score.kernels.boosting import (
    auc,
    binned_softmax_loss,
    boost_logistic,
    boost_softmax,
    boost_squared,
    starting_logistic_loss,
)
from scopefe.score.objective import Objective

FAR = 700.0
MAX_CODE = 65_000


class Kernel:
    """The fast evaluator: LightGBM's numbers without LightGBM, but for rare cases that only it can tell.

    A single feature needs one histogram, so its whole boosting is a compiled loop over bins and rows.
    """

    name = "kernel"

    def ready(self, objective: Objective) -> None:
        """Load the compiled code of an objective; where this machine does not have it yet, compile it."""
        _load(objective)

    def gain(self, block: Block, values: Array, *, categorical: bool) -> float:
        best = best_metric(block, values, categorical=categorical)
        if best is None:
            return LightGBM().gain(block, values, categorical=categorical)
        return block.objective.sign * (block.initial - best)


def best_metric(block: Block, values: Array, *, categorical: bool = False) -> float | None:
    """Return the best metric on the measured rows of models of a single feature.

    None where only LightGBM can tell: a rare case of rounding (see `Binned.size`), very many categories, or
    missing ones.

    Parameters
    ----------
    block
        The rows.
    values
        float64, shape (rows,); codes from 0 where `categorical`, NaN where there is none.
    """
    sample = sampled_rows(block.fitted)
    if categorical:
        if np.isnan(values).any():
            return None
        codes = values.astype(np.int64)
        if codes.max() > MAX_CODE:
            return None
        binned = bin_categories(
            codes, block.fitted, codes[: block.fitted] if sample is None else codes[sample]
        )
    else:
        binned = bin_rows(values, block.fitted, values[: block.fitted] if sample is None else values[sample])
    if not binned.size:
        return None
    return boosting_of(block)(binned)


@cache
def _load(objective: Objective) -> None:
    rows = 4 * max(objective.classes, 2)
    values, shape = (
        np.arange(rows, dtype=np.float64),
        (rows, objective.columns)[: 1 + (objective.columns > 1)],
    )
    block = Block(Table([], rows), rows // 2, values % max(objective.classes, 2), np.zeros(shape), objective)
    for categorical in (False, True):
        best_metric(block, values, categorical=categorical)


_boosting: WeakKeyDictionary[Block, Callable[[Binned], float]] = WeakKeyDictionary()


def boosting_of(block: Block) -> Callable[[Binned], float]:
    """Return what boosts a binned feature on a block; what all features start from is computed once."""
    if block not in _boosting:
        _boosting[block] = _prepare(block)
    return _boosting[block]


def _prepare(block: Block) -> Callable[[Binned], float]:
    scores, constant, n = block.scores, block.constant, block.fitted
    weights = np.empty(0) if block.weights is None else block.weights
    held_weights = weights[n:]
    if block.objective.metric == "rmse":
        residuals = scores - block.labels
        each = held_weights if len(weights) else np.ones(len(residuals) - n)
        start = float(np.sqrt(np.cumsum(each * np.square(residuals[n:]))[-1] / each.sum()))
        return lambda binned: float(boost_squared(binned, residuals, weights, constant, start))
    classes = block.labels.astype(np.int64)
    if block.objective.metric == "multi_logloss":
        held = np.ascontiguousarray(scores[n:].T)
        start = float(binned_softmax_loss(held, np.arange(held.shape[1]), classes[n:], held_weights))
        scores = np.ascontiguousarray(scores.T - (0.0 if constant else scores.max(axis=1)))
        odds = np.exp(scores)
        return lambda binned: float(boost_softmax(binned, scores, odds, classes, weights, constant, start))
    odds = np.exp(-np.clip(scores, -FAR, FAR))
    if block.objective.metric == "auc":
        none = np.zeros(len(scores) - n, np.int64)
        start = -float(auc(scores[n:], none, classes[n:], held_weights, np.zeros(1)))
        return lambda binned: (
            -float(boost_logistic(binned, scores, odds, classes, weights, constant, True, start))
        )
    start = float(starting_logistic_loss(scores[n:], classes[n:], held_weights))
    return lambda binned: float(
        boost_logistic(binned, scores, odds, classes, weights, constant, False, start)
    )
