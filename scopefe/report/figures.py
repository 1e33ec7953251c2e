"""Geometry of the page's figures of values, targets and associations; they are drawn in the templates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scopefe.report.model import AssociationFacts, GroupFacts, HistogramFacts, SelectedFacts, ShapeFacts

HEIGHT, MARGIN, LINES, LEVELS, CELL, LABEL = 72, 8, 4, 10, 12, 170


@dataclass(frozen=True)
class Bars:
    """A histogram: start and width of each bar in percent, top and height in pixels."""

    facts: HistogramFacts
    bars: list[tuple[float, float, float, float]]
    zero: float | None
    height: int = HEIGHT

    @classmethod
    def of(cls, facts: HistogramFacts) -> Bars:
        """Lay out a histogram; `zero` is where 0 stands, in percent, if it is inside."""
        width, most = 100 / len(facts.counts), max(1, *facts.counts)
        heights = [round(HEIGHT * n / most, 1) or float(n > 0) for n in facts.counts]
        bars = [(round(i * width, 2), round(width * 0.9, 2), HEIGHT - h, h) for i, h in enumerate(heights)]
        inside = facts.low < 0 < facts.high
        return cls(facts, bars, round(-100 * facts.low / (facts.high - facts.low), 2) if inside else None)


@dataclass(frozen=True)
class Line:
    """A target by groups of rows: places in percent from the left, and in pixels from the top."""

    name: str
    dots: list[tuple[float, float]]


@dataclass(frozen=True)
class Card:
    """A selected feature with its figures."""

    feature: SelectedFacts
    shape: ShapeFacts
    bars: Bars
    grouped: str
    measure: str
    lines: list[Line]
    low: float
    high: float
    overall: float | None


def cards(selected: Sequence[SelectedFacts], task: str, target: str, classes: Sequence[str]) -> list[Card]:
    """Lay out the selected features that have a shape."""
    return [_card(f, f.shape, task, target, classes) for f in selected if f.shape and f.shape.groups]


def _card(feature: SelectedFacts, shape: ShapeFacts, task: str, target: str, classes: Sequence[str]) -> Card:
    groups = shape.groups
    means = _overall(groups)
    shown = sorted(range(len(means)), key=lambda i: -means[i])[:LINES]
    values = [g.target[i] for g in groups for i in shown]
    low, high = min(values), max(values)
    names = [target] if task == "regression" else [classes[1]] if len(means) == 1 else list(classes)
    several = len(means) > 1

    def height(value: float) -> float:
        share = (value - low) / (high - low) if high > low else 0.5
        return round(HEIGHT - MARGIN - share * (HEIGHT - 2 * MARGIN), 1)

    step = 100 / len(groups)
    lines = [
        Line(names[i], [(round((k + 0.5) * step, 2), height(g.target[i])) for k, g in enumerate(groups)])
        for i in shown
    ]
    if shape.histogram is None:
        grouped = "category, the largest first"
    elif all(g.low == g.high for g in groups):
        grouped = "value"
    else:
        grouped = "tenth of the rows"
    counted = shape.histogram or HistogramFacts(low=0, high=len(groups), counts=[g.rows for g in groups])
    measure = (
        f"Mean of {target}" if task == "regression" else f"Share of {'classes' if several else names[0]}"
    )
    return Card(
        feature=feature,
        shape=shape,
        bars=Bars.of(counted),
        grouped=grouped,
        measure=measure,
        lines=lines,
        low=low,
        high=high,
        overall=None if several else height(means[0]),
    )


def _overall(groups: Sequence[GroupFacts]) -> list[float]:
    rows = sum(g.rows for g in groups)
    return [
        sum(g.rows * share for g, share in zip(groups, shares, strict=True)) / rows
        for shares in zip(*(g.target for g in groups), strict=True)
    ]


@dataclass(frozen=True)
class HeatMap:
    """Associations as squares: one path for each level of strength, strongest last."""

    names: list[str]
    size: int
    paths: list[tuple[float, str]]
    bounds: list[int]
    strongest: list[tuple[str, str, float]]
    cell: int = CELL
    label: int = LABEL


def heat_map(facts: AssociationFacts | None) -> HeatMap | None:
    """Lay out associations; None where there are none between two features or clusters."""
    if facts is None or len(facts.values) < 2:
        return None
    n = len(facts.values)
    names = facts.features or [f"cluster {i}" for i in range(n)]
    levels: dict[int, list[str]] = {}
    for row, values in enumerate(facts.values):
        for column, value in enumerate(values):
            level = min(LEVELS, round(value * LEVELS))
            if level > 0:
                place = f"M{LABEL + column * CELL} {row * CELL}h{CELL}v{CELL}h-{CELL}z"
                levels.setdefault(level, []).append(place)
    pairs = [(names[i], names[j], facts.values[i][j]) for i in range(n) for j in range(i)]
    return HeatMap(
        names=names,
        size=n * CELL,
        paths=[(level / LEVELS, "".join(levels[level])) for level in sorted(levels)],
        bounds=[bound * CELL for bound in facts.bounds],
        strongest=sorted(pairs, key=lambda pair: -pair[2])[:10],
    )
