"""What a user writes: the models of a run spec."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    Tag,
    WithJsonSchema,
    model_validator,
)

from scopefe import registry
from scopefe.errors import Mark, suggestion
from scopefe.sizes import read_size
from scopefe.spec.environment import expanded, variables

KeyPath = tuple[str | int, ...]
Fraction = Annotated[float, Field(gt=0, lt=1)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Count = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """Base of every section: unknown keys are errors, values are fixed once read."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FileSource(Section):
    """A table in a file."""

    type: Literal["csv", "parquet", "arrow"]
    path: str = Field(description="File, relative to the spec; ${NAME} stands for an environment variable.")


class PackageSource(Section):
    """A CSV file that an installed distribution ships."""

    type: Literal["package"]
    distribution: str = Field(description="Name of the distribution, as pip knows it.")
    path: str = Field(description="File inside the installed distribution.")


class SqlSource(Section):
    """What a SQL query gives; DuckDB runs it."""

    type: Literal["sql"]
    query: str = Field(description="The query; it may read files, named relative to the working directory.")
    path: str | None = Field(
        None, description="DuckDB database, relative to the spec; null: none, the query reads files."
    )


class FrameSource(Section):
    """A frame handed over in Python: ``execute(spec, data=frame)``."""

    type: Literal["frame"] = "frame"


SUFFIXES: dict[str, Literal["csv", "parquet", "arrow"]] = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".csv.zip": "csv",
    ".csv.zst": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
}


def file_type(path: str) -> Literal["csv", "parquet", "arrow"] | None:
    """Tell the type of a table from the name of its file; None if the name does not say."""
    return next((kind for suffix, kind in SUFFIXES.items() if path.lower().endswith(suffix)), None)


def _source(value: Any) -> Any:
    path = value if isinstance(value, str) else value.get("path") if isinstance(value, dict) else None
    if not isinstance(path, str) or (isinstance(value, dict) and "type" in value):
        return value
    kind = file_type(expanded(path) if all(name in os.environ for name in variables(path)) else path)
    if kind is None:
        raise ValueError(
            f"cannot tell the format of {path!r} from its name; "
            "write {type: csv, path: …} (or parquet, arrow)"
        )
    return {**(value if isinstance(value, dict) else {}), "type": kind, "path": path}


Source = Annotated[
    Annotated[FileSource | PackageSource | SqlSource | FrameSource, Field(discriminator="type")],
    BeforeValidator(_source),
]


def source_name(source: FileSource | PackageSource | SqlSource | FrameSource) -> str:
    """Return the name of a source's file without its folder, or its type if it has none."""
    return (getattr(source, "path", None) or source.type).rpartition("/")[2]


class Target(Section):
    """What is predicted."""

    column: str = Field(description="Name of the column.")
    positive: list[str | bool | int | float] | None = Field(
        None, description="Values that count as positive; makes the target binary."
    )
    negative: list[str | bool | int | float] | None = Field(
        None, description="Values that count as negative; all others are positive. Makes the target binary."
    )
    above: float | None = Field(
        None, description="Numbers above this one are positive, others negative. Makes the target binary."
    )
    missing: Literal["error", "drop"] = Field(
        "error", description="What to do with rows that have no target."
    )

    @model_validator(mode="after")
    def _one_side(self) -> Target:
        if [self.positive, self.negative, self.above].count(None) < 2:
            raise ValueError("give one of positive, negative and above")
        return self


def _named(key: str) -> BeforeValidator:
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str) else value)


class FractionSplit(Section):
    """A random split by fractions; classes are stratified where their counts permit."""

    by: Literal["fractions"] = "fractions"
    train: Fraction = 0.64
    selection: Fraction = 0.16
    test: Annotated[float, Field(ge=0, lt=1)] = 0.20
    development: Count | None = Field(
        None, description="Training and selection rows at most; what is more are test rows."
    )
    seed: Seed = 1
    note: str = Field("", description="A remark that the report repeats.")

    @model_validator(mode="after")
    def _whole(self) -> FractionSplit:
        if abs(self.train + self.selection + self.test - 1) > 1e-9:
            raise ValueError(
                f"train + selection + test is {self.train + self.selection + self.test:g}, not 1"
            )
        return self


