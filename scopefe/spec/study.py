"""What a user writes to compare variants over datasets: the model of a study, and how it is read."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from scopefe.errors import SpecError, UnknownNameError, suggestion
from scopefe.spec.document import Node, merge, override
from scopefe.spec.loader import absolute_spec, find_spec_file, load_spec, read_spec_file
from scopefe.spec.models import Count, Fraction, KeyPath, Section, Seed, Spec
from scopefe.spec.problems import Problem, dotted, fail, validated

Protocol = Literal["benchmark", "inductive"]
Overrides = list[str]


class StudyVariant(Section):
    """A spec to run on every dataset."""

    spec: str = Field(description="File, or name of a shipped spec.")
    overrides: Overrides = Field(default=[], alias="set", description="Such as selection.keep=20.")


class StudyData(Section):
    """A dataset: files that are merged over every variant."""

    use: list[str] = Field(description="Files, or names of shipped ones.")
    overrides: Overrides = Field(default=[], alias="set", description="Such as data.sample={fraction: 0.1}.")


class StudyAudit(Section):
    """What is asked of the exhaustive audit of the subject's pool."""

    controls: Count = Field(1000, description="Random pools of each control.")
    fresh: bool = Field(
        False, description="Whether every candidate is scored on the test rows too, in five folds."
    )
    variants: list[str] = Field(default=[], description="Variants to audit like the subject.")
    against: list[str] = Field(
        default=[], description="Variants to compare with at the same number of candidates."
    )
    probe_seeds: list[Seed] = Field(
        default=[], description="Seeds of the subject's probe, to see how much hangs on it."
    )


class StudySplits(Section):
    """Repeated random splits, beside the datasets' own."""

    count: Annotated[int, Field(ge=2)] = 5
    seed: Seed = 1
    train: Fraction = 0.64
    selection: Fraction = 0.16
    test: Fraction = 0.20
    development: Count | None = Field(
        None, description="Training and selection rows at most; what is more are test rows."
    )
    own: bool = Field(True, description="Whether the datasets' own splits are run as well.")
    variants: list[str] = Field(default=[], description="Variants to compare with the reference.")
    evaluation_seeds: Count = Field(1, description="Repetitions of the evaluation on each split.")


class StudyMargins(Section):
    """Practical equivalence."""

    absolute: Annotated[float, Field(ge=0)] = Field(0.005, description="For ROC-AUC and accuracy.")
    relative: Annotated[float, Field(ge=0)] = Field(0.01, description="For RMSE, of the reference's.")


def _listed(key: str, many: bool) -> BeforeValidator:
    """Let a list of names stand for a mapping, and a name for what it names."""

    def entry(value: Any) -> Any:
        return {key: [value] if many else value} if isinstance(value, str) else value

    def mapping(value: Any) -> Any:
        if isinstance(value, list) and all(isinstance(v, str) for v in value):
            value = {Path(v).name.removesuffix(".yaml").removesuffix(".yml"): v for v in value}
        return {k: entry(v) for k, v in value.items()} if isinstance(value, dict) else value

    return BeforeValidator(mapping)


