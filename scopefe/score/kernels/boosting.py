"""Boosting one binned feature on each loss: everything the feature can add to the baseline scores.

Trees are grown as LightGBM grows them: best leaf first, at most 16 leaves; categories one against the others
where they are few, else in order of their gradients. With row-wise starting scores s, a
logistic or softmax loss needs exp(s) once per row block and exp(f) once per bin and tree: exp(s + f) is their
product. Rows are sorted by bin, so that a tree is one pass over memory.

All of it is one module, since a compiled function on disk does not notice changes in those of other modules.
"""

from __future__ import annotations

import math

import numpy as np

from scopefe.components import Array
from scopefe.jit import njit
from scopefe.score.kernels.binning import MIN_DATA_IN_LEAF, Binned

TREES = 100
PATIENCE = 3
LEAVES = 16
LEARNING_RATE = 0.1
MIN_HESSIAN = 1e-3
TINY = float(np.float32(1e-15))
ONE_HOT = 4
MAX_CATEGORIES = 32
MIN_DATA_PER_GROUP = 100
CATEGORY_L2 = CATEGORY_SMOOTH = 10.0
LOSS_OF_TINY = -float(np.log(np.float32(1e-15)))
FEW = 65_536
LANE_1, LANE_2, LANE_3, LANE_4, LANE_5, LANE_6, LANE_7, LANES = (np.uint64(i) for i in range(1, 9))
# beyond this raw score LightGBM's own 1 - p has lost digits, which only its own formula gives again
DIGITS = 16.0


# All is computed as written, so that it does not matter how a function was compiled, alone or within another,
# now or in an earlier process; what is summed is summed in lanes, which a processor adds side by side.
# Positions of points are unsigned: a signed one would be checked for its sign at each step of a loop.
@njit
def lane_sum(values: Array, first: np.uint64, last: np.uint64) -> float:
    """Return the sum of values from `first` on, before `last`."""
    a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    whole = last - (last - first) % LANES
    for i in range(first, whole, LANES):
        a += values[i]
        b += values[i + LANE_1]
        c += values[i + LANE_2]
        d += values[i + LANE_3]
        e += values[i + LANE_4]
        f += values[i + LANE_5]
        g += values[i + LANE_6]
        h += values[i + LANE_7]
    for i in range(whole, last):
        a += values[i]
    return ((a + e) + (b + f)) + ((c + g) + (d + h))


@njit
def whole_sum(values: Array) -> float:
    """Return the sum of all values."""
    return lane_sum(values, np.uint64(0), np.uint64(len(values)))


@njit
def boost_squared(binned: Binned, residuals: Array, weights: Array, constant: bool, start: float) -> float:
    """Return the best root mean squared error over the measured rows.

    Trees need the rows for one pass only: all else follows from each bin's count and sum. But LightGBM rounds
    each row's gradient to float32, which tells where rows are few or targets tied; then rows are followed.

    Parameters
    ----------
    residuals
        float64, shape (rows,): starting score minus target.
    weights
        float64, shape (rows,), or (0,) where all rows weigh the same.
    constant
        Whether the starting scores are the same for all rows.
    start
        The error of the starting scores.
    """
    bins, fitted, size = binned.bins, binned.fitted, binned.size
    counts, starts, rows, _, weight = points(
        bins[:fitted], np.zeros(fitted, np.int64), weights, size, 1, False
    )
    fit, sums, rounded = residuals[rows], np.zeros(size), constant or fitted <= FEW
    weighed, whole, each = fit * weight, counts.astype(np.float64), len(weights) > 0
    for b in range(size):
        sums[b] = weighed[starts[b] : starts[b + 1]].sum()
        if each:
            whole[b] = weight[starts[b] : starts[b + 1]].sum()
    output, gradients, hessians = np.zeros(size), np.empty(size), np.empty(size)
    best, since = start, 0
    for tree in range(TREES):
        hessians[:] = whole
        if rounded:
            squared_sums(fit, weight, each, starts, output, gradients)
        else:
            gradients[:] = sums + hessians * output
        if not add_tree(gradients, hessians, counts, binned, output):
            break
        loss = squared_loss(residuals[fitted:], bins[fitted:], weights[fitted:], output)
        best, since = _judged(loss, tree, best, since)
        if since == PATIENCE:
            break
    return best


