"""Kinds of columns, and their encoding.

A numeric column with at most `ordinal_max_unique` distinct values on the development rows is ordinal; other
columns that are not numbers, booleans included, are categorical (the OpenFE rule).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from scopefe.components import Array
from scopefe.data.table import Feature, FeatureKind, Holds, Table, number_keys, text_keys
from scopefe.data.values import NO_VALUE, numerals
from scopefe.errors import DataError, suggestion


def encode(
    frame: pd.DataFrame,
    development: Array,
    *,
    columns: Sequence[str] | None = None,
    ordinal_max_unique: int = 100,
    kinds: Mapping[str, FeatureKind] | None = None,
    missing_as: str | None = None,
) -> Table:
    """Encode the features of a frame; numbers that are floats already are shared with it.

    Parameters
    ----------
    frame
        Columns with unique names; not changed.
    development
        Positions of the training and selection rows: what kinds are decided on.
    columns
        Names of the features; None for all columns.
    ordinal_max_unique
        A numeric column with at most so many distinct values is ordinal.
    kinds
        Kinds fixed by hand, by column.
    missing_as
        Category that stands for missing values in categorical columns.

    Raises
    ------
    DataError
        If a fixed kind names no column or does not suit its column.
    """
    fixed = dict(kinds or {})
    labels = frame.columns if columns is None else columns
    names = [str(label) for label in labels]
    for name in fixed:
        if name not in names:
            raise DataError(
                f"data.features.kinds names {name!r}, which is no feature{suggestion(name, names)}"
            )
    features = []
    for name, label in zip(names, labels, strict=True):
        series = frame[label]
        kind = fixed.get(name) or kind_of(series.iloc[development], ordinal_max_unique)
        features.append(encode_column(name, series, kind, missing_as))
    return Table(features, len(frame))


def kind_of(series: pd.Series[Any], ordinal_max_unique: int) -> FeatureKind:
    """Return the kind of a column by the OpenFE rule."""
    if not is_number(series):
        return "categorical"
    return "ordinal" if series.nunique() <= ordinal_max_unique else "numerical"


def is_number(series: pd.Series[Any]) -> bool:
    """Whether a column holds numbers; booleans are none."""
    if series.dtype == object:
        return pd.api.types.infer_dtype(series, skipna=True) == "decimal"
    return pd.api.types.is_numeric_dtype(series.dtype) and not pd.api.types.is_bool_dtype(series.dtype)


def nearly_numbers(series: pd.Series[Any], development: Array) -> list[str]:
    """Return a remark on a column of text of which more than half are numbers, if it is one.

    Parameters
    ----------
    development
        Positions of the rows to go by.
    """
    some = series.iloc[development[:: max(1, len(development) // 100)]].dropna()
    if pd.api.types.infer_dtype(some) != "string":
        return []
    if pd.to_numeric(some, errors="coerce").notna().mean() < 0.25:
        return []
    counts = series.iloc[development].value_counts()
    known = [isinstance(text, str) and text not in NO_VALUE for text in counts.index]
    texts, rows = counts.index[known].tolist(), counts.to_numpy()[known]
    wrong = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce").isna().to_numpy()
    if not 0 < rows[wrong].sum() < rows.sum() / 2:
        return []
    shown = str(texts[int(np.argmax(wrong))])
    return [
        f"Column {series.name!r} is read as text: numbers, but for {rows[wrong].sum():,} of {rows.sum():,} "
        f"values such as {shown!r}. Where these are missing, name them in data.missing."
    ]


def encode_column(
    name: str,
    series: pd.Series[Any],
    kind: FeatureKind,
    missing_as: str | None = None,
    holds: Holds | None = None,
) -> Feature:
    """Encode one column as a feature of the given kind.

    Parameters
    ----------
    holds
        What a categorical column is known to hold.

    Raises
    ------
    DataError
        If a numeric kind is asked of values that are not numbers, or nothing is what it should be.
    """
    if kind == "categorical":
        return Feature(name, kind, None, text_keys(series, missing_as, holds))
    values = numbers(name, series)
    return Feature(name, kind, values, number_keys(values) if kind == "ordinal" else None)


def numbers(name: str, series: pd.Series[Any]) -> Array:
    """Return a column as floats: float32 stays float32, all else is float64; missing is NaN.

    Raises
    ------
    DataError
        If a value is not a number.
    """
    if pd.api.types.is_complex_dtype(series.dtype):
        raise DataError(f"column {name!r} holds complex numbers")
    if series.dtype.kind in "mM":
        what, part = ("durations", "duration") if series.dtype.kind == "m" else ("datetimes", "month")
        raise DataError(
            f"column {name!r} is to be numeric, but holds {what}: name a part of it, {name}.{part}"
        )
    if series.dtype != object and (is_number(series) or pd.api.types.is_bool_dtype(series.dtype)):
        single = (
            series.dtype in (np.dtype("float32"), pd.Float32Dtype()) or str(series.dtype) == "float[pyarrow]"
        )
        values = series.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
        return np.ascontiguousarray(values)
    try:
        return numerals(series)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise DataError(f"column {name!r} is to be numeric, but holds text: {reason}") from None
