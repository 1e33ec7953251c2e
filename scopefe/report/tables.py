"""Tables of results: named columns, and their text in Markdown, CSV, LaTeX and HTML."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from scopefe.report.numbers import NOTHING

Format = Callable[[Any], str]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Parameters
    ----------
    name
        Its heading.
    text
        How a value is written; None is a dash in every column.
    """

    name: str
    text: Format = str

    def of(self, value: Any) -> str:
        """Return the text of a value."""
        if value is None or (isinstance(value, float) and math.isnan(value)):
            return NOTHING
        return self.text(value)


@dataclass(frozen=True)
class Table:
    """A table.

    Parameters
    ----------
    name
        What its files are called.
    title
        What it shows, in a few words.
    columns
        From left to right.
    rows
        Values, one per column; None where there is none.
    note
        How to read it.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    note: str = ""

    @property
    def headings(self) -> list[str]:
        """The names of the columns."""
        return [column.name for column in self.columns]

    @property
    def texts(self) -> list[list[str]]:
        """The cells as text."""
        return [
            [column.of(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows
        ]

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold no text of their own, and stand to the right."""
        return [column.text is not str for column in self.columns]

    def markdown(self) -> str:
        """Return the table in Markdown, with its title and note."""

        def line(cells: Sequence[str]) -> str:
            return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"

        rules = ["--:" if right else "---" for right in self.numeric]
        lines = [line(self.headings), f"|{'|'.join(rules)}|", *map(line, self.texts)]
        note = f"\n{self.note}\n" if self.note else ""
        return f"### {self.title}\n\n" + "\n".join(lines) + f"\n{note}"

    def csv(self) -> str:
        """Return the values as CSV, as exact as they are."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.headings)
        writer.writerows(self.rows)
        return out.getvalue()

    def latex(self) -> str:
        """Return the table in LaTeX, for the package booktabs."""
        frame = pd.DataFrame(self.texts, columns=pd.Index(self.headings, dtype=object))
        alignment = "".join("r" if right else "l" for right in self.numeric)
        styler = frame.style.format(escape="latex").format_index(escape="latex", axis="columns")
        text: str = styler.hide(axis="index").to_latex(
            hrules=True, column_format=alignment, caption=_latex(self.title), label=f"tab:{self.name}"
        )
        return text.replace("±", r"$\pm$").replace("×", r"$\times$").replace("Δ", r"$\Delta$")


def _latex(text: str) -> str:
    return re.sub(r"([&%$#_{}])", r"\\\1", text)


def decimals(count: int, *, sign: bool = False) -> Format:
    """Return a format with so many decimals."""
    return lambda value: f"{value:{'+' if sign else ''},.{count}f}"


def whole(value: int) -> str:
    """Write a whole number with separators."""
    return f"{value:,}"


def share(value: float) -> str:
    """Write a share in per cent."""
    return f"{100 * value:.1f} %"


def times(value: float) -> str:
    """Write a factor."""
    return f"{value:.2f}×"


def p_value(value: float) -> str:
    """Write a p-value: three decimals, or a power of ten; one too small to be computed as such."""
    if value >= 0.001:
        return f"{value:.3f}"
    if value == 0:
        return "<10^-300"
    mantissa, exponent = f"{value:.1e}".split("e")
    return f"{mantissa}×10^{int(exponent)}"


def metric(value: float) -> str:
    """Write a metric: four decimals, or fewer where it is large."""
    return f"{value:,.{_places(value)}f}"


def _places(value: float) -> int:
    """Return how many decimals a metric has."""
    digits = len(f"{abs(value):.0f}") if math.isfinite(value) else 1
    return max(1, 5 - digits)


@dataclass(frozen=True)
class Spread:
    """A mean with its standard deviation."""

    mean: float
    std: float

    def __str__(self) -> str:
        return f"{metric(self.mean)} ± {self.std:,.{_places(self.mean)}f}"


def spread(value: Spread) -> str:
    """Write a mean with its standard deviation."""
    return str(value)