@njit
def squared_sums(
    residuals: Array, weight: Array, each: bool, starts: Array, output: Array, gradients: Array
) -> None:
    """Write each bin's sum of gradients, in float32 as LightGBM."""
    terms = np.empty(len(residuals))
    for b in range(len(output)):
        for i in range(starts[b], starts[b + 1]):
            term = np.float64(np.float32(residuals[i] + output[b]))
            terms[i] = np.float64(np.float32(weight[i] * term)) if each else term
        gradients[b] = lane_sum(terms, starts[b], starts[b + 1])


@njit
def squared_loss(residuals: Array, bins: Array, weights: Array, output: Array) -> float:
    """Return the root mean squared error of residuals plus each bin's output."""
    terms = np.empty(len(bins))
    for i in range(len(bins)):
        r = residuals[i] + output[bins[i]]
        terms[i] = r * r
    return math.sqrt(mean(terms, weights))


@njit
def mean(terms: Array, weights: Array) -> float:
    """Return the mean of terms, weighted where there are weights."""
    if not len(weights):
        return whole_sum(terms) / len(terms)
    return whole_sum(weights * terms) / whole_sum(weights)


@njit
def boost_logistic(
    binned: Binned,
    scores: Array,
    odds: Array,
    positive: Array,
    weights: Array,
    constant: bool,
    ranking: bool,
    start: float,
) -> float:
    """Return the best logistic loss, or the negative of the best AUC, over the measured rows.

    Parameters
    ----------
    scores, odds
        float64, shape (rows,): starting scores s, and exp(-s).
    positive
        int64, shape (rows,): 1 for the positive class, 0 for the other.
    weights
        float64, shape (rows,), or (0,) where all rows weigh the same.
    constant
        Whether the starting scores are the same for all rows.
    ranking
        Whether the metric is the AUC.
    start
        The loss of the starting scores.
    """
    bins, fitted, size = binned.bins, binned.fitted, binned.size
    if not 0 < positive[:fitted].sum() < fitted:
        return start
    counts, starts, rows, own, weight = points(bins[:fitted], positive[:fitted], weights, size, 2, constant)
    each = len(weights) > 0
    if constant:
        output, fit = np.full(size, scores[0]), np.ones(len(rows))
    else:
        output, fit = np.zeros(size), odds[rows]
    held, held_bins, held_positive = odds[fitted:], bins[fitted:], positive[fitted:]
    held_weights = weights[fitted:]
    held_scores = np.zeros(len(held)) if constant else scores[fitted:]
    reach, gradients, hessians = np.abs(held_scores).max(), np.empty(size), np.empty(size)
    best, since, factors = start, 0, np.exp(-output)
    for tree in range(TREES):
        logistic_sums(fit, own, weight, each, starts, factors, gradients, hessians)
        if not add_tree(gradients, hessians, counts, binned, output):
            break
        factors = np.exp(-output)
        if ranking:
            loss = -auc(held_scores, held_bins, held_positive, held_weights, output)
        elif constant:
            loss = binned_loss(-output, held_bins, held_positive, held_weights)
        elif not each and reach + np.abs(output).max() <= DIGITS:
            loss = logistic_loss(held, held_scores, held_bins, held_positive, output, factors)
        else:
            loss = far_logistic_loss(held, held_bins, held_positive, held_weights, factors)
        best, since = _judged(loss, tree, best, since)
        if since == PATIENCE:
            break
    return best


@njit
def _judged(loss: float, tree: int, best: float, since: int) -> tuple[float, int]:
    """Return the best loss so far, that of the first tree in any case, and the number of trees since."""
    return (loss, 0) if tree == 0 or loss < best else (best, since + 1)


