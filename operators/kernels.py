"""Compiled loops over rows.

Each is compiled, for the types that occur, and kept on disk; it runs without the interpreter lock. A process
that has not loaded numba interprets it for as long as that takes less time: a single row, and the next ones.
Values may be float32 or float64, codes are int64 and -1 where the key is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from threading import Lock
from typing import Any, TypeVar, cast

import numpy as np

from scopefe.components import Array
from scopefe.jit import njit

F = TypeVar("F", bound=Callable[..., Any])

VALUES = tuple(f"Array({kind}, 1, 'A', readonly=True)" for kind in ("float32", "float64"))
DOUBLES = VALUES[1]
CODES = "Array(int64, 1, 'A', readonly=True)"

FEW = 100_000
"""Elements of arguments that a kernel is interpreted for, in all its calls, before it is compiled."""

_compiling = Lock()


def kernel(*signatures: str) -> Callable[[F], F]:
    """Compile a function for these argument types, unless it is called for a few elements only."""

    def decorate(function: F) -> F:
        compiled: list[Callable[..., Any]] = []
        seen = 0

        @wraps(function)
        def call(*arguments: Any) -> Any:
            nonlocal seen
            if not compiled:
                seen += sum(map(np.size, arguments))
                if seen <= FEW and "numba" not in sys.modules:
                    with np.errstate(all="ignore"):
                        return function(*arguments)
                with _compiling:
                    compiled.append(njit(function, signatures))
            return compiled[0](*arguments)

        return cast(F, call)

    return decorate


@kernel(*(f"({v}, {CODES}, int64, boolean)" for v in VALUES))
def group_extremes(values: Array, codes: Array, size: int, largest: bool) -> Array:
    """Return the largest or smallest value of each of `size` groups, NaN where there is none."""
    result = np.full(size, np.nan, dtype=values.dtype)
    for row in range(len(codes)):
        code, value = codes[row], values[row]
        if code < 0 or value != value:
            continue
        kept = result[code]
        if kept != kept or (value > kept if largest else value < kept):
            result[code] = value
    return result


@kernel(*(f"({v}, {CODES}, int64)" for v in VALUES))
def group_means(values: Array, codes: Array, size: int) -> Array:
    """Return the mean of each of `size` groups, NaN where there is none; sums are compensated (Kahan)."""
    counts = np.zeros(size, dtype=np.int64)
    sums = np.zeros(size, dtype=values.dtype)
    errors = np.zeros(size, dtype=values.dtype)
    for row in range(len(codes)):
        code, value = codes[row], values[row]
        if code < 0 or value != value:
            continue
        counts[code] += 1
        term = value - errors[code]
        total = sums[code] + term
        error = total - sums[code] - term
        errors[code] = error if error == error else values.dtype.type(0)
        sums[code] = total
    for code in range(size):
        sums[code] = sums[code] / values.dtype.type(counts[code])
    return sums


@kernel(*(f"({v}, {CODES}, int64)" for v in VALUES))
def group_deviations(values: Array, codes: Array, size: int) -> Array:
    """Return the sample standard deviation of each of `size` groups, NaN below two values (Welford)."""
    counts = np.zeros(size, dtype=np.int64)
    means = np.zeros(size, dtype=np.float64)
    squares = np.zeros(size, dtype=np.float64)
    for row in range(len(codes)):
        code, value = codes[row], np.float64(values[row])
        if code < 0 or value != value:
            continue
        counts[code] += 1
        distance = value - means[code]
        means[code] += distance / counts[code]
        squares[code] += (value - means[code]) * distance
    result = np.full(size, np.nan, dtype=values.dtype)
    for code in range(size):
        if counts[code] > 1:
            result[code] = np.sqrt(squares[code] / (counts[code] - 1))
    return result


@kernel(*(f"({v}, {CODES}, {CODES}, int64)" for v in VALUES))
def group_sorted(values: Array, order: Array, codes: Array, size: int) -> tuple[Array, Array]:
    """Return where each of `size` groups starts, and their values, ascending, one group after the other."""
    starts = np.zeros(size + 1, dtype=np.int64)
    for row in range(len(codes)):
        if codes[row] >= 0 and values[row] == values[row]:
            starts[codes[row] + 1] += 1
    for code in range(size):
        starts[code + 1] += starts[code]
    ends = starts[:-1].copy()
    result = np.empty(starts[size], dtype=values.dtype)
    for row in order:
        code, value = codes[row], values[row]
        if value != value:
            break
        if code >= 0:
            result[ends[code]] = value
            ends[code] += 1
    return starts, result


@kernel(f"({DOUBLES}, {CODES}, {CODES}, {CODES}, {DOUBLES})")
def group_ranks(values: Array, order: Array, codes: Array, starts: Array, fitted: Array) -> Array:
    """Return the percentile rank of values among the fitted ones of their groups, which `group_sorted` gives.

    Both are ascending, so that each is gone through once.
    """
    result = np.full(len(values), np.nan)
    lower, upper = starts[:-1].copy(), starts[:-1].copy()
    for row in order:
        code, value = codes[row], values[row]
        if value != value:
            break
        if code < 0 or starts[code] == starts[code + 1]:
            continue
        first, end, high = starts[code], starts[code + 1], upper[code]
        low = lower[code] if high > first and fitted[high - 1] == value else high
        while low < end and fitted[low] < value:
            low += 1
        high = max(low, high)
        while high < end and fitted[high] == value:
            high += 1
        lower[code], upper[code] = low, high
        less, equal, n = low - first, high - low, end - first
        result[row] = (less + (equal + 1) / 2) / n if equal else min(1.0, (less + 0.5) / n)
    return result


@kernel(f"({CODES}, {CODES}, int64, int64, {CODES}, boolean)")
def number_pairs(
    left: Array, right: Array, height: int, width: int, known: Array, learn: bool
) -> tuple[Array, Array]:
    """Number pairs of codes by first appearance.

    Parameters
    ----------
    left, right
        Codes below `height` and `width`.
    known
        The pairs that have numbers already, as ``left * width + right``.
    learn
        Whether a pair that is not known gets the next number, or -1.

    Returns
    -------
    tuple
        The number of each row's pair, -1 where a member is missing; and all pairs in the order of numbers.
    """
    most = len(known) + (len(left) if learn else 0)
    # Slots find the number of a pair: one for each possible pair where that is few, a hash table elsewhere.
    factor, shift, room = np.uint64(1), np.uint64(0), height * width
    if height > 0 and width > (4 * most + 1024) // height:
        bits = 1
        while (1 << bits) < 2 * most:
            bits += 1
        factor, shift, room = np.uint64(0x9E3779B97F4A7C15), np.uint64(64 - bits), 1 << bits
    slots = np.full(room, -1, dtype=np.int64)
    pairs = np.empty(most, dtype=np.int64)
    numbers = np.empty(len(left), dtype=np.int64)
    found = 0
    for position in range(-len(known), len(left)):
        if position < 0:
            pair = known[position + len(known)]
        elif left[position] < 0 or right[position] < 0:
            numbers[position] = -1
            continue
        else:
            pair = left[position] * width + right[position]
        slot = np.int64((np.uint64(pair) * factor) >> shift)
        while slots[slot] >= 0 and pairs[slots[slot]] != pair:
            slot = np.int64(slot + 1 if slot + 1 < room else 0)
        if slots[slot] < 0 and (learn or position < 0):
            slots[slot], pairs[found] = found, pair
            found += 1
        if position >= 0:
            numbers[position] = slots[slot]
    return numbers, pairs[:found]
