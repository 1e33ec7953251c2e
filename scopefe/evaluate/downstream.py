"""Downstream evaluation: a model before and after, over seeds (paper, Section "Evaluation Metrics")."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.special
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, get_scorer, roc_auc_score

from scopefe.components import Array
from scopefe.data.dataset import Dataset, Task
from scopefe.data.table import finite
from scopefe.errors import RunError
from scopefe.evaluate.learners import LEARNERS, Problem
from scopefe.recipe.recipe import FittedFeature, Recipe
from scopefe.score.boosting import Part
from scopefe.score.engine import Engine
from scopefe.score.featureboost import compute
from scopefe.score.objective import Objective

METRIC: dict[Task, tuple[str, bool]] = {
    "regression": ("rmse", False),
    "binary": ("auc", True),
    "multiclass": ("accuracy", True),
}
STOPPING: dict[Task, str] = {"regression": "rmse", "binary": "binary_error", "multiclass": "multi_error"}


@dataclass(frozen=True, eq=False)
class Matrix:
    """Model columns over all rows.

    Parameters
    ----------
    columns
        float64, each of shape (rows,).
    categorical
        Positions of the categorical columns.
    """

    columns: list[Array]
    categorical: list[int]

    def beside(self, other: Matrix) -> Matrix:
        """Return both, one beside the other; the columns are shared."""
        shifted = [len(self.columns) + i for i in other.categorical]
        return Matrix([*self.columns, *other.columns], [*self.categorical, *shifted])

    def take(self, rows: Array) -> Array:
        """Return the values of rows, shape (len(rows), columns)."""
        values = np.empty((len(rows), len(self.columns)), order="F")
        for i, column in enumerate(self.columns):
            values[:, i] = column[rows]
        return values


def originals(data: Dataset, *, benchmark: bool) -> Matrix:
    """Return the original features.

    ``benchmark``: missing numbers take the training mean, missing categories are one of their own, categories
    that the training rows lack are another. Otherwise both are left to the model.
    """
    columns = []
    for i in range(len(data.table)):
        feature = data.table[i]
        if feature.values is not None:
            column = finite(feature.values)
            if benchmark:
                column[np.isnan(column)] = (
                    np.nanmean(column[data.rows.train]) if np.isfinite(column[data.rows.train]).any() else 0.0
                )
        elif benchmark:
            column = feature.category_codes.astype(np.float64)
            known = np.unique(column[data.rows.train])
            column[~np.isin(column, known)] = known.max() + 1
        else:
            column = feature.keys.codes.astype(np.float64)
            column[column < 0] = np.nan
        columns.append(column)
    return Matrix(columns, data.table.categorical())


def fitted_features(data: Dataset, recipe: Recipe) -> Matrix:
    """Return the recipe's features of all rows, as learned from the development rows."""
    position = {name: i for i, name in enumerate(data.table.names)}
    columns = {i.name: data.table[position[i.name]] for i in recipe.inputs}
    values = [f.apply(columns) for f in recipe.features]
    return Matrix(values, [i for i, f in enumerate(recipe.features) if f.categorical])


def transductive_features(data: Dataset, recipe: Recipe) -> Matrix:
    """Return the recipe's features computed on train, selection and test rows together; missing is 0."""
    position = {name: i for i, name in enumerate(data.table.names)}
    order = np.concatenate([data.rows.development, data.rows.test])
    table = data.table.take(order)

    def column(feature: FittedFeature) -> Array:
        places = [position[name] for name in feature.inputs]
        values = finite(compute(feature.operator, table, places[0], places[-1]))
        if feature.categorical and (values < 0).any():
            values += 1
        result = np.zeros(data.table.rows)
        result[order] = np.nan_to_num(values, nan=0.0)
        return result

    categorical = [i for i, f in enumerate(recipe.features) if f.categorical]
    return Matrix([column(f) for f in recipe.features], categorical)


def evaluate(
    data: Dataset,
    matrix: Matrix,
    engine: Engine,
    *,
    learner: str,
    parameters: Mapping[str, Any],
    metric: str,
    seeds: Sequence[int],
    max_trees: int,
    early_stopping: int,
    advance: Callable[[int], None] | None = None,
) -> Iterator[float]:
    """Train on training rows, stop on selection rows, measure on test rows; once per seed.

    Parameters
    ----------
    metric
        ``auto``, or scikit-learn's name of a scorer.

    Yields
    ------
    float
        What `metric_of` names.
    """
    predicted = predict(
        data,
        matrix,
        engine,
        learner=learner,
        parameters=parameters,
        stopping=STOPPING[data.labels.task],
        seeds=seeds,
        max_trees=max_trees,
        early_stopping=early_stopping,
        advance=advance,
    )
    for scores in predicted:
        yield measure(data, scores, metric)


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
) -> Iterator[Array]:
    """Yield raw scores of the test rows by models of the training rows: of each width, one per seed.

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
    """The work of a model: raw scores of the test rows by a model of the others."""

    problem: Problem
    learner: str
    parameters: Mapping[str, Any]
    test: Array

    def __call__(self, model: tuple[int, int]) -> Array:
        """Train on so many of the first columns with a seed, and predict.

        Raises
        ------
        RunError
            If the learner does not take its parameters, or the data.
        """
        width, seed = model
        problem = replace(self.problem.first(width), seed=seed)
        try:
            return LEARNERS[self.learner].train(problem, self.parameters)(self.test[:, :width])
        except Exception as error:
            reason = " ".join(str(error).split())
            raise RunError(f"evaluation.learner {self.learner}: {type(error).__name__}: {reason}") from error


def metric_of(task: Task, metric: str) -> tuple[str, bool]:
    """Return a metric's name, and whether larger is better; all of scikit-learn's scorers are so."""
    return METRIC[task] if metric == "auto" else (metric, True)


def measure(data: Dataset, scores: Array, metric: str) -> float:
    """Return a metric of raw scores of the test rows, weighted where rows have weights.

    Returns
    -------
    float
        NaN where the metric is not defined on these rows, as the area under the ROC curve of one class.

    Raises
    ------
    RunError
        If the metric does not suit the task.
    """
    truth, task = data.labels.values[data.rows.test], data.labels.task
    weights = data.weights_of(data.rows.test)
    if task == "regression":
        train_target = data.labels.values[data.rows.train]
        scores = scores * train_target.std() + train_target.mean()
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
