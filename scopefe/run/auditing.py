"""From a spec to an exhaustive audit of its pool (paper, Section "Candidate-Pool Quality Metrics")."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from narwhals.typing import IntoDataFrame

import scopefe
from scopefe.audit.controls import CONTROLS, SEEDS, control, matched
from scopefe.audit.model import (
    AuditFacts,
    ControlFacts,
    EnrichmentFacts,
    FreshFacts,
    GainFacts,
    LostFacts,
    MatchedFacts,
    PartFacts,
    RecallFacts,
)
from scopefe.audit.ranking import Ranking
from scopefe.components import Array
from scopefe.data.dataset import Dataset
from scopefe.errors import DataError, RunError, SpecError
from scopefe.report.model import HistogramFacts
from scopefe.report.shapes import histogram, in_bins
from scopefe.run.budgets import Watch
from scopefe.run.compiling import Compiled, compile
from scopefe.run.progress import Listener, silent
from scopefe.run.selecting import select
from scopefe.run.store import Store
from scopefe.run.workbench import Stored, Workbench
from scopefe.score.halving import round_rows
from scopefe.score.selection import Native
from scopefe.space.context import agreement
from scopefe.spec.models import Budget, GateUse, Spec
from scopefe.spec.models import Scope as Gates

BEST = (10, 50, 100, 500)
FOLDS = 5
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
EVERYTHING = GateUse(gate="all")


@dataclass(frozen=True, eq=False)
class Scored:
    """A dataset's whole universe, scored, and the means to hold pools against it.

    Parameters
    ----------
    spec
        Names the data, the operators, the baseline and the evaluator; its gates do not matter.
    frame
        A frame instead of the spec's source.
    """

    spec: Spec
    frame: IntoDataFrame | None
    store: Store
    listener: Listener

    @cached_property
    def whole(self) -> Compiled:
        """The full search, compiled."""
        return self.compile(ungated(self.spec))

    @property
    def bench(self) -> Workbench:
        """What the full search works with."""
        assert self.whole.bench is not None
        return self.whole.bench

    @property
    def data(self) -> Dataset:
        """The rows that candidates are scored on."""
        return self.whole.searched

    def compile(self, spec: Spec) -> Compiled:
        """Compile a spec on this data.

        Raises
        ------
        SpecError
            If its universe is another one.
        """
        compiled = compile(spec, data=self.frame, store=self.store, listener=self.listener)
        assert compiled.bench is not None
        compiled.bench.engine.close()
        if "whole" in self.__dict__ and compiled.universe.key != self.whole.universe.key:
            raise SpecError(f"{spec.name!r} has another universe: its features, kinds or operators differ")
        return compiled

    @cached_property
    def ids(self) -> Array:
        """int64, shape (n,): the unique candidates, in the order of the universe.

        Raises
        ------
        RunError
            If the budget has fewer.
        """
        ids = self.whole.universe.unique()
        most = self.spec.execution.budget.max_candidates
        if most is not None and len(ids) > most:
            raise RunError(
                f"the universe has {len(ids):,} unique candidates, more than "
                f"execution.budget.max_candidates: {most:,}; an audit scores them all"
            )
        return ids

    @cached_property
    def ranking(self) -> Ranking:
        """Every unique candidate by its gain on all development rows.

        These are the rows of the last round of halving, in its order, so that their gains are the same ones.
        """
        return Ranking(self.whole.universe, self.ids, self._gains(self.data, 1, "audit")[:, 0])

    @cached_property
    def fresh(self) -> Ranking:
        """Every unique candidate by its cross-fitted gain on the test rows alone.

        Raises
        ------
        DataError
            If the test rows are too few, or all alike.
        """
        return Ranking(self.whole.universe, self.ids, self.fresh_gains.mean(axis=1))

    @cached_property
    def fresh_gains(self) -> Array:
        """float64, shape (n, folds): gains on the test rows; NaN where a candidate failed. See `fresh`."""
        target = self.data.labels.values[self.data.rows.test]
        if len(target) < FOLDS:
            raise DataError(f"{len(target)} test rows are too few for {FOLDS} folds of a fresh audit")
        data = self.data.fresh(self.spec.seed)
        if data.labels.task == "regression":
            if np.ptp(data.labels.values[data.rows.train]) == 0:
                raise DataError("the target is constant on the test rows: a fresh audit needs more of them")
        elif np.count_nonzero(np.bincount(target.astype(np.int64)) >= FOLDS) < 2:
            raise DataError(f"fewer than two classes have {FOLDS} test rows, one per fold of a fresh audit")
        return self._gains(data, FOLDS, "fresh")

    def _gains(self, data: Dataset, folds: int, step: str) -> Array:
        """Return the gains of all unique candidates on all rows of some data, float64, shape (n, folds)."""
        universe, bench, settings = self.whole.universe, self.bench, self.spec.baseline
        ids, rng = self.ids, random.Random(self.spec.seed)
        with bench.step("baseline", settings.folds if settings.boosting else None) as advance:
            scores = bench.baseline(data, None, settings.folds, advance)
        bench.ready(data)
        data.development.forget()
        count = len(data.rows.train)
        block = bench.block(data, None, count, scores)
        rows, fitted = round_rows(count, len(data.rows.selection), 1, rng)[-1]
        known = Stored(bench, data, universe, bench.baseline_content(data, None, settings.folds))
        native = Native(bench.evaluator, bench.engine, known)
        with bench.step(step, len(ids)) as advance:
            return native.gains(universe, ids, block, rows, fitted, folds, stage=step, advance=advance)[0]

    @cached_property
    def selected(self) -> Array:
        """int64 ids that the full search selects, best first."""
        _, _, found = select(self.whole, self.whole.scope.ids(), Watch(Budget()))
        return found.attribution.candidates[: self.spec.selection.most]


def ungated(spec: Spec, place: str | None = None) -> Spec:
    """Return a spec whose gates admit everything, or only those of one place."""
    gates = Gates(
        **{p: EVERYTHING if place in (None, p) else getattr(spec.scope, p) for p in ("pairs", "operators")}
    )
    native = spec.selection.model_copy(update={"engine": "native"})
    return spec.model_copy(update={"scope": gates, "selection": native})


def audit_pool(
    spec: Spec,
    *,
    data: IntoDataFrame | None = None,
    against: Mapping[str, Spec] | None = None,
    seeds: int = SEEDS,
    fresh: bool = False,
    scored: Scored | None = None,
    store: Store | None = None,
    listener: Listener = silent,
) -> AuditFacts:
    """Score every candidate of a spec's universe, and hold its pool against them.

    Parameters
    ----------
    spec
        From `scopefe.load_spec`.
    data
        A frame instead of the spec's source.
    against
        Further specs on the same universe, by name, to compare the pool with at the same size.
    seeds
        Number of random pools of each control.
    fresh
        Score every candidate on the test rows too, in five folds, and hold the pool against that.
    scored
        The universe, where it has been scored already.
    store
        Results shared with other specs of this process.

    Raises
    ------
    ScopefeError
        If a spec, its data or a component is at fault.
    """
    scored = scored or Scored(spec, data, store or Store(), listener)
    with closing(scored.bench.engine):
        return _audit(scored, spec, against or {}, seeds, fresh)


def _audit(scored: Scored, spec: Spec, against: Mapping[str, Spec], seeds: int, fresh: bool) -> AuditFacts:
    bench, compiled = scored.bench, scored.compile(spec)
    unseen = scored.fresh if fresh and len(scored.data.rows.test) else None
    ranking = scored.ranking
    inside = ranking.members(compiled.scope)
    with bench.step("controls"):
        controls = [_control(ranking, inside, name, seeds) for name in CONTROLS] if inside.any() else []
        compared = [
            _matched(ranking, inside, name, scored.compile(other), seeds) for name, other in against.items()
        ]
    enrichment, counted = ranking.enrichment(inside), histogram(ranking.gains)
    return AuditFacts(
        scopefe=scopefe.__version__,
        name=spec.name,
        dataset=bench.about("audit", scored.data)["dataset"],
        fingerprint=scored.data.fingerprint,
        protocol=compiled.protocol,
        train_rows=len(scored.data.rows.train),
        selection_rows=len(scored.data.rows.selection),
        failed=int(np.isnan(ranking.gains).sum()),
        enrichment=EnrichmentFacts.of(enrichment),
        inside=_gains(ranking.gains[inside], counted),
        outside=_gains(ranking.gains[~inside], counted),
        gain_range=None if counted is None else (counted.low, counted.high),
        operators=_by_operator(ranking, inside),
        clusters=_by_cluster(ranking, inside, compiled.clusters),
        recall=_recall(ranking, inside),
        selected=_lost(scored, spec, inside),
        controls=controls,
        matched=compared,
        fresh=None if unseen is None else _fresh(scored, unseen, inside),
        seconds=_seconds(bench),
    )


def _fresh(scored: Scored, ranking: Ranking, inside: Array) -> FreshFacts:
    return FreshFacts(
        rows=len(scored.data.rows.test),
        folds=FOLDS,
        agreement=agreement(scored.fresh_gains),
        enrichment=EnrichmentFacts.of(ranking.enrichment(inside)),
        tenth=ranking.enrichment_at(inside, 0.1),
        recall=_recall(ranking, inside),
    )


def _recall(ranking: Ranking, inside: Array) -> list[RecallFacts]:
    return [
        RecallFacts(best=k, found=round(k * share), recall=share)
        for k, share in ranking.recall(inside, BEST).items()
    ]


def _seconds(bench: Workbench) -> dict[str, float]:
    seconds: dict[str, float] = defaultdict(float)
    for timing in bench.times:
        seconds[timing.step] += timing.seconds - timing.stored_seconds
    return dict(seconds)


def _control(ranking: Ranking, inside: Array, name: str, seeds: int) -> ControlFacts:
    found = control(ranking, inside, name, seeds=seeds)
    return ControlFacts(control=name, seeds=seeds, median_difference=found.median_difference, p=found.p)


def _matched(ranking: Ranking, inside: Array, name: str, other: Compiled, seeds: int) -> MatchedFacts:
    budget, first, second = matched(ranking, inside, ranking.members(other.scope), seeds=seeds)
    low, median, high = np.quantile([first, second], (0.05, 0.5, 0.95), axis=1).tolist()
    return MatchedFacts(
        against=name,
        budget=budget,
        enrichment=median[0],
        range=(low[0], high[0]),
        other=median[1],
        other_range=(low[1], high[1]),
    )


def _gains(gains: Array, counted: HistogramFacts | None) -> GainFacts:
    """Describe gains, counted in the bins of a histogram of all."""
    known = gains[~np.isnan(gains)]
    quantiles = np.quantile(known, QUANTILES).tolist() if len(known) else []
    return GainFacts(
        candidates=len(gains),
        positive=int((known > 0).sum()),
        quantiles={f"{q:g}": float(v) for q, v in zip(QUANTILES, quantiles, strict=False)},
        counts=[] if counted is None else in_bins(known, counted.low, counted.high, len(counted.counts)),
    )


def _by_operator(ranking: Ranking, inside: Array) -> list[PartFacts]:
    names = [operator.name for operator in ranking.universe.operators]
    return _parts(ranking, inside, ranking.decoded[0], names)


def _by_cluster(ranking: Ranking, inside: Array, clusters: Array | None) -> list[PartFacts]:
    """Two-input candidates inside each cluster, and those across clusters."""
    if clusters is None:
        return []
    _, left, right = ranking.decoded
    count = int(clusters.max()) + 1
    label = np.where(clusters[left] == clusters[right], clusters[left], count)
    names = [f"cluster {number}" for number in range(count)] + ["across clusters"]
    return _parts(ranking, inside, np.where(ranking.unary, -1, label), names)


def _parts(ranking: Ranking, inside: Array, labels: Array, names: Sequence[str]) -> list[PartFacts]:
    size = int(inside.sum())
    best = ranking.ranks <= size
    parts = []
    for label, name in enumerate(names):
        part = labels == label
        universe, good = int(part.sum()), int((part & best).sum())
        parts.append(
            PartFacts(
                part=name,
                universe=universe,
                pool=int((part & inside).sum()),
                best=good,
                hits=int((part & best & inside).sum()),
                enrichment=good / size / (universe / len(ranking)) if size and universe else None,
            )
        )
    return parts


def _lost(scored: Scored, spec: Spec, inside: Array) -> list[LostFacts]:
    """Where the features that the full search selects stand, and which gate leaves them out."""
    ranking, selected = scored.ranking, scored.selected
    by_pairs = ranking.members(scored.compile(ungated(spec, "operators")).scope)
    places = ranking.places(selected)
    facts = []
    for rank, (place, expression) in enumerate(
        zip(places.tolist(), scored.whole.universe.expressions(selected), strict=True), start=1
    ):
        gain, kept = float(ranking.gains[place]), bool(inside[place])
        facts.append(
            LostFacts(
                rank=rank,
                formula=expression.formula,
                gain=None if np.isnan(gain) else gain,
                gain_rank=int(ranking.ranks[place]),
                in_pool=kept,
                lost_by=None if kept else "operators" if by_pairs[place] else "pairs",
            )
        )
    return facts
