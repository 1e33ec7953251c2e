"""What the features brought: models before and after, and models without each of the features."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from scopefe.components import Array
from scopefe.data.dataset import Dataset
from scopefe.evaluate.downstream import benchmark_originals, evaluate, transductive_features
from scopefe.evaluate.learners import version_of
from scopefe.evaluate.metrics import metric_of, stopping_of
from scopefe.evaluate.outcome import Outcome, Scores
from scopefe.evaluate.worth import Worth, stand_ins
from scopefe.recipe.matrix import Matrix
from scopefe.recipe.recipe import Recipe
from scopefe.run.budgets import Watch
from scopefe.run.code import code_key
from scopefe.run.compiling import Compiled
from scopefe.run.workbench import Workbench
from scopefe.space.graph import key_of


def evaluated(compiled: Compiled, recipe: Recipe, kept: Array, watch: Watch) -> Outcome | None:
    """Measure models before and after; None where there is nothing to measure, or the metric has no value.

    Parameters
    ----------
    kept
        int64 ids of the recipe's features.
    """
    settings, bench = compiled.spec.evaluation, compiled.bench
    assert bench is not None and compiled.data is not None
    if not settings.seeds or not len(compiled.data.rows.test) or watch.stops("evaluation"):
        return None
    models = _Models(compiled, recipe, kept, bench, compiled.data)
    after = difference = None
    with bench.step("evaluation", settings.seeds * (1 + bool(recipe.features))) as advance:
        before = models.measure(models.originals, settings.seeds, advance)
        if recipe.features:
            after = models.measure(models.all, settings.seeds, advance)
    if not np.isfinite([*before.values, *(() if after is None else after.values)]).all():
        return None
    worth: tuple[Worth, ...] = ()
    if after is not None:
        difference = after.minus(before)
        if settings.worth and not watch.stops("worth"):
            worth = models.worth(after)
    return Outcome(before, after, difference, worth)


@dataclass(frozen=True, eq=False)
class _Models:
    """The models of an evaluation: each has some of the columns."""

    compiled: Compiled
    recipe: Recipe
    kept: Array
    bench: Workbench
    data: Dataset

    @cached_property
    def matrix(self) -> Matrix:
        """Original features, then new ones, over all rows."""
        if self.compiled.spec.evaluation.protocol == "benchmark":
            return benchmark_originals(self.data).beside(transductive_features(self.data, self.recipe))
        return self.recipe.matrix(self.data.table)

    @property
    def originals(self) -> list[int]:
        """Places of the original features."""
        return list(range(len(self.data.table)))

    @property
    def all(self) -> list[int]:
        """Places of original and new features."""
        return list(range(len(self.data.table) + len(self.recipe.features)))

    def measure(self, columns: Sequence[int], seeds: int, advance: Callable[[int], None]) -> Scores:
        """Return the metric of models of some columns, from the store if it is there."""
        spec, data, bench = self.compiled.spec, self.data, self.bench
        settings = spec.evaluation

        def compute(wanted: Array) -> Iterable[Array]:
            models = evaluate(
                data,
                self.matrix.select(columns),
                bench.engine,
                learner=settings.learner.learner,
                parameters=settings.learner.parameters,
                metric=settings.metric,
                stopping=stopping,
                seeds=wanted.tolist(),
                max_trees=settings.max_trees,
                early_stopping=settings.early_stopping,
                advance=advance,
            )
            return (np.append([model.score, model.trees], model.contributions) for model in models)

        stopping = stopping_of(data.labels.task, settings)
        protocol = settings.model_dump(mode="json", exclude={"seeds", "worth"})
        package = version_of(settings.learner.learner)
        groups = data.groups_of(data.rows.test)
        units = None if groups is None else np.unique(groups, return_inverse=True)[1].tolist()
        place = ["evaluation", data.fingerprint, data.test_fingerprint, protocol, package, units]
        key = key_of([*place, *self._content(columns)])
        about = bench.about("evaluation", data)
        found = bench.store.vector(key, np.arange(seeds), compute, bench.disk, about, advance).values
        return Scores(found[:, 0], found[:, 1].astype(np.int64), found[:, 2:])

    def _content(self, columns: Sequence[int]) -> list[Any]:
        """Return what tells these columns from all others of the same data."""
        new = [place - len(self.data.table) for place in columns if place >= len(self.data.table)]
        if not new:
            return [code_key()]
        universe = self.compiled.universe
        return [code_key(universe.operators), universe.values_key, self.kept[new].tolist()]

    def worth(self, after: Scores) -> tuple[Worth, ...]:
        """Return what each new feature is worth, by as many models at most as the evaluation has trained."""
        data, d = self.data, len(self.data.table)
        models = 2 * len(after.values)
        development = data.rows.development
        new = self.matrix.select(self.all[d:])
        groups = stand_ins(new, development, data.scaled_target, models)
        seeds = min(len(after.values), max(1, models // len(groups)))
        sign = 1 if metric_of(data.labels.task, self.compiled.spec.evaluation.metric)[1] else -1
        found: dict[int, Worth] = {}
        with self.bench.step("worth", len(groups) * seeds) as advance:
            for group in groups:
                left = [place for place in self.all if place - d not in group]
                lost = after.first(seeds).minus(self.measure(left, seeds, advance))
                worth = Worth(sign * lost.mean, lost.error, tuple(group))
                found |= dict.fromkeys(group, worth)
        return tuple(found[place] for place in range(len(found)))
