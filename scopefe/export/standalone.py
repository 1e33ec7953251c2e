"""What an exported module computes with: its text stands in each, that of what it imports from here too."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from scopefe.data.values import blanked, label_of, labels_as, numerals, told_apart

Array = npt.NDArray[Any]
nan, inf = float("nan"), float("inf")


class Category(NamedTuple):
    """A column read as categories: a row has the label ``labels[code]``; code -1 is a missing value."""

    codes: Array
    labels: Sequence[Any]


class Lookup:
    """A table in which values are found.

    Each of `keys` has a label for every row of the table. Where rows are steps of a number, each holds from
    `lower` on up to the next one of the same keys, and `between` has the values of numbers above `lower`.
    """

    def __init__(
        self,
        keys: Sequence[Sequence[Any]],
        values: Iterable[float],
        default: float = nan,
        lower: Sequence[float] = (),
        between: Iterable[float] | None = None,
    ) -> None:
        self.values = np.array([*values, default], dtype=np.float64)
        self.between = self.values if between is None else np.array([*between, default], dtype=np.float64)
        self.known = [{label: code for code, label in enumerate(dict.fromkeys(labels))} for labels in keys]
        codes = [
            np.array([k[v] for v in labels], dtype=np.int64)
            for k, labels in zip(self.known, keys, strict=True)
        ]
        self.bounds, self.steps = np.unique(lower), np.empty(0)
        groups = self._groups(codes, len(self.values) - 1)
        steps = self._steps(groups, np.array(lower, dtype=np.float64))
        self.order = np.append(np.argsort(steps), -1)
        self.groups, self.steps = np.append(groups, -1), np.sort(steps)
        self.lower = np.append(lower, nan)

    def find(self, *columns: Category, at: Array | None = None) -> Array:
        """Return the value of every row of data, float64: NaN where a key, or the number, is missing."""
        codes, missing = [], np.zeros(len(columns[0].codes) if at is None else len(at), dtype=bool)
        for known, column in zip(self.known, columns, strict=True):
            codes.append(np.array([*(known.get(label, -1) for label in column.labels), -1])[column.codes])
            missing |= column.codes < 0
        groups = self._groups(codes, len(missing))
        last = np.searchsorted(self.steps, self._steps(groups, at), side="right") - 1
        row = self.order[last]
        row = np.where((groups >= 0) & (self.groups[row] == groups), row, -1)
        if at is None:
            found = self.values[row]
        else:
            found = np.where(at == self.lower[row], self.values[row], self.between[row])
            missing |= np.isnan(at)
        return np.where(missing, nan, found)

    def _groups(self, codes: Sequence[Array], rows: int) -> Array:
        """Number the combinations of codes; -1 where one of them is."""
        groups = np.zeros(rows, dtype=np.int64)
        for known, code in zip(self.known, codes, strict=True):
            groups = np.where((groups < 0) | (code < 0), -1, groups * len(known) + code)
        return groups

    def _steps(self, groups: Array, at: Array | None) -> Array:
        """Number the steps of all groups in their order."""
        if at is None or not len(self.bounds):
            return groups
        return groups * (len(self.bounds) + 1) + np.searchsorted(self.bounds, at, side="right")


def column(frame: pd.DataFrame, name: str, missing: Collection[str] = ()) -> pd.Series[Any]:
    """Return the column whose name is this text; `missing` are texts that are missing values."""
    found = [place for place, label in enumerate(frame.columns) if str(label) == name]
    if len(found) != 1:
        raise ValueError(f"the table has {'two columns' if found else 'no column'} named {name!r}")
    return blanked(frame.iloc[:, found[0]], missing)


def numbers(series: pd.Series[Any], dtype: Any = np.float64) -> Array:
    """Return a column as floats: missing is NaN."""
    if not pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_bool_dtype(series.dtype):
        return numerals(series).astype(dtype)
    return series.to_numpy(dtype=np.float64, na_value=nan).astype(dtype)


def number_categories(values: Array) -> Category:
    """Return numbers as categories: their distinct values."""
    codes, labels = pd.factorize(values.astype(np.float64))
    return Category(codes, labels.tolist())


def categories(series: pd.Series[Any], missing_as: str | None = None, holds: str | None = None) -> Category:
    """Return a column as categories; `missing_as` is the one that missing values are, if any."""
    codes, values = pd.factorize(told_apart(series).array)
    try:
        labels = labels_as([label_of(value) for value in values], holds)
    except ValueError as error:
        raise ValueError(f"column {str(series.name)!r} {error}") from None
    none = [code for code, label in enumerate(labels) if label is None]
    codes = np.where(np.isin(codes, none), -1, codes)
    if missing_as is not None:
        codes = np.where(codes < 0, len(labels), codes)
        labels.append(missing_as)
    return Category(codes, labels)


def as_categories(codes: pd.Series[Any], count: int) -> pd.Categorical[str]:
    """Return codes from 0 as categories, missing where there is none."""
    numbers = codes.fillna(-1).to_numpy().astype(np.int64)
    return pd.Categorical.from_codes(numbers, pd.Index([str(code) for code in range(count)]))


def finite(values: Array) -> Array:
    """Return float64 values: infinite ones are NaN."""
    values = np.array(values, dtype=np.float64)
    values[np.isinf(values)] = nan
    return values


def large(name: str) -> list[Any]:
    """Return values that stand in the file beside this one."""
    with np.load(Path(__file__).with_suffix(".npz")) as file:
        values = file[name]
    return list(values.tolist() if values.dtype == np.float64 else json.loads(values.tobytes()))
