"""What gates share: the pool that randomised ones resample, and budgets."""

from __future__ import annotations

import re
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, WithJsonSchema

from scopefe import ComponentError, GateContext, Scope
from scopefe.components import Array

MATCH = Field(description="Spec whose pool is resampled: a file, or the name of a shipped spec.")
BUDGET = Field(ge=0, description="Number of two-input candidates to draw, instead of a match.")
SEED = Field(ge=0, description="Seed of the draw.")


def read_budget(value: Any) -> Any:
    """Tell a share from a count by how it is written: ``0.1`` and ``10%`` are shares, ``300`` is a count.

    Returns
    -------
    int or float
        A count from 1, or a share above 0, up to 1.

    Raises
    ------
    ValueError
        If it may be either, or is neither.
    """
    percent = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", value) if isinstance(value, str) else None
    if percent and 0 < (share := float(percent[1]) / 100) <= 1:
        return share
    if isinstance(value, bool | str) or not isinstance(value, int | float):
        raise ValueError("write a share such as 0.1 or 10%, or a count such as 300")
    if value == 1 and isinstance(value, float):
        raise ValueError("1.0 may be a share or a count: write 100% for all, or 1 for one")
    if isinstance(value, float) and value > 1:
        whole = f": write {value:.0f} for a count" if value.is_integer() else ""
        raise ValueError(f"{value:g} is neither a share below 1 nor a whole number{whole}")
    if not value > 0:
        raise ValueError("it must be greater than 0")
    return value


Budget = Annotated[
    int | float,
    BeforeValidator(read_budget),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": r"^\d+(\.\d+)? ?%$"},
            ]
        }
    ),
]
AT_LEAST = Field(ge=1, description="Least number that a budget that is a share stands for.")


def matched_or_budget(context: GateContext, scope: Scope, match: str | None, budget: int | None) -> Scope:
    """Return the pool to resample: that of the matched spec, or the incoming scope under a budget.

    Raises
    ------
    ComponentError
        Unless exactly one of the two is given.
    """
    if (match is None) == (budget is None):
        raise ComponentError("a randomised gate needs either match: SPEC or budget: NUMBER")
    return scope if match is None else context.matched(match)


def allowed(budget: float, total: int, at_least: int) -> int:
    """Return how many of a total a budget allows.

    Parameters
    ----------
    budget
        A count if it is an integer, else a share of the total.
    at_least
        What a share stands for at least.
    """
    return min(total, budget if isinstance(budget, int) else max(at_least, round(budget * total)))


def shares(total: int, weights: Array) -> Array:
    """Share a total in proportion to weights, as whole numbers that no weight is exceeded by.

    Raises
    ------
    ComponentError
        If the weights add up to less than the total.
    """
    available = int(weights.sum())
    if total > available:
        raise ComponentError(f"budget {total} is more than the {available} candidates there are")
    exact = weights * (total / available) if available else weights * 0.0
    counts = np.floor(exact).astype(np.int64)
    rest = total - int(counts.sum())
    counts[np.argsort(-(exact - counts), kind="stable")[:rest]] += 1
    return counts
