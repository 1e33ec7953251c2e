"""Downstream evaluation: a model before and after, over seeds (paper, Section "Evaluation Metrics")."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from scopefe.components import CAT, Array
from scopefe.data.dataset import Dataset
from scopefe.data.table import finite
from scopefe.errors import RunError
from scopefe.evaluate.learners import LEARNERS, Problem
from scopefe.evaluate.metrics import measure
from scopefe.evaluate.uncertainty import contributions
from scopefe.recipe.matrix import Matrix
from scopefe.recipe.recipe import FittedFeature, Recipe
from scopefe.score.boosting import Part
from scopefe.score.engine import Engine
from scopefe.score.featureboost import compute
from scopefe.score.objective import Objective


def benchmark_originals(data: Dataset) -> Matrix:
    """Return the original features as the OpenFE benchmark gives them to models.

    Missing numbers take the training mean, missing categories are one of their own, categories that the
    training rows lack are another.
    """
    columns = []
    for feature in map(data.table.passing, range(len(data.table))):
        if feature.values is not None:
            column = finite(feature.values)
            known = column[data.rows.train]
            column[np.isnan(column)] = np.nanmean(known) if np.isfinite(known).any() else 0.0
        else:
            column = feature.category_codes.astype(np.float64)
            known = np.unique(column[data.rows.train])
            column[~np.isin(column, known)] = known.max() + 1
        columns.append(column)
    return Matrix(columns, data.table.categorical())


def transductive_features(data: Dataset, recipe: Recipe) -> Matrix:
    """Return the recipe's features computed on train, selection and test rows together; missing is 0.

    Values that are categories are given as such, as the OpenFE benchmark does.
    """
    position = {name: i for i, name in enumerate(data.table.names)}
    order = np.concatenate([data.rows.development, data.rows.test])
    table = data.table.take(order)

    def column(feature: FittedFeature, categorical: bool) -> Array:
        places = [position[name] for name in feature.inputs]
        values = finite(compute(feature.operator, table, places[0], places[-1]))
        if categorical and (values < 0).any():
            values += 1
        result = np.zeros(data.table.rows)
        result[order] = np.nan_to_num(values, nan=0.0)
        return result

    categorical = [i for i, f in enumerate(recipe.features) if f.operator.gives == CAT]
    return Matrix([column(f, i in categorical) for i, f in enumerate(recipe.features)], categorical)


@dataclass(frozen=True, eq=False)
class Evaluated:
    """A model of one seed, measured on the test rows.

    Parameters
    ----------
    score
        The metric.
    trees
        Trees of the model; 0 for one without.
    contributions
        What each unit of the test rows contributes to the metric, float64, shape (units,).
    """

    score: float
    trees: int
    contributions: Array


def evaluate(
    data: Dataset,
    matrix: Matrix,
    engine: Engine,
    *,
    learner: str,
    parameters: Mapping[str, Any],
    metric: str,
    stopping: str,
    seeds: Sequence[int],
    max_trees: int,
    early_stopping: int,
    advance: Callable[[int], None] | None = None,
) -> Iterator[Evaluated]:
    """Train on training rows, stop on selection rows, measure on test rows; once per seed.

    Parameters
    ----------
    metric
        ``auto``, or scikit-learn's name of a scorer.
    stopping
        See `predict`.
    """
    predicted = predict(
        data,
        matrix,
        engine,
        learner=learner,
        parameters=parameters,
        stopping=stopping,
        seeds=seeds,
        max_trees=max_trees,
        early_stopping=early_stopping,
        advance=advance,
    )
    rows, task = data.rows.test, data.labels.task
    truth, weights = data.labels.values[rows], data.weights_of(rows)
    for scores, trees in predicted:
        scores = data.unscaled(scores)
        score = measure(task, truth, scores, metric, weights)
        units = contributions(data, scores, metric) if np.isfinite(score) else np.empty(0)
        yield Evaluated(score, trees, units)


def predict(
    data: Dataset,
    matrix: Matrix,
    engine: Engine,
    *,
    learner: str,
    parameters: Mapping[str, Any],
    stopping: str,
    seeds: Sequence[int],
    max_trees: int,
    early_stopping: int,
    widths: Sequence[int] | None = None,
    advance: Callable[[int], None] | None = None,
) -> Iterator[tuple[Array, int]]:
    """Yield raw scores of the test rows by models of the training rows, and the number of their trees.

    There is one model of each width and seed.

    Parameters
    ----------
    learner, parameters
        Name of a learner, and its own parameters.
    stopping
        LightGBM's name of what a model stops by, on the selection rows.
    widths
        Numbers of first columns that models have; None for all columns only.
    """
    rows = data.rows
    target = np.empty(data.table.rows)
    target[rows.development] = data.scaled_target
    fit, held = (
        Part(matrix.take(part), target[part], weights=data.weights_of(part))
        for part in (rows.train, rows.selection)
    )
    problem = Problem(
        Objective.of(data.labels.task, len(data.labels.classes)),
        fit,
        held,
        matrix.categorical,
        stopping,
        max_trees,
        early_stopping,
        seed=0,
    )
    work = Training(problem, learner, parameters, matrix.take(rows.test))
    models = itertools.product([len(matrix.columns)] if widths is None else widths, seeds)
    yield from engine.map(work, models, advance)


@dataclass(frozen=True, eq=False)
class Training:
    """The work of a model: raw scores of the test rows by a model of the others, and its number of trees."""

    problem: Problem
    learner: str
    parameters: Mapping[str, Any]
    test: Array

    def __call__(self, model: tuple[int, int]) -> tuple[Array, int]:
        """Train on so many of the first columns with a seed, and predict.

        Raises
        ------
        RunError
            If the learner does not take its parameters, or the data.
        """
        width, seed = model
        problem = replace(self.problem.first(width), seed=seed)
        try:
            trained = LEARNERS[self.learner].train(problem, self.parameters)
            return trained.predict(self.test[:, :width]), trained.trees
        except Exception as error:
            reason = " ".join(str(error).split())
            raise RunError(f"evaluation.learner {self.learner}: {type(error).__name__}: {reason}") from error