@njit
def points(
    bins: Array, classes: Array, weights: Array, size: int, k: int, merged: bool
) -> tuple[Array, Array, Array, Array, Array]:
    """Sort rows by bin; where they differ in bin and class only, and not in weight, merge them.

    Returns
    -------
    tuple
        int64 number of rows of each bin; where each bin's points begin, uint64, shape (bins + 1,); and for
        each point the position of its row (any row, if merged), its class and its weight.
    """
    starts, counts = np.zeros(size + 1, np.uint64), np.zeros(size, np.int64)
    for b in bins:
        counts[b] += 1
    if merged and not len(weights):
        weight = np.zeros(size * k)
        for i in range(len(bins)):
            weight[bins[i] * k + classes[i]] += 1
        starts[:] = np.arange(size + 1) * k
        return counts, starts, np.zeros(size * k, np.int64), np.arange(size * k) % k, weight
    starts[1:] = np.cumsum(counts)
    at = starts.astype(np.int64)
    rows, own = np.empty(len(bins), np.int64), np.empty(len(bins), np.int64)
    for i in range(len(bins)):
        place = at[bins[i]]
        rows[place], own[place] = i, classes[i]
        at[bins[i]] = place + 1
    return counts, starts, rows, own, weights[rows] if len(weights) else np.ones(len(bins))


@njit
def logistic_sums(
    odds: Array,
    own: Array,
    weight: Array,
    each: bool,
    starts: Array,
    factors: Array,
    gradients: Array,
    hessians: Array,
) -> None:
    """Write each bin's sums of gradients p - y and hessians p(1 - p), in float32 as LightGBM.

    Parameters
    ----------
    each
        Whether points are rows with weights, and not numbers of rows.
    factors
        Here and in losses, what the odds of a bin's points are to be multiplied by.
    """
    now, first, second = np.empty(len(weight)), np.empty(len(weight)), np.empty(len(weight))
    for b in range(len(factors)):
        for i in range(starts[b], starts[b + 1]):
            now[i] = odds[i] * factors[b]
    for i in range(len(weight)):
        p = 1.0 / (1.0 + now[i])
        first[i] = rounded(p - own[i], weight[i], each)
        second[i] = rounded(p * (1.0 - p), weight[i], each)
    for b in range(len(factors)):
        gradients[b] = lane_sum(first, starts[b], starts[b + 1])
        hessians[b] = lane_sum(second, starts[b], starts[b + 1])


@njit
def rounded(value: float, weight: float, each: bool) -> float:
    """Return what a row contributes, in float32; of several rows, it is that many times the same."""
    if each:
        return np.float64(np.float32(weight * value))
    return weight * np.float64(np.float32(value))


@njit
def logistic_loss(
    odds: Array, scores: Array, bins: Array, positive: Array, output: Array, factors: Array
) -> float:
    """Return the mean of -log p of each row's class: log(1 + e^-s), plus s for the negative class."""
    terms, negative = np.empty(len(bins)), np.empty(len(bins))
    for i in range(len(bins)):
        terms[i] = 1.0 + odds[i] * factors[bins[i]]
        negative[i] = (1 - positive[i]) * (scores[i] + output[bins[i]])
    return (whole_sum(negative) + _log_of_product(terms)) / len(bins)


@njit
def _log_of_product(values: Array) -> float:
    """Return the sum of logarithms of values between 1e-9 and 1e9: of products of 32, in 8 lanes of 4."""
    whole, total = len(values) // 32 * 32, 0.0
    lanes = np.empty(8)
    for first in range(0, whole, 32):
        for i in range(8):
            j = first + i
            lanes[i] = (values[j] * values[j + 8]) * (values[j + 16] * values[j + 24])
        pairs = (lanes[0] * lanes[4]) * (lanes[1] * lanes[5])
        total += math.log(pairs * ((lanes[2] * lanes[6]) * (lanes[3] * lanes[7])))
    product = 1.0
    for value in values[whole:]:
        product *= value
    return total + math.log(product)


@njit
def _loss(p: float) -> float:
    return -math.log(p) if p > TINY else LOSS_OF_TINY


