"""Closed-form numbering of the feature tuples an operator takes.

A layout orders the inputs of one signature without listing them; number ↔ (left, right) is arithmetic, so a
universe of any size can be counted and addressed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from scopefe.components import Array
from scopefe.space.pairs import PairSet


class Layout(ABC):
    """An ordering of feature tuples."""

    size: int

    @abstractmethod
    def features(self, local: Array) -> tuple[Array, Array]:
        """Return the left and right features of these numbers; right is -1 for single features."""

    @abstractmethod
    def locate(self, left: Array, right: Array) -> Array:
        """Return the numbers of these features; -1 for tuples the layout does not hold."""

    @abstractmethod
    def count(self, pairs: PairSet) -> int:
        """Return how many tuples a pair set admits."""

    @abstractmethod
    def members(self, pairs: PairSet) -> Array:
        """Return the numbers of the tuples a pair set admits, ascending."""


class Singles(Layout):
    """One feature after another; pair sets never restrict them."""

    def __init__(self, items: Array) -> None:
        self.items = items
        self.size = len(items)

    def features(self, local: Array) -> tuple[Array, Array]:
        return self.items[local], np.full(len(local), -1, dtype=np.int64)

    def locate(self, left: Array, right: Array) -> Array:
        order = np.argsort(self.items, kind="stable")
        at = np.searchsorted(self.items[order], left)
        found = order[np.minimum(at, self.size - 1)] if self.size else np.zeros(len(left), dtype=np.int64)
        known = self.items[found] == left if self.size else np.zeros(len(left), dtype=bool)
        return np.where(known & (right == -1), found, -1)

    def count(self, pairs: PairSet) -> int:
        return self.size

    def members(self, pairs: PairSet) -> Array:
        return np.arange(self.size)


class Pairs(Layout):
    """Pairs of one list, the first feature varying slowest.

    Parameters
    ----------
    items
        int64: features of the list.
    ordered
        Both (a, b) and (b, a); otherwise each unordered pair once, in list order.
    """

    def __init__(self, items: Array, *, ordered: bool) -> None:
        self.items = items
        self.ordered = ordered
        n = len(items)
        self.size = n * (n - 1) if ordered else n * (n - 1) // 2

    def features(self, local: Array) -> tuple[Array, Array]:
        n = len(self.items)
        local = np.asarray(local, dtype=np.int64)
        if self.ordered:
            first, rest = np.divmod(local, max(n - 1, 1))
            second = rest + (rest >= first)
        else:
            first = np.floor(n - 0.5 - np.sqrt(np.maximum((n - 0.5) ** 2 - 2.0 * local, 0))).astype(np.int64)
            first -= self._start(first) > local
            first += self._start(first + 1) <= local
            second = local - self._start(first) + first + 1
        return self.items[first], self.items[second]

    def _start(self, first: Array) -> Array:
        n = len(self.items)
        start: Array = first * n - first * (first + 1) // 2
        return start

    def _number(self, first: Array, second: Array) -> Array:
        if self.ordered:
            number: Array = first * (len(self.items) - 1) + second - (second > first)
        else:
            number = self._start(first) + second - first - 1
        return number

    def locate(self, left: Array, right: Array) -> Array:
        first, second = positions(self.items, left), positions(self.items, right)
        known = (first >= 0) & (second >= 0) & (first != second)
        if not self.ordered:
            first, second = np.minimum(first, second), np.maximum(first, second)
        return np.where(known, self._number(first, second), -1)

    def count(self, pairs: PairSet) -> int:
        inside = int(pairs.matrix[np.ix_(self.items, self.items)].sum())
        return inside if self.ordered else inside // 2

    def members(self, pairs: PairSet) -> Array:
        inside = pairs.matrix[np.ix_(self.items, self.items)]
        first, second = np.nonzero(inside if self.ordered else np.triu(inside))
        return self._number(first, second)


class Grid(Layout):
    """A feature of one list with a feature of another, never with itself; the first varies slowest."""

    def __init__(self, left: Array, right: Array) -> None:
        self.left = left
        self.right = right
        own = positions(right, left)
        self._own = np.where(own >= 0, own, len(right))
        self._starts = np.concatenate([[0], np.cumsum(len(right) - (own >= 0))]).astype(np.int64)
        self.size = int(self._starts[-1])

    def features(self, local: Array) -> tuple[Array, Array]:
        row = np.searchsorted(self._starts, local, side="right") - 1
        place = local - self._starts[row]
        return self.left[row], self.right[place + (place >= self._own[row])]

    def _number(self, row: Array, place: Array) -> Array:
        number: Array = self._starts[row] + place - (place > self._own[row])
        return number

    def locate(self, left: Array, right: Array) -> Array:
        row, place = positions(self.left, left), positions(self.right, right)
        known = (row >= 0) & (place >= 0) & (np.asarray(left) != np.asarray(right))
        result = np.full(len(row), -1, dtype=np.int64)
        result[known] = self._number(row[known], place[known])
        return result

    def count(self, pairs: PairSet) -> int:
        return int(pairs.matrix[np.ix_(self.left, self.right)].sum())

    def members(self, pairs: PairSet) -> Array:
        row, place = np.nonzero(pairs.matrix[np.ix_(self.left, self.right)])
        return self._number(row, place)


def positions(items: Array, wanted: Array) -> Array:
    """Return the position in `items` of each wanted value, -1 where it is absent."""
    wanted = np.asarray(wanted, dtype=np.int64)
    if not len(items):
        return np.full(wanted.shape, -1, dtype=np.int64)
    table = np.full(int(max(items.max(), wanted.max(initial=0))) + 2, -1, dtype=np.int64)
    table[items] = np.arange(len(items))
    return table[wanted]
