"""Importance on rows that no tree has seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import lightgbm as lgb
import numpy as np

from scopefe.components import Array
from scopefe.score.boosting import Part
from scopefe.score.objective import Objective

Step = tuple[int, float, float]


def held_out_gains(booster: lgb.Booster, part: Part, objective: Objective, threads: int) -> Array:
    """Return by how much the splits on each column lower the loss of rows that were not trained on.

    On its way down a tree a row's score goes, at each split, from the output of the node it leaves to that of
    the node it enters. What this changes in the loss, to second order at the scores before the tree, is put
    down to the column of the split. A column that was split on by chance gains nothing, or less.

    Parameters
    ----------
    part
        The rows, with all columns, and the scores that the first tree starts from.

    Returns
    -------
    ndarray
        float64, shape (columns,).
    """
    assert part.start is not None
    rounds, outputs = booster.best_iteration, objective.columns
    leaves = booster.predict(part.values, pred_leaf=True, num_iteration=rounds, num_threads=threads)
    leaves = np.asarray(leaves).astype(np.int64).reshape(len(part.values), -1)
    scores = np.array(part.start, dtype=np.float64).reshape(len(leaves), outputs)
    trees = booster.dump_model(num_iteration=rounds)["tree_info"]
    gains = np.zeros(part.values.shape[1])
    for first in range(0, len(trees), outputs):
        now = scores if outputs > 1 else scores[:, 0]
        derivatives = objective.derivatives(part.target, now, part.weights)
        for output, tree in enumerate(trees[first : first + outputs]):
            paths = dict(_paths(tree["tree_structure"], ()))
            reached, size = leaves[:, first + output], max(paths) + 1
            slope, curve = (np.bincount(reached, weights=d[output], minlength=size) for d in derivatives)
            for leaf, steps in paths.items():
                for column, before, after in steps:
                    moved, squared = after - before, after**2 - before**2
                    gains[column] -= slope[leaf] * moved + curve[leaf] * squared / 2
            values = np.zeros(size)
            values[list(paths)] = [steps[-1][2] if steps else 0.0 for steps in paths.values()]
            scores[:, output] += values[reached]
    return gains


def _paths(node: Mapping[str, Any], above: tuple[Step, ...]) -> Iterator[tuple[int, tuple[Step, ...]]]:
    """Yield each leaf of a tree with its way there: column of the split, output before and after."""
    if "split_feature" not in node:
        yield int(node.get("leaf_index", 0)), above
        return
    for child in (node["left_child"], node["right_child"]):
        after = child.get("internal_value", child.get("leaf_value"))
        yield from _paths(child, (*above, (node["split_feature"], node["internal_value"], after)))
