"""The pool: a scope in order, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scopefe.components import Array
from scopefe.errors import DataError
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
    try:
        table = pq.read_table(path, columns=["operator", "left", "right"])
    except (OSError, pa.ArrowException, KeyError) as error:
        raise DataError(f"{str(path)!r} is no pool: {str(error).splitlines()[0]}") from error
    operator = {o.name: i for i, o in enumerate(universe.operators)}
    feature = {name: i for i, name in enumerate(universe.names)}
    ids = []
    seen: dict[tuple[int, int, int], int] = {}
    for name, left, right in zip(*(table[c].to_pylist() for c in table.column_names), strict=True):
        if name not in operator or left not in feature or (right is not None and right not in feature):
            raise DataError(
                f"{str(path)!r} has the candidate {name}({left}, {right}), which is not in the universe"
            )
        place = (operator[name], feature[left], -1 if right is None else feature[right])
        seen[place] = seen.get(place, 0) + 1
        found = int(universe.encode(place[0], np.array([place[1]]), np.array([place[2]]))[0])
        if found < 0:
            raise DataError(
                f"{str(path)!r} has the candidate {name}({left}, {right}), which is not in the universe"
            )
        if seen[place] == 2:
            first, second = universe.doubles(place[0])
            offset = universe.blocks[place[0]].offset
            found = int(second[np.flatnonzero(first == found - offset)][0]) + offset if len(first) else found
        ids.append(found)
    return Scope.of_ids(universe, np.array(ids, dtype=np.int64))
