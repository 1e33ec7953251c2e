"""``scopefe components``."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from typing import Any

import click
from pydantic.fields import FieldInfo
from rich.table import Table

from scopefe import registry
from scopefe.cli.options import as_json, modules, verbosity
from scopefe.cli.output import Settings, pass_settings, print_json, print_table
from scopefe.components import Component, Operator, SpecPathMarker
from scopefe.errors import ComponentError, UnknownNameError
from scopefe.registry import Components, Registry

BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


def facts(sort: str, component: Component) -> dict[str, Any]:
    """Return everything there is to know of a component, as JSON values."""
    return {
        "name": component.name,
        "sort": sort,
        "signature": signature(component),
        "summary": component.summary,
        "doc": component.doc,
        "parameters": [parameter(n, field) for n, field in component.parameters.model_fields.items()],
        "source": str(component.source),
        "version": component.version,
    }


def signature(component: Component) -> str:
    """Return the kinds an operator takes and gives, or the parameters of a gate with their defaults."""
    if isinstance(component, Operator):
        return component.signature
    fields = component.parameters.model_fields
    return ", ".join(n if f.is_required() else f"{n}={f.default!r}" for n, f in fields.items())


def parameter(name: str, field: FieldInfo) -> dict[str, Any]:
    """Describe a parameter: type with bounds, default, description."""
    bounds = [f"{BOUNDS[k]} {getattr(m, k)}" for m in field.metadata for k in BOUNDS if hasattr(m, k)]
    result = {
        "name": name,
        "type": " ".join([type_text(field.annotation), *bounds]),
        "required": field.is_required(),
        "description": field.description or "",
    }
    return result if field.is_required() else {**result, "default": field.default}


def type_text(annotation: Any) -> str:
    """Return a type as people read it."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        spec = any(isinstance(a, SpecPathMarker) for a in arguments[1:])
        return "spec" if spec else type_text(arguments[0])
    if origin is typing.Literal:
        return " or ".join(repr(a) for a in arguments)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(type_text(a) for a in arguments)
    if origin is not None:
        return f"{type_text(origin)} of {', '.join(type_text(a) for a in arguments)}"
    if annotation in (None, types.NoneType):
        return "null"
    return {str: "text", float: "number"}.get(annotation, getattr(annotation, "__name__", str(annotation)))


def overview(components: Components) -> list[Table]:
    """Return a table per registry: name, signature, first line of the docstring."""
    return [_overview(r) for r in components]


def _overview(known: Registry[Component]) -> Table:
    second = "takes → gives" if known.sort == "operator" else "parameters"
    table = Table(box=None, pad_edge=False)
    table.add_column(f"{known.sort}s", no_wrap=True)
    table.add_column(second)
    table.add_column("")
    for component in known:
        table.add_row(component.name, signature(component), component.summary)
    return table


def described(component: dict[str, Any]) -> str:
    """Return all there is to know of a component, for people."""
    lines = [f"{component['name']} ({component['sort']})"]
    if component["sort"] == "operator":
        lines.append(f"  {component['signature']}")
    lines += ["", *(f"  {line}".rstrip() for line in component["doc"].splitlines()), ""]
    lines += ["Parameters", *_parameters(component["parameters"]), ""] if component["parameters"] else []
    return "\n".join([*lines, f"Declared at {component['source']}"])


def _parameters(parameters: Sequence[dict[str, Any]]) -> list[str]:
    lines = []
    for p in parameters:
        default = (
            "required" if p["required"] else f"default {'null' if p['default'] is None else p['default']}"
        )
        lines.append(f"  {p['name']}: {p['type']}, {default}")
        lines += [f"      {p['description']}"] if p["description"] else []
    return lines


@click.group("components", invoke_without_command=True)
@modules
@as_json
@verbosity
@click.pass_context
def command(context: click.Context, modules: tuple[str, ...], json: bool) -> None:
    """List operators and gates; `components show NAME` tells all of one."""
    context.meta["modules"], context.meta["json"] = modules, json
    if context.invoked_subcommand is not None:
        return
    known = registry.components(modules)
    if json:
        print_json({f"{r.sort.replace(' ', '_')}s": [facts(r.sort, c) for c in r] for r in known})
        return
    tables = overview(known)
    print_table(*(part for table in tables for part in (table, "")))


@command.command("check")
@click.argument("names", nargs=-1, metavar="[OPERATOR]...")
@modules
@as_json
@verbosity
@pass_settings
@click.pass_context
def check(
    context: click.Context, settings: Settings, names: tuple[str, ...], modules: tuple[str, ...], json: bool
) -> None:
    """Try operators of your own on awkward rows, saved, row by row, and in both exports.

    Exit code 1 if one has a problem.
    """
    from scopefe.export.checking import check_operators

    found = check_operators([*context.meta["modules"], *modules], names)
    for checked in found:
        lines = [f"  {line}" for line in (*checked.problems, *(f"({remark})" for remark in checked.remarks))]
        head = f"{checked.operator}: {'not as it should be' if checked.problems else 'ok'}"
        settings.say("\n".join([head, *lines]))
    if json or context.meta["json"]:
        print_json([vars(checked) for checked in found])
    if any(checked.problems for checked in found):
        context.exit(1)


@command.command("show")
@click.argument("name")
@modules
@as_json
@verbosity
@click.pass_context
def show(context: click.Context, name: str, modules: tuple[str, ...], json: bool) -> None:
    """Tell signature, parameters, documentation and source of a component."""
    own = [*context.meta["modules"], *modules]
    try:
        found = [facts(sort, component) for sort, component in registry.components(own).find(name)]
    except UnknownNameError as error:
        hint = "" if own or "did you mean" in str(error) else "; one of your own needs --module FILE"
        raise ComponentError(f"{error}{hint}") from None
    if json or context.meta["json"]:
        print_json(found)
    else:
        click.echo("\n\n".join(described(f) for f in found))
