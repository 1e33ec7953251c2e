"""From a spec to selected features, a recipe and a provenance report."""

from __future__ import annotations

import datetime
import itertools
import logging
import os
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from narwhals.typing import IntoDataFrame

import scopefe
from scopefe.components import Array
from scopefe.data.dataset import Dataset
from scopefe.data.splits import Rows
from scopefe.errors import RunError
from scopefe.evaluate.choosing import Choice
from scopefe.evaluate.learners import require
from scopefe.evaluate.metrics import stopping_of
from scopefe.evaluate.outcome import Outcome
from scopefe.recipe.fitting import described
from scopefe.recipe.recipe import Recipe
from scopefe.report import build, tracking
from scopefe.report.html import brief, render
from scopefe.report.model import (
    DataFacts,
    Report,
    StepTime,
    StopFacts,
    Volatile,
)
from scopefe.run.budgets import Stop, Watch
from scopefe.run.compiling import Compiled, compile
from scopefe.run.estimating import peak_bytes
from scopefe.run.evaluating import evaluated
from scopefe.run.progress import Listener, silent
from scopefe.run.selecting import keep, recipe_of, select
from scopefe.run.store import Store
from scopefe.run.workbench import Timing
from scopefe.score.baseline import BaselineScores
from scopefe.score.featureboost import Block
from scopefe.score.selection import Selected
from scopefe.spec.models import Spec

FEATURE_ENGINEERING = (
    "pairs",
    "gate baseline",
    "operators",
    "pool",
    "baseline",
    "halving",
    "attribution",
    "choice",
    "openfe",
)
AFTER_CHOICE = ("evaluation", "worth")
NOISY, FEW_TREES, ROWS = 0.25, 5, "rows.parquet"
EVERY_FAILED = "every candidate failed, so nothing could be selected; the report says why"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A finished run.

    Parameters
    ----------
    report
        The provenance report.
    recipe
        The selected features, fitted on the development rows.
    folder
        Where report and recipe were written; None if they were not.
    """

    report: Report
    recipe: Recipe
    folder: Path | None

    @property
    def name(self) -> str:
        """Name of the spec."""
        return self.report.name

    def __repr__(self) -> str:
        chosen, space = len(self.report.selection.selected), self.report.space
        counts = f"{chosen} of {space.pool.raw:,} candidates, of {space.universe.raw:,} in all"
        return f"<Run {self.name!r}: {counts}>"

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return brief(self.report)

    @property
    def failed(self) -> bool:
        """Whether nothing could be selected, although the pool is not empty."""
        selection = self.report.selection
        undecided = selection.stopped is not None and selection.stopped.before not in AFTER_CHOICE
        nothing = not selection.ranking or (undecided and not selection.selected)
        return bool(self.report.space.pool.raw and nothing)


def execute(
    spec: Spec,
    *,
    data: IntoDataFrame | None = None,
    pool: Path | None = None,
    store: Store | None = None,
    listener: Listener = silent,
    write: bool = True,
) -> Run:
    """Execute a spec: compile, select, fit the recipe, evaluate, report.

    A run that a budget ends early has a report all the same.

    Parameters
    ----------
    spec
        From `scopefe.load_spec`.
    data
        A frame instead of the spec's source; not changed.
    pool
        An enumeration to run instead of what the gates leave.
    store
        Results shared with other specs of this process; ``execution.cache`` says what is kept beyond it.
    listener
        Told of progress.
    write
        Whether to make a run folder with report and recipe.

    Raises
    ------
    ScopefeError
        If the spec, its data or a component is at fault; no run folder is left then.
    """
    started, clock = datetime.datetime.now(datetime.UTC), time.perf_counter()
    require(spec.evaluation.learner.learner, spec.evaluation.learner.parameters)
    if spec.report.mlflow is not None:
        tracking.require(spec.report.mlflow)
    if write:
        _check_writable(Path(spec.execution.runs))
    watch = Watch(spec.execution.budget, clock)
    compiled = compile(spec, data=data, pool=pool, store=store, listener=listener)
    assert compiled.bench is not None
    with closing(compiled.bench.engine):
        assert compiled.data is not None
        stopping_of(compiled.data.labels.task, spec.evaluation)
        found = _search(compiled, watch)
        report = _report(compiled, found, watch, started)
    assert compiled.data is not None
    folder = _write(report, found.recipe, compiled.data.source_rows(), spec, started) if write else None
    if spec.report.mlflow is not None:
        tracking.track(spec.report.mlflow, report, folder)
    run = Run(report, found.recipe, folder)
    if watch.stop or run.failed:
        reason = watch.stop.reason if watch.stop else EVERY_FAILED
        _log.log(logging.ERROR if run.failed else logging.WARNING, "%s: %s", spec.name, reason)
    return run


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found, and what it is worth.

    Parameters
    ----------
    block, scores
        The rows with their baseline scores; None where there were none.
    selected
        The ranking.
    kept
        int64 ids of the features.
    choice
        Why so many are kept, of ``keep: auto``.
    recipe
        The features, fitted on the development rows.
    outcome
        What the evaluation found; None where there was none.
    """

    block: Block | None
    scores: BaselineScores | None
    selected: Selected
    kept: Array
    choice: Choice | None
    recipe: Recipe
    outcome: Outcome | None


