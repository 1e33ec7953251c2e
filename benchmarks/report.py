"""The page and the figure that are made from kept results."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.harness import Entry, Results

START, END = "<!-- figures: made by python -m benchmarks --report -->", "<!-- end of figures -->"
FIGURE = "performance.svg"
HEADER = ("", "against", "theirs", "scopefe", "median (min to max)")


def write(entries: Mapping[str, Entry], folder: Path, page: Path) -> None:
    """Make the figure beside the results, and replace the part of a page that is between the markers."""
    results = [Results.read(path) for name in entries if (path := folder / f"{name}.json").is_file()]
    draw(results, folder / FIGURE)
    text = page.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    picture = Path(os.path.relpath(folder / FIGURE, page.parent)).as_posix()
    made = f"![How many times faster, by entry]({picture})\n\n" + "\n".join(
        line for result in results for line in section(entries[result.entry], result)
    )
    page.write_text(f"{before}{START}\n\n{made}\n{END}{after}", encoding="utf-8")


def section(entry: Entry, results: Results) -> Iterator[str]:
    """Yield the lines on an entry: what it is, where it was measured, a table."""
    about = inspect.cleandoc(sys.modules[entry.__module__].__doc__ or "")
    machine = results.machine
    yield from [f"## {results.entry.capitalize()}", "", about, ""]
    packages = ", ".join(f"{name} {results.versions[name]}" for name in ("python", "lightgbm", "openfe"))
    yield (
        f"Measured on {machine.cores} cores of {machine.processor or machine.system}, {packages}, "
        f"{results.date:%d %B %Y}; repeats: {len(results.comparisons[0].peer)}."
    )
    differences = [c.difference for c in results.comparisons if c.difference is not None]
    if differences:
        yield f"The results of both sides differ by {max(differences):.0e} at most."
    if results.failure:
        yield f"It ended early: {results.failure}"
    yield from ["", row(HEADER), "|---|---|--:|--:|--:|"]
    for group, members in groupby(results.comparisons, lambda c: c.group):
        yield row([f"**{group}**", "", "", "", ""])
        yield from (row(c.cells()) for c in members)
    yield ""


def row(cells: Sequence[str]) -> str:
    """Return a line of a table."""
    return f"| {' | '.join(cells)} |"


def draw(results: Sequence[Results], path: Path) -> None:
    """Draw how many times faster: a line per group, a dot per comparison, a colour per entry."""
    lines = {
        (result.entry, group): chosen
        for result in results
        for group, members in groupby(result.comparisons, lambda c: c.group)
        if (chosen := [c.ratio for c in members if c.reading == "faster"])
    }
    colours = {result.entry: f"C{i}" for i, result in enumerate(results)}
    with mpl.rc_context({"svg.hashsalt": "scopefe", "svg.fonttype": "none"}):
        figure = Figure(figsize=(9, 1 + 0.3 * len(lines)), layout="constrained")
        axes = figure.subplots()
        for place, ((entry, _), ratios) in enumerate(lines.items()):
            medians = [r.median for r in ratios]
            spread = [[r.median - r.min for r in ratios], [r.max - r.median for r in ratios]]
            axes.errorbar(
                medians, [place] * len(ratios), xerr=spread, fmt="o", alpha=0.6, color=colours[entry]
            )
        axes.axvline(1, color="grey", linewidth=0.8)
        axes.set_xscale("log")
        axes.set_yticks(range(len(lines)), [": ".join(line) for line in lines])
        axes.invert_yaxis()
        axes.set_xlabel("times faster: median, and range over the repeats")
        figure.savefig(path, metadata={"Date": None})
