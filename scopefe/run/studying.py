"""From a study to its facts: runs what is missing, and keeps every run in the study's folder."""

from __future__ import annotations

import platform
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

import scopefe
from scopefe.audit.model import AuditFacts
from scopefe.data.dataset import Dataset
from scopefe.errors import DataError, SpecError
from scopefe.evaluate.learners import version_of
from scopefe.recipe.arrays import atomically
from scopefe.report import build, tracking
from scopefe.report.model import Report
from scopefe.report.study import LegFacts, ProbeSeedFacts, StudyFacts, TableFacts
from scopefe.run.auditing import Scored, audit_pool
from scopefe.run.code import code_key
from scopefe.run.engines import cores
from scopefe.run.executing import execute
from scopefe.run.progress import Event, Listener, silent
from scopefe.run.store import Store
from scopefe.run.workbench import Workbench
from scopefe.space.graph import key_of
from scopefe.spec.environment import expanded
from scopefe.spec.loader import load_spec
from scopefe.spec.models import FileSource, Spec, SqlSource
from scopefe.spec.study import Study, StudyAudit

T = TypeVar("T")


@dataclass(frozen=True)
class Leg:
    """A run of a study."""

    dataset: str
    variant: str
    split: int | None
    spec: Spec


@dataclass(frozen=True)
class Work:
    """What a study has to do on a dataset: runs, and audits of variants, first the subject's."""

    dataset: str
    legs: list[Leg]
    audited: dict[str, Spec]

    @property
    def spec(self) -> Spec:
        """Any spec on the dataset."""
        return self.legs[0].spec if self.legs else next(iter(self.audited.values()))


@dataclass(eq=False)
class Folder:
    """What a study has computed, a file each; its name has a key of all that it depends on.

    Parameters
    ----------
    path
        The folder; made when something is kept.
    reuse
        Whether what is there already is taken.
    """

    path: Path
    reuse: bool = True

    def kept(self, name: str, key: str, kind: type[T], compute: Callable[[], T]) -> T:
        """Return what is kept under a name and key; compute and keep it if it is not there."""
        adapter = TypeAdapter(kind)
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)
        file = self.path / f"{plain}-{key[:16]}.json"
        if self.reuse:
            with suppress(OSError, ValidationError):
                return adapter.validate_json(file.read_bytes())
        value = compute()
        atomically(file, lambda path: path.write_bytes(adapter.dump_json(value, indent=1)))
        return value


def run_study(study: Study, folder: Path, *, reuse: bool = True, listener: Listener = silent) -> StudyFacts:
    """Run what is missing of a study, and return all of it.

    A run that was made before, with the same spec, data and code, is not made again.

    Parameters
    ----------
    study
        From `scopefe.load_study`.
    folder
        Where runs are kept.
    reuse
        Whether runs that are kept there already are taken.
    listener
        Told of progress: the study's own, and that of its runs.

    Raises
    ------
    ScopefeError
        If a spec, its data or a component is at fault, or no dataset is there.
    """
    return Studying(study, Folder(folder / "runs", reuse), listener)()


