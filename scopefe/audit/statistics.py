"""The statistics of the SCOPE-FE paper: enrichment, corrected tests, practical margins, stability."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np
import scipy.stats
from statsmodels.stats.multitest import multipletests

from scopefe.components import Array

ALPHA = 0.05
Outcome = Literal["win", "tie", "loss"]
Verdict = Literal["first", "second", "n.s."]


@dataclass(frozen=True)
class Enrichment:
    """How far a pool prefers the best candidates of its universe (paper, Eq. enrichment_def).

    Parameters
    ----------
    universe
        Number of unique candidates, N.
    pool
        Number of them in the pool, M.
    hits
        Number of the universe's best M that are in the pool, H.
    """

    universe: int
    pool: int
    hits: int

    @property
    def coverage(self) -> float:
        """Share of the best M that are in the pool, H/M; NaN for an empty pool."""
        return self.hits / self.pool if self.pool else np.nan

    @property
    def expected_coverage(self) -> float:
        """Coverage of a random pool of this size, M/N."""
        return self.pool / self.universe if self.universe else np.nan

    @property
    def value(self) -> float:
        """Coverage over expected coverage."""
        return self.coverage / self.expected_coverage if self.pool else np.nan

    @property
    def p(self) -> float:
        """Probability that a random pool has as many hits: one-sided hypergeometric."""
        return float(scipy.stats.hypergeom.sf(self.hits - 1, self.universe, self.pool, self.pool))


def adjusted(p: Sequence[float], method: Literal["fdr_bh", "holm"]) -> Array:
    """Return p-values adjusted for their number; NaN stays NaN and does not count.

    Parameters
    ----------
    method
        ``fdr_bh`` (Benjamini-Hochberg) or ``holm``.
    """
    values = np.array(p, dtype=np.float64)
    known = ~np.isnan(values)
    if known.any():
        values[known] = multipletests(values[known], method=method)[1]
    return values


def empirical_p(observed: float, drawn: Array) -> float:
    """Return the share of draws that are at least as large, counting the observation as one of them."""
    return (1 + int((drawn >= observed).sum())) / (1 + len(drawn))


@dataclass(frozen=True)
class Paired:
    """Two series of a metric, seed by seed.

    Parameters
    ----------
    t, wilcoxon
        p-values of the two-sided paired tests; 1 where all differences are 0.
    difference
        Mean of first minus second, turned so that above 0 the first is better.
    """

    t: float
    wilcoxon: float
    difference: float


def paired(first: Sequence[float], second: Sequence[float], *, larger_is_better: bool) -> Paired:
    """Compare two series by a paired t-test and a Wilcoxon signed-rank test."""
    differences = np.array(first, dtype=np.float64) - np.array(second, dtype=np.float64)
    mean = float(differences.mean()) * (1 if larger_is_better else -1)
    if len(differences) < 2:
        return Paired(np.nan, np.nan, mean)
    if not differences.any():
        return Paired(1.0, 1.0, 0.0)
    # the same difference at every seed could not be by chance
    t = float(scipy.stats.ttest_1samp(differences, 0).pvalue) if np.ptp(differences) else 0.0
    return Paired(t, float(scipy.stats.wilcoxon(differences).pvalue), mean)


def corrected_t(differences: Sequence[float], *, test_share: float) -> float:
    """Return the p-value of a paired t-test over random splits, which share rows.

    The variance is corrected for it (Nadeau and Bengio, 2003).

    Parameters
    ----------
    differences
        One per split.
    test_share
        Test rows over the rows that models learn from.
    """
    values = np.array(differences, dtype=np.float64)
    n = len(values)
    if n < 2:
        return float("nan")
    variance = float(values.var(ddof=1)) * (1 / n + test_share)
    if variance == 0:
        return 1.0 if values[0] == 0 else 0.0
    return float(2 * scipy.stats.t.sf(abs(values.mean()) / np.sqrt(variance), n - 1))


def verdict(t: float, wilcoxon: float, difference: float) -> Verdict:
    """Return which series is better, if both corrected tests say so (paper, Table intra_inter_full)."""
    if not (t < ALPHA and wilcoxon < ALPHA):
        return "n.s."
    return "first" if difference > 0 else "second"


@dataclass(frozen=True)
class Margins:
    """Practical equivalence (paper, Section "Predictive Performance").

    Parameters
    ----------
    absolute
        For ROC-AUC and accuracy.
    relative
        For RMSE, of the reference's value.
    """

    absolute: float = 0.005
    relative: float = 0.01

    def times(self, factor: float) -> Margins:
        """Return wider or narrower margins."""
        return Margins(self.absolute * factor, self.relative * factor)

    def outcome(self, value: float, reference: float, *, metric: str) -> Outcome | None:
        """Return how a value compares with the reference's; None for a metric without margins."""
        if metric == "rmse":
            better, margin = reference - value, self.relative * reference
        elif metric in ("auc", "accuracy"):
            better, margin = value - reference, self.absolute
        else:
            return None
        if abs(better) <= margin:
            return "tie"
        return "win" if better > 0 else "loss"


def win_tie_loss(outcomes: Sequence[Outcome]) -> str:
    """Return the numbers of wins, ties and losses: ``0/8/2``."""
    counts = Counter(outcomes)
    return "/".join(str(counts[o]) for o in ("win", "tie", "loss"))


def mean_jaccard(sets: Sequence[Collection[str]]) -> float:
    """Return the mean, over all pairs, of the share of members that two sets have in common."""
    shares = [len({*a} & {*b}) / len({*a} | {*b}) if {*a} | {*b} else 1.0 for a, b in combinations(sets, 2)]
    return float(np.mean(shares)) if shares else np.nan


def variation(values: Sequence[float]) -> float:
    """Return the coefficient of variation: sample standard deviation over mean."""
    if len(values) < 2 or not np.mean(values):
        return np.nan
    return float(np.std(values, ddof=1) / np.mean(values))
