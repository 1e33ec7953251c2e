"""Two features read together as one category.

A pair is a pair of codes, so texts that contain the separator of a formula never collide. A pair with a
missing member is missing.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from scopefe import CAT, Keys, State, operator
from scopefe.components import Array

NAMES = ("CombineThenFreq", "GroupByThenNUnique", "Combine")


def _pairs(left: Array, right: Array, width: int) -> Array:
    """int64: one number per pair of codes, -1 where either is missing."""
    return np.where((left < 0) | (right < 0), -1, left * width + right)


class _Pairs:
    def fit(self, left: Keys, right: Keys) -> State:
        """Number the pairs by first appearance, and count them."""
        pairs = _pairs(left.codes, right.codes, right.size)
        numbers, distinct = pd.factorize(pairs[pairs >= 0])
        return {
            "left_labels": left.labels,
            "right_labels": right.labels,
            "left": distinct // max(right.size, 1),
            "right": distinct % max(right.size, 1),
            "counts": np.bincount(numbers, minlength=len(distinct)),
        }

    def numbers(self, state: State, left: Keys, right: Keys) -> tuple[Array, Array]:
        """Return the number of each row's pair, -1 if it was not fitted, and where a member is missing."""
        width = len(state["right_labels"])
        known = pd.Index(_pairs(state["left"], state["right"], width))
        wanted = _pairs(left.coded_as(state["left_labels"]), right.coded_as(state["right_labels"]), width)
        numbers = known.get_indexer(pd.Index(wanted)) if len(known) else np.full(len(wanted), -1)
        return np.where(wanted < 0, -1, numbers), left.missing | right.missing


@operator("CombineThenFreq", takes=(CAT, CAT), symmetric=True)
class CombineThenFreq(_Pairs):
    """Number of fitted rows with the same pair of values; 0 for a pair not seen."""

    def apply(self, state: State, left: Keys, right: Keys) -> Array:
        """Look the pairs up."""
        numbers, missing = self.numbers(state, left, right)
        return np.where(missing, np.nan, np.append(state["counts"], 0)[numbers])


@operator("GroupByThenNUnique", takes=(CAT, CAT))
class GroupNUnique:
    """Number of distinct values of the first feature within the groups of the second."""

    def fit(self, values: Keys, keys: Keys) -> State:
        """Count the distinct values of every group."""
        pairs = np.unique(_pairs(keys.codes, values.codes, values.size))
        counts = np.bincount(pairs[pairs >= 0] // max(values.size, 1), minlength=keys.size).astype(np.float64)
        counts[np.bincount(keys.codes[~keys.missing], minlength=keys.size) == 0] = np.nan
        return {"labels": keys.labels, "values": counts}

    def apply(self, state: State, values: Keys, keys: Keys) -> Array:
        """Look the groups up."""
        return np.append(state["values"], np.nan)[keys.coded_as(state["labels"])]


@operator("Combine", takes=(CAT, CAT), gives=CAT, symmetric=True)
class Combine(_Pairs):
    """The pair of values as one category, numbered by first appearance; a pair not seen is missing."""

    def apply(self, state: State, left: Keys, right: Keys) -> Array:
        """Look the pairs up."""
        return self.numbers(state, left, right)[0]
