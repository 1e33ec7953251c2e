"""Statistics of one feature within the groups of another.

A missing key, and a key without fitted rows, give missing. Statistics have the floating type of the column.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scopefe.operators import kernels

from scopefe import CAT, NUM, Keys, Ordered, State, operator
from scopefe.components import Array

NAMES = (
    "GroupByThenMin",
    "GroupByThenMax",
    "GroupByThenMean",
    "GroupByThenMedian",
    "GroupByThenStd",
    "GroupByThenRank",
)


class _Statistic(ABC):
    @abstractmethod
    def statistic(self, values: Array, keys: Keys) -> Array:
        """Return one number per label."""

    def fit(self, values: Array, keys: Keys) -> State:
        """Compute the statistic of every group."""
        return {"labels": keys.labels, "values": self.statistic(values, keys)}

    def apply(self, state: State, values: Array, keys: Keys) -> Array:
        """Look the groups up."""
        return np.append(state["values"], np.nan)[keys.coded_as(state["labels"])]


@operator("GroupByThenMin", takes=(NUM, CAT))
class GroupMin(_Statistic):
    """Smallest value in the row's group."""

    def statistic(self, values: Array, keys: Keys) -> Array:
        return kernels.group_extremes(values, keys.codes, keys.size, False)


@operator("GroupByThenMax", takes=(NUM, CAT))
class GroupMax(_Statistic):
    """Largest value in the row's group."""

    def statistic(self, values: Array, keys: Keys) -> Array:
        return kernels.group_extremes(values, keys.codes, keys.size, True)


@operator("GroupByThenMean", takes=(NUM, CAT))
class GroupMean(_Statistic):
    """Mean of the row's group."""

    def statistic(self, values: Array, keys: Keys) -> Array:
        return kernels.group_means(values, keys.codes, keys.size)


@operator("GroupByThenMedian", takes=(NUM, CAT), ordered=True)
class GroupMedian:
    """Median of the row's group."""

    def fit(self, values: Ordered, keys: Keys) -> State:
        """Take the middle of every group's sorted values."""
        starts, ascending = kernels.group_sorted(values.values, values.order, keys.codes, keys.size)
        counts = np.diff(starts)
        medians = np.full(keys.size, np.nan, dtype=ascending.dtype)
        some = counts > 0
        first, counts = starts[:-1][some], counts[some]
        low, high = ascending[first + (counts - 1) // 2], ascending[first + counts // 2]
        medians[some] = np.where(low == high, low, (low.astype(np.float64) + high) / 2)
        return {"labels": keys.labels, "values": medians}

    def apply(self, state: State, values: Ordered, keys: Keys) -> Array:
        """Look the groups up."""
        return np.append(state["values"], np.nan)[keys.coded_as(state["labels"])]


@operator("GroupByThenStd", takes=(NUM, CAT))
class GroupStd(_Statistic):
    """Sample standard deviation (n - 1) of the row's group."""

    def statistic(self, values: Array, keys: Keys) -> Array:
        return kernels.group_deviations(values, keys.codes, keys.size)


@operator("GroupByThenRank", takes=(NUM, CAT), ordered=True)
class GroupRank:
    """Percentile rank of the value among the n fitted values of its group.

    With `less` of them below and `eq` equal: (less + (eq + 1) / 2) / n, or min(1, (less + 1/2) / n) for a
    value that was not fitted.
    """

    def fit(self, values: Ordered, keys: Keys) -> State:
        """Keep the sorted values of every group."""
        starts, ascending = kernels.group_sorted(values.values, values.order, keys.codes, keys.size)
        return {"labels": keys.labels, "starts": starts, "values": ascending}

    def apply(self, state: State, values: Ordered, keys: Keys) -> Array:
        """Find the place of every value in its group."""
        codes = keys.coded_as(state["labels"])
        double, fitted = (v.astype(np.float64, copy=False) for v in (values.values, state["values"]))
        return kernels.group_ranks(double, values.order, codes, state["starts"], fitted)
