"""What a study found, as a document: a row per run, an audit per dataset."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from scopefe.audit.model import AuditFacts
from scopefe.report.model import Count, Part, Report, Score

STUDY_VERSION = 1


class LegFacts(Part):
    """A run of a variant on a dataset."""

    dataset: str
    variant: str
    seed: int = Field(description="Seed of the search.")
    split: int | None = Field(description="Number of a repeated split; None for the dataset's own.")
    evaluation: str = Field(description="Protocol of the evaluation.")
    protocol: str = Field(description="What the search may see of the rows.")
    train: int = Field(description="Rows, as are selection and test.")
    selection: int
    test: int
    universe: Count
    pool: Count
    run_seconds: float
    seconds: dict[str, float] = Field(description="By step; what came from the store as it was computed.")
    metric: str
    larger_is_better: bool
    base: Score = Field(description="Without new features.")
    score: Score = Field(description="With the selected features; without, where there are none.")
    selected: list[str]
    operators: list[str] | None = Field(description="What a probe keeps, best first.")
    clusters: list[int] | None = Field(description="Sizes of the clusters, largest first.")
    failures: int

    @classmethod
    def of(cls, report: Report, *, dataset: str, variant: str, split: int | None) -> LegFacts:
        """Take from a report what a study compares."""
        facts = report.evaluation
        assert facts is not None
        kept = None
        if report.probe is not None:
            ranked = sorted(report.probe, key=lambda p: -(p.score if p.score is not None else float("-inf")))
            kept = [p.operator for p in ranked if p.kept]
        clusters = report.space.clusters
        return cls(
            dataset=dataset,
            variant=variant,
            seed=report.seed,
            split=split,
            evaluation=facts.protocol,
            protocol=report.selection.protocol,
            **report.data.rows,
            universe=report.space.universe,
            pool=report.space.pool,
            run_seconds=report.volatile.run_seconds,
            seconds={t.step: t.seconds for t in report.volatile.times},
            metric=facts.metric,
            larger_is_better=facts.larger_is_better,
            base=facts.base,
            score=facts.with_features or facts.base,
            selected=[s.formula for s in report.selection.selected],
            operators=kept,
            clusters=None if clusters is None else sorted((len(c.features) for c in clusters), reverse=True),
            failures=len(report.selection.failures),
        )


class ProbeSeedFacts(Part):
    """The subject's pool with another seed of its probe."""

    seed: int
    operators: list[str]
    pool: Count
    enrichment: float | None


class TableFacts(Part):
    """A dataset of the study."""

    name: str
    task: str
    train: int
    selection: int
    test: int
    numerical: int
    ordinal: int
    categorical: int


class StudyFacts(Part):
    """A study."""

    study_version: Literal[1] = 1
    scopefe: str
    name: str
    description: str
    versions: dict[str, str]
    machine: str
    reference: str
    subject: str
    inter: str | None
    evaluations: list[str] = Field(description="Protocols of the evaluation; the first one is compared.")
    absolute_margin: float
    relative_margin: float
    datasets: list[TableFacts]
    absent: dict[str, str] = Field(description="Datasets that are not there, with the file that is missing.")
    legs: list[LegFacts]
    audits: dict[str, AuditFacts] = Field(description="Of the subject, by dataset.")
    variant_audits: dict[str, dict[str, AuditFacts]] = Field(
        default={}, description="Of other variants, by dataset and variant."
    )
    probe_seeds: dict[str, list[ProbeSeedFacts]] = Field(description="By dataset.")
