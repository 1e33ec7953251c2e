"""``scopefe freeze``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from scopefe.cli.options import OutputFile, modules, verbosity
from scopefe.cli.output import Settings, pass_settings, print_or_write
from scopefe.export.freezing import freeze, to_yaml
from scopefe.recipe.recipe import Recipe
from scopefe.spec.loader import find_spec_file, shipped_specs

HEAD = """\
# What is searched are the features of a recipe alone, and all of them are kept.
"""
DATA = """\
# Table and target come from a fragment: scopefe execute THIS --with DATA.yaml
"""


def frozen_spec(recipe: Path, spec: str | None, folder: Path, modules: Sequence[str] = ()) -> str:
    """Return the text of a spec of exactly a recipe's features.

    Parameters
    ----------
    recipe
        Recipe, or the run folder that has it.
    spec
        What the spec extends, if anything.
    folder
        Where it will be: the files it names are relative to that.
    modules
        Modules with the operators of one's own that it uses.

    Raises
    ------
    ScopefeError
        If the recipe cannot be read, or there is no such spec.
    """
    fitted = Recipe.load(recipe, modules)
    extends = None
    if spec is not None:
        shipped = find_spec_file(spec).resolve().is_relative_to(shipped_specs().resolve())
        extends = spec if shipped else os.path.relpath(find_spec_file(spec), folder)
    own = [os.path.relpath(m, folder) if m.endswith(".py") else m for m in modules]
    return HEAD + (DATA if spec is None else "") + to_yaml(freeze(fitted, extends=extends, modules=own))


@click.command("freeze")
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option("--spec", metavar="SPEC", help="Spec with the table and target, which the new one extends.")
@click.option("-o", "--output", type=OutputFile(".yaml", ".yml"), help="File to write instead of stdout.")
@modules
@verbosity
@pass_settings
def command(
    settings: Settings, recipe: Path, spec: str | None, output: Path | None, modules: tuple[str, ...]
) -> None:
    """Write a spec that enumerates exactly the features of RECIPE (or of the run folder that has it)."""
    text = frozen_spec(recipe, spec, output.parent if output else Path(), modules)
    print_or_write(settings, text, output)
