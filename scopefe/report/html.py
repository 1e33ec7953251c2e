"""The report as one HTML page that needs nothing but a browser."""

from __future__ import annotations

import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import networkx as nx
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from ruamel.yaml import YAML

from scopefe.report.figures import Bars, cards, heat_map
from scopefe.report.model import (
    EvaluationFacts,
    FailureFacts,
    ProbeFacts,
    Report,
    SelectedFacts,
    StepFacts,
)
from scopefe.report.numbers import NOTHING, aligned, fixed, metric_name, number, percent, seconds, thousands
from scopefe.report.verdicts import decimals, found, instead, spread_text, verdict

LINEAR_UP_TO = 200


def environment() -> Environment:
    """Return where the templates of pages are found, with what they write numbers by."""
    made = Environment(
        loader=PackageLoader("scopefe.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "thousands": thousands,
        "number": number,
        "fixed": fixed,
        "percent": percent,
        "seconds": seconds,
        "metric": metric_name,
        "compact": compact,
        "breakable": breakable,
    }
    made.globals |= {"aligned": aligned, "scale": Scale.of, "nothing": NOTHING}
    return made


def breakable(formula: str) -> Markup:
    """Return a formula, or a name, whose lines may end between its words."""
    return Markup(re.sub(r"([(,+*/_-])", r"\1<wbr>", str(escape(formula))))


LEARNERS = {
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "catboost": "CatBoost",
    "random-forest": "random forest",
    "linear": "linear model",
}
STOPPING = {
    "rmse": "RMSE",
    "auc": "ROC-AUC",
    "binary_logloss": "log-loss",
    "multi_logloss": "log-loss",
    "binary_error": "error rate",
    "multi_error": "error rate",
}
IMPORTANCE = {
    "gain": "total gain",
    "permutation": "effect under permutation",
    "held-out": "total gain on the selection rows",
}


def render(report: Report) -> str:
    """Return a report as a self-contained HTML page.

    Parameters
    ----------
    report
        The report.

    Returns
    -------
    str
        A page with its styles, figures and script inside; it loads nothing.
    """
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            verdict=verdict(report),
            found=found(report),
            instead=[*instead(report)],
            evaluation=evaluation_facts(report.evaluation),
            worths=worths(report.selection.selected),
            probe=probe(report.probe),
            strip=strip(report.evaluation),
            cards=cards(report.selection.selected, report.data.task, report.data.target, report.data.classes),
            heat=heat_map(report.associations),
            gains=gains(report),
            seeds=by_seed(report.evaluation),
            stages=stages(report),
            losses=losses(report),
            failure_groups=failure_groups(report.selection.failures),
            kinds=Counter(f.kind for f in report.data.features),
            picture=draw(report.graph),
            importance=IMPORTANCE,
            learners=LEARNERS,
            spec_text=as_yaml(report.spec),
        )
    )


def brief(report: Report) -> str:
    """Return what a notebook shows of a run: a piece of HTML without styles or scripts."""
    template = environment().get_template("brief.html.j2")
    chosen = report.selection.selected
    return template.render(
        report=report, chosen=chosen, verdict=verdict(report), found=found(report), instead=[*instead(report)]
    )


# --- texts


