"""Compiled scoring on histograms of gradients.

A *sums* array has shape (folds, cells, 2 × outputs + 1): for each output the sum of first and of second
derivatives, then the number of rows. Cells are joined into bins in order of a candidate's value, and a small
boosting on the bins of all folds but one is measured on that one, in the quadratic expansion of the loss: its
cost does not depend on the number of rows.
"""

from __future__ import annotations

import numpy as np

from scopefe.components import Array
from scopefe.jit import njit

TREES, LEAVES, RATE, PATIENCE = 100, 16, 0.1, 3
ROWS, HESSIAN, TINY = 20, 1e-3, 1e-15
CATEGORY_L2, CATEGORY_ROWS = 10.0, 10


@njit
def cell_sums(cells: Array, count: int, folds: Array, first: Array, second: Array) -> Array:
    """Return the sums of each fold and cell.

    Parameters
    ----------
    cells
        Integers from 0, shape (rows,).
    count
        Number of cells.
    folds
        Integers from 0, shape (rows,).
    first, second
        float64, shape (outputs, rows).
    """
    outputs = len(first)
    sums = np.zeros((folds.max() + 1, count, 2 * outputs + 1))
    for row in range(len(cells)):
        here = sums[folds[row], cells[row]]
        for k in range(outputs):
            here[2 * k] += first[k, row]
            here[2 * k + 1] += second[k, row]
        here[2 * outputs] += 1
    return sums


@njit
def pair_sums(left: Array, right: Array, sizes: tuple[int, int], starts: Array, derivatives: Array) -> Array:
    """Return the sums of the cells of two features, row by row of the first one's bins.

    Parameters
    ----------
    left, right
        uint16, shape (rows,): the bins of rows, which come fold by fold.
    sizes
        Number of bins of each.
    starts
        int64, shape (folds + 1,): where folds begin.
    derivatives
        float64, shape (rows, 2 × outputs): of each output the first and the second one, in the same order.
    """
    width = derivatives.shape[1]
    sums = np.zeros((len(starts) - 1, sizes[0] * sizes[1], width + 1))
    for fold in range(len(sums)):
        cells = sums[fold]
        for row in range(starts[fold], starts[fold + 1]):
            cell = np.int64(left[row]) * sizes[1] + np.int64(right[row])
            for k in range(width):
                cells[cell, k] += derivatives[row, k]
            cells[cell, width] += 1
    return sums


@njit
def rank_sums(ranks: Array, parts: int, folds: Array, first: Array, second: Array) -> Array:
    """Return the sums of equal parts of ranks, float64 from 0 to 1, missing ones first; see `cell_sums`."""
    cells = np.empty(len(ranks), dtype=np.int64)
    for row in range(len(ranks)):
        rank = ranks[row]
        cells[row] = int(np.ceil(rank * parts)) + 1 if rank == rank else 0
    return cell_sums(cells, parts + 2, folds, first, second)


@njit
def joined(values: Array, counts: Array, most: int) -> tuple[Array, int]:
    """Join cells into bins of about equal size, in order of their values; equal values stay together.

    A cell that is as large as a bin has one of its own. Missing values, and cells without rows, are in bin 0.

    Returns
    -------
    tuple
        The bin of each cell, int64, and the number of bins: `most` at most, and the first.
    """
    bins = np.zeros(len(values), dtype=np.int64)
    kept = np.empty(len(values), dtype=np.int64)
    size = 0
    for cell in range(len(values)):
        if counts[cell] > 0 and values[cell] == values[cell]:
            kept[size] = cell
            size += 1
    kept = kept[:size]
    if not size:
        return bins, 1
    order = kept[np.argsort(values[kept])]
    left = 0.0
    for cell in order:
        left += counts[cell]
    free, last, filled, place = most, 0, 0.0, 0
    while place < size:
        end, weight = place, 0.0
        while end < size and values[order[end]] == values[order[place]]:
            weight += counts[order[end]]
            end += 1
        target = left / free
        full = filled >= target or (filled + weight > 1.5 * target and filled >= 0.5 * target)
        if last == 0 or (full and last < most) or size <= most:
            free = max(1, free - 1) if last else free
            last, filled = last + 1, 0.0
        for position in range(place, end):
            bins[order[position]] = last
        filled += weight
        left -= weight
        place = end
    return bins, last + 1


@njit
def binned(sums: Array, bins: Array, count: int) -> Array:
    """Return the sums of bins."""
    result = np.zeros((len(sums), count, sums.shape[2]))
    for fold in range(len(sums)):
        cells, to = sums[fold], result[fold]
        for cell in range(len(cells)):
            if cells[cell, -1] > 0:
                for j in range(cells.shape[1]):
                    to[bins[cell], j] += cells[cell, j]
    return result


