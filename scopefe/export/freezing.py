"""A recipe turned back into a spec of exactly its features."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq

from scopefe.components import Operator
from scopefe.recipe.recipe import Recipe


def freeze(recipe: Recipe, *, extends: str | None = None, modules: Sequence[str] = ()) -> dict[str, Any]:
    """Return the content of a spec whose pool has the features of a recipe, all of which it keeps.

    The spec fixes the kinds of the columns that these features read. It has no table and no target: they
    come from the spec it extends, or from a fragment laid over it.

    Parameters
    ----------
    extends
        A spec with the data, whose other settings hold too.
    modules
        Modules with the operators of one's own that the recipe uses.

    Returns
    -------
    dict
        What `scopefe.load_spec` takes.
    """
    operators = {f.operator.name: f.operator for f in recipe.features}
    columns: dict[str, Any] = {"kinds": {i.name: i.kind for i in recipe.inputs}}
    for missing_as in {i.missing_as for i in recipe.inputs} - {None}:
        columns["missing_as"] = missing_as
    missing = {} if recipe.missing is None else {"missing": list(recipe.missing)}
    return {
        **({"extends": extends} if extends else {}),
        "name": f"{recipe.name}-frozen",
        "description": f"The features of the recipe {recipe.name}.",
        "data": {**missing, "features": columns},
        "operators": {
            "use": [_use(o) for o in operators.values()],
            **({"modules": list(modules)} if modules else {}),
            "directions": "both" if any(o.one_way for o in operators.values()) else "one",
        },
        "scope": {
            "pairs": "all",
            "operators": {
                "gate": "features",
                "use": [[f.operator.name, *f.inputs] for f in recipe.features],
            },
        },
        "selection": {"keep": "all"},
    }


def _use(operator: Operator) -> str | dict[str, Any]:
    if not operator.bound:
        return operator.name
    return {"operator": operator.declared, **operator.bound}


def to_yaml(spec: dict[str, Any]) -> str:
    """Return the text of a spec: lists of names on one line each."""
    yaml = YAML()
    yaml.width = 2**20
    yaml.indent(sequence=4, offset=2)
    text = io.StringIO()
    yaml.dump(_shown(spec), text)
    return text.getvalue()


def _shown(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shown(item) for key, item in value.items()}
    if isinstance(value, list):
        shown = CommentedSeq(_shown(item) for item in value)
        if not any(isinstance(item, list | dict) for item in value):
            shown.fa.set_flow_style()
        return shown
    return value