def _search(compiled: Compiled, watch: Watch) -> Found:
    """Select from the pool, fit what is kept, and evaluate it."""
    bench, data = compiled.bench, compiled.data
    assert bench is not None and data is not None
    with bench.step("pool"):
        candidates = compiled.scope.ids()
    if len(candidates):
        watch.admit(len(candidates), peak_bytes(compiled, compiled.searched))
    block, scores, selected = select(compiled, candidates, watch)
    kept, choice = keep(compiled, candidates, selected, watch)
    _extend(compiled, compiled.spec, selected, watch.stop)
    recipe = recipe_of(compiled, data.development, selected, kept, compiled.graph["recipe"].key)
    recipe = described(recipe, data.development)
    outcome = evaluated(compiled, recipe, kept, watch)
    return Found(block, scores, selected, kept, choice, recipe, outcome)


def _report(compiled: Compiled, found: Found, watch: Watch, started: datetime.datetime) -> Report:
    spec, bench, dataset = compiled.spec, compiled.bench, compiled.data
    assert bench is not None and dataset is not None
    selected, block, scores = found.selected, found.block, found.scores
    facts, paths = build.data_facts(spec, dataset), dict[str, str]()
    times = [_step_time(t) for t in bench.times]
    return Report(
        scopefe=scopefe.__version__,
        name=spec.name,
        description=spec.description,
        spec=build.spec_facts(spec, paths),
        seed=spec.seed,
        versions=build.versions([spec.evaluation.learner.learner]),
        data=facts,
        graph=build.graph_facts(compiled.graph),
        space=compiled.space,
        probe=build.probe_facts(compiled.facts),
        associations=build.association_facts(compiled.facts, compiled.universe.names),
        facts=build.other_facts(compiled.facts),
        baseline=None if block is None or scores is None else build.baseline_facts(block, scores),
        selection=build.selection_facts(
            compiled.universe,
            selected,
            spec,
            [*bench.failures, *selected.failures],
            found.kept,
            found.recipe,
            dataset,
            found.choice,
            () if found.outcome is None else found.outcome.worth,
            compiled.protocol,
            _stop_facts(watch.stop),
        ),
        evaluation=None if found.outcome is None else build.evaluation_facts(spec, dataset, found.outcome),
        notes=list(_notes(compiled, facts, found, watch.stop)),
        volatile=Volatile(
            started=started.isoformat(timespec="seconds"),
            seconds=time.perf_counter() - watch.started,
            run_seconds=sum(t.seconds for t in times if t.in_run),
            run_stored_seconds=sum(t.stored_seconds for t in times if t.in_run),
            times=times,
            jobs=bench.engine.jobs,
            machine=f"{platform.system()} {platform.machine()}, jobs: {bench.engine.jobs}",
            python=platform.python_version(),
            folder="",
            paths=paths,
        ),
    )


def _stop_facts(stop: Stop | None) -> StopFacts | None:
    return None if stop is None else StopFacts(before=stop.before, budget=stop.budget)


