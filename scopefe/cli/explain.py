"""``scopefe explain``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from scopefe.cli.options import as_json, modules, verbosity
from scopefe.cli.output import Settings, one_line, pass_settings, print_json
from scopefe.recipe.distribution import Distribution
from scopefe.recipe.explaining import Explanation, explain
from scopefe.recipe.recipe import Recipe


def facts(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as JSON values."""
    result = dict(vars(explanation))
    result["inputs"] = [{"name": i.name, "kind": i.kind} for i in explanation.inputs]
    categories, found = result.pop("categories"), explanation.distribution
    if found is not None:
        result["distribution"] = found.to_json()
        if found.most_frequent:
            result["distribution"]["most_frequent"] = [
                {"category": category, "rows": rows, "labels": [str(label) for label in labels]}
                for (category, rows), labels in zip(found.most_frequent, categories, strict=True)
            ]
    return result


def told(explanation: Explanation) -> Iterator[str]:
    """Yield the lines that tell people of a feature."""
    yield f"{explanation.rank}. {explanation.name}"
    yield f"   {explanation.words}"
    rows = {
        "inputs": [", ".join(f"{i.name} ({i.kind})" for i in explanation.inputs)],
        "formula": [explanation.formula],
        "LaTeX": [explanation.latex],
        "gain": [f"{explanation.gain:.6g}"],
        "importance": [f"{explanation.importance:.6g}"],
        "values": _values(explanation.distribution, explanation.categories),
    }
    for label, texts in rows.items():
        for text in texts:
            yield f"   {label:<12}{text}"
            label = ""


def _values(found: Distribution | None, categories: Sequence[tuple[str | float, ...]]) -> Iterator[str]:
    if found is None:
        yield "not recorded"
        return
    sort = "categories" if found.most_frequent else "distinct"
    yield f"{found.count:,} rows, {100 * found.missing:.1f} % missing, {found.distinct:,} {sort}"
    if found.quartiles:
        low, *middle, high = (f"{q:.6g}" for q in found.quartiles)
        yield f"min {low}, quartiles {', '.join(middle)}, max {high}"
    for (category, rows), labels in zip(found.most_frequent, categories, strict=True):
        stands_for = f" ({', '.join(map(str, labels))})" if labels else ""
        yield f"{category}{stands_for}: {rows:,} rows"


@click.command("explain")
@click.argument("recipe", type=click.Path(path_type=Path))
@modules
@as_json
@verbosity
@pass_settings
def command(settings: Settings, recipe: Path, modules: tuple[str, ...], json: bool) -> None:
    """Say what the features of RECIPE (or of the run folder that has it) are, in words and numbers."""
    fitted = Recipe.load(recipe, modules)
    explanations = explain(fitted)
    if json:
        features = [facts(e) for e in explanations]
        print_json({"name": fitted.name, "key": fitted.key, "features": features})
    elif explanations:
        click.echo("\n\n".join("\n".join(map(one_line, told(e))) for e in explanations))
    else:
        settings.say("the recipe has no features")
