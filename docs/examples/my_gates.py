"""Gates of one's own; `custom.yaml` uses them."""

from itertools import combinations
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from scopefe import GateContext, PairSet, Scope, operator_gate, pair_gate

Share = Annotated[float, Field(ge=0, le=1, description="Least absolute rank correlation.")]


@pair_gate("rank-correlated")
def rank_correlated(context: GateContext, scope: Scope, *, at_least: Share = 0.3) -> PairSet:
    """Admit two numbers only if their ranks correlate; pairs with a category are admitted."""
    table = context.table()  # training rows
    admitted = np.ones((len(table), len(table)), dtype=bool)
    numbers = [i for i, kind in enumerate(table.kinds) if kind != "categorical"]
    ranks = pd.DataFrame({i: table.numeric(i) for i in numbers}).corr(method="spearman").abs()
    for i, j in combinations(numbers, 2):
        admitted[i, j] = admitted[j, i] = ranks.loc[i, j] >= at_least
    return PairSet(admitted)


@operator_gate("no-state")
def no_state(context: GateContext, scope: Scope) -> Scope:
    """Admit the operators that learn nothing from the data."""
    operators = context.universe.operators
    return scope.only(lambda position: not operators[position].learns)