def compact(value: Any) -> str:
    """Return a value in one line."""
    return value if value and isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def as_yaml(content: dict[str, Any]) -> str:
    """Return a document as YAML, keys in their order."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.allow_unicode = True
    yaml.width = 100
    stream = io.StringIO()
    yaml.dump(content, stream)
    return stream.getvalue()


# --- what the run comes to


@dataclass(frozen=True)
class Stage:
    """What is left of the universe at some point."""

    name: str
    candidates: int


def stages(report: Report) -> list[Stage]:
    """Return how the universe was narrowed down to the selected features."""
    selection = report.selection
    rows = [
        Stage("Universe", report.space.universe.raw),
        Stage("Pool", report.space.pool.raw),
    ]
    rows += [Stage(f"Kept in round {i}", r.kept) for i, r in enumerate(selection.rounds[:-1], start=1)]
    return [
        *rows,
        Stage("Survivors of halving", selection.survivors),
        Stage("Selected features", len(selection.selected)),
    ]


@dataclass(frozen=True)
class Loss:
    """Candidates that were dropped at one point for one reason."""

    where: str
    candidates: int
    why: str


def losses(report: Report) -> list[Loss]:
    """Return where candidates were dropped, and why, in order."""
    space, selection = report.space, report.selection
    rows = [Loss("Gates", space.universe.raw - space.pool.raw, "outside the scope that the gates leave")]
    if selection.rounds:
        unscored = space.pool.raw - selection.rounds[0].candidates
        twins = unscored == space.pool.raw - space.pool.unique
        why = "the same as another candidate in canonical form" if twins else "not taken into the first round"
        rows.append(Loss("Before round 1", unscored, why))
    for i, r in enumerate(selection.rounds, start=1):
        cut = "no gain above 0" if i == len(selection.rounds) and r.positive else "ranked below those kept"
        rows += [
            Loss(f"Round {i}", r.failed, "could not be computed or scored"),
            Loss(f"Round {i}", r.same_gain, "the same gain as a better-placed candidate"),
            Loss(f"Round {i}", r.candidates - r.failed - r.same_gain - r.kept, cut),
        ]
    failed = sum(f.stage == "attribution" for f in selection.failures)
    unchosen = selection.survivors - failed - len(selection.selected)
    rows.append(Loss("Attribution", failed, "could not be computed or scored"))
    none = "no number of features helped surely enough" if selection.choice else "no feature is kept"
    why = "ranked below the features kept" if selection.selected else none
    rows.append(Loss("Selection", unchosen, why))
    return [r for r in rows if r.candidates > 0]


def evaluation_facts(facts: EvaluationFacts | None) -> list[tuple[str, str]]:
    """Return what is told of an evaluation beside its scores."""
    if facts is None:
        return []
    told = [("Models stop by", STOPPING.get(facts.stopping, facts.stopping))] if facts.stopping else []
    for name, score in (("original features", facts.base), ("new features too", facts.with_features)):
        if score is not None and score.trees:
            trees = " · ".join(map(thousands, score.trees))
            told.append((f"Trees by seed, {name}", trees))
    difference = facts.difference
    if difference is not None and difference.error is not None:
        digits = decimals(facts)
        low, high = (number(bound, 4) for bound in (difference.low, difference.high))
        told.append(("Difference", f"{number(difference.mean, 4)} ± {fixed(difference.error, digits)}"))
        told.append(
            ("95 % interval", f"{low} to {high}, over {thousands(difference.units)} {difference.unit}")
        )
        told.append(("Spread over seeds", fixed(difference.spread, digits)))
    return told


def worths(selected: Sequence[SelectedFacts]) -> list[tuple[list[str], float, float | None]]:
    """Return the worth of features, or of groups that stand for each other, the most first."""
    formulas = {s.name: s.formula for s in selected}
    found: dict[str, tuple[list[str], float, float | None]] = {}
    for feature in selected:
        if feature.worth is not None and not set(feature.worth.together) & found.keys():
            names = [feature.formula, *(formulas[name] for name in feature.worth.together)]
            found[feature.name] = names, feature.worth.mean, feature.worth.error
    return sorted(found.values(), key=lambda row: -row[1])


def failure_groups(failures: Sequence[FailureFacts]) -> list[tuple[str, str, int]]:
    """Return stage, error and number of failures, the most frequent first."""
    groups = Counter((f.stage, f.error) for f in failures)
    return [(stage, error, n) for (stage, error), n in groups.most_common()]


def probe(facts: list[ProbeFacts] | None) -> list[ProbeFacts]:
    """Return how the operators fared, the best first, those without a score last."""
    return sorted(facts or [], key=lambda p: -math.inf if p.score is None else p.score, reverse=True)


def gains(report: Report) -> list[tuple[int, Bars]]:
    """Return how gains lie in the first round, of the whole pool, and in the last."""
    rounds = report.selection.rounds
    return [
        (place, Bars.of(round.gains))
        for place, round in enumerate(rounds, 1)
        if round.gains and place in (1, len(rounds))
    ]


def by_seed(facts: EvaluationFacts | None) -> list[tuple[float, float | None, float | None]]:
    """Return the metric before and after of every seed, and the difference."""
    if facts is None:
        return []
    if facts.with_features is None:
        return [(b, None, None) for b in facts.base.values]
    return [(b, w, w - b) for b, w in zip(facts.base.values, facts.with_features.values, strict=False)]


# --- figures: geometry here, drawing in the templates


@dataclass(frozen=True)
class Scale:
    """Where values stand on a bar's axis, in percent of its length."""

    low: float
    high: float
    logarithmic: bool = False

    @classmethod
    def of(cls, values: Iterable[float | None], *, adaptive: bool = False) -> Self:
        """Return the scale that holds 0 and all values.

        Parameters
        ----------
        adaptive
            Make it logarithmic where the values, all positive, differ too much to be seen side by side.
        """
        seen = [v for v in values if v is not None and math.isfinite(v)]
        low, high = min([0.0, *seen]), max([0.0, *seen])
        positive = [v for v in seen if v > 0]
        wide = bool(positive) and low == 0 and high > LINEAR_UP_TO * min(positive)
        return cls(low, high, adaptive and wide)

    def place(self, value: float) -> float:
        """Return where a value stands."""
        if self.high == self.low:
            return 0.0
        if self.logarithmic:
            return 100 * math.log1p(value) / math.log1p(self.high)
        return 100 * (value - self.low) / (self.high - self.low)

    def span(self, value: float | None) -> tuple[float, float] | None:
        """Return start and length of a value's bar; None if it has none."""
        if not value or not math.isfinite(value):
            return None
        ends = sorted((self.place(0), self.place(value)))
        return round(ends[0], 2), round(max(ends[1] - ends[0], 0.5), 2)


