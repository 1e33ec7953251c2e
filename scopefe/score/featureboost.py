"""FeatureBoost: what one candidate alone adds on top of the baseline scores (paper, Eq. featureboost)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from scopefe.components import CAT, Array, Operator
from scopefe.data.table import Table
from scopefe.score.boosting import Part, Rows, parameters, train
from scopefe.score.categories import Categories
from scopefe.score.engine import Engine
from scopefe.score.objective import Objective
from scopefe.space.universe import Universe

TREES, LEAVES, PATIENCE = 100, 16, 3
DECODED = 4096

Gains = tuple[float, ...]


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
    weights
        What each row counts, float64, shape (rows,); None where all count the same.
    groups
        Group of each row, int64, shape (rows,), which no fold takes apart; None where there are none.
    """

    table: Table
    fitted: int
    target: Array
    scores: Array
    objective: Objective
    weights: Array | None = None
    groups: Array | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields; what is cached beside them is computed again."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def take(self, rows: Array, fitted: int) -> Block:
        """Return the block of the rows at these positions, of which models are fitted on the first ones."""
        weights, groups = (None if given is None else given[rows] for given in (self.weights, self.groups))
        table, target, scores = self.table.take(rows), self.target[rows], self.scores[rows]
        return Block(table, fitted, target, scores, self.objective, weights, groups)

    def measured(self, parts: Sequence[tuple[Array, int]] = ()) -> tuple[Measured, ...]:
        """Return what gains are measured on: the block as it is, or parts of its rows.

        Parameters
        ----------
        parts
            Of each the positions of its rows, and how many of them, in front, models are fitted on.
        """
        if not parts:
            return (Measured(slice(None), self),)
        bare = replace(self, table=Table([], len(self.target)))
        return tuple(Measured(rows, bare.take(rows, fitted)) for rows, fitted in parts)

    def part(self, values: Array, rows: slice) -> Part:
        """Return what LightGBM is given of some rows of a matrix over all rows."""
        weights = None if self.weights is None else self.weights[rows]
        return Part(values[rows], self.target[rows], self.scores[rows], weights)

    @cached_property
    def initial(self) -> float:
        """Metric of the baseline on the measured rows."""
        held = slice(self.fitted, None)
        weights = None if self.weights is None else self.weights[held]
        return self.objective.loss(self.target[held], self.scores[held], weights)

    @cached_property
    def labels(self) -> Array:
        """The target as LightGBM keeps it: rounded to float32; float64, shape (rows,)."""
        return self.target.astype(np.float32).astype(np.float64)

    @cached_property
    def constant(self) -> bool:
        """Whether all rows have the same scores."""
        return bool((self.scores == self.scores[:1]).all())


@dataclass(frozen=True, eq=False)
class Measured:
    """Rows that a gain is measured on, and those that it is learned from.

    Parameters
    ----------
    rows
        Which values of a candidate they have.
    block
        The rows; those of a part come without features.
    """

    rows: Rows
    block: Block


class Evaluator(Protocol):
    """Scores the values of one candidate."""

    @property
    def name(self) -> str:
        """What a spec calls it."""
        ...

    def ready(self, objective: Objective) -> None:
        """Load what scoring needs, once per process."""
        ...

    def gain(self, block: Block, values: Array, *, categorical: bool) -> float:
        """Return the gain of a candidate.

        Parameters
        ----------
        block
            The rows.
        values
            float64, shape (rows,); codes from 0 where `categorical`, NaN where there is none.
        categorical
            Whether the values are categories.
        """
        ...


class LightGBM:
    """The reference evaluator: a LightGBM on the single feature.

    At most 100 trees of 16 leaves, learning rate 0.1, early stopping after 3 rounds on the measured rows.
    """

    name = "lightgbm"

    def ready(self, objective: Objective) -> None:
        pass

    def gain(self, block: Block, values: Array, *, categorical: bool) -> float:
        n = block.fitted
        options = parameters(block.objective, seed=1, threads=1, num_leaves=LEAVES)
        column = values.reshape(-1, 1)
        _, best = train(
            options,
            block.part(column, slice(n)),
            block.part(column, slice(n, None)),
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
    columns = table.arguments(operator, (left, right)[: operator.arity])
    return operator.apply(operator.fit(*columns), *columns)


def model_values(
    universe: Universe, table: Table, operator: int, left: int, right: int
) -> tuple[Array, bool]:
    """Return a candidate's values as a model is given them, and whether they are categories.

    Where the universe has `levels`, these are the recipe's values; otherwise, as in OpenFE, a category-valued
    candidate is a category, and a missing one is a category of its own.

    Parameters
    ----------
    operator
        Its position among the operators.

    Returns
    -------
    tuple
        float64, shape (rows,), codes from 0 for categories; infinite values as they are.
    """
    chosen = universe.operators[operator]
    values = compute(chosen, table, left, right)
    if chosen.gives != CAT:
        return values.astype(np.float64, copy=False), False
    if universe.levels is None:
        return (values + bool((values < 0).any())).astype(np.float64), True
    categories = Categories.fitted(values, universe.levels)
    return categories.values(values), not categories.as_number


@dataclass(frozen=True)
class Scoring:
    """The work of scoring: gives a candidate's gains, or says why there are none.

    Parameters
    ----------
    universe
        Where operators are looked up.
    table
        The features; a candidate's values are computed once.
    measured
        What each of its gains is measured on.
    evaluator
        Turns values into a gain.
    """

    universe: Universe
    table: Table
    measured: tuple[Measured, ...]
    evaluator: Evaluator

    def __call__(self, candidate: tuple[int, int, int]) -> Gains | str:
        """Score the candidate of (operator, left, right); its values are dropped at once."""
        try:
            values, categorical = model_values(self.universe, self.table, *candidate)
            gains = tuple(
                self.evaluator.gain(each.block, values[each.rows], categorical=categorical)
                for each in self.measured
            )
            if any(map(math.isnan, gains)):
                metric = self.measured[0].block.objective.metric
                return f"{metric} has no value on the rows that are measured"
            return gains
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def score(
    universe: Universe,
    candidates: Array,
    table: Table,
    measured: tuple[Measured, ...],
    evaluator: Evaluator,
    engine: Engine,
    *,
    stage: str,
    advance: Callable[[int], None] | None = None,
) -> Iterator[Gains | Failure]:
    """Yield the gains of each candidate, or its failure, in order; nothing else is kept of any.

    Parameters
    ----------
    candidates
        int64 ids, shape (n,), in any order.
    table
        The features.
    measured
        What each gain is measured on; see `Block.measured`.
    stage
        What failures are reported under.
    """
    work = Scoring(universe, table, measured, evaluator)
    results = engine.map(work, _decoded(universe, candidates), advance)
    for position, result in enumerate(results):
        if isinstance(result, str):
            candidate = int(candidates[position])
            yield Failure(candidate, universe.expression(candidate).formula, stage, result)
        else:
            yield result


def _decoded(universe: Universe, candidates: Array) -> Iterator[tuple[int, int, int]]:
    for start in range(0, len(candidates), DECODED):
        columns = universe.decode(candidates[start : start + DECODED])
        yield from zip(*(column.tolist() for column in columns), strict=True)
