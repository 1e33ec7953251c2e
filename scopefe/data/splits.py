"""The three row roles: train, selection, test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
from pandas.tseries.api import guess_datetime_format
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, train_test_split

from scopefe.components import Array
from scopefe.data.kinds import is_number
from scopefe.data.source import read_file
from scopefe.errors import DataError, first_line, suggestion
from scopefe.spec.models import ColumnSplit, FileSplit, FractionSplit, GroupSplit, Split, TimeSplit

Role = Literal["train", "selection", "test"]


@dataclass(frozen=True, eq=False)
class Rows:
    """Positions of the rows of each role, in the order in which they are used."""

    train: Array
    selection: Array
    test: Array

    @property
    def development(self) -> Array:
        """Training rows, then selection rows."""
        return np.concatenate([self.train, self.selection])

    def __len__(self) -> int:
        return len(self.train) + len(self.selection) + len(self.test)

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each role."""
        return {"train": len(self.train), "selection": len(self.selection), "test": len(self.test)}

    def by_role(self) -> dict[str, Any]:
        """Return all positions, training rows first, and the role of each."""
        roles = np.repeat(list(self.counts()), list(self.counts().values()))
        return {"position": np.concatenate([self.train, self.selection, self.test]), "role": roles}

    def map(self, change: Callable[[Array], Array]) -> Rows:
        """Apply a function to the positions of every role."""
        return Rows(change(self.train), change(self.selection), change(self.test))


def role_columns(split: Split) -> list[str]:
    """Return the columns of the table that only serve the split and are no features."""
    if isinstance(split, ColumnSplit) and split.path is None:
        return [c for c in (split.column, split.order) if c]
    return [split.column] if isinstance(split, GroupSplit) else []


def assign(split: Split, frame: pd.DataFrame, classes: Array | None) -> Rows:
    """Assign a role to every row.

    Parameters
    ----------
    split
        What the spec says; for separate files see `join`.
    frame
        The table.
    classes
        int64, shape (rows,): class of each row, to stratify by; None for regression.

    Raises
    ------
    DataError
        If the split cannot be made, or leaves no training or no selection rows.
    """
    if isinstance(split, ColumnSplit):
        rows = _by_column(split, frame)
    elif isinstance(split, TimeSplit):
        rows = _by_time(split, frame)
    elif isinstance(split, GroupSplit):
        rows = _by_groups(split, frame)
    elif isinstance(split, FractionSplit):
        rows = _by_fractions(split, len(frame), classes)
    else:
        raise TypeError("separate files are joined, not split")
    return checked(rows)


def checked(rows: Rows) -> Rows:
    """Return the rows if both development roles have any.

    Raises
    ------
    DataError
        Otherwise.
    """
    for role in ("train", "selection"):
        if not len(getattr(rows, role)):
            raise DataError(f"the split leaves no {role} rows: {rows.counts()}; change data.split")
    return rows


def stratify_by(classes: Array | None, parts: int = 2) -> Array | None:
    """Return the classes if each is large enough to be in every part, None otherwise."""
    if classes is None or len(classes) == 0:
        return None
    counts = np.bincount(classes)
    return classes if counts[counts > 0].min() >= parts else None


def divide(rows: Array, size: int, classes: Array | None, seed: int) -> tuple[Array, Array]:
    """Divide positions at random into the rest and a part of `size`, stratified where counts permit."""
    if size == 0:
        return rows, rows[:0]
    labels = None if classes is None else stratify_by(classes[rows])
    if labels is not None and min(size, len(rows) - size) < len(np.unique(labels)):
        labels = None
    rest, part = train_test_split(rows, test_size=size, random_state=seed, stratify=labels)
    return cast(Array, rest), cast(Array, part)


