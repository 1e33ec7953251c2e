"""Ten group-by features of new rows: a recipe, pandas, and the openfe package.

Five statistics of each of two columns by group are fitted once. A recipe and pandas then look them up: pandas
by a merge with the table of each statistic. The package has no fitted state: it computes them anew, over old
and new rows together, in a process of its own. All use one thread.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce

import numpy as np
import pandas as pd

from benchmarks.harness import Comparison, Scale, Settings, interleave, seconds
from benchmarks.package import quiet
from benchmarks.tables import drawn, generated, has, part
from scopefe import Recipe
from scopefe.data.kinds import encode
from scopefe.recipe.fitting import fit_recipe
from scopefe.registry import components
from scopefe.space.expression import Apply, Leaf

ROWS: Mapping[Scale, Sequence[int]] = {"tiny": (1, 300), "quick": (1, 20_000), "full": (1, 200_000)}
STATISTICS = {"Mean": "mean", "Median": "median", "Min": "min", "Max": "max", "Std": "std"}
FITTED = 16_000
CALLS_OF_ONE_ROW = 50


def transform(settings: Settings) -> Iterator[Comparison]:
    """Compare on one row and on many."""
    fitted = _table(settings.scale)
    numbers, (key,) = _columns(fitted)
    recipe, tables = _recipe(fitted, numbers, key), _tables(fitted, numbers, key)
    for rows in ROWS[settings.scale]:
        new = drawn(fitted, rows, "target")
        sides: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
            "pandas, merge": partial(merged, tables=tables, key=key),
            "recipe": recipe.transform,
        }
        calls = CALLS_OF_ONE_ROW if rows == 1 else 1
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), quiet():
            if rows > 1:
                sides["openfe package"] = PackageTransform(fitted, numbers, key)
            timed = {name: partial(_quickest, side, new, calls) for name, side in sides.items()}
            times = interleave(timed, settings.repeats)
        expected, found = (sides[side](new).to_numpy() for side in ("pandas, merge", "recipe"))
        distances = np.abs(expected - found) / np.maximum(1, np.abs(expected))
        for peer in times.keys() - {"recipe"}:
            yield Comparison(
                group="1 row" if rows == 1 else f"{rows:,} rows",
                name="ten group-by features",
                against=peer,
                peer=times[peer],
                scopefe=times["recipe"],
                note=f"the quickest of {calls} calls" if calls > 1 else "",
                difference=float(np.nanmax(distances)) if peer == "pandas, merge" else None,
            )


def _quickest(side: Callable[[pd.DataFrame], pd.DataFrame], new: pd.DataFrame, calls: int) -> float:
    return min(seconds(partial(side, new)) for _ in range(calls))


def _table(scale: Scale) -> pd.DataFrame:
    """Return the rows that statistics are fitted on."""
    if scale == "tiny" or not has("telecom"):
        frame = generated("binary", 300 if scale == "tiny" else FITTED, 8).frame
    else:
        frame = part("telecom", FITTED).frame
    assert frame is not None
    return frame.rename(columns={frame.columns[-1]: "target"})


def _columns(frame: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return two columns of numbers, and one of categories."""
    kinds = [pd.api.types.is_float_dtype(frame[name]) for name in frame.columns[:-1]]
    numbers = [name for name, number in zip(frame.columns, kinds, strict=False) if number]
    others = [name for name in frame.columns[:-1] if not pd.api.types.is_numeric_dtype(frame[name])]
    return numbers[:2], others[:1]


def _recipe(frame: pd.DataFrame, numbers: Sequence[str], key: str) -> Recipe:
    operators = components().operators
    table = encode(frame, np.arange(len(frame)), columns=[*numbers, key])
    chosen = [
        (Apply(name, (Leaf(number), Leaf(key))), operators[name], 1.0, 1.0)
        for number in numbers
        for name in (f"GroupByThen{statistic}" for statistic in STATISTICS)
    ]
    return fit_recipe("group-bys", "key", table, chosen)


def _tables(frame: pd.DataFrame, numbers: Sequence[str], key: str) -> list[pd.DataFrame]:
    grouped = frame.groupby(key)
    return [
        grouped[number].agg(how).rename(f"{how} of {number}").reset_index()
        for number in numbers
        for how in STATISTICS.values()
    ]


def merged(frame: pd.DataFrame, tables: Sequence[pd.DataFrame], key: str) -> pd.DataFrame:
    """Return the features as merges of pandas find them."""
    whole = reduce(lambda left, right: left.merge(right, on=key, how="left"), tables, frame[[key]])
    return whole.drop(columns=key)


class PackageTransform:
    """Computes the features with the package's own `transform`, in the working directory."""

    def __init__(self, frame: pd.DataFrame, numbers: Sequence[str], key: str) -> None:
        import openfe
        from openfe.FeatureGenerator import FNode, Node

        self._transform, self._fitted = openfe.transform, frame.assign(**{key: frame[key].astype("category")})
        self._features = lambda: [
            Node(f"GroupByThen{statistic}", [FNode(number), FNode(key)])
            for number in numbers
            for statistic in STATISTICS
        ]

    def __call__(self, new: pd.DataFrame) -> pd.DataFrame:
        """Return the new rows with the features."""
        found: pd.DataFrame = self._transform(self._fitted, new, self._features(), n_jobs=1)[1]
        return found
