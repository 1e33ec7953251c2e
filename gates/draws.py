"""What gates share: the pool that randomised ones resample, and budgets."""

from __future__ import annotations

import numpy as np
from pydantic import Field

from scopefe import ComponentError, GateContext, Scope
from scopefe.components import Array

MATCH = Field(description="Spec whose pool is resampled: a file, or the name of a shipped spec.")
BUDGET = Field(ge=0, description="Number of two-input candidates to draw, instead of a match.")
SEED = Field(ge=0, description="Seed of the draw.")


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


def allowed(budget: float, total: int) -> int:
    """Return how many of a total a budget allows: a share of it, but one at least, if below 1; or a count.

    Raises
    ------
    ComponentError
        If the budget is neither.
    """
    if budget > 1 and not budget.is_integer():
        raise ComponentError(f"budget {budget:g} is neither a share below 1 nor a whole number")
    return min(total, int(budget) if budget >= 1 else max(1, round(budget * total)))


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
