"""``scopefe schema``."""

from __future__ import annotations

from pathlib import Path

import click

from scopefe import registry
from scopefe.cli.options import OutputFile, modules, verbosity
from scopefe.cli.output import Settings, pass_settings, print_json, whole_file


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

    schema = json_schema(registry.components(modules))
    if output is None:
        print_json(schema)
        return
    with whole_file(output) as path:
        path.write_text(json.dumps(schema, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    settings.say(f"wrote {output}")