@njit
def _best_cut(
    g: Array, h: Array, n: Array, start: int, end: int, whole_g: float, whole_h: float, whole_n: float
) -> tuple[float, int]:
    """Return the gain of the best cut of a leaf, and the first bin of its right side; -1 without one."""
    none = whole_g * whole_g / whole_h
    best, at = none, -1
    right_g, right_h, right_n = 0.0, TINY, 0.0
    for b in range(end - 1, start, -1):
        right_g += g[b]
        right_h += h[b]
        right_n += n[b]
        left_n, left_h = whole_n - right_n, whole_h - right_h
        if right_n < ROWS or right_h < HESSIAN:
            continue
        if left_n < ROWS or left_h < HESSIAN:
            break
        left_g = whole_g - right_g
        gain = left_g * left_g / left_h + right_g * right_g / right_h
        if gain > best:
            best, at = gain, b
    return best - none, at


@njit
def _boosted(
    train_g: Array, train_h: Array, train_n: Array, held_g: Array, held_h: Array, l2: float
) -> float:
    """Return by how much a boosting on bins lowers the loss of the rows that are held out, at its best."""
    count = len(train_g)
    added, g = np.zeros(count), np.empty(count)
    starts, ends, cuts = np.empty((3, LEAVES), dtype=np.int64)
    leaf_g, leaf_h, leaf_n, gains = np.empty((4, LEAVES))
    best, best_tree = -np.inf, 0
    for tree in range(TREES):
        leaf_g[0], leaf_h[0], leaf_n[0] = 0.0, 2 * TINY, 0.0
        for b in range(count):
            g[b] = train_g[b] + train_h[b] * added[b]
            leaf_g[0] += g[b]
            leaf_h[0] += train_h[b]
            leaf_n[0] += train_n[b]
        if leaf_h[0] <= 2 * TINY:
            break
        leaves, starts[0], ends[0] = 1, 0, count
        gains[0], cuts[0] = _best_cut(g, train_h, train_n, 0, count, leaf_g[0], leaf_h[0], leaf_n[0])
        while leaves < LEAVES:
            chosen = 0
            for leaf in range(1, leaves):
                if gains[leaf] > gains[chosen]:
                    chosen = leaf
            if gains[chosen] <= 0 or cuts[chosen] < 0:
                break
            cut, end = cuts[chosen], ends[chosen]
            right_g, right_h, right_n = 0.0, 2 * TINY, 0.0
            for b in range(cut, end):
                right_g += g[b]
                right_h += train_h[b]
                right_n += train_n[b]
            leaf_g[chosen] -= right_g
            leaf_h[chosen] -= right_h - 2 * TINY
            leaf_n[chosen] -= right_n
            ends[chosen] = cut
            starts[leaves], ends[leaves] = cut, end
            leaf_g[leaves], leaf_h[leaves], leaf_n[leaves] = right_g, right_h, right_n
            for leaf in (chosen, leaves):
                gains[leaf], cuts[leaf] = _best_cut(
                    g, train_h, train_n, starts[leaf], ends[leaf], leaf_g[leaf], leaf_h[leaf], leaf_n[leaf]
                )
            leaves += 1
        if leaves > 1:
            for leaf in range(leaves):
                step = -RATE * leaf_g[leaf] / (leaf_h[leaf] + l2)
                for b in range(starts[leaf], ends[leaf]):
                    added[b] += step
        lowered = 0.0
        for b in range(count):
            lowered -= added[b] * (held_g[b] + 0.5 * held_h[b] * added[b])
        if lowered > best:
            best, best_tree = lowered, tree
        elif tree - best_tree >= PATIENCE:
            break
        if leaves == 1:
            break
    return best if best > -np.inf else 0.0


@njit
def cell_scores(values: Array, sums: Array, most: int, chi2: bool) -> Array:
    """Score candidates by what the cells are worth to them.

    Parameters
    ----------
    values
        float64, shape (candidates, cells).
    sums
        Of the cells.
    most
        Number of bins that cells are joined into, beside that of missing values.
    chi2
        Whether to score without folds.

    Returns
    -------
    ndarray
        Shape (candidates, folds), or (candidates, 1) without; -inf where all rows are in one bin.
    """
    counts = np.zeros(sums.shape[1])
    for fold in range(len(sums)):
        for cell in range(len(counts)):
            counts[cell] += sums[fold, cell, -1]
    scores = np.full((len(values), 1 if chi2 else len(sums)), -np.inf)
    for i in range(len(values)):
        bins, count = joined(values[i], counts, most)
        grouped = binned(sums, bins, count)
        if np.count_nonzero(grouped[:, :, -1].sum(axis=0)) >= 2:
            scores[i] = chi2_score(grouped) if chi2 else fold_scores(grouped, 0.0)
    return scores


