"""Randomised controls: what a random pool of the same size would have held.

See the paper, Section "Randomization Controls". Nothing is drawn candidate by candidate: only the number of
hits counts, and hits among candidates that are drawn without replacement from a group follow the
hypergeometric distribution, so that one number is drawn per group and seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from scopefe.audit.ranking import Ranking
from scopefe.audit.statistics import Enrichment, empirical_p
from scopefe.components import Array

SEEDS = 1000
CELLS = 2**22


@dataclass(frozen=True)
class Groups:
    """Groups of candidates that a control draws from: their sizes, their hits, and how many are drawn."""

    sizes: Array
    hits: Array
    drawn: Array

    @classmethod
    def of(cls, labels: Array, hit: Array, chosen: Array) -> Groups:
        """Count groups by the label of each candidate; as many are drawn as are chosen."""
        count = int(labels.max(initial=-1)) + 1
        sizes, hits, drawn = (
            np.bincount(labels[which], minlength=count) for which in (np.ones(len(labels), bool), hit, chosen)
        )
        counts = (drawn > 0) & (hits > 0)
        return cls(sizes[counts], hits[counts], drawn[counts])

    def draw(self, rng: np.random.Generator, seeds: int) -> Array:
        """Return the number of hits among what is drawn, int64, one per seed."""
        step = max(1, CELLS // max(len(self.sizes), 1))
        parts = [
            rng.hypergeometric(
                self.hits,
                self.sizes - self.hits,
                self.drawn,
                size=(min(step, seeds - start), len(self.sizes)),
            ).sum(axis=1)
            for start in range(0, seeds, step)
        ]
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class Control:
    """A pool's enrichment against that of random pools.

    Parameters
    ----------
    observed
        Enrichment of the pool.
    drawn
        Enrichment of each random pool, float64, shape (seeds,).
    """

    observed: float
    drawn: Array

    @property
    def median_difference(self) -> float:
        """Enrichment of the pool less the median of the random ones'."""
        return self.observed - float(np.median(self.drawn))

    @property
    def p(self) -> float:
        """Empirical probability that a random pool is enriched as much."""
        return empirical_p(self.observed, self.drawn)


def random_pair(ranking: Ranking) -> Array:
    """Return the group of each two-input candidate: its operator, whose pairs are drawn anew."""
    return ranking.decoded[0][~ranking.unary].astype(np.int64)


def random_operator(ranking: Ranking) -> Array:
    """Return the group of each two-input candidate: its slot, whose operators are drawn anew.

    A slot is kinds and pair; for group-bys a pair is value and key, pairs of one kind have no order.
    """
    binary = ~ranking.unary
    operators, left, right = (part[binary].astype(np.int64) for part in ranking.decoded)
    takes = [operator.takes for operator in ranking.universe.operators]
    kinds = {kind: number for number, kind in enumerate(dict.fromkeys(takes))}
    signature = np.array([kinds[kind] for kind in takes], dtype=np.int64)[operators]
    unordered = np.array([len(set(kind)) == 1 for kind in takes])[operators]
    first, second = np.minimum(left, right), np.maximum(left, right)
    d = ranking.universe.d
    pair = np.where(unordered, first * d + second, left * d + right)
    return np.unique(signature * d * d + pair, return_inverse=True)[1].astype(np.int64)


def random_joint(ranking: Ranking) -> Array:
    """Return the group of each two-input candidate: there is one, operators and pairs are drawn together."""
    return np.zeros(int((~ranking.unary).sum()), dtype=np.int64)


CONTROLS: Mapping[str, Callable[[Ranking], Array]] = {
    "random-pair": random_pair,
    "random-operator": random_operator,
    "random-joint": random_joint,
}


def control(ranking: Ranking, inside: Array, name: str, *, seeds: int = SEEDS, seed: int = 0) -> Control:
    """Hold a pool against random ones of the same size and with the same one-input candidates.

    Parameters
    ----------
    inside
        Boolean, shape (n,): the pool's members; see `Ranking.members`.
    name
        One of `CONTROLS`.
    seeds
        Number of random pools.
    """
    whole = ranking.enrichment(inside)
    best, unary = ranking.ranks <= whole.pool, ranking.unary
    groups = Groups.of(CONTROLS[name](ranking), best[~unary], inside[~unary])
    rng = np.random.default_rng([seed, list(CONTROLS).index(name)])
    hits = int((best & inside & unary).sum()) + groups.draw(rng, seeds)
    return Control(whole.value, hits / whole.pool / whole.expected_coverage)


def matched(
    ranking: Ranking, first: Array, second: Array, *, seeds: int = SEEDS, seed: int = 0
) -> tuple[int, Array, Array]:
    """Compare two pools at the smaller one's number of two-input candidates.

    One-input candidates are kept; of the larger pool, two-input candidates are drawn (paper, Table
    intra_inter_enrichment).

    Returns
    -------
    tuple
        The number of two-input candidates, and the enrichment of each pool, float64, one per seed.
    """
    unary = ranking.unary
    budget = min(int((inside & ~unary).sum()) for inside in (first, second))
    rng = np.random.default_rng([seed, len(CONTROLS)])

    def enrichment(inside: Array) -> Array:
        kept, binary = inside & unary, inside & ~unary
        size = int(kept.sum()) + budget
        best = ranking.ranks <= size
        everything = Groups(*(np.array([n]) for n in (binary.sum(), (binary & best).sum(), budget)))
        hits = int((kept & best).sum()) + everything.draw(rng, seeds)
        return hits * Enrichment(len(ranking), size, 1).value

    return budget, enrichment(first), enrichment(second)
