"""Model columns with their declared types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scopefe.components import Array

FeatureType = Literal["number", "category"]


@dataclass(frozen=True, eq=False)
class Matrix:
    """Model columns over some rows.

    Parameters
    ----------
    columns
        float64, each of shape (rows,).
    categorical
        Positions of the columns that hold category codes; missing is NaN.
    """

    columns: list[Array]
    categorical: list[int]

    def beside(self, other: Matrix) -> Matrix:
        """Return both, one beside the other; the columns are shared."""
        shifted = [len(self.columns) + i for i in other.categorical]
        return Matrix([*self.columns, *other.columns], [*self.categorical, *shifted])

    def select(self, places: Sequence[int]) -> Matrix:
        """Return some of the columns; they are shared."""
        categorical = set(self.categorical)
        chosen = [i for i, place in enumerate(places) if place in categorical]
        return Matrix([self.columns[place] for place in places], chosen)

    def take(self, rows: Array) -> Array:
        """Return the values of rows, shape (len(rows), columns)."""
        values = np.empty((len(rows), len(self.columns)), order="F")
        for i, column in enumerate(self.columns):
            values[:, i] = column[rows]
        return values