@dataclass(eq=False)
class Studying:
    """A study under way."""

    study: Study
    folder: Folder
    listener: Listener
    done: int = 0
    total: int = 0
    absent: dict[str, str] = field(default_factory=dict)

    def __call__(self) -> StudyFacts:
        """Run it, one dataset after the other; all specs are loaded before."""
        study = self.study
        work = [Work(name, list(self._legs(name)), self._audited(name)) for name in study.datasets]
        work = [part for part in work if self._present(part)]
        without = next((leg for part in work for leg in part.legs if not leg.spec.evaluation.seeds), None)
        if without is not None:
            raise SpecError(f"{without.spec.name}: evaluation.seeds is 0: there would be nothing to compare")
        if not work:
            raise DataError(f"study {study.name!r}: no dataset is there, first {self._first_absent()}")
        probed = bool(study.audit and study.audit.probe_seeds)
        self.total = sum(len(part.legs) + len(part.audited) + probed for part in work)
        self._tell("started")
        facts = StudyFacts(
            scopefe=scopefe.__version__,
            name=study.name,
            description=study.description,
            versions=build.versions(
                leg.spec.evaluation.learner.learner for part in work for leg in part.legs
            ),
            machine=f"{platform.system()} {platform.machine()}, {cores()} cores",
            reference=study.reference,
            subject=study.subject,
            inter=study.inter,
            evaluations=list(study.evaluations),
            absolute_margin=study.margins.absolute,
            relative_margin=study.margins.relative,
            datasets=[],
            absent=self.absent,
            legs=[],
            audits={},
            probe_seeds={},
        )
        experiment = next((leg.spec.report.mlflow for part in work for leg in part.legs), None)
        with tracking.nested(experiment, study.name):
            for part in work:
                self._dataset(part, facts)
        self._tell("finished")
        return facts

    def _legs(self, dataset: str) -> Iterator[Leg]:
        study, splits = self.study, self.study.splits
        if splits is None or splits.own:
            for evaluation in study.evaluations:
                for seed in study.seeds:
                    for variant in study.variants:
                        chosen = [f"seed={seed}", f"evaluation.protocol={evaluation}"]
                        yield Leg(dataset, variant, None, study.spec(dataset, variant, *chosen))
        if splits is None:
            return
        variants = list(dict.fromkeys([study.reference, study.subject, *splits.variants]))
        shares = splits.model_dump_json(include={"train", "selection", "test", "development"})
        for number in range(splits.count):
            for variant in variants:
                chosen = [
                    f"data.split={{by: fractions, seed: {splits.seed + number}, {shares[1:]}",
                    f"seed={study.seeds[0]}",
                    f"evaluation.protocol={study.evaluations[0]}",
                    f"evaluation.seeds={splits.evaluation_seeds}",
                ]
                yield Leg(dataset, variant, number + 1, study.spec(dataset, variant, *chosen))

    def _audited(self, dataset: str) -> dict[str, Spec]:
        study = self.study
        return {v: study.spec(dataset, v, f"seed={study.seeds[0]}") for v in study.audited}

    def _present(self, work: Work) -> bool:
        source = work.spec.data.source
        if isinstance(source, FileSource) and not Path(expanded(source.path)).is_file():
            self.absent[work.dataset] = Path(source.path).name
            return False
        return True

    def _first_absent(self) -> str:
        return next(f"{file} of {name}" for name, file in self.absent.items())

    def _dataset(self, work: Work, facts: StudyFacts) -> None:
        """Run all legs of a dataset with one store, then its audits."""
        store, name = Store(), work.dataset
        facts.datasets.append(self._table(name, work.spec, store))
        facts.legs += [
            LegFacts.of(self._report(leg, store), dataset=name, variant=leg.variant, split=leg.split)
            for leg in work.legs
        ]
        asked = self.study.audit
        if asked is None:
            return
        scored = Scored(work.audited[self.study.subject], None, store, self.listener)
        audits = {v: self._audit(name, v, spec, scored, asked) for v, spec in work.audited.items()}
        facts.audits[name] = audits.pop(self.study.subject)
        if audits:
            facts.variant_audits[name] = audits
        if asked.probe_seeds:
            facts.probe_seeds[name] = self._probe_seeds(name, scored, asked)

    def _table(self, name: str, spec: Spec, store: Store) -> TableFacts:
        def compute() -> TableFacts:
            return _table(name, Workbench(spec, store, self.listener).load())

        return self.folder.kept(f"{name}-table", _key("table", spec), TableFacts, compute)

    def _report(self, leg: Leg, store: Store) -> Report:
        place = "" if leg.split is None else f"-split{leg.split}"
        protocol = leg.spec.evaluation.protocol
        name = f"{leg.dataset}-{leg.variant}{place}-seed{leg.spec.seed}-{protocol}"

        def compute() -> Report:
            report = execute(leg.spec, store=store, listener=self.listener, write=False).report
            if report.evaluation is None:
                raise DataError(f"{leg.spec.name}: there is no evaluation: no test rows, or no time")
            return report

        report = self.folder.kept(name, _key("run", leg.spec), Report, compute)
        self._advance()
        return report

    def _audit(self, name: str, variant: str, spec: Spec, scored: Scored, asked: StudyAudit) -> AuditFacts:
        named = asked.against if variant == self.study.subject else []
        against = {other: self.study.spec(name, other, f"seed={spec.seed}") for other in named}
        others = {n: _plain(other) for n, other in against.items()}
        key = _key("audit", spec, _plain(scored.spec), asked.controls, asked.fresh, others)

        def compute() -> AuditFacts:
            return audit_pool(spec, against=against, seeds=asked.controls, fresh=asked.fresh, scored=scored)

        found = self.folder.kept(f"{name}-{variant}-audit", key, AuditFacts, compute)
        self._advance()
        return found

    def _probe_seeds(self, name: str, scored: Scored, asked: StudyAudit) -> list[ProbeSeedFacts]:
        spec = scored.spec

        def of(seed: int) -> ProbeSeedFacts:
            other = self.study.spec(
                name, self.study.subject, f"seed={spec.seed}", f"scope.operators.seed={seed}"
            )
            compiled = scored.compile(other)
            found = scored.ranking.enrichment(scored.ranking.members(compiled.scope))
            probe = build.probe_facts(compiled.facts) or []
            return ProbeSeedFacts(
                seed=seed,
                operators=[p.operator for p in probe if p.kept],
                pool=compiled.space.pool,
                enrichment=found.value if found.pool else None,
            )

        def compute() -> list[ProbeSeedFacts]:
            return [of(seed) for seed in asked.probe_seeds]

        key = _key("probe seeds", spec, asked.probe_seeds)
        result = self.folder.kept(f"{name}-probe-seeds", key, list[ProbeSeedFacts], compute)
        self._advance()
        return result

    def _advance(self) -> None:
        self.done += 1
        self._tell("advanced")

    def _tell(self, happened: str) -> None:
        self.listener(Event(self.study.name, "study", happened, self.done, self.total))  # type: ignore[arg-type]


