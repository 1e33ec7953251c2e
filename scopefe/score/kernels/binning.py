"""Bins of one feature, as LightGBM makes them, from the training values alone."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from scopefe.components import Array
from scopefe.jit import njit

MAX_BINS = 255
MIN_DATA_IN_BIN = 3
MIN_DATA_IN_LEAF = 20
ZERO = float(np.float32(1e-35))
SPARSE = 0.7
SAMPLE = 200_000
PADDED = 256
BLOCK = 512
DIGIT, DIGITS = 11, 6
SIGN = np.uint64(1 << 63)


class Binned(NamedTuple):
    """A feature's rows in bins.

    Parameters
    ----------
    bins
        uint16, shape (rows,).
    fitted
        Number of rows, from the front, that models are fitted on.
    size
        Number of bins; 1 where no split is possible; 0 where only LightGBM can tell: the side of a zero bin
        without fitted rows, but with measured ones, depends on its rounding.
    missing
        The bin of missing values, which is the last; -1 if the values that bins are made from have none.
    frequent
        The bin that LightGBM takes for the most frequent one.
    categorical
        Whether bins are categories; then the first is that of all the rare ones.
    """

    bins: Array
    fitted: int
    size: int
    missing: int
    frequent: int
    categorical: bool


@lru_cache(maxsize=8)
def sampled_rows(rows: int) -> Array | None:
    """Return the row positions that LightGBM makes bins from; None for all.

    Above 200,000 rows LightGBM draws from a linear congruential generator; this is that of seed 1.
    """
    return None if rows <= SAMPLE else _draw(rows, SAMPLE)


@njit
def _draw(rows: int, size: int) -> Array:
    state = np.uint32(41)
    factor, increment = np.uint32(214013), np.uint32(2531011)
    drawn = np.empty(size, np.int64)
    if size > rows / np.log2(size):
        n = 0
        for i in range(rows):
            state = np.uint32(factor * state + increment)
            number = np.float32((state >> np.uint32(16)) & np.uint32(0x7FFF)) / np.float32(32768)
            if number < (size - n) / (rows - i):
                drawn[n] = i
                n += 1
        return drawn[:n]
    taken = np.zeros(rows, np.bool_)
    for row in range(rows - size, rows):
        state = np.uint32(factor * state + increment)
        chosen = np.int64(state & np.uint32(0x7FFFFFFF)) % (row + 1)
        taken[row if taken[chosen] else chosen] = True
    return np.flatnonzero(taken)


@njit
def ascending(values: Array) -> Array:
    """Return the float64 values that are not missing in ascending order (radix sort of their bits)."""
    keys, n = np.empty(len(values), np.uint64), 0
    floats = keys.view(np.float64)
    counts, mask = np.zeros((DIGITS, 1 << DIGIT), np.int64), np.uint64((1 << DIGIT) - 1)
    for value in values:
        if value == value:
            floats[n] = value
            key = ~keys[n] if keys[n] & SIGN else keys[n] | SIGN
            keys[n] = key
            n += 1
            for digit in range(DIGITS):
                counts[digit, (key >> np.uint64(digit * DIGIT)) & mask] += 1
    keys, other = keys[:n], np.empty(n, np.uint64)
    for digit in range(DIGITS):
        shift, places = np.uint64(digit * DIGIT), counts[digit]
        if n == 0 or places[(keys[0] >> shift) & mask] == n:
            continue
        first = 0
        for d in range(len(places)):
            first, places[d] = first + places[d], first
        for key in keys:
            place = (key >> shift) & mask
            other[places[place]] = key
            places[place] += 1
        keys, other = other, keys
    for i in range(n):
        keys[i] = keys[i] ^ SIGN if keys[i] & SIGN else ~keys[i]
    return keys.view(np.float64)


@njit
def _same(low: float, high: float) -> bool:
    return bool(high <= np.nextafter(low, np.inf))


@njit
def _between(low: float, high: float) -> float:
    return float(np.nextafter((low + high) / 2.0, np.inf))


@njit
def _side(distinct: Array, counts: Array, bins: int, total: int, bounds: Array) -> int:
    """Write the upper bounds of the bins of one sign's values, the last infinite; return their number."""
    n, made = len(distinct), 0
    if n <= bins:
        inside = 0
        for i in range(n - 1):
            inside += counts[i]
            if inside >= MIN_DATA_IN_BIN:
                bound = _between(distinct[i], distinct[i + 1])
                if made == 0 or not _same(bounds[made - 1], bound):
                    bounds[made] = bound
                    made += 1
                    inside = 0
        bounds[made] = np.inf
        return made + 1
    bins = max(min(bins, total // MIN_DATA_IN_BIN), 1)
    mean = total / bins
    big = counts >= mean
    rest, rows = bins, total
    for i in range(n):
        if big[i]:
            rest -= 1
            rows -= counts[i]
    mean = np.float64(rows) / np.float64(rest)
    inside, closed = 0, 0
    for i in range(n - 1):
        if not big[i]:
            rows -= counts[i]
        inside += counts[i]
        half = mean * 0.5 if mean * 0.5 > 1.0 else 1.0
        if big[i] or inside >= mean or (big[i + 1] and inside >= half):
            bound = _between(distinct[i], distinct[i + 1])
            if made == 0 or not _same(bounds[made - 1], bound):
                bounds[made] = bound
                made += 1
            closed += 1
            if closed >= bins - 1:
                break
            inside = 0
            if not big[i]:
                rest -= 1
                mean = np.float64(rows) / np.float64(rest)
    bounds[made] = np.inf
    return made + 1


@njit
def _distinct(ordered: Array) -> tuple[Array, Array]:
    """Return distinct values, those within one ulp being one and tiny ones zero, with their counts."""
    distinct = np.empty(len(ordered))
    counts = np.empty(len(ordered), np.int64)
    n = 0
    for value in ordered:
        x = 0.0 if abs(value) <= ZERO else value
        last = distinct[n - 1] if n else -np.inf
        if n and not x - last > abs(last) * 4e-16 and _same(last, x):  # infinities differ by NaN
            distinct[n - 1] = x
            counts[n - 1] += 1
        else:
            distinct[n] = x
            counts[n] = 1
            n += 1
    return distinct[:n], counts[:n]


@njit
def _bounds(distinct: Array, counts: Array, bins: int) -> Array:
    """Return the upper bounds of the bins of the values that are not missing, the last infinite."""
    negative = np.searchsorted(distinct, -ZERO, side="right")
    positive = np.searchsorted(distinct, ZERO, side="right")
    below, above = counts[:negative].sum(), counts[positive:].sum()
    bounds = np.empty(MAX_BINS + 2)
    made = 0
    if negative > 0 and bins > 1:
        share = int(below / (below + above) * (bins - 1))
        made = _side(distinct[:negative], counts[:negative], max(1, share), below, bounds)
        bounds[made - 1] = -ZERO
    left = bins - 1 - made
    if positive < len(distinct) and left > 0:
        bounds[made] = ZERO
        made += 1
        made += _side(distinct[positive:], counts[positive:], left, above, bounds[made:])
    else:
        bounds[made] = np.inf
        made += 1
    return bounds[:made]


@njit
def _place(values: Array, bounds: Array, missing: int, bins: Array) -> None:
    """Write the bin of every value: the first whose upper bound it does not exceed; `missing` for NaN."""
    padded = np.full(PADDED, np.inf)
    padded[: len(bounds)] = bounds
    at = np.empty(BLOCK, np.uint32)
    for first in range(0, len(values), BLOCK):
        part, to = values[first : first + BLOCK], bins[first : first + BLOCK]
        at[:] = 0
        step = np.uint32(PADDED // 2)
        while step:
            last = step - np.uint32(1)
            for i in range(len(part)):
                at[i] += np.uint32(0) if part[i] <= padded[at[i] + last] else step
            step //= np.uint32(2)
        for i in range(len(part)):
            to[i] = missing if part[i] != part[i] else at[i]


@njit
def bin_rows(values: Array, fitted: int, sample: Array) -> Binned:
    """Bin a feature's rows.

    Parameters
    ----------
    values
        float64, shape (rows,).
    fitted
        Number of rows, from the front, that models are fitted on.
    sample
        The fitted values that bins are made from.
    """
    ordered = ascending(sample)
    absent = len(sample) - len(ordered)
    distinct, counts = _distinct(ordered)
    if not len(distinct):
        distinct, counts = np.zeros(1), np.zeros(1, np.int64)
    bounds = _bounds(distinct, counts, MAX_BINS - 1 if absent else MAX_BINS)
    ordinary = len(bounds)
    size = ordinary + (1 if absent else 0)
    bins = np.zeros(len(values), np.uint16)
    sizes = np.zeros(size, np.int64)
    place = 0
    for i in range(len(distinct)):
        while distinct[i] > bounds[place] and place < size - 1:
            place += 1
        sizes[place] += counts[i]
    if absent:
        sizes[size - 1] = absent
    if size < 2 or _useless(sizes, len(sample), fitted):
        return Binned(bins, fitted, 1, -1, 0, False)
    zero = int(np.searchsorted(bounds, 0.0))
    _place(values, bounds, ordinary if absent else zero, bins)
    most = int(np.argmax(sizes))
    if sizes[most] / len(sample) < SPARSE:
        most = zero
        if 0 < zero < ordinary - 1 and sizes[zero] == 0 and (bins[fitted:] == zero).any():
            size = 0
    return Binned(bins, fitted, size, ordinary if absent else -1, most, False)


@njit
def _useless(sizes: Array, sample: int, rows: int) -> bool:
    """Whether no bound leaves enough rows on both sides, so that LightGBM leaves the feature out."""
    least = int(MIN_DATA_IN_LEAF * sample / rows)
    left = 0
    for i in range(len(sizes) - 1):
        left += sizes[i]
        if left >= least and sample - left >= least:
            return False
    return True


@njit
def bin_categories(codes: Array, fitted: int, sample: Array) -> Binned:
    """Bin a categorical feature's rows: one bin for each category but the rare ones, in order of frequency.

    Parameters
    ----------
    codes
        int64, shape (rows,): categories from 0.
    fitted
        Number of rows, from the front, that models are fitted on.
    sample
        The fitted codes that bins are made from.
    """
    counts = np.zeros(codes.max() + 1, np.int64)
    for code in sample:
        counts[code] += 1
    distinct = np.flatnonzero(counts)
    ranked = distinct[np.argsort(-counts[distinct], kind="mergesort")]
    enough = int(np.float32(len(sample)) * np.float32(0.99) + 0.5)
    bin_of = np.zeros(len(counts), np.uint16)
    size, used = 1, 0
    for place, code in enumerate(ranked):
        full = used >= enough and size >= min(len(ranked), MAX_BINS)
        if full or (counts[code] < MIN_DATA_IN_BIN and place > 1):
            break
        bin_of[code] = size
        used += counts[code]
        size += 1
    bins = np.empty(len(codes), np.uint16)
    for i in range(len(codes)):
        bins[i] = bin_of[codes[i]]
    sizes = np.zeros(size, np.int64)
    sizes[0] = len(sample) - used
    for place in range(size - 1):
        sizes[place + 1] = counts[ranked[place]]
    if size <= 2 and _useless(sizes, len(sample), fitted):
        return Binned(np.zeros(len(codes), np.uint16), fitted, 1, -1, 0, True)
    most = int(np.argmax(sizes))
    if sizes[most] / len(sample) < SPARSE:
        most = int(bin_of[0])
    return Binned(bins, fitted, size, -1, most, True)
