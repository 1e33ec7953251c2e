"""The provenance report: a documented, versioned document.

Everything outside `volatile` is the same for the same spec, data and package versions, whatever the number of
jobs; times, paths and facts of the machine stand in `volatile` only.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

REPORT_VERSION = 1


class Part(BaseModel):
    """Base of the report's parts."""

    model_config = ConfigDict(extra="forbid")


class Count(Part):
    """Candidates as generated (raw) and after canonicalisation (unique)."""

    raw: int
    unique: int


class OperatorCount(Part):
    """Counts of one operator."""

    operator: str
    signature: str
    arity: int
    universe: Count
    pool: Count


class ClusterCount(Part):
    """Features of a cluster, and the pool's two-input candidates inside it."""

    cluster: int
    features: list[str]
    candidates: int


class GateCount(Part):
    """What a gate was given, and what it left of that."""

    place: Literal["pairs", "operators"]
    gate: str
    came_in: int = Field(description="Raw candidates that came in.")
    removed: int
    added: dict[str, int] = Field({}, description="Of those left, the ones beyond its own rule, by reason.")


class SpaceFacts(Part):
    """The counted candidate space."""

    universe: Count
    pool: Count
    reduction: float = Field(description="1 - pool / universe, raw; 0 for an empty universe.")
    operators: list[OperatorCount]
    clusters: list[ClusterCount] | None = Field(None, description="Where a gate clusters the features.")
    across_clusters: int | None = Field(None, description="Two-input candidates of the pool across clusters.")
    gates: list[GateCount] = Field([], description="The gates, in the order they were carried out.")

    @property
    def never_tried(self) -> int:
        """Unique candidates of the universe that are not in the pool."""
        return self.universe.unique - self.pool.unique


class FeatureFacts(Part):
    """A feature of the table."""

    name: str
    kind: Literal["numerical", "ordinal", "categorical"]
    missing: int = Field(description="Missing values on the development rows.")
    distinct: int = Field(description="Distinct values on the development rows.")


class DataFacts(Part):
    """The data as it was used."""

    source: str
    fingerprint: str = Field(description="Hash of the development rows, their roles and targets.")
    test_fingerprint: str = Field("", description="Hash of the test rows and their targets.")
    rows: dict[str, int]
    split: dict[str, Any]
    target: str
    task: Literal["regression", "binary", "multiclass"]
    classes: list[str]
    features: list[FeatureFacts]
    left_out: dict[str, str] = Field(description="Columns that are no features, with the reason.")


class StepFacts(Part):
    """A step of the graph."""

    name: str
    component: str
    key: str
    inputs: list[str]
    parameters: dict[str, Any]


class ProbeFacts(Part):
    """How an operator fared in probing."""

    operator: str
    score: float | None
    best: float | None
    candidates: int
    kept: bool


class BaselineFacts(Part):
    """The scores that candidates have to improve on."""

    metric: str
    initial: float = Field(description="Metric of the baseline on the selection rows.")
    trees: list[int]


class HistogramFacts(Part):
    """Numbers of values in bins of equal width."""

    low: float = Field(description="Where the first bin begins; smaller values are in it too.")
    high: float = Field(description="Where the last bin ends; larger values are in it too.")
    counts: list[int]


class RoundFacts(Part):
    """A round of successive halving."""

    train_rows: int
    selection_rows: int
    candidates: int
    failed: int
    same_gain: int = Field(description="Dropped because their gain equals that of a better-placed one.")
    kept: int
    best_gain: float | None
    median_gain: float | None
    positive: int = Field(description="Candidates with a gain above 0.")
    agreement: float | None = Field(
        None, description="Mean correlation of the gains of two folds, where gains are cross-fitted."
    )
    gains: HistogramFacts | None = Field(None, description="Gains of the candidates; null where all failed.")


class GroupFacts(Part):
    """Rows with values close to each other, or of one category."""

    low: float = Field(description="Least value; of a category, its number.")
    high: float
    rows: int
    target: list[float] = Field(
        description="Mean of the target, share of the second class, or share of each of several classes."
    )


class ShapeFacts(Part):
    """How a feature's values lie on the development rows, and how the target goes with them."""

    missing: int
    missing_target: list[float] | None = Field(description="As a group's `target`, of rows without a value.")
    histogram: HistogramFacts | None = Field(description="Null for categories, and where no value is known.")
    groups: list[GroupFacts] = Field(
        description="Tenths of the rows by value, or the ten largest categories."
    )


class WorthFacts(Part):
    """What a feature is worth on the test rows: how much worse the metric is without it."""

    mean: float = Field(description="Positive where the feature helps, whatever the metric's direction.")
    error: float | None = Field(description="Standard error over test rows, or groups; null of one alone.")
    together: list[str] = Field(
        [], description="Other features that were left out with it: they stand for each other."
    )


class SelectedFacts(Part):
    """A selected feature."""

    rank: int
    name: str
    formula: str
    key: str
    operator: str
    inputs: list[str]
    gain: float = Field(description="FeatureBoost gain in the last round.")
    importance: float
    words: str = Field("", description="What it is, in words; of selected features.")
    shape: ShapeFacts | None = Field(None, description="Of the first 20 selected features.")
    worth: WorthFacts | None = Field(None, description="Of selected features that were evaluated.")


