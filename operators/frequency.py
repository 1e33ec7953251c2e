"""How often a value occurs."""

from __future__ import annotations

import numpy as np
from scopefe.operators.states import check_labels, check_numbers

from scopefe import ANY, Keys, Lookup, State, operator
from scopefe.components import Array

NAMES = ("freq",)


@operator(
    "freq",
    takes=(ANY,),
    words="How often the value of {0} occurs among the fitted rows",
    latex=r"\operatorname{{freq}}({0})",
)
class Frequency:
    """Number of fitted rows with the same value; 0 for a value not seen, missing for a missing one."""

    def fit(self, keys: Keys) -> State:
        """Count every value."""
        return {"labels": keys.labels, "counts": keys.counts}

    def apply(self, state: State, keys: Keys) -> Array:
        """Look the values up."""
        counts = np.append(state["counts"], 0).astype(np.float64)[keys.coded_as(state["labels"])]
        counts[keys.missing] = np.nan
        return counts

    def check(self, state: State) -> None:
        """Hold one count per label."""
        check_labels(state["labels"])
        check_numbers("counts", state["counts"], rows=len(state["labels"]), whole=True, least=0)

    def lookup(self, state: State) -> Lookup:
        """Give the counts by label."""
        return Lookup({0: state["labels"]}, state["counts"], default=0)
