"""``scopefe transform``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click
import pandas as pd
import pyarrow as pa
import pyarrow.feather

from scopefe.cli.options import OutputFile, modules, verbosity
from scopefe.cli.output import Settings, pass_settings, whole_file
from scopefe.data.source import read
from scopefe.errors import DataError
from scopefe.recipe.recipe import Recipe
from scopefe.spec.models import SUFFIXES, FileSource, file_type


def transform(
    recipe: Path, data: Path, modules: Sequence[str] = (), *, only_new: bool = False
) -> pd.DataFrame:
    """Apply a recipe to a table in a file.

    Parameters
    ----------
    recipe
        Recipe, or the run folder that has it.
    data
        Table with the columns that the recipe reads.
    modules
        Modules with the operators of one's own that it uses.
    only_new
        Leave the columns of the table out.

    Raises
    ------
    ScopefeError
        If the recipe or the table cannot be read, or they do not fit.
    """
    fitted = load_recipe(recipe, modules)
    table = read_table(data)
    new = fitted.transform(table)
    if only_new:
        return new
    for name in new.columns:
        if name in table.columns:
            raise DataError(f"the table already has a column {name!r}; write the new ones alone: --only-new")
    return pd.concat([table, new], axis="columns")


def load_recipe(path: Path, modules: Sequence[str] = ()) -> Recipe:
    """Read a recipe, or that of a run folder.

    Raises
    ------
    RecipeError
        If it cannot be read.
    """
    return Recipe.load(path / "recipe.json" if path.is_dir() else path, modules)


def read_table(path: Path) -> pd.DataFrame:
    """Read a table whose name tells its format.

    Raises
    ------
    DataError
        If it does not, or the file cannot be read.
    """
    kind = file_type(path.name)
    if kind is None:
        raise DataError(
            f"cannot tell the format of {str(path)!r}: its name must end in {', '.join(SUFFIXES)}"
        )
    return read(FileSource(type=kind, path=str(path)))


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table in the format that its name tells; the file appears when it is whole."""
    kind = file_type(path.name)
    with whole_file(path) as work:
        if kind == "csv":
            separator = "\t" if ".tsv" in path.name else ","
            frame.to_csv(work, sep=separator, index=frame.index.name is not None)
        elif kind == "parquet":
            frame.to_parquet(work)
        else:
            pyarrow.feather.write_feather(pa.Table.from_pandas(frame), work)


@click.command("transform")
@click.argument("recipe", type=click.Path(path_type=Path))
@click.argument("data", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    required=True,
    type=OutputFile(*SUFFIXES),
    help="File to write; its name tells the format.",
)
@click.option("--only-new", is_flag=True, help="Write the new features without the table's own columns.")
@modules
@verbosity
@pass_settings
def command(
    settings: Settings, recipe: Path, data: Path, output: Path, only_new: bool, modules: tuple[str, ...]
) -> None:
    """Add the features of RECIPE (or of the run folder that has it) to the table DATA."""
    frame = transform(recipe, data, modules, only_new=only_new)
    write_table(frame, output)
    settings.say(f"wrote {output}: {len(frame):,} rows, {len(frame.columns):,} columns")
