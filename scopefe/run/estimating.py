"""What a run will cost: seconds from a short calibration, memory from what each step holds."""

from __future__ import annotations

import logging
import math
import random
import time
from dataclasses import dataclass, replace

import numpy as np

from scopefe.components import Array
from scopefe.data.dataset import Dataset
from scopefe.errors import DataError
from scopefe.evaluate.choosing import PARTS, SEEDS, sizes_up_to
from scopefe.run.budgets import resident_bytes
from scopefe.run.compiling import Compiled
from scopefe.run.engines import Threads, cores
from scopefe.run.workbench import Workbench, sampled
from scopefe.score.attribution import attribute
from scopefe.score.baseline import BaselineScores, constant, out_of_fold
from scopefe.score.boosting import CELLS_AT_ONCE, threads_for
from scopefe.score.featureboost import Block, Scoring
from scopefe.score.halving import rounds_at_most
from scopefe.score.selection import measured_on
from scopefe.sizes import size_text, time_text
from scopefe.space.context import Sample
from scopefe.space.graph import key_of
from scopefe.space.universe import Universe
from scopefe.spec.models import Baseline, Spec

# the calibration: rows of its smaller sample, and how many times as many the larger one has; folds trained,
# and their trees: to see how many are best, and to time them; candidates tried per operator
ROWS, LEAST_ROWS, CELLS, LARGER = 4000, 500, 400_000, 2
FOLDS, TREES, TIMED_TREES = 2, 500, 60
TRIED, TRIED_SECONDS = 3, 0.1
# what it cannot tell, as it was on real tables: how the best number of trees grows with the rows, and how
# many of the last round's candidates survive
GROWTH, SURVIVING = 0.6, 0.5
GATES = ("pairs", "gate baseline", "operators")
# bytes: per value in LightGBM's bins, and of those that it bins at once; per column of its histograms; per
# value of an encoded feature with its order and categories; per row of a candidate that is scored
BINNED, VALUE, COLUMN, ENCODED, SCORED = 1, 17, 65_536, 16, 64

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StepEstimate:
    """What a step costs.

    Parameters
    ----------
    seconds
        How long it takes.
    bytes
        What it holds at most, besides what the process held before the first step.
    """

    seconds: float
    bytes: int


@dataclass(frozen=True, repr=False)
class Estimate:
    """What a run costs with nothing in the store, but for reading the data and writing the report.

    Parameters
    ----------
    held
        Bytes that the process holds with the data.
    steps
        Gates (as they were timed), baseline, halving, attribution, with ``keep: auto`` choice, and evaluation
        and worth where they are; none for an empty pool.
    """

    held: int
    steps: dict[str, StepEstimate]

    def __repr__(self) -> str:
        return f"<Estimate: ≈ {time_text(self.seconds)}, ≈ {size_text(self.peak_bytes)}>"

    @property
    def seconds(self) -> float:
        """Seconds of all steps."""
        return sum(step.seconds for step in self.steps.values())

    @property
    def peak_bytes(self) -> int:
        """Memory that the process holds at most."""
        return self.held + max((step.bytes for step in self.steps.values()), default=0)


def estimate(compiled: Compiled) -> Estimate | None:
    """Estimate what executing a compiled spec costs on this machine.

    A few candidates and models are timed on two samples of the rows, once per dataset and process, and the
    times extended to the rows, candidates and columns of the steps. The gates are carried out by then: they
    count what they took.

    Returns
    -------
    Estimate or None
        None without data, for the openfe package, for data that `execute` would refuse, and where the sample
        cannot be scored; a warning says why.
    """
    bench, spec = compiled.bench, compiled.spec
    if bench is None or compiled.data is None or spec.selection.engine != "native":
        return None
    data = compiled.searched
    if not compiled.pool_size:
        return Estimate(resident_bytes(), {})
    if (refusal := _refusal(compiled)) is not None:
        _log.warning("%s: there is no estimate: %s", spec.name, refusal)
        return None
    settings = [spec.baseline.model_dump(mode="json"), spec.selection.model_dump(mode="json")]
    key = key_of(["calibration", data.fingerprint, compiled.universe.values_key, *settings])
    bench.ready(data)
    with bench.step("estimate"):
        try:
            calibration = bench.store.hold(key, lambda: calibrate(bench, data, compiled.universe))
        except Exception as error:
            _log.warning("%s: there is no estimate: %s: %s", spec.name, type(error).__name__, error)
            return None
    seconds, held = calibration.seconds(compiled, data), step_bytes(compiled, data)
    return Estimate(calibration.held, {step: StepEstimate(seconds[step], held[step]) for step in seconds})


