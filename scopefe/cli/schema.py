"""``scopefe schema``."""

from __future__ import annotations

from pathlib import Path

import click

from scopefe import registry
from scopefe.cli.options import OutputFile, modules, verbosity
from scopefe.cli.output import Settings, pass_settings, print_or_write


@click.command("schema")
@click.option("-o", "--output", type=OutputFile(), help="File to write instead of stdout.")
@modules
@verbosity
@pass_settings
def command(settings: Settings, output: Path | None, modules: tuple[str, ...]) -> None:
    """Print the JSON Schema of specs, for completion and checks in an editor.

    With --module it knows components of your own. In a spec, name the file in a first line
    `# yaml-language-server: $schema=FILE`.
    """
    import json

    from scopefe.spec.schema import json_schema

    text = json.dumps(json_schema(registry.components(modules)), indent=2, ensure_ascii=False)
    print_or_write(settings, text + "\n", output)
