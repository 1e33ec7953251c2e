"""``scopefe audit``."""

from __future__ import annotations

from pathlib import Path

import click

from scopefe.audit.model import AuditFacts
from scopefe.audit.statistics import adjusted
from scopefe.cli.options import Given, OutputFile, as_json, cache_override, given_specs, no_cache, verbosity
from scopefe.cli.output import Settings, pass_settings, print_json, whole_file
from scopefe.cli.progress import showing_progress
from scopefe.report.tables import p_value
from scopefe.run.auditing import audit_pool
from scopefe.run.store import Store


def told(facts: AuditFacts, q: float, controls: list[float]) -> str:
    """Return what an audit found, in a few lines for people.

    Parameters
    ----------
    q
        Adjusted p-value of the enrichment.
    controls
        Those of its controls.
    """
    found = facts.enrichment
    lines = [
        f"{facts.name}: {found.pool:,} of {found.universe:,} unique candidates of {facts.dataset}, scored on "
        f"{facts.train_rows + facts.selection_rows:,} rows"
    ]
    if found.enrichment is None:
        return f"{lines[0]}\n  the pool is empty"
    lines.append(
        f"  enrichment {found.enrichment:.3f}: {found.hits:,} of the best {found.pool:,} are in the pool, "
        f"{100 * (found.coverage or 0):.1f} % where {100 * (found.expected_coverage or 0):.1f} % is chance "
        f"(p {p_value(found.p)}, q {p_value(q)})"
    )
    shares = ", ".join(f"{100 * r.recall:.0f} % of the best {r.best}" for r in facts.recall)
    lines.append(f"  recall: {shares}")
    lines += [
        f"  {c.control}: ΔE {c.median_difference:+.3f} (p {p_value(c.p)}, q {p_value(q)})"
        for c, q in zip(facts.controls, controls, strict=True)
    ]
    kept = sum(s.in_pool for s in facts.selected)
    lines.append(
        f"  of the {len(facts.selected)} features that the full search selects, {kept} are in the pool"
    )
    lines += [
        f"    left out by {s.lost_by}: {s.formula}, rank {s.gain_rank:,} by gain"
        for s in facts.selected
        if not s.in_pool
    ]
    return "\n".join(lines)


@click.command("audit")
@given_specs
@click.option("--controls", type=click.IntRange(min=1), default=1000, help="Random pools of each control.")
@click.option("-o", "--output", type=OutputFile(".json"), help="File to write the audits to.")
@no_cache
@as_json
@verbosity
@pass_settings
def command(
    settings: Settings, given: Given, controls: int, output: Path | None, no_cache: bool, json: bool
) -> None:
    """Score every candidate of a spec's universe, and hold its pool against them.

    Says how much better than chance the pool is, how it fares against random pools of its size, and which of
    the features that the full search selects it lacks. Of several specs, q-values are adjusted jointly.
    """
    store = Store()
    with showing_progress(settings) as listener:
        found = [
            audit_pool(spec, seeds=controls, store=store, listener=listener)
            for spec in given.load(*cache_override(no_cache))
        ]
    q = adjusted([facts.enrichment.p for facts in found], "fdr_bh").tolist()
    jointly = iter(adjusted([c.p for facts in found for c in facts.controls], "fdr_bh").tolist())
    for facts, own in zip(found, q, strict=True):
        settings.say(told(facts, own, [next(jointly) for _ in facts.controls]))
    documents = [facts.model_dump(mode="json") for facts in found]
    if output is not None:
        with whole_file(output) as path:
            path.write_text(
                "[\n" + ",\n".join(f.model_dump_json(indent=1) for f in found) + "\n]\n", encoding="utf-8"
            )
        settings.say(f"wrote {output}")
    if json:
        print_json(documents)
