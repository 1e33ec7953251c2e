"""What is wrong with the operators and gates that a spec names, and what they resolve to."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from scopefe.components import CAT, Component, Gate, Operator
from scopefe.errors import Mark, SpecError, UnknownNameError, suggestion
from scopefe.parameters import Parameters
from scopefe.registry import Components, Registry
from scopefe.spec.document import Node, from_python
from scopefe.spec.models import AllOf, AnyOf, GateUse, KeyPath, Not, Spec
from scopefe.spec.problems import Problem, by_place, fail, key_mark, value_problem

DEFAULT = "default"
PLACES = {"operator": "operators.use", "pair gate": "scope.pairs", "operator gate": "scope.operators"}


def operator_problems(spec: Spec, root: Node, components: Components) -> Iterator[Problem]:
    """Yield what is wrong with ``operators.use``: unknown names, parameters that do not fit."""
    for index, use in enumerate(spec.operators.use):
        path: KeyPath = ("operators", "use", index)
        if use.operator == DEFAULT:
            for name in use.parameters:
                yield Problem(
                    "`default` takes no parameters; list the operator itself", key_mark(root, (*path, name))
                )
        elif use.operator not in components.operators:
            yield _unknown(
                components.operators, use.operator, components, root.nearest((*path, "operator")).mark
            )
        else:
            yield from _parameter_problems(
                "operator", components.operators[use.operator], use.parameters, root, path
            )


def gate_uses(spec: Spec, components: Components) -> Iterator[tuple[KeyPath, GateUse, Registry[Gate]]]:
    """Yield every gate of the two expressions, with its path and the registry it belongs to."""
    yield from _gate_uses(("scope", "pairs"), spec.scope.pairs, components.pair_gates)
    yield from _gate_uses(("scope", "operators"), spec.scope.operators, components.operator_gates)


def gate_problems(spec: Spec, root: Node, components: Components) -> Iterator[Problem]:
    """Yield what is wrong with the gates of a spec: unknown names, parameters that do not fit."""
    for path, use, registry in gate_uses(spec, components):
        if use.gate not in registry:
            yield _unknown(registry, use.gate, components, root.nearest((*path, "gate")).mark)
        else:
            yield from _parameter_problems("gate", registry[use.gate], use.parameters, root, path)


def gate_parameters(use: GateUse, registry: Registry[Gate]) -> tuple[Gate, Parameters]:
    """Look a gate up and validate its parameters.

    Parameters
    ----------
    use
        A gate as a spec names it.
    registry
        ``components.pair_gates`` or ``components.operator_gates``.

    Raises
    ------
    UnknownNameError
        If there is no such gate.
    SpecError
        If the parameters do not fit.
    """
    gate = registry[use.gate]
    fail(_parameter_problems("gate", gate, use.parameters, from_python(use.parameters), ()))
    return gate, _parameters(gate, use.parameters)


def resolved_operators(spec: Spec) -> list[Operator]:
    """Return the operators of a spec, parameters bound: in the order listed, those that give categories last.

    Raises
    ------
    UnknownNameError
        If there is no such operator.
    SpecError
        If parameters do not fit, or an operator is listed twice.
    """
    chosen: dict[str, Operator] = {}
    listed: dict[str, str] = {}
    for index, use in enumerate(spec.operators.use):
        for operator in _operators(spec, index):
            if operator.name in chosen:
                once = ", once by `default`" if DEFAULT in (use.operator, listed[operator.name]) else ""
                mark = spec.origin.mark("operators", "use", index)
                raise SpecError(f"operator {operator.name!r} is listed twice{once}", mark)
            chosen[operator.name], listed[operator.name] = operator, use.operator
    return sorted(chosen.values(), key=lambda operator: operator.gives == CAT)


def _operators(spec: Spec, index: int) -> Iterator[Operator]:
    registry, use = spec.origin.components.operators, spec.operators.use[index]
    if use.operator == DEFAULT:
        for name in importlib.import_module("scopefe.operators").DEFAULT:
            yield registry[name]
        return
    operator = registry[use.operator]
    fail(_parameter_problems("operator", operator, use.parameters, from_python(use.parameters), ()))
    yield operator.bind(use.parameters)


def _gate_uses(
    path: KeyPath, expression: GateUse | AnyOf | AllOf | Not, registry: Registry[Gate]
) -> Iterator[tuple[KeyPath, GateUse, Registry[Gate]]]:
    if isinstance(expression, GateUse):
        yield path, expression, registry
    elif isinstance(expression, Not):
        yield from _gate_uses((*path, "not"), expression.not_, registry)
    else:
        word = "any" if isinstance(expression, AnyOf) else "all"
        for index, part in enumerate(getattr(expression, word)):
            yield from _gate_uses((*path, word, index), part, registry)


def _unknown(registry: Registry[Any], name: str, components: Components, mark: Mark | None) -> Problem:
    for other in components:
        if name in other:
            article = "an" if other.sort[0] in "aeiou" else "a"
            return Problem(f"{name!r} is {article} {other.sort}; it belongs under {PLACES[other.sort]}", mark)
    return Problem(str(UnknownNameError(registry.sort, name, registry.names())), mark)


def _parameters(component: Component, values: Mapping[str, Any]) -> Parameters:
    return component.parameters.model_validate_json(json.dumps(dict(values), default=str), strict=True)


def _parameter_problems(
    sort: str, component: Component, values: Mapping[str, Any], root: Node, path: KeyPath
) -> Iterator[Problem]:
    try:
        _parameters(component, values)
    except ValidationError as error:
        owner, known = f"{sort} {component.name!r}", list(component.parameters.model_fields)
        for place, details in by_place(error, values):
            kind, name = details[0]["type"], place[-1] if place else ""
            if kind == "extra_forbidden":
                closest = suggestion(str(name), known) or "; it takes none"
                yield Problem(
                    f"unknown parameter {name!r} of {owner}{closest}", key_mark(root, (*path, *place))
                )
            elif kind == "missing":
                yield Problem(f"{owner} needs the parameter {name!r}", root.nearest((*path, *place)).mark)
            else:
                yield value_problem((*path, *place), details, root)
