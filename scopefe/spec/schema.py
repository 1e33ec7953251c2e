"""The JSON Schema of specs, in the draft-07 subset that editors read."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from scopefe import registry
from scopefe.components import Component
from scopefe.registry import Components, Registry
from scopefe.spec.check import DEFAULT
from scopefe.spec.models import Spec

Schema = dict[str, Any]

FROM_REGISTRY = ("AnyOf", "AllOf", "Not", "GateUse", "OperatorUse")
EXAMPLES: dict[str, dict[str, list[Any]]] = {
    "Spec": {"name": ["my-run"], "extends": ["base.yaml", ["base.yaml", "data/my-data.yaml"]]},
    "Data": {"source": ["table.csv", {"type": "parquet", "path": "${SCOPEFE_DATA}/table.parquet"}]},
    "Target": {"column": ["price"], "positive": [["yes"]]},
    "Features": {"kinds": [{"zip_code": "categorical"}], "drop": [["id"]]},
    "Operators": {"use": [[DEFAULT], [DEFAULT, "my_operator"]], "modules": [["my_operators.py"]]},
    "Evaluation": {"learner": [{"num_leaves": 31, "learning_rate": 0.05}]},
}


def json_schema(components: Components | None = None) -> Schema:
    """Return the JSON Schema of spec files, fragments included.

    Parameters
    ----------
    components
        The components whose names and parameters it knows; the built-in and installed ones if not given.

    Returns
    -------
    dict
        Nothing is required but what tells one form from another, since a file may extend others.
    """
    known = components or registry.components()
    spec = Spec.model_json_schema(ref_template="#/definitions/{model}")
    definitions: dict[str, Schema] = {"Spec": spec, **spec.pop("$defs")}
    for definition in definitions.values():
        definition.pop("required", None)
    for name in ("source", "split"):
        _tell_apart(definitions["Data"]["properties"][name], definitions)
    definitions = {name: _tidy(d) for name, d in definitions.items() if name not in FROM_REGISTRY}
    definitions |= _gates("PairGate", known.pair_gates) | _gates("OperatorGate", known.operator_gates)
    definitions |= _operators(known.operators)
    _admit_shorthands(definitions)
    for name, examples in EXAMPLES.items():
        for key, values in examples.items():
            definitions[name]["properties"][key]["examples"] = values
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "scopefe spec",
        **definitions.pop("Spec"),
        "definitions": dict(sorted(definitions.items())),
    }


def write_schema(path: str | os.PathLike[str]) -> None:
    """Write the JSON Schema of specs with the built-in and installed components.

    Parameters
    ----------
    path
        File to write.
    """
    text = json.dumps(json_schema(), indent=2, ensure_ascii=False)
    Path(path).write_text(f"{text}\n", encoding="utf-8")


def _tell_apart(union: Schema, definitions: dict[str, Schema]) -> None:
    """Require the discriminator in all forms of a union but the first, which is the one meant without it."""
    for member in union["oneOf"][1:]:
        definitions[member["$ref"].rpartition("/")[2]]["required"] = [union["discriminator"]["propertyName"]]


def _tidy(schema: Any) -> Any:
    """Drop what draft-07 editors do not read; wrap references that have siblings, which they would ignore."""
    if isinstance(schema, list):
        return [_tidy(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    tidy: Schema = {}
    for key, value in schema.items():
        if key == "properties":
            tidy[key] = {name: _tidy(item) for name, item in value.items()}
        elif key in ("default", "examples", "enum", "const"):
            tidy[key] = value
        elif key not in ("title", "discriminator"):
            tidy[key] = _tidy(value)
    if "$ref" in tidy and len(tidy) > 1:
        tidy["allOf"] = [{"$ref": tidy.pop("$ref")}]
    return tidy


def _admit_shorthands(definitions: dict[str, Schema]) -> None:
    data, scope = definitions["Data"]["properties"], definitions["Scope"]["properties"]
    source = {"type": "string", "description": "File, relative to the spec."}
    data["source"]["oneOf"].insert(0, source)
    data["target"] = {
        "description": "What is predicted: a column, or a mapping that says more.",
        "oneOf": [{"type": "string", "description": "Name of the column."}, data["target"]],
    }
    scope["pairs"] = _described("Which pairs of features two-input operators take.", "PairGate")
    scope["operators"] = _described("Which operators are used, and on what.", "OperatorGate")
    definitions["Operators"]["properties"]["use"]["items"] = {"$ref": "#/definitions/Operator"}
    definitions["Spec"]["properties"]["extends"] = {
        "description": "Files that this one is laid over: relative to it, or shipped specs by name.",
        "oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
    }


def _described(text: str, definition: str) -> Schema:
    return {"description": text, "default": "all", "allOf": [{"$ref": f"#/definitions/{definition}"}]}


def _gates(name: str, registry: Registry[Any]) -> dict[str, Schema]:
    this = {"$ref": f"#/definitions/{name}"}
    forms, definitions = _forms("gate", name, registry)
    algebra = [
        _object("any", {"type": "array", "minItems": 1, "items": this}, "What one of the gates admits."),
        _object("all", {"type": "array", "minItems": 1, "items": this}, "What every gate admits."),
        _object("not", this, "What the gate does not admit."),
    ]
    names = {"type": "string", "enum": registry.names()}
    return {name: {"oneOf": [names, *forms, *algebra]}, **definitions}


def _operators(registry: Registry[Any]) -> dict[str, Schema]:
    forms, definitions = _forms("operator", "Operator", registry)
    default = _object("operator", {"const": DEFAULT}, "The built-in operators.")
    names = {"type": "string", "enum": [DEFAULT, *registry.names()]}
    return {"Operator": {"oneOf": [names, default, *forms]}, **definitions}


def _forms(key: str, prefix: str, registry: Registry[Any]) -> tuple[list[Schema], dict[str, Schema]]:
    """Return an object schema per component, and the definitions that their parameters refer to."""
    forms: list[Schema] = []
    definitions: dict[str, Schema] = {}
    for component in registry:
        own = f"{prefix}.{component.name}."
        parameters = _parameters(component, own)
        definitions |= {f"{own}{name}": _tidy(d) for name, d in parameters.pop("$defs", {}).items()}
        form = _object(key, {"const": component.name}, component.summary)
        form["properties"] |= parameters.get("properties", {})
        forms.append(form)
    return forms, definitions


def _parameters(component: Component, prefix: str) -> Schema:
    schema = component.parameters.model_json_schema(ref_template=f"#/definitions/{prefix}{{model}}")
    return {**schema, "properties": _tidy({"properties": schema.get("properties", {})})["properties"]}


def _object(key: str, value: Schema, description: str) -> Schema:
    return {
        "type": "object",
        "description": description,
        "properties": {key: value},
        "required": [key],
        "additionalProperties": False,
    }
