"""Whole runs and their stages: the openfe package, the full search, and scope-fe.

The package is given the candidates, and the start of its process is left out: its RUN is the sum of its three
stages. RUN of scopefe has clustering, probing and enumeration in it too. Rows, seed and jobs are the same.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from benchmarks.harness import Comparison, Scale, Settings, interleave
from benchmarks.package import STAGES, PackageRun, kept_run, package_run
from benchmarks.tables import Data, part, real
from scopefe.report.model import Report

KEPT = ("telecom", "diabetes130", "nomao")
REPEATED = ("telecom", "diabetes130")  # nomao's 81,044 candidates take the package half an hour on any rows
WHOLE: Mapping[Scale, Sequence[str]] = {
    "tiny": (),
    "quick": ("california_housing",),
    "full": ("california_housing", *KEPT),
}
FEWER_ROWS = 4_000
PACKAGE, FULL, SCOPED = "openfe package", "full search", "scope-fe"


@dataclass(frozen=True)
class Leg:
    """What a run took, by stage and in all (RUN), and what came of it."""

    seconds: dict[str, float]
    candidates: int
    selected: list[str]

    @classmethod
    def of_package(cls, run: PackageRun) -> Self:
        """Read a run of the package."""
        return cls(run.seconds | {"RUN": sum(run.seconds.values())}, run.candidates, run.selected)

    @classmethod
    def of_report(cls, report: Report) -> Self:
        """Read a run of ours."""
        seconds = {t.step: t.seconds for t in report.volatile.times} | {"RUN": report.volatile.run_seconds}
        return cls(seconds, report.space.pool.raw, [s.formula for s in report.selection.selected])


Legs = dict[str, list[Leg]]


def run(settings: Settings) -> Iterator[Comparison]:
    """Compare stages and RUN on whole tables, RUN over all of them, and all that on fewer rows."""
    tables, measured = real(WHOLE[settings.scale], settings.scale), []
    for data in tables:
        legs = legs_on(data, settings)
        measured.append(legs)
        yield from compared(data.name, legs)
    if len(measured) > 1:
        yield geometric_mean(measured)
    for data in [part(table.name, FEWER_ROWS) for table in tables if table.name in REPEATED]:
        yield from compared(data.name, legs_on(data, settings))


def legs_on(data: Data, settings: Settings) -> Legs:
    """Run all legs in turn; the package only once, if ever, where its run is kept."""
    compiled = data.compile("openfe")
    kept = kept_run(compiled, data.name, settings) if data.name in KEPT else None
    return interleave(
        {
            PACKAGE: lambda: Leg.of_package(kept or package_run(compiled, data.name)),
            FULL: lambda: Leg.of_report(data.execute("openfe")),
            SCOPED: lambda: Leg.of_report(data.execute("scope-fe")),
        },
        settings.repeats,
    )


def compared(group: str, legs: Legs) -> Iterator[Comparison]:
    """Compare the stages of both full searches, RUN of both of ours with the package's, and within ours."""
    first = {name: runs[0] for name, runs in legs.items()}
    same = len(set(first[PACKAGE].selected) & set(first[FULL].selected))
    notes = {
        FULL: f"{first[FULL].candidates:,} candidates, {same} of {len(first[PACKAGE].selected)} selected "
        f"features the package's",
        SCOPED: f"{first[SCOPED].candidates:,} candidates",
    }
    against = f"{PACKAGE}, one run" if group in KEPT else PACKAGE
    for stage, leg in [*((stage, FULL) for stage in STAGES), ("RUN", FULL), ("RUN", SCOPED)]:
        yield Comparison(
            group=group,
            name=f"{stage}, {leg}",
            against=against,
            peer=taken(legs[PACKAGE], stage),
            scopefe=taken(legs[leg], stage),
            note=notes[leg] if stage == "RUN" else "",
        )
    for leg in (FULL, SCOPED):
        yield Comparison(
            group=group,
            name=f"attribution, {leg}",
            against="its RUN",
            peer=taken(legs[leg], "RUN"),
            scopefe=taken(legs[leg], "attribution"),
            reading="share",
        )


def taken(runs: list[Leg], stage: str) -> list[float]:
    """Return the seconds of a stage, once per repeat."""
    return [leg.seconds[stage] for leg in runs]


def geometric_mean(measured: list[Legs]) -> Comparison:
    """Compare RUN of scope-fe with the package's over all tables."""

    def mean(leg: str) -> list[float]:
        runs = zip(*(taken(legs[leg], "RUN") for legs in measured), strict=True)
        return [statistics.geometric_mean(repeat) for repeat in runs]

    return Comparison(
        group=f"geometric mean of {len(measured)} tables",
        name=f"RUN, {SCOPED}",
        against=PACKAGE,
        peer=mean(PACKAGE),
        scopefe=mean(SCOPED),
    )