def divide_groups(rows: Array, share: float, groups: Array, seed: int) -> tuple[Array, Array]:
    """Divide positions at random into the rest and a share of the groups, which stay whole.

    Parameters
    ----------
    groups
        int64: the group of each row of the table.

    Raises
    ------
    DataError
        If the rows are of one group.
    """
    if share == 0:
        return rows, rows[:0]
    if len(np.unique(groups[rows])) < 2:
        raise DataError("data.split.column has too few groups to split the rows")
    splitter = GroupShuffleSplit(n_splits=1, test_size=share, random_state=seed)
    rest, part = next(splitter.split(rows, groups=groups[rows]))
    return rows[rest], rows[part]


def divide_times(rows: Array, size: int, times: Array) -> tuple[Array, Array]:
    """Divide positions, in the order of time, into the first ones and `size` later ones.

    Rows of one time stay together: so many more are later ones, or less where all would be.

    Parameters
    ----------
    times
        Numbers: when each row of the table was.

    Raises
    ------
    DataError
        If the rows are all of one time.
    """
    ranked = times[rows]
    at = int(np.searchsorted(ranked, ranked[len(rows) - size], side="left"))
    if at == 0:
        at = int(np.searchsorted(ranked, ranked[0], side="right"))
    if at == len(rows):
        raise DataError("data.split.column has too few times to divide the rows")
    return rows[:at], rows[at:]


def group_folds(groups: Array, count: int) -> Array:
    """Return a fold for each row, int64: rows of a group are in one, and folds are of about equal size.

    There are no more folds than groups.

    Raises
    ------
    DataError
        If the rows are of one group.
    """
    count = min(count, len(np.unique(groups)))
    if count < 2:
        raise DataError("data.split.column has too few groups for folds")
    folds = np.empty(len(groups), dtype=np.int64)
    for number, (_, held) in enumerate(GroupKFold(count).split(groups, groups=groups)):
        folds[held] = number
    return folds


def _by_fractions(split: FractionSplit, n: int, classes: Array | None) -> Rows:
    if n < 3:
        raise DataError(f"{n} rows are too few to split")
    least = n - min(split.development or n, n)
    test_size = min(max(int(np.ceil(n * split.test)), least), n - 2)
    rest, test = divide(np.arange(n), test_size, classes, split.seed)
    share = split.selection / (split.train + split.selection)
    size = min(max(int(np.ceil(round(len(rest) * share, 9))), 1), len(rest) - 1)
    train, selection = divide(rest, size, classes, split.seed)
    return Rows(train, selection, test)


def _by_column(split: ColumnSplit, frame: pd.DataFrame) -> Rows:
    holder = frame if split.path is None else read_file(split.path)
    if len(holder) != len(frame):
        raise DataError(f"{split.path} has {len(holder)} rows, the data {len(frame)}")
    roles = column(holder, split.column, "data.split.column").astype(object)
    order = None if split.order is None else _order(column(holder, split.order, "data.split.order"))

    def rows(values: list[str | bool | int]) -> Array:
        found = np.flatnonzero(roles.isin(values).to_numpy())
        return found if order is None else found[np.argsort(order[found], kind="stable")]

    named = [*split.train, *split.selection, *split.test]
    present = roles.dropna().unique().tolist()
    for value in (v for v in present if v not in named):
        raise DataError(
            f"column {split.column!r} has rows with {value!r}, which is no role"
            f"{suggestion(str(value), [str(v) for v in named])}"
        )
    return Rows(rows(split.train), rows(split.selection), rows(split.test))


def _order(given: pd.Series[Any]) -> Array:
    """Return the positions that a column of numbers or times gives its rows."""
    ordered = pd.api.types.is_numeric_dtype(given.dtype) or pd.api.types.is_datetime64_any_dtype(given.dtype)
    if not ordered:
        raise DataError(f"column {given.name!r} orders the rows, but holds no numbers")
    if given.isna().any():
        raise DataError(f"column {given.name!r} orders the rows, but has {int(given.isna().sum())} missing")
    return given.to_numpy()


