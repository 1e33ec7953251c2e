"""Writing tables and figures: Markdown, CSV, LaTeX, SVG, and one HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from scopefe.recipe.arrays import atomically
from scopefe.report.evidence import tables
from scopefe.report.html import environment
from scopefe.report.plots import plots
from scopefe.report.study import StudyFacts
from scopefe.report.tables import Table


def publish(study: StudyFacts, folder: Path) -> Path:
    """Write a study: ``study.json``, ``tables/``, ``plots/``, ``study.md`` and ``study.html``.

    Returns
    -------
    Path
        The HTML page.
    """
    made, figures = tables(study), plots(study)
    _write(folder / "study.json", study.model_dump_json(indent=1) + "\n")
    for table in made:
        for suffix, text in (("md", table.markdown()), ("csv", table.csv()), ("tex", table.latex())):
            _write(folder / "tables" / f"{table.name}.{suffix}", text)
    for name, svg in figures.items():
        _write(folder / "plots" / f"{name}.svg", svg)
    _write(folder / "study.md", markdown(study.name, study.description, made))
    page = folder / "study.html"
    _write(page, html(study, made, figures))
    return page


def _write(path: Path, text: str) -> None:
    atomically(path, lambda work: work.write_text(text, encoding="utf-8"))


def markdown(title: str, description: str, tables: Sequence[Table]) -> str:
    """Return all tables as one document."""
    head = f"# {title}\n\n" + (f"{description}\n\n" if description else "")
    return head + "\n".join(table.markdown() for table in tables)


def html(study: StudyFacts, tables: Sequence[Table], figures: Mapping[str, str]) -> str:
    """Return tables and figures as one page that loads nothing."""
    return environment().get_template("study.html.j2").render(study=study, tables=tables, figures=figures)