def _key(what: str, spec: Spec, *others: object) -> str:
    """Return a key of the results of a spec: its values, the files they name, and the code."""
    if isinstance(spec.data.source, SqlSource):
        return key_of([what, time.time_ns()])  # no one knows whether the query gives what it gave before
    components = spec.origin.components
    own = [*components.operators, *components.pair_gates, *components.operator_gates]
    learner = version_of(spec.evaluation.learner.learner)
    return key_of([what, _plain(spec), list(_named(spec, {})), code_key(own), learner, list(others)])


def _named(spec: Spec, seen: dict[str, Spec]) -> Iterator[object]:
    """Yield size and time of the files that a spec names; of specs that its gates match, the values."""
    for text in sorted(set(_texts(_plain(spec))) - set(seen)):
        path = Path(text)
        if not path.is_absolute() or not path.is_file():
            continue
        if path.suffix not in (".yaml", ".yml"):
            yield [path.stat().st_size, path.stat().st_mtime_ns]
            continue
        origin = spec.origin
        seen[text] = load_spec(
            text, overrides=origin.overrides, fragments=origin.fragments, modules=origin.modules
        )
        yield _plain(seen[text])
        yield from _named(seen[text], seen)


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in JSON values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(part)


def _plain(spec: BaseModel) -> Mapping[str, object]:
    return spec.model_dump(mode="json", by_alias=True, exclude={"execution", "report"})


def _table(name: str, data: Dataset) -> TableFacts:
    kinds = data.table.kinds
    return TableFacts(
        name=name,
        task=data.labels.task,
        **data.rows.counts(),
        numerical=kinds.count("numerical"),
        ordinal=kinds.count("ordinal"),
        categorical=kinds.count("categorical"),
    )