def _step_time(timing: Timing) -> StepTime:
    reused = timing.stored_seconds / timing.seconds if timing.seconds else 0.0
    return StepTime(**vars(timing), reused=reused, in_run=timing.step in FEATURE_ENGINEERING)


def _extend(compiled: Compiled, spec: Spec, selected: Selected, stop: Stop | None) -> None:
    """Add the steps after the pool to the graph."""
    graph, selection = compiled.graph, spec.selection
    baseline = spec.baseline.model_dump(mode="json")
    graph.add("baseline", "lightgbm" if spec.baseline.boosting else "constant", ["kinds"], baseline)
    halving = {"data_blocks": selection.blocks, "min_candidates": selection.min_candidates,
               "every": selection.keep == "all", "seed": spec.seed, "metric": selection.metric,
               "evaluator": selection.evaluator, "gain": selection.gain, "folds": selection.folds,
               "protocol": compiled.protocol}  # fmt: skip
    graph.add("halving", selection.engine, ["pool", "baseline"], halving)
    if stop is None or stop.before == "choice":
        graph.add("attribution", selection.attribution, ["halving", "baseline"])
    else:
        graph.add("attribution", "stopped", ["halving"], {"rounds": len(selected.halving.rounds)})
    kept = {"keep": selection.keep, "most": selection.most, "unseen": compiled.decides}
    graph.add("selection", "keep", ["attribution"], kept)
    graph.add("recipe", "fit", ["selection", "source"])
    graph.add("evaluation", spec.evaluation.protocol, ["recipe"], spec.evaluation.model_dump(mode="json"))
    graph.add("report", "report", ["evaluation", "recipe"])


def _notes(compiled: Compiled, facts: DataFacts, found: Found, stop: Stop | None) -> Iterator[str]:
    """Say what a reader should know."""
    data, spec = compiled.data, compiled.spec
    assert data is not None
    yield from _notes_on_data(data, spec)
    yield from _notes_on_gates(compiled)
    yield from _notes_on_selection(compiled, found, stop)
    if stop is not None:
        yield f"Ended before {stop.before}: execution.budget.{stop.budget} is spent."
        if stop.budget != "max_candidates":
            yield "Where a run ends by this budget depends on the machine, and so does what it found."
    elif found.outcome is None and spec.evaluation.seeds and len(data.rows.test):
        yield "There is no evaluation: its metric has no value on the test rows, perhaps for lack of a class."
    elif found.outcome is None:
        yield "There was no evaluation: no seeds, or no test rows."
    constant = [f.name for f in facts.features if f.distinct + bool(f.missing) < 2]
    if constant:
        yield f"Constant on the development rows: {', '.join(constant[:20])}."


def _notes_on_data(data: Dataset, spec: Spec) -> Iterator[str]:
    if spec.data.task == "auto":
        yield f"The task was taken to be {data.labels.task} from the target's values."
    if note := getattr(spec.data.split, "note", ""):
        yield note
    yield from data.remarks
    for why, count in data.rows_left_out.items():
        if count:
            yield f"Left out: {count:,} {'row' if count == 1 else 'rows'} {why}."


def _notes_on_gates(compiled: Compiled) -> Iterator[str]:
    if not compiled.pool_size:
        yield "The pool is empty: no feature can be selected."
    elif untried := compiled.space.never_tried:
        yield f"{untried:,} candidates were left out before the search, and never tried."
    for name in (name for name, fact in compiled.facts.items() if fact is None):
        yield f"Facts of {name} are left out: two gates gave different ones."
    yield from compiled.remarks


