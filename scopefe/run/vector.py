"""Numbers addressed by ids: the gains of candidates, the scores of seeds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from scopefe.components import Array


@dataclass(frozen=True, eq=False)
class Vector:
    """Values by id, as far as they are known.

    Parameters
    ----------
    ids
        int64, ascending, each once.
    values
        float64, shape (ids, width): one or more per id; NaN where it failed.
    seconds
        float32, one per id: its share of the time that was spent.
    errors
        What went wrong, by id.
    """

    ids: Array
    values: Array
    seconds: Array
    errors: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, ids: Array, values: Array, seconds: float, errors: dict[int, str]) -> Vector:
        """Return the vector of values in any order that took so many seconds in all."""
        shares = np.full(len(ids), seconds / max(len(ids), 1), dtype=np.float32)
        return cls.union([cls(np.asarray(ids, np.int64), np.asarray(values, np.float64), shares, errors)])

    @classmethod
    def union(cls, parts: Iterable[Vector]) -> Vector:
        """Return what at least one part knows; of two that know an id the first counts."""
        parts = [p for p in parts if len(p)] or [_NOTHING]
        ids, first = np.unique(np.concatenate([p.ids for p in parts]), return_index=True)
        values = np.concatenate([p.values for p in parts])[first]
        seconds = np.concatenate([p.seconds for p in parts])[first]
        errors = {i: error for part in reversed(parts) for i, error in part.errors.items()}
        return cls(ids, values, seconds, errors)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def total_seconds(self) -> float:
        """Seconds of all values."""
        return float(self.seconds.sum(dtype=np.float64))

    def has(self, ids: Array) -> Array:
        """Boolean: which of the ids are known."""
        if not len(self):
            return np.zeros(len(ids), dtype=bool)
        known: Array = self.ids[self._places(ids)] == ids
        return known

    def at(self, ids: Array) -> Vector:
        """Return the values of known ids, in their order."""
        places = self._places(ids)
        wanted = set(ids.tolist()) if self.errors else ()
        errors = {i: error for i, error in self.errors.items() if i in wanted}
        return Vector(ids, self.values[places], self.seconds[places], errors)

    def lasting(self) -> Vector:
        """Return the vector without the ids that failed for a reason that may pass."""
        passing = [i for i, error in self.errors.items() if may_pass(error)]
        return self.at(self.ids[~np.isin(self.ids, passing)]) if passing else self

    def _places(self, ids: Array) -> Array:
        return np.minimum(np.searchsorted(self.ids, ids), len(self) - 1)


def may_pass(error: str) -> bool:
    """Tell whether the same work may succeed another time."""
    return error.startswith(("MemoryError", "_ArrayMemoryError"))


_NOTHING = Vector(np.empty(0, np.int64), np.empty((0, 1)), np.empty(0, np.float32))
