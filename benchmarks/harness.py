"""What all entries share: comparisons, how they are timed, and the files they are kept in."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, TypeVar

from pydantic import BaseModel, computed_field

from scopefe.report.build import versions

T = TypeVar("T")
Scale = Literal["tiny", "quick", "full"]
Unit = Literal["s", "bytes"]
Reading = Literal["faster", "cost", "share"]
SHOWN: Mapping[Reading, str] = {
    "faster": "{:.1f} times faster",
    "cost": "{:.2f} times as much",
    "share": "{:.0%} of it",
}
UNITS: Mapping[Unit, Sequence[tuple[float, str]]] = {
    "s": ((1, "s"), (1e-3, "ms"), (1e-6, "µs")),
    "bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")),
}


@dataclass(frozen=True)
class Settings:
    """How much to measure.

    Parameters
    ----------
    scale
        ``quick`` takes minutes, ``full`` hours, ``tiny`` seconds.
    repeats
        How often each side is measured.
    folder
        Where results are kept.
    again
        Whether to repeat runs of the openfe package that are kept already.
    """

    scale: Scale
    repeats: int
    folder: Path
    again: bool = False


class Spread(BaseModel):
    """Ratios over the repeats."""

    median: float
    min: float
    max: float


class Comparison(BaseModel):
    """One quantity, measured on both sides in turn.

    Parameters
    ----------
    group, name
        What was measured.
    against
        What scopefe is compared with.
    peer, scopefe
        The quantity on each side, once per repeat.
    reading
        ``faster`` divides peer by scopefe; ``cost`` and ``share`` divide scopefe by peer.
    note
        What else a reader should know.
    difference
        Largest difference of the results of both sides, in units of the metric.
    """

    group: str
    name: str
    against: str
    peer: list[float]
    scopefe: list[float]
    unit: Unit = "s"
    reading: Reading = "faster"
    note: str = ""
    difference: float | None = None

    @computed_field  # type: ignore[prop-decorator]
    @property
    def ratio(self) -> Spread:
        """Median and range of the ratios of the repeats."""
        pairs = zip(self.peer, self.scopefe, strict=True)
        ratios = [p / s if self.reading == "faster" else s / p for p, s in pairs]
        return Spread(median=statistics.median(ratios), min=min(ratios), max=max(ratios))

    def cells(self) -> list[str]:
        """Return the texts of a row of a table."""
        name = f"{self.name} ({self.note})" if self.note else self.name
        sides = [quantity(statistics.median(side), self.unit) for side in (self.peer, self.scopefe)]
        shown, ratio = SHOWN[self.reading], self.ratio
        number, words = shown.partition("}")[0] + "}", shown.partition("}")[2]
        low, high = (number.format(v) for v in (ratio.min, ratio.max))
        return [name, self.against, *sides, f"{number.format(ratio.median)}{words} ({low} to {high})"]


Entry = Callable[[Settings], Iterator[Comparison]]


class Machine(BaseModel):
    """Where figures were measured."""

    processor: str
    cores: int
    system: str

    @classmethod
    def this(cls) -> Self:
        """Describe this machine."""
        return cls(processor=processor(), cores=os.cpu_count() or 1, system=platform.platform())


class Kept(BaseModel):
    """Figures as they are kept in a file, with where and when they were measured."""

    machine: Machine
    versions: dict[str, str]
    date: datetime.date

    @classmethod
    def now(cls, **fields: object) -> Self:
        """Return what was just measured here."""
        packages = versions() | {"openfe": importlib.metadata.version("openfe")}
        facts = {"machine": Machine.this(), "versions": packages, "date": datetime.date.today()}
        return cls.model_validate(facts | fields)

    def write(self, path: Path) -> None:
        """Write a file that appears only when it is whole."""
        path.parent.mkdir(parents=True, exist_ok=True)
        work = path.with_suffix(".tmp")
        work.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")
        work.replace(path)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read what `write` wrote."""
        return cls.model_validate_json(path.read_text(encoding="utf-8"))


class Results(Kept):
    """What an entry measured, and what ended it early, if anything did."""

    entry: str
    scale: Scale
    comparisons: list[Comparison]
    failure: str = ""


def processor() -> str:
    """Return the processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def interleave(sides: Mapping[str, Callable[[], T]], repeats: int) -> dict[str, list[T]]:
    """Call every side in turn, `repeats` times over, and return what each gave."""
    results: dict[str, list[T]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, call in sides.items():
            results[name].append(call())
    return results


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def quantity(value: float, unit: Unit) -> str:
    """Return a quantity with three digits and a fitting unit."""
    scale, name = next(((s, n) for s, n in UNITS[unit] if value >= s), UNITS[unit][-1])
    return f"{value / scale:.3g} {name}" if value < 1000 * scale else f"{value / scale:,.0f} {name}"