def _notes_on_selection(compiled: Compiled, found: Found, stop: Stop | None) -> Iterator[str]:
    settings, halving, ranked = compiled.spec.selection, found.selected.halving, found.selected.attribution
    last = halving.rounds[-1] if halving.rounds else None
    if last is not None and not len(halving.survivors):
        yield "Every candidate failed: nothing could be selected."
    elif settings.keep == "all":
        yield "Every candidate of the pool is kept, whatever its gain."
    elif last is not None and not (last.gains > 0).any():
        yield "No candidate has a gain above 0; the best ones by rank were carried on."
    noise = None if last is None else last.agreement
    if noise is not None and noise < NOISY:
        yield (
            f"Gains of two folds hardly agree (correlation {noise:.2f}): on this table they are mostly noise."
        )
    without = int((ranked.importances <= 0).sum())
    if settings.attribution == "held-out" and 0 < ranked.trees <= FEW_TREES and without:
        yield (
            f"The attribution's model stopped at tree {ranked.trees}: {without:,} of "
            f"{len(ranked.candidates):,} survivors have no importance, and are ranked by gain."
        )
    importances = dict(zip(ranked.candidates.tolist(), ranked.importances.tolist(), strict=True))
    unused = sum(importances[i] <= 0 for i in found.kept.tolist())
    if unused:
        yield (
            f"{unused} of {len(found.kept)} selected features have no importance in the attribution's model: "
            "they are ranked by gain."
        )
    choice = found.choice
    if choice is not None and not choice.rows:
        yield "Nothing is kept: no rows could be left out of the search, to decide how many features help."
    elif choice is not None and not choice.kept:
        yield (
            f"Nothing is kept: on {choice.rows:,} rows that the search had not seen, no number of "
            f"features lowered the loss surely enough (p = {choice.p:.2g})."
        )
    if compiled.decides and choice is None and stop is None and len(halving.survivors):
        yield "Nothing is kept: no ranked candidate has importance, and values of its own."
    if stop is not None and compiled.decides and stop.before not in AFTER_CHOICE:
        yield "Nothing is kept: it was not decided how many features help."
    if stop is not None and last is not None and stop.before not in ("choice", *AFTER_CHOICE):
        yield "Without attribution, candidates are ranked by their gains in the last round."


def _check_writable(runs: Path) -> None:
    """Check, before any work is done, that run folders can be made."""
    there = next(path for path in [runs.absolute(), *runs.absolute().parents] if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise RunError(f"execution.runs: no folder can be made in {str(there)!r}")


def _write(report: Report, recipe: Recipe, rows: Rows, spec: Spec, started: datetime.datetime) -> Path:
    """Write report, recipe and the roles of rows into a folder that appears only when it is whole."""
    runs = Path(spec.execution.runs)
    runs.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".", dir=runs))
    try:
        work.chmod(0o755)
        recipe.save(work / "recipe.json")
        pq.write_table(pa.table(rows.by_role()), work / ROWS, compression="zstd")
        base = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', spec.name).strip('.-') or 'run'}-{started:%Y%m%d-%H%M%S}"
        names = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
        return next(folder for name in names if _written(work, folder := runs / name, report, spec))
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _written(work: Path, folder: Path, report: Report, spec: Spec) -> bool:
    """Write the report, and give the folder its name; False if another has it, of a run at the same time."""
    if folder.exists():
        return False
    report.volatile.folder = str(folder)
    if "json" in spec.report.formats:
        (work / "report.json").write_text(to_json(report), encoding="utf-8")
    if "html" in spec.report.formats:
        (work / "report.html").write_text(render(report), encoding="utf-8")
    try:
        work.rename(folder)
    except OSError:
        if folder.exists():
            return False
        raise
    return True


def to_json(report: Report) -> str:
    """Return the report as JSON text."""
    return report.model_dump_json(indent=1) + "\n"


def summary(run: Run) -> dict[str, Any]:
    """Return what ``scopefe execute --json`` prints of a run."""
    facts, report = run.report.evaluation, run.report

    def score(value: Any) -> dict[str, float] | None:
        return None if value is None else {"mean": value.mean, "std": value.std}

    difference = None if facts is None else facts.difference

    def written(name: str) -> str | None:
        return str(run.folder / name) if run.folder and (run.folder / name).is_file() else None

    return {
        "name": run.name,
        "run_dir": None if run.folder is None else str(run.folder),
        "report": written("report.json"),
        "recipe": written("recipe.json"),
        "run_seconds": report.volatile.run_seconds,
        "run_stored_seconds": report.volatile.run_stored_seconds,
        "never_tried": report.space.never_tried,
        "selected": [s.formula for s in report.selection.selected],
        "features": run.recipe.names,
        "metric": None
        if facts is None
        else {"name": facts.metric, "base": score(facts.base), "with_features": score(facts.with_features)},
        "difference": None if difference is None else difference.model_dump(),
    }