class FailureFacts(Part):
    """A candidate that could not be computed or scored."""

    candidate: int
    formula: str
    stage: str
    error: str


class StopFacts(Part):
    """Where and why a run ended early."""

    before: str = Field(description="The step, or the round of halving, that was not begun.")
    budget: Literal["max_candidates", "max_seconds", "max_memory"]


class SizeFacts(Part):
    """What a number of features brought on rows that nothing had seen."""

    features: int = Field(description="The first so many of those considered.")
    decrease: float = Field(description="Mean decrease of the loss of a row.")
    error: float = Field(description="Its standard error.")
    clipped: float = Field(0.0, description="The same, the hundredth of the largest changes drawn in.")
    clipped_error: float = Field(0.0, description="Its standard error.")


class ChoiceFacts(Part):
    """How many features were kept, and why."""

    rows: int = Field(description="Rows that decided: those that a search had not seen.")
    sizes: list[SizeFacts]
    p: float = Field(description="Probability of so sure a decrease if no number of features helped.")
    kept: int


class SelectionFacts(Part):
    """What selection did."""

    engine: str
    protocol: Literal["cross-fitted", "train-only", "nested"] = "cross-fitted"
    claim: str = Field("", description="What the protocol lets one say.")
    rounds: list[RoundFacts]
    survivors: int
    attribution: str
    attribution_trees: int
    choice: ChoiceFacts | None = Field(None, description="Where the spec says `keep: auto`.")
    ranking: list[SelectedFacts] = Field(description="Survivors by importance, at most 100.")
    selected: list[SelectedFacts]
    failures: list[FailureFacts]
    stopped: StopFacts | None = Field(None, description="Where a budget of the spec ended the run early.")


class Score(Part):
    """A metric over seeds."""

    mean: float
    std: float = Field(description="Standard deviation over seeds (ddof 0).")
    values: list[float]
    trees: list[int] = Field([], description="Trees of each model; none where models have no rounds.")


class DifferenceFacts(Part):
    """A paired difference of two scores on the same test rows, averaged over seeds."""

    mean: float = Field(description="The second score minus the first.")
    error: float | None = Field(description="Standard error over units; null of one alone.")
    low: float | None = Field(description="Confidence interval over units, at 95 %; null of one alone.")
    high: float | None
    units: int
    unit: Literal["test rows", "groups of test rows", "blocks of test rows"] = Field(
        description="What counts as independent: rows, or what the split keeps together; of a metric without "
        "a formula, random blocks of these."
    )
    spread: float = Field(description="Standard deviation of the difference over seeds (ddof 0).")
    verdict: Literal["better", "worse", "no difference"] = Field(
        description="Whether the interval lies on one side of 0."
    )


class EvaluationFacts(Part):
    """What the features brought."""

    learner: str = "lightgbm"
    metric: str
    larger_is_better: bool
    protocol: Literal["inductive", "benchmark"]
    seeds: int = Field(description="Seeds 0 to so many, less one.")
    base: Score
    with_features: Score | None = Field(description="None where no feature was selected.")
    stopping: str = Field("", description="What models stopped by on the selection rows.")
    difference: DifferenceFacts | None = Field(None, description="With features minus base.")


class StepTime(Part):
    """How long a step took."""

    step: str
    seconds: float
    stored_seconds: float = Field(
        0.0, description="Of these, those that results of the store took when they were computed."
    )
    reused: float = Field(description="Share of the seconds whose results came from the store, 0 to 1.")
    in_run: bool = Field(description="Part of RUN.")


class Volatile(Part):
    """What differs from run to run."""

    started: str
    seconds: float
    run_seconds: float = Field(
        description="Feature engineering: gates, baseline, halving and attribution; results that came from "
        "the store count with what they took."
    )
    run_stored_seconds: float = Field(0.0, description="Of these, those of results that came from the store.")
    times: list[StepTime]
    jobs: int
    machine: str
    python: str
    folder: str
    paths: dict[str, str] = Field(description="Paths the spec names, as they were resolved.")


class AssociationFacts(Part):
    """Associations of features, by cluster."""

    features: list[str] | None = Field(
        description="Features in order of their clusters; null where there are more than 60: values are then "
        "means between clusters."
    )
    bounds: list[int] = Field(description="Places among the features where a cluster begins, but the first.")
    values: list[list[float]]


class Report(Part):
    """The provenance report of one run."""

    report_version: Literal[1] = 1
    scopefe: str
    name: str
    description: str
    spec: dict[str, Any] = Field(description="The whole spec, defaults included, execution left out.")
    seed: int
    versions: dict[str, str]
    data: DataFacts
    graph: list[StepFacts]
    space: SpaceFacts
    probe: list[ProbeFacts] | None
    associations: AssociationFacts | None = Field(
        None, description="Where features were clustered by association."
    )
    facts: dict[str, Any] = Field({}, description="What gates noted besides clusters and probe scores.")
    baseline: BaselineFacts | None
    selection: SelectionFacts
    evaluation: EvaluationFacts | None
    notes: list[str] = Field(description="What a reader should know: what was dropped, and why.")
    volatile: Volatile