class ColumnSplit(Section):
    """A column says which role each row has."""

    by: Literal["column"]
    column: str = Field("split", description="Column that holds the role; it is no feature.")
    path: str | None = Field(None, description="Another file, one row per row of the data, that has it.")
    order: str | None = Field(None, description="Column with each row's position inside its part.")
    train: list[str | bool | int] = ["train"]
    selection: list[str | bool | int] = ["val"]
    test: list[str | bool | int] = ["test"]
    note: str = Field("", description="A remark that the report repeats.")

    @model_validator(mode="after")
    def _apart(self) -> ColumnSplit:
        seen: dict[str | bool | int, str] = {}
        for role in ("train", "selection", "test"):
            for value in getattr(self, role):
                if seen.setdefault(value, role) != role:
                    raise ValueError(f"{value!r} is in two roles, {seen[value]} and {role}: it has one")
        return self


class TimeSplit(Section):
    """Rows in order of a column: the earliest train, the latest test."""

    by: Literal["time"]
    column: str
    train: Fraction = 0.64
    selection: Fraction = 0.16
    test: Annotated[float, Field(ge=0, lt=1)] = 0.20

    _whole = model_validator(mode="after")(FractionSplit._whole)  # type: ignore[arg-type]


class GroupSplit(Section):
    """A random split that keeps the rows of a group together."""

    by: Literal["groups"]
    column: str = Field(description="Column that names the group; it is no feature.")
    train: Fraction = 0.64
    selection: Fraction = 0.16
    test: Annotated[float, Field(ge=0, lt=1)] = 0.20
    seed: Seed = 1

    _whole = model_validator(mode="after")(FractionSplit._whole)  # type: ignore[arg-type]


class FileSplit(Section):
    """Separate files: `data.source` has the training rows, these the others."""

    by: Literal["files"]
    selection: str
    test: str | None = None

    @model_validator(mode="after")
    def _apart(self) -> FileSplit:
        if self.selection == self.test:
            raise ValueError(f"selection and test are one file, {self.test!r}: name another one for each")
        return self


def _split(value: Any) -> Any:
    return {"by": "fractions", **value} if isinstance(value, dict) and "by" not in value else value


Split = Annotated[
    Annotated[
        FractionSplit | ColumnSplit | TimeSplit | GroupSplit | FileSplit,
        Field(discriminator="by"),
    ],
    BeforeValidator(_split),
]

FeatureKind = Literal["numerical", "ordinal", "categorical"]


class Features(Section):
    """Which columns are features, and of which kind."""

    ordinal_max_unique: Annotated[int, Field(ge=0)] = Field(
        100, description="A numeric column with at most so many distinct values is ordinal."
    )
    kinds: dict[str, FeatureKind] = Field(default={}, description="Kinds fixed by hand, by column.")
    drop: list[str] = Field(default=[], description="Columns that are no features.")
    datetimes: Literal["parts", "categories"] = Field(
        "parts",
        description="Dates, times and durations, ISO 8601 texts too: read as numbers, one for each part "
        "(`elapsed`, `year`, `month`, `day`, `weekday`, `hour`, `minute`; `duration`), or as categories.",
    )
    unreadable_times: Annotated[float, Field(ge=0, le=0.5)] = Field(
        0.05,
        description="Share of a column's texts that may be no dates, times or durations: these are missing "
        "then; with more, the column is text.",
    )
    missing_as: str | None = Field(None, description="Category that stands for missing text values.")


class Sample(Section):
    """A random part of the rows of each role; kinds of columns are told by all rows."""

    fraction: Annotated[float, Field(gt=0, le=1)] = Field(description="Share of each role's rows.")
    seed: Seed = 1


