"""``scopefe study``."""

from __future__ import annotations

from pathlib import Path

import click

from scopefe.cli.options import as_json, cache_override, no_cache, verbosity
from scopefe.cli.output import Settings, pass_settings, print_json
from scopefe.cli.progress import showing_progress
from scopefe.report.publish import publish
from scopefe.run.studying import run_study
from scopefe.spec.study import load_study


@click.command("study")
@click.argument("study", metavar="STUDY")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Where runs, tables and figures go; studies/NAME if not given.",
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Override a value of the study; may be repeated.",
)
@click.option(
    "--dataset",
    "datasets",
    multiple=True,
    metavar="NAME",
    help="Run on this dataset of the study only; may be repeated.",
)
@no_cache
@as_json
@verbosity
@pass_settings
def command(
    settings: Settings,
    study: str,
    output: Path | None,
    overrides: tuple[str, ...],
    datasets: tuple[str, ...],
    no_cache: bool,
    json: bool,
) -> None:
    """Run variants on datasets, audit them, and write tables, figures and one page.

    STUDY is a YAML file, or the name of a shipped one: `scopefe study smoke`. What was run before is not run
    again; an interrupted study goes on where it ended.
    """
    loaded = load_study(study, overrides=overrides)
    if datasets:
        loaded = loaded.part(datasets)
    if no_cache:
        loaded = loaded.model_copy(update={"overrides": [*loaded.overrides, *cache_override(no_cache)]})
    folder = output or Path("studies") / loaded.name
    with showing_progress(settings) as listener:
        facts = run_study(loaded, folder, reuse=not no_cache, listener=listener)
    page = publish(facts, folder)
    audits = len(facts.audits) + sum(map(len, facts.variant_audits.values()))
    settings.say(
        f"{loaded.name}: {len(facts.legs)} runs and {audits} audits on {len(facts.datasets)} datasets"
    )
    for name, file in facts.absent.items():
        settings.say(f"  {name}: left out, there is no {file}")
    settings.say(f"  {page}")
    if json:
        print_json(facts.model_dump(mode="json"))