@njit
def far_logistic_loss(odds: Array, bins: Array, positive: Array, weights: Array, factors: Array) -> float:
    """Return the mean of -log p of each row's class, row by row as LightGBM computes it."""
    total, whole = 0.0, 0.0
    for i in range(len(bins)):
        p = 1.0 / (1.0 + odds[i] * factors[bins[i]])
        weight = weights[i] if len(weights) else 1.0
        total += weight * _loss(p if positive[i] else 1.0 - p)
        whole += weight
    return total / whole


@njit
def binned_loss(exponents: Array, bins: Array, positive: Array, weights: Array) -> float:
    """Return the mean of -log p of each row's class, where p = 1/(1 + e^x) with x given by bin."""
    losses, total, whole = np.empty((len(exponents), 2)), 0.0, 0.0
    for b in range(len(exponents)):
        p = 1.0 / (1.0 + math.exp(exponents[b]))
        losses[b, 1], losses[b, 0] = _loss(p), _loss(1.0 - p)
    for i in range(len(bins)):
        weight = weights[i] if len(weights) else 1.0
        total += weight * losses[bins[i], positive[i]]
        whole += weight
    return total / whole


@njit
def starting_logistic_loss(scores: Array, positive: Array, weights: Array) -> float:
    """Return the mean of -log p of each row's class, as LightGBM sums it."""
    return binned_loss(-scores, np.arange(len(scores)), positive, weights)


@njit
def auc(scores: Array, bins: Array, positive: Array, weights: Array, output: Array) -> float:
    """Return the area under the ROC curve of scores plus each bin's output; 1 where a class is absent."""
    now = np.empty(len(scores))
    for i in range(len(bins)):
        now[i] = scores[i] + output[bins[i]]
    area, below, above, equal, last = 0.0, 0.0, 0.0, np.zeros(2), np.nan
    for i in np.argsort(now, kind="mergesort"):
        if now[i] != last:
            last = now[i]
            area += equal[1] * (below + 0.5 * equal[0])
            below += equal[0]
            above += equal[1]
            equal[:] = 0.0
        equal[positive[i]] += weights[i] if len(weights) else 1.0
    area += equal[1] * (below + 0.5 * equal[0])
    negatives, positives = below + equal[0], above + equal[1]
    return area / (positives * negatives) if positives and negatives else 1.0


@njit
def boost_softmax(
    binned: Binned,
    scores: Array,
    odds: Array,
    classes: Array,
    weights: Array,
    constant: bool,
    start: float,
) -> float:
    """Return the best multiclass logistic loss over the measured rows.

    Parameters
    ----------
    scores, odds
        float64, shape (classes, rows): starting scores, less each row's largest unless constant, and their
        exponentials.
    classes
        int64, shape (rows,): class numbers.
    weights
        float64, shape (rows,), or (0,) where all rows weigh the same.
    constant
        Whether the starting scores are the same for all rows.
    start
        The loss of the starting scores.
    """
    bins, fitted, size, k = binned.bins, binned.fitted, binned.size, len(scores)
    counts, starts, rows, own, weight = points(bins[:fitted], classes[:fitted], weights, size, k, constant)
    each = len(weights) > 0
    fit, output = np.ones((k, len(rows))), np.zeros((k, size))
    for c in range(k):
        if constant:
            output[c] = scores[c, 0]
        else:
            fit[c] = odds[c][rows]
    held, held_bins, held_classes = odds[:, fitted:], bins[fitted:], classes[fitted:]
    held_scores, held_weights = np.zeros(len(held_bins)), weights[fitted:]
    for i in range(len(held_bins) if not constant else 0):
        held_scores[i] = scores[held_classes[i], fitted + i]
    shares, lowest = np.bincount(classes[:fitted], minlength=k), held_scores.min()
    gradients, hessians = np.empty((k, size)), np.empty((k, size))
    best, since, factors = start, 0, np.exp(below_the_top(output))
    for tree in range(TREES):
        softmax_sums(fit, own, weight, each, starts, factors, gradients, hessians)
        more = False
        for c in range(k):
            if 0 < shares[c] < fitted:
                more |= add_tree(gradients[c], hessians[c], counts, binned, output[c])
        if not more:
            break
        below = below_the_top(output)
        factors = np.exp(below)
        if constant:
            loss = binned_softmax_loss(output, held_bins, held_classes, held_weights)
        else:
            near = not each and 2 * np.abs(output).max() - lowest <= DIGITS
            loss = softmax_loss(
                held, held_scores, held_bins, held_classes, held_weights, below, factors, near
            )
        best, since = _judged(loss, tree, best, since)
        if since == PATIENCE:
            break
    return best


