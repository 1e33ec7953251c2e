"""The association matrix of many numeric columns.

The peers are loops over the pairs of columns that call scipy, or, where values are missing, pandas. They are
timed on a sample of the pairs, from which the seconds for all pairs are extrapolated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.stats import pearsonr
from scopefe.gates.association import association as matrix_of

from benchmarks import memory
from benchmarks.harness import Comparison, Scale, Settings, interleave, seconds
from scopefe.components import Array
from scopefe.data.table import Feature, Table

SIZES: Mapping[Scale, tuple[int, int]] = {"tiny": (500, 6), "quick": (50_000, 136), "full": (723_412, 136)}
PAIRS = 100
MISSING = 0.05

Statistic = Callable[[Array, Array], float]


def association(settings: Settings) -> Iterator[Comparison]:
    """Compare on complete columns, on columns with gaps, and in memory."""
    rows, columns = SIZES[settings.scale]
    group = f"{columns} columns, {rows:,} rows"
    complete = columns_of(rows, columns)
    yield _against_loop(group, "complete", "scipy, pair by pair", pearson, complete, settings)
    gaps = columns_of(rows, columns, missing=MISSING)
    yield _against_loop(group, "with missing values", "pandas, pair by pair", pandas_corr, gaps, settings)
    if memory.available():
        used = memory.memory_of(matrix_of, complete)
        yield Comparison(
            group=group,
            name="peak memory beyond the data",
            against="size of the data",
            peer=[8.0 * rows * columns],
            scopefe=[float(used.peak - used.before)],
            unit="bytes",
            reading="cost",
        )


def _against_loop(
    group: str, name: str, against: str, statistic: Statistic, table: Table, settings: Settings
) -> Comparison:
    pairs = list(combinations(range(len(table)), 2))
    chosen = np.random.default_rng(1).permutation(len(pairs))[:PAIRS]
    sample = [pairs[i] for i in chosen]
    share = len(pairs) / len(sample)

    def loop() -> float:
        return share * seconds(lambda: [statistic(table[i].numbers, table[j].numbers) for i, j in sample])

    found = matrix_of(table)
    expected = [abs(statistic(table[i].numbers, table[j].numbers)) for i, j in sample]
    times = interleave({"loop": loop, "scopefe": lambda: seconds(lambda: matrix_of(table))}, settings.repeats)
    return Comparison(
        group=group,
        name=name,
        against=against,
        peer=times["loop"],
        scopefe=times["scopefe"],
        note="" if share == 1 else f"extrapolated from {len(sample)} of {len(pairs):,} pairs",
        difference=max(abs(found[pair] - value) for pair, value in zip(sample, expected, strict=True)),
    )


def pearson(a: Array, b: Array) -> float:
    """Return the correlation as scipy computes it."""
    return float(pearsonr(a, b)[0])


def pandas_corr(a: Array, b: Array) -> float:
    """Return the pairwise-complete correlation as pandas computes it."""
    return float(pd.Series(a).corr(pd.Series(b)))


def columns_of(rows: int, columns: int, missing: float = 0.0) -> Table:
    """Return correlated float64 columns, made one by one."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=rows)
    features = []
    for i in range(columns):
        values = rng.normal(size=rows)
        values += (i % 8) / 4 * common
        if missing:
            values[rng.random(rows) < missing] = np.nan
        features.append(Feature(f"x{i}", "numerical", values))
    return Table(features, rows)
