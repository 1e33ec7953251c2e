"""``scopefe compile``."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from scopefe.cli.graph_files import WRITERS, gate_text, write_graph
from scopefe.cli.options import (
    Given,
    OutputFile,
    as_json,
    cache_override,
    given_specs,
    no_cache,
    verbosity,
)
from scopefe.cli.output import Settings, pass_settings, print_json, print_table, whole_file
from scopefe.cli.progress import showing_progress
from scopefe.report.model import Count, GateCount, SpaceFacts
from scopefe.run.compiling import Compiled, compile
from scopefe.run.estimating import Estimate, estimate
from scopefe.run.progress import Listener, silent
from scopefe.run.store import Store
from scopefe.sizes import size_text, time_text

INPUTS = {1: "one input", 2: "two inputs"}


@dataclass(frozen=True, eq=False)
class Counted:
    """A compiled spec with its counts, and what it will cost if that is asked for and can be told."""

    compiled: Compiled
    space: SpaceFacts
    estimate: Estimate | None = None

    @property
    def bounds(self) -> bool:
        """Whether the pool's counts are upper bounds, as a gate needs data."""
        return bool(self.compiled.bounded)


def compile_all(
    given: Given,
    *overrides: str,
    static: bool = False,
    estimates: bool = False,
    listener: Listener = silent,
) -> list[Counted]:
    """Compile specs, sharing what they have in common.

    Parameters
    ----------
    overrides
        Laid over every spec last.
    estimates
        Whether to estimate what they will cost.

    Raises
    ------
    ScopefeError
        If one of them, its data or a component is at fault.
    """
    store = Store()
    compiled = [
        compile(spec, static=static, store=store, listener=listener) for spec in given.load(*overrides)
    ]
    return [Counted(one, one.space, estimate(one) if estimates else None) for one in compiled]


def facts(counted: Counted, *, static: bool) -> dict[str, Any]:
    """Return what ``scopefe compile --json`` prints of a spec."""
    space = counted.space
    result: dict[str, Any] = {
        "name": counted.compiled.name,
        "universe": space.universe.model_dump(),
        "pool": space.pool.model_dump(),
        "reduction": space.reduction,
        "operators": [o.model_dump() for o in space.operators],
    }
    if space.clusters is not None:
        result["clusters"] = [len(c.features) for c in space.clusters]
    if not counted.compiled.bounded:
        result["gates"] = [g.model_dump() for g in space.gates]
    if static:
        result["bounded"] = counted.compiled.bounded
    cost = counted.estimate
    if cost is not None:
        steps = {name: asdict(step) for name, step in cost.steps.items()}
        result["estimate"] = {"seconds": cost.seconds, "peak_bytes": cost.peak_bytes, "steps": steps}
    return result


def comparison(counted: Sequence[Counted]) -> list[tuple[str, list[str]]]:
    """Return the rows of the comparison: a label, and a cell per spec; a row without cells is a heading."""
    spaces = [c.space for c in counted]
    rows: list[tuple[str, list[str]]] = [
        ("universe, raw", [f"{s.universe.raw:,}" for s in spaces]),
        ("universe, unique", [f"{s.universe.unique:,}" for s in spaces]),
        ("pool, raw", [_pool(c, c.space.pool.raw) for c in counted]),
        ("pool, unique", [_pool(c, c.space.pool.unique) for c in counted]),
        ("reduction", [_reduction(c) for c in counted]),
    ]
    if any(s.clusters for s in spaces):
        rows.append(("clusters", ["–" if s.clusters is None else str(len(s.clusters)) for s in spaces]))
    rows += gate_rows([() if c.bounds else c.space.gates for c in counted])
    by_arity = [_grouped(s, "arity") for s in spaces]
    rows.append(("pool by number of inputs, raw", []))
    arities = sorted({a for counts in by_arity for a in counts})
    rows += [(f"  {INPUTS[a]}", _cells(counted, by_arity, a)) for a in arities]
    by_signature = [_grouped(s, "signature") for s in spaces]
    rows.append(("pool by signature, raw", []))
    signatures = list(dict.fromkeys(s for counts in by_signature for s in counts))
    rows += [(f"  {s}", _cells(counted, by_signature, s)) for s in signatures]
    return rows + costs([c.estimate for c in counted])


def gate_rows(gates: Sequence[Sequence[GateCount]]) -> list[tuple[str, list[str]]]:
    """Return the rows that say what each gate was given and what it left, but for those that admit all."""
    rows: dict[tuple[str, str, int, str], list[str]] = {}
    for column, those in enumerate(gates):
        seen: Counter[tuple[str, str]] = Counter()
        for gate in those:
            if gate.gate == "all":
                continue
            name = gate.place, gate.gate
            seen[name] += 1
            numbers = {f"gate {gate.gate}: came in, raw": gate.came_in, "  removed": gate.removed}
            numbers |= {f"  added {why}": count for why, count in gate.added.items()}
            for label, number in numbers.items():
                cells = rows.setdefault((*name, seen[name], label), ["–"] * len(gates))
                cells[column] = f"{number:,}"
    return [(label, cells) for (*_, label), cells in rows.items()]


