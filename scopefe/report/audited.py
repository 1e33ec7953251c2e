"""Audits as one HTML page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scopefe.audit.model import AuditFacts, GainFacts
from scopefe.audit.statistics import adjusted
from scopefe.report.figures import Bars
from scopefe.report.html import environment
from scopefe.report.model import HistogramFacts
from scopefe.report.tables import p_value


@dataclass(frozen=True)
class Adjusted:
    """p-values of an audit, adjusted over all audits that were made together (Benjamini-Hochberg)."""

    pool: float
    controls: list[float]

    @classmethod
    def of(cls, found: Sequence[AuditFacts]) -> list[Adjusted]:
        """Adjust the pools' p-values together, and those of all controls."""
        pools = adjusted([facts.enrichment.p for facts in found], "fdr_bh").tolist()
        controls = iter(adjusted([c.p for facts in found for c in facts.controls], "fdr_bh").tolist())
        return [
            cls(pool, [next(controls) for _ in facts.controls])
            for facts, pool in zip(found, pools, strict=True)
        ]


@dataclass(frozen=True)
class Side:
    """The gains of one side of the gates, over a range that both sides share."""

    name: str
    facts: GainFacts
    bars: Bars | None


def render(found: Sequence[AuditFacts]) -> str:
    """Return audits as a self-contained HTML page; it loads nothing."""
    q = Adjusted.of(found)
    audits = [(facts, q, sides(facts)) for facts, q in zip(found, q, strict=True)]
    template = environment().get_template("audit.html.j2")
    return template.render(audits=audits, scopefe=found[0].scopefe, p_value=p_value)


def sides(facts: AuditFacts) -> list[Side]:
    """Return the gains inside and outside the pool."""

    def bars(gains: GainFacts) -> Bars | None:
        if facts.gain_range is None or not any(gains.counts):
            return None
        low, high = facts.gain_range
        return Bars.of(HistogramFacts(low=low, high=high, counts=gains.counts))

    named = (("In the pool", facts.inside), ("Left out", facts.outside))
    return [Side(name, gains, bars(gains)) for name, gains in named]