class Study(Section):
    """Variants × datasets × seeds, and the evidence to make of them."""

    version: Literal[1] = 1
    name: str = Field(min_length=1, max_length=200, pattern=r"^[^/\\\x00]+$")
    description: str = ""
    datasets: Annotated[dict[str, StudyData], _listed("use", many=True), Field(min_length=1)]
    variants: Annotated[dict[str, StudyVariant], _listed("spec", many=False), Field(min_length=1)]
    overrides: Overrides = Field(default=[], alias="set", description="Laid over every run.")
    seeds: Annotated[list[Seed], Field(min_length=1)] = Field(default=[1], description="Seeds of the search.")
    evaluations: list[Protocol] = Field(
        default=["inductive"],
        description="Protocols of the evaluation; the first one is compared. Without any, nothing is run "
        "but audits.",
    )
    reference: str = Field("openfe", description="Variant that others are compared with.")
    subject: str = Field("scope-fe", description="Variant that is audited.")
    inter: str | None = Field(None, description="Variant with the complementary pairs, for paired tests.")
    audit: StudyAudit | None = None
    splits: StudySplits | None = None
    margins: StudyMargins = StudyMargins()

    @model_validator(mode="after")
    def _known_variants(self) -> Study:
        named = {"reference": [self.reference], "subject": [self.subject]}
        named["inter"] = [] if self.inter is None else [self.inter]
        named["audit.variants"] = self.audit.variants if self.audit else []
        named["audit.against"] = self.audit.against if self.audit else []
        named["splits.variants"] = self.splits.variants if self.splits else []
        for key, names in named.items():
            for name in names:
                if name not in self.variants:
                    raise ValueError(f"{key} names {name!r}, no variant{suggestion(name, self.variants)}")
        return self

    @model_validator(mode="after")
    def _something_to_do(self) -> Study:
        if not self.evaluations and (self.splits is not None or self.audit is None):
            raise ValueError("without evaluations there are audits only: write audit, and no splits")
        return self

    @property
    def audited(self) -> list[str]:
        """Variants that are audited: the subject, then the others."""
        return list(dict.fromkeys([self.subject, *self.audit.variants])) if self.audit else []

    def part(self, datasets: Collection[str]) -> Study:
        """Return the study on some of its datasets only.

        Raises
        ------
        UnknownNameError
            If it has no such dataset.
        """
        for name in datasets:
            if name not in self.datasets:
                raise UnknownNameError("dataset", name, self.datasets)
        chosen = {name: data for name, data in self.datasets.items() if name in datasets}
        return self.model_copy(update={"datasets": chosen})

    def spec(self, dataset: str, variant: str, *overrides: str) -> Spec:
        """Return the spec of a variant on a dataset.

        Raises
        ------
        SpecError
            If it cannot be carried out.
        """
        data, chosen = self.datasets[dataset], self.variants[variant]
        spec = load_spec(
            chosen.spec,
            fragments=data.use,
            overrides=[*self.overrides, *data.overrides, *chosen.overrides, *overrides],
        )
        return spec.model_copy(update={"name": f"{dataset} {variant}"})


def load_study(study: str | os.PathLike[str], *, overrides: Sequence[str] = ()) -> Study:
    """Load and validate a study, with everything it extends; its specs are found, but not loaded yet.

    Parameters
    ----------
    study
        A YAML file, or the name of a shipped study.
    overrides
        ``a.b=c``, the value in YAML.

    Raises
    ------
    SpecError
        If anything in it cannot be carried out; every problem is a line with its place.
    """
    path = _study_file(os.fspath(study))
    root = read_spec_file(path)
    for text in overrides:
        root = merge(root, override(text))
    loaded = validated(root, Study)
    fail(_clashes(loaded, root))
    files = set(_spec_files(loaded, root))
    root = root.rewrite(lambda place, node: absolute_spec(node) if place in files else node)
    return validated(root, Study)


def _study_file(name: str) -> Path:
    try:
        return find_spec_file(name)
    except SpecError:
        if Path(name).parent != Path():
            raise
    try:
        return find_spec_file(f"studies/{name}")
    except SpecError:
        raise SpecError(f"there is no study {name!r}") from None


def _spec_files(study: Study, root: Node) -> Iterator[KeyPath]:
    """Yield where a study names specs and fragments."""
    document = root.plain()
    for key, inner in (("variants", "spec"), ("datasets", "use")):
        entries = document[key]
        places = range(len(entries)) if isinstance(entries, list) else list(entries)
        for place in places:
            entry = entries[place]
            if isinstance(entry, str):
                yield (key, place)
            elif isinstance(entry[inner], list):
                yield from ((key, place, inner, index) for index in range(len(entry[inner])))
            else:
                yield (key, place, inner)


def _clashes(study: Study, root: Node) -> Iterator[Problem]:
    """Yield lists whose names end alike, so that one would stand for another."""
    for key in ("variants", "datasets"):
        written = root.plain()[key]
        if isinstance(written, list) and len(written) != len(getattr(study, key)):
            yield Problem(
                f"{dotted((key,))}: two of them have the same name; write a mapping of names",
                root.nearest((key,)).mark,
            )
