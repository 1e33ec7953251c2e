"""The baseline: out-of-fold raw scores of a LightGBM on the original features."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.special
from sklearn.model_selection import KFold, StratifiedKFold

from scopefe.components import Array
from scopefe.data.table import Table
from scopefe.score.boosting import Part, parameters, raw_scores, train
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
    advance: Callable[[int], None] | None = None,
) -> BaselineScores:
    """Compute out-of-fold raw scores.

    Folds are in row order (stratified for classification); each is scored by a model of the other rows that
    stops early on it. Folds run side by side with one thread each.

    Parameters
    ----------
    table
        The rows, in their order.
    target
        float64, shape (rows,).
    """
    matrix = table.matrix()
    categorical = table.categorical()
    options = parameters(objective, seed=seed, threads=1, learning_rate=learning_rate)

    def fold(rows: tuple[Array, Array]) -> tuple[Array, int]:
        fit, held = rows
        booster, _ = train(
            options,
            Part(matrix[fit], target[fit]),
            Part(matrix[held], target[held]),
            categorical=categorical,
            trees=max_trees,
            patience=early_stopping,
        )
        return raw_scores(booster, matrix[held], threads=1), booster.best_iteration

    parts = fold_rows(target, objective, folds)
    results = engine.map(fold, parts, advance)
    scores = np.zeros((len(target), objective.columns) if objective.columns > 1 else len(target))
    for (_, held), (values, _) in zip(parts, results, strict=True):
        scores[held] = values
    return BaselineScores(scores, tuple(trees for _, trees in results))


def fold_rows(target: Array, objective: Objective, folds: int) -> list[tuple[Array, Array]]:
    """Return (fitting rows, held-out rows) of each fold, unshuffled."""
    if objective.task == "regression":
        return list(KFold(folds).split(target))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        return list(StratifiedKFold(folds).split(np.zeros(len(target)), target))


def constant(target: Array, objective: Objective) -> BaselineScores:
    """Return the scores of a model without features: the mean, or the logarithms of the class shares."""
    n = len(target)
    if objective.task == "regression":
        return BaselineScores(np.full(n, target.mean()), ())
    if objective.task == "binary":
        return BaselineScores(np.full(n, scipy.special.logit(target.mean())), ())
    shares = np.bincount(target.astype(np.int64), minlength=objective.classes) / n
    return BaselineScores(np.tile(np.log(np.maximum(shares, 1e-15)), (n, 1)), ())
