"""An ablation in one process with one store, against its runs on their own.

The legs are openfe (the full search), fc-only, op-only and scope-fe. Seconds are those a user waits, reading
the data included.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from benchmarks.harness import Comparison, Reading, Scale, Settings, interleave, seconds
from benchmarks.tables import Data, real
from scopefe.run.store import Store

LEGS = ("openfe", "fc-only", "op-only", "scope-fe")
TABLES: Mapping[Scale, Sequence[str]] = {
    "tiny": (),
    "quick": ("california_housing",),
    "full": ("california_housing", "telecom"),
}


def ablation(settings: Settings) -> Iterator[Comparison]:
    """Compare with four cold runs, and with the full search alone."""
    for data in real(TABLES[settings.scale], settings.scale):
        yield from _compared(data, settings)


def _compared(data: Data, settings: Settings) -> Iterator[Comparison]:
    sides = {"together": partial(together, data), "alone": partial(alone, data)}
    times = interleave(sides, settings.repeats)
    shared = [sum(legs.values()) for legs in times["together"]]
    cold = [sum(legs.values()) for legs in times["alone"]]
    full = [legs["openfe"] for legs in times["alone"]]

    def comparison(against: str, peer: list[float], reading: Reading) -> Comparison:
        name = "four legs, one store"
        return Comparison(
            group=data.name, name=name, against=against, peer=peer, scopefe=shared, reading=reading
        )

    yield comparison("four cold runs", cold, "faster")
    yield comparison("the full search alone", full, "cost")


def together(data: Data) -> dict[str, float]:
    """Return the seconds of each leg, all with one store."""
    store = Store()
    return {leg: seconds(partial(data.execute, leg, store=store)) for leg in LEGS}


def alone(data: Data) -> dict[str, float]:
    """Return the seconds of each leg on its own."""
    return {leg: seconds(partial(data.execute, leg)) for leg in LEGS}