@dataclass(frozen=True)
class Track:
    """One side of the before-and-after plot; places in percent."""

    name: str
    label: str
    mean: float
    band: tuple[float, float]
    dots: list[float]


@dataclass(frozen=True)
class Strip:
    """The metric of every seed, before and after, on one axis."""

    tracks: list[Track]
    ticks: list[tuple[float, str]]


def strip(facts: EvaluationFacts | None) -> Strip | None:
    """Lay out the before-and-after plot; None if there is nothing to compare."""
    if facts is None or facts.with_features is None:
        return None
    sides = [("Original features", facts.base), ("With the new features", facts.with_features)]
    values = [v for _, s in sides for v in (*s.values, s.mean - s.std, s.mean + s.std)]
    if not all(math.isfinite(v) for v in values):
        return None
    low, high = min(values), max(values)
    margin = (high - low) * 0.06 or abs(high) * 0.01 or 1.0
    low, high = low - margin, high + margin

    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    digits = decimals(facts)
    tracks = [
        Track(
            name,
            spread_text(s, digits, 1),
            place(s.mean),
            (place(s.mean - s.std), place(s.mean + s.std)),
            [place(v) for v in s.values],
        )
        for name, s in sides
    ]
    return Strip(tracks, [(place(t), text) for t, text in _ticks(low, high)])


