"""How the values of a feature were distributed over the rows it was fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scopefe.components import Array

MOST_FREQUENT = 5


@dataclass(frozen=True)
class Distribution:
    """A summary of values.

    Parameters
    ----------
    count
        Number of rows.
    missing
        Share of them without a value, 0 to 1.
    distinct
        Number of distinct values.
    quartiles
        Minimum, quartiles and maximum of numbers; empty for categories, and where all are missing.
    most_frequent
        (category, rows) of the most frequent categories; empty for numbers.
    """

    count: int
    missing: float
    distinct: int
    quartiles: tuple[float, ...] = ()
    most_frequent: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, values: Array, *, categorical: bool) -> Distribution:
        """Summarise values.

        Parameters
        ----------
        values
            float64, shape (rows,), missing is NaN.
        categorical
            Whether they are category codes.
        """
        present = values[~np.isnan(values)]
        missing = (len(values) - len(present)) / max(len(values), 1)
        known, counts = np.unique(present, return_counts=True)
        if categorical:
            best = np.argsort(-counts, kind="stable")[:MOST_FREQUENT]
            frequent = zip(known[best].astype(np.int64).tolist(), counts[best].tolist(), strict=True)
            return cls(len(values), missing, len(known), most_frequent=tuple(frequent))
        quartiles = np.quantile(present, np.linspace(0, 1, 5)).tolist() if len(present) else []
        return cls(len(values), missing, len(known), tuple(quartiles))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        document: dict[str, Any] = {"count": self.count, "missing": self.missing, "distinct": self.distinct}
        if self.quartiles:
            low, *middle, high = self.quartiles
            document |= {"min": low, "quartiles": middle, "max": high}
        if self.most_frequent:
            document["most_frequent"] = [list(pair) for pair in self.most_frequent]
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Distribution:
        """Read what `to_json` gave."""
        quartiles = [document["min"], *document["quartiles"], document["max"]] if "min" in document else []
        frequent = [(int(category), int(rows)) for category, rows in document.get("most_frequent", [])]
        return cls(
            int(document["count"]),
            float(document["missing"]),
            int(document["distinct"]),
            tuple(float(q) for q in quartiles),
            tuple(frequent),
        )