def _refusal(compiled: Compiled) -> str | None:
    """Return what a run ends with where its data are refused; a choice by parts may not come to be made."""
    bench, data = compiled.bench, compiled.data
    assert bench is not None and data is not None
    searches = [("would", compiled.searched)]
    if compiled.decides == "parts":
        parts = data.parts(PARTS, compiled.spec.seed)
        searches += [("may", replace(compiled, data=part).searched) for part in parts]
    for verb, rows in searches:
        try:
            bench.check(rows)
        except DataError as error:
            return f"execute {verb} end with: {error}"
    return None


def peak_bytes(compiled: Compiled, data: Dataset) -> int:
    """Estimate the memory that the process holds at most while a compiled spec is executed."""
    return resident_bytes() + max(step_bytes(compiled, data).values())


def step_bytes(compiled: Compiled, data: Dataset) -> dict[str, int]:
    """Return what each step holds at most, besides what the process holds before the first.

    Folds that are trained side by side; encoded features, and a candidate per job; survivors and features
    binned, if every candidate of the last round survives.
    """
    n, d, jobs = len(data.scaled_target), len(data.table), jobs_here(compiled.spec)
    encoded = n * d * ENCODED

    def model(columns: int) -> int:
        values = n * columns
        return values * BINNED + min(values, max(CELLS_AT_ONCE, n)) * VALUE + columns * COLUMN

    held = {
        "gates": 0,
        "baseline": min(jobs, compiled.spec.baseline.folds) * model(d),
        "halving": encoded + jobs * n * SCORED,
        "attribution": encoded + model(d + rounds_of(compiled, data)[-1][1]),
    }
    settings = compiled.spec.selection
    if settings.keep == "auto":
        width, trained = d + settings.keep_most, SEEDS * (1 + len(sizes_up_to(settings.keep_most)))
        models = encoded + n * width * VALUE + min(jobs, trained) * model(width)
        held["choice"] = max(models, *held.values()) if compiled.decides == "parts" else models
    if evaluates(compiled):
        width, rows = d + most_kept(compiled), data.table.rows
        held["evaluation"] = held["worth"] = rows * width * VALUE + min(
            jobs, compiled.spec.evaluation.seeds
        ) * model(width)
    return held


def evaluates(compiled: Compiled) -> bool:
    """Whether a run ends in an evaluation."""
    assert compiled.data is not None
    return compiled.spec.evaluation.seeds > 0 and len(compiled.data.rows.test) > 0


def most_kept(compiled: Compiled) -> int:
    """Return how many features are kept at most."""
    most, size = compiled.spec.selection.most, compiled.pool_size
    return size if most is None else min(most, size)


def rounds_of(compiled: Compiled, data: Dataset) -> list[tuple[int, int]]:
    """Return (rows, candidates at most) of each round of halving."""
    settings = compiled.spec.selection
    return rounds_at_most(
        compiled.pool_size,
        train=len(data.rows.train),
        selection=len(data.rows.selection),
        blocks=settings.blocks,
        min_candidates=settings.min_candidates,
    )


def jobs_here(spec: Spec) -> int:
    """Return how many jobs of a spec run side by side on this machine, whatever cluster it names."""
    jobs = spec.execution.jobs
    return cores() if jobs == "auto" else min(jobs, cores())


