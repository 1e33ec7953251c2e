"""The recipe: the selected features with everything that was learned for them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import narwhals as nw
import numpy as np
import pandas as pd
from narwhals.typing import IntoDataFrame

from scopefe.components import CAT, Array, Operator, State
from scopefe.data.datetimes import Part, TimePart, part, times_of, zones_differ
from scopefe.data.kinds import encode_column, numbers
from scopefe.data.source import in_library_of, to_pandas
from scopefe.data.table import Feature, FeatureKind, Holds, arguments_of, finite, number_keys
from scopefe.errors import DataError, RecipeError, UnknownNameError, suggestion
from scopefe.recipe.arrays import atomically, from_json, holds_tables, read_tables, to_json, write_tables
from scopefe.recipe.distribution import Distribution
from scopefe.registry import Components, components
from scopefe.space.expression import Apply, Leaf, expression_from_json

RECIPE_VERSION = 1

F = TypeVar("F", bound=IntoDataFrame)


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

    def find(self, frame: pd.DataFrame) -> pd.Series[Any]:
        """Return the column of a frame, datetimes parsed where a part of it is read.

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
        if self.time_part is None or zones_differ(series) is not None:
            return series
        parsed = times_of(series)
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
                series = part(series, self.time_part.part, self.time_part.zone)
            if self.kind == "categorical":
                return encode_column(self.name, series, self.kind, self.missing_as, self.holds)
            values = numbers(self.name, series).astype(np.float32 if self.single else np.float64)
        except (DataError, ValueError) as error:
            raise RecipeError(str(error)) from None
        return Feature(self.name, self.kind, values, number_keys(values) if self.kind == "ordinal" else None)


@dataclass(frozen=True, eq=False, repr=False)
class FittedFeature:
    """A selected feature with its fitted state.

    Parameters
    ----------
    name
        Name of the new column.
    expression
        What it computes.
    operator
        The operator of the expression's root.
    state
        What the operator learned.
    distribution
        Its values on the rows of the fit, if that was recorded.
    """

    name: str
    expression: Apply
    operator: Operator
    state: State
    gain: float
    importance: float
    distribution: Distribution | None = None

    def __repr__(self) -> str:
        return f"<FittedFeature {self.name!r}>"

    @property
    def inputs(self) -> list[str]:
        """Names of the recipe's inputs that it reads."""
        return [cast(Leaf, a).name for a in self.expression.arguments]

    @property
    def categorical(self) -> bool:
        """Whether the values are category codes."""
        return self.operator.gives == CAT

    def apply(self, columns: Mapping[str, Feature]) -> Array:
        """Return float64 values of every row; infinite values, and missing codes, are NaN."""
        arguments = arguments_of(self.operator, [columns[name] for name in self.inputs])
        values = finite(self.operator.apply(self.state, *arguments))
        if self.categorical:
            values[values < 0] = np.nan
        return values


