"""Statistics of one feature within the groups of another.

A missing key, and a key without fitted rows, give missing. Statistics have the floating type of the column.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from scopefe.operators import kernels
from scopefe.operators.states import check_labels, check_numbers

from scopefe import CAT, NUM, Keys, Lookup, Ordered, State, operator
from scopefe.components import Array, Column

NAMES = (
    "GroupByThenMin",
    "GroupByThenMax",
    "GroupByThenMean",
    "GroupByThenMedian",
    "GroupByThenStd",
    "GroupByThenRank",
)


class ByGroup:
    """A number per group: state of `labels` and `values`."""

    def apply(self, state: State, values: Column, keys: Keys) -> Array:
        """Look the groups up."""
        return np.append(state["values"], np.nan)[keys.coded_as(state["labels"])]

    def check(self, state: State) -> None:
        """Hold one number per label."""
        check_labels(state["labels"])
        check_numbers("values", state["values"], rows=len(state["labels"]))

    def lookup(self, state: State) -> Lookup:
        """Give the numbers by group."""
        return Lookup({1: state["labels"]}, state["values"])


class _Statistic(ByGroup, ABC):
    @abstractmethod
    def statistic(self, values: Array, keys: Keys) -> Array:
        """Return one number per label."""

    def fit(self, values: Array, keys: Keys) -> State:
        """Compute the statistic of every group."""
        return {"labels": keys.labels, "values": self.statistic(values, keys)}


@operator(
    "GroupByThenMin",
    takes=(NUM, CAT),
    words="Smallest {0} among the fitted rows with the same {1}",
    latex=r"\operatorname{{min}}({0} \mid {1})",
)
class GroupMin(_Statistic):
    """Smallest value in the row's group."""

    def statistic(self, values: Array, keys: Keys) -> Array:
        return kernels.group_extremes(values, keys.codes, keys.size, False)


@operator(
    "GroupByThenMax",
    takes=(NUM, CAT),
    words="Largest {0} among the fitted rows with the same {1}",
    latex=r"\operatorname{{max}}({0} \mid {1})",
)
class GroupMax(_Statistic):
    """Largest value in the row's group."""

    def statistic(self, values: Array, keys: Keys) -> Array:
        return kernels.group_extremes(values, keys.codes, keys.size, True)


@operator(
    "GroupByThenMean",
    takes=(NUM, CAT),
    words="Mean of {0} among the fitted rows with the same {1}",
    latex=r"\operatorname{{mean}}({0} \mid {1})",
)
class GroupMean(_Statistic):
    """Mean of the row's group."""

    def statistic(self, values: Array, keys: Keys) -> Array:
        return kernels.group_means(values, keys.codes, keys.size)


@operator(
    "GroupByThenMedian",
    takes=(NUM, CAT),
    ordered=True,
    words="Median of {0} among the fitted rows with the same {1}",
    latex=r"\operatorname{{median}}({0} \mid {1})",
)
class GroupMedian(ByGroup):
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


@operator(
    "GroupByThenStd",
    takes=(NUM, CAT),
    words="Standard deviation of {0} among the fitted rows with the same {1}",
    latex=r"\operatorname{{std}}({0} \mid {1})",
)
class GroupStd(_Statistic):
    """Sample standard deviation (n - 1) of the row's group."""

    def statistic(self, values: Array, keys: Keys) -> Array:
        return kernels.group_deviations(values, keys.codes, keys.size)


@operator(
    "GroupByThenRank",
    takes=(NUM, CAT),
    ordered=True,
    words="Percentile rank of {0} among the fitted rows with the same {1}",
    latex=r"\operatorname{{rank}}({0} \mid {1})",
)
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

    def check(self, state: State) -> None:
        """Hold where each label's values start, and these."""
        check_labels(state["labels"])
        starts, values = state["starts"], state["values"]
        check_numbers("starts", starts, rows=len(state["labels"]) + 1, whole=True, least=0)
        check_numbers("values", values, rows=int(starts[-1]))
        if starts[0] != 0 or (np.diff(starts) < 0).any():
            raise ValueError("starts do not ascend from 0")
        if (np.diff(values)[~np.isin(np.arange(1, len(values)), starts)] < 0).any():
            raise ValueError("values do not ascend within a group")

    def lookup(self, state: State) -> Lookup:
        """Give the ranks of the distinct values of each group, and of what is below and between them."""
        starts, fitted = state["starts"], state["values"].astype(np.float64)
        sizes = np.diff(starts)
        groups = np.repeat(np.arange(len(sizes)), sizes)
        first = np.flatnonzero(_changes(groups) | _changes(fitted))
        group, n = groups[first], sizes[groups[first]]
        less, equal = first - starts[group], np.diff(np.append(first, len(fitted)))
        start = first[(less == 0) & (fitted[first] > -np.inf)]
        below = 0.5 / sizes[groups[start]]
        order = np.argsort(np.append(groups[start], group), kind="stable")
        return Lookup(
            {1: state["labels"][np.append(groups[start], group)[order]]},
            np.minimum(1, np.append(below, (less + (equal + 1) / 2) / n))[order],
            lower=(0, np.append(np.full(len(start), -np.inf), fitted[first])[order]),
            between=np.minimum(1, np.append(below, (less + equal + 0.5) / n))[order],
        )


def _changes(values: Array) -> Array:
    """Boolean: where a value is not the one before; the first is none."""
    return np.append(True, values[1:] != values[:-1])[: len(values)]