@njit
def below_the_top(output: Array) -> Array:
    """Return each class's raw score less the largest one of its bin."""
    below = np.empty_like(output)
    for b in range(output.shape[1]):
        below[:, b] = output[:, b] - output[:, b].max()
    return below


@njit
def softmax_sums(
    odds: Array,
    own: Array,
    weight: Array,
    each: bool,
    starts: Array,
    factors: Array,
    gradients: Array,
    hessians: Array,
) -> None:
    """Write each class's and bin's sums of gradients p - y and hessians p(1 - p)K/(K - 1), in float32."""
    k, size = factors.shape
    now, share, scale = np.empty(odds.shape), np.zeros(len(weight)), k / (k - 1)
    first, second = np.empty(len(weight)), np.empty(len(weight))
    for b in range(size):
        for c in range(k):
            for i in range(starts[b], starts[b + 1]):
                now[c, i] = odds[c, i] * factors[c, b]
    for c in range(k):
        for i in range(len(weight)):
            share[i] += now[c, i]
    for i in range(len(weight)):
        share[i] = 1.0 / share[i]
    for c in range(k):
        for i in range(len(weight)):
            p = now[c, i] * share[i]
            first[i] = rounded(p - (own[i] == c), weight[i], each)
            second[i] = rounded(scale * p * (1.0 - p), weight[i], each)
        for b in range(size):
            gradients[c, b] = lane_sum(first, starts[b], starts[b + 1])
            hessians[c, b] = lane_sum(second, starts[b], starts[b + 1])


@njit
def softmax_loss(
    odds: Array,
    scores: Array,
    bins: Array,
    classes: Array,
    weights: Array,
    below: Array,
    factors: Array,
    near: bool,
) -> float:
    """Return the mean of -log p of each row's class: the log of all odds' sum, less its own score.

    Parameters
    ----------
    scores
        float64, shape (rows,): starting score of the row's own class.
    below
        float64, shape (classes, bins): what the tree adds to it, less the most that it adds to any class.
    near
        Whether scores are close to each other and rows weigh the same, so that logarithms may be taken of
        products.
    """
    terms, scored = np.zeros(len(bins)), np.empty(len(bins))
    for c in range(len(odds)):
        for i in range(len(bins)):
            terms[i] += odds[c, i] * factors[c, bins[i]]
    if near:
        for i in range(len(bins)):
            scored[i] = scores[i] + below[classes[i], bins[i]]
        return (_log_of_product(terms) - whole_sum(scored)) / len(bins)
    for i in range(len(bins)):
        scored[i] = _loss(math.exp(scores[i] + below[classes[i], bins[i]]) / terms[i])
    return mean(scored, weights)


@njit
def binned_softmax_loss(scores: Array, bins: Array, classes: Array, weights: Array) -> float:
    """Return the mean of -log p of each row's class, as LightGBM sums it, from scores by class and bin."""
    k, size = scores.shape
    losses, total, whole_weight = np.empty((k, size)), 0.0, 0.0
    for b in range(size):
        top, whole = scores[:, b].max(), 0.0
        for c in range(k):
            whole += math.exp(scores[c, b] - top)
        for c in range(k):
            losses[c, b] = _loss(math.exp(scores[c, b] - top) / whole)
    for i in range(len(bins)):
        weight = weights[i] if len(weights) else 1.0
        total += weight * losses[classes[i], bins[i]]
        whole_weight += weight
    return total / whole_weight


