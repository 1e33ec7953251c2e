"""Fitted arrays as JSON values, and as rows of a Parquet file where they are large."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from scopefe.components import Array
from scopefe.data.table import label_array

LARGE = 20_000


def to_json(values: Array, name: str, tables: dict[str, Array] | None) -> dict[str, Any]:
    """Return an array as a JSON object; a large one goes to `tables`, if there are any, under its name.

    NaN becomes null, infinity an object with its sign.
    """
    dtype = "label" if values.dtype == object else str(values.dtype)
    if tables is not None and len(values) > LARGE:
        tables[name] = values
        return {"dtype": dtype, "table": name}
    return {"dtype": dtype, "values": [_plain(v) for v in values.tolist()]}


def from_json(value: dict[str, Any], tables: dict[str, list[Any]]) -> Array:
    """Read what `to_json` gave.

    Raises
    ------
    ValueError
        If it gave nothing of the kind.
    """
    values = tables[value["table"]] if "table" in value else [_from_plain(v) for v in value["values"]]
    if value["dtype"] == "label":
        if not all(isinstance(v, str | float) for v in values):
            raise ValueError("a label is neither text nor a number")
        return label_array(values)
    dtype = np.dtype(value["dtype"])
    if dtype.kind not in "biuf":
        raise ValueError(f"an array is of type {dtype}")
    found = np.array(values, dtype=dtype)
    if found.ndim != 1:
        raise ValueError("an array is no list of numbers")
    return found


def _plain(value: Any) -> Any:
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return None if math.isnan(value) else {"inf": 1 if value > 0 else -1}


def _from_plain(value: Any) -> Any:
    if value is None:
        return math.nan
    return math.inf * value["inf"] if isinstance(value, dict) else value


def holds_tables(path: Path) -> bool:
    """Whether a file was written by `write_tables`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return bool(pq.read_schema(path).names == ["table", "number", "text"])
    except (OSError, pa.ArrowException):
        return False


def write_tables(tables: dict[str, Array], path: Path) -> None:
    """One row per value, so that tables of different lengths share one file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pa.table(
        {
            "table": pa.array(np.repeat(list(tables), [len(v) for v in tables.values()])).dictionary_encode(),
            "number": pa.array(np.concatenate([_numbers(v) for v in tables.values()])),
            "text": pa.array([t for v in tables.values() for t in _texts(v)], type=pa.string()),
        }
    )
    pq.write_table(rows, path, compression="zstd")


def _numbers(values: Array) -> Array:
    if values.dtype == object:
        return np.array([v if isinstance(v, float) else math.nan for v in values], dtype=np.float64)
    return values.astype(np.float64)


def _texts(values: Array) -> list[str | None]:
    if values.dtype == object:
        return [v if isinstance(v, str) else None for v in values]
    return [None] * len(values)


def read_tables(path: Path) -> dict[str, list[Any]]:
    """Read what `write_tables` wrote."""
    import pyarrow.parquet as pq

    frame = pq.read_table(path).to_pydict()
    result: dict[str, list[Any]] = {}
    for table, number, text in zip(frame["table"], frame["number"], frame["text"], strict=True):
        result.setdefault(table, []).append(number if text is None else text)
    return result


def atomically(target: Path, write: Callable[[Path], object]) -> None:
    """Write a file that appears under its name only when it is whole."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    try:
        write(Path(name))
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
