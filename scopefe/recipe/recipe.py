"""The recipe: the selected features with everything that was learned for them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pandas as pd

from scopefe.components import CAT, Array, Lookup, Operator, State
from scopefe.data.frames import in_library_of, to_pandas
from scopefe.data.table import Feature, Table, arguments_of, finite, label_array
from scopefe.errors import (
    ComponentError,
    DataError,
    RecipeError,
    UnknownNameError,
    first_line,
    suggestion,
)
from scopefe.recipe.arrays import atomically, from_json, holds_tables, read_tables, to_json, write_tables
from scopefe.recipe.distribution import Distribution
from scopefe.recipe.inputs import Input, Original, input_json, input_of
from scopefe.recipe.matrix import FeatureType, Matrix
from scopefe.registry import Registry, operators
from scopefe.score.categories import Categories
from scopefe.space.expression import Apply, Leaf, expression_from_json

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

RECIPE_VERSION, OLDEST_VERSION = 2, 1

F = TypeVar("F", bound="IntoDataFrame")


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
    categories
        What models are given, of an operator that gives categories; None in recipes that do not say.
    distribution
        Its values on the rows of the fit, if that was recorded.
    """

    name: str
    expression: Apply
    operator: Operator
    state: State
    gain: float
    importance: float
    categories: Categories | None = None
    distribution: Distribution | None = None

    def __repr__(self) -> str:
        return f"<FittedFeature {self.name!r}>"

    @property
    def formula(self) -> str:
        """What it computes, as OpenFE writes it."""
        return self.expression.formula

    @property
    def inputs(self) -> list[str]:
        """Names of the recipe's inputs that it reads."""
        return [cast(Leaf, a).name for a in self.expression.arguments]

    @property
    def labels(self) -> Array | None:
        """Texts of the categories that the values are codes of; None for numbers."""
        if self.categories is None or self.categories.as_number:
            return None
        return label_array([str(code) for code in range(len(self.categories.counts))])

    @property
    def lookup(self) -> Lookup | None:
        """The values by the labels of the inputs, where the operator looks them up."""
        found = self.operator.lookup(self.state)
        if found is None or self.categories is None:
            return found
        return replace(found, values=self.categories.values(found.values.astype(np.int64)))

    def apply(self, columns: Mapping[str, Feature]) -> Array:
        """Return float64 values of every row; infinite values, and missing codes, are NaN."""
        arguments = arguments_of(self.operator, [columns[name] for name in self.inputs])
        values = self.operator.apply(self.state, *arguments)
        if self.categories is not None:
            return self.categories.values(values)
        if self.operator.gives == CAT:
            values = np.where(values < 0, np.nan, values)
        return finite(values)


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
    originals
        The original features, in the order of the table; none in recipes that do not say.
    missing
        Texts that are missing values; None in recipes that do not say.
    """

    name: str
    features: tuple[FittedFeature, ...]
    inputs: tuple[Input, ...]
    key: str
    originals: tuple[Original, ...] = ()
    missing: tuple[str, ...] | None = ()

    @property
    def formulas(self) -> list[str]:
        """The features as OpenFE writes them."""
        return [f.formula for f in self.features]

    @property
    def names(self) -> dict[str, str]:
        """The formula of each new column, by its name."""
        return {f.name: f.formula for f in self.features}

    def __repr__(self) -> str:
        return f"<Recipe {self.name!r}: {len(self.features)} features of {len(self.inputs)} columns>"

    @property
    def feature_types(self) -> dict[str, FeatureType]:
        """What each column of `model_frame` is to a model, originals first: a number or a category."""
        labels = [*((o.name, o.labels) for o in self.originals), *((f.name, f.labels) for f in self.features)]
        return {name: "number" if found is None else "category" for name, found in labels}

    def matrix(self, table: Table) -> Matrix:
        """Return original and new features of encoded rows, as models are given them.

        Parameters
        ----------
        table
            Has all features of the table that the recipe was made from.
        """
        columns = {feature.name: feature for feature in map(table.passing, range(len(table)))}
        values = [o.apply(columns[o.name]) for o in self.originals]
        values += [feature.apply(columns) for feature in self.features]
        return Matrix(values, [i for i, kind in enumerate(self.feature_types.values()) if kind == "category"])

    def without(self, features: str | Iterable[str]) -> Recipe:
        """Return the recipe without some features, and without the inputs that no other feature reads.

        Parameters
        ----------
        features
            Names or formulas.

        Raises
        ------
        RecipeError
            If the recipe has no such feature.
        """
        left_out = {features} if isinstance(features, str) else set(features)
        known = [*self.names, *self.formulas]
        for name in sorted(left_out.difference(known)):
            raise RecipeError(f"the recipe has no feature {name!r}{suggestion(name, known)}")
        kept = tuple(f for f in self.features if left_out.isdisjoint((f.name, f.formula)))
        read = {name for f in kept for name in f.inputs}
        return replace(self, features=kept, inputs=tuple(i for i in self.inputs if i.name in read))

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
            One column per feature, of the same library; with the index of `frame` if it has one. Numbers are
            float64; categories are the library's own type for them, with the texts of their codes.

        Raises
        ------
        RecipeError
            If an input column is absent or does not hold what it should.
        """
        return self._in_library_of(frame, ())

    def model_frame(self, frame: F) -> F:
        """Return what models are given: the original features and the new ones, with their declared types.

        The models of the evaluation were given the same. Parts of datetimes are columns of their own.

        Parameters
        ----------
        frame
            Any rows with all original features; see `transform`.

        Returns
        -------
        DataFrame
            The columns that `feature_types` names. Numbers are float64, infinite ones missing; categories are
            the library's own type for them, with the categories of the rows of the fit: others are missing.

        Raises
        ------
        RecipeError
            If a column is absent or does not hold what it should, or the recipe does not know the originals.
        """
        if not self.originals:
            raise RecipeError("this recipe does not say what the original features were: run its spec again")
        return self._in_library_of(frame, self.originals)

    def _in_library_of(self, frame: F, originals: tuple[Original, ...]) -> F:
        if isinstance(frame, pd.DataFrame):
            return cast(F, self._transform(frame, originals))
        import narwhals as nw

        read = [*(i.column for i in self.inputs), *(o.read.column for o in originals)]
        try:
            new = self._transform(to_pandas(frame, read), originals)
        except DataError as error:
            raise RecipeError(str(error)) from None
        return cast(F, in_library_of(nw.from_native(frame, eager_only=True), new).to_native())

    def _transform(self, frame: pd.DataFrame, originals: tuple[Original, ...]) -> pd.DataFrame:
        if frame.columns.inferred_type != "string":
            frame = frame.set_axis([str(c) for c in frame.columns], axis="columns")
        columns = self._read(frame, [*self.inputs, *(o.read for o in originals)])
        values = np.empty((len(originals) + len(self.features), len(frame)))
        for row, original in zip(values, originals, strict=False):
            row[:] = original.apply(columns[original.name])
        for row, feature in zip(values[len(originals) :], self.features, strict=True):
            try:
                row[:] = feature.apply(columns)
            except KeyError as error:
                told = f"{feature.name!r} cannot be computed: KeyError {error}; is the recipe damaged?"
                raise RecipeError(told) from error
        names = pd.Index([o.name for o in originals], dtype="str").append(self._names)
        result = pd.DataFrame(values.T, frame.index, names)
        labels = [*(o.labels for o in originals), *(f.labels for f in self.features)]
        for place, categories in enumerate(labels):
            if categories is not None:
                codes = np.nan_to_num(values[place], nan=-1).astype(np.int64)
                result.isetitem(
                    place, pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(pd.Index(categories)))
                )
        return result

    def _read(self, frame: pd.DataFrame, inputs: Iterable[Input]) -> dict[str, Feature]:
        """Read inputs, each once."""
        wanted = {i.name: i for i in inputs}
        lacking = list(dict.fromkeys(i.column for i in wanted.values() if i.column not in frame.columns))
        if len(lacking) > 1:
            raise RecipeError(f"the table has no columns {', '.join(map(repr, lacking))}")
        found: dict[str, pd.Series[Any]] = {}
        for i in wanted.values():
            if i.column not in found:
                found[i.column] = i.find(frame, self.missing or ())
        return {name: i.read(found[i.column]) for name, i in wanted.items()}

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
            **({} if self.missing is None else {"missing": list(self.missing)}),
            "inputs": [input_json(i) for i in self.inputs],
            "originals": [_original_json(n, o, tables) for n, o in enumerate(self.originals)],
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
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise RecipeError(f"{str(source)!r} is no recipe: {first_line(error)}") from None
        if version not in range(OLDEST_VERSION, RECIPE_VERSION + 1):
            raise RecipeError(
                f"{str(source)!r} has recipe version {version}; this scopefe reads versions "
                f"{OLDEST_VERSION} to {RECIPE_VERSION}"
            )
        try:
            return _recipe(document, source, modules)
        except UnknownNameError as error:
            what = f"an operator of yours, {error.name!r}: name its module (--module, or modules=)"
            raise RecipeError(f"{str(source)!r} needs {what}") from None
        except (
            LookupError,
            TypeError,
            AttributeError,
            ValueError,
            ArithmeticError,
            OSError,
            RecipeError,
        ) as error:
            kind = "" if isinstance(error, RecipeError) else f"{type(error).__name__} "
            reason = " ".join(f"{kind}{error}".split())
            raise RecipeError(f"{str(source)!r} is damaged: {reason}") from None


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _original_json(number: int, original: Original, tables: dict[str, Array] | None) -> dict[str, Any]:
    labels = original.labels
    known = {} if labels is None else {"labels": to_json(labels, f"original {number}", tables)}
    return {**input_json(original.read), **known}


