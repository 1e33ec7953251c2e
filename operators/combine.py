"""Two features read together as one category.

A pair is a pair of codes, so texts that contain the separator of a formula never collide. A pair with a
missing member is missing.
"""

from __future__ import annotations

import numpy as np
from scopefe.operators.group import ByGroup
from scopefe.operators.kernels import number_pairs
from scopefe.operators.states import check_labels, check_numbers

from scopefe import CAT, Keys, Lookup, State, operator
from scopefe.components import Array

NAMES = ("CombineThenFreq", "GroupByThenNUnique", "Combine")

NONE = np.empty(0, dtype=np.int64)


class _Pairs:
    def fit(self, left: Keys, right: Keys) -> State:
        """Number the pairs by first appearance, and count them."""
        numbers, pairs = number_pairs(left.codes, right.codes, left.size, right.size, NONE, True)
        return {
            "left_labels": left.labels,
            "right_labels": right.labels,
            "left": pairs // max(right.size, 1),
            "right": pairs % max(right.size, 1),
            "counts": np.bincount(numbers + 1, minlength=len(pairs) + 1)[1:],
        }

    def check(self, state: State) -> None:
        """Hold a count for every pair of codes, and each pair once."""
        pairs = len(state["counts"])
        check_numbers("counts", state["counts"], rows=pairs, whole=True, least=0)
        for side in ("left", "right"):
            labels = state[f"{side}_labels"]
            check_labels(labels)
            check_numbers(side, state[side], rows=pairs, whole=True, least=0, below=len(labels))
        if len(np.unique(state["left"] * len(state["right_labels"]) + state["right"])) < pairs:
            raise ValueError("a pair has two numbers")

    def numbers(self, state: State, left: Keys, right: Keys) -> Array:
        """Return the number of each row's pair, -1 if it is missing or was not fitted."""
        rows, columns = state["left_labels"], state["right_labels"]
        known = state["left"] * len(columns) + state["right"]
        codes = left.coded_as(rows), right.coded_as(columns)
        return number_pairs(codes[0], codes[1], len(rows), len(columns), known, False)[0]

    def pairs(self, state: State) -> dict[int, Array]:
        """Return the labels of every pair."""
        return {0: state["left_labels"][state["left"]], 1: state["right_labels"][state["right"]]}


@operator(
    "CombineThenFreq",
    takes=(CAT, CAT),
    symmetric=True,
    words="How often the pair of {0} and {1} occurs among the fitted rows",
    latex=r"\operatorname{{freq}}({0}, {1})",
)
class CombineThenFreq(_Pairs):
    """Number of fitted rows with the same pair of values; 0 for a pair not seen."""

    def apply(self, state: State, left: Keys, right: Keys) -> Array:
        """Look the pairs up."""
        counts = np.append(state["counts"], 0).astype(np.float64)[self.numbers(state, left, right)]
        counts[left.missing | right.missing] = np.nan
        return counts

    def lookup(self, state: State) -> Lookup:
        """Give the counts by pair."""
        return Lookup(self.pairs(state), state["counts"], default=0)


@operator(
    "GroupByThenNUnique",
    takes=(CAT, CAT),
    words="Number of distinct values of {0} among the fitted rows with the same {1}",
    latex=r"\operatorname{{nunique}}({0} \mid {1})",
)
class GroupNUnique(ByGroup):
    """Number of distinct values of the first feature within the groups of the second."""

    def fit(self, values: Keys, keys: Keys) -> State:
        """Count the distinct values of every group."""
        _, pairs = number_pairs(keys.codes, values.codes, keys.size, values.size, NONE, True)
        counts = np.bincount(pairs // max(values.size, 1), minlength=keys.size).astype(np.float64)
        counts[keys.counts == 0] = np.nan
        return {"labels": keys.labels, "values": counts}


@operator(
    "Combine",
    takes=(CAT, CAT),
    gives=CAT,
    symmetric=True,
    words="{0} and {1} as one category",
    latex=r"({0}, {1})",
)
class Combine(_Pairs):
    """The pair of values as one category, numbered by first appearance; a pair not seen is missing."""

    def apply(self, state: State, left: Keys, right: Keys) -> Array:
        """Look the pairs up."""
        return self.numbers(state, left, right)

    def lookup(self, state: State) -> Lookup:
        """Give the numbers of the pairs."""
        return Lookup(self.pairs(state), np.arange(len(state["counts"])))
