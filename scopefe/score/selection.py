"""What a selection engine gives, and the native one: halving, attribution, the best k."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from scopefe.components import Array
from scopefe.score.attribution import Attribution, attribute
from scopefe.score.engine import Engine
from scopefe.score.featureboost import Block, Evaluator, Failure, Gains, Measured, score
from scopefe.score.halving import Halving, folded, halve
from scopefe.space.universe import Universe
from scopefe.spec.models import Selection

Timed = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
Scored = tuple[Array, list[Failure]]


@dataclass(frozen=True, eq=False)
class Selected:
    """What selection did.

    Parameters
    ----------
    halving
        Rounds and survivors.
    attribution
        Survivors by importance.
    failures
        Candidates that could not be computed or scored.
    """

    halving: Halving
    attribution: Attribution
    failures: tuple[Failure, ...] = ()
    gains: dict[int, float] = field(default_factory=dict)

    @classmethod
    def nothing(cls) -> Selected:
        """Return the selection from an empty pool."""
        none = np.empty(0, dtype=np.int64)
        return cls(Halving((), none), Attribution(none, np.empty(0), 0, ()))


class SelectionEngine(Protocol):
    """Selects from a pool."""

    def __call__(
        self,
        universe: Universe,
        candidates: Array,
        block: Block,
        settings: Selection,
        seed: int,
        step: Timed,
    ) -> Selected:
        """Select.

        Parameters
        ----------
        candidates
            int64 ids, in universe order.
        block
            All training rows, then all selection rows, with their baseline scores.
        step
            Times a step and gives the function that tells its progress.
        """
        ...


class Known(Protocol):
    """What is known of the candidates already, so that it is not computed again."""

    def gains(
        self,
        candidates: Array,
        rows: Sequence[Array],
        compute: Callable[[Array], Iterable[Gains | Failure]],
        *,
        stage: str,
        advance: Callable[[int], None],
    ) -> Scored:
        """Return gains, float64, shape (candidates, len(rows)), and failures of candidates.

        Parameters
        ----------
        rows
            Of each gain the positions of its rows among the development rows, those to learn from first.
        compute
            Gives the gains or failure of each candidate, in order.
        stage
            What failures are reported under.
        """
        ...

    def attribution(self, content: Any, compute: Callable[[], Attribution]) -> Attribution:
        """Return the ranking that JSON values tell from all others."""
        ...


class Nothing:
    """Nothing is known."""

    def gains(
        self,
        candidates: Array,
        rows: Sequence[Array],
        compute: Callable[[Array], Iterable[Gains | Failure]],
        *,
        stage: str,
        advance: Callable[[int], None],
    ) -> Scored:
        """Compute."""
        results = list(compute(candidates))
        gains = [(np.nan,) * len(rows) if isinstance(r, Failure) else r for r in results]
        found = np.array(gains, dtype=np.float64).reshape(-1, len(rows))
        return found, [r for r in results if isinstance(r, Failure)]

    def attribution(self, content: Any, compute: Callable[[], Attribution]) -> Attribution:
        """Compute."""
        return compute()


@dataclass(frozen=True)
class Native:
    """scopefe's own engine: the rules of OpenFE (successive halving, then attribution).

    Parameters
    ----------
    evaluator, engine
        How candidates are scored.
    known
        What need not be computed.
    stops
        Asked before what is named; where it says True, candidates stay ranked by the last round's gains.
    """

    evaluator: Evaluator
    engine: Engine
    known: Known = field(default_factory=Nothing)
    stops: Callable[[str], bool] = lambda _: False

    def __call__(
        self,
        universe: Universe,
        candidates: Array,
        block: Block,
        settings: Selection,
        seed: int,
        step: Timed,
    ) -> Selected:
        rng = random.Random(seed)
        failures: dict[int, Failure] = {}
        with step("halving", len(candidates)) as advance:

            def gains(ids: Array, rows: Array, fitted: int) -> Array:
                found, failed = self.gains(
                    universe, ids, block, rows, fitted, settings.gain_folds, stage="halving", advance=advance
                )
                failures.update({f.candidate: f for f in failed})
                return found

            halving = halve(
                candidates,
                gains,
                train=block.fitted,
                selection=len(block.target) - block.fitted,
                blocks=settings.blocks,
                min_candidates=settings.min_candidates,
                rng=rng,
                stops=lambda: self.stops("another round of halving"),
                every=settings.keep == "all",
            )
        gained = last_gains(halving)
        if self.stops("attribution"):
            return Selected(halving, by_gain(halving.survivors, gained), (*failures.values(),), gained)
        with step("attribution", None):
            content = [settings.attribution, halving.survivors.tolist(), rng.getstate()]
            attribution = self.known.attribution(
                content,
                lambda: attribute(
                    universe, halving.survivors, block, self.engine, method=settings.attribution, rng=rng
                ),
            )
        return Selected(halving, attribution, (*failures.values(), *attribution.failures), gained)

    def gains(
        self,
        universe: Universe,
        candidates: Array,
        block: Block,
        rows: Array,
        fitted: int,
        folds: int,
        *,
        stage: str,
        advance: Callable[[int], None],
    ) -> Scored:
        """Return gains, float64, shape (candidates, folds), and failures of candidates on rows of a block.

        Parameters
        ----------
        rows
            Positions in the block, training rows first.
        fitted
            Number of training rows; of one fold, the others are those that it is measured on.
        folds
            With more than one, each measures on its part of all rows. There are no more folds than rows or
            groups.
        stage
            What failures are reported under.
        """
        chosen = block.take(rows, fitted)
        measured = measured_on(chosen, folds)

        def compute(ids: Array) -> Iterable[Gains | Failure]:
            return score(
                universe,
                ids,
                chosen.table,
                measured,
                self.evaluator,
                self.engine,
                stage=stage,
                advance=advance,
            )

        parts = [rows[part.rows] for part in measured]
        return self.known.gains(candidates, parts, compute, stage=stage, advance=advance)


def measured_on(block: Block, folds: int) -> tuple[Measured, ...]:
    """Return what gains are measured on: folds of a block's rows, or of one fold the block as it is."""
    return block.measured(folded(block.target, folds, block.groups) if folds > 1 else ())


def by_gain(survivors: Array, gains: Mapping[int, float]) -> Attribution:
    """Rank survivors, best first, by their gains instead of a model."""
    return Attribution(survivors, np.array([gains[i] for i in survivors.tolist()], dtype=np.float64), 0, ())


def last_gains(halving: Halving) -> dict[int, float]:
    """Return the gain of each candidate of the last round."""
    if not halving.rounds:
        return {}
    last = halving.rounds[-1]
    return {int(i): float(g) for i, g in zip(last.candidates, last.gains, strict=True)}
