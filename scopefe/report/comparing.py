"""Runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scopefe.audit.statistics import Margins
from scopefe.report.model import Report
from scopefe.report.numbers import metric_name
from scopefe.report.tables import Column, Spread, Table, decimals, metric, share, spread, whole


def comparison(reports: Sequence[Report]) -> Table:
    """Compare runs with the first one: candidates, time, score, features in common.

    Scores are compared where data, split and evaluation are the first run's, and each with its own base.
    """
    first = reports[0]
    evaluations = [r.evaluation for r in reports if r.evaluation is not None]
    names = sorted({metric_name(e.metric) for e in evaluations})
    return Table(
        "comparison",
        "Runs" + (f", by {' and '.join(names)}" if names else ""),
        [
            Column("run"),
            Column("data"),
            Column("candidates", whole),
            Column("reduction", share),
            Column("RUN (s)", decimals(1)),
            Column("base", spread),
            Column("with features", spread),
            Column("against base"),
            Column("difference", lambda v: ("+" if v > 0 else "") + metric(v)),
            Column("against the first"),
            Column("features in common", whole),
        ],
        [_row(report, first, name) for report, name in zip(reports, _names(reports), strict=True)],
        "Against base: whether the 95 % interval of the difference over test rows lies on one side of 0. "
        "Against the first: a tie is within 0.005 of ROC-AUC or accuracy, and 1 % of RMSE.",
    )


def _names(reports: Sequence[Report]) -> list[str]:
    """Return the names of runs; where two have one, the names of their folders, if they have any."""
    names = [report.name for report in reports]
    if len(set(names)) == len(names):
        return names
    return [Path(r.volatile.folder).name or r.name for r in reports]


def _row(report: Report, first: Report, name: str) -> list[Any]:
    formulas = {s.formula for s in report.selection.selected}
    common = len(formulas & {s.formula for s in first.selection.selected})
    return [
        name,
        report.data.source,
        report.space.pool.raw,
        report.space.reduction,
        report.volatile.run_seconds,
        *_scores(report, first),
        None if report is first else common,
    ]


def _scores(report: Report, first: Report) -> list[Any]:
    facts, other = report.evaluation, first.evaluation
    if facts is None:
        return [None] * 5
    base, after = facts.base, facts.with_features or facts.base
    own = None if facts.difference is None else facts.difference.verdict
    shown: list[Any] = [Spread(base.mean, base.std), Spread(after.mean, after.std), own]
    if report is first or other is None or _measured(report) != _measured(first):
        return [*shown, None, None]
    reference = (other.with_features or other.base).mean
    outcome: str | None = Margins().outcome(after.mean, reference, metric=facts.metric)
    if outcome == "win" and (after.mean > base.mean) != facts.larger_is_better:
        outcome = "win, but no better than base"
    return [*shown, after.mean - reference, outcome]


def _measured(report: Report) -> list[Any]:
    """Return what a score is of: the rows, and all of the evaluation but the number of its seeds."""
    evaluation = {key: value for key, value in report.spec["evaluation"].items() if key != "seeds"}
    return [report.data.fingerprint, report.data.test_fingerprint, evaluation]
