"""What the features of a recipe are, in words, notation and numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scopefe.components import Operator
from scopefe.recipe.distribution import Distribution
from scopefe.recipe.inputs import Input
from scopefe.recipe.recipe import FittedFeature, Recipe

LATEX_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{c: f"\\{c}" for c in "{}$&#_%"},
}


@dataclass(frozen=True)
class Explanation:
    """A feature as people read it.

    Parameters
    ----------
    rank
        Its place by importance, from 1.
    name
        Name of the new column.
    formula
        The feature as OpenFE writes it.
    words
        What it is, in a sentence.
    latex
        The same for LaTeX's math mode.
    operator
        Name of its operator, with parameters that are not the default.
    inputs
        The columns it reads.
    gain, importance
        What the search found it worth.
    distribution
        Its values on the rows of the fit, if that was recorded.
    categories
        For each of the most frequent categories, the labels that it stands for, if it stands for some.
    """

    rank: int
    name: str
    formula: str
    words: str
    latex: str
    operator: str
    inputs: tuple[Input, ...]
    gain: float
    importance: float
    distribution: Distribution | None
    categories: tuple[tuple[str | float, ...], ...]


def explain(recipe: Recipe) -> list[Explanation]:
    """Explain the features of a recipe, the most important one first."""
    inputs = {i.name: i for i in recipe.inputs}
    return [
        Explanation(
            rank,
            f.name,
            f.formula,
            _words(f),
            latex(f.operator, f.inputs),
            f.operator.name,
            tuple(inputs[name] for name in f.inputs),
            f.gain,
            f.importance,
            f.distribution,
            _categories(f),
        )
        for rank, f in enumerate(recipe.features, 1)
    ]


def _words(feature: FittedFeature) -> str:
    told = words(feature.operator, feature.inputs)
    if feature.categories is None or not feature.categories.as_number:
        return told
    return f"How often its category occurs among the fitted rows: {told[0].lower()}{told[1:]}"


def words(operator: Operator, inputs: list[str]) -> str:
    """Return a sentence: the operator's own phrase, or else its name and the first line of its docstring."""
    named = [name if re.fullmatch(r"\S+", name) and name.isprintable() else repr(name) for name in inputs]
    if operator.words:
        return operator.words.format(*named, **operator.values) + "."
    told = f"{operator.name} of {' and '.join(named)}"
    return f"{told}: {operator.summary}" if operator.summary else f"{told}."


def latex(operator: Operator, inputs: list[str]) -> str:
    """Return notation: the operator's own, or else its name with the inputs in parentheses."""
    named = [rf"\text{{{latex_text(name)}}}" for name in inputs]
    if operator.latex:
        return operator.latex.format(*named, **operator.values)
    return rf"\operatorname{{{latex_text(operator.name)}}}({', '.join(named)})"


def latex_text(text: str) -> str:
    """Escape what LaTeX would not take as text."""
    return "".join(LATEX_SPECIAL.get(c, c if c.isprintable() else " ") for c in text)


def _categories(feature: FittedFeature) -> tuple[tuple[str | float, ...], ...]:
    frequent = feature.distribution.most_frequent if feature.distribution else ()
    lookup = feature.lookup if frequent else None
    known: dict[float, tuple[str | float, ...]] = {}
    if lookup is not None and lookup.lower is None:
        labels = zip(*(keys.tolist() for keys in lookup.keys.values()), strict=True)
        known = dict(zip(lookup.values.tolist(), labels, strict=True))
    return tuple(known.get(category, ()) for category, _ in frequent)
