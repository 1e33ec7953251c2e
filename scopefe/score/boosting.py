"""LightGBM's native interface, made deterministic: one place for its parameters and its training loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import lightgbm as lgb
import numpy as np

from scopefe.components import Array
from scopefe.score.engine import checkpoint
from scopefe.score.objective import Objective

CELLS_PER_THREAD = 1_000_000


@dataclass(frozen=True, eq=False)
class Part:
    """Rows of a model matrix with their targets and starting scores.

    Parameters
    ----------
    values
        float64, shape (n, columns).
    target
        float64, shape (n,).
    start
        Raw scores to start from, shape (n,) or (n, classes); None to start from the average.
    """

    values: Array
    target: Array
    start: Array | None = None


def parameters(objective: Objective, *, seed: int, threads: int, **others: Any) -> dict[str, Any]:
    """Return LightGBM parameters under which a result depends on the seed only, not on the threads."""
    return {
        **objective.lightgbm(),
        "seed": seed,
        "num_threads": threads,
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
        **others,
    }


def threads_for(rows: int, columns: int, cores: int) -> int:
    """Return how many threads training pays for: with little data they mostly wait for each other."""
    return max(1, min(cores, rows * columns // CELLS_PER_THREAD))


def train(
    chosen: Mapping[str, Any],
    fit: Part,
    valid: Part,
    *,
    categorical: list[int],
    trees: int,
    patience: int,
) -> tuple[lgb.Booster, float]:
    """Train with early stopping; see `binned` and `boost`."""
    data = binned(chosen, fit, categorical)
    return boost(chosen, data, binned(chosen, valid, categorical, data), trees=trees, patience=patience)


def binned(
    chosen: Mapping[str, Any], part: Part, categorical: list[int], like: lgb.Dataset | None = None
) -> lgb.Dataset:
    """Return a part as LightGBM works with it, about a byte per value; the values are needed no longer.

    Parameters
    ----------
    chosen
        LightGBM parameters.
    categorical
        Positions of the categorical columns.
    like
        Training rows whose bins are taken.
    """
    return lgb.Dataset(
        part.values,
        label=part.target,
        init_score=part.start,
        reference=like,
        categorical_feature=categorical if like is None else "auto",
        params=dict(chosen),
        free_raw_data=True,
    ).construct()


def boost(
    chosen: Mapping[str, Any], data: lgb.Dataset, held: lgb.Dataset, *, trees: int, patience: int
) -> tuple[lgb.Booster, float]:
    """Train on binned rows with early stopping.

    Parameters
    ----------
    chosen
        LightGBM parameters with exactly one metric.
    data, held
        Rows to train on and rows to stop by.
    trees, patience
        Number of rounds at most, and without improvement.

    Returns
    -------
    tuple
        The booster, with ``best_iteration`` set, and the best value of the metric.
    """
    booster = lgb.Booster(dict(chosen), data)
    booster.add_valid(held, "valid")
    best, best_round = np.inf, 0
    for rounds in range(1, trees + 1):
        checkpoint()
        finished = booster.update()
        value, larger = booster.eval_valid()[0][2:4]
        loss = -value if larger else value
        if loss < best:
            best, best_round = loss, rounds
        if finished or rounds - best_round >= patience:
            break
    booster.best_iteration = best_round
    return booster, float(-best if larger else best)


def raw_scores(booster: lgb.Booster, values: Array, threads: int) -> Array:
    """Return raw scores at the best iteration, shape (n,) or (n, classes)."""
    return cast(
        Array,
        booster.predict(values, raw_score=True, num_iteration=booster.best_iteration, num_threads=threads),
    )
