"""Fitting selected features into a recipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np

from scopefe.components import CAT, Keys, Operator
from scopefe.data.datetimes import TimePart
from scopefe.data.table import Feature, Table, arguments_of, held_by
from scopefe.recipe.distribution import Distribution
from scopefe.recipe.inputs import Input, Original
from scopefe.recipe.naming import column_names
from scopefe.recipe.recipe import FittedFeature, Recipe
from scopefe.score.categories import Categories
from scopefe.space.expression import Apply, Expression, Leaf


def fit_recipe(
    name: str,
    key: str,
    table: Table,
    chosen: Sequence[tuple[Expression, Operator, float, float]],
    missing_as: str | None = None,
    time_parts: Mapping[str, TimePart] | None = None,
    levels: int | None = None,
    taken: Iterable[str] = (),
    missing: tuple[str, ...] = (),
) -> Recipe:
    """Fit selected features, and note what the original ones are to a model.

    Parameters
    ----------
    table
        The rows to learn from: training, then selection rows.
    chosen
        (expression, operator, gain, importance) of each feature, most important first.
    missing_as
        Category that stands for missing values in categorical columns.
    time_parts
        What features of the table are parts of, by name, where they are not columns.
    levels
        A feature whose values are categories of more levels is a number, the frequency of its category; None:
        a category in any case.
    taken
        Names of columns that are no features: no new column has one of them.
    missing
        Texts that are missing values.
    """
    parts = time_parts or {}
    position = {n: i for i, n in enumerate(table.names)}
    used: dict[str, Feature] = {}
    features = []
    names = column_names([e for e, *_ in chosen], [*table.names, *taken])
    for new, (expression, operator, gain, importance) in zip(names, chosen, strict=True):
        assert isinstance(expression, Apply)
        inputs = [cast(Leaf, a).name for a in expression.arguments]
        for i in inputs:
            used.setdefault(i, compact(table[position[i]]))
        arguments = arguments_of(operator, [used[i] for i in inputs])
        state, categories = operator.fit(*arguments), None
        if operator.gives == CAT:
            categories = Categories.fitted(operator.apply(state, *arguments), levels)
        features.append(FittedFeature(new, expression, operator, state, gain, importance, categories))
    inputs_read = tuple(_input(f, missing_as, parts.get(f.name)) for f in used.values())
    return Recipe(name, tuple(features), inputs_read, key, originals_of(table, missing_as, parts), missing)


def originals_of(
    table: Table, missing_as: str | None = None, time_parts: Mapping[str, TimePart] | None = None
) -> tuple[Original, ...]:
    """Return the features of a table as models are given them; see `fit_recipe`."""
    originals = []
    for feature in (compact(table.passing(i)) for i in range(len(table))):
        read = _input(feature, missing_as, (time_parts or {}).get(feature.name))
        originals.append(Original(read, None if feature.values is not None else feature.keys.labels))
    return tuple(originals)


def _input(feature: Feature, missing_as: str | None, time_part: TimePart | None) -> Input:
    """Say how a feature is read."""
    if feature.kind != "categorical":
        single = feature.values is not None and feature.values.dtype == np.float32
        return Input(feature.name, feature.kind, single, time_part=time_part)
    holds = held_by([label for label in feature.keys.labels.tolist() if label != missing_as])
    return Input(feature.name, feature.kind, False, missing_as, time_part, holds)


def described(recipe: Recipe, table: Table) -> Recipe:
    """Return the recipe with the distribution of its features' values on the rows of a table."""
    position = {n: i for i, n in enumerate(table.names)}
    columns = {i.name: table[position[i.name]] for i in recipe.inputs}
    features = [
        replace(f, distribution=Distribution.of(f.apply(columns), categorical=f.labels is not None))
        for f in recipe.features
    ]
    return replace(recipe, features=tuple(features))


def compact(feature: Feature) -> Feature:
    """Return the feature without the labels that no row has, so that only these rows are learned from."""
    if feature.codes is None:
        return Feature(feature.name, feature.kind, feature.values)
    used, codes = np.unique(feature.codes.codes, return_inverse=True)
    missing = int(len(used) > 0 and used[0] < 0)
    return Feature(
        feature.name,
        feature.kind,
        feature.values,
        Keys(codes.astype(np.int64) - missing, feature.codes.labels[used[missing:]]),
    )
