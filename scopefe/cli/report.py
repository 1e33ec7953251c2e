"""``scopefe report``."""

from __future__ import annotations

import json
from pathlib import Path

import click
from pydantic import ValidationError

from scopefe.cli.options import OutputFile, verbosity
from scopefe.cli.output import Settings, pass_settings, whole_file
from scopefe.errors import DataError
from scopefe.report.html import render
from scopefe.report.model import REPORT_VERSION, Report


def load_report(path: Path) -> Report:
    """Read ``report.json``.

    Raises
    ------
    DataError
        If the file is absent, no report, of another version, or damaged.
    """
    try:
        text = path.read_text(encoding="utf-8")
        document = json.loads(text)
        version = document["report_version"]
    except FileNotFoundError:
        raise DataError(f"there is no report {str(path)!r}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{str(path)!r} is no report: {type(error).__name__}: {error}") from None
    if version != REPORT_VERSION:
        raise DataError(
            f"{str(path)!r} has report version {version}; this scopefe reads version {REPORT_VERSION}"
        )
    try:
        return Report.model_validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise DataError(f"{str(path)!r} is damaged: {place}: {first['msg']}") from None


def render_again(run: Path, output: Path | None = None) -> Path:
    """Render the HTML report of a run folder, or of a ``report.json``, and return the file.

    Parameters
    ----------
    run
        Run folder or report.
    output
        File to write; ``report.html`` beside the report if not given.

    Raises
    ------
    DataError
        If there is no sound report.
    """
    source = run / "report.json" if run.is_dir() else run
    text = render(load_report(source))
    target = output or source.with_suffix(".html")
    with whole_file(target) as path:
        path.write_text(text, encoding="utf-8")
    return target


@click.command("report")
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN_FOLDER|REPORT_JSON")
@click.option(
    "-o", "--output", type=OutputFile(), help="File to write; report.html beside the report if not given."
)
@verbosity
@pass_settings
def command(settings: Settings, run: Path, output: Path | None) -> None:
    """Render the HTML report of a run again, from its report.json."""
    settings.say(f"wrote {render_again(run, output)}")
