"""From a pool to the features that are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from scopefe.components import Array
from scopefe.data.table import Table
from scopefe.evaluate.choosing import PARTS, Choice, Trial, choose, considered
from scopefe.evaluate.learners import version_of
from scopefe.recipe.fitting import fit_recipe
from scopefe.recipe.recipe import Recipe
from scopefe.run.budgets import Watch
from scopefe.run.code import code_key
from scopefe.run.compiling import Compiled
from scopefe.run.workbench import Stored, no_value
from scopefe.score.baseline import BaselineScores
from scopefe.score.featureboost import Block
from scopefe.score.openfe import OpenFE
from scopefe.score.selection import Native, Selected
from scopefe.spec.models import Spec


def select(
    compiled: Compiled, candidates: Array, watch: Watch
) -> tuple[Block | None, BaselineScores | None, Selected]:
    """Score the baseline and select from the pool; an empty pool needs neither.

    Parameters
    ----------
    candidates
        int64 ids, in the order of the universe.
    watch
        Ends it where a budget is spent.

    Returns
    -------
    tuple
        The rows with their baseline scores, these, and what was selected.

    Raises
    ------
    DataError
        If the metric of the gains has no value on the selection rows.
    """
    if not len(candidates):
        return None, None, Selected.nothing()
    bench, data = compiled.bench, compiled.searched
    assert bench is not None
    if watch.stops("baseline"):
        return None, None, Selected.nothing()
    spec, settings = compiled.spec, compiled.spec.baseline
    with bench.step("baseline", settings.folds if settings.boosting else None) as advance:
        scores = bench.baseline(data, None, settings.folds, advance)
    block = bench.block(data, None, len(data.rows.train), scores)
    if np.isnan(block.initial):
        raise no_value(block.objective)
    if watch.stops("halving"):
        return block, scores, Selected.nothing()
    bench.ready(data)
    data.development.forget()
    known = Stored(bench, data, compiled.universe, bench.baseline_content(data, None, settings.folds))
    engine = (
        Native(bench.evaluator, bench.engine, known, watch.stops)
        if spec.selection.engine == "native"
        else OpenFE(bench.engine.jobs)
    )
    return block, scores, engine(compiled.universe, candidates, block, spec.selection, spec.seed, bench.step)


class _SpentError(Exception):
    """A budget was spent before enough rows had decided."""


def keep(
    compiled: Compiled, candidates: Array, selected: Selected, watch: Watch
) -> tuple[Array, Choice | None]:
    """Return the ids of the features to keep, and, of ``keep: auto``, why so many.

    Nothing is kept where a budget is spent before it is known what helps.

    Parameters
    ----------
    candidates
        int64 ids of the pool.
    """
    settings, bench = compiled.spec.selection, compiled.bench
    if settings.keep != "auto":
        return selected.attribution.candidates[: settings.most], None
    if not len(candidates) or watch.stops("choice"):
        return selected.attribution.candidates[:0], None
    assert bench is not None and compiled.data is not None
    ranked = considered(compiled.universe, compiled.searched.development, selected, settings.keep_most)
    if not len(ranked):
        return ranked, None
    content = _choice_content(compiled, candidates, len(ranked))
    with bench.whole("choice", 1 if compiled.decides == "selection" else PARTS) as advance:
        try:
            choice: Choice = bench.remember(
                "choice",
                content,
                compiled.data,
                lambda: _choose(compiled, selected, ranked, watch, advance),
            )
        except _SpentError:
            assert watch.stop is not None
            watch.stop = replace(watch.stop, before="choice")
            return ranked[:0], None
    return ranked[: choice.kept], choice


def _choose(
    compiled: Compiled, selected: Selected, ranked: Array, watch: Watch, advance: Callable[[int], None]
) -> Choice:
    """Choose by the selection rows, or by parts of the rows after a search without each."""
    spec, bench, data = compiled.spec, compiled.bench, compiled.data
    assert bench is not None and data is not None

    def searches() -> Iterator[tuple[Compiled, Selected, Array]]:
        if compiled.decides == "selection":
            unseen = replace(compiled.searched.rows, test=data.rows.selection)
            yield replace(compiled, data=replace(data, rows=unseen)), selected, ranked
            return
        for part in data.parts(PARTS, spec.seed):
            inner = compiled.within(part)
            found = select(inner, inner.scope.ids(), watch)[2]
            if watch.stop:
                raise _SpentError
            rows = inner.searched.development
            yield inner, found, considered(inner.universe, rows, found, spec.selection.keep_most)

    def trials() -> Iterator[Trial]:
        for found in searches():
            yield _trial(*found)
            advance(1)

    return choose(trials(), bench.engine, most=len(ranked), seed=spec.seed, **_learner(spec))


def _trial(compiled: Compiled, selected: Selected, ranked: Array) -> Trial:
    """Return what a search found, fitted on the rows that it saw.

    Parameters
    ----------
    ranked
        int64 ids of what may be kept, the best first.
    """
    data = compiled.data
    assert data is not None
    recipe = recipe_of(compiled, data.development, selected, ranked, key="")
    return Trial(data, recipe.matrix(data.table))


def _learner(spec: Spec) -> dict[str, Any]:
    """Return the evaluation's learner, at the learning rate of the baseline: many models are trained."""
    evaluation = spec.evaluation
    parameters = evaluation.learner.parameters
    if "learning_rate" in parameters:
        parameters["learning_rate"] = spec.baseline.learning_rate
    return {
        "learner": evaluation.learner.learner,
        "parameters": parameters,
        "max_trees": evaluation.max_trees,
        "early_stopping": evaluation.early_stopping,
    }


def _choice_content(compiled: Compiled, candidates: Array, most: int) -> list[Any]:
    """Return what tells a choice from all others of the same data."""
    spec, universe = compiled.spec, compiled.universe
    components = spec.origin.components
    code = code_key([*universe.operators, *components.pair_gates, *components.operator_gates])
    settings = spec.model_dump(mode="json", by_alias=True, include={"scope", "baseline", "selection", "seed"})
    learner = [_learner(spec), version_of(spec.evaluation.learner.learner)]
    return [code, universe.values_key, settings, learner, candidates.tolist(), most]


def recipe_of(compiled: Compiled, table: Table, selected: Selected, kept: Array, key: str) -> Recipe:
    """Fit the features of some ids on the rows of a table."""
    spec, universe, ranked = compiled.spec, compiled.universe, selected.attribution
    importances = dict(zip(ranked.candidates.tolist(), ranked.importances.tolist(), strict=True))
    chosen = [
        (expression, universe.operators[o], selected.gains[i], importances[i])
        for expression, o, i in zip(
            universe.expressions(kept), universe.decode(kept)[0], kept.tolist(), strict=True
        )
    ]
    data = compiled.data
    assert data is not None
    return fit_recipe(
        spec.name,
        key,
        table,
        chosen,
        spec.data.features.missing_as,
        data.time_parts,
        levels=universe.levels,
        taken=data.dropped,
        missing=tuple(spec.data.missing),
    )