def _by_time(split: TimeSplit, frame: pd.DataFrame) -> Rows:
    times = times_of(split, frame)
    order = np.argsort(times, kind="stable")
    ranked = times[order]

    def cut(fraction: float) -> int:
        at = round(len(order) * fraction)
        return at if at >= len(order) else int(np.searchsorted(ranked, ranked[at], side="left"))

    first, second = cut(split.train), cut(split.train + split.selection)
    return Rows(order[:first], order[first:second], order[second:])


def times_of(split: TimeSplit, frame: pd.DataFrame) -> Array:
    """Return the rank of each row's time, int64, shape (rows,); rows of one time have one.

    Raises
    ------
    DataError
        If the column is not there, has missing values, or holds no times.
    """
    times = column(frame, split.column, "data.split.column")
    if times.isna().any():
        raise DataError(f"column {split.column!r} orders the rows, but has {int(times.isna().sum())} missing")
    if not pd.api.types.is_numeric_dtype(times.dtype) and not pd.api.types.is_datetime64_any_dtype(
        times.dtype
    ):
        times = _parsed(split.column, times.astype(str))
    return np.unique(times.to_numpy(), return_inverse=True)[1].astype(np.int64)


def groups_of(split: GroupSplit, frame: pd.DataFrame) -> Array:
    """Return the group of each row, int64, shape (rows,); missing is one.

    Raises
    ------
    DataError
        If the column is not there.
    """
    names = column(frame, split.column, "data.split.column")
    return pd.factorize(names.astype(object), use_na_sentinel=False)[0].astype(np.int64)


def _parsed(name: str, texts: pd.Series[Any]) -> pd.Series[Any]:
    """Read texts as times, all in the format of the first."""
    form = guess_datetime_format(str(texts.iloc[0]))
    if form is None:
        raise DataError(f"column {name!r} is no time: {str(texts.iloc[0])!r}")
    try:
        return cast("pd.Series[Any]", pd.to_datetime(texts, format=form))
    except ValueError as error:
        raise DataError(f"column {name!r} is no time: {first_line(error)}") from None


def _by_groups(split: GroupSplit, frame: pd.DataFrame) -> Rows:
    groups = groups_of(split, frame)
    rest, test = divide_groups(np.arange(len(frame)), split.test, groups, split.seed)
    share = split.selection / (split.train + split.selection)
    return Rows(*divide_groups(rest, share, groups, split.seed), test)


def join(split: FileSplit, train: pd.DataFrame) -> tuple[pd.DataFrame, Rows]:
    """Join separate files into one table.

    Raises
    ------
    DataError
        If a file lacks a column.
    """
    parts = [train]
    for path in (split.selection, split.test):
        part = train.iloc[:0] if path is None else read_file(path)
        lacking = [c for c in train.columns if c not in part.columns]
        if lacking:
            raise DataError(f"{path} has no column {lacking[0]!r}{suggestion(lacking[0], part.columns)}")
        parts.append(part[list(train.columns)])
        for name in train.columns if len(part) else ():
            both = [given[name] for given in (train, part)]
            if len({is_number(given) for given in both if given.notna().any()}) > 1:
                kinds = ["numbers" if is_number(given) else "other values" for given in both]
                raise DataError(f"column {name!r} holds {kinds[0]} in the data, but {kinds[1]} in {path}")
    ends = np.cumsum([len(p) for p in parts])
    rows = Rows(np.arange(ends[0]), np.arange(ends[0], ends[1]), np.arange(ends[1], ends[2]))
    return pd.concat([p for p in parts if len(p)], ignore_index=True), checked(rows)


def column(frame: pd.DataFrame, name: str, place: str) -> pd.Series[Any]:
    """Return a column.

    Raises
    ------
    DataError
        If there is none of that name.
    """
    if name not in frame.columns:
        raise DataError(f"{place}: there is no column {name!r}{suggestion(name, frame.columns)}")
    return frame[name]
