"""How values that are categories go into a model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scopefe.components import Array

LEVELS = 30
"""Most levels of a new feature that is a category: boosted trees are harmed by categories of many levels."""


@dataclass(frozen=True, eq=False)
class Categories:
    """What a model is given of a category-valued feature.

    Parameters
    ----------
    counts
        int64: fitted rows of each category.
    as_number
        Whether a row's value is the count of its category, and no category.
    """

    counts: Array
    as_number: bool

    @classmethod
    def fitted(cls, codes: Array, levels: int | None) -> Categories:
        """Return what is learned from codes, int64, -1 where there is no category.

        Parameters
        ----------
        levels
            With more than so many levels it is a number; None: never.
        """
        counts = np.bincount(codes + 1, minlength=1)[1:]
        return cls(counts, levels is not None and int(np.count_nonzero(counts)) > levels)

    def values(self, codes: Array) -> Array:
        """Return float64 values of codes; NaN where there is no category, or one that no fitted row has."""
        table = self.counts if self.as_number else np.arange(len(self.counts))
        values = np.append(table.astype(np.float64), np.nan)
        known = (codes >= 0) & (codes < len(self.counts))
        result: Array = values[np.where(known, codes, -1)]
        return result
