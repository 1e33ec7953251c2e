"""The splits of a LightGBM on the original features."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np

from scopefe.components import Array
from scopefe.data.table import Table
from scopefe.errors import DataError
from scopefe.score.baseline import Fold, fold_rows
from scopefe.score.boosting import parameters, threads_for
from scopefe.score.engine import Engine
from scopefe.score.objective import Objective
from scopefe.space.context import Splits

TREES, PARTS = 100, 5


def tree_splits(
    table: Table,
    target: Array,
    objective: Objective,
    engine: Engine,
    *,
    learning_rate: float,
    early_stopping: int,
    seed: int,
    weights: Array | None = None,
    groups: Array | None = None,
) -> Splits:
    """Train a LightGBM on four fifths of the rows, and return its splits up to the best iteration.

    The other fifth, the first fold of the baseline's kind, stops it early.

    Parameters
    ----------
    table
        The rows, in their order.
    target
        float64, shape (rows,).
    weights
        What each row counts, shape (rows,); None where all count the same.
    groups
        int64, shape (rows,): the group of each row, which is on one side; None where there are none.

    Raises
    ------
    DataError
        If there are fewer than five rows.
    """
    if len(target) < PARTS:
        raise DataError(f"{len(target)} rows are too few for a model whose splits are asked for")
    threads = threads_for(len(target), len(table), engine.local.jobs)
    options = parameters(objective, seed=seed, threads=threads, learning_rate=learning_rate)
    fold = Fold(table, target, options, TREES, early_stopping, weights)
    return splits_of(fold.train(fold_rows(target, objective, PARTS, groups)[0])[1])


def splits_of(booster: lgb.Booster) -> Splits:
    """Return the splits of a booster's trees up to the best iteration."""
    feature: list[int] = []
    parent: list[int] = []
    gain: list[float] = []
    trees = booster.dump_model(num_iteration=booster.best_iteration)["tree_info"]
    nodes = [(tree["tree_structure"], -1) for tree in reversed(trees)]
    while nodes:
        node, above = nodes.pop()
        if "split_feature" not in node:
            continue
        nodes += [(node[side], len(feature)) for side in ("right_child", "left_child")]
        feature.append(node["split_feature"])
        parent.append(above)
        gain.append(node["split_gain"])
    return Splits(
        np.array(feature, dtype=np.int64), np.array(parent, dtype=np.int64), np.array(gain, dtype=np.float64)
    )
