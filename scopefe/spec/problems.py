"""What is wrong with the structure of a spec, in one line each and with its place."""

from __future__ import annotations

import re
import typing
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from scopefe.errors import Mark, SpecError, suggestion
from scopefe.spec.document import Node, is_gate
from scopefe.spec.models import KeyPath

M = TypeVar("M", bound=BaseModel)
EXAMPLES: dict[KeyPath, str] = {
    ("name",): "name: my-run",
    ("data",): "data: {source: table.csv, target: COLUMN}",
    ("data", "target"): "target: COLUMN",
    ("data", "source", "type"): "source: {type: csv, path: FILE}",
    ("scope", "pairs", "gate"): "gate: NAME",
    ("scope", "operators", "gate"): "gate: NAME",
}
KINDS = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "dict_type": "a mapping",
    "model_attributes_type": "a mapping",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "literal_error": "{expected}",
    "string_too_long": "of at most {max_length} characters",
}
MODELS = {
    "Target": "the name of a column or a mapping",
    "GateUse": "the name of a gate or a mapping",
    "OperatorUse": "the name of an operator or a mapping",
}


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong.

    Parameters
    ----------
    message
        What is wrong and what to do, in one line.
    mark
        Where it stands.
    """

    message: str
    mark: Mark | None = None


def fail(problems: Iterable[Problem]) -> None:
    """Raise what is wrong as one error, each problem on a line of its own.

    Raises
    ------
    SpecError
        If there is any problem.
    """
    found = list(problems)
    if found:
        lines = [f"{p.mark}: {p.message}" if p.mark else p.message for p in found[1:]]
        raise SpecError("\n".join([found[0].message, *lines]), found[0].mark)


def dotted(path: KeyPath) -> str:
    """Write a path as users do: ``scope.pairs.any[1].gate``."""
    text = ""
    for part in path:
        if isinstance(part, str) and part.replace("-", "_").isidentifier():
            text += f".{part}" if text else part
        else:
            text += f"[{part!r}]"
    return text


def validated(root: Node, model: type[M]) -> M:
    """Make the model of a document.

    Raises
    ------
    SpecError
        If the document does not have the structure of the model.
    """
    try:
        return model.model_validate(root.plain(), strict=True)
    except ValidationError as error:
        fail(_structure_problems(error, root, model))
        raise


def _structure_problems(error: ValidationError, root: Node, model: type[BaseModel]) -> Iterator[Problem]:
    for path, details in by_place(error, root.plain()):
        kind = details[0]["type"]
        if kind == "extra_forbidden":
            yield _unknown_key(path, details[0], root, model)
        elif kind == "missing":
            yield _missing(path, root)
        elif kind == "union_tag_not_found":
            yield _missing((*path, details[0]["ctx"]["discriminator"].strip("'")), root)
        elif kind == "union_tag_invalid":
            yield _unknown_tag(path, details[0]["ctx"], root)
        else:
            yield value_problem(path, details, root)


def by_place(error: ValidationError, document: Any) -> Iterable[tuple[KeyPath, list[ErrorDetails]]]:
    """Group pydantic's errors by where they stand in a document; alternatives of a union come together."""
    places: dict[KeyPath, list[ErrorDetails]] = defaultdict(list)
    for details in error.errors(include_url=False):
        places[_place(details, document)].append(details)
    return places.items()


def _place(details: ErrorDetails, document: Any) -> KeyPath:
    """Return the path of an error in the document: its location without the tags of unions."""
    path: KeyPath = ()
    here, tag_is_next = document, False
    for part in details["loc"]:
        if tag_is_next:
            tag_is_next = False
        elif _holds(here, part):
            path, here = (*path, part), here[part]
            tag_is_next = is_gate(path)
    return (*path, details["loc"][-1]) if details["type"] == "missing" else path


def _holds(value: Any, part: str | int) -> bool:
    if isinstance(value, dict):
        return part in value
    return isinstance(value, list) and isinstance(part, int) and part < len(value)


def key_mark(root: Node, path: KeyPath) -> Mark | None:
    """Return where the key of the node at a path stands, or else the nearest node above it."""
    node = root.nearest(path)
    return node.key or node.mark


def _missing(path: KeyPath, root: Node) -> Problem:
    example = f"; write `{EXAMPLES[path]}`" if path in EXAMPLES else ""
    return Problem(f"{dotted(path)} is missing{example}", key_mark(root, path))


