"""The pool: a scope in order, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from scopefe.components import Array
from scopefe.errors import DataError, first_line
from scopefe.space.expression import key_of
from scopefe.space.scope import Scope
from scopefe.space.universe import Universe

ROWS_PER_CHUNK = 500_000


@dataclass(frozen=True, eq=False)
class Pool:
    """Candidates in universe order.

    Parameters
    ----------
    universe
        Where they come from.
    ids
        int64, shape (n,), ascending.
    operators, left, right
        int32, shape (n,): positions of the operator and the features; right is -1 for one-input operators.
    """

    universe: Universe
    ids: Array
    operators: Array
    left: Array
    right: Array

    @classmethod
    def of(cls, scope: Scope) -> Pool:
        """Enumerate a scope."""
        ids = scope.ids()
        return cls(scope.universe, ids, *scope.universe.decode(ids))

    def __len__(self) -> int:
        return len(self.ids)


def write_pool(scope: Scope, path: Path, clusters: Array | None = None) -> int:
    """Write the enumeration of a scope to Parquet, in chunks.

    Columns: id, operator, left, right (null for one-input operators), cluster (of both inputs; null across
    clusters or where nothing is clustered), key, formula.

    Returns
    -------
    int
        Number of candidates.
    """
    universe = scope.universe
    ids = scope.ids()
    schema = pa.schema(
        [("id", pa.int64()), ("operator", pa.string()), ("left", pa.string()), ("right", pa.string()),
         ("cluster", pa.int32()), ("key", pa.string()), ("formula", pa.string())]
    )  # fmt: skip
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, max(len(ids), 1), ROWS_PER_CHUNK):
            chunk = ids[start : start + ROWS_PER_CHUNK]
            operators, left, right = universe.decode(chunk)
            expressions = list(universe.expressions(chunk))
            writer.write_table(
                pa.table(
                    {
                        "id": chunk,
                        "operator": [universe.operators[i].name for i in operators],
                        "left": [universe.names[i] for i in left],
                        "right": [universe.names[i] if i >= 0 else None for i in right],
                        "cluster": _clusters(clusters, left, right),
                        "key": [key_of(e) for e in expressions],
                        "formula": [e.formula for e in expressions],
                    },
                    schema=schema,
                )
            )
    return len(ids)


def _clusters(clusters: Array | None, left: Array, right: Array) -> list[int | None]:
    if clusters is None:
        return [None] * len(left)
    partner = np.where(right >= 0, right, left)
    return [int(a) if a == b else None for a, b in zip(clusters[left], clusters[partner], strict=True)]


def read_pool(path: Path, universe: Universe) -> Scope:
    """Read an enumeration as a scope of a universe.

    Raises
    ------
    DataError
        If the file cannot be read, or names a candidate the universe does not have.
    """
    if not Path(path).is_file():
        raise DataError(f"there is no pool {str(path)!r}")
    try:
        table = pq.read_table(path, columns=["operator", "left", "right"])
        operators = _positions(table["operator"], [o.name for o in universe.operators])
        left, right = (_positions(table[c], universe.names) for c in ("left", "right"))
    except (OSError, pa.ArrowException, KeyError) as error:
        raise DataError(f"{str(path)!r} is no pool: {first_line(error)}") from error
    named = (operators >= 0) & (left >= 0) & ((right >= 0) | table["right"].is_null().to_numpy())
    ids = np.full(len(table), -1, dtype=np.int64)
    for i in np.unique(operators[named]):
        chosen = named & (operators == i)
        ids[chosen] = universe.encode(int(i), left[chosen], right[chosen])
    if (ids < 0).any():
        name, *inputs = table.slice(int(np.argmin(ids)), 1).to_pylist()[0].values()
        raise DataError(
            f"{str(path)!r} has the candidate {name}({inputs[0]}, {inputs[1]}), which is not in the universe"
        )
    ids, times = np.unique(ids, return_counts=True)
    places = [ids]
    for i, block in enumerate(universe.blocks):
        first, second = universe.doubles(i)
        places.append(block.offset + second[np.isin(block.offset + first, ids[times > 1])])
    return Scope.of_ids(universe, np.concatenate(places))


def _positions(column: pa.ChunkedArray, names: list[str]) -> Array:
    """Return the position in `names` of each text of a column, -1 where it is absent or null."""
    encoded = column.combine_chunks().dictionary_encode()
    texts = pd.Index(encoded.dictionary.to_pylist(), dtype=object)
    found = pd.Index(names, dtype=object).get_indexer(texts)
    positions: Array = np.append(found, -1)[encoded.indices.fill_null(len(found)).to_numpy()]
    return positions