@njit
def add_tree(gradients: Array, hessians: Array, counts: Array, binned: Binned, output: Array) -> bool:
    """Grow a tree and add its leaves' outputs, times the learning rate, to `output`.

    Parameters
    ----------
    gradients, hessians
        float64 sums over each bin's rows, shape (bins,); those of the frequent bin are changed: LightGBM
        infers them from a leaf's and the other bins', with what rounding leaves.
    counts
        int64 number of rows of each bin.
    output
        float64, shape (bins,): raw scores by bin; changed.

    Returns
    -------
    bool
        Whether there was a split.
    """
    size, frequent = len(gradients), binned.frequent
    items, to_left = np.arange(size), np.zeros(size, np.bool_)
    low, high = np.zeros(LEAVES, np.int64), np.zeros(LEAVES, np.int64)
    g, h, n = np.zeros(LEAVES), np.zeros(LEAVES), np.zeros(LEAVES, np.int64)
    value, rest_g, rest_h = np.zeros(LEAVES), np.zeros(LEAVES), np.zeros(LEAVES)
    gain, left_g, left_h = np.zeros(LEAVES), np.zeros(LEAVES), np.zeros(LEAVES)
    bound, missing_left = np.zeros(LEAVES, np.int64), np.zeros(LEAVES, np.bool_)
    smoothing = CATEGORY_L2 if binned.categorical and size > ONE_HOT else 0.0
    high[0], g[0], h[0], n[0] = size, gradients.sum(), hessians.sum(), counts.sum()
    rest_g[0], rest_h[0] = _rest(gradients, hessians, items, frequent, g[0], h[0])
    leaves, new = 1, 0
    while leaves < LEAVES:
        for k in (new, leaves - 1):
            gradients[frequent], hessians[frequent] = rest_g[k], rest_h[k]
            gain[k] = -1.0
            inside, whole_h = items[low[k] : high[k]], h[k] + 2 * TINY
            if n[k] >= 2 * MIN_DATA_IN_LEAF and binned.categorical:
                gain[k], left_g[k], left_h[k] = _best_categories(
                    gradients, hessians, inside, g[k], whole_h, n[k], to_left
                )
            elif n[k] >= 2 * MIN_DATA_IN_LEAF:
                gain[k], bound[k], missing_left[k], left_g[k], left_h[k] = _best_bound(
                    gradients, hessians, inside, binned, g[k], whole_h, n[k]
                )
            if leaves == 1:
                break
        new = int(np.argmax(gain[:leaves]))
        if gain[new] <= 0:
            break
        right, whole_h = leaves, h[new] + 2 * TINY
        value[new] = -left_g[new] / (left_h[new] + smoothing) * LEARNING_RATE
        value[right] = -(g[new] - left_g[new]) / (whole_h - left_h[new] + smoothing) * LEARNING_RATE
        inside = items[low[new] : high[new]]
        if binned.categorical:
            moved, rows = _to_the_front(inside, to_left, counts)
        else:
            moved, rows = _up_to_the_bound(inside, bound[new], binned.missing, missing_left[new], counts)
        low[right], high[right], high[new] = low[new] + moved, high[new], low[new] + moved
        g[right], h[right], n[right] = g[new] - left_g[new], whole_h - left_h[new] - TINY, n[new] - rows
        g[new], h[new], n[new] = left_g[new], left_h[new] - TINY, rows
        small, large = (new, right) if n[new] < n[right] else (right, new)
        whole_rest_g, whole_rest_h = rest_g[new], rest_h[new]
        inside = items[low[small] : high[small]]
        rest_g[small], rest_h[small] = _rest(gradients, hessians, inside, frequent, g[small], h[small])
        rest_g[large], rest_h[large] = whole_rest_g - rest_g[small], whole_rest_h - rest_h[small]
        leaves += 1
    for k in range(leaves if leaves > 1 else 0):
        for b in items[low[k] : high[k]]:
            output[b] += value[k]
    return leaves > 1


