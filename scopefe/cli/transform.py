"""``scopefe transform``."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click

from scopefe.cli.options import OutputFile, modules, verbosity
from scopefe.cli.output import Settings, pass_settings, whole_file
from scopefe.recipe.files import transform_file
from scopefe.recipe.recipe import Recipe
from scopefe.spec.models import SUFFIXES


@click.command("transform")
@click.argument("recipe", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=OutputFile(*SUFFIXES),
    help="File to write, whose name tells the format; CSV to stdout if not given.",
)
@click.option("--only-new", is_flag=True, help="Write the new features without the table's own columns.")
@modules
@verbosity
@pass_settings
def command(
    settings: Settings,
    recipe: Path,
    data: Path,
    output: Path | None,
    only_new: bool,
    modules: tuple[str, ...],
) -> None:
    """Add the features of RECIPE (or of the run folder that has it) to the table DATA."""
    fitted = Recipe.load(recipe, modules)
    if output is None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "new.csv"
            transform_file(fitted, data, path, only_new=only_new)
            with path.open("rb") as written:
                shutil.copyfileobj(written, sys.stdout.buffer)
        return
    with whole_file(output) as path:
        rows, columns = transform_file(fitted, data, path, only_new=only_new)
    settings.say(f"wrote {output}: {rows:,} rows, {columns:,} columns")
