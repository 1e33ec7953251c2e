"""Writing tables and figures: Markdown, CSV, LaTeX, SVG, and one HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

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
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "study.json").write_text(study.model_dump_json(indent=1) + "\n", encoding="utf-8")
    made, figures = tables(study), plots(study)
    write_tables(made, folder / "tables")
    if figures:
        (folder / "plots").mkdir(exist_ok=True)
    for name, svg in figures.items():
        (folder / "plots" / f"{name}.svg").write_text(svg, encoding="utf-8")
    (folder / "study.md").write_text(markdown(study.name, study.description, made), encoding="utf-8")
    page = folder / "study.html"
    page.write_text(html(study, made, figures), encoding="utf-8")
    return page


def write_tables(tables: Sequence[Table], folder: Path) -> None:
    """Write each table as Markdown, CSV and LaTeX."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        for suffix, text in (("md", table.markdown()), ("csv", table.csv()), ("tex", table.latex())):
            (folder / f"{table.name}.{suffix}").write_text(text, encoding="utf-8")


def markdown(title: str, description: str, tables: Sequence[Table]) -> str:
    """Return all tables as one document."""
    head = f"# {title}\n\n" + (f"{description}\n\n" if description else "")
    return head + "\n".join(table.markdown() for table in tables)


def html(study: StudyFacts, tables: Sequence[Table], figures: Mapping[str, str]) -> str:
    """Return tables and figures as one page that loads nothing."""
    return environment().get_template("study.html.j2").render(study=study, tables=tables, figures=figures)
