"""Downstream evaluation: a LightGBM before and after, over seeds (paper, Section "Evaluation Metrics")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.special
from sklearn.metrics import accuracy_score, roc_auc_score

from scopefe.components import Array
from scopefe.data.dataset import Dataset, Task
from scopefe.data.table import finite
from scopefe.recipe.recipe import FittedFeature, Recipe
from scopefe.score.boosting import Part, raw_scores, train
from scopefe.score.engine import Engine
from scopefe.score.featureboost import compute

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

    def first(self, count: int) -> Matrix:
        """Return the first columns."""
        return Matrix(self.columns[:count], [i for i in self.categorical if i < count])

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
    learner: Mapping[str, Any],
    seeds: Sequence[int],
    max_trees: int,
    early_stopping: int,
    advance: Callable[[int], None] | None = None,
) -> Iterator[float]:
    """Train on training rows, stop on selection rows, measure on test rows; once per seed.

    Yields
    ------
    float
        RMSE in the target's units, ROC-AUC, or accuracy.
    """
    predicted = predict(
        data,
        matrix,
        engine,
        learner=learner,
        metric=STOPPING[data.labels.task],
        seeds=seeds,
        max_trees=max_trees,
        early_stopping=early_stopping,
        advance=advance,
    )
    for scores in predicted:
        yield _measure(data, scores)


def predict(
    data: Dataset,
    matrix: Matrix,
    engine: Engine,
    *,
    learner: Mapping[str, Any],
    metric: str,
    seeds: Sequence[int],
    max_trees: int,
    early_stopping: int,
    advance: Callable[[int], None] | None = None,
) -> Iterator[Array]:
    """Yield raw scores of the test rows by a model of the training rows; once per seed.

    Parameters
    ----------
    metric
        LightGBM's name of what the model stops by, on the selection rows.
    """
    rows, task = data.rows, data.labels.task
    target = np.empty(data.table.rows)
    target[rows.development] = data.scaled_target
    shared = {"objective": task, "metric": metric, "num_threads": 1, "deterministic": True,
              "force_col_wise": True, "verbosity": -1}  # fmt: skip
    if task == "multiclass":
        shared["num_class"] = len(data.labels.classes)
    work = Training(
        Part(matrix.take(rows.train), target[rows.train]),
        Part(matrix.take(rows.selection), target[rows.selection]),
        matrix.take(rows.test),
        matrix.categorical,
        {**shared, **learner},
        max_trees,
        early_stopping,
    )
    yield from engine.map(work, seeds, advance)


@dataclass(frozen=True, eq=False)
class Training:
    """The work of a seed: raw scores of the test rows by a model of the others."""

    fit: Part
    held: Part
    test: Array
    categorical: list[int]
    options: Mapping[str, Any]
    max_trees: int
    early_stopping: int

    def __call__(self, seed: int) -> Array:
        """Train and predict."""
        booster, _ = train(
            {**self.options, "seed": seed},
            self.fit,
            self.held,
            categorical=self.categorical,
            trees=self.max_trees,
            patience=self.early_stopping,
        )
        return raw_scores(booster, self.test, threads=1)


def _measure(data: Dataset, scores: Array) -> float:
    truth = data.labels.values[data.rows.test]
    if data.labels.task == "regression":
        train_target = data.labels.values[data.rows.train]
        predicted = scores * train_target.std() + train_target.mean()
        return float(np.sqrt(np.mean(np.square(truth - predicted))))
    if data.labels.task == "binary":
        return float(roc_auc_score(truth, scipy.special.expit(scores)))
    return float(accuracy_score(truth, scores.argmax(axis=1)))
