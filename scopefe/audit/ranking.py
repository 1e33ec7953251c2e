"""The universe by gain, and a pool's place in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from scopefe.audit.statistics import Enrichment
from scopefe.components import Array
from scopefe.space.scope import Scope
from scopefe.space.universe import Universe


@dataclass(frozen=True, eq=False)
class Ranking:
    """The unique candidates of a universe by gain.

    Parameters
    ----------
    universe
        Where they come from.
    ids
        int64, shape (n,): the unique candidates, in the order of the universe; see `Universe.unique`.
    gains
        float64, shape (n,): their gains, NaN where a candidate failed.
    """

    universe: Universe
    ids: Array
    gains: Array

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def order(self) -> Array:
        """int64, shape (n,): positions, best first; ties as the universe orders them, failures last."""
        return np.argsort(-self.gains, kind="stable")

    @cached_property
    def ranks(self) -> Array:
        """int64, shape (n,): the rank of each candidate, from 1."""
        ranks = np.empty(len(self), dtype=np.int64)
        ranks[self.order] = np.arange(1, len(self) + 1)
        return ranks

    @cached_property
    def decoded(self) -> tuple[Array, Array, Array]:
        """Operator, left and right feature of each candidate; see `Universe.decode`."""
        return self.universe.decode(self.ids)

    @property
    def unary(self) -> Array:
        """Boolean, shape (n,): which candidates have one input."""
        return self.decoded[2] < 0

    def places(self, ids: Array) -> Array:
        """Return the positions of candidates, each as its unique representative."""
        return np.searchsorted(self.ids, self.universe.canonical(ids))

    def members(self, scope: Scope) -> Array:
        """Boolean, shape (n,): which unique candidates a scope has."""
        inside = np.zeros(len(self), dtype=bool)
        inside[self.places(scope.ids())] = True
        return inside

    def hits(self, inside: Array) -> Array:
        """Boolean, shape (n,): members that are among the best, as many as there are members."""
        result: Array = inside & (self.ranks <= np.count_nonzero(inside))
        return result

    def enrichment(self, inside: Array) -> Enrichment:
        """Return the enrichment of a pool, given its members."""
        return Enrichment(len(self), int(inside.sum()), int(self.hits(inside).sum()))

    def enrichment_at(self, inside: Array, share: float) -> float | None:
        """Return the expected enrichment of a random part of a pool, a share of the universe in size.

        A pool that is no larger is taken whole. None of an empty one.
        """
        pool = int(inside.sum())
        size = min(pool, max(1, round(share * len(self))))
        if not pool:
            return None
        hits = np.count_nonzero(inside & (self.ranks <= size))
        return hits / pool / (size / len(self))

    def recall(self, inside: Array, sizes: Sequence[int]) -> dict[int, float]:
        """Return the share of the best k that a pool has, for every k that the universe has."""
        return {k: float(inside[self.order[:k]].mean()) for k in sizes if 0 < k <= len(self)}