class Data(Section):
    """What the search is applied to."""

    source: Source = FrameSource()
    target: Annotated[Target, _named("column")]
    missing: list[str] = Field(
        default=[""],
        description="Texts that are missing values, in every column. Where numbers, truth values or times "
        "are due, `NA`, `NaN`, `null` and the like are missing too.",
    )
    weight: str | None = Field(
        None,
        description="Column of what each row counts in every loss, no feature then; null counts all alike.",
    )
    task: Literal["auto", "regression", "binary", "multiclass"] = "auto"
    split: Split = FractionSplit()
    sample: Sample | None = Field(None, description="Use only a random part of the rows.")
    features: Features = Features()

    @model_validator(mode="after")
    def _one_use(self) -> Data:
        uses = [("target", self.target.column), ("weight", self.weight)]
        if not (isinstance(self.split, ColumnSplit) and self.split.path is not None):
            uses += [(f"split.{key}", getattr(self.split, key, None)) for key in ("column", "order")]
        seen: dict[str, str] = {}
        for use, column in uses:
            if column is not None and seen.setdefault(column, use) != use:
                raise ValueError(
                    f"{use} is the column {column!r}, which is the {seen[column]}: name another one"
                )
        if isinstance(self.split, FileSplit) and isinstance(self.source, FileSource):
            for role in ("selection", "test"):
                if getattr(self.split, role) == self.source.path:
                    raise ValueError(f"split.{role} is the file of the training rows, {self.source.path!r}")
        return self


class OperatorUse(BaseModel):
    """An operator with its parameters."""

    model_config = ConfigDict(extra="allow", frozen=True)

    operator: str

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameter values as written."""
        return dict(self.model_extra or {})


class Operators(Section):
    """What candidates are made with."""

    use: list[Annotated[OperatorUse, _named("operator")]] = Field(
        default=[OperatorUse(operator="default")],
        description="Operators by name; `default` stands for the built-in ones.",
    )
    modules: list[str] = Field(
        default=[], description="Python files with components of your own, relative to the spec."
    )
    directions: Literal["one", "both"] = Field("one", description="`both` also enumerates b - a and b / a.")


class GateUse(BaseModel):
    """A gate with its parameters."""

    model_config = ConfigDict(extra="allow", frozen=True)

    gate: str

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameter values as written."""
        return dict(self.model_extra or {})


class AnyOf(Section):
    """What at least one of the gates admits."""

    any: list[GateExpression] = Field(min_length=1)


class AllOf(Section):
    """What every one of the gates admits."""

    all: list[GateExpression] = Field(min_length=1)


class Not(Section):
    """What the gate does not admit."""

    not_: GateExpression = Field(alias="not")


def _gate_form(value: Any) -> str:
    if isinstance(value, BaseModel):
        forms: dict[type[BaseModel], str] = {AnyOf: "any", AllOf: "all", Not: "not"}
        return forms.get(type(value), "gate")
    return next((form for form in ("any", "all", "not") if isinstance(value, dict) and form in value), "gate")


GateExpression = Annotated[
    Annotated[GateUse, Tag("gate")]
    | Annotated[AnyOf, Tag("any")]
    | Annotated[AllOf, Tag("all")]
    | Annotated[Not, Tag("not")],
    Discriminator(_gate_form),
    _named("gate"),
]


class Scope(Section):
    """Which part of the universe is searched."""

    pairs: GateExpression = GateUse(gate="all")
    operators: GateExpression = GateUse(gate="all")


class Baseline(Section):
    """The scores that candidates have to improve on."""

    boosting: bool = Field(
        True, description="Out-of-fold scores of a LightGBM; otherwise the class priors or mean."
    )
    folds: Annotated[int, Field(ge=2)] = 5
    learning_rate: Annotated[float, Field(gt=0)] = 0.1
    max_trees: Count = 10_000
    early_stopping: Count = 200


