"""What operators give of themselves to other languages."""

from __future__ import annotations

from typing import Literal

from scopefe.components import Lookup
from scopefe.errors import RecipeError
from scopefe.recipe.recipe import Recipe

Form = str | Lookup
"""How a feature is computed elsewhere: by an expression, or by a table that its values are found in."""


def forms(recipe: Recipe, language: Literal["sql", "python"]) -> list[Form]:
    """Return the form of each feature of a recipe.

    Raises
    ------
    RecipeError
        If an operator gives none; the message names all of them.
    """
    found: list[Form] = []
    without: dict[str, None] = {}
    for feature in recipe.features:
        form = getattr(feature.operator, language) or feature.lookup
        if form:
            found.append(form)
        else:
            without[feature.operator.name] = None
    if without:
        names, verb = ", ".join(map(repr, without)), "gives" if len(without) == 1 else "give"
        raise RecipeError(
            f"an export needs operators with {language} or a lookup, but {names} {verb} neither"
        )
    return found
