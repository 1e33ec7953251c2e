"""The column store: a table encoded once into arrays, whose rows are positions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from scopefe.components import NUM, Array, Column, Keys, Kind, Operator, Ordered
from scopefe.data.values import is_large, label_of, labels_as, told_apart
from scopefe.errors import DataError

FeatureKind = Literal["numerical", "ordinal", "categorical"]
Holds = Literal["text", "numbers", "truth values"]


@dataclass(frozen=True, eq=False)
class Feature:
    """A column of the user's table.

    Parameters
    ----------
    name
        The column's name, any text.
    kind
        ``ordinal`` features are used on both the numeric and the categorical path.
    values
        float32 or float64, shape (rows,), missing is NaN; None for categorical features.
    codes
        The categories, where they are known: always for categorical features.
    origin
        The feature and the positions in it that a numeric one was taken from.
    """

    name: str
    kind: FeatureKind
    values: Array | None
    codes: Keys | None = None
    origin: tuple[Feature, Array] | None = None

    @cached_property
    def keys(self) -> Keys:
        """The column read as categories; those of a numeric one are its distinct values.

        Where the feature it was taken from has categories already, they are the same ones.
        """
        if self.codes is not None:
            return self.codes
        if self.origin is not None:
            whole, rows = self.origin
            if whole.codes is not None or "keys" in whole.__dict__:
                return whole.keys.take(rows)
        return number_keys(self.numbers)

    @cached_property
    def ordered(self) -> Ordered:
        """The numeric values with their order."""
        return Ordered(self.numbers)

    @property
    def numbers(self) -> Array:
        """The numeric values."""
        if self.values is None:
            raise TypeError(f"feature {self.name!r} is categorical")
        return self.values

    @cached_property
    def category_codes(self) -> Array:
        """int64 codes as a model takes them: from 0, of the categories these rows have, missing the first.

        A category that only other rows have plays no part: a model's sums, too, depend on the numbers.
        """
        return np.unique(self.keys.codes, return_inverse=True)[1].astype(np.int64, copy=False)

    def model_values(self) -> Array:
        """float64 values as a model takes them: numbers, or category codes."""
        if self.values is not None:
            return finite(self.values)
        return self.category_codes.astype(np.float64)

    def declared_values(self) -> Array:
        """float64 values as a recipe declares them: numbers, or codes of the categories these rows have.

        Unlike in `model_values`, a missing category is missing.
        """
        values = self.model_values()
        if self.values is None and self.keys.missing.any():
            values = np.where(self.keys.missing, np.nan, values - 1)
        return values

    def take(self, rows: Array) -> Feature:
        """Return the feature at these row positions."""
        if self.values is None:
            return Feature(self.name, self.kind, None, self.keys.take(rows))
        return Feature(self.name, self.kind, self.values[rows], origin=(self, rows))

    def compact(self) -> Feature:
        """Return the feature without the categories that these rows do not have."""
        keys = self.keys.compact() if self.values is None else None
        return Feature(self.name, self.kind, self.values, keys)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle these rows alone, over the same categories where an operator may tell them apart."""
        codes = self.codes if self.kind == "numerical" else self.keys
        return Feature, (self.name, self.kind, self.values, codes)