class Selection(Section):
    """How candidates are scored and kept."""

    protocol: Literal["cross-fitted", "train-only", "nested"] = Field(
        "cross-fitted",
        description="What sees the selection rows: `cross-fitted`, gates and search, as in the paper; "
        "`train-only`, the search but no gate; `nested`, neither: they divide the training rows again.",
    )
    engine: Literal["native", "openfe"] = Field(
        "native", description="`openfe` runs the openfe package on the same pool, as a reference."
    )
    evaluator: Literal["kernel", "lightgbm"] = Field(
        "kernel", description="`lightgbm` scores every candidate with LightGBM itself, as a check."
    )
    metric: Literal["auto", "rmse", "binary_logloss", "multi_logloss", "auc"] = "auto"
    gain: Literal["single-split", "cross-fitted"] = Field(
        "single-split",
        description="Rows that gains are measured on: the selection rows, or all of them, fold by fold.",
    )
    folds: Annotated[int, Field(ge=2)] = Field(5, description="Folds of cross-fitted gains.")
    data_blocks: Count = Field(8, description="Row blocks of successive halving; a power of two.")
    min_candidates: Count = 2000
    attribution: Literal["gain", "permutation", "held-out"] = Field(
        "gain",
        description="Importance in one model of all survivors: total gain on the training rows, increase of "
        "the loss under permutation, or total gain on the selection rows.",
    )
    categories: Literal["declared", "openfe"] = Field(
        "declared",
        description="How models are given features whose values are categories: `declared`, at every "
        "step as the recipe gives them, new ones of more than 30 levels as the frequency of the category; "
        "`openfe`, as the package does, new ones as categories where scored and evaluated, as numbers where "
        "ranked; it is the default of `engine: openfe`.",
    )
    keep: Literal["auto", "all"] | Annotated[int, Field(ge=0)] = Field(
        10,
        description="Features to keep; `auto`: as many as help on rows that no search has seen, or none; "
        "`all`: every candidate that can be computed, whatever its gain.",
    )
    keep_most: Count = Field(50, description="Features to keep at most where `keep` is `auto`.")
    unseen: Literal["auto", "selection", "parts"] = Field(
        "auto",
        description="Rows that `keep: auto` decides on: `selection`, the selection rows, of which the search "
        "then sees none; `parts`, all development rows, a fifth at a time, each after a search without it; "
        "`auto`, the selection rows if there are 5,000 or more.",
    )

    @property
    def most(self) -> int | None:
        """Features to keep at most; None for all."""
        if self.keep == "all":
            return None
        return self.keep_most if self.keep == "auto" else self.keep

    @property
    def gain_folds(self) -> int:
        """Number of gains of a candidate: one per fold where they are cross-fitted."""
        return self.folds if self.gain == "cross-fitted" else 1

    @property
    def blocks(self) -> int:
        """Row blocks of halving: one if no candidate is to be dropped."""
        return 1 if self.keep == "all" else self.data_blocks

    @model_validator(mode="before")
    @classmethod
    def _of_engine(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("engine") == "openfe":
            return {"categories": "openfe", **given}
        return given

    @model_validator(mode="after")
    def _native(self) -> Selection:
        for setting, chosen in (("gain", "cross-fitted"), ("keep", "all"), ("categories", "declared")):
            if getattr(self, setting) == chosen and self.engine != "native":
                raise ValueError(f"{setting}: {chosen} is for engine: native, not {self.engine}")
        return self

    @model_validator(mode="after")
    def _power_of_two(self) -> Selection:
        if self.data_blocks & (self.data_blocks - 1):
            raise ValueError(f"data_blocks must be a power of two, not {self.data_blocks}")
        return self


class LearnerUse(BaseModel):
    """A downstream learner with its parameters."""

    model_config = ConfigDict(extra="allow", frozen=True)

    learner: Literal["lightgbm", "xgboost", "catboost", "random-forest", "linear"] = "lightgbm"

    @model_validator(mode="after")
    def _plain(self) -> LearnerUse:
        for name, value in self.parameters.items():
            if not isinstance(value, bool | int | float | str):
                raise ValueError(f"parameter {name} must be a number, a text, true or false")
        return self

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameter values as written."""
        return dict(self.model_extra or {})


def _scorer(name: str) -> str:
    if name != "auto":
        from sklearn.metrics import get_scorer_names

        names = get_scorer_names()
        if name not in names:
            raise ValueError(f"scikit-learn has no scorer {name!r}{suggestion(name, names)}")
    return name


class Evaluation(Section):
    """What the features bring: a downstream model before and after."""

    protocol: Literal["inductive", "benchmark"] = Field(
        "inductive",
        description="`inductive` fits on development rows; "
        "`benchmark` is the OpenFE benchmark's transductive protocol.",
    )
    seeds: Annotated[int, Field(ge=0)] = Field(10, description="Repetitions; 0 leaves the evaluation out.")
    learner: Annotated[LearnerUse, _named("learner")] = Field(
        default=LearnerUse(learning_rate=0.05, colsample_bytree=0.8, subsample=0.8, subsample_freq=1),
        description="A learner by name, with parameters of its own; those given replace these as a whole.",
    )
    worth: bool = Field(
        True, description="Whether to measure what each new feature is worth, by models without it."
    )
    metric: Annotated[str, AfterValidator(_scorer)] = Field(
        "auto", description="RMSE, ROC-AUC or accuracy by the task, or scikit-learn's name of a scorer."
    )
    max_trees: Count = 2000
    early_stopping: Count = Field(50, description="Trees without improvement on the selection rows.")
    stopping: Literal["auto", "loss", "metric", "error"] = Field(
        "auto",
        description="What models stop by: `loss`, squared error or log-loss; `metric`, what they are "
        "measured by; `error`, the error rate of classes, as the OpenFE benchmark has it; `auto` is `error` "
        "in `protocol: benchmark`, else the accuracy of several classes, else `loss`.",
    )


Size = Annotated[
    Count | None,
    BeforeValidator(read_size),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "pattern": r"^\d+(\.\d+)? ?([kKMGT]i?)?B$"},
                {"type": "null"},
            ]
        }
    ),
]


class Budget(Section):
    """What a run may spend; it ends at the next boundary of steps where that is spent."""

    max_candidates: Count | None = Field(
        None, description="Most candidates of the pool; with more, nothing is scored."
    )
    max_seconds: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        None, description="Seconds after which no step or round begins."
    )
    max_memory: Size = Field(
        None, description="Most memory of the process, estimated and held: bytes, or a text such as 4GB."
    )


class Execution(Section):
    """How the work is carried out; nothing here changes a result, but for a budget that is spent."""

    engine: Literal["threads", "loky", "dask"] = Field(
        "threads",
        description="Threads of this process, processes of this machine, or a dask cluster.",
    )
    jobs: Literal["auto"] | Count = Field(
        "auto", description="Threads or processes; `auto` takes the cores there are."
    )
    address: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="Dask scheduler to work on; without one, a local cluster is made for the run."
    )
    runs: str = Field("runs", description="Folder that run folders are made in.")
    cache: bool | Annotated[str, Field(min_length=1)] = Field(
        True,
        description="Keep results for later runs: true is the user's cache folder, or the one that "
        "SCOPEFE_CACHE_DIR names; false keeps none; or a folder.",
    )
    budget: Budget = Budget()

    @model_validator(mode="after")
    def _address_of_dask(self) -> Execution:
        if self.address is not None and self.engine != "dask":
            raise ValueError("address is for engine: dask")
        return self


class Report(Section):
    """What is written."""

    formats: list[Literal["json", "html"]] = ["json", "html"]
    mlflow: str | None = Field(
        None, min_length=1, description="Experiment in MLflow that is told of the run; null tells none."
    )


@dataclass(frozen=True)
class Origin:
    """Where a spec came from.

    Parameters
    ----------
    path
        Its file, if it was read from one.
    overrides, fragments, modules
        What `load_spec` was given on top.
    components
        The components its names refer to.
    marks
        Where each value stands, by path.
    """

    path: Path | None = None
    overrides: tuple[str, ...] = ()
    fragments: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    components: registry.Components = field(default_factory=registry.components)
    marks: Mapping[KeyPath, Mark] = field(default_factory=dict)

    def mark(self, *path: str | int) -> Mark | None:
        """Return where a value stands, or else the nearest value above it that stands somewhere."""
        above = (path[:length] for length in range(len(path), -1, -1))
        return next((self.marks[known] for known in above if known in self.marks), None)


class Spec(Section):
    """A run spec."""

    _origin: Origin | None = PrivateAttr(default=None)

    version: Literal[1] = 1
    name: str = Field(min_length=1, max_length=200, pattern=r"^[^/\\\x00]+$")
    description: str = ""
    seed: Seed = 1
    data: Data
    operators: Operators = Operators()
    scope: Scope = Scope()
    baseline: Baseline = Baseline()
    selection: Selection = Selection()
    evaluation: Evaluation = Evaluation()
    execution: Execution = Execution()
    report: Report = Report()

    @model_validator(mode="after")
    def _weights_are_ours(self) -> Spec:
        if self.data.weight is not None and self.selection.engine != "native":
            raise ValueError(f"data.weight is for selection.engine: native, not {self.selection.engine}")
        return self

    @property
    def origin(self) -> Origin:
        """Where the spec came from; plays no part in equality."""
        if self._origin is None:
            self._origin = Origin()
        return self._origin

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and dict(self) == dict(other)


AnyOf.model_rebuild()
AllOf.model_rebuild()
Not.model_rebuild()
Scope.model_rebuild()
Spec.model_rebuild()
