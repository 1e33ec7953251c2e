"""What a run works with: data, components, engine, store, clock; and the contexts that gates are given."""

from __future__ import annotations

import hashlib
import os
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

import numpy as np
from narwhals.typing import IntoDataFrame

from scopefe.components import Array
from scopefe.data.dataset import Dataset, load_dataset
from scopefe.data.splits import divide
from scopefe.data.table import Table
from scopefe.errors import DataError
from scopefe.run.code import code_key
from scopefe.run.engines import engine_of
from scopefe.run.progress import Event, Listener
from scopefe.run.store import Compute, Store
from scopefe.score.attribution import Attribution
from scopefe.score.baseline import BaselineScores, constant, fold_rows, out_of_fold
from scopefe.score.engine import Engine
from scopefe.score.featureboost import Block, Evaluator, Failure, Gains, LightGBM, score
from scopefe.score.kernels import Kernel
from scopefe.score.objective import Objective
from scopefe.score.selection import Scored
from scopefe.score.splits import tree_splits
from scopefe.space.context import Gradients, Sample, Splits
from scopefe.space.graph import key_of
from scopefe.space.scope import Scope
from scopefe.space.universe import Universe
from scopefe.spec.environment import variables
from scopefe.spec.models import Spec, source_name

EVALUATORS: Mapping[str, Evaluator] = {"kernel": Kernel(), "lightgbm": LightGBM()}
T = TypeVar("T")
MATCHED = Callable[[str], Scope]


@dataclass(frozen=True)
class Timing:
    """Seconds of a step, of these the seconds that results of the store took when they were computed."""

    step: str
    seconds: float
    stored_seconds: float


