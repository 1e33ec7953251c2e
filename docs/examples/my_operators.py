"""Operators of one's own; `custom.yaml` uses them."""

import numpy as np
import pandas as pd

from scopefe import CAT, NUM, operator


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