def costs(estimates: Sequence[Estimate | None]) -> list[tuple[str, list[str]]]:
    """Return the rows of the comparison that say what executing will cost, if any spec has an estimate."""
    steps = list(dict.fromkeys(step for e in estimates if e is not None for step in e.steps))
    if not steps:
        return []

    def told(text: Callable[[Estimate], str], *steps: str) -> list[str]:
        there = (e is not None and bool(e.steps) and {*steps} <= {*e.steps} for e in estimates)
        return [f"≈ {text(e)}" if known and e else "–" for e, known in zip(estimates, there, strict=True)]

    def seconds(step: str) -> list[str]:
        return told(lambda e: time_text(e.steps[step].seconds), step)

    return [
        ("estimate for this machine", []),
        *((f"  {step}", seconds(step)) for step in steps),
        ("  together", told(lambda e: time_text(e.seconds))),
        ("  peak memory", told(lambda e: size_text(e.peak_bytes))),
    ]


def _grouped(space: SpaceFacts, by: str) -> dict[Any, int]:
    counts: dict[Any, int] = {}
    for operator in sorted(space.operators, key=lambda o: o.arity):
        group = getattr(operator, by)
        counts[group] = counts.get(group, 0) + operator.pool.raw
    return counts


def _cells(counted: Sequence[Counted], groups: Sequence[dict[Any, int]], group: Any) -> list[str]:
    return [_pool(c, counts.get(group, 0)) for c, counts in zip(counted, groups, strict=True)]


def _pool(counted: Counted, count: int) -> str:
    return f"≤ {count:,}" if counted.bounds else f"{count:,}"


def _reduction(counted: Counted) -> str:
    return f"{'≥ ' if counted.bounds else ''}{100 * counted.space.reduction:.2f} %"


def tables(counted: Sequence[Counted]) -> list[Table]:
    """Return the comparison as a table, or as several if it is too wide for the terminal."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    rows = comparison(counted)
    names = [c.compiled.name for c in counted]
    cells = [list(column) for column in zip(*(row for _, row in rows if row), strict=True)]
    widths = [max(map(len, [name, *column])) + 2 for name, column in zip(names, cells, strict=True)]
    left = max(len(label) for label, _ in rows) + 1
    groups: list[list[int]] = [[]]
    for i, needed in enumerate(widths):
        if groups[-1] and left + sum(widths[j] for j in groups[-1]) + needed > width:
            groups.append([])
        groups[-1].append(i)
    return [_table([names[i] for i in group], [(n, [r[i] for i in group] if r else []) for n, r in rows])
            for group in groups]  # fmt: skip


def _table(names: Sequence[str], rows: Sequence[tuple[str, list[str]]]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("candidates", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True, overflow="fold")
    for label, row in rows:
        table.add_row(label, *row, style=None if row else "bold")
    return table


def open_gates(counted: Counted) -> list[str]:
    """Say which gates of a spec need data, as ``scope.pairs (hard-intra)``."""
    scope = counted.compiled.spec.scope.model_dump(mode="json", by_alias=True)
    return [f"{place} ({gate_text(scope[place.rpartition('.')[2]])})" for place in counted.compiled.bounded]


def write_step_graph(counted: Counted, path: Path) -> None:
    """Write the steps up to the pool, with counts, in the format that the file's name tells."""
    space, bounds = counted.space, counted.bounds

    def told(count: Count, bound: bool = False) -> str:
        return f"{'≤ ' if bound else ''}{count.raw:,} candidates"

    lines = {"universe": [told(space.universe)], "pool": [told(space.pool, bounds)]}
    if space.clusters is not None:
        lines["pairs"] = [f"{len(space.clusters)} clusters"]
    with whole_file(path) as work:
        write_graph(counted.compiled.graph, work, lines, path.suffix.lower())


def _check(given: Given, static: bool, graph: Path | None, pool: Path | None) -> None:
    for option, value in (("--graph", graph), ("--pool", pool)):
        if value is not None and len(given.specs) > 1:
            raise click.UsageError(f"{option} takes one spec")
    if static and pool is not None:
        raise click.UsageError("--pool needs data: leave --static out")


@click.command("compile")
@given_specs
@click.option(
    "--static", is_flag=True, help="Read no data: kinds are those in the spec, counts may be bounds."
)
@click.option("--no-estimate", is_flag=True, help="Leave out what executing will cost.")
@no_cache
@as_json
@click.option("--graph", type=OutputFile(*WRITERS), help="Draw the steps: .svg, .dot or .mmd.")
@click.option("--pool", type=OutputFile(".parquet"), help="Write every candidate of the pool.")
@verbosity
@pass_settings
def command(
    settings: Settings,
    given: Given,
    static: bool,
    no_estimate: bool,
    no_cache: bool,
    json: bool,
    graph: Path | None,
    pool: Path | None,
) -> None:
    """Count what specs would search, side by side, and estimate what that costs.

    The pool is not scored. Gates that go by the target do their work, though: they train a baseline, which
    takes long on large tables (`--static` leaves them open), and the estimate scores a few candidates.
    """
    _check(given, static, graph, pool)
    with showing_progress(settings) as listener:
        counted = compile_all(
            given,
            *cache_override(no_cache),
            static=static,
            estimates=not (static or no_estimate),
            listener=listener,
        )
    if graph is not None:
        write_step_graph(counted[0], graph)
        settings.say(f"wrote {graph}")
    if pool is not None:
        with whole_file(pool) as path:
            count = counted[0].compiled.write_pool(path)
        settings.say(f"wrote {pool}: {count:,} candidates")
    if json:
        print_json([facts(c, static=static) for c in counted])
    else:
        print_table(*[part for table in tables(counted) for part in ("", table)][1:])
    for c in counted:
        if c.bounds:
            settings.say(f"{c.compiled.name}: bounds, as these gates need data: {', '.join(open_gates(c))}")