@njit
def fold_scores(sums: Array, l2: float) -> Array:
    """Return what a boosting on the bins of the other folds gains on each fold, per row, shape (folds,).

    Parameters
    ----------
    sums
        Of bins, in the order of their values.
    l2
        Added to the second derivatives of a leaf when its value is set.
    """
    folds, outputs = len(sums), sums.shape[2] // 2
    whole = sums.sum(axis=0)
    scores = np.zeros(folds)
    for fold in range(folds):
        held = sums[fold]
        train = whole - held
        rows = max(held[:, -1].sum(), 1.0)
        for k in range(outputs):
            scores[fold] += (
                _boosted(
                    train[:, 2 * k].copy(),
                    np.maximum(train[:, 2 * k + 1], 0.0),
                    train[:, -1].copy(),
                    held[:, 2 * k].copy(),
                    held[:, 2 * k + 1].copy(),
                    l2,
                )
                / rows
            )
    return scores


@njit
def chi2_score(sums: Array) -> Array:
    """Return how much more the bins' sums vary than they would by chance, shape (1,).

    Second derivatives stand for the variance of first ones, so that each bin is expected to give 1.
    """
    whole = sums.sum(axis=0)
    score = 0.0
    for k in range(sums.shape[2] // 2):
        g, h = whole[:, 2 * k], whole[:, 2 * k + 1]
        score -= g.sum() ** 2 / (h.sum() + 1)
        bins = -1
        for b in range(len(g)):
            if whole[b, -1] > 0:
                score += g[b] ** 2 / (h[b] + 1)
                bins += 1
        score -= bins
    return np.full(1, score)


@njit
def category_scores(sums: Array, most: int) -> Array:
    """Return the gain on each fold of categories, shape (folds,): they are ordered by the other folds.

    As in LightGBM's splits of categories, these are ordered by their mean gradient, shrunk, and rare ones are
    left alone.
    """
    folds, cells, outputs = len(sums), sums.shape[1], sums.shape[2] // 2
    whole = sums.sum(axis=0)
    scores = np.zeros(folds)
    both = np.empty((2, cells, 3))
    for fold in range(folds):
        for k in range(outputs):
            for cell in range(cells):
                for j in range(3):
                    at = 2 * k + j if j < 2 else 2 * outputs
                    both[1, cell, j] = sums[fold, cell, at]
                    both[0, cell, j] = whole[cell, at] - sums[fold, cell, at]
            ratios = np.full(cells, np.nan)
            for cell in range(cells):
                if both[0, cell, 2] >= CATEGORY_ROWS:
                    ratios[cell] = both[0, cell, 0] / (both[0, cell, 1] + CATEGORY_L2)
            bins, count = joined(ratios, both[0, :, 2].copy(), most)
            grouped = np.zeros((2, count, 3))
            for side in range(2):
                for cell in range(cells):
                    for j in range(3):
                        grouped[side, bins[cell], j] += both[side, cell, j]
            rows = max(grouped[1, :, 2].sum(), 1.0)
            scores[fold] += (
                _boosted(
                    grouped[0, :, 0].copy(),
                    np.maximum(grouped[0, :, 1], 0.0),
                    grouped[0, :, 2].copy(),
                    grouped[1, :, 0].copy(),
                    grouped[1, :, 1].copy(),
                    CATEGORY_L2,
                )
                / rows
            )
    return scores


@njit
def quadrant_gain(sums: Array) -> float:
    """Return how much more the quadrants of the best cuts of two features gain than the whole, Σ G² / H.

    Each output has cuts of its own; their gains are added up. A feature of one bin cannot be cut: 0.

    Parameters
    ----------
    sums
        Of the cells of two features, shape (bins, bins, 2 × outputs + 1). A cut divides the bins of a feature
        in two, in their order.
    """
    score = 0.0
    n = _corners(sums[:, :, -1])
    for k in range(sums.shape[2] // 2):
        g, h = _corners(sums[:, :, 2 * k]), _corners(sums[:, :, 2 * k + 1])
        none = _worth(g[-1, -1], h[-1, -1], n[-1, -1])
        best = none
        for a in range(1, sums.shape[0]):
            for b in range(1, sums.shape[1]):
                of_g, of_h, of_n = _quadrants(g, a, b), _quadrants(h, a, b), _quadrants(n, a, b)
                gain = 0.0
                for quadrant in range(4):
                    gain += _worth(of_g[quadrant], of_h[quadrant], of_n[quadrant])
                best = max(best, gain)
        score += best - none
    return score


@njit
def _corners(cells: Array) -> Array:
    """Return, for each cut of the rows and each of the columns, the sum of the cells before both."""
    result = np.zeros((cells.shape[0] + 1, cells.shape[1] + 1))
    for a in range(cells.shape[0]):
        row = 0.0
        for b in range(cells.shape[1]):
            row += cells[a, b]
            result[a + 1, b + 1] = result[a, b + 1] + row
    return result


@njit
def _quadrants(corners: Array, a: int, b: int) -> tuple[float, float, float, float]:
    before, above, left = corners[a, b], corners[a, -1], corners[-1, b]
    return before, above - before, left - before, corners[-1, -1] - above - left + before


@njit
def _worth(g: float, h: float, rows: float) -> float:
    return g * g / h if rows > 0 and h > 0 else 0.0
