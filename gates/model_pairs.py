"""Pair gates that go by the target: pairs of features that a model of it uses together, or ought to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import numpy as np
from pydantic import Field
from scopefe.gates.draws import AT_LEAST, Budget, allowed

from scopefe import GateContext, PairSet, Scope, Splits, Table, pair_gate
from scopefe.components import Array

Pairs = Annotated[Budget, Field(description="Pairs to keep: a share of all pairs, or a count.")]
AtLeast = Annotated[int, AT_LEAST]


@pair_gate("fast")
def fast(
    context: GateContext,
    scope: Scope,
    *,
    budget: Pairs = 0.1,
    at_least: AtLeast = 1,
    bins: Annotated[int, Field(ge=2, description="Bins of a feature.")] = 32,
) -> PairSet:
    """Admit the pairs whose quadrants differ most in the loss's derivatives (FAST of GA2M).

    A pair's score is what its best cuts, one of each feature, gain over the baseline. Main effects are not
    removed: those that the baseline leaves count too.
    """

    def scores() -> Array:
        found: Array = context.remember("fast", {"bins": bins}, lambda: quadrant_gains(context, bins))
        return found

    return best_pairs(context, "fast", budget, at_least, scores)


@pair_gate("tree-path")
def tree_path(context: GateContext, scope: Scope, *, budget: Pairs = 0.1, at_least: AtLeast = 1) -> PairSet:
    """Admit the pairs of features that gain most on common paths of a LightGBM's trees."""
    d = context.universe.d
    return best_pairs(context, "tree-path", budget, at_least, lambda: path_gains(context.splits(), d))


@pair_gate("importance-product")
def importance_product(
    context: GateContext, scope: Scope, *, budget: Pairs = 0.1, at_least: AtLeast = 1
) -> PairSet:
    """Admit the pairs of features with the largest products of gain importances in a LightGBM."""
    d = context.universe.d
    return best_pairs(
        context, "importance-product", budget, at_least, lambda: importance_products(context.splits(), d)
    )


def best_pairs(
    context: GateContext, name: str, budget: float, at_least: int, scores: Callable[[], Array]
) -> PairSet:
    """Admit the pairs that score best, as many as the budget allows; equal ones in their order.

    Parameters
    ----------
    name
        What the report gets the facts as.
    scores
        Gives float64, shape (d · (d − 1) / 2,): the score of each pair, in the order of `numpy.triu_indices`.
    """
    d = context.universe.d
    left, right = np.triu_indices(d, 1)
    count = allowed(budget, len(left), at_least)
    found = scores() if len(left) else np.empty(0)
    best = np.argsort(-found, kind="stable")[:count]
    lowest = float(found[best[-1]]) if len(best) else None
    context.note(name, {"pairs": len(left), "kept": len(best), "lowest_kept": lowest})
    admitted = np.zeros((d, d), dtype=bool)
    admitted[left[best], right[best]] = True
    return PairSet(admitted | admitted.T)


def quadrant_gains(context: GateContext, bins: int) -> Array:
    """Return what the best cuts of each pair gain; see `best_pairs` for its shape."""
    from scopefe.gates.histograms import cell_sums, quadrant_gain

    table, gradients = context.table(), context.gradients()
    d = len(table)
    codes = list(context.map(lambda feature: feature_bins(table, feature, bins), range(d)))
    counts = [int(code.max()) + 1 for code in codes]
    one_fold = np.zeros(table.rows, dtype=np.int64)

    def with_later(feature: int) -> Array:
        first = codes[feature].astype(np.int64)
        gains = np.empty(d - feature - 1)
        for place, other in enumerate(range(feature + 1, d)):
            shape = counts[feature], counts[other]
            cells = first * shape[1] + codes[other]
            sums = cell_sums(cells, shape[0] * shape[1], one_fold, gradients.first, gradients.second)
            gains[place] = quadrant_gain(sums.reshape(*shape, -1))
        return gains

    return np.concatenate(list(context.map(with_later, range(d - 1))))


def feature_bins(table: Table, feature: int, most: int) -> Array:
    """Return the bin of each row.

    Numbers are in at most `most` bins of about equal size, in their order. Categories are in the order of
    their codes: the `most` most frequent ones, then the others together. Missing values are a bin of their
    own, before all others.

    Returns
    -------
    ndarray
        The smallest unsigned integers that hold them, from 0, shape (rows,).
    """
    from scopefe.gates.histograms import joined

    column = table.passing(feature)
    if column.kind == "categorical":
        distinct, rows, counts = np.unique(column.keys.codes, return_inverse=True, return_counts=True)
        bins = frequent_bins(distinct, counts, most)
    else:
        distinct, rows, counts = np.unique(
            column.numbers, return_inverse=True, return_counts=True, equal_nan=True
        )
        bins, _ = joined(distinct.astype(np.float64), counts.astype(np.float64), most)
    codes: Array = (bins - bins.min())[rows].astype(np.min_scalar_type(most + 1))
    return codes


def frequent_bins(codes: Array, counts: Array, most: int) -> Array:
    """Return the bin of each code: 0 for missing, then the most frequent ones by code, then the others."""
    known = np.flatnonzero(codes >= 0)
    frequent = np.sort(known[np.argsort(-counts[known], kind="stable")[:most]])
    bins = np.zeros(len(codes), dtype=np.int64)
    bins[known] = len(frequent) + 1
    bins[frequent] = np.arange(1, len(frequent) + 1)
    return bins


def path_gains(splits: Splits, d: int) -> Array:
    """Return each pair's gains of splits of one feature below a split of the other; see `best_pairs`.

    A split counts once for each feature above it, however often that is split there.
    """
    nodes, above = np.arange(len(splits.parent)), splits.parent
    met = []
    while (inside := above >= 0).any():
        nodes, above = nodes[inside], above[inside]
        met.append(nodes * d + splits.feature[above])
        above = splits.parent[above]
    node, other = np.divmod(np.unique(np.concatenate(met)) if met else nodes[:0], d)
    gains = np.zeros((d, d))
    np.add.at(gains, (splits.feature[node], other), splits.gain[node])
    return (gains + gains.T)[np.triu_indices(d, 1)]


def importance_products(splits: Splits, d: int) -> Array:
    """Return the product of each pair's gain importances; see `best_pairs` for its shape."""
    importances = np.bincount(splits.feature, splits.gain, minlength=d)
    return np.outer(importances, importances)[np.triu_indices(d, 1)]
