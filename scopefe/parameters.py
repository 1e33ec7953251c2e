"""The parameters of components as pydantic models, made when values are checked."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model


class Parameters(BaseModel):
    """Base of every parameter model made from a component's signature."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def model_of(name: str, keywords: Iterable[inspect.Parameter]) -> type[Parameters]:
    """Make the parameter model of a component from its keyword-only arguments."""
    fields: dict[str, Any] = {
        p.name: (p.annotation, ... if p.default is inspect.Parameter.empty else p.default) for p in keywords
    }
    return create_model(f"{name} parameters", __base__=Parameters, **fields)
