"""Compare the exports of every operator with what was fitted, on real tables, and keep the table of it.

    SCOPEFE_DATA=FOLDER python -m benchmarks.parity

Features are fitted on development rows. On test rows a twentieth of each column's values is missing, and
another one is none that was fitted. The table goes to docs/recipes.md, the facts to docs/results/parity.json.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel

from benchmarks.harness import Kept
from benchmarks.tables import has, table_path, whole
from scopefe.components import CAT, Array
from scopefe.data.frames import codes_of
from scopefe.data.source import read_file
from scopefe.data.table import finite
from scopefe.export.checking import in_duckdb, in_python
from scopefe.recipe.fitting import fit_recipe
from scopefe.recipe.recipe import Recipe
from scopefe.report.tables import Column, Table
from scopefe.report.tables import whole as counted
from scopefe.run.compiling import Compiled
from scopefe.score.featureboost import compute

TABLES = ("adult", "telecom", "california_housing")
CANDIDATES, SHARE = 6, 0.05
PAGE, KEPT = Path("docs/recipes.md"), Path("docs/results/parity.json")
START, END = "<!-- table: made by python -m benchmarks.parity -->", "<!-- end of table -->"


class Compared(BaseModel):
    """An operator's features on a table.

    Parameters
    ----------
    values
        How many were compared, of all features and rows.
    fitted, python, sql
        Largest difference to what `Recipe.transform` gives, in units of the last place; infinite where a
        value is missing on one side only.
    """

    dataset: str
    operator: str
    features: int
    values: int
    fitted: float
    python: float
    sql: float


class Parity(Kept):
    """All that was compared."""

    compared: list[Compared]


def main() -> None:
    """Compare, keep the facts, and put the table into the page."""
    facts = Parity.now(compared=[found for name in TABLES if has(name) for found in on_table(name)])
    facts.write(KEPT)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    PAGE.write_text(
        f"{before}{START}\n\n{table_of(facts.compared).markdown()}\n{END}{after}", encoding="utf-8"
    )


def on_table(name: str) -> Iterator[Compared]:
    """Compare every operator on a table."""
    compiled = whole(name).compile("openfe")
    assert compiled.data is not None
    rng, frame = np.random.default_rng(0), read_file(table_path(name))
    recipe, learned = fitted(compiled, rng)
    rows = compiled.data.rows
    at_fit = codes_of(recipe.transform(frame.iloc[rows.development]))
    new = disturbed(frame[sorted({i.column for i in recipe.inputs})].iloc[rows.test], rng)
    expected, python, sql = (
        codes_of(recipe.transform(new)),
        codes_of(in_python(recipe, new)),
        in_duckdb(recipe, new),
    )
    single = {i.name for i in recipe.inputs if i.single}
    for operator, members in groupby(recipe.features, lambda f: f.operator.name):
        features = list(members)
        units = {
            f.name: np.finfo(np.float32 if set(f.inputs) <= single else np.float64).eps for f in features
        }

        def apart(one: pd.DataFrame, other: pd.DataFrame, units: Mapping[str, float] = units) -> float:
            return max(difference(one[n].to_numpy(), other[n].to_numpy()) / unit for n, unit in units.items())

        yield Compared(
            dataset=name,
            operator=operator,
            features=len(features),
            values=len(features) * (len(at_fit) + 2 * len(new)),
            fitted=apart(at_fit, learned),
            python=apart(expected, python),
            sql=apart(expected, sql),
        )


def fitted(compiled: Compiled, rng: np.random.Generator) -> tuple[Recipe, pd.DataFrame]:
    """Fit features of every operator of a universe, and return their values as a search computes them."""
    assert compiled.data is not None
    universe, table = compiled.universe, compiled.data.development
    chosen, values = [], []
    for block in universe.blocks:
        drawn = rng.choice(block.size, min(block.size, CANDIDATES), replace=False)
        for candidate in block.offset + drawn:
            (_,), (left,), (right,) = universe.decode(np.array([candidate]))
            chosen.append((universe.expression(candidate), block.operator, 0.0, 0.0))
            found = finite(compute(block.operator, table, left, right))
            found[(found < 0) & (block.operator.gives == CAT)] = np.nan
            values.append(found)
    recipe = fit_recipe("parity", "", table, chosen, compiled.spec.data.features.missing_as)
    return recipe, pd.DataFrame(dict(zip((f.name for f in recipe.features), values, strict=True)))


def disturbed(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return the rows with missing values, and values that were not fitted, in every column."""
    columns: dict[str, Any] = {}
    for name in frame.columns:
        column, chance = frame[name], rng.random(len(frame))
        unseen = chance < SHARE
        if pd.api.types.is_numeric_dtype(column):
            values = column.to_numpy(
                dtype=column.dtype if column.dtype.kind == "f" else np.float64, copy=True
            )
            values[unseen] += rng.normal(size=int(unseen.sum())).astype(values.dtype)
            columns[name] = pd.Series(values).mask((chance >= SHARE) & (chance < 2 * SHARE))
        else:
            text = column.astype(object).reset_index(drop=True)
            columns[name] = text.mask(unseen, "never seen").mask(
                (chance >= SHARE) & (chance < 2 * SHARE), None
            )
    return pd.DataFrame(columns)


def difference(one: Array, other: Array) -> float:
    """Return the largest relative difference; infinite if a value is missing on one side only."""
    if (np.isnan(one) != np.isnan(other)).any():
        return float("inf")
    known = ~np.isnan(one) & (one != other)
    size = np.maximum(np.abs(one[known]), np.abs(other[known]))
    return float((np.abs(one[known] - other[known]) / size).max(initial=0.0))


def table_of(compared: Sequence[Compared]) -> Table:
    """Return a row per operator, over all tables."""

    def worst(members: Sequence[Compared], side: str) -> float:
        return max(getattr(member, side) for member in members)

    rows = []
    for operator in dict.fromkeys(c.operator for c in compared):
        of = [c for c in compared if c.operator == operator]
        sides = [worst(of, side) for side in ("fitted", "python", "sql")]
        rows.append([operator, sum(c.features for c in of), sum(c.values for c in of), *sides])
    sides = [Column(name, apart_text) for name in ("at fit", "Python", "SQL in DuckDB")]
    return Table(
        "parity",
        f"Values of transform beside those at fit and of both exports, on {', '.join(TABLES)}",
        [Column("operator"), Column("features", counted), Column("values", counted), *sides],
        rows,
        "Differences are in units of the last place. Values at fit are those of development rows; exports "
        "were compared on test rows, with missing values and values that were not fitted.",
    )


def apart_text(units: float) -> str:
    return "equal" if units == 0 else f"{units:.1f} apart"


if __name__ == "__main__":
    main()
