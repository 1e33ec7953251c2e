"""Statistics of one feature within the groups of another.

A missing key, and a key without fitted rows, give missing. Statistics have the floating type of the column.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pandas as pd

from scopefe import CAT, NUM, Keys, State, operator
from scopefe.components import Array

NAMES = (
    "GroupByThenMin",
    "GroupByThenMax",
    "GroupByThenMean",
    "GroupByThenMedian",
    "GroupByThenStd",
    "GroupByThenRank",
)


class _Statistic:
    statistic: str

    def fit(self, values: Array, keys: Keys) -> State:
        """Compute the statistic of every group."""
        grouped = pd.Series(values).groupby(keys.codes, sort=True)
        result = cast("pd.Series[Any]", getattr(grouped, self.statistic)())
        return {"labels": keys.labels, "values": result.reindex(np.arange(keys.size)).to_numpy()}

    def apply(self, state: State, values: Array, keys: Keys) -> Array:
        """Look the groups up."""
        return np.append(state["values"], np.nan)[keys.coded_as(state["labels"])]


@operator("GroupByThenMin", takes=(NUM, CAT))
class GroupMin(_Statistic):
    """Smallest value in the row's group."""

    statistic = "min"


@operator("GroupByThenMax", takes=(NUM, CAT))
class GroupMax(_Statistic):
    """Largest value in the row's group."""

    statistic = "max"


@operator("GroupByThenMean", takes=(NUM, CAT))
class GroupMean(_Statistic):
    """Mean of the row's group."""

    statistic = "mean"


@operator("GroupByThenMedian", takes=(NUM, CAT))
class GroupMedian(_Statistic):
    """Median of the row's group."""

    statistic = "median"


@operator("GroupByThenStd", takes=(NUM, CAT))
class GroupStd(_Statistic):
    """Sample standard deviation (n - 1) of the row's group."""

    statistic = "std"


@operator("GroupByThenRank", takes=(NUM, CAT))
class GroupRank:
    """Percentile rank of the value among the n fitted values of its group.

    With `less` of them below and `eq` equal: (less + (eq + 1) / 2) / n, or min(1, (less + 1/2) / n) for a
    value that was not fitted.
    """

    def fit(self, values: Array, keys: Keys) -> State:
        """Keep the sorted values of every group."""
        rows = np.flatnonzero(~np.isnan(values) & ~keys.missing)
        order = np.argsort(values[rows], kind="stable")
        rows = rows[order[np.argsort(keys.codes[rows][order], kind="stable")]]
        counts = np.bincount(keys.codes[rows], minlength=keys.size)
        starts = np.concatenate([[0], np.cumsum(counts)])
        return {"labels": keys.labels, "starts": starts, "values": values[rows]}

    def apply(self, state: State, values: Array, keys: Keys) -> Array:
        """Find the place of every value in its group."""
        result = np.full(len(values), np.nan)
        codes = keys.coded_as(state["labels"])
        sizes = np.diff(state["starts"])
        rows = np.flatnonzero((codes >= 0) & ~np.isnan(values))
        rows = rows[sizes[codes[rows]] > 0]
        if not len(rows):
            return result
        groups, n = codes[rows], sizes[codes[rows]]
        distinct, places = np.unique(state["values"], return_inverse=True)
        step = len(distinct) + 1
        fitted = np.repeat(np.arange(len(sizes)), sizes) * step + places

        def below(side: Any) -> Array:
            wanted = groups * step + np.searchsorted(distinct, values[rows], side=side)
            return np.searchsorted(fitted, wanted) - state["starts"][groups]

        less = below("left")
        equal = below("right") - less
        result[rows] = np.where(equal > 0, (less + (equal + 1) / 2) / n, np.minimum(1, (less + 0.5) / n))
        return result
