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
from typing import Any, Literal, Self

import networkx as nx
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from ruamel.yaml import YAML

from scopefe.report.figures import Bars, cards, heat_map
from scopefe.report.model import EvaluationFacts, FailureFacts, ProbeFacts, Report, Score, StepFacts

METRICS = {
    "rmse": "RMSE",
    "auc": "ROC-AUC",
    "accuracy": "Accuracy",
    "binary_logloss": "Log loss",
    "multi_logloss": "Log loss",
}
NOTHING = "–"
GLUE = "\N{NO-BREAK SPACE}"
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
    """Return a formula whose lines may end between its names."""
    return Markup(re.sub(r"([(,+*/-])", r"\1<wbr>", str(escape(formula))))


LEARNERS = {
    "lightgbm": "LightGBM",
    "xgboost": "XGBoost",
    "catboost": "CatBoost",
    "random-forest": "random forest",
    "linear": "linear model",
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
    return template.render(report=report, chosen=chosen, verdict=verdict(report), found=found(report))


# --- numbers and texts


def thousands(value: int) -> str:
    """Return a whole number with thousands separators."""
    return f"{value:,}".replace("-", "−")


def number(value: float | None, digits: int = 4) -> str:
    """Return a number with so many significant digits, without trailing zeros."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if -5 < exponent < 15:
        return _plain(fixed(value, max(digits - 1 - exponent, 0)))
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{_plain(mantissa).replace('-', '−')}{GLUE}×{GLUE}10{raised}"


def _plain(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def fixed(value: float, decimals: int) -> str:
    """Return a number with so many decimals."""
    return f"{value:,.{decimals}f}".replace("-", "−") if math.isfinite(value) else number(value)


def aligned(values: Iterable[float | None], digits: int = 4) -> list[str]:
    """Return the numbers of a column with the same decimals, as many as its largest needs.

    Those that would be left with less than two significant digits get their own.
    """
    column = list(values)
    sizes = [abs(v) for v in column if v and math.isfinite(v)]
    decimals = min(max(digits - 1 - math.floor(math.log10(max(sizes))), 0), 8) if sizes else 0

    def one(value: float | None) -> str:
        if not value or not math.isfinite(value) or abs(value) < 10.0 ** (1 - decimals):
            return number(value, 2)
        return fixed(value, decimals)

    return [one(v) for v in column]


def percent(share: float) -> str:
    """Return a share as a percentage; only nothing is 0%, and only the whole 100%."""
    if not math.isfinite(share):
        return NOTHING
    if 0 < share < 0.001:
        return f"<{GLUE}0.1%"
    if 0.999 < share < 1:
        return f">{GLUE}99.9%"
    decimals = 1 if 0 < share < 0.0995 or 0.9 < share < 1 else 0
    return f"{share:,.{decimals}%}"


def seconds(value: float) -> str:
    """Return a duration as people say it."""
    if value < 0.001:
        return f"<{GLUE}1{GLUE}ms" if value > 0 else f"0{GLUE}s"
    if value < 1:
        return f"{number(value, 2)}{GLUE}s"
    if value < 99.95:
        return f"{value:.1f}{GLUE}s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes}{GLUE}min {rest:02d}{GLUE}s"
    return f"{minutes // 60:,}{GLUE}h {minutes % 60:02d}{GLUE}min"


def metric_name(metric: str) -> str:
    """Return a metric's name as people write it."""
    return METRICS.get(metric, metric)


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
class Verdict:
    """What the features brought.

    Parameters
    ----------
    tone
        How the comparison ended; none if there was none.
    figure
        The metric before and after.
    spread
        The same, with standard deviations.
    sentence
        What to make of it.
    """

    tone: Literal["better", "worse", "level", "none"]
    figure: str
    spread: str
    sentence: str


def verdict(report: Report) -> Verdict:
    """Say what the features brought, and say so where they brought nothing."""
    facts = report.evaluation
    if facts is None:
        tested = report.data.rows.get("test")
        reason = "The evaluation was left out." if tested else "The data has no test rows."
        return Verdict("none", "Not evaluated", "", reason)
    name, digits = metric_name(facts.metric), decimals(facts)
    before = fixed(facts.base.mean, digits)
    if facts.with_features is None:
        spread = _spread(facts.base, digits, facts.seeds)
        sentence = "No feature was selected: there is nothing to compare."
        return Verdict("none", f"{name} {before}", spread, sentence)
    after = fixed(facts.with_features.mean, digits)
    spread = f"{_spread(facts.base, digits, 1)} → {_spread(facts.with_features, digits, facts.seeds)}"
    tone, sentence = _compared(facts, facts.with_features, digits)
    return Verdict(tone, f"{name} {before} → {after}", spread, sentence)


def _spread(score: Score, digits: int, seeds: int) -> str:
    over = f" over {seeds} seeds" if seeds > 1 else ""
    return f"{fixed(score.mean, digits)} ± {fixed(score.std, digits)}{over}"


def _compared(
    facts: EvaluationFacts, after: Score, digits: int
) -> tuple[Literal["better", "worse", "level"], str]:
    sign = 1 if facts.larger_is_better else -1
    change = sign * (after.mean - facts.base.mean)
    if not math.isfinite(change):
        return "level", "The metric could not be computed."
    wins = sum(sign * (w - b) > 0 for b, w in zip(facts.base.values, after.values, strict=False))
    seeds = f"better on {wins} of {facts.seeds} seeds" if facts.seeds > 1 else "one seed only"
    amount = _amount(abs(change), facts, digits)
    if change == 0:
        return "level", "No difference."
    if abs(change) <= max(facts.base.std, after.std):
        word = "better" if change > 0 else "worse"
        return "level", f"No clear difference: {word} by {amount}, within the spread over seeds; {seeds}."
    if change > 0:
        return "better", f"Better by {amount}; {seeds}."
    return "worse", f"Worse by {amount}; {seeds}. The new features do not help this model."


def _amount(change: float, facts: EvaluationFacts, digits: int) -> str:
    text = fixed(change, digits) if change >= 10.0**-digits else number(change, 2)
    relative = not facts.larger_is_better and facts.base.mean
    return f"{text} ({percent(change / abs(facts.base.mean))})" if relative else text


def decimals(facts: EvaluationFacts) -> int:
    """Return the decimals that show the finer of the two spreads with two digits."""
    scores = [s for s in (facts.base, facts.with_features) if s is not None]
    sizes = [s.std for s in scores if math.isfinite(s.std) and s.std > 1e-9] or [
        abs(s.mean) / 100 for s in scores if abs(s.mean) > 1e-300 and math.isfinite(s.mean)
    ]
    return min(max(1 - math.floor(math.log10(min(sizes))), 0), 6) if sizes else 4


def found(report: Report) -> str:
    """Say what stands behind the number of selected features."""
    selection, space = report.selection, report.space
    last = selection.rounds[-1] if selection.rounds else None
    if not space.universe.raw:
        return "The universe is empty: no operator takes these features."
    if not space.pool.raw:
        return "The pool is empty: the gates admit no candidate, so there was nothing to score."
    if not selection.selected:
        if report.spec.get("selection", {}).get("keep") == 0:
            return "The spec keeps no feature (selection.keep is 0)."
        if not selection.survivors:
            return "No candidate of the pool could be scored."
        if selection.choice:
            return "No number of features helps surely enough on rows that the search had not seen."
        return f"None of the {thousands(selection.survivors)} survivors was kept."
    if last and not last.positive:
        return "No candidate had a gain above 0 in the last round; the best of them were ranked all the same."
    without = sum(f.gain <= 0 for f in selection.selected)
    text = f"The first by rank of {thousands(selection.survivors)} survivors"
    return f"{text}; {thousands(without)} without a gain above 0." if without else f"{text}."


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
            _spread(s, digits, 1),
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
