"""What an audit found, as a document."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from scopefe.audit.statistics import Enrichment

AUDIT_VERSION = 1


class Facts(BaseModel):
    """Base of the parts."""

    model_config = ConfigDict(extra="forbid")


class EnrichmentFacts(Facts):
    """How far the pool prefers the best candidates of the universe."""

    universe: int = Field(description="Unique candidates, N.")
    pool: int = Field(description="Of these, in the pool, M.")
    hits: int = Field(description="Of the best M, in the pool, H.")
    coverage: float | None = Field(description="H/M.")
    expected_coverage: float | None = Field(description="M/N.")
    enrichment: float | None = Field(description="Coverage over expected coverage.")
    p: float = Field(description="One-sided hypergeometric p-value.")

    @classmethod
    def of(cls, found: Enrichment) -> EnrichmentFacts:
        """Write down an enrichment; what an empty pool has not is None."""

        def known(value: float) -> float | None:
            return value if found.pool else None

        return cls(
            universe=found.universe,
            pool=found.pool,
            hits=found.hits,
            coverage=known(found.coverage),
            expected_coverage=known(found.expected_coverage),
            enrichment=known(found.value),
            p=found.p,
        )


class GainFacts(Facts):
    """The distribution of gains."""

    candidates: int
    positive: int = Field(description="Candidates with a gain above 0.")
    quantiles: dict[str, float] = Field(
        description="Gain by quantile, from 0 to 1; empty without candidates."
    )
    counts: list[int] = Field(
        [], description="Candidates by bins of equal width over `gain_range`; the outer ones have all beyond."
    )


class PartFacts(Facts):
    """A part of the universe: the candidates of an operator, or of a cluster."""

    part: str
    universe: int
    pool: int
    best: int = Field(description="Candidates among the universe's best M.")
    hits: int = Field(description="Of these, in the pool.")
    enrichment: float | None = Field(
        description="Share of the best M that the part holds over its share of the universe."
    )


class RecallFacts(Facts):
    """How many of the best k the pool has."""

    best: int
    found: int
    recall: float


class LostFacts(Facts):
    """A feature that the full search selects, and where it stands."""

    rank: int = Field(description="Place among the selected features.")
    formula: str
    gain: float | None
    gain_rank: int = Field(description="Rank of its gain among all unique candidates.")
    in_pool: bool
    lost_by: Literal["pairs", "operators"] | None = Field(description="The gate that leaves it out.")


class ControlFacts(Facts):
    """The pool against random ones."""

    control: str
    seeds: int
    median_difference: float = Field(description="Enrichment less the median of the random pools'.")
    p: float = Field(description="Empirical p-value.")


class MatchedFacts(Facts):
    """Two pools at the same number of two-input candidates."""

    against: str
    budget: int
    enrichment: float = Field(description="Median over the draws from the larger pool.")
    range: tuple[float, float] = Field(description="5 and 95 % of the draws.")
    other: float
    other_range: tuple[float, float]


class FreshFacts(Facts):
    """The pool against gains on rows that neither gates nor selection saw."""

    rows: int = Field(description="Test rows.")
    folds: int = Field(description="A candidate's gain is the mean over so many folds of them.")
    agreement: float | None = Field(
        description="Mean correlation of two folds' gains, near 0 where they are noise; None if undefined."
    )
    enrichment: EnrichmentFacts
    tenth: float | None = Field(
        None,
        description="Expected enrichment of a random part of the pool, a tenth of the universe in size; "
        "of the whole pool if it is no larger.",
    )
    recall: list[RecallFacts]


class AuditFacts(Facts):
    """An exhaustive audit of a spec's pool."""

    audit_version: Literal[1] = 1
    scopefe: str
    name: str
    dataset: str
    fingerprint: str = Field(description="Hash of the development rows, their roles and targets.")
    protocol: str = Field(description="What the search may see of the rows.")
    train_rows: int
    selection_rows: int
    failed: int = Field(description="Candidates without a gain; they rank last.")
    enrichment: EnrichmentFacts = Field(description="On the rows of the search, as is all but `fresh`.")
    inside: GainFacts
    outside: GainFacts
    gain_range: tuple[float, float] | None = Field(
        None, description="Between which 98 % of all gains are; None if none is known."
    )
    operators: list[PartFacts]
    clusters: list[PartFacts] = Field(
        description="Two-input candidates by cluster, where features have them."
    )
    recall: list[RecallFacts]
    selected: list[LostFacts]
    controls: list[ControlFacts]
    matched: list[MatchedFacts]
    fresh: FreshFacts | None = Field(
        None, description="On fresh rows; None where that was not asked, or there are no test rows."
    )
    seconds: dict[str, float] = Field(description="What each step took, this time.")
