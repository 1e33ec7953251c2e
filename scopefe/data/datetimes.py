"""Datetimes and durations: a search reads their parts, which are numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from scopefe.components import Array
from scopefe.data.values import NO_VALUE
from scopefe.errors import DataError

Part = Literal["elapsed", "year", "month", "day", "weekday", "hour", "minute", "duration"]

OF_DATETIMES: tuple[Part, ...] = ("elapsed", "year", "month", "day", "weekday", "hour", "minute")
OF_DURATIONS: tuple[Part, ...] = ("duration",)
SAMPLE = 200
"""About so many rows tell whether a column may hold times at all."""


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
    lenient
        Whether texts that are no times are missing: some were, where it was learned.
    """

    column: str
    part: Part
    zone: str | None = None
    lenient: bool = False


def with_parts(
    frame: pd.DataFrame,
    names: Sequence[str],
    development: Array,
    fixed: Collection[str],
    unreadable: float = 0.0,
) -> tuple[pd.DataFrame, list[str], dict[str, TimePart], list[str]]:
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
    unreadable
        Share of a column's texts that may be no times: these are missing then.

    Returns
    -------
    tuple
        The table with the parts as float64 columns, the names of the features, what each part is of, and
        remarks on columns of which some texts are no times.

    Raises
    ------
    DataError
        If a text of a column of times is none, in rows that it is not learned from.
    """
    kept: list[str] = []
    found: dict[str, TimePart] = {}
    columns: dict[str, Array] = {}
    remarks: list[str] = []
    for name in names:
        series, lenient, told = (
            (None, False, []) if name in fixed else _learned(frame[name], development, unreadable)
        )
        remarks += told
        if series is None:
            kept.append(name)
            continue
        zone = zone_name(getattr(series.dtype, "tz", None))
        for part in OF_DURATIONS if series.dtype.kind == "m" else OF_DATETIMES:
            values, new = part_of(series, part), _unused(f"{name}.{part}", {*frame.columns, *columns})
            seen = values[development]
            if new in fixed or len(np.unique(seen[~np.isnan(seen)])) > 1:
                kept.append(new)
                found[new] = TimePart(name, part, zone, lenient)
                columns[new] = values
    if columns:
        frame = pd.concat([frame, pd.DataFrame(columns, index=frame.index)], axis="columns")
    return frame, kept, found, remarks


def _learned(
    series: pd.Series[Any], development: Array, unreadable: float
) -> tuple[pd.Series[Any] | None, bool, list[str]]:
    """Return a column as times, if it is one; whether texts of it are none; and remarks on these.

    Raises
    ------
    DataError
        If a text of a column of times is none, in rows that it is not learned from.
    """
    if pd.api.types.is_numeric_dtype(series.dtype):
        return None, False, []
    some = series.iloc[development[:: max(1, len(development) // SAMPLE)]]
    if some.notna().any() and times_of(some, 1.0) is None:
        return None, False, []
    rows = series.iloc[development]
    learned = times_of(rows, unreadable)
    if learned is None:
        nearly = times_of(rows, 0.5)
        told = "" if nearly is None else _told(no_times(rows, nearly))
        return (
            None,
            False,
            [f"Column {series.name!r} is read as text: times, but for {told}."] if told else [],
        )
    lasting, wrong = learned.dtype.kind == "m", no_times(rows, learned)
    times = times_of(series, 1.0 if len(wrong) else 0.0, lasting)
    if times is None:
        wrong = no_times(series, times_of(series, 1.0, lasting))
        raise DataError(
            f"column {series.name!r} holds times where it is learned from, but also {_told(wrong)}; to read "
            f"it as categories, write data.features.kinds: {{{series.name}: categorical}}"
        )
    remark = (
        f"Column {series.name!r} holds times, but for {_told(wrong)}: these are missing."
        if len(wrong)
        else ""
    )
    return times, bool(len(wrong)), [remark] if remark else []


def _told(wrong: pd.Series[Any]) -> str:
    return f"{len(wrong):,} {'value' if len(wrong) == 1 else 'values'} such as {wrong.iloc[0]!r}"


def _unused(name: str, taken: Collection[str]) -> str:
    new, number = name, 2
    while new in taken:
        new, number = f"{name} #{number}", number + 1
    return new


# What is below stands in exported modules, too: it uses nothing but numpy and pandas.
def zone_name(zone: Any) -> str | None:
    """Return the name by which others know a time zone; UTC for a fixed offset, None for no zone."""
    if zone is None:
        return None
    of_dateutil = str(getattr(zone, "_filename", "")).rpartition("zoneinfo/")[2]
    return getattr(zone, "key", None) or getattr(zone, "zone", None) or of_dateutil or "UTC"


def times_of(
    series: pd.Series[Any], unreadable: float = 0.0, lasting: bool | None = None
) -> pd.Series[Any] | None:
    """Return a column of datetimes, dates, durations, or of text of these; None if it is none.

    Text is in ISO 8601 for datetimes, and as pandas writes it for durations (``1 days 02:03:04``), or of one
    of them where `lasting` says which; a share of it may be `unreadable` and is missing then.

    Its time zone, if any, has a name that others know: fixed offsets give way to UTC.
    """
    try:
        kind = pd.api.types.infer_dtype(series, skipna=True)
        if kind in ("timedelta64", "timedelta"):
            return pd.to_timedelta(series.astype("timedelta64[us]"))
        if kind == "period":
            return pd.Series(pd.PeriodIndex(series).to_timestamp(), series.index)
        if kind == "datetime64" and series.dtype.kind == "M" and not isinstance(series.dtype, pd.ArrowDtype):
            return series if series.dt.tz is None else series.dt.tz_convert(zone_name(series.dt.tz))
        if kind in ("date", "datetime", "datetime64"):
            objects = series.astype(object)
            zones = {zone_name(getattr(v, "tzinfo", None)) for v in objects.dropna()}
            if None in zones:
                return pd.to_datetime(objects)
            return pd.to_datetime(objects, utc=True).dt.tz_convert(zones.pop() if len(zones) == 1 else "UTC")
        return times_in(series, unreadable, lasting) if kind == "string" else None
    except (ValueError, OverflowError, TypeError, NotImplementedError):
        return None


def times_in(series: pd.Series[Any], unreadable: float, lasting: bool | None) -> pd.Series[Any] | None:
    """Return a column of texts as datetimes or durations, see `times_of`; some errors mean it is none."""
    iso = r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?)?"
    days = r"-?\d+ days(?: [+-]?\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?)?"
    series = series.astype(object).mask(series.isin(list(NO_VALUE)))
    texts = series.dropna()
    errors: Literal["coerce", "raise"] = "coerce" if unreadable else "raise"
    for form in {None: (iso, days), True: (days,), False: (iso,)}[lasting]:
        fits = series.str.fullmatch(form).eq(True).to_numpy()
        if not fits.any() or fits.sum() < (1 - unreadable) * len(texts):
            continue
        read: pd.Series[Any] = series.where(fits)
        found: pd.Series[Any]
        if form == days:
            found = pd.to_timedelta(read, errors=errors)
        else:
            cut: pd.Series[Any] = read.str.replace(r"(\.\d{6})\d+", r"\1", regex=True)
            zoned = bool(zoned_texts(read[fits]).any())
            found = pd.to_datetime(cut, format="ISO8601", utc=zoned, errors=errors)
        if found.notna().sum() >= max(1, (1 - unreadable) * len(texts)):
            return found
    return None


def no_times(series: pd.Series[Any], times: pd.Series[Any] | None) -> pd.Series[Any]:
    """Return the values of a column that are no times, but not missing."""
    known = series.notna() & ~series.isin(list(NO_VALUE))
    return series[(known if times is None else known & times.isna().to_numpy()).to_numpy()]


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


def part(series: pd.Series[Any], name: str, zone: str | None = None, lenient: bool = False) -> pd.Series[Any]:
    """Return a part of a column of datetimes or durations; those with a time zone are taken to this one.

    Texts with a time zone and without are read apart: a row alone has the same value. Where the column is
    `lenient`, texts that are no times are missing.

    Raises
    ------
    ValueError
        If the column holds anything else.
    """
    zoned = zones_differ(series)
    if zoned is not None:
        result = np.empty(len(series))
        for rows in (zoned, ~zoned):
            result[rows] = part(series[rows], name, zone, lenient)
        return pd.Series(result, series.index)
    found = times_of(series, 1.0 if lenient else 0.0, name == "duration" if lenient else None)
    fits = found is not None and (found.dtype.kind == "m") == (name == "duration")
    texts = lenient and pd.api.types.infer_dtype(series, skipna=True) == "string"
    if not fits and not texts and len(no_times(series, None)):
        what = "durations" if name == "duration" else "datetimes"
        known = no_times(series, None)
        wrong = next((v for v in known if times_of(pd.Series([v])) is None), known.iloc[0])
        raise ValueError(
            f"column {series.name!r} is to hold {what}, of which {name} is read, but holds {wrong!r}"
        )
    if found is None or not fits:
        return pd.Series(np.nan, series.index, dtype=np.float64)
    if zone is not None and found.dt.tz is not None:
        found = found.dt.tz_convert(zone)
    values = part_of(found, name)
    return pd.Series(values, series.index)
