"""How the cost grows with rows, features and candidates, and falls with workers; peak memory.

Tables are generated, but for the one of peak memory: columns of Covtype, repeated with noise.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd

from benchmarks import memory
from benchmarks.harness import Comparison, Reading, Scale, Settings, interleave
from benchmarks.tables import Data, generated, has, part
from scopefe.report.model import Report


@dataclass(frozen=True)
class Sizes:
    """What is measured: series of sizes, what stays the same beside them, and rows and columns for memory."""

    rows: Sequence[int]
    features: Sequence[int]
    candidates: Sequence[int]
    memory: tuple[int, int] | None


SIZES: Mapping[Scale, Sizes] = {
    "tiny": Sizes((200, 400), (4, 6), (40, 80), (400, 8)),
    "quick": Sizes((5_000, 10_000, 20_000), (8, 16, 32), (250, 500, 1_000), None),
    "full": Sizes((20_000, 80_000, 320_000), (16, 32, 64), (1_000, 2_000, 4_000), (1_000_000, 50)),
}
WORKERS = (1, 2)
FEW_TREES = "baseline.max_trees=50"
# all survivors go into one model: LightGBM holds about a byte for each of their values
FEW_SURVIVORS = ("selection.data_blocks=64", "selection.min_candidates=200")


def scaling(settings: Settings) -> Iterator[Comparison]:
    """Compare each size with the smallest one, and memory with the data."""
    sizes = SIZES[settings.scale]
    rows, features = sizes.rows[0], sizes.features[1]
    yield from _series(
        f"rows, at {features} features: RUN of scope-fe",
        {f"{n:,} rows": partial(_scoped, generated("regression", n, features)) for n in sizes.rows},
        settings,
    )
    yield from _series(
        f"features, at {rows:,} rows: RUN of scope-fe",
        {f"{d} features": partial(_scoped, generated("regression", rows, d)) for d in sizes.features},
        settings,
    )
    table = generated("regression", rows, sizes.features[-1])
    with tempfile.TemporaryDirectory() as folder:
        pools = pools_of(table, sizes.candidates, Path(folder))
        calls = {f"{n:,} candidates": partial(_halving, table, pool) for n, pool in pools.items()}
        yield from _series(f"candidates, at {rows:,} rows: halving", calls, settings)
        pool = pools[sizes.candidates[-1]]
        calls = {f"jobs: {n}": partial(_halving, table, pool, f"execution.jobs={n}") for n in WORKERS}
        yield from _series(f"workers, at {rows:,} rows: halving", calls, settings, reading="faster")
    if sizes.memory and memory.available():
        yield peak_memory(*sizes.memory)


def _series(
    group: str, calls: Mapping[str, Callable[[], float]], settings: Settings, reading: Reading = "cost"
) -> Iterator[Comparison]:
    times = interleave(calls, settings.repeats)
    first, *others = times
    for name in others:
        yield Comparison(
            group=group, name=name, against=first, peer=times[first], scopefe=times[name], reading=reading
        )


def _scoped(data: Data) -> float:
    return data.execute("scope-fe", FEW_TREES).volatile.run_seconds


def _halving(data: Data, pool: Path, *overrides: str) -> float:
    report = data.execute("openfe", FEW_TREES, *overrides, pool=pool)
    return next(t.seconds for t in report.volatile.times if t.step == "halving")


def pools_of(data: Data, counts: Sequence[int], folder: Path) -> dict[int, Path]:
    """Write random parts of a table's universe, one file per number of candidates."""
    whole = folder / "whole.parquet"
    data.compile("openfe").write_pool(whole)
    shuffled = pd.read_parquet(whole).sample(frac=1, random_state=0)
    result = {count: folder / f"{count}.parquet" for count in counts}
    for count, path in result.items():
        shuffled.iloc[:count].to_parquet(path)
    return result


def peak_memory(rows: int, columns: int) -> Comparison:
    """Compare the peak of a process that executes scope-fe on a frame with the size of the frame."""
    data = wide_table(rows, columns)
    assert data.frame is not None
    used = memory.memory_of(_execute, data)
    return Comparison(
        group=f"peak memory, {rows:,} rows × {columns} columns",
        name="whole process, scope-fe",
        against="size of the data",
        peer=[float(data.frame.memory_usage(deep=True).sum())],
        scopefe=[float(used.peak)],
        unit="bytes",
        reading="cost",
        note=f"{used.before / 1e6:,.0f} MB before the run",
    )


def wide_table(rows: int, columns: int) -> Data:
    """Return columns of Covtype, as float64, with a binary target, or generated ones."""
    if not has("covtype"):
        return generated("binary", rows, columns)
    data = part("covtype", rows)
    assert data.frame is not None
    target = data.frame.columns[-1]
    kept = [*data.frame.columns[:columns], target]
    binary = (f"data.target={{column: {target}, positive: [2]}}", "data.task=binary")
    numbers = data.frame[kept].astype(dict.fromkeys(kept[:-1], float))
    return replace(data, frame=numbers, overrides=(*data.overrides, *binary))


def _execute(data: Data) -> Report:
    return data.execute("scope-fe", FEW_TREES, *FEW_SURVIVORS)
