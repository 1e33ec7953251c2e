"""What a value is read as, the same by every path: frames, files, a single row, exported modules.

The text of this module stands in each exported one, too: it uses nothing but numpy and pandas.
"""

from __future__ import annotations

import decimal
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd

NO_VALUE = frozenset(
    ["", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>",
     "N/A", "NA", "NULL", "NaN", "NaT", "None", "n/a", "nan", "null"]
)  # fmt: skip
"""Texts that are missing where numbers, truth values or times are due; in columns of text they are text."""

TRUTH = {
    **dict.fromkeys(["true", "t", "yes", "y", "on", "1", "1.0"], "True"),
    **dict.fromkeys(["false", "f", "no", "n", "off", "0", "0.0"], "False"),
}
"""Truth values as lower-case texts."""


def blanked(series: pd.Series[Any], missing: Collection[str]) -> pd.Series[Any]:
    """Return a column in which some texts are missing values."""
    if not missing:
        return series
    if isinstance(series.dtype, pd.CategoricalDtype):
        none = [c for c in series.cat.categories if isinstance(c, str) and c in missing]
        return series.cat.remove_categories(none) if none else series
    if series.dtype != object and not isinstance(series.dtype, pd.StringDtype):
        return series
    found = series.isin(list(missing))
    return series.mask(found) if found.any() else series


def told_apart(series: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column with truth values among others as texts: to Python, True is 1."""
    if series.dtype != object or not pd.api.types.infer_dtype(series, skipna=True).startswith("mixed"):
        return series
    return series.map(lambda value: str(value) if isinstance(value, bool | np.bool_) else value)


def label_of(value: Any) -> str | float:
    """Return the label of a category's value: text, or a float for numbers; text for those it cannot hold."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, int | np.integer) and abs(int(value)) > 2**53:
        return str(int(value))
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, decimal.Decimal) and decimal.Decimal(repr(float(value))) != value:
        return str(value.normalize())
    try:
        return float(value) if not isinstance(value, pd.Timestamp | pd.Timedelta) else str(value)
    except (TypeError, ValueError):
        return str(value)


def is_large(label: Any) -> bool:
    """Whether a label may be that of an integer which floats cannot hold."""
    return isinstance(label, str) and len(label) > 15 and label.removeprefix("-").isdecimal()


def labels_as(labels: Sequence[Any], holds: str | None) -> list[Any]:
    """Return the labels of a column as those of one that held text, numbers or truth values; missing is None.

    Truth values may be given as 0 and 1, and numbers and truth values as texts of them.

    Raises
    ------
    ValueError
        If one is none of what the column held.
    """
    if holds not in ("numbers", "truth values"):
        wrong = [label for label in labels if holds and not isinstance(label, str)]
        found = list(labels)
    elif holds == "truth values":
        texts = [label if isinstance(label, str) else repr(label) for label in labels]
        found = [None if text in NO_VALUE else TRUTH.get(text.strip().lower()) for text in texts]
        wrong = [
            label
            for label, text, truth in zip(labels, texts, found, strict=True)
            if truth is None and text not in NO_VALUE
        ]
    else:
        found, wrong = [], []
        for label in labels:
            known = number_of(label) if isinstance(label, str) else label
            found.append(known)
            wrong += [label] if known is None and label not in NO_VALUE else []
    if wrong:
        raise ValueError(f"holds {wrong[0]!r}, but held {holds} when the recipe was made")
    return found


def number_of(text: str) -> str | float | None:
    """Return the label of a number that is written as text, None if it is none."""
    try:
        return label_of(int(text)) if text.strip().removeprefix("-").isdecimal() else float(text)
    except ValueError:
        return None


def numerals(series: pd.Series[Any]) -> np.ndarray[Any, Any]:
    """Return a column of numbers, or of texts of numbers, as float64: missing is NaN.

    Raises
    ------
    TypeError, ValueError
        If a value is no number.
    """
    objects = series.astype(object)
    numbers = pd.to_numeric(objects.mask(objects.isin(list(NO_VALUE))))
    return np.asarray(numbers.to_numpy(dtype=np.float64, na_value=np.nan))