class Table:
    """Encoded features over a set of rows.

    Parameters
    ----------
    features
        One per column, in table order.
    rows
        Number of rows.
    """

    def __init__(self, features: Sequence[Feature], rows: int) -> None:
        self.features = tuple(features)
        self.rows = rows
        self._positions: Array | None = None
        self._taken: dict[int, Feature] = {}

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: int) -> Feature:
        if self._positions is None:
            return self.features[index]
        if index not in self._taken:
            self._taken.setdefault(index, self.features[index].take(self._positions))
        return self._taken[index]

    def passing(self, index: int) -> Feature:
        """Return a feature that the table does not keep, for one look at each of them."""
        if self._positions is None or index in self._taken:
            return self[index]
        return self.features[index].take(self._positions)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle these rows alone."""
        return Table, ([self[i] for i in range(len(self))], self.rows)

    @property
    def names(self) -> list[str]:
        """Names in table order."""
        return [f.name for f in self.features]

    @property
    def kinds(self) -> list[FeatureKind]:
        """Kinds in table order."""
        return [f.kind for f in self.features]

    def take(self, positions: Array | slice) -> Table:
        """Return a table of the rows at `positions`.

        A column is copied when it is first used, and kept as long as the new table is; see `forget`.
        """
        if isinstance(positions, slice):
            positions = np.arange(self.rows)[positions]
        taken = Table(self.features, len(positions))
        taken._positions = positions if self._positions is None else self._positions[positions]
        return taken

    def compact(self) -> Table:
        """Return a table of these rows alone, without the categories that they do not have."""
        return Table([self.passing(i).compact() for i in range(len(self))], self.rows)

    def forget(self) -> None:
        """Drop the copies of columns; they are made again when they are used."""
        self._taken.clear()

    def numeric(self, index: int) -> Array:
        """Values of a numerical or ordinal feature, float32 or float64, shape (rows,)."""
        return self[index].numbers

    def keys(self, index: int) -> Keys:
        """A feature read as categories."""
        return self[index].keys

    def arguments(self, operator: Operator, features: Sequence[int]) -> list[Column]:
        """Return what an operator is given of features."""
        return arguments_of(operator, [self[i] for i in features])

    def categorical(self) -> list[int]:
        """Positions of the categorical features."""
        return [i for i, kind in enumerate(self.kinds) if kind == "categorical"]

    def fingerprint(self) -> str:
        """Hash of names, kinds, types and values; labels that no row has play no part."""
        digest = hashlib.blake2b(digest_size=16)
        for i in range(len(self)):
            feature = self.passing(i)
            digest.update(repr((feature.name, feature.kind)).encode())
            if feature.values is not None:
                digest.update(str(feature.values.dtype).encode())
                digest.update(np.ascontiguousarray(feature.values).data)
            else:
                used, codes = np.unique(feature.keys.codes, return_inverse=True)
                digest.update(repr(feature.keys.labels[used[used >= 0]].tolist()).encode())
                digest.update(bool(len(used) and used[0] < 0).to_bytes())
                digest.update(codes.astype(np.int64).data)
        return digest.hexdigest()


def arguments_of(operator: Operator, features: Sequence[Feature]) -> list[Column]:
    """Return what an operator is given of its input features."""

    def of(kind: Kind, feature: Feature) -> Column:
        if kind != NUM:
            return feature.keys
        return feature.ordered if operator.ordered else feature.numbers

    return [of(kind, feature) for kind, feature in zip(operator.takes, features, strict=True)]


def finite(values: Array) -> Array:
    """Return float64 values with infinities turned into missing."""
    result = np.array(values, dtype=np.float64)
    result[np.isinf(result)] = np.nan
    return result


def number_keys(values: Array) -> Keys:
    """Read a float array as categories: its distinct values in ascending order."""
    missing = np.isnan(values)
    labels, codes = np.unique(values[~missing].astype(np.float64), return_inverse=True)
    full = np.full(len(values), -1, dtype=np.int64)
    full[~missing] = codes
    return Keys(full, labels)


def text_keys(series: pd.Series[Any], missing_as: str | None = None, holds: Holds | None = None) -> Keys:
    """Read any column as categories.

    Labels are text, or floats for numbers that these can hold; booleans are the texts ``True`` and ``False``.
    Categories of a pandas categorical keep their order, others are sorted: numbers first, then text.

    Parameters
    ----------
    series
        The column.
    missing_as
        Label that stands for missing values; None leaves them missing.
    holds
        What the column is known to hold.

    Raises
    ------
    DataError
        If it holds lists, mappings or the like, or nothing of what it should.
    """
    if isinstance(series.dtype, pd.CategoricalDtype):
        codes = series.cat.codes.to_numpy().astype(np.int64)
        raw = list(series.cat.categories)
        ordered = True
    else:
        try:
            codes, uniques = pd.factorize(told_apart(series).array)
        except TypeError:
            kind = type(series.dropna().iloc[0]).__name__
            raise DataError(f"column {str(series.name)!r} holds values of type {kind}; drop it") from None
        raw = list(uniques)
        ordered = False
    try:
        labels = labels_as([label_of(v) for v in raw], holds)
    except UnicodeDecodeError:
        raise DataError(f"column {str(series.name)!r} holds bytes that are no UTF-8: drop it") from None
    except ValueError as error:
        raise DataError(f"column {str(series.name)!r} {error}") from None
    kept = [label for label in dict.fromkeys(labels) if label is not None]
    if not ordered:
        kept.sort(key=lambda v: (isinstance(v, str), v))
    if missing_as is not None and missing_as not in kept and ((codes < 0).any() or None in labels):
        kept.append(missing_as)
    position = {label: i for i, label in enumerate(kept)}
    fill = position[missing_as] if missing_as is not None and missing_as in position else -1
    lookup = np.array([position.get(label, fill) for label in labels] + [fill], dtype=np.int64)
    return Keys(lookup[codes], label_array(kept))


def held_by(labels: Sequence[str | float]) -> Holds | None:
    """Return what a column of these labels holds; None if text and numbers, or nothing that tells."""
    of_text = {isinstance(label, str) for label in labels if not is_large(label)}
    if len(of_text) != 1:
        return None
    if of_text == {False}:
        return "numbers"
    return "truth values" if {"False", "True"}.issuperset(labels) else "text"


def label_array(labels: Sequence[str | float]) -> Array:
    """Return labels as an array: float64 if all are numbers, objects otherwise."""
    if labels and all(isinstance(v, float) for v in labels):
        return np.array(labels, dtype=np.float64)
    result = np.empty(len(labels), dtype=object)
    result[:] = labels
    return cast(Array, result)
