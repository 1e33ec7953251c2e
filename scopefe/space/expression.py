"""Typed expression trees with one canonical key and one formula."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from scopefe.errors import RecipeError

INFIX = ("+", "-", "*", "/")


@dataclass(frozen=True)
class Leaf:
    """A feature of the table, by name."""

    name: str

    @property
    def formula(self) -> str:
        """The name itself."""
        return self.name

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {"feature": self.name}


@dataclass(frozen=True)
class Apply:
    """An operator applied to expressions."""

    operator: str
    arguments: tuple[Expression, ...]
    symmetric: bool = False

    @property
    def formula(self) -> str:
        """The expression as OpenFE writes it; for people, never parsed."""
        parts = [a.formula for a in self.arguments]
        if self.operator in INFIX:
            return f"({self.operator.join(parts)})"
        return f"{self.operator}({','.join(parts)})"

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {"operator": self.operator, "arguments": [a.to_json() for a in self.arguments]}


Expression = Leaf | Apply


def key_of(expression: Expression) -> str:
    """Return the canonical key: it does not depend on the order of symmetric inputs."""
    return json.dumps(_canonical(expression), ensure_ascii=False, separators=(",", ":"))


def _canonical(expression: Expression) -> Any:
    if isinstance(expression, Leaf):
        return expression.name
    parts = [_canonical(a) for a in expression.arguments]
    if expression.symmetric:
        parts.sort(key=lambda p: json.dumps(p, ensure_ascii=False))
    return [expression.operator, *parts]


def expression_from_json(value: Mapping[str, Any]) -> Expression:
    """Read what `to_json` wrote.

    Raises
    ------
    RecipeError
        If it is something else.
    """
    match value:
        case {"feature": str(name)}:
            return Leaf(name)
        case {"operator": str(operator), "arguments": list(arguments)}:
            return Apply(operator, tuple(expression_from_json(a) for a in arguments))
    raise RecipeError(f"not an expression: {json.dumps(value)[:80]}")