@dataclass(eq=False)
class Workbench:
    """One spec's data, means and clock."""

    spec: Spec
    store: Store
    listener: Listener
    frame: IntoDataFrame | None = None
    times: list[Timing] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine: Engine = engine_of(self.spec.execution)
        self.evaluator: Evaluator = EVALUATORS[self.spec.selection.evaluator]
        self.disk = self.store.disk(self.spec.execution.cache)
        self._ready, self._inner_seconds, self._inside = False, 0.0, False
        self._seen: set[str] = set()

    def beside(self, spec: Spec) -> Workbench:
        """Return the workbench of another spec, with the same store, engine and frame."""
        other = Workbench(spec, self.store, self.listener, self.frame)
        other.engine, other.disk, other._inside = self.engine, self.disk, self._inside
        return other

    @contextmanager
    def whole(self, name: str, total: int) -> Iterator[Callable[[int], None]]:
        """Time a step with all those inside it, which nobody is told of, nor of the failures they meet."""
        failures = len(self.failures)
        with self.step(name, total) as advance:
            self._inside = True
            try:
                yield advance
            finally:
                self._inside = False
                del self.failures[failures:]

    @contextmanager
    def step(self, name: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Time a step, without those inside it, and tell the listener; gives what tells progress."""
        if self._inside:
            yield _ignore
            return
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            self.listener(Event(self.spec.name, name, "advanced", done, total))

        self.listener(Event(self.spec.name, name, "started", 0, total))
        started, reused, inner = time.perf_counter(), self.store.reused_seconds, self._inner_seconds
        yield advance
        stored, seconds = self.store.reused_seconds - reused, time.perf_counter() - started
        self.times.append(Timing(name, seconds - (self._inner_seconds - inner) + stored, stored))
        self._inner_seconds = inner + seconds
        self.listener(Event(self.spec.name, name, "finished", done, total))

    def remember(self, what: str, content: Any, data: Dataset, compute: Callable[[], Any]) -> Any:
        """Return an artefact of the store; the failures it met are added to the run's, computed or not.

        Parameters
        ----------
        what
            What it is.
        content
            JSON values that tell it from all others of that name and data.
        compute
            Does nothing but return its value.
        """

        def computed() -> tuple[Any, tuple[Failure, ...]]:
            before = len(self.failures)
            value = compute()
            met = tuple(self.failures[before:])
            del self.failures[before:]
            return value, met

        key = _artefact_key(what, content, data)
        reused = self.store.reused_seconds
        value, failures = self.store.get(key, computed, self.disk, self.about(what, data))
        if key in self._seen:  # its seconds are counted already
            self.store.reused_seconds = reused
        self._seen.add(key)
        self.failures.extend(failures)
        return value

    def about(self, what: str, data: Dataset) -> dict[str, str]:
        """Say what is stored, for people."""
        dataset = source_name(self.spec.data.source)
        return {"what": what, "dataset": dataset, "fingerprint": data.fingerprint}

    def load(self) -> Dataset:
        """Read and encode the data, once per process for one data section and frame."""
        frame = None if self.frame is None else id(self.frame)
        written = self.spec.data.model_dump(mode="json")
        values = [os.environ.get(name) for name in variables(str(written))]
        key = key_of(["data", written, values, frame])
        # the frame is kept beside its dataset: while it lives, no other frame has its identity
        held = self.store.hold(key, lambda: (self.frame, load_dataset(self.spec.data, self.frame)))
        dataset: Dataset = held[1]
        return dataset

    def ready(self, data: Dataset) -> None:
        """Load the evaluator's code, in a step of its own: its first use on a machine compiles it."""
        if not self._ready:
            self._ready = True
            with self.step("kernels"):
                self.evaluator.ready(self.objective(data))

    def objective(self, data: Dataset) -> Objective:
        """Return what gains are measured in."""
        return Objective.of(data.labels.task, len(data.labels.classes), self.spec.selection.metric)

    def baseline(
        self, data: Dataset, rows: Array | None, folds: int, advance: Callable[[int], None] | None = None
    ) -> BaselineScores:
        """Return the scores that candidates have to improve on.

        Parameters
        ----------
        rows
            Positions among the development rows; None for all of them.
        """
        scores: BaselineScores = self.remember(
            "baseline",
            self.baseline_content(data, rows, folds),
            data,
            lambda: self._baseline(*_of_rows(data, rows), self.objective(data), folds, advance),
        )
        return scores

    def block(self, data: Dataset, rows: Array | None, fitted: int, scores: BaselineScores) -> Block:
        """Return development rows with their baseline scores.

        Parameters
        ----------
        rows
            Positions among the development rows; None for all of them.
        fitted
            Number of rows, from the front, that models are fitted on.
        """
        table, target, weights, groups = _of_rows(data, rows)
        return Block(table, fitted, target, scores.scores, self.objective(data), weights, groups)

    def baseline_content(self, data: Dataset, rows: Array | None, folds: int) -> list[Any]:
        """Return what tells a baseline from all others of the same data."""
        settings = self.spec.baseline.model_dump(mode="json") | {"folds": folds}
        return [code_key(), settings, self.objective(data).metric, self.spec.seed, _digest(rows)]

    def knows_baseline(self, data: Dataset) -> bool:
        """Whether the baseline of all development rows was computed, or taken from the store, in this run."""
        content = self.baseline_content(data, None, self.spec.baseline.folds)
        return _artefact_key("baseline", content, data) in self._seen

    def check(self, data: Dataset) -> None:
        """Check that the baseline has its folds, and the metric of gains a value.

        Raises
        ------
        DataError
            If not: `execute` would end so.
        """
        objective, settings, rows = self.objective(data), self.spec.baseline, data.rows
        target = data.scaled_target
        if settings.boosting:
            _check_folds(target, settings.folds)
            fold_rows(target, objective, settings.folds, data.groups_of(rows.development))
        held = target[len(rows.train) :]
        scores = np.zeros((len(held), objective.columns) if objective.columns > 1 else len(held))
        if np.isnan(objective.loss(held, scores, data.weights_of(rows.selection))):
            raise no_value(objective)

    def _baseline(
        self,
        table: Table,
        target: Array,
        weights: Array | None,
        groups: Array | None,
        objective: Objective,
        folds: int,
        advance: Callable[[int], None] | None,
    ) -> BaselineScores:
        settings = self.spec.baseline
        if not settings.boosting:
            return constant(target, objective, weights)
        _check_folds(target, folds)
        return out_of_fold(
            table,
            target,
            objective,
            self.engine,
            weights=weights,
            groups=groups,
            advance=advance,
            folds=folds,
            learning_rate=settings.learning_rate,
            max_trees=settings.max_trees,
            early_stopping=settings.early_stopping,
            seed=self.spec.seed,
        )


@dataclass(frozen=True, eq=False)
class Stored:
    """What the store knows of a universe's candidates on a baseline: `scopefe.score.selection.Known`."""

    bench: Workbench
    data: Dataset
    universe: Universe
    baseline: list[Any]

    def gains(
        self,
        candidates: Array,
        rows: Sequence[Array],
        compute: Compute,
        *,
        stage: str,
        advance: Callable[[int], None],
    ) -> Scored:
        """Return gains and failures of candidates on rows, computing those that are not known."""
        bench = self.bench
        key = key_of(["gains", *self._content(), bench.evaluator.name, [_digest(part) for part in rows]])
        about = bench.about("gains", self.data)
        found = bench.store.vector(key, candidates, compute, bench.disk, about, advance, width=len(rows))
        failed = [i for i in candidates.tolist() if i in found.errors] if found.errors else []
        formulas = [e.formula for e in self.universe.expressions(np.array(failed, dtype=np.int64))]
        return found.values, [
            Failure(i, formula, stage, found.errors[i]) for i, formula in zip(failed, formulas, strict=True)
        ]

    def attribution(self, content: Any, compute: Callable[[], Attribution]) -> Attribution:
        """Return the ranking of survivors, computed if it is not known."""
        content = [*self._content(), content]
        ranked: Attribution = self.bench.remember("attribution", content, self.data, compute)
        return ranked

    def _content(self) -> list[Any]:
        universe = self.universe
        return [code_key(universe.operators), universe.values_key, self.data.fingerprint, self.baseline]


@dataclass(eq=False)
class Context:
    """What a gate is given; see `scopefe.GateContext`."""

    bench: Workbench
    data: Dataset
    universe: Universe
    match: MATCHED
    training_only: bool
    code: str
    advance: Callable[[int], None] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    additions: dict[str, int] = field(default_factory=dict)
    artefacts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def table(self) -> Table:
        """Training rows for a pair gate, training and selection rows for an operator gate."""
        return self.data.training if self.training_only else self.data.development

    def groups(self) -> Array | None:
        """Return the group of each row of `table`; None where the split has none."""
        return self.data.groups_of(self._rows())

    def rng(self, name: str, seed: int) -> np.random.Generator:
        """Return a random stream of its own for a name and a seed."""
        return np.random.default_rng([seed, zlib.crc32(name.encode())])

    def matched(self, match: str) -> Scope:
        """Return the pool of another spec, compiled on the same data."""
        return self.match(match)

    def note(self, name: str, fact: Any) -> None:
        """Add a fact to the report; of two that differ, none is told."""
        self.facts[name] = fact if _same(self.facts.get(name, fact), fact) else None

    def remark(self, sentence: str) -> None:
        """Add a sentence to the notes of the report."""
        if sentence not in self.remarks:
            self.remarks.append(sentence)

    def added(self, candidates: int, why: str) -> None:
        """Count candidates that a gate admits beyond its own rule."""
        if candidates:
            self.additions[why] = self.additions.get(why, 0) + candidates

    def remember(
        self, name: str, parameters: Mapping[str, Any], compute: Callable[[], Any], *, by_target: bool = True
    ) -> Any:
        """Return `compute()`, computed once for the same data, universe, settings and parameters."""
        bench, spec = self.bench, self.bench.spec
        seen: list[Any] = []
        if by_target:
            seen += [spec.baseline.model_dump(), spec.selection.metric, spec.seed]
        if not self.training_only:
            seen += [self.universe.values_key, bench.evaluator.name]
        content = [self.code, dict(parameters), seen]
        self.artefacts[name] = dict(parameters)
        return bench.remember(name, content, self.data, compute)

    def gradients(self) -> Gradients:
        """Return the derivatives of the loss at the scores that a run on these rows starts from."""
        bench, data = self.bench, self.data
        rows = np.arange(self.table().rows) if self.training_only else None
        scores = self._baseline(rows, bench.spec.baseline.folds).scores
        weights = data.weights_of(self._rows())
        return Gradients(*bench.objective(data).derivatives(self._target(), scores, weights))

    def splits(self) -> Splits:
        """Return the splits of a LightGBM on the features."""
        bench, baseline = self.bench, self.bench.spec.baseline
        settings: dict[str, Any] = {
            "learning_rate": baseline.learning_rate,
            "early_stopping": baseline.early_stopping,
            "seed": bench.spec.seed,
        }

        def compute() -> Splits:
            objective = bench.objective(self.data)
            weights, groups = self.data.weights_of(self._rows()), self.groups()
            return tree_splits(
                self.table(),
                self._target(),
                objective,
                bench.engine,
                weights=weights,
                groups=groups,
                **settings,
            )

        found: Splits = self.remember("splits", settings, compute)
        return found

    def _baseline(self, rows: Array | None, folds: int) -> BaselineScores:
        """Return the scores that a gate starts from, in a step of its own: they may take the most of it."""
        with self.bench.step("gate baseline", folds) as advance:
            return self.bench.baseline(self.data, rows, folds, advance)

    def _rows(self) -> Array:
        return self.data.rows.train if self.training_only else self.data.rows.development

    def _target(self) -> Array:
        return self.data.scaled(self._rows())

    def map(self, work: Callable[[int], T], numbers: range) -> Iterator[T]:
        """Yield ``work(number)`` for each number, in order, in the threads of this process."""
        return self.bench.engine.local.map(work, numbers, self.advance)

    def gains(self, candidates: Array, *, sample: Sample, folds: int) -> Array:
        """Return the gains of candidates on a sample of rows (paper, Algorithm "Operator Probing")."""
        if self.training_only:
            raise TypeError("a pair gate has no gains: it sees the training rows only")
        bench, data = self.bench, self.data
        rows, fitted = sampled(self.data, sample)
        advance = self.advance or _ignore

        @cache
        def block() -> Block:
            scores = self._baseline(rows, folds)
            bench.ready(data)
            return bench.block(data, rows, fitted, scores)

        def compute(ids: Array) -> Iterable[Gains | Failure]:
            return score(
                self.universe,
                ids,
                block().table,
                block().measured(),
                bench.evaluator,
                bench.engine,
                stage="probe",
                advance=advance,
            )

        known = Stored(bench, data, self.universe, bench.baseline_content(data, rows, folds))
        gains, failures = known.gains(candidates, [rows], compute, stage="probe", advance=advance)
        bench.failures.extend(failures)
        return gains[:, 0]


def sampled(data: Dataset, sample: Sample) -> tuple[Array, int]:
    """Return positions among the development rows, and how many of them, in front, are training rows."""
    n, m = len(data.rows.train), len(data.rows.selection)
    classes = data.labels.class_numbers
    classes = None if classes is None else classes[data.rows.development]
    parts = [_draw(np.arange(first, last), sample, classes) for first, last in ((0, n), (n, n + m))]
    return np.concatenate(parts), len(parts[0])


def _draw(positions: Array, sample: Sample, classes: Array | None) -> Array:
    size = max(1, round(len(positions) * sample.ratio))
    if size >= len(positions):
        return positions
    return divide(positions, size, classes, sample.seed)[1]


def _of_rows(data: Dataset, rows: Array | None) -> tuple[Table, Array, Array | None, Array | None]:
    """Return features, target, weights and groups of development rows at these positions, or of all."""
    table = data.development if rows is None else data.development.take(rows)
    chosen = slice(None) if rows is None else rows
    positions = data.rows.development[chosen]
    return table, data.scaled_target[chosen], data.weights_of(positions), data.groups_of(positions)


def _same(fact: Any, other: Any) -> bool:
    if isinstance(fact, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(fact, other, equal_nan=True)
    return repr(fact) == repr(other)


def no_value(objective: Objective) -> DataError:
    """Return the error that the metric of gains has no value."""
    return DataError(
        f"selection.metric {objective.metric} has no value on the selection rows, which have one class"
    )


def _check_folds(target: Array, folds: int) -> None:
    if len(target) < folds:
        raise DataError(f"{len(target)} rows are too few for {folds} folds of the baseline")


def _artefact_key(what: str, content: Any, data: Dataset) -> str:
    return key_of([what, content, data.fingerprint])


def _digest(rows: Array | None) -> str:
    return "all" if rows is None else hashlib.blake2b(rows.astype(np.int64).data, digest_size=16).hexdigest()


def _ignore(count: int) -> None:
    pass
