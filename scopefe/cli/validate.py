"""``scopefe validate``."""

from __future__ import annotations

from typing import Any

import click

from scopefe.cli.options import Given, as_json, given_specs, verbosity
from scopefe.cli.output import Settings, error_lines, pass_settings, print_json
from scopefe.errors import ScopefeError


def validate(given: Given) -> list[dict[str, Any]]:
    """Load every spec and return what is wrong with each.

    Returns
    -------
    list of dict
        ``spec`` as it was given, ``name``, ``ok``, ``errors`` (lines) and ``exit_code``.
    """
    return [_validated(given, spec) for spec in given.specs]


def _validated(given: Given, spec: str) -> dict[str, Any]:
    try:
        name = given.load_one(spec).name
    except ScopefeError as error:
        lines = str(error).splitlines()
        return {"spec": spec, "name": None, "ok": False, "errors": lines, "exit_code": error.exit_code}
    return {"spec": spec, "name": name, "ok": True, "errors": [], "exit_code": 0}


@click.command("validate")
@given_specs
@as_json
@verbosity
@pass_settings
@click.pass_context
def command(context: click.Context, settings: Settings, given: Given, json: bool) -> None:
    """Check specs without reading any data.

    Every error is told with its place and, where there is one, the name that was probably meant.
    """
    results = validate(given)
    for result in results:
        if result["ok"]:
            settings.say(f"{result['spec']}: ok")
        else:
            click.echo(error_lines(ScopefeError("\n".join(result["errors"]))), err=True)
    if json:
        print_json([{k: v for k, v in result.items() if k != "exit_code"} for result in results])
    context.exit(max(result["exit_code"] for result in results))
