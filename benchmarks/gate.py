"""The gate ``quantised``, and runs of ``recommended``.

The gate, on one thread, is compared with scoring every candidate as a search does: a model of its own,
learned from training rows and measured on selection rows; timed on a sample of candidates. On a large table
it has all cores, and is compared with a fit of LightGBM of 100 trees on the same rows. Of more than 20,000
rows the gate scores on so many. The baseline's scores are computed before. A whole run of ``recommended``,
which decides how many features to keep, is compared with the openfe package's full search.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import lightgbm as lgb
import numpy as np
from scopefe.gates.quantised import quantised

from benchmarks.harness import Comparison, Scale, Settings, interleave, seconds
from benchmarks.package import kept_run
from benchmarks.tables import Data, generated, part, real
from scopefe.components import Array
from scopefe.run.code import code_key
from scopefe.run.compiling import Compiled
from scopefe.run.workbench import Context
from scopefe.space.context import Sample
from scopefe.space.scope import Scope

ROWS: Mapping[Scale, Sequence[int]] = {"tiny": (400,), "quick": (16_000,), "full": (16_000, 64_000)}
LARGE: Mapping[Scale, tuple[int, int]] = {"tiny": (500, 8), "quick": (50_000, 20), "full": (1_000_000, 100)}
WHOLE: Mapping[Scale, Sequence[str]] = {"tiny": (), "quick": (), "full": ("telecom", "nomao")}
TREES, SAMPLED = 100, 200


def gate(settings: Settings) -> Iterator[Comparison]:
    """Compare the gate with exhaustive scoring and with a fit of LightGBM, and runs with the package's."""
    for rows in ROWS[settings.scale]:
        yield with_exhaustive(part("telecom", rows), settings)
    yield with_a_fit(generated("binary", *LARGE[settings.scale]), settings)
    if WHOLE[settings.scale]:
        for data in real(WHOLE[settings.scale], settings.scale):
            yield with_the_package(data, settings)


def with_exhaustive(data: Data, settings: Settings) -> Comparison:
    """Compare the seconds per candidate."""
    gating = Gating(data.compile("openfe", f"baseline.max_trees={TREES}", "execution.jobs=1"))
    calls = {"gains": gating.seconds_per_gain, "gate": lambda: gating.seconds() / len(gating.candidates)}
    times = interleave(calls, settings.repeats)
    return Comparison(
        group="seconds per candidate, one thread",
        name=data.name,
        against=f"gains of {SAMPLED} candidates",
        peer=times["gains"],
        scopefe=times["gate"],
        note=f"{len(gating.candidates):,} candidates",
    )


def with_a_fit(data: Data, settings: Settings) -> Comparison:
    """Compare the gate with one model on the original features."""
    gating = Gating(data.compile("openfe", f"baseline.max_trees={TREES}"))
    assert data.frame is not None
    target = data.frame["y"]
    text = dict.fromkeys(data.frame.select_dtypes(exclude="number").columns, "category")
    features = data.frame.drop(columns="y").astype(text)
    model = lgb.LGBMClassifier(n_estimators=TREES, verbose=-1)
    calls = {"fit": lambda: seconds(lambda: model.fit(features, target)), "gate": gating.seconds}
    times = interleave(calls, settings.repeats)
    return Comparison(
        group="a large table",
        name=data.name,
        against=f"a fit of LightGBM, {TREES} trees",
        peer=times["fit"],
        scopefe=times["gate"],
        reading="cost",
        note=f"{len(gating.candidates):,} candidates",
    )


def with_the_package(data: Data, settings: Settings) -> Comparison:
    """Compare RUN of recommended with the package's full search, which is run only once."""
    package = sum(kept_run(data.compile("openfe"), data.name, settings).seconds.values())
    reports = [data.execute("recommended", "selection.keep=auto") for _ in range(settings.repeats)]
    return Comparison(
        group="RUN of recommended",
        name=data.name,
        against="openfe package, full search, one run",
        peer=[package] * settings.repeats,
        scopefe=[report.volatile.run_seconds for report in reports],
        note=f"{len(reports[0].selection.selected)} features kept",
    )


@dataclass(eq=False)
class Gating:
    """A table's whole universe, whose baseline is known, to be gated again and again with other seeds."""

    compiled: Compiled
    seeds: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        compiled = self.compiled
        assert compiled.bench is not None
        self.scope = Scope.everything(compiled.universe)
        self.context = Context(
            compiled.bench, compiled.gated, compiled.universe, lambda _: self.scope, False, code_key([])
        )
        ids = self.scope.ids()
        self.candidates: Array = ids[compiled.universe.canonical(ids) == ids]
        self.context.gradients()
        self.context.splits()
        self.seconds_per_gain()

    def seconds(self) -> float:
        """Score all candidates on histograms."""
        seed = next(self.seeds)
        return seconds(lambda: quantised(self.context, self.scope, seed=seed))

    def seconds_per_gain(self) -> float:
        """Score some candidates by models of their own, others each time."""
        rng = np.random.default_rng(next(self.seeds))
        chosen = rng.choice(self.candidates, min(SAMPLED, len(self.candidates)), replace=False)
        folds = self.compiled.spec.baseline.folds
        return seconds(lambda: self.context.gains(chosen, sample=Sample(), folds=folds)) / len(chosen)