@njit
def _rest(
    gradients: Array, hessians: Array, inside: Array, frequent: int, g: float, h: float
) -> tuple[float, float]:
    """Return what a leaf's other bins leave of its sums for the frequent one."""
    for b in inside:
        if b != frequent:
            g -= gradients[b]
            h -= hessians[b]
    return g, h


@njit
def _to_the_front(inside: Array, to_left: Array, counts: Array) -> tuple[int, int]:
    """Bring a leaf's marked bins to the front, in order; return their number and that of their rows."""
    others = np.empty(len(inside), np.int64)
    moved, left, rows = 0, 0, 0
    for b in inside:
        if to_left[b]:
            inside[moved] = b
            moved += 1
            rows += counts[b]
        else:
            others[left] = b
            left += 1
    inside[moved:] = others[:left]
    return moved, rows


@njit
def _up_to_the_bound(
    inside: Array, bound: int, missing: int, missing_left: bool, counts: Array
) -> tuple[int, int]:
    """Bring a leaf's bins up to a bound, and that of missing values if asked, to the front, in order.

    Returns
    -------
    tuple
        Their number and that of their rows.
    """
    moved, rows = bound + 1 - inside[0], 0
    if missing_left and inside[-1] == missing:
        inside[moved + 1 :] = inside[moved:-1].copy()
        inside[moved] = missing
        moved += 1
    for b in inside[:moved]:
        rows += counts[b]
    return moved, rows


@njit
def _best_bound(
    gradients: Array,
    hessians: Array,
    inside: Array,
    binned: Binned,
    whole_g: float,
    whole_h: float,
    rows: int,
) -> tuple[float, int, bool, float, float]:
    """Find a leaf's best split by value.

    The first best wins, scanned from the right with missing values on the left; then, where the feature has
    any, from the left with missing values on the right. Row counts are estimated from hessians, so the two
    differ in any leaf.

    Parameters
    ----------
    inside
        The leaf's bins, ascending.
    whole_g, whole_h, rows
        The leaf's sums of gradients and hessians, and its number of rows.

    Returns
    -------
    tuple
        Its gain, -1 if there is none; the last bin on the left; whether missing values are there; and the
        sums of gradients and hessians on the left.
    """
    frequent, missing, low = binned.frequent, -1, inside[0]
    both = binned.missing >= 0 and len(gradients) > 2
    if both and inside[-1] == binned.missing:
        missing = binned.missing
    high = low + len(inside) - (missing >= 0)
    if low == high:
        return -1.0, -1, False, 0.0, 0.0
    shift = whole_g * whole_g / whole_h
    per_hessian = rows / whole_h
    best, at, to_left, best_g, best_h = shift, -1, both, 0.0, 0.0
    other_g, other_h, other_n = 0.0, TINY, 0
    if frequent >= high and not (both and frequent == len(gradients) - 1):
        other_g += gradients[frequent]
        other_h += hessians[frequent]
    for b in range(high - 1, max(low - 1, 0) if missing >= 0 else low, -1):
        other_g += gradients[b]
        other_h += hessians[b]
        other_n += int(hessians[b] * per_hessian + 0.5)
        if other_n < MIN_DATA_IN_LEAF or other_h < MIN_HESSIAN:
            continue
        own_h = whole_h - other_h
        if rows - other_n < MIN_DATA_IN_LEAF or own_h < MIN_HESSIAN:
            break
        own_g = whole_g - other_g
        now = own_g * own_g / own_h + other_g * other_g / other_h
        if now > best:
            best, at, best_g, best_h = now, b - 1, own_g, own_h
    gain = best - shift if at >= 0 else -1.0
    if not both:
        return gain, at, to_left, best_g, best_h
    forward, own_g, own_h, own_n, first = max(shift, gain + shift), 0.0, TINY, 0, low
    if frequent == 0:
        own_g, own_h, own_n = whole_g, whole_h - TINY, rows
        for b in range(max(low, 1), high + 1):
            b = b if b < high else missing
            if b >= 0:
                own_g -= gradients[b]
                own_h -= hessians[b]
                own_n -= int(hessians[b] * per_hessian + 0.5)
        first = max(low, 1) - 1
    elif frequent < low:
        own_g += gradients[frequent]
        own_h += hessians[frequent]
    for b in range(first, high):
        if b > first or frequent:
            own_g += gradients[b]
            own_h += hessians[b]
            own_n += int(hessians[b] * per_hessian + 0.5)
        if own_n < MIN_DATA_IN_LEAF or own_h < MIN_HESSIAN:
            continue
        other_h = whole_h - own_h
        if rows - own_n < MIN_DATA_IN_LEAF or other_h < MIN_HESSIAN:
            break
        other_g = whole_g - own_g
        now = own_g * own_g / own_h + other_g * other_g / other_h
        if now > forward:
            forward, at, to_left, best_g, best_h = now, b, False, own_g, own_h
    return (gain if to_left else forward - shift), at, to_left, best_g, best_h