def _ticks(low: float, high: float) -> list[tuple[float, str]]:
    """Return some three to five round numbers between two, and how they are written."""
    rough = (high - low) / 3
    power = math.floor(math.log10(rough))
    step = max(s for s in (1, 2, 5, 10) if s * 10.0**power <= rough) * 10.0**power
    places = [i * step for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
    return [(p, fixed(p, max(-power, 0)) if power > -6 else number(p, 8)) for p in places]


BOX, HEIGHT, GAP, ROW, LANE = 102, 54, 16, 70, 18


@dataclass(frozen=True)
class Box:
    """A step in the picture of the graph, with the place of its upper left corner."""

    step: StepFacts
    x: float
    y: float


@dataclass(frozen=True)
class Picture:
    """The graph of steps, laid out in layers from left to right; `lines` are SVG paths."""

    width: float
    height: float
    boxes: list[Box]
    lines: list[str]


Node = tuple[str, int]


def draw(steps: Sequence[StepFacts]) -> Picture:
    """Lay out the graph of steps.

    Lines that skip layers are led through them on lanes of their own, so that they cross no box.
    """
    names = {s.name for s in steps}
    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(s.name for s in steps)
    graph.add_edges_from((i, s.name) for s in steps for i in s.inputs if i in names)
    layer = {name: i for i, part in enumerate(nx.topological_generations(graph)) for name in part}
    routes = [_route(a, b, layer, lane) for lane, (a, b) in enumerate(graph.edges)]
    places = _places(_layers(steps, layer, routes), routes)
    height = max((y + HEIGHT / 2 for _, y in places.values()), default=0) + 2
    return Picture(
        max((x + BOX for x, _ in places.values()), default=0) + 2,
        height,
        [Box(s, places[s.name, -1][0], places[s.name, -1][1] - HEIGHT / 2) for s in steps],
        [_line([places[n] for n in route]) for route in routes],
    )


def _route(a: str, b: str, layer: dict[str, int], lane: int) -> list[Node]:
    """Return the nodes that a line passes: its ends, and a lane through every layer between them."""
    return [(a, -1), *((f"{lane}", i) for i in range(layer[a] + 1, layer[b])), (b, -1)]


def _layers(steps: Sequence[StepFacts], layer: dict[str, int], routes: list[list[Node]]) -> list[list[Node]]:
    layers: list[list[Node]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for step in steps:
        layers[layer[step.name]].append((step.name, -1))
    for route in routes:
        for node in route[1:-1]:
            layers[node[1]].append(node)
    return layers


def _places(layers: list[list[Node]], routes: list[list[Node]]) -> dict[Node, tuple[float, float]]:
    """Return left edge and middle height of every node, after a few sweeps that untangle the lines."""
    before: dict[Node, list[Node]] = {n: [] for part in layers for n in part}
    after: dict[Node, list[Node]] = {n: [] for part in layers for n in part}
    for route in routes:
        for a, b in pairwise(route):
            after[a].append(b)
            before[b].append(a)
    heights: dict[Node, float] = {}
    for part in layers:
        heights |= _stacked(part)
    for neighbours, order in ((before, layers), (after, layers[::-1])) * 2:
        for part in order:
            part.sort(key=_middle(neighbours, heights))
            heights |= _stacked(part)
    top = min((y - HEIGHT / 2 for y in heights.values()), default=0) - 2
    return {n: (2 + i * (BOX + GAP), heights[n] - top) for i, part in enumerate(layers) for n in part}


def _middle(neighbours: dict[Node, list[Node]], heights: dict[Node, float]) -> Callable[[Node], float]:
    def middle(node: Node) -> float:
        near = neighbours[node]
        return sum(heights[n] for n in near) / len(near) if near else heights[node]

    return middle


def _stacked(part: list[Node]) -> dict[Node, float]:
    """Stack the nodes of a layer around height 0."""
    sizes = [ROW if lane < 0 else LANE for _, lane in part]
    start = -sum(sizes) / 2
    return {n: start + sum(sizes[:i]) + sizes[i] / 2 for i, n in enumerate(part)}


def _line(points: list[tuple[float, float]]) -> str:
    """Return the path from the right of the first box to the left of the last, straight inside lanes."""
    x, y = points[0]
    path = f"M{x + BOX:g} {y:g}"
    for (x0, y0), (x1, y1) in pairwise(points):
        bend = x0 + BOX + GAP / 2
        path += f"C{bend:g} {y0:g} {bend:g} {y1:g} {x1:g} {y1:g}"
        path += "" if (x1, y1) == points[-1] else f"H{x1 + BOX:g}"
    return path
