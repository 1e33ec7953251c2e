"""The columns that a recipe reads, and the original features as models are given them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any, get_args

import numpy as np
import pandas as pd

from scopefe.components import Array
from scopefe.data.datetimes import Part, TimePart, part, times_of, zones_differ
from scopefe.data.frames import plain
from scopefe.data.kinds import encode_column, numbers
from scopefe.data.table import Feature, FeatureKind, Holds, finite, number_keys
from scopefe.data.values import blanked
from scopefe.errors import DataError, RecipeError, suggestion


@dataclass(frozen=True)
class Input:
    """A column that a recipe reads, or a part of one.

    Parameters
    ----------
    name
        Its name among the inputs.
    kind
        How it is read.
    single
        Whether numbers are computed in float32.
    missing_as
        Category that stands for missing values.
    time_part
        What it is a part of, if it is no column itself.
    holds
        What its categories are; None if text and numbers, or not known.
    """

    name: str
    kind: FeatureKind
    single: bool
    missing_as: str | None = None
    time_part: TimePart | None = None
    holds: Holds | None = None

    @property
    def column(self) -> str:
        """Name of the column it is read from."""
        return self.name if self.time_part is None else self.time_part.column

    def find(self, frame: pd.DataFrame, missing: Collection[str]) -> pd.Series[Any]:
        """Return the column of a frame, datetimes parsed where a part of it is read.

        Parameters
        ----------
        missing
            Texts that are missing values.

        Raises
        ------
        RecipeError
            If the frame lacks it, or has two.
        """
        column = self.column
        if column not in frame.columns:
            raise RecipeError(f"the table has no column {column!r}{suggestion(column, frame.columns)}")
        series = frame[column]
        if isinstance(series, pd.DataFrame):
            raise RecipeError(f"the table has two columns named {column!r}")
        try:
            series = plain(blanked(series, missing))
        except DataError as error:
            raise RecipeError(str(error)) from None
        if self.time_part is None or zones_differ(series) is not None:
            return series
        lenient, lasting = self.time_part.lenient, self.time_part.part == "duration"
        parsed = times_of(series, 1.0, lasting) if lenient else times_of(series)
        return series if parsed is None else parsed

    def read(self, series: pd.Series[Any]) -> Feature:
        """Encode what `find` gives.

        Raises
        ------
        RecipeError
            If it does not hold what the recipe was made for.
        """
        try:
            if self.time_part is not None:
                of = self.time_part
                series = part(series, of.part, of.zone, of.lenient)
            if self.kind == "categorical":
                return encode_column(self.name, series, self.kind, self.missing_as, self.holds)
            values = numbers(self.name, series).astype(np.float32 if self.single else np.float64)
        except (DataError, ValueError) as error:
            raise RecipeError(str(error)) from None
        return Feature(self.name, self.kind, values, number_keys(values) if self.kind == "ordinal" else None)


@dataclass(frozen=True, eq=False)
class Original:
    """An original feature as models are given it.

    Parameters
    ----------
    read
        How it is read.
    labels
        Its categories on the rows of the fit, in the order of their codes; None for a number.
    """

    read: Input
    labels: Array | None

    @property
    def name(self) -> str:
        """Name of the feature."""
        return self.read.name

    def apply(self, feature: Feature) -> Array:
        """Return float64 values of every row; infinite values and unknown categories are NaN."""
        if self.labels is None:
            return finite(feature.numbers)
        codes = feature.keys.coded_as(self.labels).astype(np.float64)
        codes[codes < 0] = np.nan
        return codes


def input_json(i: Input) -> dict[str, Any]:
    """Return an input as JSON values."""
    of = {} if i.time_part is None else asdict(i.time_part)
    kind = "float32" if i.single else "float64"
    holds = {} if i.holds is None else {"holds": i.holds}
    return {"name": i.name, **of, "kind": i.kind, "type": kind, "missing_as": i.missing_as, **holds}


def input_of(item: dict[str, Any]) -> Input:
    """Read what `input_json` gave.

    Raises
    ------
    RecipeError
        If it says what does not exist.
    """
    texts = {"name": str, "column": str, "zone": str | None, "missing_as": str | None}
    for key in texts.keys() & item.keys():
        if not isinstance(item[key], texts[key]):
            raise RecipeError(f"{key} is {item[key]!r}")
    if item["type"] not in ("float32", "float64"):
        raise RecipeError(f"there is no type {item['type']!r}")
    if item["kind"] not in get_args(FeatureKind):
        raise RecipeError(f"there is no kind {item['kind']!r}")
    if "part" in item and item["part"] not in get_args(Part):
        raise RecipeError(f"there is no part {item['part']!r}")
    time_part = None
    if "part" in item:
        time_part = TimePart(item["column"], item["part"], item["zone"], bool(item.get("lenient", False)))
    holds = item.get("holds")
    if holds is not None and holds not in get_args(Holds):
        raise RecipeError(f"there are no columns of {holds!r}")
    single = item["type"] == "float32"
    return Input(item["name"], item["kind"], single, item["missing_as"], time_part, holds)
