"""Operators of one's own; `custom.yaml` uses them."""

import numpy as np
import pandas as pd

from scopefe import CAT, NUM, Lookup, operator


@operator("log_ratio", takes=(NUM, NUM), one_way=True)
def log_ratio(a, b):
    """log|a| - log|b|; zero gives missing."""
    return np.log(np.where(a == 0, np.nan, np.abs(a))) - np.log(np.where(b == 0, np.nan, np.abs(b)))


@operator("GroupByThenQuantile", takes=(NUM, CAT))
class GroupQuantile:
    """Quantile of the row's group; missing for a group that was not fitted."""

    def __init__(self, *, q: float = 0.9) -> None:
        self.q = q

    def fit(self, values, keys):
        """Learn one number per group."""
        by_code = pd.Series(values).groupby(keys.codes).quantile(self.q)
        return {"labels": keys.labels, "values": by_code.reindex(np.arange(keys.size)).to_numpy()}

    def apply(self, state, values, keys):
        """Look the groups up; code -1, missing or unknown, finds the NaN at the end."""
        return np.append(state["values"], np.nan)[keys.coded_as(state["labels"])]

    def lookup(self, state):
        """Give the numbers by group: input 1 has the keys."""
        return Lookup({1: state["labels"]}, state["values"])


@operator("cdf", takes=(NUM,), ordered=True)
class Distribution:
    """Share of the fitted values that are at most as large."""

    def fit(self, x):
        """Keep the values, ascending."""
        ascending = x.values[x.order]
        return {"values": ascending[: np.count_nonzero(~np.isnan(ascending))]}

    def apply(self, state, x):
        """Find every value's place."""
        places = np.searchsorted(state["values"], x.values, side="right")
        return np.where(np.isnan(x.values), np.nan, places / len(state["values"]))

    def lookup(self, state):
        """Give the shares from each fitted value on; below the first one it is 0."""
        known, counts = np.unique(state["values"], return_counts=True)
        return Lookup({}, counts.cumsum() / counts.sum(), default=0, lower=(0, known))


@operator("bin", takes=(NUM,), gives=CAT)
class Bin:
    """Number of the quantile bin, as a category."""

    def __init__(self, *, bins: int = 4) -> None:
        self.bins = bins

    def fit(self, x):
        """Learn the inner edges."""
        present = x[~np.isnan(x)]
        shares = np.linspace(0, 1, self.bins + 1)[1:-1]
        return {"edges": np.quantile(present, shares) if len(present) else np.empty(0)}

    def apply(self, state, x):
        """Find the bin of every value; missing is -1."""
        return np.where(np.isnan(x), -1, np.searchsorted(state["edges"], x, side="right"))


@operator(
    "share",
    takes=(NUM, NUM),
    words="Share of {0} in the sum of {0} and {1}",
    latex=r"\frac{{{0}}}{{{0} + {1}}}",
    sql="{0} / NULLIF({0} + {1}, 0)",
    python="np.where({0} + {1} == 0, np.nan, {0} / ({0} + {1}))",
)
def share(a, b):
    """Part of the first in the sum of both; missing where that is zero."""
    total = a + b
    return a / np.where(total == 0, np.nan, total)
