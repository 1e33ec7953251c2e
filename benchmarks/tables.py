"""Tables to measure on: real ones from the folder SCOPEFE_DATA, parts of them, and generated ones."""

from __future__ import annotations

import os
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import scopefe
from benchmarks.harness import Scale
from scopefe.data.dataset import Task
from scopefe.data.source import read_file
from scopefe.report.model import Report
from scopefe.run.compiling import Compiled
from scopefe.run.executing import execute
from scopefe.run.store import Store

COLD = ("evaluation.seeds=0", "execution.cache=false")
SPLIT = "data.split={by: fractions, train: 0.8, selection: 0.2, test: 0, seed: 1}"
TASKS: dict[str, Task] = {"california_housing": "regression", "covtype": "multiclass"}
STAND_IN: Mapping[Scale, tuple[int, int]] = {"tiny": (300, 4), "quick": (16_000, 8), "full": (16_000, 8)}
MANY_VALUES, NOISE = 100, 1e-3


@dataclass(frozen=True, eq=False)
class Data:
    """A table, and what its specs have in common.

    Parameters
    ----------
    name
        What people call it.
    frame
        The table; None for the one that the fragments name.
    fragments, overrides
        What is laid over a variant.
    """

    name: str
    frame: pd.DataFrame | None = None
    fragments: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()

    def spec(self, variant: str, *overrides: str) -> scopefe.Spec:
        """Return a variant on this table; nothing of it is kept on disk or evaluated."""
        chosen = [*COLD, *self.overrides, *overrides]
        return scopefe.load_spec(variant, fragments=self.fragments, overrides=chosen)

    def compile(self, variant: str, *overrides: str) -> Compiled:
        """Compile a variant."""
        return scopefe.compile(self.spec(variant, *overrides), data=self.frame)

    def execute(
        self, variant: str, *overrides: str, pool: Path | None = None, store: Store | None = None
    ) -> Report:
        """Execute a variant, cold unless there is a store, and return its report."""
        spec = self.spec(variant, *overrides)
        return execute(spec, data=self.frame, pool=pool, store=store, write=False).report


def has(name: str) -> bool:
    """Whether a real table is there."""
    return table_path(name).is_file()


def table_path(name: str) -> Path:
    """Return where a real table would be."""
    return Path(os.environ.get("SCOPEFE_DATA", "")) / f"{name}.parquet"


def whole(name: str) -> Data:
    """Return a real table with the split and the settings of the OpenFE benchmark."""
    return Data(name, fragments=(f"data/{name}",))


def real(names: Sequence[str], scale: Scale) -> list[Data]:
    """Return the real tables that are there, or a generated one if none is."""
    there = [whole(name) for name in names if has(name)]
    return there or [generated("regression", *STAND_IN[scale])]


def part(name: str, rows: int, *, classes: int | None = None) -> Data:
    """Return rows of a real table, or a generated one with its task where it is not there.

    Where the table has fewer rows, they are repeated with noise in the numeric columns of many values.

    Parameters
    ----------
    classes
        How many classes are left, the largest ones; None leaves all.
    """
    if not has(name):
        return generated(TASKS.get(name, "binary"), rows, 12)
    target = whole(name).spec("openfe").data.target.column
    frame = read_file(table_path(name))
    if classes is not None:
        frame = frame[frame[target].isin(frame[target].value_counts().index[:classes])]
    return Data(f"{name}, {rows:,} rows", drawn(frame, rows, target), (f"data/{name}",), (SPLIT,))


def drawn(frame: pd.DataFrame, rows: int, target: str) -> pd.DataFrame:
    """Draw rows of a table, with noise where they have to be repeated."""
    rng = np.random.default_rng(0)
    result = frame.iloc[rng.choice(len(frame), rows, replace=rows > len(frame))].reset_index(drop=True)
    if rows <= len(frame):
        return result
    for name in frame.columns.drop(target):
        column = frame[name]
        if pd.api.types.is_numeric_dtype(column) and column.nunique() > MANY_VALUES:
            noise = rng.normal(scale=NOISE * column.std(), size=rows)
            result[name] += noise.astype(np.float32) if column.dtype == np.float32 else noise
    return result


def generated(task: Task, rows: int, features: int) -> Data:
    """Return a generated table: of four columns, one each is float64, float32, of few values, and text."""
    rng = np.random.default_rng(0)
    columns = {f"x{i}": rng.normal(size=rows) for i in range(features)}
    signal = columns["x0"] * columns["x1"] + np.abs(columns["x2"]) + rng.normal(size=rows)
    for i, name in enumerate(columns):
        if i % 4 == 1:
            columns[name] = columns[name].astype(np.float32)
        elif i % 4 > 1:
            columns[name] = np.round(4 * columns[name]) + 0.0  # no negative zeros: as text they are others
    frame = pd.DataFrame(columns)
    for name in frame.columns[3::4]:
        frame[name] = "v" + frame[name].astype(int).astype(str)
    classes = {"regression": 0, "binary": 2, "multiclass": 4}[task]
    frame["y"] = pd.qcut(signal, classes, labels=False) if classes else signal
    overrides = ("data.target=y", f"data.task={task}", SPLIT)
    return Data(f"generated, {rows:,} rows × {features}", frame, overrides=overrides)


def warm_up() -> None:
    """Run every task once, so that compiled code is loaded before anything is timed."""
    for task in typing.get_args(Task):
        generated(task, 400, 8).execute("openfe")
