"""``scopefe export``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from scopefe.cli.options import OutputFile, modules, verbosity
from scopefe.cli.output import Settings, pass_settings, print_or_write
from scopefe.errors import UnknownNameError
from scopefe.export.python import to_python, write_python
from scopefe.export.sql import to_sql
from scopefe.recipe.recipe import Recipe

FORMATS = ("sql", "python", "json")


@click.command("export")
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option("--to", required=True, metavar="FORMAT", help="sql, python or json.")
@click.option("-o", "--output", type=OutputFile(), help="File to write instead of stdout.")
@click.option("--dialect", metavar="DIALECT", help="Of SQL: duckdb (default), postgres, bigquery, snowflake.")
@click.option("--table", metavar="NAME", help="Table that the SQL reads; data if not given.")
@click.option("--keep", multiple=True, metavar="COLUMN", help="Column of it to keep; may be repeated.")
@click.option("--create-tables", is_flag=True, help="Put what was learned into tables beside the SELECT.")
@click.option("--without", multiple=True, metavar="FEATURE", help="Feature to leave out, by name or formula.")
@modules
@verbosity
@pass_settings
def command(
    settings: Settings,
    recipe: Path,
    to: str,
    output: Path | None,
    dialect: str | None,
    table: str | None,
    keep: tuple[str, ...],
    create_tables: bool,
    without: tuple[str, ...],
    modules: tuple[str, ...],
) -> None:
    """Write RECIPE (or that of a run folder) as SQL, as a Python module, or as one JSON document."""
    if to not in FORMATS:
        raise UnknownNameError("format", to, FORMATS)
    options = {"dialect": dialect, "table": table, "keep": keep, "create_tables": create_tables}
    chosen = {name: value for name, value in options.items() if value}
    if chosen and to != "sql":
        raise click.UsageError(f"--{next(iter(chosen)).replace('_', '-')} is for --to sql")
    fitted = Recipe.load(recipe, modules).without(without)
    if to == "python" and output is not None:
        write_python(fitted, output)
        settings.say(f"wrote {output}")
    else:
        print_or_write(settings, _text(fitted, to, chosen), output)


def _text(recipe: Recipe, to: str, options: dict[str, Any]) -> str:
    if to == "python":
        return to_python(recipe)
    if to == "json":
        return recipe.to_json()
    return to_sql(recipe, **options)
