"""FeatureBoost: what one candidate alone adds on top of the baseline scores (paper, Eq. featureboost)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from scopefe.components import CAT, Array, Operator
from scopefe.data.table import Table, arguments_of
from scopefe.score.boosting import Part, parameters, train
from scopefe.score.engine import Engine
from scopefe.score.objective import Objective
from scopefe.space.universe import Universe

TREES, LEAVES, PATIENCE = 100, 16, 3


@dataclass(frozen=True, eq=False)
class Block:
    """Rows that candidates are scored on: those they learn from, then those they are measured on.

    Parameters
    ----------
    table
        The features over these rows.
    fitted
        Number of rows, from the front, that models are fitted on.
    target
        float64, shape (rows,).
    scores
        Baseline raw scores, shape (rows,) or (rows, classes).
    objective
        Task and metric.
    """

    table: Table
    fitted: int
    target: Array
    scores: Array
    objective: Objective

    @cached_property
    def initial(self) -> float:
        """Metric of the baseline on the measured rows."""
        return self.objective.loss(self.target[self.fitted :], self.scores[self.fitted :])


class Evaluator(Protocol):
    """Scores the values of one candidate."""

    def gain(self, block: Block, values: Array, *, categorical: bool) -> float:
        """Return the gain of a candidate.

        Parameters
        ----------
        block
            The rows.
        values
            float64, shape (rows,); codes from 0 where `categorical`.
        categorical
            Whether the values are categories.
        """
        ...


class LightGBM:
    """The reference evaluator: a LightGBM on the single feature.

    At most 100 trees of 16 leaves, learning rate 0.1, early stopping after 3 rounds on the measured rows.
    """

    def gain(self, block: Block, values: Array, *, categorical: bool) -> float:
        n = block.fitted
        options = parameters(block.objective, seed=1, threads=1, num_leaves=LEAVES)
        column = values.reshape(-1, 1)
        _, best = train(
            options,
            Part(column[:n], block.target[:n], block.scores[:n]),
            Part(column[n:], block.target[n:], block.scores[n:]),
            categorical=[0] if categorical else [],
            trees=TREES,
            patience=PATIENCE,
        )
        return block.objective.sign * (block.initial - best)


@dataclass(frozen=True)
class Failure:
    """A candidate that could not be computed or scored."""

    candidate: int
    formula: str
    stage: str
    error: str


def compute(operator: Operator, table: Table, left: int, right: int) -> Array:
    """Return a candidate's values, fitted on the rows of a table and applied to them.

    Returns
    -------
    ndarray
        Shape (rows,): float64, or int64 codes for operators that give categories.
    """
    columns = arguments_of(operator, [table[i] for i in (left, right)[: operator.arity]])
    return operator.apply(operator.fit(*columns), *columns)


def score(
    universe: Universe,
    candidates: Array,
    block: Block,
    evaluator: Evaluator,
    engine: Engine,
    *,
    stage: str,
    advance: Callable[[int], None] | None = None,
) -> tuple[Array, list[Failure]]:
    """Score candidates.

    Parameters
    ----------
    candidates
        int64 ids, shape (n,), in any order.
    stage
        What failures are reported under.

    Returns
    -------
    tuple
        Gains, float64, shape (n,), NaN for candidates that failed; and the failures.
    """
    operators, left, right = universe.decode(candidates)

    def one(position: int) -> float | Failure:
        operator = universe.operators[operators[position]]
        try:
            values = compute(operator, block.table, int(left[position]), int(right[position]))
            categorical = operator.gives == CAT
            if categorical and (values < 0).any():
                values = values + 1
            return evaluator.gain(block, values.astype(np.float64), categorical=categorical)
        except Exception as error:
            candidate = int(candidates[position])
            formula = universe.expression(candidate).formula
            return Failure(candidate, formula, stage, f"{type(error).__name__}: {error}")

    results = engine.map(one, range(len(candidates)), advance)
    gains = np.array([np.nan if isinstance(r, Failure) else r for r in results], dtype=np.float64)
    return gains, [r for r in results if isinstance(r, Failure)]
