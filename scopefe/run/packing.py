"""Values as files: JSON beside arrays, never pickles; a file is whole or absent."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from scopefe.components import Array
from scopefe.evaluate.choosing import Choice
from scopefe.run.vector import may_pass
from scopefe.score.attribution import Attribution
from scopefe.score.baseline import BaselineScores
from scopefe.score.featureboost import Failure
from scopefe.space.context import Splits

SUFFIX = ".npz"
_ABOUT = "about"
_PLAIN = (type(None), bool, int, float, str)
_CLASSES: dict[str, Any] = {c.__name__: c for c in (Attribution, BaselineScores, Choice, Failure, Splits)}


def pack(value: Any) -> tuple[Any, dict[str, Array]]:
    """Return a value as JSON values and the arrays they name.

    Raises
    ------
    TypeError
        If it holds anything but plain values, lists, tuples, dicts, arrays and the results of scoring, or a
        failure that may pass.
    """
    arrays: dict[str, Array] = {}

    def tree(value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if (kind is np.ndarray or isinstance(value, np.generic)) and not value.dtype.hasobject:
            name = str(len(arrays))
            arrays[name] = np.asarray(value)
            return {"array": name}
        if kind is list:
            return [tree(v) for v in value]
        if kind is tuple:
            return {"tuple": [tree(v) for v in value]}
        if kind is dict:
            return {"dict": [[tree(k), tree(v)] for k, v in value.items()]}
        if _CLASSES.get(kind.__name__) is kind and not (kind is Failure and may_pass(value.error)):
            return {kind.__name__: [tree(getattr(value, f.name)) for f in fields(value)]}
        raise TypeError(f"a {kind.__name__} is not kept on disk")

    return tree(value), arrays


def unpack(tree: Any, arrays: Mapping[str, Array]) -> Any:
    """Return the value that `pack` was given."""
    if isinstance(tree, list):
        return [unpack(v, arrays) for v in tree]
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "array":
        array = arrays[content]
        return array if array.ndim else array[()]
    if kind == "tuple":
        return tuple(unpack(v, arrays) for v in content)
    if kind == "dict":
        return {unpack(k, arrays): unpack(v, arrays) for k, v in content}
    return _CLASSES[kind](*(unpack(v, arrays) for v in content))


def write(path: Path, about: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write JSON values and arrays under a name that the file gets when it is whole.

    Raises
    ------
    OSError
        If that is not possible.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    members: dict[str, Any] = {_ABOUT: text, **arrays}
    work = path.with_name(f".{uuid.uuid4().hex}")
    try:
        with work.open("xb") as file:
            np.savez(file, **members)
            file.flush()
            os.fsync(file.fileno())
        work.replace(path)
    finally:
        work.unlink(missing_ok=True)


def read(path: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return what `write` wrote; raises whatever a file that is not whole leads to."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
        arrays = {name: content[name] for name in content.files}
    return json.loads(arrays.pop(_ABOUT).tobytes()), arrays


def read_about(path: Path) -> dict[str, Any]:
    """Return the JSON values of a file only."""
    with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
        about: dict[str, Any] = json.loads(content[_ABOUT].tobytes())
    return about
