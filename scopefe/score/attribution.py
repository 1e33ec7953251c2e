"""Feature attribution, the second stage of OpenFE's selection."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

import lightgbm as lgb
import numpy as np

from scopefe.components import Array
from scopefe.data.table import finite
from scopefe.score.boosting import Part, binned, boost, parameters, raw_scores, threads_for
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

    Survivors and features are held as float64 once, until LightGBM has binned them.

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
    fit, held, used, failures = _parts(universe, shuffled, block, engine.local)
    threads = threads_for(block.fitted, fit.values.shape[1], engine.local.jobs)
    options = parameters(block.objective, seed=SEED, threads=threads, num_leaves=LEAVES)
    categorical = [len(used) + i for i in block.table.categorical()]
    data = binned(options, fit, categorical)
    del fit
    valid = binned(options, held, categorical, data)
    booster, best = boost(options, data, valid, trees=TREES, patience=PATIENCE)
    if method == "gain":
        importances = booster.feature_importance("gain", iteration=booster.best_iteration)[: len(used)]
    else:
        losses = [_permuted_loss(booster, held, block, column, threads) for column in range(len(used))]
        importances = block.objective.sign * (np.array(losses) - best)
    importances = np.asarray(importances, dtype=np.float64)
    ranked = np.argsort(-importances, kind="stable")
    return Attribution(used[ranked], importances[ranked], booster.best_iteration, tuple(failures))


def _parts(
    universe: Universe, candidates: Array, block: Block, local: Engine
) -> tuple[Part, Part, Array, list[Failure]]:
    """Return rows to fit and to stop by, the candidates that are in them, and the failures.

    Columns are the candidates, then the features; infinite values are missing, codes are numbers.
    """
    table, n, width = block.table, block.fitted, len(candidates)
    operators, left, right = universe.decode(candidates)
    values = [np.empty((rows, width + len(table)), order="F") for rows in (n, table.rows - n)]

    def write(place: int, column: Array) -> None:
        values[0][:, place], values[1][:, place] = column[:n], column[n:]

    def fill(place: int) -> Failure | None:
        chosen = universe.operators[operators[place]]
        try:
            write(place, finite(compute(chosen, table, int(left[place]), int(right[place]))))
        except Exception as error:
            candidate = int(candidates[place])
            formula = universe.expression(candidate).formula
            return Failure(candidate, formula, "attribution", f"{type(error).__name__}: {error}")
        return None

    failures = [failure for failure in local.map(fill, range(width)) if failure]
    for i in range(len(table)):
        write(width + i, table[i].model_values())
    used = ~np.isin(candidates, [f.candidate for f in failures])
    if failures:
        values = [_without(part, np.flatnonzero(~used)) for part in values]
    fit, held = (
        Part(part, block.target[rows], block.scores[rows])
        for part, rows in zip(values, (slice(n), slice(n, None)), strict=True)
    )
    return fit, held, candidates[used], failures


def _without(matrix: Array, columns: Array) -> Array:
    """Close the gaps that columns leave, in the matrix itself."""
    kept = np.delete(np.arange(matrix.shape[1]), columns)
    for place, column in enumerate(kept):
        matrix[:, place] = matrix[:, column]
    return matrix[:, : len(kept)]


def _permuted_loss(booster: lgb.Booster, held: Part, block: Block, column: int, threads: int) -> float:
    rng = np.random.default_rng([SEED, column])
    own = held.values[:, column].copy()
    held.values[:, column] = rng.permutation(own)
    scores = raw_scores(booster, held.values, threads)
    held.values[:, column] = own
    assert held.start is not None
    return block.objective.loss(held.target, held.start + scores)