@dataclass(frozen=True, eq=False, repr=False)
class Recipe:
    """Selected features that can be applied to any frame with the same columns, one row at a time if need be.

    Parameters
    ----------
    name
        Name of the run it comes from.
    features
        In order of importance.
    inputs
        Columns that are read.
    key
        Provenance: key of the run's recipe step.
    """

    name: str
    features: tuple[FittedFeature, ...]
    inputs: tuple[Input, ...]
    key: str

    @property
    def formulas(self) -> list[str]:
        """The features as OpenFE writes them."""
        return [f.expression.formula for f in self.features]

    def __repr__(self) -> str:
        return f"<Recipe {self.name!r}: {len(self.features)} features of {len(self.inputs)} columns>"

    def transform(self, frame: F) -> F:
        """Compute the new features.

        Parameters
        ----------
        frame
            Any rows with the recipe's input columns, in any column order, as a frame of pandas, polars or
            pyarrow; not changed.

        Returns
        -------
        DataFrame
            float64, one column per feature, of the same library; with the index of `frame` if it has one.

        Raises
        ------
        RecipeError
            If an input column is absent or does not hold what it should.
        """
        if isinstance(frame, pd.DataFrame):
            return cast(F, self._transform(frame))
        try:
            new = self._transform(to_pandas(frame))
        except DataError as error:
            raise RecipeError(str(error)) from None
        columns = {str(name): values.to_numpy() for name, values in new.items()}
        return cast(F, in_library_of(nw.from_native(frame, eager_only=True), columns).to_native())

    def _transform(self, frame: pd.DataFrame) -> pd.DataFrame:
        if frame.columns.inferred_type != "string":
            frame = frame.set_axis([str(c) for c in frame.columns], axis="columns")
        lacking = list(dict.fromkeys(i.column for i in self.inputs if i.column not in frame.columns))
        if len(lacking) > 1:
            raise RecipeError(f"the table has no columns {', '.join(map(repr, lacking))}")
        found: dict[str, pd.Series[Any]] = {}
        for i in self.inputs:
            if i.column not in found:
                found[i.column] = i.find(frame)
        columns = {i.name: i.read(found[i.column]) for i in self.inputs}
        values = np.empty((len(self.features), len(frame)))
        for row, feature in zip(values, self.features, strict=True):
            try:
                row[:] = feature.apply(columns)
            except KeyError as error:
                told = f"{feature.name!r} cannot be computed: KeyError {error}; is the recipe damaged?"
                raise RecipeError(told) from error
        return pd.DataFrame(values.T, frame.index, self._names.view())

    @cached_property
    def _names(self) -> pd.Index[str]:
        return pd.Index([f.name for f in self.features], dtype="str")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the recipe as JSON; large tables go to a Parquet file beside it.

        The file appears under its name only when it is whole.

        Raises
        ------
        RecipeError
            If a Parquet file of that name is there that is of no recipe.
        """
        target = Path(path)
        tables: dict[str, Array] = {}
        document = self._document(tables)
        if tables:
            side = target.with_suffix(".parquet")
            if side == target or (side.exists() and not holds_tables(side)):
                raise RecipeError(
                    f"{str(side)!r}, for the recipe's large tables, is another file: choose another name"
                )
            document["tables"] = side.name
            atomically(side, lambda p: write_tables(tables, p))
        text = _text(document)
        atomically(target, lambda p: p.write_text(text, encoding="utf-8"))
        return target

    def to_json(self) -> str:
        """Return the recipe as one JSON document with everything in it, which `load` reads."""
        return _text(self._document(None))

    def _document(self, tables: dict[str, Array] | None) -> dict[str, Any]:
        return {
            "recipe_version": RECIPE_VERSION,
            "name": self.name,
            "key": self.key,
            "inputs": [_input_json(i) for i in self.inputs],
            "features": [_feature_json(n, f, tables) for n, f in enumerate(self.features)],
        }

    @classmethod
    def load(cls, path: str | os.PathLike[str], modules: Iterable[str] = ()) -> Recipe:
        """Read a recipe.

        Parameters
        ----------
        path
            The JSON file, or the folder of a run.
        modules
            Modules with the operators of one's own that it uses.

        Raises
        ------
        RecipeError
            If the file is absent, no recipe, of a later version, or uses an unknown operator.
        """
        source = Path(path) / "recipe.json" if Path(path).is_dir() else Path(path)
        try:
            document = json.loads(source.read_text(encoding="utf-8"))
            version = document["recipe_version"]
        except FileNotFoundError:
            raise RecipeError(f"there is no recipe {str(source)!r}") from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RecipeError(f"{str(source)!r} is no recipe: {error}") from None
        if version != RECIPE_VERSION:
            raise RecipeError(
                f"{str(source)!r} has recipe version {version}; this scopefe reads version {RECIPE_VERSION}"
            )
        try:
            return _recipe(document, source, components(modules))
        except UnknownNameError as error:
            what = f"an operator of yours, {error.name!r}: name its module (--module, or modules=)"
            raise RecipeError(f"{str(source)!r} needs {what}") from None
        except (KeyError, TypeError, AttributeError, ValueError, OSError, RecipeError) as error:
            reason = " ".join(f"{type(error).__name__} {error}".split())
            raise RecipeError(f"{str(source)!r} is damaged: {reason}") from None


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _input_json(i: Input) -> dict[str, Any]:
    of = {} if i.time_part is None else asdict(i.time_part)
    kind = "float32" if i.single else "float64"
    holds = {} if i.holds is None else {"holds": i.holds}
    return {"name": i.name, **of, "kind": i.kind, "type": kind, "missing_as": i.missing_as, **holds}


def _input(item: dict[str, Any]) -> Input:
    if item["kind"] not in get_args(FeatureKind):
        raise RecipeError(f"there is no kind {item['kind']!r}")
    if "part" in item and item["part"] not in get_args(Part):
        raise RecipeError(f"there is no part {item['part']!r}")
    time_part = TimePart(item["column"], item["part"], item["zone"]) if "part" in item else None
    holds = item.get("holds")
    if holds is not None and holds not in get_args(Holds):
        raise RecipeError(f"there are no columns of {holds!r}")
    single = item["type"] == "float32"
    return Input(item["name"], item["kind"], single, item["missing_as"], time_part, holds)


def _feature_json(number: int, feature: FittedFeature, tables: dict[str, Array] | None) -> dict[str, Any]:
    state = {name: to_json(v, f"{number}/{name}", tables) for name, v in feature.state.items()}
    known = {} if feature.distribution is None else {"distribution": feature.distribution.to_json()}
    return {
        "name": feature.name,
        "formula": feature.expression.formula,
        "expression": feature.expression.to_json(),
        "operator": {
            "name": feature.operator.declared or feature.operator.name,
            "parameters": dict(feature.operator.bound),
            "version": feature.operator.version,
        },
        "gain": feature.gain,
        "importance": feature.importance,
        **known,
        "state": state,
    }


def _recipe(document: dict[str, Any], source: Path, known: Components) -> Recipe:
    tables = read_tables(source.with_name(document["tables"])) if "tables" in document else {}
    inputs = tuple(_input(item) for item in document["inputs"])
    names = {i.name for i in inputs}
    features = tuple(_feature(item, names, known, tables) for item in document["features"])
    return Recipe(document["name"], features, inputs, document["key"])


def _feature(
    item: dict[str, Any], inputs: set[str], known: Components, tables: dict[str, list[Any]]
) -> FittedFeature:
    operator = known.operators[item["operator"]["name"]].bind(item["operator"]["parameters"])
    return FittedFeature(
        item["name"],
        _expression(item["expression"], operator, inputs),
        operator,
        {name: from_json(v, tables) for name, v in item["state"].items()},
        item["gain"],
        item["importance"],
        Distribution.from_json(item["distribution"]) if "distribution" in item else None,
    )


def _expression(value: dict[str, Any], operator: Operator, inputs: set[str]) -> Apply:
    """Read the operator's application to inputs of the recipe.

    Raises
    ------
    RecipeError
        If it is anything else.
    """
    expression = expression_from_json(value)
    arguments = expression.arguments if isinstance(expression, Apply) else ()
    if len(arguments) != operator.arity or not all(
        isinstance(a, Leaf) and a.name in inputs for a in arguments
    ):
        raise RecipeError(f"{expression.formula} is not {operator.name} of the inputs")
    return Apply(operator.name, arguments, operator.symmetric)
