"""Whether operators do as they should: on awkward rows, after being saved, and in both exports."""

from __future__ import annotations

import runpy
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import ValidationError

from scopefe.components import CAT, NUM, Array, Operator
from scopefe.data.frames import codes_of
from scopefe.data.kinds import encode
from scopefe.data.table import arguments_of
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
    remarks: list[str] = []
    try:
        trial = _Trial(operator)
    except Exception as error:
        return Checked(operator.name, [f"fails: {type(error).__name__}: {first_line(error)}"], remarks)
    problems = [*trial.nothing_but_missing(), *trial.on_few_rows()]
    problems += _failure("on inputs of its own", lambda: problems.extend(trial.of_its_inputs()))
    problems += trial.compared("after being saved", lambda: trial.saved(modules))
    problems += trial.compared("for a row alone", trial.row_by_row)
    for language, run in (("python", in_python), ("sql", in_duckdb)):
        if not (getattr(operator, language) or operator.lookup(trial.recipe.features[0].state)):
            remarks.append(f"no export to {language}: it gives neither {language} nor a lookup")
        elif language == "sql" and not all(map(find_spec, SQL_PACKAGES)):
            remarks.append(f"its SQL was not run: that needs {' and '.join(SQL_PACKAGES)}")
        else:
            where = "in Python" if language == "python" else "in SQL"
            problems += trial.compared(where, partial(run, trial.recipe, trial.new), units=UNITS)
    return Checked(operator.name, problems, remarks)


class _Trial:
    """An operator, fitted on some rows, and its values of others; the methods return problems."""

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self.inputs = ["k" if kind == CAT else "x" for kind in operator.takes]
        if len(self.inputs) == 2 and self.inputs[0] == self.inputs[1]:
            self.inputs[1] = "l" if self.inputs[0] == "k" else "y"
        self.new = unseen(rows(NEW, SEED + 1))
        self._fit(rows(FITTED, SEED))
        self.spoiled = bool(np.isnan(self.expected).all())
        if self.spoiled:
            self._fit(rows(FITTED, SEED).replace([np.inf, -np.inf], np.nan))

    def _fit(self, frame: pd.DataFrame) -> None:
        table = encode(frame, np.arange(FITTED), kinds={"x": "numerical", "y": "numerical"})
        expression = Apply(self.operator.name, tuple(map(Leaf, self.inputs)), self.operator.symmetric)
        self.features = [table[table.names.index(name)] for name in self.inputs]
        self.recipe = fit_recipe("checked", "", table, [(expression, self.operator, 0.0, 0.0)])
        self.expected = codes_of(self.recipe.transform(self.new)).iloc[:, 0].to_numpy()

    def nothing_but_missing(self) -> list[str]:
        if not self.spoiled:
            return []
        still = bool(np.isnan(self.expected).all())
        return [f"gives nothing but missing values{'' if still else ' if a fitted number is infinite'}"]

    def on_few_rows(self) -> list[str]:
        few = {
            "one row": self.new.iloc[:1],
            "no rows": self.new.iloc[:0],
            "missing values only": self.new.iloc[:3].map(lambda _: None),
        }
        return [
            p for what, frame in few.items() for p in _failure(f"on {what}", self.recipe.transform, frame)
        ]

    def of_its_inputs(self) -> list[str]:
        """Check that inputs stay as they are, and that their order matters only where it should."""
        given = arguments_of(self.operator, self.features)
        arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in given]
        before = [_copy(a) for a in arguments]
        values = self.operator.apply(self.operator.fit(*arguments), *arguments)
        problems = []
        if not all(
            np.array_equal(a, _copy(b), equal_nan=True) for a, b in zip(before, arguments, strict=True)
        ):
            problems.append("changes its inputs")
        if self.operator.symmetric and self.operator.gives == NUM:
            swapped = arguments_of(self.operator, self.features[::-1])
            others = self.operator.apply(self.operator.fit(*swapped), *swapped)
            if not np.array_equal(values, others, equal_nan=True):
                problems.append("is declared symmetric, but the order of its inputs matters")
        return problems

    def saved(self, modules: Sequence[str]) -> pd.DataFrame:
        with tempfile.TemporaryDirectory() as folder:
            recipe = Recipe.load(self.recipe.save(Path(folder) / "recipe.json"), modules)
        return codes_of(recipe.transform(self.new))

    def row_by_row(self) -> pd.DataFrame:
        rows = [self.recipe.transform(self.new.iloc[[i]]) for i in range(ALONE)]
        return codes_of(pd.concat(rows))

    def compared(self, where: str, make: Callable[[], pd.DataFrame], *, units: int = 0) -> list[str]:
        """Say how many values differ from those of a batch, with the first such row.

        Parameters
        ----------
        units
            Differences that do not count, in units of the last place.
        """
        found: list[pd.DataFrame] = []
        failed = _failure(where, lambda: found.append(make()))
        if failed:
            return failed
        values = codes_of(found[0]).iloc[:, 0].to_numpy(dtype=np.float64)
        expected = self.expected[: len(values)]
        near = np.isclose(values, expected, rtol=units * np.finfo(float).eps, atol=0, equal_nan=True)
        if near.all():
            return []
        row = int(np.flatnonzero(~near)[0])
        given = ", ".join(f"{name} = {self.new[name].iloc[row]}" for name in self.inputs)
        return [
            f"{where}, {int((~near).sum())} of {len(values)} values are others: "
            f"{values[row]:g} instead of {expected[row]:g} for {given}"
        ]


def _failure(where: str, call: Callable[..., object], *arguments: object) -> list[str]:
    """Call something, and return the problem that it failed, if it did."""
    try:
        call(*arguments)
    except Exception as error:
        return [f"fails {where}: {type(error).__name__}: {first_line(error)}"]
    return []


def in_python(recipe: Recipe, frame: pd.DataFrame) -> pd.DataFrame:
    """Return what a recipe's exported module makes of a frame."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_python(recipe, Path(folder) / "exported.py")
        found: pd.DataFrame = runpy.run_path(str(path))["transform"](frame)
    return found


def in_duckdb(recipe: Recipe, frame: pd.DataFrame) -> pd.DataFrame:
    """Return what a recipe's SELECT makes of a frame in DuckDB, float64, in the order of the rows."""
    import duckdb

    number = "row number"
    with duckdb.connect() as connection:
        connection.register("data", frame.assign(**{number: np.arange(len(frame))}))
        found = connection.execute(to_sql(recipe, keep=[number])).df()
    return found.sort_values(number, ignore_index=True).drop(columns=number).astype(np.float64)


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
