"""A recipe as SQL: one SELECT over the user's table."""

from __future__ import annotations

from collections.abc import Sequence

from scopefe.errors import RecipeError, RunError, UnknownNameError
from scopefe.recipe.recipe import Recipe

DIALECTS = ("duckdb", "postgres", "bigquery", "snowflake")


def to_sql(
    recipe: Recipe,
    *,
    dialect: str = "duckdb",
    table: str = "data",
    keep: Sequence[str] = (),
    create_tables: bool = False,
) -> str:
    """Return a SELECT that computes a recipe's features from a table, as `Recipe.transform` does.

    Parameters
    ----------
    dialect
        ``duckdb``, ``postgres``, ``bigquery`` or ``snowflake``.
    table
        The table, as that dialect writes its name.
    keep
        Columns of the table that stand before the features, such as the one that tells its rows apart.
    create_tables
        Put what was learned into tables, made by statements before the SELECT, instead of into it.

    Raises
    ------
    RunError
        If sqlglot is not installed.
    RecipeError
        If the recipe has no features, a column to keep has the name of one, an operator gives neither SQL
        nor a lookup, or the dialect cannot name a column, or not tell it from another.
    ComponentError
        If there is no such dialect, or an operator's SQL cannot be read.
    """
    if dialect not in DIALECTS:
        raise UnknownNameError("dialect", dialect, DIALECTS)
    if not recipe.features:
        raise RecipeError("the recipe has no features")
    try:
        from scopefe.export.query import statements
    except ModuleNotFoundError:
        raise RunError("an export to SQL needs sqlglot: pip install 'scopefe[sql]'") from None
    written = statements(recipe, dialect, table, keep, create_tables=create_tables)
    return "".join(f"{statement};\n" for statement in written)
