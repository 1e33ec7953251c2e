"""``scopefe compare``."""

from __future__ import annotations

from pathlib import Path

import click
from rich.table import Table as Rich

from scopefe.cli.options import OutputFile, as_json, verbosity
from scopefe.cli.output import Settings, pass_settings, print_json, print_table, whole_file
from scopefe.cli.report import load_report
from scopefe.report.comparing import comparison
from scopefe.report.tables import Table


def shown(table: Table) -> Rich:
    """Return a table as people see it."""
    rich = Rich(title=table.title, title_justify="left", caption=table.note, caption_justify="left")
    for heading, right in zip(table.headings, table.numeric, strict=True):
        rich.add_column(heading, justify="right" if right else "left")
    for row in table.texts:
        rich.add_row(*row)
    return rich


@click.command("compare")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="RUN...")
@click.option("-o", "--output", type=OutputFile(".md", ".csv", ".tex"), help="File to write the table to.")
@as_json
@verbosity
@pass_settings
def command(settings: Settings, runs: tuple[Path, ...], output: Path | None, json: bool) -> None:
    """Compare runs with the first of them.

    RUN is a run folder or a report.json.
    """
    reports = [load_report(run / "report.json" if run.is_dir() else run) for run in runs]
    table = comparison(reports)
    if output is not None:
        text = {".md": table.markdown, ".csv": table.csv, ".tex": table.latex}[output.suffix.lower()]()
        with whole_file(output) as path:
            path.write_text(text, encoding="utf-8")
        settings.say(f"wrote {output}")
    if json:
        print_json([dict(zip(table.headings, row, strict=True)) for row in table.texts])
    elif output is None:
        print_table(shown(table))
