"""``scopefe execute``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from scopefe.cli.options import Given, as_json, cache_override, given_specs, no_cache, verbosity
from scopefe.cli.output import Settings, one_line, pass_settings, print_json
from scopefe.cli.progress import showing_progress
from scopefe.errors import RunError
from scopefe.report.model import EvaluationFacts, Report, Volatile
from scopefe.report.verdicts import found, instead, verdict
from scopefe.run.executing import Run, execute, summary
from scopefe.run.progress import Listener, silent
from scopefe.run.store import Store

SHOWN = 10


def execute_all(
    given: Given, *overrides: str, pool: Path | None = None, listener: Listener = silent
) -> Iterator[Run]:
    """Execute specs one after the other, sharing what they have in common.

    All of them are loaded first, so that a mistake in the last one does not cost the time of the others.

    Parameters
    ----------
    overrides
        Laid over every spec last.
    pool
        An enumeration to run instead of what the gates leave.

    Raises
    ------
    ScopefeError
        If one of them, its data or a component is at fault.
    """
    store = Store()
    for spec in given.load(*overrides):
        yield execute(spec, pool=pool, store=store, listener=listener)


def told(run: Run) -> str:
    """Return what a run found, in a few lines for people."""
    report = run.report
    selected = report.selection.selected
    space = report.space
    counts = f"{len(selected)} selected of {space.pool.raw:,} candidates"
    untried = f"{space.never_tried:,} never tried" if space.never_tried else "all tried"
    lines = [f"{run.name}: {counts} (universe {space.universe.raw:,}, {untried})"]
    lines += [f"  {s.rank:>2}. {one_line(s.formula)}" for s in selected[:SHOWN]]
    if len(selected) > SHOWN:
        lines.append(f"      and {len(selected) - SHOWN} more")
    if not selected:
        lines += [f"  {one_line(line)}" for line in (found(report), *instead(report))]
    lines += [f"  {line}" for line in _importances(report)]
    lines.append(f"  {_metric(report.evaluation)}")
    lines.append(f"  {_times(report.volatile)}")
    lines += [f"  {line}" for line in _failures(report)]
    if run.folder is not None:
        lines.append(f"  {run.folder}")
    if report.evaluation is not None and report.evaluation.difference is not None:
        lines.append(f"  {verdict(report).sentence}")
    return "\n".join(lines)


def _importances(report: Report) -> list[str]:
    without = sum(s.importance <= 0 for s in report.selection.selected)
    if not without:
        return []
    return [f"{without} of {len(report.selection.selected)} have no importance: they are ranked by gain"]


def _metric(facts: EvaluationFacts | None) -> str:
    if facts is None:
        return "not evaluated"
    before = f"{facts.metric} {facts.base.mean:.4f} ± {facts.base.std:.4f}"
    if facts.with_features is None:
        return f"{before}, without new features"
    direction = "larger" if facts.larger_is_better else "smaller"
    after = facts.with_features
    return f"{before} → {after.mean:.4f} ± {after.std:.4f} ({direction} is better)"


def _times(volatile: Volatile) -> str:
    run, stored = f"RUN {volatile.run_seconds:.1f} s", volatile.run_stored_seconds
    if not stored:
        return f"{run}; with data and evaluation {volatile.seconds:.1f} s"
    return f"all took {volatile.seconds:.1f} s; {run}, of which {stored:.1f} s from the store"


def _failures(report: Report) -> list[str]:
    failures = report.selection.failures
    if not failures:
        return []
    count = len({f.candidate for f in failures})
    first = failures[0]
    what = "1 candidate" if count == 1 else f"{count:,} candidates"
    return [f"{what} failed, first {one_line(first.formula)}: {' '.join(first.error.split())}"]


def _overrides(jobs: int | None, no_html: bool, no_cache: bool) -> list[str]:
    chosen = [] if jobs is None else [f"execution.jobs={jobs}"]
    chosen += ["report.formats=[json]"] if no_html else []
    return [*chosen, *cache_override(no_cache)]


@click.command("execute")
@given_specs
@click.option(
    "--pool",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Run exactly the candidates of this file, written by compile --pool.",
)
@click.option("--jobs", type=click.IntRange(min=1), help="Threads; changes no result.")
@click.option("--no-html", is_flag=True, help="Write report.json without report.html.")
@no_cache
@as_json
@verbosity
@pass_settings
def command(
    settings: Settings,
    given: Given,
    pool: Path | None,
    jobs: int | None,
    no_html: bool,
    no_cache: bool,
    json: bool,
) -> None:
    """Search, select, fit the recipe, evaluate; write a run folder with recipe and report."""
    summaries, failed = [], False
    try:
        with showing_progress(settings) as listener:
            for run in execute_all(given, *_overrides(jobs, no_html, no_cache), pool=pool, listener=listener):
                settings.say(told(run))
                summaries.append(summary(run))
                failed |= run.failed
    finally:
        if json and summaries:
            print_json(summaries if len(given.specs) > 1 else summaries[0])
    if failed:
        raise click.exceptions.Exit(RunError.exit_code)