@njit
def _best_categories(
    gradients: Array,
    hessians: Array,
    inside: Array,
    whole_g: float,
    whole_h: float,
    rows: int,
    to_left: Array,
) -> tuple[float, float, float]:
    """Find a leaf's best split into categories and mark those on its left, where the first bin never is.

    Parameters
    ----------
    inside, whole_g, whole_h, rows
        As for a split by value.
    to_left
        Boolean, shape (bins,); changed for the bins of this leaf.

    Returns
    -------
    tuple
        Its gain, -1 if there is none, and the sums of gradients and hessians on the left.
    """
    to_left[inside] = False
    shift, per_hessian = whole_g * whole_g / whole_h, rows / whole_h
    best, best_g, best_h = shift, 0.0, 0.0
    if len(gradients) <= ONE_HOT:
        chosen = -1
        for b in inside:
            n = int(hessians[b] * per_hessian + 0.5)
            other_h = whole_h - hessians[b] - TINY
            if b == 0 or min(n, rows - n) < MIN_DATA_IN_LEAF or min(hessians[b], other_h) < MIN_HESSIAN:
                continue
            own_h, other_g = hessians[b] + TINY, whole_g - gradients[b]
            now = other_g * other_g / other_h + gradients[b] * gradients[b] / own_h
            if now > best:
                best, best_g, best_h, chosen = now, gradients[b], own_h, b
        if chosen >= 0:
            to_left[chosen] = True
        return (best - shift if chosen >= 0 else -1.0), best_g, best_h
    used = inside[(inside > 0) & ((hessians[inside] * per_hessian + 0.5).astype(np.int64) >= CATEGORY_SMOOTH)]
    ranked = used[np.argsort(gradients[used] / (hessians[used] + CATEGORY_SMOOTH), kind="mergesort")]
    most, taken, forward = min(MAX_CATEGORIES, (len(used) + 1) // 2), 0, True
    for direction in (True, False):
        own_g, own_h, own_n, group = 0.0, TINY, 0, 0
        for i in range(most):
            b = ranked[i] if direction else ranked[len(ranked) - 1 - i]
            n = int(hessians[b] * per_hessian + 0.5)
            own_g += gradients[b]
            own_h += hessians[b]
            own_n += n
            group += n
            if own_n < MIN_DATA_IN_LEAF or own_h < MIN_HESSIAN:
                continue
            other_h = whole_h - own_h
            if rows - own_n < MIN_DATA_PER_GROUP or other_h < MIN_HESSIAN:
                break
            if group < MIN_DATA_PER_GROUP:
                continue
            group = 0
            other_g = whole_g - own_g
            now = own_g * own_g / (own_h + CATEGORY_L2) + other_g * other_g / (other_h + CATEGORY_L2)
            if now > best:
                best, best_g, best_h, taken, forward = now, own_g, own_h, i + 1, direction
    for i in range(taken):
        to_left[ranked[i] if forward else ranked[len(ranked) - 1 - i]] = True
    return (best - shift if taken else -1.0), best_g, best_h
