"""What a run works with: data, components, engine, store, clock; and the contexts that gates are given."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from scopefe.components import Array
from scopefe.data.dataset import Dataset, load_dataset
from scopefe.data.splits import divide
from scopefe.data.table import Table
from scopefe.errors import DataError
from scopefe.run.engines import Threads
from scopefe.run.progress import Event, Listener
from scopefe.run.store import Artefact, Store
from scopefe.score.baseline import BaselineScores, constant, out_of_fold
from scopefe.score.engine import Engine
from scopefe.score.featureboost import Block, Evaluator, Failure, LightGBM, score
from scopefe.score.objective import Objective
from scopefe.space.context import Sample
from scopefe.space.graph import key_of
from scopefe.space.scope import Scope
from scopefe.space.universe import Universe
from scopefe.spec.models import Spec

MATCHED = Callable[[str], Scope]


@dataclass(frozen=True)
class Timing:
    """Seconds of a step; those of reused results are the seconds they took when they were computed."""

    step: str
    seconds: float
    reused: bool


@dataclass(eq=False)
class Workbench:
    """One spec's data, means and clock."""

    spec: Spec
    store: Store
    listener: Listener
    frame: pd.DataFrame | None = None
    evaluator: Evaluator = field(default_factory=LightGBM)
    times: list[Timing] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine: Engine = Threads(self.spec.execution.jobs)
        self._reused: list[float] = []

    @contextmanager
    def step(self, name: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Time a step and tell the listener; gives the function that tells progress."""
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            self.listener(Event(self.spec.name, name, "advanced", done, total))

        self._reused = []
        self.listener(Event(self.spec.name, name, "started", 0, total))
        started = time.perf_counter()
        yield advance
        seconds = time.perf_counter() - started + sum(self._reused)
        self.times.append(Timing(name, seconds, bool(self._reused)))
        self.listener(Event(self.spec.name, name, "finished", done, total))

    def remember(self, key: str, compute: Callable[[], Any]) -> Any:
        """Return an artefact of the store, counting its seconds for the current step."""
        artefact: Artefact = self.store.get(key, compute)
        if artefact.reused:
            self._reused.append(artefact.seconds)
        return artefact.value

    def load(self) -> Dataset:
        """Read and encode the data, once per process for one data section and frame."""
        content = [
            "data",
            self.spec.data.model_dump(mode="json"),
            None if self.frame is None else id(self.frame),
        ]
        # the frame is kept beside its dataset: while it lives, no other frame has its identity
        held = self.store.get(key_of(content), lambda: (self.frame, load_dataset(self.spec.data, self.frame)))
        dataset: Dataset = held.value[1]
        return dataset

    def objective(self, data: Dataset) -> Objective:
        """Return what gains are measured in."""
        return Objective.of(data.labels.task, len(data.labels.classes), self.spec.selection.metric)

    def baseline(
        self,
        table: Table,
        target: Array,
        objective: Objective,
        folds: int,
        advance: Callable[[int], None] | None = None,
    ) -> BaselineScores:
        """Compute the scores that candidates have to improve on."""
        settings = self.spec.baseline
        if not settings.boosting:
            return constant(target, objective)
        if len(target) < folds:
            raise DataError(f"{len(target)} rows are too few for {folds} folds of the baseline")
        return out_of_fold(
            table,
            target,
            objective,
            self.engine,
            advance=advance,
            folds=folds,
            learning_rate=settings.learning_rate,
            max_trees=settings.max_trees,
            early_stopping=settings.early_stopping,
            seed=self.spec.seed,
        )


@dataclass(eq=False)
class Context:
    """What a gate is given; see `scopefe.GateContext`."""

    bench: Workbench
    data: Dataset
    universe: Universe
    match: MATCHED
    training_only: bool
    version: str
    advance: Callable[[int], None] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    artefacts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def table(self) -> Table:
        """Training rows for a pair gate, training and selection rows for an operator gate."""
        return self.data.training if self.training_only else self.data.development

    def rng(self, name: str, seed: int) -> np.random.Generator:
        """Return a random stream of its own for a name and a seed."""
        return np.random.default_rng([seed, zlib.crc32(name.encode())])

    def matched(self, match: str) -> Scope:
        """Return the pool of another spec, compiled on the same data."""
        return self.match(match)

    def note(self, name: str, fact: Any) -> None:
        """Add a fact to the report."""
        self.facts[name] = fact

    def remember(self, name: str, parameters: Mapping[str, Any], compute: Callable[[], Any]) -> Any:
        """Return `compute()`, computed once for the same data, universe, settings and parameters."""
        spec = self.bench.spec
        settings = (
            [spec.baseline.model_dump(), spec.selection.metric, spec.seed] if not self.training_only else []
        )
        universe = self.universe.key if not self.training_only else ""
        content = [name, self.version, dict(parameters), self.data.fingerprint, universe, settings]
        self.artefacts[name] = dict(parameters)
        return self.bench.remember(key_of(content), compute)

    def gains(self, candidates: Array, *, sample: Sample, folds: int) -> Array:
        """Return the gains of candidates on a sample of rows (paper, Algorithm "Operator Probing")."""
        if self.training_only:
            raise TypeError("a pair gate has no gains: it sees the training rows only")
        positions, fitted = self._sampled(sample)
        table = self.data.development.take(positions)
        target = self.data.scaled_target[positions]
        objective = self.bench.objective(self.data)
        scores = self.bench.baseline(table, target, objective, folds).scores
        block = Block(table, fitted, target, scores, objective)
        gains, failures = score(
            self.universe,
            candidates,
            block,
            self.bench.evaluator,
            self.bench.engine,
            stage="probe",
            advance=self.advance,
        )
        self.bench.failures.extend(failures)
        return gains

    def _sampled(self, sample: Sample) -> tuple[Array, int]:
        """Return positions among the development rows, and how many of them, in front, are training rows."""
        rows = self.data.rows
        n, m = len(rows.train), len(rows.selection)
        classes = self.data.labels.class_numbers
        classes = None if classes is None else classes[rows.development]
        parts = [
            _draw(np.arange(first, last), sample, None if classes is None else classes)
            for first, last in ((0, n), (n, n + m))
        ]
        return np.concatenate(parts), len(parts[0])


def _draw(positions: Array, sample: Sample, classes: Array | None) -> Array:
    size = max(1, round(len(positions) * sample.ratio))
    if size >= len(positions):
        return positions
    return divide(positions, size, classes, sample.seed)[1]
