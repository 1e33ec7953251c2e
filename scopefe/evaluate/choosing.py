"""How many of the ranked features to keep: as many as help on rows that took no part in the search."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice, zip_longest
from typing import Any

import numpy as np

from scopefe.components import Array
from scopefe.data.dataset import Dataset
from scopefe.data.table import Table, finite
from scopefe.evaluate.downstream import predict
from scopefe.recipe.matrix import Matrix
from scopefe.score.engine import Engine
from scopefe.score.featureboost import model_values
from scopefe.score.objective import DEFAULT_METRIC, Objective
from scopefe.score.selection import Selected
from scopefe.space.universe import Universe

SIZES = (1, 2, 5, 10, 20, 50, 100)
PARTS, SEEDS, DRAWS, ALPHA, TAIL, TINY = 5, 2, 2_000, 0.05, 0.01, 1e-12


@dataclass(frozen=True, eq=False)
class Choice:
    """How many features to keep, and why.

    Parameters
    ----------
    rows
        Number of rows that decided.
    sizes
        int64: numbers of features that were tried.
    decreases
        float64, one per size: by how much the loss of a row is lower than without features, on average.
    errors
        float64: their standard errors.
    clipped, clipped_errors
        float64: the same where a few rows do not decide; see `clip`.
    p
        Probability of a decrease as sure as the surest one, if no number of features helped.
    kept
        How many to keep.
    """

    rows: int
    sizes: Array
    decreases: Array
    errors: Array
    clipped: Array
    clipped_errors: Array
    p: float
    kept: int


@dataclass(frozen=True, eq=False)
class Trial:
    """Features that a search found, to be tried on rows that it has not seen.

    Parameters
    ----------
    data
        The search's training and selection rows; the rows it has not seen are the test rows.
    matrix
        Original features, then new ones by rank, as learned from training and selection rows.
    """

    data: Dataset
    matrix: Matrix


def considered(universe: Universe, table: Table, selected: Selected, most: int) -> Array:
    """Return the ids, by rank, of candidates that may be kept.

    They take turns, by importance and by gain: the model that tells importance may have stopped after a tree
    or two. If none has any importance, nothing is considered. Those are left out that have the values of an
    original feature or of one that ranks better, up to a monotone change: no tree can tell these apart.

    Parameters
    ----------
    table
        Rows by which values are compared.
    most
        Number of ids at most.
    """
    originals = [table.passing(i) for i in range(len(table))]
    seen = {_order(f.model_values(), f.kind == "categorical") for f in originals}
    kept: list[int] = []
    for candidate in _by_turns(selected):
        operator, left, right = (int(part[0]) for part in universe.decode(np.array([candidate])))
        values, categorical = model_values(universe, table, operator, left, right)
        order = _order(finite(values), categorical)
        if order not in seen:
            seen.add(order)
            kept.append(candidate)
        if len(kept) == most:
            break
    return np.array(kept, dtype=np.int64)


def _by_turns(selected: Selected) -> list[int]:
    """Return ids by turns, the best of those with importance, then the best by gain; none if none has any."""
    ranked = selected.attribution
    useful = ranked.candidates[ranked.importances > 0].tolist()
    gains = {i: gain for i in ranked.candidates.tolist() if (gain := selected.gains.get(i, 0.0)) > 0}
    by_gain = sorted(gains, key=lambda i: -gains[i])
    turns = chain.from_iterable(zip_longest(useful, by_gain)) if useful else ()
    return [i for i in dict.fromkeys(turns) if i is not None]


def _order(values: Array, categories: bool = False) -> bytes:
    """Return what columns share that order the rows alike, or the other way round; or group them alike."""
    missing = np.isnan(values)
    distinct, codes = np.unique(values[~missing], return_inverse=True)
    if categories:
        _, first = np.unique(codes, return_index=True)
        codes = np.argsort(np.argsort(first))[codes]
    ranks = np.full((2, len(values)), -1, dtype=np.int64)
    ranks[:, ~missing] = codes, codes if categories else len(distinct) - 1 - codes
    return min(hashlib.blake2b(row.data, digest_size=16).digest() for row in ranks) + bytes([categories])


def choose(
    trials: Iterable[Trial],
    engine: Engine,
    *,
    most: int,
    learner: str,
    parameters: Mapping[str, Any],
    max_trees: int,
    early_stopping: int,
    seed: int,
) -> Choice:
    """Choose how many of the ranked features to keep, none of them included.

    Models with the first features, of several numbers of them, are compared with models without any by the
    loss of each row that they did not see. One test is made of all sizes, each looked at twice, as it is and
    with a few rows' weight clipped: the largest ratio of mean decrease to standard error is held against the
    largest that chance gives; see `chance`. Where that would do as well in 5 % of cases, nothing is kept;
    else the size with the largest mean decrease, clipped or not as the surest one is. Either is a decrease of
    the mean loss. Rows that the split keeps together count as one.

    Parameters
    ----------
    trials
        Made one at a time; where one has fewer features than a size, it takes all it has. Without any,
        nothing is kept.
    most
        Largest number of features to try.
    seed
        Seed of the draws.
    """
    sizes = sizes_up_to(most)
    train = partial(
        predict,
        engine=engine,
        learner=learner,
        parameters=parameters,
        max_trees=max_trees,
        early_stopping=early_stopping,
    )
    tried = [(len(trial.data.rows.test), _decreases(trial, sizes, train)) for trial in trials]
    if not tried:
        nothing = np.zeros(len(sizes))
        return Choice(0, sizes, nothing, nothing, nothing, nothing, 1.0, 0)
    rows, lower = sum(rows for rows, _ in tried), np.concatenate([units for _, units in tried])
    return decided(lower * (len(lower) / rows), rows, sizes, np.random.default_rng(seed))


def decided(lower: Array, rows: int, sizes: Array, rng: np.random.Generator) -> Choice:
    """Return the choice that decreases of so many rows lead to; see `choose`.

    Parameters
    ----------
    lower
        float64, shape (units, sizes): decreases of each row or group; their mean is that of a row.
    """
    both = np.stack([lower, clip(lower)])
    means, errors = both.mean(axis=1), both.std(axis=1) / np.sqrt(max(len(lower) - 1, 1))
    p = chance(np.concatenate([*both], axis=1), rng)
    ratios = np.divide(means, errors, out=np.zeros_like(means), where=errors > 0)
    surest = ratios.max(axis=1).argmax()
    kept = int(sizes[means[surest].argmax()]) if p < ALPHA else 0
    return Choice(rows, sizes, means[0], errors[0], means[1], errors[1], p, kept)


def clip(lower: Array) -> Array:
    """Return decreases with those of a few rows drawn in, so that these do not decide alone.

    Of each size, the hundredth with the largest changes, either way, is drawn in to the others. Where that
    would raise the mean, because a few rows get much worse, nothing is drawn in: what helps most rows and
    harms the mean is no help.

    Parameters
    ----------
    lower
        float64, shape (units, sizes): decreases of each row or group.
    """
    most = np.quantile(np.abs(lower), 1 - TAIL, axis=0)
    drawn_in = np.clip(lower, -most, most)
    return np.where(drawn_in.mean(axis=0) <= lower.mean(axis=0), drawn_in, lower)


def sizes_up_to(most: int) -> Array:
    """Return the numbers of features that are tried, int64."""
    return np.array([*(size for size in SIZES if size < most), most], dtype=np.int64)


def _decreases(trial: Trial, sizes: Array, train: Callable[..., Iterator[tuple[Array, int]]]) -> Array:
    """Return by how much the loss of each row, as it counts, is lower with features, shape (units, sizes).

    Rows that the split keeps together are one unit, the sum of theirs.
    """
    task, classes = trial.data.labels.task, len(trial.data.labels.classes)
    rows = trial.data.rows.test
    target, weights = trial.data.scaled(rows), trial.data.weights_of(rows)
    base = len(trial.data.table)
    tried, places = np.unique(
        np.minimum(np.append(0, sizes), len(trial.matrix.columns) - base), return_inverse=True
    )
    scores = train(
        trial.data,
        trial.matrix,
        stopping=DEFAULT_METRIC[task],
        widths=(base + tried).tolist(),
        seeds=range(SEEDS),
    )
    losses = np.empty((len(rows), len(tried)))
    for column in range(len(tried)):
        mean = np.mean([score for score, _ in islice(scores, SEEDS)], axis=0)
        each = Objective.of(task, classes).row_losses(target, mean)
        losses[:, column] = each if weights is None else each * weights / weights.mean()
    lower: Array = losses[:, :1] - losses[:, places[1:]]
    groups = trial.data.groups_of(rows)
    if groups is None:
        return lower
    number = np.unique(groups, return_inverse=True)[1]
    return np.stack([np.bincount(number, column) for column in lower.T], axis=1)


def chance(lower: Array, rng: np.random.Generator) -> float:
    """Return how often the surest of several mean decreases would be as sure if all were 0 on average.

    How sure is the ratio of a mean to its standard error. Chance is what units drawn again, with replacement,
    show of the same ratios around their means (bootstrap), so that skewed decreases are no surer than they
    are.

    Parameters
    ----------
    lower
        float64, shape (units, sizes): decreases of each row or group.
    """
    units, spread = len(lower), lower.std(axis=0)
    moves = spread > TINY
    if units < 2 or not moves.any():
        return 1.0
    scaled = lower[:, moves] / spread[moves]
    observed = scaled.mean(axis=0)
    centred = scaled - observed
    squared = np.square(centred)
    surest = np.empty(DRAWS)
    for draw in range(DRAWS):
        shares = np.bincount(rng.integers(units, size=units), minlength=units) / units
        means = shares @ centred
        surest[draw] = (means / np.sqrt(np.maximum(shares @ squared - np.square(means), TINY))).max()
    return (1 + int((surest >= observed.max()).sum())) / (1 + DRAWS)
