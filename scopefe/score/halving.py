"""Successive feature-wise halving, the first stage of OpenFE's selection."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scopefe.components import Array
from scopefe.data.splits import group_folds
from scopefe.space.context import agreement

SAME = 1e-20
FALLBACK = 100


@dataclass(frozen=True, eq=False)
class Round:
    """One pass over the remaining candidates.

    Parameters
    ----------
    train_rows, selection_rows
        Number of rows scored on.
    candidates
        int64 ids in the order they were scored.
    gains
        float64, one per candidate; NaN where it failed.
    agreement
        Mean correlation of the gains of two folds, of cross-fitted gains.
    same
        How many were dropped because their gain equals that of a better-placed one.
    kept
        int64 ids that go on, best first.
    """

    train_rows: int
    selection_rows: int
    candidates: Array
    gains: Array
    agreement: float | None
    same: int
    kept: Array


@dataclass(frozen=True, eq=False)
class Halving:
    """The rounds, and the survivors, best first."""

    rounds: tuple[Round, ...]
    survivors: Array


def row_blocks(rows: int, blocks: int, rng: random.Random) -> list[list[int]]:
    """Return growing sets of shuffled positions: a first block, then twice as many each time, then all."""
    positions = list(range(rows))
    rng.shuffle(positions)
    return [positions[:size] for size in block_sizes(rows, blocks)]


def round_rows(train: int, selection: int, blocks: int, rng: random.Random) -> list[tuple[Array, int]]:
    """Return the rows of each round: int64 positions, training rows first, and how many of them these are.

    Where a first block would be empty, there is one round, of all rows.
    """
    fit, held = row_blocks(train, blocks, rng), row_blocks(selection, blocks, rng)
    if not fit[0] or not held[0]:
        fit, held = fit[-1:], held[-1:]
    return [
        (np.array([*some, *(train + p for p in others)], dtype=np.int64), len(some))
        for some, others in zip(fit, held, strict=True)
    ]


def block_sizes(rows: int, blocks: int) -> list[int]:
    """Return the number of rows of each set of `row_blocks`."""
    return [*(rows // blocks * 2**r for r in range(blocks.bit_length() - 1)), rows]


def kept_at_most(scored: int, min_candidates: int) -> int:
    """Return how many of the candidates scored go on to another round."""
    return max(scored // 2, min(scored, min_candidates))


def rounds_at_most(
    candidates: int, *, train: int, selection: int, blocks: int, min_candidates: int
) -> list[tuple[int, int]]:
    """Return (rows, candidates) of each round of `halve`, if all gains are different."""
    sizes = list(zip(block_sizes(train, blocks), block_sizes(selection, blocks), strict=True))
    if not all(sizes[0]):
        sizes = sizes[-1:]
    rounds, remaining, place, last = [], candidates, 0, len(sizes) - 1
    while True:
        rounds.append((sum(sizes[place]), remaining))
        if place == last:
            return rounds
        remaining = kept_at_most(remaining, min_candidates)
        place = last if remaining <= min_candidates else place + 1


def halve(
    candidates: Array,
    score: Callable[[Array, Array, int], Array],
    *,
    train: int,
    selection: int,
    blocks: int,
    min_candidates: int,
    rng: random.Random,
    stops: Callable[[], bool],
    every: bool = False,
) -> Halving:
    """Score candidates on growing row blocks, keeping the better half each time.

    Parameters
    ----------
    candidates
        int64 ids, in universe order.
    score
        ``(ids, positions, fitted) → gains``, shape (ids, folds): positions of the rows among the development
        rows, the first `fitted` of them from the training rows.
    train, selection
        Number of rows of each role; training rows come first.
    blocks
        Number of row blocks, a power of two.
    min_candidates
        When no more than so many are kept, the next round is the last and takes all rows.
    rng
        Python's random stream: shuffles the rows, then the candidates before each pass, as the openfe
        package does.
    stops
        Asked before every further round; True makes the round before it the last.
    every
        Drop none but those that fail.
    """
    rows_by_round = round_rows(train, selection, blocks, rng)
    rounds: list[Round] = []
    remaining, place, last = candidates, 0, len(rows_by_round) - 1
    while True:
        order = list(range(len(remaining)))
        rng.shuffle(order)
        shuffled = remaining[order]
        rows, fitted = rows_by_round[place]
        by_fold = score(shuffled, rows, fitted)
        gains = by_fold.mean(axis=1)
        ranked = np.argsort(-gains, kind="stable")[: np.count_nonzero(~np.isnan(gains))]
        distinct = ranked if rounds or every else _distinct(ranked, gains)
        final = place == last or stops()
        if every:
            kept = ranked
        elif final:
            kept = distinct[gains[distinct] > 0]
            kept = kept if len(kept) else distinct[:FALLBACK]
        else:
            kept = distinct[: kept_at_most(len(distinct), min_candidates)]
        remaining = shuffled[kept]
        same = len(ranked) - len(distinct)
        rounds.append(Round(fitted, len(rows) - fitted, shuffled, gains, agreement(by_fold), same, remaining))
        if final:
            return Halving(tuple(rounds), remaining)
        place = last if len(kept) <= min_candidates else place + 1


def folded(target: Array, folds: int, groups: Array | None = None) -> list[tuple[Array, int]]:
    """Return each fold's rows, those to learn from before those to measure on, and how many the first are.

    Parameters
    ----------
    target
        The target on rows in random order; folds are balanced in it.
    groups
        int64: the group of each of these rows, which no fold takes apart; None where there are none.
    """
    rows = np.arange(len(target))
    if groups is not None:
        fold = group_folds(groups, folds)
    else:
        fold = np.empty(len(rows), dtype=np.int64)
        fold[np.argsort(target, kind="stable")] = np.arange(len(rows)) % folds
    parts = [(rows[fold != number], rows[fold == number]) for number in range(folds)]
    return [(np.concatenate([fit, held]), len(fit)) for fit, held in parts if len(held)]


def _distinct(ranked: Array, gains: Array) -> Array:
    """Drop, from positions ranked by gain, those whose gain equals that of the one kept before."""
    kept: list[int] = []
    for position in ranked:
        if not kept or not abs(gains[position] - gains[kept[-1]]) < SAME:
            kept.append(int(position))
    return np.array(kept, dtype=np.int64)
