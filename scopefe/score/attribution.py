"""Feature attribution, the second stage of OpenFE's selection."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

import lightgbm as lgb
import numpy as np

from scopefe.components import CAT, Array
from scopefe.data.table import Table, finite
from scopefe.score.boosting import CELLS_AT_ONCE, Design, Part, boost, parameters, raw_scores, threads_for
from scopefe.score.engine import Engine
from scopefe.score.featureboost import Block, Failure, compute, model_values
from scopefe.score.held_out import held_out_gains
from scopefe.space.universe import Universe

TREES, LEAVES, PATIENCE, SEED = 1000, 16, 50, 1


@dataclass(frozen=True, eq=False)
class Attribution:
    """Survivors ranked by importance.

    Parameters
    ----------
    candidates
        int64 ids, most important first. Those without importance stay in their shuffled order, as in OpenFE;
        of held-out gains, whose model may have few trees, they are in the order of the survivors.
    importances
        float64, one per candidate: total gain on the training rows, increase of the loss under permutation,
        or total gain on the selection rows.
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
    method: Literal["gain", "permutation", "held-out"],
    rng: random.Random,
) -> Attribution:
    """Rank survivors by their importance in one LightGBM on survivors and original features.

    Rows are held in LightGBM's bins, about a byte per value, and few columns at once as float64; permutation
    and held-out gains also need all columns of the selection rows as float64.

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
    made = _Columns(universe, shuffled, block.table)
    design = Design(
        made, len(made), made.categorical(), block.target, block.scores, block.weights, made.release
    )
    threads = threads_for(block.fitted, design.width, engine.local.jobs)
    options = parameters(block.objective, seed=SEED, threads=threads, num_leaves=LEAVES)
    fit, held = slice(block.fitted), slice(block.fitted, None)
    booster, best = boost(
        options, *design.binned(options, fit, held, engine.local.map), trees=TREES, patience=PATIENCE
    )
    used = np.flatnonzero([i not in made.failures for i in range(len(shuffled))])
    if method == "gain":
        importances = booster.feature_importance("gain", iteration=booster.best_iteration)[used]
    else:
        part = design.part(range(design.width), [held], engine.local.map)[0]
        if method == "held-out":
            importances = held_out_gains(booster, part, block.objective, threads)[used]
        else:
            losses = [_permuted_loss(booster, part, block, column, threads) for column in used.tolist()]
            importances = block.objective.sign * (np.array(losses) - best)
    importances = np.asarray(importances, dtype=np.float64)
    if method == "held-out":
        ranked = np.lexsort([np.array(order)[used], -np.maximum(importances, 0.0)])
    else:
        ranked = np.argsort(-importances, kind="stable")
    return Attribution(
        shuffled[used][ranked],
        importances[ranked],
        booster.best_iteration,
        tuple(made.failures[i] for i in sorted(made.failures)),
    )


class _Columns:
    """Model columns: candidates, then features; infinite values are missing.

    Categories are those that the recipe declares; as OpenFE treats them, codes of candidates are numbers, and
    missing is a category of an original feature. A candidate that cannot be computed is missing throughout,
    so that no model uses it.
    """

    def __init__(self, universe: Universe, candidates: Array, table: Table) -> None:
        self.failures: dict[int, Failure] = {}
        self._universe, self._candidates, self._table = universe, candidates, table
        self._decoded = universe.decode(candidates)
        self._declared = universe.levels is not None

    def __len__(self) -> int:
        return len(self._candidates) + len(self._table)

    def __call__(self, place: int) -> Array:
        feature = place - len(self._candidates)
        if feature >= 0:
            original = self._table.passing(feature)
            return original.declared_values() if self._declared else original.model_values()
        try:
            return self._candidate(place)[0]
        except Exception as error:
            candidate = int(self._candidates[place])
            formula = self._universe.expression(candidate).formula
            text = f"{type(error).__name__}: {error}"
            self.failures[place] = Failure(candidate, formula, "attribution", text)
            return np.full(self._table.rows, np.nan)

    def _candidate(self, place: int) -> tuple[Array, bool]:
        """Return the values of a candidate, and whether they are categories."""
        operator, left, right = (int(column[place]) for column in self._decoded)
        if self._declared:
            values, categorical = model_values(self._universe, self._table, operator, left, right)
            return finite(values), categorical
        return finite(compute(self._universe.operators[operator], self._table, left, right)), False

    def _is_categorical(self, place: int) -> bool:
        if not self._declared or self._universe.operators[self._decoded[0][place]].gives != CAT:
            return False
        try:
            return self._candidate(place)[1]
        except Exception:  # told when its column is made
            return False

    def release(self) -> None:
        """Drop the columns that candidates are made of, where these are more than are binned at once."""
        if len(self._table) * self._table.rows > CELLS_AT_ONCE:
            self._table.forget()

    def categorical(self) -> list[int]:
        """Return the positions of the columns that are categorical."""
        candidates = [i for i in range(len(self._candidates)) if self._is_categorical(i)]
        return [*candidates, *(len(self._candidates) + i for i in self._table.categorical())]


def _permuted_loss(booster: lgb.Booster, held: Part, block: Block, column: int, threads: int) -> float:
    rng = np.random.default_rng([SEED, column])
    own = held.values[:, column].copy()
    held.values[:, column] = rng.permutation(own)
    scores = raw_scores(booster, held.values, threads)
    held.values[:, column] = own
    assert held.start is not None
    return block.objective.loss(held.target, held.start + scores, held.weights)
