"""A recipe as a Python module that needs numpy and pandas only."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator
from pathlib import Path
from pprint import pformat
from typing import Any

import numpy as np

import scopefe
from scopefe.components import Array, Lookup
from scopefe.data import values
from scopefe.data.datetimes import (
    no_times,
    part,
    part_of,
    times_in,
    times_of,
    zone_name,
    zoned_texts,
    zones_differ,
)
from scopefe.export import standalone
from scopefe.export.forms import Form, forms
from scopefe.recipe.arrays import LARGE, atomically
from scopefe.recipe.inputs import Input
from scopefe.recipe.recipe import FittedFeature, Recipe

WIDTH = 100
IMPORT = "from scopefe.data.values import blanked, label_of, labels_as, numerals, told_apart\n\n"
HEAD = f'''\
"""The features of a recipe, exported by scopefe {scopefe.__version__}; needs numpy and pandas.

`transform` computes them. What was learned for them is in `LOOKUPS`.
"""
'''


def to_python(recipe: Recipe) -> str:
    """Return the text of a module whose function ``transform(frame)`` computes a recipe's features.

    Raises
    ------
    RecipeError
        If an operator gives neither Python nor a lookup.
    """
    return _module(recipe, None)


def write_python(recipe: Recipe, path: str | os.PathLike[str]) -> Path:
    """Write the module into a file; large tables go to a ``.npz`` file of that name beside it.

    Each file appears under its name only when it is whole.

    Raises
    ------
    RecipeError
        If an operator gives neither Python nor a lookup.
    """
    target, aside = Path(path), dict[str, Array]()
    text = _module(recipe, aside)
    if aside:
        atomically(target.with_suffix(".npz"), lambda p: _save(aside, p))
    atomically(target, lambda p: p.write_text(text, encoding="utf-8"))
    return target


def _save(arrays: dict[str, Any], path: Path) -> None:
    with path.open("wb") as file:
        np.savez_compressed(file, **arrays)


def _module(recipe: Recipe, aside: dict[str, Array] | None) -> str:
    """Return the module; large arrays go to `aside`, if there is one."""
    given = forms(recipe, "python")
    source = (
        inspect.getsource(standalone)
        .replace(IMPORT, "")
        .replace("import json\n", "import decimal\nimport json\n")
    )
    readings = inspect.getsource(values)
    of_times = zone_name, zoned_texts, zones_differ, times_of, times_in, no_times, part_of, part
    shared = of_times if any(i.time_part for i in recipe.inputs) else ()
    return "\n".join(
        [
            HEAD + source[source.index("\nfrom __future__") :],
            "\n" + readings[readings.index("NO_VALUE = ") :],
            *(f"\n{inspect.getsource(function)}" for function in shared),
            "\nLOOKUPS = {",
            *_lookups(recipe, given, aside),
            "}\n\n",
            *_transform(recipe, given),
            "",
        ]
    )


def _lookups(recipe: Recipe, given: list[Form], aside: dict[str, Array] | None) -> Iterator[str]:
    """Yield the lines of what was learned."""
    for number, (feature, form) in enumerate(zip(recipe.features, given, strict=True)):
        if not isinstance(form, Lookup):
            continue

        def literal(name: str, values: Array, number: int = number) -> str:
            if aside is not None and len(values) > LARGE:
                aside[f"{number}/{name}"] = _stored(values)
                return f"large({f'{number}/{name}'!r})"
            return pformat(values.tolist(), width=WIDTH, compact=True).replace("\n", "\n" + " " * 12)

        yield f"    {feature.name!r}: Lookup("
        keys = [literal(f"key{place}", labels) for place, labels in form.keys.items()]
        yield f"        keys=[{', '.join(keys)}],"
        yield f"        values={literal('values', form.values)},"
        if not np.isnan(form.default):
            yield f"        default={float(form.default)!r},"
        if form.lower is not None:
            yield f"        lower={literal('lower', form.lower[1])},"
        if form.between is not None:
            yield f"        between={literal('between', form.between)},"
        yield "    ),"


def _stored(values: Array) -> Array:
    """Return an array as a file without pickles holds it: numbers, or the bytes of JSON."""
    if values.dtype != object:
        return values.astype(np.float64)
    return np.frombuffer(json.dumps(values.tolist()).encode(), dtype=np.uint8)


def _transform(recipe: Recipe, given: list[Form]) -> Iterator[str]:
    """Yield the lines of the function."""
    features = list(zip(recipe.features, given, strict=True))
    keys = {f.inputs[p] for f, form in features if isinstance(form, Lookup) for p in form.keys}
    yield "def transform(frame: pd.DataFrame) -> pd.DataFrame:"
    yield '    """Return the features of every row, float64 or categories, with the index of the frame."""'
    yield "    x = {"
    for i in recipe.inputs:
        if i.kind != "categorical":
            yield f"        {i.name!r}: numbers({_series(i, recipe)}{', np.float32' if i.single else ''}),"
    yield "    }"
    yield "    k = {"
    for i in recipe.inputs:
        if i.kind == "categorical":
            missing = "" if i.missing_as is None else f", missing_as={i.missing_as!r}"
            holds = "" if i.holds is None else f", holds={i.holds!r}"
            yield f"        {i.name!r}: categories({_series(i, recipe)}{missing}{holds}),"
        elif i.name in keys:
            yield f"        {i.name!r}: number_categories(x[{i.name!r}]),"
    yield "    }"
    yield '    with np.errstate(all="ignore"):'
    yield "        new = {"
    for feature, form in features:
        yield f"            {feature.name!r}: {_value(feature, form)},"
    yield "        }"
    yield "    columns = {name: finite(values) for name, values in new.items()}"
    yield "    found = pd.DataFrame(columns, index=frame.index, dtype=np.float64)"
    for feature in recipe.features:
        if feature.labels is not None:
            name, count = repr(feature.name), len(feature.labels)
            yield f"    found[{name}] = as_categories(found[{name}], {count})"
    yield "    return found"


def _series(i: Input, recipe: Recipe) -> str:
    """Return the expression of what an input of a recipe is read from."""
    missing = f", {recipe.missing!r}" if recipe.missing else ""
    if i.time_part is None:
        return f"column(frame, {i.name!r}{missing})"
    zone = "" if i.time_part.zone is None else f", {i.time_part.zone!r}"
    lenient = ", lenient=True" if i.time_part.lenient else ""
    return f"part(column(frame, {i.column!r}{missing}), {i.time_part.part!r}{zone}{lenient})"


def _value(feature: FittedFeature, form: Form) -> str:
    """Return the expression of a feature."""
    if isinstance(form, Lookup):
        found = [f"k[{feature.inputs[place]!r}]" for place in form.keys]
        if form.lower is not None:
            found.append(f"at=x[{feature.inputs[form.lower[0]]!r}]")
        return f"LOOKUPS[{feature.name!r}].find({', '.join(found)})"
    parameters = {name: repr(value) for name, value in feature.operator.values.items()}
    return form.format(*(f"x[{name!r}]" for name in feature.inputs), **parameters)
