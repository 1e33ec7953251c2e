"""From a spec to selected features, a recipe and a provenance report."""

from __future__ import annotations

import datetime
import itertools
import logging
import platform
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from narwhals.typing import IntoDataFrame

import scopefe
from scopefe.components import Array
from scopefe.data.dataset import Dataset
from scopefe.evaluate.choosing import Choice
from scopefe.evaluate.downstream import (
    Matrix,
    evaluate,
    fitted_features,
    metric_of,
    originals,
    transductive_features,
)
from scopefe.evaluate.learners import require
from scopefe.recipe.fitting import described
from scopefe.recipe.recipe import Recipe
from scopefe.report import build, tracking
from scopefe.report.html import brief, render
from scopefe.report.model import (
    DataFacts,
    EvaluationFacts,
    Report,
    StepTime,
    StopFacts,
    Volatile,
)
from scopefe.run.budgets import Stop, Watch
from scopefe.run.code import code_key
from scopefe.run.compiling import Compiled, compile
from scopefe.run.progress import Listener, silent
from scopefe.run.selecting import keep, recipe_of, select
from scopefe.run.store import Store
from scopefe.run.workbench import Timing, Workbench
from scopefe.score.selection import Selected
from scopefe.space.graph import key_of
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
NOISY, FEW_TREES = 0.25, 5
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
        return bool(self.report.space.pool.raw and not self.report.selection.ranking)


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
        tracking.require()
    watch = Watch(spec.execution.budget, clock)
    compiled = compile(spec, data=data, pool=pool, store=store, listener=listener)
    bench, dataset = compiled.bench, compiled.data
    assert bench is not None and dataset is not None
    with bench.step("pool"):
        candidates = compiled.scope.ids()
    block, scores, selected = select(compiled, candidates, watch)
    kept, choice = keep(compiled, candidates, selected, watch)
    _extend(compiled, spec, selected, watch.stop)
    recipe = recipe_of(compiled, dataset.development, selected, kept, compiled.graph["recipe"].key)
    recipe = described(recipe, dataset.development)
    evaluation = _evaluate(compiled, dataset, recipe, kept, watch)
    facts, paths = build.data_facts(spec, dataset), dict[str, str]()
    times = [_step_time(t) for t in bench.times]
    report = Report(
        scopefe=scopefe.__version__,
        name=spec.name,
        description=spec.description,
        spec=build.spec_facts(spec, paths),
        seed=spec.seed,
        versions=build.versions(),
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
            kept,
            recipe,
            dataset,
            choice,
            compiled.protocol,
            _stop_facts(watch.stop),
        ),
        evaluation=evaluation,
        notes=_notes(compiled, dataset, facts, selected, choice, evaluation, watch.stop),
        volatile=Volatile(
            started=started.isoformat(timespec="seconds"),
            seconds=time.perf_counter() - clock,
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
    bench.engine.close()
    folder = _write(report, recipe, spec, started) if write else None
    if spec.report.mlflow is not None:
        tracking.track(spec.report.mlflow, report, folder)
    run = Run(report, recipe, folder)
    if watch.stop or run.failed:
        reason = watch.stop.reason if watch.stop else EVERY_FAILED
        _log.log(logging.ERROR if run.failed else logging.WARNING, "%s: %s", spec.name, reason)
    return run


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


def _evaluate(
    compiled: Compiled, data: Dataset, recipe: Recipe, kept: Array, watch: Watch
) -> EvaluationFacts | None:
    """Measure before and after, on the test rows."""
    spec, bench, universe = compiled.spec, compiled.bench, compiled.universe
    assert bench is not None
    settings = spec.evaluation
    if not settings.seeds or not len(data.rows.test) or watch.stops("evaluation"):
        return None
    benchmark = settings.protocol == "benchmark"

    @cache
    def base() -> Matrix:
        return originals(data, benchmark=benchmark)

    @cache
    def extended() -> Matrix:
        new = transductive_features(data, recipe) if benchmark else fitted_features(data, recipe)
        return base().beside(new)

    with bench.step("evaluation", settings.seeds * (1 + bool(recipe.features))) as advance:
        before = _measure(bench, data, base, [code_key()], advance)
        after = None
        if recipe.features:
            features = [code_key(universe.operators), universe.key, kept.tolist()]
            after = _measure(bench, data, extended, features, advance)
    return build.evaluation_facts(metric_of(data.labels.task, settings.metric), spec, before, after)


def _measure(
    bench: Workbench,
    data: Dataset,
    matrix: Callable[[], Matrix],
    features: list[Any],
    advance: Callable[[int], None],
) -> list[float]:
    """Return the metric per seed; `features` tells the matrix from all others of the same data."""
    settings = bench.spec.evaluation

    def compute(seeds: Array) -> Iterable[float]:
        return evaluate(
            data,
            matrix(),
            bench.engine,
            learner=settings.learner.learner,
            parameters=settings.learner.parameters,
            metric=settings.metric,
            seeds=seeds.tolist(),
            max_trees=settings.max_trees,
            early_stopping=settings.early_stopping,
            advance=advance,
        )

    protocol = settings.model_dump(mode="json", exclude={"seeds"})
    key = key_of(["evaluation", data.fingerprint, data.test_fingerprint, protocol, features])
    about, seeds = bench.about("evaluation", data), np.arange(settings.seeds)
    found = bench.store.vector(key, seeds, compute, bench.disk, about, advance)
    scores: list[float] = found.values.tolist()
    return scores


def _notes(
    compiled: Compiled,
    data: Dataset,
    facts: DataFacts,
    selected: Selected,
    choice: Choice | None,
    evaluation: EvaluationFacts | None,
    stop: Stop | None,
) -> list[str]:
    """Say what a reader should know."""
    notes = []
    if compiled.spec.data.task == "auto":
        notes.append(f"The task was taken to be {data.labels.task} from the target's values.")
    note = getattr(compiled.spec.data.split, "note", "")
    if note:
        notes.append(note)
    for why, count in data.rows_left_out.items():
        if count:
            notes.append(f"Left out: {count:,} {'row' if count == 1 else 'rows'} {why}.")
    if not compiled.pool_size:
        notes.append("The pool is empty: no feature can be selected.")
    if selected.halving.rounds and not len(selected.halving.survivors):
        notes.append("Every candidate failed: nothing could be selected.")
    elif compiled.spec.selection.keep == "all":
        notes.append("Every candidate of the pool is kept, whatever its gain.")
    elif selected.halving.rounds and not (selected.halving.rounds[-1].gains > 0).any():
        notes.append("No candidate has a gain above 0; the best ones by rank were carried on.")
    noise = selected.halving.rounds[-1].agreement if selected.halving.rounds else None
    if noise is not None and noise < NOISY:
        notes.append(
            f"Gains of two folds hardly agree (correlation {noise:.2f}): on this table they are mostly noise."
        )
    quantised = compiled.facts.get("quantised", {})
    if quantised and quantised["rows_scored"] < quantised["rows"]:
        notes.append(
            f"The gate quantised scored candidates on {quantised['rows_scored']:,} of "
            f"{quantised['rows']:,} rows, drawn at random."
        )
    widened = quantised.get("kept_by_importance")
    if widened:
        notes.append(
            f"Scores of the gate quantised hardly agree between folds: {widened:,} more candidates are kept, "
            "by the importance of their features."
        )
    ranked, without = selected.attribution, int((selected.attribution.importances <= 0).sum())
    if compiled.spec.selection.attribution == "held-out" and 0 < ranked.trees <= FEW_TREES and without:
        notes.append(
            f"The attribution's model stopped at tree {ranked.trees}: {without:,} of "
            f"{len(ranked.candidates):,} survivors have no importance, and are ranked by gain."
        )
    if choice is not None and not choice.kept:
        notes.append(
            f"Nothing is kept: on {choice.rows:,} rows that the search had not seen, no number of "
            f"features lowered the loss surely enough (p = {choice.p:.2g})."
        )
    if compiled.decides and choice is None and stop is None and len(selected.halving.survivors):
        notes.append("Nothing is kept: no ranked candidate has importance, and values of its own.")
    if stop is not None:
        notes.append(f"Ended before {stop.before}: execution.budget.{stop.budget} is spent.")
        if stop.budget != "max_candidates":
            notes.append("Where a run ends by this budget depends on the machine, and so does what it found.")
        if selected.halving.rounds and stop.before not in ("choice", "evaluation"):
            notes.append("Without attribution, candidates are ranked by their gains in the last round.")
    elif evaluation is None:
        notes.append("There was no evaluation: no seeds, or no test rows.")
    constant = [f.name for f in facts.features if f.distinct + bool(f.missing) < 2]
    if constant:
        notes.append(f"Constant on the development rows: {', '.join(constant[:20])}.")
    return notes


def _write(report: Report, recipe: Recipe, spec: Spec, started: datetime.datetime) -> Path:
    """Write report and recipe into a folder that appears only when it is whole."""
    runs = Path(spec.execution.runs)
    runs.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".", dir=runs))
    try:
        work.chmod(0o755)
        recipe.save(work / "recipe.json")
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

    def written(name: str) -> str | None:
        return str(run.folder / name) if run.folder and (run.folder / name).is_file() else None

    return {
        "name": run.name,
        "run_dir": None if run.folder is None else str(run.folder),
        "report": written("report.json"),
        "recipe": written("recipe.json"),
        "run_seconds": report.volatile.run_seconds,
        "run_stored_seconds": report.volatile.run_stored_seconds,
        "selected": [s.formula for s in report.selection.selected],
        "metric": None
        if facts is None
        else {"name": facts.metric, "base": score(facts.base), "with_features": score(facts.with_features)},
    }