def _unknown_key(path: KeyPath, details: ErrorDetails, root: Node, model: type[BaseModel]) -> Problem:
    key, where = str(path[-1]), dotted(path[:-1]) or f"the {model.__name__.lower()}"
    hint = suggestion(key, _known_keys(details["loc"][:-1], model))
    owner = _section_with(key, model) if len(path) == 1 and "did you mean" not in hint else None
    if owner:
        hint = f"; it belongs under {owner}"
    return Problem(f"unknown key {key!r} in {where}{hint}", key_mark(root, path))


def _section_with(key: str, model: type[BaseModel]) -> str | None:
    for name, field in model.model_fields.items():
        models = _models(field.annotation)
        if len(models) == 1 and key in models[0].model_fields:
            return name
    return None


def _known_keys(location: tuple[int | str, ...], model: type[BaseModel]) -> list[str]:
    models: list[type[BaseModel]] = [model]
    for part in location:
        if len(models) > 1:
            models = _tagged(models, part) or models
        else:
            models = [m for f in _fields(models[0], part) for m in _models(f)] or models
    extends = ["extends"] if models == [model] else []
    return [field.alias or name for m in models for name, field in m.model_fields.items()] + extends


def _fields(model: type[BaseModel], key: str | int) -> list[Any]:
    return [f.annotation for name, f in model.model_fields.items() if key in (name, f.alias)]


def _tagged(models: list[type[BaseModel]], tag: str | int) -> list[type[BaseModel]]:
    """Return the members of a union that a tag stands for: by a literal, or else by the name of a field."""
    literals = {
        m: [a for f in m.model_fields.values() for a in typing.get_args(f.annotation)] for m in models
    }
    return [m for m in models if tag in literals[m]] or [m for m in models if _fields(m, tag)]


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in typing.get_args(annotation) for model in _models(part)]


def _unknown_tag(path: KeyPath, context: Mapping[str, Any], root: Node) -> Problem:
    path = (*path, context["discriminator"].strip("'"))
    hint = suggestion(context["tag"], _quoted(context["expected_tags"]))
    return Problem(f"{dotted(path)}: {context['tag']!r} is unknown{hint}", root.nearest(path).mark)


def value_problem(path: KeyPath, details: list[ErrorDetails], root: Node) -> Problem:
    """Word a value that does not fit: what it must be, what it is, how to mend it."""
    mark, where = root.nearest(path).mark, f"{dotted(path)}: " if path else ""
    first = details[0]
    if first["type"] in ("value_error", "assertion_error"):
        return Problem(f"{where}{first['ctx']['error']}", mark)
    if first["type"] == "string_pattern_mismatch" and path == ("name",):
        return Problem(f"{where}must not contain / or \\, since it names folders", mark)
    wants = list(dict.fromkeys(map(_wanted, details)))
    wanted = wants[0] if len(wants) == 1 else f"{', '.join(wants[:-1])} or {wants[-1]}"
    return Problem(f"{where}must be {wanted} (got {_shown(first['input'])}){_hint(details)}", mark)


def _wanted(details: ErrorDetails) -> str:
    kind, context = details["type"], details.get("ctx", {})
    if kind == "model_type":
        return MODELS.get(context["class_name"], "a mapping")
    if kind in ("too_short", "string_too_short") and context["min_length"] == 1:
        return "non-empty"
    if kind in KINDS:
        return KINDS[kind].format(
            **{k: f"{v:.15g}" if isinstance(v, float) else v for k, v in context.items()}
        )
    return details["msg"].partition("should be ")[2] or details["msg"]


def _hint(details: list[ErrorDetails]) -> str:
    value, kinds = details[0]["input"], {d["type"] for d in details}
    if kinds == {"string_type"} and isinstance(value, bool | int | float):
        return f'; quote it: "{_shown(value)}"'
    if "literal_error" in kinds and isinstance(value, str):
        expected = next(d["ctx"]["expected"] for d in details if d["type"] == "literal_error")
        hint = suggestion(value, _quoted(expected))
        return hint if "did you mean" in hint else ""
    return ""


def _quoted(text: str) -> list[str]:
    """Return the names in a list as pydantic writes it: ``'a', 'b' or 'c'``."""
    return re.findall(r"'([^']*)'", text)


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
