"""``scopefe audit``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from scopefe.audit.model import AuditFacts, EnrichmentFacts, RecallFacts
from scopefe.cli.options import Given, OutputFile, as_json, cache_override, given_specs, no_cache, verbosity
from scopefe.cli.output import Settings, one_line, pass_settings, print_json, whole_file
from scopefe.cli.progress import showing_progress
from scopefe.report.audited import Adjusted, render
from scopefe.report.tables import p_value
from scopefe.run.auditing import audit_pool
from scopefe.run.store import Store


def told(facts: AuditFacts, q: Adjusted) -> str:
    """Return what an audit found, in a few lines for people."""
    found, fresh = facts.enrichment, facts.fresh
    lines = [
        f"{facts.name}: {found.pool:,} of {found.universe:,} unique candidates of {facts.dataset}, scored on "
        f"{facts.train_rows + facts.selection_rows:,} rows"
    ]
    if found.enrichment is None:
        return f"{lines[0]}\n  the pool is empty"
    p = f"p {p_value(found.p)}, q {p_value(q.pool)}"
    lines += held("the rows of the search, as in the paper", found, facts.recall, p)
    if fresh is not None:
        noise = "" if fresh.agreement is None else f", whose gains correlate by {fresh.agreement:.2f}"
        rows = f"fresh rows, {fresh.rows:,} test rows in {fresh.folds} folds{noise}"
        lines += held(rows, fresh.enrichment, fresh.recall, f"p {p_value(fresh.enrichment.p)}")
    lines += [
        f"  {c.control}: ΔE {c.median_difference:+.3f} (p {p_value(c.p)}, q {p_value(own)})"
        for c, own in zip(facts.controls, q.controls, strict=True)
    ]
    kept = sum(s.in_pool for s in facts.selected)
    lines.append(
        f"  of the {len(facts.selected)} features that the full search selects, {kept} are in the pool"
    )
    lines += [
        f"    left out by {s.lost_by}: {one_line(s.formula)}, rank {s.gain_rank:,} by gain"
        for s in facts.selected
        if not s.in_pool
    ]
    return "\n".join(lines)


def held(rows: str, found: EnrichmentFacts, recall: Sequence[RecallFacts], p: str) -> list[str]:
    """Return the lines on a pool that is held against gains on some rows."""
    shares = ", ".join(f"{100 * r.recall:.0f} % of the best {r.best}" for r in recall)
    return [
        f"  on {rows}:",
        f"    enrichment {found.enrichment:.3f}: {found.hits:,} of the best {found.pool:,} are in the pool, "
        f"{100 * (found.coverage or 0):.1f} % where {100 * (found.expected_coverage or 0):.1f} % is chance "
        f"({p})",
        f"    recall: {shares}",
    ]


def text_of(found: Sequence[AuditFacts], suffix: str) -> str:
    """Return what is written into a file of this suffix."""
    if suffix == ".html":
        return render(found)
    return "[\n" + ",\n".join(facts.model_dump_json(indent=1) for facts in found) + "\n]\n"


@click.command("audit")
@given_specs
@click.option("--controls", type=click.IntRange(min=1), default=1000, help="Random pools of each control.")
@click.option(
    "--fresh",
    is_flag=True,
    help="Score every candidate on the test rows too, five times: no gate and no selection saw these.",
)
@click.option(
    "-o",
    "--output",
    type=OutputFile(".json", ".html"),
    help="File to write the audits to, as data or a page.",
)
@no_cache
@as_json
@verbosity
@pass_settings
def command(
    settings: Settings,
    given: Given,
    controls: int,
    fresh: bool,
    output: Path | None,
    no_cache: bool,
    json: bool,
) -> None:
    """Score every candidate of a spec's universe, and hold its pool against them.

    Says how much better than chance the pool is, how it fares against random pools of its size, and which of
    the features that the full search selects it lacks. Gains are those on the rows of the search, as in the
    paper; with --fresh, also those on rows that the search has not seen. Of several specs, q-values are
    adjusted jointly.
    """
    store = Store()
    with showing_progress(settings) as listener:
        found = [
            audit_pool(spec, seeds=controls, fresh=fresh, store=store, listener=listener)
            for spec in given.load(*cache_override(no_cache))
        ]
    for facts, q in zip(found, Adjusted.of(found), strict=True):
        settings.say(told(facts, q))
    documents = [facts.model_dump(mode="json") for facts in found]
    if output is not None:
        with whole_file(output) as path:
            path.write_text(text_of(found, output.suffix.lower()), encoding="utf-8")
        settings.say(f"wrote {output}")
    if json:
        print_json(documents)
