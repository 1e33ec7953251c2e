"""From a spec to a counted candidate space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from narwhals.typing import IntoDataFrame

from scopefe.components import Array
from scopefe.data.dataset import Dataset
from scopefe.data.table import FeatureKind
from scopefe.errors import ComponentError, SpecError
from scopefe.report.model import ClusterCount, Count, GateCount, OperatorCount, SpaceFacts
from scopefe.run.code import code_key
from scopefe.run.gating import admit
from scopefe.run.progress import Listener, silent
from scopefe.run.store import Store
from scopefe.run.workbench import Context, Workbench
from scopefe.score.categories import LEVELS
from scopefe.space.context import NeedsDataError, Sample
from scopefe.space.graph import Graph, key_of
from scopefe.space.pool import read_pool, write_pool
from scopefe.space.scope import Scope
from scopefe.space.universe import Universe
from scopefe.spec.check import resolved_operators
from scopefe.spec.loader import load_spec
from scopefe.spec.models import Spec

ENOUGH = 5000
"""Selection rows that say surely enough how many features help."""


@dataclass(eq=False, repr=False)
class Compiled:
    """A spec's counted candidate space.

    Parameters
    ----------
    spec
        The spec.
    universe
        Every candidate.
    scope
        What the gates leave; an upper bound where `bounded` names gates that need data.
    graph
        The steps up to the pool, with keys.
    facts
        What the gates noted: ``clusters`` (cluster of each feature), ``probe`` (scores), and so on.
    gates
        What each gate was given, and what it left.
    remarks
        What the gates want said in the report.
    bounded
        Places of the gates that could not be carried out without data.
    """

    spec: Spec
    universe: Universe
    scope: Scope
    graph: Graph
    facts: dict[str, Any] = field(default_factory=dict)
    gates: list[GateCount] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    bounded: list[str] = field(default_factory=list)
    bench: Workbench | None = None
    data: Dataset | None = None

    def __repr__(self) -> str:
        return f"<Compiled {self.spec.name!r}: {len(self.scope):,} of {self.universe.size:,} candidates>"

    @property
    def decides(self) -> Literal["selection", "parts"] | None:
        """What ``keep: auto`` decides on; None if a number of features is kept."""
        settings = self.spec.selection
        if settings.keep != "auto":
            return None
        if settings.unseen != "auto":
            return settings.unseen
        return "selection" if self.data and len(self.data.rows.selection) >= ENOUGH else "parts"

    @property
    def protocol(self) -> Literal["cross-fitted", "train-only", "nested"]:
        """What sees the selection rows; nothing, if they are to decide how many features are kept."""
        return "nested" if self.decides == "selection" else self.spec.selection.protocol

    @cached_property
    def searched(self) -> Dataset:
        """The rows that candidates are scored on: the data, or its training rows divided again."""
        assert self.data is not None
        return self.data.nested(self.spec.seed) if self.protocol == "nested" else self.data

    @cached_property
    def gated(self) -> Dataset:
        """The rows that operator gates see: as `searched`, or only the training rows of these."""
        assert self.data is not None
        return self.data.nested(self.spec.seed) if self.protocol == "train-only" else self.searched

    def within(self, data: Dataset) -> Compiled:
        """Return the space as compiled on other rows of the same table; a pool from a file stays as it is."""
        graph = Graph()
        graph.add("universe", "enumeration", reads=key_of([self.universe.key, data.fingerprint]))
        if "operators" not in self.graph:
            return replace(self, data=data, graph=graph)
        everything = Scope.everything(self.universe)
        part = replace(
            self, data=data, graph=graph, scope=everything, facts={}, gates=[], remarks=[], bounded=[]
        )
        assert self.bench is not None
        for place in ("pairs", "operators"):
            _gate(part, place, self.bench.frame, ())
        return part

    @property
    def name(self) -> str:
        """Name of the spec."""
        return self.spec.name

    @property
    def pool_size(self) -> int:
        """Raw number of candidates in the pool."""
        return len(self.scope)

    @property
    def clusters(self) -> Array | None:
        """Cluster of each feature, where a gate clusters them."""
        labels = self.facts.get("clusters")
        return None if labels is None else np.array(labels, dtype=np.int64)

    @property
    def space(self) -> SpaceFacts:
        """The counts, as the report has them."""
        return count(self.universe, self.scope, self.clusters).model_copy(update={"gates": self.gates})

    def write_pool(self, path: Path) -> int:
        """Write the concrete enumeration to Parquet and return its length; see `scopefe.space.pool`."""
        return write_pool(self.scope, path, self.clusters)


def compile(
    spec: Spec,
    *,
    data: IntoDataFrame | None = None,
    static: bool = False,
    pool: Path | None = None,
    store: Store | None = None,
    listener: Listener = silent,
) -> Compiled:
    """Compile a spec into a counted candidate space; only gates that need scores have candidates scored.

    Parameters
    ----------
    spec
        From `scopefe.load_spec`.
    data
        A frame instead of the spec's source.
    static
        Use the kinds given in the spec only, and read no data; gates that need data are left open.
    pool
        An enumeration written by `Compiled.write_pool`, taken instead of what the gates leave.
    store
        Results shared with other specs of this process; ``execution.cache`` says what is kept beyond it.
    listener
        Told of progress.

    Raises
    ------
    ScopefeError
        If the spec, its data or a component is at fault.
    """
    bench = Workbench(spec, store or Store(), listener, data)
    try:
        return _compile(spec, data, static, pool, bench, ())
    except BaseException:
        bench.engine.close()
        raise


def _compile(
    spec: Spec,
    frame: IntoDataFrame | None,
    static: bool,
    pool: Path | None,
    bench: Workbench,
    above: tuple[str, ...],
) -> Compiled:
    graph = Graph()
    if static:
        dataset, kinds = None, _static_kinds(spec)
    else:
        with bench.step("data"):
            dataset = bench.load()
            kinds = dict(zip(dataset.table.names, dataset.table.kinds, strict=True))
    source = spec.data.model_dump(mode="json")
    graph.add("source", source["source"]["type"], reads=dataset.fingerprint if dataset else key_of(source))
    graph.add("kinds", "openfe-rule", ["source"], source["features"])
    operators = resolved_operators(spec)
    levels = LEVELS if spec.selection.categories == "declared" else None
    universe = Universe(list(kinds), list(kinds.values()), operators, spec.operators.directions, levels)
    graph.add(
        "universe",
        "enumeration",
        ["kinds"],
        {
            "operators": [o.name for o in operators],
            "directions": spec.operators.directions,
            "categories": spec.selection.categories,
        },
        version=key_of([o.version for o in operators]),
    )
    result = Compiled(spec, universe, Scope.everything(universe), graph, bench=bench, data=dataset)
    if pool is not None:
        result.scope = read_pool(pool, universe)
        graph.add("pool", "file", ["universe"], reads=key_of(result.scope.ids().tolist()))
        return result
    for place in ("pairs", "operators"):
        _gate(result, place, frame, above)
    graph.add("pool", "scope", ["operators"])
    return result


def _gate(result: Compiled, place: str, frame: IntoDataFrame | None, above: tuple[str, ...]) -> None:
    """Carry out one of the two gates of a spec, and add it to the graph with what it computed."""
    spec, bench = result.spec, result.bench
    assert bench is not None
    components = spec.origin.components
    registry = components.pair_gates if place == "pairs" else components.operator_gates
    expression = getattr(spec.scope, place)

    version = key_of(sorted(g.version for g in registry))
    code = code_key([*registry, *(result.universe.operators if place == "operators" else [])])

    def match(name: str) -> Scope:
        return _matched(result, name, frame, above)

    with bench.step(place) as advance:
        if result.data is None:
            context: Any = StaticContext(result.universe)
        else:
            training_only = place == "pairs"
            rows = result.data if training_only else result.gated
            context = Context(bench, rows, result.universe, match, training_only, code, advance)
        try:
            result.scope = admit(
                expression, registry, context, result.scope, partial(_counted, result, place, context)
            )
        except NeedsDataError:
            result.bounded.append(f"scope.{place}")
        except ComponentError as error:
            raise SpecError(str(error), spec.origin.mark("scope", place)) from error
    result.facts |= context.facts
    result.remarks += context.remarks
    inputs = ["universe" if place == "pairs" else "pairs"]
    for name, parameters in context.artefacts.items():
        inputs.append(result.graph.add(name, name, ["universe"], parameters))
    parameters = expression.model_dump(mode="json", by_alias=True)
    result.graph.add(place, registry.sort, inputs, parameters, version=version)


def _counted(result: Compiled, place: str, context: Any, gate: str, came_in: Scope, left: Scope) -> None:
    """Note what a gate was given and what it left."""
    removed = len(came_in) - len(left)
    result.gates.append(
        GateCount(
            place=place, gate=gate, came_in=len(came_in), removed=removed, added=dict(context.additions)
        )
    )
    context.additions.clear()


def _matched(result: Compiled, name: str, frame: IntoDataFrame | None, above: tuple[str, ...]) -> Scope:
    """Compile the spec that a gate matches, with the same fragments and overrides, on the same rows."""
    if name in above:
        raise SpecError(f"match goes in a circle: {' → '.join([*above, name])}")
    origin, bench = result.spec.origin, result.bench
    assert bench is not None
    other = load_spec(name, overrides=origin.overrides, fragments=origin.fragments, modules=origin.modules)
    compiled = _compile(other, frame, False, None, bench.beside(other), (*above, name))
    if compiled.universe.key != result.universe.key:
        raise SpecError(f"match {name!r} has another universe: its features, kinds or operators differ")
    if result.data is not None and result.data is not compiled.data:
        compiled = compiled.within(result.data)
    return compiled.scope


def _static_kinds(spec: Spec) -> dict[str, FeatureKind]:
    kinds = dict(spec.data.features.kinds)
    if not kinds:
        raise SpecError(
            "without data, kinds must be given: write data.features.kinds: {COLUMN: numerical, …}",
            spec.origin.mark("data", "features"),
        )
    return kinds


@dataclass(eq=False)
class StaticContext:
    """A gate context where only the schema is known: asking for more raises `NeedsDataError`."""

    universe: Universe
    facts: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    additions: dict[str, int] = field(default_factory=dict)
    artefacts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def table(self) -> Any:
        """There are no rows."""
        raise NeedsDataError("rows")

    def groups(self) -> Any:
        """There are no rows."""
        raise NeedsDataError("groups")

    def rng(self, name: str, seed: int) -> Any:
        """What is drawn would be counted, but never be the same as with data."""
        raise NeedsDataError("draws")

    def gains(self, candidates: Array, *, sample: Sample, folds: int) -> Array:
        """There are no rows."""
        raise NeedsDataError("gains")

    def gradients(self) -> Any:
        """There are no rows."""
        raise NeedsDataError("gradients")

    def splits(self) -> Any:
        """There are no rows."""
        raise NeedsDataError("splits")

    def map(self, work: Any, numbers: range) -> Any:
        """Only gates with data have work to do."""
        raise NeedsDataError("work")

    def matched(self, match: str) -> Scope:
        """The other spec may need rows."""
        raise NeedsDataError("matched")

    def remember(
        self, name: str, parameters: Mapping[str, Any], compute: Any, *, by_target: bool = True
    ) -> Any:
        """Only gates with data have artefacts."""
        raise NeedsDataError(name)

    def note(self, name: str, fact: Any) -> None:
        """Add a fact."""
        self.facts[name] = fact

    def remark(self, sentence: str) -> None:
        """Nobody reads the notes of a space without data."""

    def added(self, candidates: int, why: str) -> None:
        """Only gates with data add any."""


def count(universe: Universe, scope: Scope, clusters: Array | None = None) -> SpaceFacts:
    """Count a scope, per operator and per cluster, without enumerating it where it is factored."""
    everything = Scope.everything(universe)

    def counted(part: Scope, operator: int) -> Count:
        return Count(raw=part.count(operator), unique=part.count_unique(operator))

    operators = [
        OperatorCount(
            operator=o.name,
            signature=o.signature,
            arity=o.arity,
            universe=counted(everything, i),
            pool=counted(scope, i),
        )
        for i, o in enumerate(universe.operators)
    ]

    def total(side: str) -> Count:
        counts = [getattr(o, side) for o in operators]
        return Count(raw=sum(c.raw for c in counts), unique=sum(c.unique for c in counts))

    whole, pool = total("universe"), total("pool")
    inside, across = _by_cluster(universe, scope, clusters) if clusters is not None else (None, None)
    return SpaceFacts(
        universe=whole,
        pool=pool,
        reduction=1 - pool.raw / whole.raw if whole.raw else 0.0,
        operators=operators,
        clusters=inside,
        across_clusters=across,
    )


def _by_cluster(universe: Universe, scope: Scope, clusters: Array) -> tuple[list[ClusterCount], int]:
    per_cluster, across = scope.count_by_label(clusters)
    counts = [
        ClusterCount(
            cluster=int(c),
            features=[n for n, label in zip(universe.names, clusters, strict=True) if label == c],
            candidates=int(per_cluster[c]),
        )
        for c in range(int(clusters.max()) + 1)
    ]
    return counts, across
