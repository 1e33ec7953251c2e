"""How values lie, and how the target goes with them."""

from __future__ import annotations

import numpy as np

from scopefe.components import Array
from scopefe.data.dataset import Labels
from scopefe.report.model import AssociationFacts, GroupFacts, HistogramFacts, ShapeFacts

BINS, GROUPS, NAMED = 24, 10, 60


def histogram(values: Array) -> HistogramFacts | None:
    """Count values in bins of equal width; the outer ones have the outer hundredths too.

    Parameters
    ----------
    values
        float64, shape (n,); those that are not finite are left out.
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    low, high = np.quantile(known, [0.01, 0.99])
    if low == high:
        low, high = known.min(), known.max()
    counts = in_bins(known, low, high, BINS if high > low else 1)
    return HistogramFacts(low=_short(low), high=_short(high), counts=counts)


def in_bins(values: Array, low: float, high: float, bins: int) -> list[int]:
    """Count finite values in bins of equal width; the outer ones have all beyond."""
    span = high / 2 - low / 2
    place = (values / 2 - low / 2) / (span or 1.0) * bins
    counts: list[int] = np.bincount(np.clip(place, 0, bins - 1).astype(np.int64), minlength=bins).tolist()
    return counts


def shape(values: Array, target: Array, labels: Labels, *, categorical: bool) -> ShapeFacts:
    """Describe a feature's values, and the target by tenths of the rows, or by category.

    Parameters
    ----------
    values
        float64, shape (n,); category numbers where `categorical`.
    target
        float64, shape (n,): values of a regression's target, or class numbers.
    labels
        What the target is.
    """
    missing = np.isnan(values)
    codes = _categories(values) if categorical else _tenths(values)
    groups = []
    for code in range(int(codes.max(initial=-1)) + 1):
        inside = codes == code
        low, high = values[inside].min(), values[inside].max()
        groups.append(
            GroupFacts(
                low=_short(low),
                high=_short(high),
                rows=int(inside.sum()),
                target=_told(target[inside], labels),
            )
        )
    return ShapeFacts(
        missing=int(missing.sum()),
        missing_target=_told(target[missing], labels) if missing.any() else None,
        histogram=None if categorical else histogram(values),
        groups=groups,
    )


def associations(matrix: Array, clusters: Array, names: list[str]) -> AssociationFacts:
    """Order associations by cluster; of many features, give the means between clusters instead.

    Parameters
    ----------
    matrix
        float64, shape (d, d).
    clusters
        int64, shape (d,): numbers of clusters from 0.
    """
    if len(names) <= NAMED:
        order = np.argsort(clusters, kind="stable")
        ordered = matrix[np.ix_(order, order)]
        bounds = np.flatnonzero(np.diff(clusters[order])) + 1
        return AssociationFacts(
            features=[names[i] for i in order], bounds=bounds.tolist(), values=ordered.round(2).tolist()
        )
    member = np.eye(int(clusters.max()) + 1)[clusters]
    apart = matrix - np.diag(np.diag(matrix))
    pairs = np.outer(member.sum(axis=0), member.sum(axis=0)) - np.diag(member.sum(axis=0))
    means = np.where(pairs > 0, member.T @ apart @ member / np.maximum(pairs, 1), 1.0)
    return AssociationFacts(features=None, bounds=[], values=means.round(2).tolist())


def _tenths(values: Array) -> Array:
    """Number the tenths of rows by value, or the values where these are few; -1 where there is none."""
    known = ~np.isnan(values)
    codes = np.full(len(values), -1, dtype=np.int64)
    distinct = np.unique(values[known])
    if len(distinct) <= GROUPS:
        codes[known] = np.searchsorted(distinct, values[known])
        return codes
    cuts = np.quantile(values[known], np.arange(1, GROUPS) / GROUPS, method="lower")
    found = np.searchsorted(np.unique(cuts), values[known], side="left")
    codes[known] = np.unique(found, return_inverse=True)[1]
    return codes


def _categories(values: Array) -> Array:
    """Number the most frequent categories from the most frequent; -1 for others and where there is none."""
    known = ~np.isnan(values)
    codes = np.full(len(values), -1, dtype=np.int64)
    distinct, place, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    rank = np.empty(len(distinct), dtype=np.int64)
    rank[order] = np.arange(len(distinct))
    codes[known] = np.where(rank[place] < GROUPS, rank[place], -1)
    return codes


def _told(target: Array, labels: Labels) -> list[float]:
    """Return the mean of a target, the share of a second class, or those of all classes."""
    if labels.task == "regression" or len(labels.classes) == 2:
        return [_short(target.mean())]
    counts = np.bincount(target.astype(np.int64), minlength=len(labels.classes))
    return [_short(share) for share in counts / len(target)]


def _short(value: float) -> float:
    return float(f"{value:.6g}")
