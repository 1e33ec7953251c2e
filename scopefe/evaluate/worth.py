"""What each new feature is worth on unseen rows: how much worse the model is without it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.cluster.hierarchy
import scipy.spatial.distance
import scipy.stats

from scopefe.components import Array
from scopefe.recipe.matrix import Matrix

ALIKE, ROWS, ALONE = 0.9, 5000, 100


@dataclass(frozen=True)
class Worth:
    """How much worse the metric is without a feature, and those that stand for it.

    Parameters
    ----------
    mean
        Positive where the feature helps, whatever the metric's direction.
    error
        Standard error over test rows, or groups of them.
    together
        Places of the features that were left out with it, itself included.
    """

    mean: float
    error: float
    together: tuple[int, ...]


def stand_ins(features: Matrix, rows: Array, target: Array, most: int) -> list[list[int]]:
    """Group features that stand for each other: left out alone, none of them would be missed.

    Those are grouped whose values rank the rows alike (Spearman's correlation of 0.9 either way, average
    linkage); categories are ordered by the mean of the target. Where that leaves too many groups, the most
    alike are joined. From the hundredth feature on they are one group.

    Parameters
    ----------
    features
        The new features, the best first.
    rows, target
        Rows to compare on, and their targets.
    most
        Most groups.

    Returns
    -------
    list of list of int
        Places of the features, by the first of each group.
    """
    single = min(len(features.columns), ALONE)
    rest = list(range(single, len(features.columns)))
    most -= bool(rest)
    if len(rows) > ROWS:
        chosen = np.linspace(0, len(rows) - 1, ROWS).astype(np.int64)
        rows, target = rows[chosen], target[chosen]
    ranks = np.stack(
        [_ranks(features.columns[i][rows], target, i in features.categorical) for i in range(single)]
    )
    labels = _joined(1 - np.abs(_correlation(ranks)), max(most, 1))
    groups: dict[int, list[int]] = {}
    for place, label in enumerate(labels.tolist()):
        groups.setdefault(label, []).append(place)
    return [*groups.values(), *([rest] if rest else [])]


def _ranks(values: Array, target: Array, categorical: bool) -> Array:
    """Return centred ranks; 0 where a value is missing."""
    known = ~np.isnan(values)
    found = values[known]
    if categorical:
        codes = found.astype(np.int64)
        found = (np.bincount(codes, target[known]) / np.maximum(np.bincount(codes), 1))[codes]
    ranks = np.zeros(len(values))
    if len(found):
        ranks[known] = scipy.stats.rankdata(found) - (len(found) + 1) / 2
    return ranks


def _correlation(ranks: Array) -> Array:
    """Return the correlations of rows of centred values; a constant row has none."""
    norms = np.sqrt(np.square(ranks).sum(axis=1))
    scaled = ranks / np.where(norms > 0, norms, 1.0)[:, None]
    found: Array = np.clip(scaled @ scaled.T, -1, 1)
    np.fill_diagonal(found, 1.0)
    return found


def _joined(distances: Array, most: int) -> Array:
    """Return the group of each of several items, by average linkage."""
    if len(distances) == 1:
        return np.zeros(1, dtype=np.int64)
    tree = scipy.cluster.hierarchy.linkage(
        scipy.spatial.distance.squareform(distances, checks=False), "average"
    )
    labels: Array = scipy.cluster.hierarchy.fcluster(tree, 1 - ALIKE, "distance")
    if len(np.unique(labels)) > most:
        labels = scipy.cluster.hierarchy.fcluster(tree, most, "maxclust")
    return labels
