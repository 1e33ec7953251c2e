"""Carrying out gate expressions: gates, and the set algebra ``any``, ``all``, ``not`` over them."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_, or_
from typing import Any

from scopefe.components import Gate
from scopefe.errors import ComponentError, ScopefeError
from scopefe.registry import Registry
from scopefe.space.context import GateContext
from scopefe.space.pairs import PairSet
from scopefe.space.scope import Scope
from scopefe.spec.check import gate_parameters
from scopefe.spec.models import AllOf, AnyOf, GateUse, Not

Counted = Callable[[str, Scope, Scope], object]


def admit(
    expression: GateUse | AnyOf | AllOf | Not,
    registry: Registry[Gate],
    context: GateContext,
    scope: Scope,
    counted: Counted = lambda *_: None,
) -> Scope:
    """Return what a gate expression leaves of a scope.

    One-input candidates are never gated by pairs: a complement of pair gates keeps them.

    Parameters
    ----------
    counted
        Told of each gate: its name, what came in, what is left.

    Raises
    ------
    ComponentError
        If a gate cannot be carried out.
    """
    if isinstance(expression, AnyOf):
        return reduce(or_, (admit(e, registry, context, scope, counted) for e in expression.any))
    if isinstance(expression, AllOf):
        return reduce(and_, (admit(e, registry, context, scope, counted) for e in expression.all))
    if isinstance(expression, Not):
        left_out = admit(expression.not_, registry, context, scope, counted)
        if registry.sort == "pair gate":
            return (scope.of_arity(2) - left_out.of_arity(2)) | scope.of_arity(1)
        return scope - left_out
    left = _run(expression, registry, context, scope)
    counted(expression.gate, scope, left)
    return left


def _run(use: GateUse, registry: Registry[Gate], context: GateContext, scope: Scope) -> Scope:
    gate, parameters = gate_parameters(use, registry)
    try:
        result: Any = gate(context, scope, parameters)
        if isinstance(result, PairSet):
            return scope.restrict(result)
        if isinstance(result, Scope):
            return result & scope
        raise TypeError(f"it gave {type(result).__name__}, not a PairSet or a Scope")
    except ComponentError as error:
        raise ComponentError(f"{registry.sort} {use.gate!r}: {error}") from error
    except ScopefeError:
        raise
    except Exception as error:
        raise ComponentError(
            f"{registry.sort} {use.gate!r} ({gate.source}) failed: {type(error).__name__}: {error}"
        ) from error