@dataclass(frozen=True, eq=False)
class Measured:
    """Times on a sample of the rows, one job alone.

    Parameters
    ----------
    rows
        Number of rows.
    fold, tree
        Seconds of a fold of the baseline with one tree, and of every further tree.
    trees
        Best number of trees, averaged over folds.
    candidates
        Mean seconds of a candidate, by operator.
    column
        Seconds of the attribution, per column of its model.
    """

    rows: int
    fold: float
    tree: float
    trees: float
    candidates: Array
    column: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """A model trained to its best number of trees, times on two samples, and the bytes held before."""

    whole: Measured
    small: Measured
    large: Measured
    held: int

    def at(self, time: str, rows: float) -> Array:
        """Return a time at so many rows: on the line through both samples."""
        small, large = np.asarray(getattr(self.small, time)), np.asarray(getattr(self.large, time))
        per_row = np.maximum(large - small, 0) / max(self.large.rows - self.small.rows, 1)
        result: Array = large + per_row * (rows - self.large.rows)
        return np.maximum(result, 0)

    def seconds(self, compiled: Compiled, data: Dataset) -> dict[str, float]:
        """Return the seconds of each step."""
        n, d, jobs = len(data.scaled_target), len(data.table), jobs_here(compiled.spec)
        counts = [compiled.scope.count(i) for i in range(len(compiled.universe.operators))]

        def scoring(rows: int, candidates: float) -> float:
            each = float(np.average(self.at("candidates", rows), weights=counts))
            return candidates * each / jobs

        settings = compiled.spec.selection
        rounds = rounds_of(compiled, data)
        columns = d + SURVIVING * rounds[-1][1]
        threads = threads_for(n, round(columns), jobs)
        bench, baseline = compiled.bench, compiled.spec.baseline
        assert bench is not None
        known = bench.knows_baseline(data)
        steps = {
            "gates": sum(t.seconds for t in bench.times if t.step in GATES),
            "baseline": 0.0 if known else self._baseline(baseline, n, d, jobs),
            "halving": sum(scoring(rows, candidates) for rows, candidates in rounds),
            "attribution": columns * float(self.at("column", n)) / threads,
        }
        if settings.keep == "auto":
            steps["choice"] = self._choice(compiled, n, jobs, sum(steps.values()))
        if evaluates(compiled):
            steps["evaluation"] = self._evaluation(compiled, n, jobs)
            if compiled.spec.evaluation.worth:
                steps["worth"] = steps["evaluation"]
        return steps

    def _baseline(self, settings: Baseline, n: int, d: int, jobs: int) -> float:
        if not settings.boosting:
            return 0.0
        fold = self._model(n, settings.early_stopping, settings.max_trees)
        return math.ceil(settings.folds / jobs) * fold / threads_for(n, d, jobs // settings.folds)

    def _model(self, rows: int, early_stopping: int, max_trees: int, slower: float = 1.0) -> float:
        """Return the seconds of a model of the features on one thread, with its best number of trees.

        A few more features change little: a tree takes longer, and fewer trees are best.

        Parameters
        ----------
        slower
            By what its learning rate is smaller than that of the baseline: it takes as many times the trees.
        """
        best = slower * self.whole.trees * (rows / self.whole.rows) ** GROWTH
        trees = min(best + early_stopping, max_trees)
        return float(self.at("fold", rows) + trees * self.at("tree", rows))

    def _choice(self, compiled: Compiled, n: int, jobs: int, search: float) -> float:
        """Return the seconds of choosing how many to keep: of models, and of searches if parts decide.

        Parameters
        ----------
        search
            Seconds of gates and search on all rows; each part leaves one of the parts out.
        """
        evaluation = compiled.spec.evaluation
        model = self._model(n, evaluation.early_stopping, evaluation.max_trees)
        count = SEEDS * (1 + len(sizes_up_to(most_kept(compiled))))
        models = math.ceil(count / jobs) * model
        return models if compiled.decides == "selection" else (PARTS - 1) * (models + search)

    def _evaluation(self, compiled: Compiled, n: int, jobs: int) -> float:
        """Return the seconds of the models without and with new features, one each per seed."""
        settings, rate = compiled.spec.evaluation, compiled.spec.baseline.learning_rate
        slower = rate / settings.learner.parameters.get("learning_rate", rate)
        model = self._model(n, settings.early_stopping, settings.max_trees, slower)
        return 2 * math.ceil(settings.seeds / jobs) * model


def calibrate(bench: Workbench, data: Dataset, universe: Universe) -> Calibration:
    """Time candidates and models on two samples of the rows; nothing of it is kept."""
    held, whole = resident_bytes(), len(data.scaled_target)
    share = min(max(LEAST_ROWS, min(ROWS, CELLS // len(data.table))) / whole, 1 / LARGER)
    first = _measured(bench, data, universe, share, 1, TREES)
    each = min(TRIED, max(1, int(TRIED_SECONDS / max(first.candidates.sum(), 1e-9))))
    small, large = (
        _measured(bench, data, universe, times * share, each, TIMED_TREES) for times in (1, LARGER)
    )
    return Calibration(first, small, large, held)


def _measured(
    bench: Workbench, data: Dataset, universe: Universe, share: float, each: int, trees: int
) -> Measured:
    """Measure on a share of the rows, with so many candidates of each operator, and trees at most."""
    rows, fitted = sampled(data, Sample(share))
    table, target, objective = data.development.take(rows), data.scaled_target[rows], bench.objective(data)
    weights = data.weights_of(data.rows.development[rows])
    settings = bench.spec.baseline
    most = min(trees, settings.max_trees)

    def trained(trees: int) -> tuple[BaselineScores, float]:
        started = time.perf_counter()
        scores = out_of_fold(
            table,
            target,
            objective,
            Threads(1),
            folds=FOLDS,
            learning_rate=settings.learning_rate,
            max_trees=trees,
            early_stopping=settings.early_stopping,
            seed=1,
            weights=weights,
        )
        return scores, (time.perf_counter() - started) / FOLDS

    (_, fold), (scores, whole) = trained(1), trained(most)
    best = float(np.mean(scores.trees))
    tree = (whole - fold) / max(min(best + settings.early_stopping, most) - 1, 1)
    if not settings.boosting:
        scores = constant(target, objective, weights)
    block = Block(table, fitted, target, scores.scores, objective, weights)
    tried = [_drawn(universe, i, each) for i in range(len(universe.operators))]
    measured = measured_on(block, bench.spec.selection.gain_folds)
    scoring = Scoring(universe, table, measured, bench.evaluator)
    candidates = np.array([_seconds(scoring, ids) for ids in tried])
    started = time.perf_counter()
    survivors, method = np.unique(np.concatenate(tried)), bench.spec.selection.attribution
    attribute(universe, survivors, block, Threads(1), method=method, rng=random.Random(1))
    column = (time.perf_counter() - started) / (len(survivors) + len(table))
    return Measured(len(rows), fold, max(tree, 0.0), best, candidates, column)


def _drawn(universe: Universe, operator: int, count: int) -> Array:
    """Return some candidates of an operator, if it has any."""
    block = universe.blocks[operator]
    drawn = np.random.default_rng(operator).integers(max(block.size, 1), size=count)
    return np.unique(block.offset + drawn)[: block.size]


def _seconds(scoring: Scoring, ids: Array) -> float:
    """Return the mean seconds of candidates, their features being prepared."""
    candidates = list(zip(*(column.tolist() for column in scoring.universe.decode(ids)), strict=True))
    seconds = 0.0
    for _ in range(2):
        started = time.perf_counter()
        for candidate in candidates:
            scoring(candidate)
        seconds = time.perf_counter() - started
    return seconds / max(len(ids), 1)
