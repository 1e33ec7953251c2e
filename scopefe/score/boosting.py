"""LightGBM's native interface, made deterministic: one place for its parameters and its training loop."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import lightgbm as lgb
import numpy as np

from scopefe.components import Array
from scopefe.score.engine import checkpoint
from scopefe.score.objective import Objective

CELLS_PER_THREAD = 1_000_000
CELLS_AT_ONCE = 2**22
_warnings = threading.Lock()


Rows = slice | Array
Each = Callable[[Callable[[int], None], Iterable[int]], Iterable[None]]


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
    weights
        What each row counts, shape (n,); None where all count the same.
    """

    values: Array
    target: Array
    start: Array | None = None
    weights: Array | None = None


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
    chosen: Mapping[str, Any],
    part: Part,
    categorical: list[int],
    like: lgb.Dataset | None = None,
    *,
    first: int = 0,
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
    first
        Number of the first column.
    """
    return lgb.Dataset(
        part.values,
        label=part.target,
        weight=part.weights,
        init_score=part.start,
        reference=like,
        feature_name=[f"f{first + i}" for i in range(part.values.shape[1])] if like is None else "auto",
        categorical_feature=categorical if like is None else "auto",
        params=dict(chosen),
        free_raw_data=True,
    ).construct()


@dataclass(frozen=True, eq=False)
class Design:
    """A model matrix that is made column by column.

    Parameters
    ----------
    column
        Gives the float64 values of a column, shape (rows,).
    width
        Number of columns.
    categorical
        Positions of the categorical columns.
    target, start, weights
        See `Part`.
    release
        Called when some of the columns are binned.
    """

    column: Callable[[int], Array]
    width: int
    categorical: Sequence[int]
    target: Array
    start: Array | None = None
    weights: Array | None = None
    release: Callable[[], None] = lambda: None

    def part(self, columns: range, rows: Sequence[Rows], each: Each = map) -> list[Part]:
        """Return the values of some columns, once for each of the rows."""
        targets = [self.target[chosen] for chosen in rows]
        matrices = [np.empty((len(target), len(columns)), order="F") for target in targets]

        def fill(place: int) -> None:
            values = self.column(columns[place])
            for matrix, chosen in zip(matrices, rows, strict=True):
                matrix[:, place] = values[chosen]

        for _ in each(fill, range(len(columns))):
            checkpoint()
        starts, weights = (
            [None if given is None else given[chosen] for chosen in rows]
            for given in (self.start, self.weights)
        )
        return [Part(*part) for part in zip(matrices, targets, starts, weights, strict=True)]

    def binned(
        self, chosen: Mapping[str, Any], fit: Rows, held: Rows, each: Each = map
    ) -> tuple[lgb.Dataset, lgb.Dataset]:
        """Bin rows to train on and rows to stop by; few columns at once are held as float64.

        Where all columns are too many to be held at once, LightGBM bundles none of them, not even exclusive
        ones: which it would find among those it sees is a matter of chance.
        """
        lots: list[lgb.Dataset] = []
        step = max(1, CELLS_AT_ONCE // max(len(self.target), 1))
        if step < self.width:
            chosen = {**chosen, "enable_bundle": False}
        for first in range(0, self.width, step):
            columns = range(first, min(first + step, self.width))
            parts = self.part(columns, (fit, held), each)
            categorical = [i - first for i in self.categorical if i in columns]
            data = binned(chosen, parts.pop(0), categorical, first=first)
            lot = [data, binned(chosen, parts.pop(0), categorical, data)]
            lots = [_join(*both) for both in zip(lots, lot, strict=True)] if lots else lot
            self.release()
        data, valid = lots
        return data, valid

    def raw_scores(self, booster: lgb.Booster, rows: Array, threads: int) -> Array:
        """Return raw scores of rows; see `raw_scores`."""
        lots = np.array_split(rows, -(-len(rows) * self.width // CELLS_AT_ONCE))
        values = (self.part(range(self.width), [lot])[0].values for lot in lots)
        return np.concatenate([raw_scores(booster, matrix, threads) for matrix in values])


def _join(data: lgb.Dataset, more: lgb.Dataset) -> lgb.Dataset:
    with _warnings, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return data.add_features_from(more)


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
