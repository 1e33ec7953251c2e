"""A dataset ready for a search: encoded features, target, row roles."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrame

from scopefe.components import Array
from scopefe.data.datetimes import TimePart, with_parts
from scopefe.data.kinds import encode, is_number, nearly_numbers
from scopefe.data.source import read
from scopefe.data.splits import (
    Rows,
    assign,
    column,
    divide,
    divide_groups,
    divide_times,
    group_folds,
    groups_of,
    join,
    role_columns,
    times_of,
)
from scopefe.data.table import Table, text_keys
from scopefe.errors import DataError, suggestion
from scopefe.spec.models import Data, Features, FileSplit, GroupSplit, Sample, Target, TimeSplit

Task = Literal["regression", "binary", "multiclass"]
MAX_CLASSES_OF_NUMBERS = 20


@dataclass(frozen=True, eq=False)
class Labels:
    """The target.

    Parameters
    ----------
    task
        What is predicted.
    values
        float64, shape (rows,): the target of a regression, or class numbers from 0.
    classes
        Texts of the classes, in order; empty for a regression.
    """

    task: Task
    values: Array
    classes: tuple[str, ...] = ()

    @property
    def class_numbers(self) -> Array | None:
        """int64 class numbers, or None for a regression."""
        return None if self.task == "regression" else self.values.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Encoded features, target and row roles.

    Parameters
    ----------
    table
        All rows; categories are over all rows, which changes nothing that is learned.
    labels
        Targets of all rows.
    rows
        Positions by role.
    dropped
        Columns that are no features, with the reason.
    time_parts
        What the features that are parts of datetimes or durations are parts of, by name.
    weights
        What each row counts in a loss, float64, shape (rows,), 1 on average over the development rows: only
        ratios matter. None where all count the same.
    rows_left_out
        How many rows of the source have no role, by reason.
    groups
        Group of each row, int64, shape (rows,): no division of rows takes a group apart. None where rows may
        be divided at random.
    times
        Rank of each row's time, int64, shape (rows,): rows are learned from before later ones are measured
        on. None where they have no order.
    positions
        Position of each row in the source, int64, shape (rows,); None where it has all rows of the source.
        Separate files follow each other: training, selection, test.
    remarks
        What a reader should know of how columns are read.
    """

    table: Table
    labels: Labels
    rows: Rows
    dropped: dict[str, str]
    time_parts: dict[str, TimePart] = field(default_factory=dict)
    weights: Array | None = None
    rows_left_out: dict[str, int] = field(default_factory=dict)
    groups: Array | None = None
    times: Array | None = None
    positions: Array | None = None
    remarks: tuple[str, ...] = ()

    def source_rows(self) -> Rows:
        """Return the positions in the source of the rows of each role."""
        positions = self.positions
        return self.rows if positions is None else self.rows.map(lambda rows: positions[rows])

    @cached_property
    def development(self) -> Table:
        """Training rows, then selection rows."""
        return self.table.take(self.rows.development)

    @cached_property
    def training(self) -> Table:
        """Training rows."""
        return self.table.take(self.rows.train)

    def nested(self, seed: int) -> Dataset:
        """Return the data as seen from the training rows: they are divided again, as the whole data is.

        Parameters
        ----------
        seed
            Seed of the division; classes are stratified where their counts permit. Groups stay whole, and
            where rows have an order, the later ones are selected on.
        """
        return replace(self, rows=Rows(*self._divided(self.rows.train, seed), self.rows.test))

    def fresh(self, seed: int) -> Dataset:
        """Return the test rows alone: divided as the development rows are, with no test rows.

        Parameters
        ----------
        seed
            Seed of the division; see `nested`.
        """
        return replace(self, rows=Rows(*self._divided(self.rows.test, seed), self.rows.test[:0]))

    def _divided(self, rows: Array, seed: int) -> tuple[Array, Array]:
        """Divide positions in the proportion of training and selection rows."""
        share = len(self.rows.selection) / len(self.rows.development)
        size = max(1, round(len(rows) * share))
        if self.times is not None:
            return divide_times(rows, size, self.times)
        if self.groups is not None:
            return divide_groups(rows, share, self.groups, seed)
        return divide(rows, size, self.labels.class_numbers, seed)

    def parts(self, count: int, seed: int) -> list[Dataset]:
        """Return the data without each of some parts of its development rows, which are its test rows then.

        Where rows have an order, a part is held against what the rows before it teach. A part is not taken
        out where that leaves no rows to learn from or to select on, as in a tiny table, or a constant target.

        Parameters
        ----------
        count
            Number of parts, balanced in the target; groups stay whole.
        seed
            Seed of the division.
        """
        views = self._without_parts(count, seed) if self.times is None else self._before_parts(count, seed)
        return [
            replace(self, rows=view)
            for view in views
            if all(view.counts().values()) and np.ptp(self.labels.values[view.train]) > 0
        ]

    def _without_parts(self, count: int, seed: int) -> Iterator[Rows]:
        """Yield the rows without each part, and the part."""
        rows = self.rows
        if self.groups is not None:
            part = group_folds(self.groups[rows.development], count)
        else:
            shuffled = np.random.default_rng(seed).permutation(len(rows.development))
            part = np.empty(len(shuffled), dtype=np.int64)
            ranked = shuffled[np.argsort(self.scaled_target[shuffled], kind="stable")]
            part[ranked] = np.arange(len(part)) % count
        train, selection = np.split(part, [len(rows.train)])
        for i in range(count):
            yield Rows(rows.train[train != i], rows.selection[selection != i], rows.development[part == i])

    def _before_parts(self, count: int, seed: int) -> Iterator[Rows]:
        """Yield the rows before each of so many parts, and the part: there is one more, the first."""
        assert self.times is not None
        rows = self.rows.development
        times = self.times[rows]
        cuts = [len(rows) * i // (count + 1) for i in range(1, count + 1)]
        bounds = [*np.searchsorted(times, times[cuts], side="left").tolist(), len(rows)]
        for first, last in pairwise(bounds):
            if first and times[0] < times[first - 1]:
                yield Rows(*self._divided(rows[:first], seed), rows[first:last])

    @cached_property
    def fingerprint(self) -> str:
        """Hash of what a search reads: development rows, their roles and their targets."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(self.development.fingerprint().encode())
        digest.update(self._measures(self.rows.development))
        digest.update(f"{self.labels.task} {len(self.labels.classes)} {len(self.rows.train)}".encode())
        for related in (self.groups, self.times):
            if related is not None:
                digest.update(np.unique(related[self.rows.development], return_inverse=True)[1].tobytes())
        return digest.hexdigest()

    @cached_property
    def test_fingerprint(self) -> str:
        """Hash of the test rows and their targets."""
        digest = hashlib.blake2b(self._measures(self.rows.test), digest_size=16)
        digest.update(self.table.take(self.rows.test).fingerprint().encode())
        return digest.hexdigest()

    def _measures(self, rows: Array) -> bytes:
        """Return what losses of rows are made of, beside predictions."""
        weights = self.weights_of(rows)
        return self.labels.values[rows].tobytes() + (b"" if weights is None else weights.tobytes())

    def groups_of(self, rows: Array) -> Array | None:
        """Return the group of rows, int64; None where rows may be divided at random."""
        return None if self.groups is None else self.groups[rows]

    def weights_of(self, rows: Array) -> Array | None:
        """Return what rows count in a loss, float64; None where all rows count the same."""
        return None if self.weights is None else self.weights[rows]

    @cached_property
    def scaled_target(self) -> Array:
        """float64, shape (development rows,): what candidates are scored on.

        A regression target is standardised with the mean and standard deviation (ddof 0) of the training
        rows; classes are numbers from 0.
        """
        return self.scaled(self.rows.development)

    def scaled(self, rows: Array) -> Array:
        """Return the target of rows, float64, as `scaled_target` has it."""
        values: Array = self.labels.values[rows]
        if self.labels.task != "regression":
            return values
        train = self.labels.values[self.rows.train]
        scaled: Array = (values - train.mean()) / train.std()
        return scaled

    def unscaled(self, scores: Array) -> Array:
        """Return predictions of a scaled target in its own unit; raw scores of classes as they are."""
        if self.labels.task != "regression":
            return scores
        train = self.labels.values[self.rows.train]
        predicted: Array = scores * train.std() + train.mean()
        return predicted


def load_dataset(data: Data, frame: IntoDataFrame | None = None) -> Dataset:
    """Read, check and encode the data of a spec.

    Parameters
    ----------
    data
        The spec's section.
    frame
        The caller's frame instead of `data.source`; not changed.

    Raises
    ------
    DataError
        If the data cannot be used as the spec asks; one line says why and what to do.
    """
    table = read(data.source, frame, data.missing)
    rows = None
    if isinstance(data.split, FileSplit):
        table, rows = join(data.split, table)
    target = column(table, data.target.column, "data.target")
    present = ~target.isna().to_numpy()
    if not present.all():
        if data.target.missing == "error":
            raise DataError(
                f"target {data.target.column!r} is missing in {int((~present).sum())} of {len(target)} rows; "
                "set data.target.missing=drop to leave them out"
            )
        if rows is not None:
            rows = _among(rows, present)
    labels = read_labels(target[present], data.target, data.task)
    if rows is None:
        rows = _assigned(data, table, present, labels)
    positions = None if present.all() else np.flatnonzero(present)
    if positions is not None:
        table = table[present]
    weights = None if data.weight is None else read_weights(column(table, data.weight, "data.weight"))
    groups = groups_of(data.split, table) if isinstance(data.split, GroupSplit) else None
    times = times_of(data.split, table) if isinstance(data.split, TimeSplit) else None
    no_features = {
        data.target.column: "target",
        **dict.fromkeys(role_columns(data.split), "split"),
        **({} if data.weight is None else {data.weight: "weight"}),
    }
    table, features, dropped, time_parts, remarks = _features(
        data.features, table, no_features, rows.development
    )
    encoded = encode(
        table,
        rows.development,
        columns=features,
        ordinal_max_unique=data.features.ordinal_max_unique,
        kinds=data.features.kinds,
        missing_as=data.features.missing_as,
    )
    assigned = len(rows)
    if data.sample is not None:
        rows = _sampled(rows, data.sample, labels.class_numbers)
    rows_left_out = {
        "without a target": int((~present).sum()),
        "without a role in the split": len(table) - assigned,
        "not drawn into the sample": assigned - len(rows),
    }
    _check_classes(labels, rows)
    _check_features(encoded, rows)
    if weights is not None:
        _check_weights(weights, rows)
        weights = (weights / weights[rows.development].mean()).astype(np.float32).astype(np.float64)
    return Dataset(
        encoded,
        labels,
        rows,
        dropped,
        time_parts,
        weights,
        rows_left_out,
        groups,
        times,
        positions,
        tuple(remarks),
    )


def _assigned(data: Data, table: pd.DataFrame, present: Array, labels: Labels) -> Rows:
    """Roles over the rows that have a target; a split file is read against the whole table."""
    assert not isinstance(data.split, FileSplit)
    if data.split.by == "column":
        return _among(assign(data.split, table, None), present)
    return assign(data.split, table[present], labels.class_numbers)


def _sampled(rows: Rows, sample: Sample, classes: Array | None) -> Rows:
    """Draw a part of the rows of each role, and leave them in their order."""

    def part(positions: Array) -> Array:
        size = max(1, round(len(positions) * sample.fraction))
        if size >= len(positions):
            return positions
        order = np.arange(len(positions))
        drawn = divide(order, size, None if classes is None else classes[positions], sample.seed)[1]
        chosen: Array = positions[np.sort(drawn)]
        return chosen

    return rows.map(part)


def _among(rows: Rows, present: Array) -> Rows:
    """Renumber positions after the rows that are not present have gone."""
    new = np.cumsum(present) - 1
    return rows.map(lambda positions: new[positions[present[positions]]])


def read_labels(target: pd.Series[Any], spec: Target, task: str) -> Labels:
    """Read a target without missing values.

    Text and booleans are classes, as are numbers with fewer than 20 distinct values, unless `task` says
    otherwise; classes are in sorted order, and of two the second is the positive one.

    Raises
    ------
    DataError
        If the target does not suit the task.
    """
    if target.dtype.kind in "mM":
        raise DataError(f"target {spec.column!r} holds datetimes: predict a number, or classes")
    numeric = is_number(target)
    if spec.above is not None and not numeric:
        raise DataError(f"target {spec.column!r} is no number: data.target.above needs numbers")
    if [spec.positive, spec.negative, spec.above] != [None, None, None]:
        values = _one_against_rest(target, spec)
        return Labels("binary", values.astype(np.float64), ("negative", "positive"))
    distinct = target.nunique()
    if task == "auto":
        classification = not numeric or distinct < MAX_CLASSES_OF_NUMBERS
        task = ("multiclass" if distinct > 2 else "binary") if classification else "regression"
    if task == "regression":
        if not numeric:
            raise DataError(f"target {spec.column!r} is no number: a regression needs numbers")
        values = target.to_numpy(dtype=np.float64)
        if not np.isfinite(values).all():
            raise DataError(f"target {spec.column!r} holds infinite values")
        return Labels("regression", values)
    keys = text_keys(target)
    used = np.unique(keys.codes)
    classes = tuple(_class_text(keys.labels[i]) for i in used)
    if task == "binary" and len(classes) > 2:
        raise DataError(f"target {spec.column!r} has {len(classes)} classes: write data.target.positive")
    values = np.searchsorted(used, keys.codes).astype(np.float64)
    return Labels(cast(Task, task), values, classes)


def read_weights(given: pd.Series[Any]) -> Array:
    """Read what rows count.

    Raises
    ------
    DataError
        If a weight is no number, or less than 0, missing or infinite.
    """
    if not is_number(given):
        raise DataError(f"data.weight {given.name!r} is no number")
    weights = given.to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        raise DataError(
            f"data.weight {given.name!r} is missing, infinite or less than 0 in {int(wrong.sum())} of "
            f"{len(wrong)} rows"
        )
    return weights


def _class_text(label: str | float) -> str:
    return repr(float(label)).removesuffix(".0") if isinstance(label, float) else label


def _one_against_rest(target: pd.Series[Any], spec: Target) -> Array:
    if spec.above is not None:
        above: Array = target.to_numpy(dtype=np.float64) > spec.above
        return above
    asked = spec.positive if spec.positive is not None else spec.negative
    assert asked is not None
    texts = target.astype(object)
    known = set(texts.unique())
    for value in asked:
        if value not in known:
            hint = suggestion(str(value), map(str, known))
            if is_number(target):
                hint = "; numbers above one are positive by data.target.above"
            raise DataError(f"target {spec.column!r} never is {value!r}{hint}")
    inside = texts.isin(asked).to_numpy()
    return inside if spec.positive is not None else ~inside


def _features(
    spec: Features, table: pd.DataFrame, dropped: dict[str, str], development: Array
) -> tuple[pd.DataFrame, list[str], dict[str, str], dict[str, TimePart], list[str]]:
    """Return the table with the features in it, their names, why others are none, parts of times, remarks.

    Parameters
    ----------
    dropped
        Columns that are no features in any case, with the reason.
    development
        Positions of the training and selection rows.
    """
    dropped = dropped | {
        n: "dropped by the spec" for n in spec.drop if n in table.columns and n not in dropped
    }
    names, parts = [c for c in table.columns if c not in dropped], dict[str, TimePart]()
    remarks: list[str] = []
    if spec.datetimes == "parts":
        table, names, parts, remarks = with_parts(
            table, names, development, [*spec.kinds, *spec.drop], spec.unreadable_times
        )
        dropped |= {part.column: "read as its parts" for part in parts.values()}
    for name in spec.drop:
        if name not in dropped and name not in parts:
            raise DataError(f"data.features.drop names {name!r}{suggestion(name, [*dropped, *names])}")
        if name in parts:
            dropped[name] = "dropped by the spec"
    names = [name for name in names if name not in dropped]
    if not names:
        raise DataError("no column is left as a feature")
    remarks += [
        r for name in names if name not in spec.kinds for r in nearly_numbers(table[name], development)
    ]
    return table, names, dropped, {name: part for name, part in parts.items() if name in names}, remarks


def _check_classes(labels: Labels, rows: Rows) -> None:
    train = labels.values[rows.train]
    if labels.task == "regression":
        with np.errstate(over="ignore"):
            spread = train.std()
        if np.ptp(train) == 0:
            raise DataError("the target is constant on the training rows: there is nothing to predict")
        if not 0 < spread < np.inf:
            size = "small" if spread == 0 else "large"
            raise DataError(f"the target's values are too {size} to be squared: rescale it")
        return
    counts = np.bincount(train.astype(np.int64), minlength=len(labels.classes))
    if np.count_nonzero(counts) < 2:
        only = labels.classes[int(counts.argmax())] if labels.classes else "?"
        raise DataError(f"the training rows have one class only ({only!r}): there is nothing to predict")
    for number in np.flatnonzero(counts == 0):
        raise DataError(f"class {labels.classes[number]!r} has no training row; change data.split")


def _check_weights(weights: Array, rows: Rows) -> None:
    for role, positions in (("training", rows.train), ("selection", rows.selection), ("test", rows.test)):
        if len(positions) and not weights[positions].any():
            raise DataError(f"all {role} rows have zero weight")


def _check_features(table: Table, rows: Rows) -> None:
    development = table.take(rows.development)
    for i in range(len(table)):
        codes = development.keys(i).codes
        if (codes != codes[0]).any():
            return
    raise DataError("every feature is constant on the development rows: there is nothing to make features of")
