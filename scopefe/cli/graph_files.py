"""The graph of steps as a file: SVG, Graphviz DOT, Mermaid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from scopefe.space.graph import Graph, Step

LONGEST = 30
WIDTH, GAP_X, GAP_Y, MARGIN = 210, 60, 30, 20
LINE, PADDING = 17, 12


@dataclass(frozen=True)
class Box:
    """A step as it is drawn.

    Parameters
    ----------
    lines
        Its text; the first line is the name of the step.
    inputs
        Positions of the boxes that it reads.
    """

    lines: tuple[str, ...]
    inputs: tuple[int, ...]

    @property
    def height(self) -> int:
        """Height in pixels."""
        return LINE * len(self.lines) + 2 * PADDING - 4


def write_graph(graph: Graph, path: Path, facts: Mapping[str, Sequence[str]], suffix: str) -> None:
    """Write the graph in the format that a suffix stands for; see `WRITERS`.

    Parameters
    ----------
    facts
        Further lines of a step's box, by name of the step.
    """
    path.write_text(WRITERS[suffix](boxes(graph, facts)), encoding="utf-8")


def boxes(graph: Graph, facts: Mapping[str, Sequence[str]]) -> list[Box]:
    """Return a box per step, inputs before the steps that read them."""
    steps = list(graph)
    position = {step.name: i for i, step in enumerate(steps)}
    return [
        Box(
            tuple(_shortened(line) for line in [step.name, *_details(step), *facts.get(step.name, ())]),
            tuple(sorted(position[name] for name in graph.inputs(step.name))),
        )
        for step in steps
    ]


def _details(step: Step) -> list[str]:
    if step.name in ("pairs", "operators"):
        return [gate_text(step.parameters)]
    return [] if step.component == step.name else [step.component]


def gate_text(expression: Mapping[str, Any]) -> str:
    """Return a gate expression in a few words, such as ``any(hard-intra, not(all))``."""
    if "gate" in expression:
        return str(expression["gate"])
    word, inner = next(iter(expression.items()))
    parts = inner if isinstance(inner, list) else [inner]
    return f"{word}({', '.join(gate_text(part) for part in parts)})"


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def dot(items: Sequence[Box]) -> str:
    """Return Graphviz DOT text."""
    lines = [
        "digraph scopefe {",
        "  rankdir=LR;",
        '  node [shape=box, style=rounded, fontname="sans-serif"];',
    ]
    for number, box in enumerate(items):
        label = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in box.lines)
        lines.append(f'  n{number} [label="{label}"];')
    lines += [f"  n{i} -> n{number};" for number, box in enumerate(items) for i in box.inputs]
    return "\n".join([*lines, "}", ""])


def mermaid(items: Sequence[Box]) -> str:
    """Return Mermaid flowchart text."""
    codes = str.maketrans({c: f"#{ord(c)};" for c in '#"<>&;`\\'})
    lines = ["flowchart LR"]
    for number, box in enumerate(items):
        lines.append(f'  n{number}["{"<br/>".join(line.translate(codes) for line in box.lines)}"]')
    lines += [f"  n{i} --> n{number}" for number, box in enumerate(items) for i in box.inputs]
    return "\n".join([*lines, ""])


def svg(items: Sequence[Box]) -> str:
    """Return a drawing from left to right: a step stands right of everything it reads."""
    places = _places(items)
    width = max(x for x, _ in places.values()) + WIDTH + MARGIN
    height = max(y + _height(items, slot) for slot, (_, y) in places.items()) + MARGIN
    parts = [_edge(items, places, i, number) for number, box in enumerate(items) for i in box.inputs]
    parts += [_drawn(box, *places[(number,)]) for number, box in enumerate(items)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
            'orient="auto"><path d="M0 0 8 4 0 8z" fill="#5b6770"/></marker></defs>',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


Slot = tuple[int, ...]
"""What stands in a column: a box ``(i,)``, or an edge ``(from, to, column)`` that passes through."""


def _columns(items: Sequence[Box]) -> list[list[Slot]]:
    """Put every box right of what it reads, and edges over several columns into those between."""
    depth: list[int] = []
    for box in items:
        depth.append(1 + max((depth[i] for i in box.inputs), default=-1))
    columns: list[list[Slot]] = [[] for _ in range(max(depth) + 1)]
    for number, box in enumerate(items):
        columns[depth[number]].append((number,))
        for i in box.inputs:
            for level in range(depth[i] + 1, depth[number]):
                columns[level].append((i, number, level))
    return columns


def _places(items: Sequence[Box]) -> dict[Slot, tuple[int, int]]:
    """Return the upper left corner of every slot; columns are centred, slots near what they come from."""
    columns = _columns(items)
    heights = [sum(_height(items, slot) + GAP_Y for slot in column) - GAP_Y for column in columns]
    places: dict[Slot, tuple[int, int]] = {}

    def above(slot: Slot) -> float:
        before = [_before(slot, places)] if len(slot) > 1 else [(i,) for i in items[slot[0]].inputs]
        return sum(places[s][1] + _height(items, s) / 2 for s in before) / max(len(before), 1)

    for level, column in enumerate(columns):
        y = MARGIN + (max(heights) - heights[level]) // 2
        for slot in sorted(column, key=above):
            places[slot] = (MARGIN + level * (WIDTH + GAP_X), y)
            y += _height(items, slot) + GAP_Y
    return places


def _before(slot: Slot, places: Mapping[Slot, tuple[int, int]]) -> Slot:
    start, end, level = slot
    return (start, end, level - 1) if (start, end, level - 1) in places else (start,)


def _height(items: Sequence[Box], slot: Slot) -> int:
    return items[slot[0]].height if len(slot) == 1 else 0


def _edge(items: Sequence[Box], places: Mapping[Slot, tuple[int, int]], start: int, end: int) -> str:
    """Draw an edge as curves between columns and straight lines through them."""
    x, y = places[(start,)][0] + WIDTH, places[(start,)][1] + items[start].height // 2
    path = f"M{x} {y}"
    for slot in [*sorted(s for s in places if s[:2] == (start, end) and len(s) == 3), (end,)]:
        to_x, to_y = places[slot][0], places[slot][1] + _height(items, slot) // 2
        path += f"C{x + GAP_X // 2} {y} {to_x - GAP_X // 2} {to_y} {to_x} {to_y}"
        x, y = to_x + WIDTH, to_y
        path += f"H{x}" if slot != (end,) else ""
    return f'<path d="{path}" fill="none" stroke="#5b6770" marker-end="url(#tip)"/>'


def _drawn(box: Box, x: int, y: int) -> str:
    frame = f'x="{x}" y="{y}" width="{WIDTH}" height="{box.height}" rx="6"'
    rows = [f'<rect {frame} fill="#f3f6f8" stroke="#5b6770"/>']
    for number, line in enumerate(box.lines, start=1):
        place = f'x="{x + WIDTH // 2}" y="{y + PADDING + LINE * number - 6}" text-anchor="middle"'
        style = 'font-weight="bold"' if number == 1 else 'fill="#3d464d"'
        rows.append(f"<text {place} {style}>{escape(line)}</text>")
    return "\n".join(rows)


WRITERS: dict[str, Callable[[Sequence[Box]], str]] = {
    ".svg": svg,
    ".dot": dot,
    ".gv": dot,
    ".mmd": mermaid,
    ".mermaid": mermaid,
}