def _feature_json(number: int, feature: FittedFeature, tables: dict[str, Array] | None) -> dict[str, Any]:
    state = {name: to_json(v, f"{number}/{name}", tables) for name, v in feature.state.items()}
    known = {} if feature.distribution is None else {"distribution": feature.distribution.to_json()}
    if feature.categories is not None:
        counts = to_json(feature.categories.counts, f"{number}/categories", tables)
        known["categories"] = {"as_number": feature.categories.as_number, "counts": counts}
    return {
        "name": feature.name,
        "formula": feature.formula,
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


def _recipe(document: dict[str, Any], source: Path, modules: Iterable[str]) -> Recipe:
    known = operators([item["operator"]["name"] for item in document["features"]], modules)
    tables = read_tables(source.with_name(document["tables"])) if "tables" in document else {}
    inputs = tuple(input_of(item) for item in document["inputs"])
    originals = tuple(_original(item, tables) for item in document.get("originals", []))
    names = {i.name for i in inputs}
    features = tuple(_feature(item, names, known, tables) for item in document["features"])
    for what, given in (("inputs", inputs), ("originals", originals), ("features", features)):
        if len({str(g.name) for g in given}) < len(given):
            raise RecipeError(f"two of the {what} have one name")
    missing = tuple(document["missing"]) if "missing" in document else None
    if not all(isinstance(text, str) for text in missing or ()):
        raise RecipeError(f"missing is {document['missing']!r}")
    return Recipe(document["name"], features, inputs, document["key"], originals, missing)


def _original(item: dict[str, Any], tables: dict[str, list[Any]]) -> Original:
    return Original(input_of(item), from_json(item["labels"], tables) if "labels" in item else None)


def _feature(
    item: dict[str, Any], inputs: set[str], known: Registry[Operator], tables: dict[str, list[Any]]
) -> FittedFeature:
    operator = known[item["operator"]["name"]].bind(item["operator"]["parameters"])
    state = {name: from_json(v, tables) for name, v in item["state"].items()}
    try:
        operator.check(state)
    except ComponentError as error:
        raise RecipeError(str(error)) from None
    return FittedFeature(
        item["name"],
        _expression(item["expression"], operator, inputs),
        operator,
        state,
        item["gain"],
        item["importance"],
        _categories(item["categories"], tables) if "categories" in item else None,
        Distribution.from_json(item["distribution"]) if "distribution" in item else None,
    )


def _categories(item: dict[str, Any], tables: dict[str, list[Any]]) -> Categories:
    counts = from_json(item["counts"], tables)
    if counts.dtype.kind not in "iu" or (len(counts) and counts.min() < 0):
        raise RecipeError("rows of categories are counted by other than whole numbers")
    return Categories(counts.astype(np.int64), bool(item["as_number"]))


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
