"""Whether operators do as they should: on awkward rows, after being saved, and in both exports."""

from __future__ import annotations

import runpy
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from scopefe.components import CAT, NUM, Array, Operator
from scopefe.data.kinds import encode
from scopefe.data.table import Feature, Table, arguments_of
from scopefe.errors import ComponentError, first_line
from scopefe.export.python import write_python
from scopefe.export.sql import to_sql
from scopefe.recipe.fitting import fit_recipe
from scopefe.recipe.recipe import Recipe
from scopefe.registry import components
from scopefe.space.expression import Apply, Leaf

FITTED, NEW, ALONE, SEED = 300, 60, 20, 0
UNITS = 8
"""Differences between languages that are not worth a word, in units of the last place."""
SQL_PACKAGES = ("sqlglot", "duckdb")


@dataclass(frozen=True)
class Checked:
    """What was found out about an operator.

    Parameters
    ----------
    operator
        Its name.
    problems
        One line each; none if all is well.
    remarks
        What was not checked, and why.
    """

    operator: str
    problems: list[str]
    remarks: list[str]


def check_operators(modules: Sequence[str], names: Sequence[str] = ()) -> list[Checked]:
    """Try operators of your own, with the default values of their parameters, on rows made for it.

    They have missing, infinite, tied, negative and zero numbers, rare and missing categories; the rows that
    are transformed have categories and numbers that were not fitted, too.

    Parameters
    ----------
    modules
        Python files or importable modules.
    names
        Which of their operators; all of them if none is named.

    Raises
    ------
    ComponentError
        If a module cannot be loaded, or has no operator of that name.
    """
    known, own = components(modules).operators, components(()).operators.names()
    chosen = names or [name for name in known.names() if name not in set(own)]
    if not chosen:
        raise ComponentError("there is no operator to check: name modules that declare some")
    return [_checked(known[name], modules) for name in chosen]


def _checked(operator: Operator, modules: Sequence[str]) -> Checked:
    try:
        operator.parameters()
    except ValidationError as error:
        lacking = ", ".join(str(e["loc"][0]) for e in error.errors())
        return Checked(operator.name, [], [f"not checked: no default for {lacking}"])
    trial, problems, remarks = _Trial(operator, list(modules)), list[str](), list[str]()
    for check in (
        trial.runs,
        trial.keeps_its_inputs,
        trial.is_symmetric,
        trial.is_saved,
        trial.goes_row_by_row,
    ):
        problems += _lines(check)
        if not hasattr(trial, "expected"):
            return Checked(operator.name, problems, remarks)
    state = trial.recipe.features[0].state
    for language in ("python", "sql"):
        if not (getattr(operator, language) or operator.lookup(state)):
            remarks.append(f"no export to {language}: it gives neither {language} nor a lookup")
        elif language == "sql" and not all(map(find_spec, SQL_PACKAGES)):
            remarks.append(f"its SQL was not run: that needs {' and '.join(SQL_PACKAGES)}")
        else:
            problems += _lines(trial.python if language == "python" else trial.sql)
    return Checked(operator.name, problems, remarks)


def _lines(check: Callable[[], Iterator[str]]) -> list[str]:
    """Return what a check says; an exception is a problem too."""
    found: list[str] = []
    try:
        found.extend(check())
    except Exception as error:
        found.append(f"{check.__name__.replace('_', ' ')}: {type(error).__name__}: {first_line(error)}")
    return found


