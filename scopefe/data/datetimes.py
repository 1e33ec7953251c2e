"""Datetimes and durations: a search reads their parts, which are numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from scopefe.components import Array

Part = Literal["elapsed", "year", "month", "day", "weekday", "hour", "minute", "duration"]

OF_DATETIMES: tuple[Part, ...] = ("elapsed", "year", "month", "day", "weekday", "hour", "minute")
OF_DURATIONS: tuple[Part, ...] = ("duration",)


@dataclass(frozen=True)
class TimePart:
    """A part of a column of datetimes or durations.

    Parameters
    ----------
    column
        The column's name.
    part
        ``elapsed``, days since the beginning of 1970 (UTC where the column has a time zone); ``duration``, in
        days; or what a calendar and a clock show, ``weekday`` from Monday as 0.
    zone
        Time zone of the calendar and the clock; None for the column's own.
    """

    column: str
    part: Part
    zone: str | None = None


def with_parts(
    frame: pd.DataFrame, names: Sequence[str], development: Array, fixed: Collection[str]
) -> tuple[pd.DataFrame, list[str], dict[str, TimePart]]:
    """Put the parts of datetimes and durations in their place.

    Parameters
    ----------
    frame
        The table, with unique names; not changed.
    names
        Columns that are features.
    development
        Positions of the training and selection rows: a part that is constant on them is left out.
    fixed
        Columns and parts that the spec names: such columns stay as they are, such parts are never left out.

    Returns
    -------
    tuple
        The table with the parts as float64 columns, the names of the features, and what each part is of.
    """
    kept: list[str] = []
    found: dict[str, TimePart] = {}
    columns: dict[str, Array] = {}
    for name in names:
        series = None if name in fixed else times_of(frame[name])
        if series is None:
            kept.append(name)
            continue
        zone = getattr(series.dtype, "tz", None)
        for part in OF_DURATIONS if series.dtype.kind == "m" else OF_DATETIMES:
            values, new = part_of(series, part), _unused(f"{name}.{part}", {*frame.columns, *columns})
            if new in fixed or len(pd.unique(values[development])) > 1:
                kept.append(new)
                found[new] = TimePart(name, part, None if zone is None else str(zone))
                columns[new] = values
    if columns:
        frame = pd.concat([frame, pd.DataFrame(columns, index=frame.index)], axis="columns")
    return frame, kept, found


def _unused(name: str, taken: Collection[str]) -> str:
    new, number = name, 2
    while new in taken:
        new, number = f"{name} #{number}", number + 1
    return new


# What is below stands in exported modules, too: it uses nothing but numpy and pandas.
def times_of(series: pd.Series[Any]) -> pd.Series[Any] | None:
    """Return a column of datetimes, dates, durations, or of text of these; None if it is none.

    Text is in ISO 8601 for datetimes, and as pandas writes it for durations (``1 days 02:03:04``).

    Its time zone, if any, has a name that others know: fixed offsets give way to UTC.
    """
    try:
        kind = pd.api.types.infer_dtype(series, skipna=True)
        if kind in ("timedelta64", "timedelta"):
            return pd.to_timedelta(series.astype("timedelta64[us]"))
        if kind == "period":
            return pd.Series(pd.PeriodIndex(series).to_timestamp(), series.index)
        if kind == "datetime64" and series.dtype.kind == "M" and not isinstance(series.dtype, pd.ArrowDtype):
            fixed = series.dt.tz is not None and "/" not in str(series.dt.tz)
            return series.dt.tz_convert("UTC") if fixed else series
        if kind in ("date", "datetime", "datetime64"):
            objects = series.astype(object)
            zones = {getattr(v, "tzinfo", None) for v in objects.dropna()}
            fixed = None not in zones and not (len(zones) == 1 and "/" in str(next(iter(zones))))
            return pd.to_datetime(objects, utc=fixed)
        if kind != "string":
            return None
        iso = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
        lasting = r"-?\d+ days(?: [+-]?\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?)?"
        texts = series.dropna().astype(object)
        if not len(texts) or not texts.iloc[:1].str.fullmatch(f"{iso}|{lasting}").all():
            return None
        if texts.str.fullmatch(lasting).all():
            return pd.to_timedelta(series.astype(object))
        if not texts.str.fullmatch(iso).all():
            return None
        zoned = zoned_texts(texts).any()
        cut = series.astype(object).str.replace(r"(\.\d{6})\d+", r"\1", regex=True)
        return pd.to_datetime(cut, format="ISO8601", utc=bool(zoned))
    except (ValueError, OverflowError, TypeError, NotImplementedError):
        return None


def zoned_texts(series: pd.Series[Any]) -> pd.Series[Any]:
    """Return which values are texts with a time zone, boolean; others of the column may have none."""
    if pd.api.types.infer_dtype(series, skipna=True) != "string":
        return pd.Series(False, series.index)
    return series.astype(object).str.contains(r"(?:Z|:\d{2}[+-]\d{2}:?\d{2})$", na=False).astype(bool)


def zones_differ(series: pd.Series[Any]) -> Array | None:
    """Return which texts have a time zone, boolean, shape (rows,), if others have none; None otherwise."""
    zoned = zoned_texts(series)
    return zoned.to_numpy() if zoned.any() and not (zoned | series.isna()).all() else None


def part_of(series: pd.Series[Any], part: str) -> np.ndarray[Any, Any]:
    """Return a part of what `times_of` gives: float64, shape (rows,); NaN where it is missing."""
    missing = series.isna().to_numpy()
    if part == "duration":
        values = series.to_numpy("timedelta64[us]").astype(np.int64) / 86_400_000_000
    elif part == "elapsed":
        instants = series if series.dt.tz is None else series.dt.tz_convert("UTC").dt.tz_localize(None)
        values = instants.to_numpy("datetime64[us]").astype(np.int64) / 86_400_000_000
    else:
        shown = series.dt.day_of_week if part == "weekday" else getattr(series.dt, part)
        values = shown.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(missing, np.nan, values)


def part(series: pd.Series[Any], name: str, zone: str | None = None) -> pd.Series[Any]:
    """Return a part of a column of datetimes or durations; those with a time zone are taken to this one.

    Texts with a time zone and without are read apart: a row alone has the same value.

    Raises
    ------
    ValueError
        If the column holds anything else.
    """
    zoned = zones_differ(series)
    if zoned is not None:
        result = np.empty(len(series))
        for rows in (zoned, ~zoned):
            result[rows] = part(series[rows], name, zone)
        return pd.Series(result, series.index)
    found = times_of(series)
    fits = found is not None and (found.dtype.kind == "m") == (name == "duration")
    if not fits and not series.isna().all():
        what = "durations" if name == "duration" else "datetimes"
        wrong = next(
            (v for v in series.dropna() if times_of(pd.Series([v])) is None), series.dropna().iloc[0]
        )
        raise ValueError(
            f"column {series.name!r} is to hold {what}, of which {name} is read, but holds {wrong!r}"
        )
    if found is None or not fits:
        return pd.Series(np.nan, series.index, dtype=np.float64)
    if zone is not None and found.dt.tz is not None:
        found = found.dt.tz_convert(zone)
    values = part_of(found, name)
    return pd.Series(values, series.index)
