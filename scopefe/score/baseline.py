"""The baseline: out-of-fold raw scores of a LightGBM on the original features."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import lightgbm as lgb
import numpy as np
import scipy.special
from sklearn.model_selection import KFold, StratifiedKFold

from scopefe.components import Array
from scopefe.data.splits import group_folds
from scopefe.data.table import Table
from scopefe.errors import DataError
from scopefe.score.boosting import Design, boost, parameters, threads_for
from scopefe.score.engine import Engine
from scopefe.score.objective import Objective


@dataclass(frozen=True, eq=False)
class BaselineScores:
    """Scores that candidates have to improve on.

    Parameters
    ----------
    scores
        Raw scores, shape (rows,) or (rows, classes).
    trees
        Trees of each fold's model; empty where scores are constant.
    """

    scores: Array
    trees: tuple[int, ...]


def out_of_fold(
    table: Table,
    target: Array,
    objective: Objective,
    engine: Engine,
    *,
    folds: int,
    learning_rate: float,
    max_trees: int,
    early_stopping: int,
    seed: int,
    weights: Array | None = None,
    groups: Array | None = None,
    advance: Callable[[int], None] | None = None,
) -> BaselineScores:
    """Compute out-of-fold raw scores.

    Folds are in row order (stratified for classification), or of whole groups; each is scored by a model of
    the other rows that stops early on it. Folds run side by side, each on its share of the cores where there
    is much data. Each holds its rows in LightGBM's bins, about a byte per value, and few columns at once as
    float64.

    Parameters
    ----------
    table
        The rows, in their order.
    target
        float64, shape (rows,).
    weights
        What each row counts, shape (rows,); None where all count the same.
    groups
        int64, shape (rows,): the group of each row, which no fold takes apart; None where there are none.
    """
    threads = threads_for(len(target), len(table), engine.local.jobs // folds)
    options = parameters(objective, seed=seed, threads=threads, learning_rate=learning_rate)
    work = Fold(table, target, options, max_trees, early_stopping, weights)
    parts = fold_rows(target, objective, folds, groups)
    scores = np.empty((len(target), objective.columns) if objective.columns > 1 else len(target))
    trees = []
    for (_, held), (values, count) in zip(parts, engine.map(work, parts, advance), strict=True):
        scores[held] = values
        trees.append(count)
    return BaselineScores(scores, tuple(trees))


@dataclass(frozen=True, eq=False)
class Fold:
    """The work of a fold: raw scores of the held-out rows by a model of the fitting rows, and its trees.

    Parameters
    ----------
    table, target, weights
        All rows.
    options
        LightGBM parameters.
    max_trees, early_stopping
        Number of trees at most, and without improvement on the held-out rows.
    """

    table: Table
    target: Array
    options: Mapping[str, Any]
    max_trees: int
    early_stopping: int
    weights: Array | None = None

    def __call__(self, rows: tuple[Array, Array]) -> tuple[Array, int]:
        """Train and predict."""
        design, booster = self.train(rows)
        return design.raw_scores(booster, rows[1], self.options["num_threads"]), booster.best_iteration

    def train(self, rows: tuple[Array, Array]) -> tuple[Design, lgb.Booster]:
        """Return the model matrix of all rows, and the model of the fitting rows."""
        fit, held = rows
        design = Design(
            lambda i: self.table.passing(i).model_values(),
            len(self.table),
            self.table.categorical(),
            self.target,
            weights=self.weights,
        )
        booster, _ = boost(
            self.options,
            *design.binned(self.options, fit, held),
            trees=self.max_trees,
            patience=self.early_stopping,
        )
        return design, booster


def fold_rows(
    target: Array, objective: Objective, folds: int, groups: Array | None = None
) -> list[tuple[Array, Array]]:
    """Return (fitting rows, held-out rows) of each fold, unshuffled.

    Raises
    ------
    DataError
        If no class has a row for each fold, or all rows are of one group.
    """
    if groups is not None:
        fold = group_folds(groups, folds)
        return [(np.flatnonzero(fold != i), np.flatnonzero(fold == i)) for i in range(fold.max() + 1)]
    if objective.task == "regression":
        return list(KFold(folds).split(target))
    if np.bincount(target.astype(np.int64)).max() < folds:
        raise DataError(f"no class has {folds} rows, one for each fold: fewer baseline.folds, or more rows")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        return list(StratifiedKFold(folds).split(np.zeros(len(target)), target))


def constant(target: Array, objective: Objective, weights: Array | None = None) -> BaselineScores:
    """Return the scores of a model without features: the mean, or the logarithms of the class shares."""
    n, mean = len(target), np.average(target, weights=weights)
    if objective.task == "regression":
        return BaselineScores(np.full(n, mean), ())
    if objective.task == "binary":
        return BaselineScores(np.full(n, scipy.special.logit(mean)), ())
    counts = np.bincount(target.astype(np.int64), weights=weights, minlength=objective.classes)
    shares = counts / counts.sum()
    return BaselineScores(np.tile(np.log(np.maximum(shares, 1e-15)), (n, 1)), ())