class _Trial:
    """An operator on rows to fit, and on others to transform; the checks yield problems."""

    def __init__(self, operator: Operator, modules: list[str]) -> None:
        self.operator, self.modules = operator, modules
        self.inputs = ["k" if kind == CAT else "x" for kind in operator.takes]
        if len(self.inputs) == 2 and self.inputs[0] == self.inputs[1]:
            self.inputs[1] = "l" if self.inputs[0] == "k" else "y"
        self.new = unseen(rows(NEW, SEED + 1))

    def _fit(self, frame: pd.DataFrame) -> None:
        self.table = encode(frame, np.arange(FITTED), kinds={"x": "numerical", "y": "numerical"})
        expression = Apply(self.operator.name, tuple(map(Leaf, self.inputs)), self.operator.symmetric)
        self.recipe = fit_recipe("checked", "", self.table, [(expression, self.operator, 0.0, 0.0)])
        self.expected = self.recipe.transform(self.new).iloc[:, 0].to_numpy()

    def features(self, table: Table) -> list[Feature]:
        return [table[table.names.index(name)] for name in self.inputs]

    def runs(self) -> Iterator[str]:
        self._fit(rows(FITTED, SEED))
        if np.isnan(self.expected).all():
            self._fit(rows(FITTED, SEED).replace([np.inf, -np.inf], np.nan))
            few = "" if np.isnan(self.expected).all() else " if a fitted number is infinite"
            yield f"gives nothing but missing values{few}"
        for what, frame in (
            ("one row", self.new.iloc[:1]),
            ("no rows", self.new.iloc[:0]),
            ("missing values only", self.new.iloc[:3].map(lambda _: None)),
        ):
            try:
                self.recipe.transform(frame)
            except Exception as error:
                yield f"fails on {what}: {type(error).__name__}: {first_line(error)}"

    def keeps_its_inputs(self) -> Iterator[str]:
        given = arguments_of(self.operator, self.features(self.table))
        arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in given]
        before = [_copy(a) for a in arguments]
        self.operator.apply(self.operator.fit(*arguments), *arguments)
        if not all(
            np.array_equal(a, _copy(b), equal_nan=True) for a, b in zip(before, arguments, strict=True)
        ):
            yield "changes its inputs"

    def is_symmetric(self) -> Iterator[str]:
        if not self.operator.symmetric:
            return
        features = self.features(self.table)
        both = [arguments_of(self.operator, order) for order in (features, features[::-1])]
        one, other = (self.operator.apply(self.operator.fit(*given), *given) for given in both)
        if self.operator.gives == NUM and not np.array_equal(one, other, equal_nan=True):
            yield "is declared symmetric, but the order of its inputs matters"

    def is_saved(self) -> Iterator[str]:
        with tempfile.TemporaryDirectory() as folder:
            path = self.recipe.save(Path(folder) / "recipe.json")
            found = Recipe.load(path, self.modules).transform(self.new).iloc[:, 0].to_numpy()
        yield from self._differences("after being saved", found)

    def goes_row_by_row(self) -> Iterator[str]:
        parts = [self.recipe.transform(self.new.iloc[[i]]) for i in range(ALONE)]
        yield from self._differences("for a row alone", pd.concat(parts).iloc[:, 0].to_numpy())

    def python(self) -> Iterator[str]:
        with tempfile.TemporaryDirectory() as folder:
            path = write_python(self.recipe, Path(folder) / "exported.py")
            found = runpy.run_path(str(path))["transform"](self.new).iloc[:, 0].to_numpy()
        yield from self._differences("in Python", found, units=UNITS)

    def sql(self) -> Iterator[str]:
        import duckdb

        with duckdb.connect() as connection:
            connection.register("data", self.new.assign(number=np.arange(NEW)))
            found = connection.execute(to_sql(self.recipe, keep=["number"])).df().sort_values("number")
        yield from self._differences("in SQL", found.iloc[:, 1].to_numpy(dtype=np.float64), units=UNITS)

    def _differences(self, where: str, found: Array, *, units: int = 0) -> Iterator[str]:
        """Yield what differs from the values of a batch, with the first such row."""
        expected = self.expected[: len(found)]
        near = np.isclose(found, expected, rtol=units * np.finfo(float).eps, atol=0, equal_nan=True)
        if near.all():
            return
        row = int(np.flatnonzero(~near)[0])
        given = ", ".join(f"{name} = {self.new[name].iloc[row]}" for name in self.inputs)
        yield (
            f"{where}, {int((~near).sum())} of {len(found)} values are others: "
            f"{found[row]:g} instead of {expected[row]:g} for {given}"
        )


def _copy(argument: Any) -> Array:
    """Return a copy of the values of an argument."""
    return np.array(getattr(argument, "codes", getattr(argument, "values", argument)))


def rows(count: int, seed: int) -> pd.DataFrame:
    """Make rows of two numbers, `x` and `y`, and two categories, `k` and `l`."""
    rng = np.random.default_rng(seed)
    numbers = {name: np.round(rng.normal(scale=20, size=count), 1) for name in ("x", "y")}
    for place, values in enumerate(numbers.values()):
        values[place : place + 8] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, np.nan]
        values[20:26] = values[20]
    named = {name: rng.choice(list("aabbcd"), count).astype(object) for name in ("k", "l")}
    for place, labels in enumerate(named.values()):
        labels[10 + place : 16 + place] = None
        labels[-1] = "rare"
    return pd.DataFrame(numbers | named)


def unseen(frame: pd.DataFrame) -> pd.DataFrame:
    """Return rows with categories, and numbers, that no other rows have."""
    frame.loc[30:39, ["k", "l"]] = "never seen"
    frame.loc[35:44, ["x", "y"]] *= np.pi
    return frame
