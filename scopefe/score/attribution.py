"""Feature attribution, the second stage of OpenFE's selection."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scopefe.components import Array
from scopefe.data.table import finite
from scopefe.score.boosting import Part, parameters, raw_scores, train
from scopefe.score.engine import Engine
from scopefe.score.featureboost import Block, Failure, compute
from scopefe.space.universe import Universe

TREES, LEAVES, PATIENCE, SEED = 1000, 16, 50, 1


@dataclass(frozen=True, eq=False)
class Attribution:
    """Survivors ranked by importance.

    Parameters
    ----------
    candidates
        int64 ids, most important first; those without importance stay in their order.
    importances
        float64, one per candidate: total gain, or increase of the loss under permutation.
    trees
        Trees of the model.
    failures
        Candidates that could not be computed.
    """

    candidates: Array
    importances: Array
    trees: int
    failures: tuple[Failure, ...]


def attribute(
    universe: Universe,
    survivors: Array,
    block: Block,
    engine: Engine,
    *,
    method: Literal["gain", "permutation"],
    rng: random.Random,
) -> Attribution:
    """Rank survivors by their importance in one LightGBM on survivors and original features.

    Parameters
    ----------
    survivors
        int64 ids, best first.
    block
        All training rows, then all selection rows, in their order.
    rng
        The random stream of the halving: shuffles the survivors once more.
    """
    order = list(range(len(survivors)))
    rng.shuffle(order)
    shuffled = survivors[order]
    if not len(shuffled):
        return Attribution(shuffled, np.empty(0), 0, ())
    matrix, used, failures = _matrix(universe, shuffled, block, engine)
    originals = block.table.categorical()
    n = block.fitted
    fit = Part(matrix[:n], block.target[:n], block.scores[:n])
    held = Part(matrix[n:], block.target[n:], block.scores[n:])
    booster, best = train(
        parameters(block.objective, seed=SEED, threads=engine.jobs, num_leaves=LEAVES),
        fit,
        held,
        categorical=[len(used) + i for i in originals],
        trees=TREES,
        patience=PATIENCE,
    )
    if method == "gain":
        importances = booster.feature_importance("gain", iteration=booster.best_iteration)[: len(used)]
    else:
        losses = [_permuted_loss(booster, held, block, column, engine.jobs) for column in range(len(used))]
        importances = block.objective.sign * (np.array(losses) - best)
    importances = np.asarray(importances, dtype=np.float64)
    ranked = np.argsort(-importances, kind="stable")
    return Attribution(used[ranked], importances[ranked], booster.best_iteration, tuple(failures))


def _matrix(
    universe: Universe, candidates: Array, block: Block, engine: Engine
) -> tuple[Array, Array, list[Failure]]:
    """float64, shape (rows, candidates + features); infinite values are missing; codes are numbers."""
    operators, left, right = universe.decode(candidates)
    table = block.table
    matrix = np.empty((table.rows, len(candidates) + len(table)), order="F")

    def fill(position: int) -> Failure | None:
        operator = universe.operators[operators[position]]
        try:
            values = compute(operator, table, int(left[position]), int(right[position]))
        except Exception as error:
            candidate = int(candidates[position])
            formula = universe.expression(candidate).formula
            return Failure(candidate, formula, "attribution", f"{type(error).__name__}: {error}")
        matrix[:, position] = finite(values)
        return None

    failures = [f for f in engine.map(fill, range(len(candidates))) if f]
    matrix[:, len(candidates) :] = table.matrix()
    failed = np.isin(candidates, [f.candidate for f in failures])
    if failed.any():
        matrix = matrix[:, np.append(~failed, np.ones(len(table), dtype=bool))]
    return matrix, candidates[~failed], failures


def _permuted_loss(booster: object, held: Part, block: Block, column: int, threads: int) -> float:
    rng = np.random.default_rng([SEED, column])
    values = held.values.copy()
    values[:, column] = rng.permutation(values[:, column])
    assert held.start is not None
    return block.objective.loss(held.target, held.start + raw_scores(booster, values, threads))  # type: ignore[arg-type]
