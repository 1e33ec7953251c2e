"""Making the report from what a run computed."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scopefe.components import Array, Keys
from scopefe.data.dataset import Dataset
from scopefe.evaluate.choosing import Choice
from scopefe.evaluate.learners import version_of
from scopefe.evaluate.metrics import metric_of, stopping_of
from scopefe.evaluate.outcome import Outcome, Scores
from scopefe.evaluate.worth import Worth
from scopefe.recipe.explaining import explain
from scopefe.recipe.recipe import Recipe
from scopefe.report.model import (
    AssociationFacts,
    BaselineFacts,
    ChoiceFacts,
    DataFacts,
    DifferenceFacts,
    EvaluationFacts,
    FailureFacts,
    FeatureFacts,
    ProbeFacts,
    RoundFacts,
    Score,
    SelectedFacts,
    SelectionFacts,
    SizeFacts,
    StepFacts,
    StopFacts,
    WorthFacts,
)
from scopefe.report.shapes import associations, histogram, shape
from scopefe.score.baseline import BaselineScores
from scopefe.score.featureboost import Block, Failure
from scopefe.score.halving import Round
from scopefe.score.selection import Selected
from scopefe.space.expression import key_of
from scopefe.space.graph import Graph
from scopefe.space.universe import Universe
from scopefe.spec.models import Spec, source_name

RANKING_SHOWN, SHAPES_SHOWN = 100, 20
CLAIMS = {
    "cross-fitted": "Gates and search saw training and selection rows, as in the paper: "
    "gains are those of rows that took part in the choice. Only test rows did not.",
    "train-only": "Gates saw training rows alone, the search training and selection rows: the space was set "
    "without the rows that candidates were chosen on. Only test rows took no part at all.",
    "nested": "Gates and search saw training rows alone, divided again: selection rows took no part in the "
    "choice of features, and test rows none at all.",
}
DECIDED = {
    True: " Then the selection rows decided how many of the ranked features to keep.",
    False: " How many to keep was decided on a fifth of the rows at a time, each after a search without it.",
}
PATH_KEYS = {"path", "selection", "test", "modules", "match"}
PACKAGES = (
    "lightgbm",
    "numba",
    "numpy",
    "pandas",
    "scikit-learn",
    "scipy",
    "pyarrow",
    "networkx",
    "pydantic",
)


def versions(learners: Iterable[str] = ()) -> dict[str, str]:
    """Return the versions of the packages that results depend on, those of learners included."""
    own = {name: version for name in learners if (version := version_of(name)) is not None}
    packages = {package: importlib.metadata.version(package) for package in PACKAGES}
    return {"python": platform.python_version()} | packages | own


def portable(value: Any, paths: dict[str, str], place: str = "") -> Any:
    """Return a spec's values with absolute paths cut to their last part; `paths` gets the whole ones."""
    if isinstance(value, dict):
        return {k: portable(v, paths, f"{place}.{k}" if place else str(k)) for k, v in value.items()}
    if isinstance(value, list):
        return [portable(v, paths, f"{place}.{i}") for i, v in enumerate(value)]
    named = set(place.split(".")[-2:]) & PATH_KEYS
    if named and isinstance(value, str) and Path(value).is_absolute():
        paths[place] = value
        return Path(value).name
    return value


def spec_facts(spec: Spec, paths: dict[str, str]) -> dict[str, Any]:
    """Return the whole spec without what changes no result."""
    values = spec.model_dump(mode="json", by_alias=True, exclude={"execution", "report"})
    result: dict[str, Any] = portable(values, paths)
    return result


def data_facts(spec: Spec, data: Dataset) -> DataFacts:
    """Describe the data."""
    shown = source_name(spec.data.source)
    features = []
    for i, (name, kind) in enumerate(zip(data.table.names, data.table.kinds, strict=True)):
        keys: Keys = data.development.passing(i).keys
        distinct = np.unique(keys.codes[~keys.missing])
        features.append(
            FeatureFacts(name=name, kind=kind, missing=int(keys.missing.sum()), distinct=len(distinct))
        )
    return DataFacts(
        source=shown,
        fingerprint=data.fingerprint,
        test_fingerprint=data.test_fingerprint if len(data.rows.test) else "",
        rows=data.rows.counts(),
        split=portable(spec.data.split.model_dump(mode="json"), {}),
        target=spec.data.target.column,
        task=data.labels.task,
        classes=list(data.labels.classes),
        features=features,
        left_out=data.dropped,
    )


def graph_facts(graph: Graph) -> list[StepFacts]:
    """Describe the steps, inputs before the steps that read them."""
    return [
        StepFacts(
            name=step.name,
            component=step.component,
            key=step.key,
            inputs=graph.inputs(step.name),
            parameters=portable(dict(step.parameters), {}),
        )
        for step in graph
    ]


def probe_facts(facts: dict[str, Any]) -> list[ProbeFacts] | None:
    """Describe the probe, if there was one."""
    if facts.get("probe") is None:
        return None
    return [
        ProbeFacts(operator=name, **{**f, "score": f["score"] if np.isfinite(f["score"]) else None})
        for name, f in facts["probe"].items()
    ]


def association_facts(facts: dict[str, Any], names: Sequence[str]) -> AssociationFacts | None:
    """Describe the associations that features were clustered by, if they were."""
    if facts.get("associations") is None or facts.get("clusters") is None:
        return None
    return associations(facts["associations"], np.array(facts["clusters"]), list(names))


def other_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Return what gates noted and no other part of the report tells."""
    shown = ("clusters", "associations", "probe")
    return {name: fact for name, fact in facts.items() if name not in shown and fact is not None}


def baseline_facts(block: Block, scores: BaselineScores) -> BaselineFacts:
    """Describe the baseline."""
    return BaselineFacts(metric=block.objective.metric, initial=block.initial, trees=list(scores.trees))


def selection_facts(
    universe: Universe,
    selected: Selected,
    spec: Spec,
    failures: Sequence[Failure],
    kept: Array,
    recipe: Recipe,
    data: Dataset,
    choice: Choice | None,
    worth: Sequence[Worth],
    protocol: str,
    stopped: StopFacts | None,
) -> SelectionFacts:
    """Describe the selection.

    Parameters
    ----------
    failures
        All of the run's, probing included.
    kept
        int64 ids of the selected features.
    recipe
        These, fitted.
    data
        The data.
    worth
        What each of the recipe's features is worth on test rows; empty where that was not measured.
    stopped
        Where a budget ended the run.
    """
    ranked = selected.attribution
    places = {candidate: place for place, candidate in enumerate(ranked.candidates.tolist())}
    chosen = [
        _selected(universe, selected, places[candidate]).model_copy(update=more)
        for candidate, more in zip(kept.tolist(), _described(recipe, data, worth), strict=True)
    ]
    return SelectionFacts(
        engine=spec.selection.engine,
        protocol=protocol,
        claim=CLAIMS[protocol] + ("" if choice is None else DECIDED[protocol == "nested"]),
        rounds=[_round(r) for r in selected.halving.rounds],
        survivors=len(selected.halving.survivors),
        attribution=spec.selection.attribution,
        attribution_trees=ranked.trees,
        choice=None if choice is None else _choice(choice),
        ranking=[_selected(universe, selected, i) for i in range(min(RANKING_SHOWN, len(places)))],
        selected=chosen,
        failures=[FailureFacts(**vars(f)) for f in sorted(failures, key=lambda f: (f.stage, f.candidate))],
        stopped=stopped,
    )


def _described(recipe: Recipe, data: Dataset, worth: Sequence[Worth]) -> Iterator[dict[str, Any]]:
    """Yield what is known of selected features beside their places in the ranking."""
    position = {name: i for i, name in enumerate(data.table.names)}
    columns = {i.name: data.development[position[i.name]] for i in recipe.inputs}
    target, words = data.labels.values[data.rows.development], explain(recipe)
    for place, feature in enumerate(recipe.features):
        drawn = None
        if place < SHAPES_SHOWN:
            values = feature.apply(columns)
            drawn = shape(values, target, data.labels, categorical=feature.labels is not None)
        measured = _worth(recipe, place, worth[place]) if worth else None
        told = {"words": words[place].words, "shape": drawn, "worth": measured}
        yield {"rank": place + 1, "name": feature.name, **told}


def _worth(recipe: Recipe, place: int, worth: Worth) -> WorthFacts:
    others = [recipe.features[i].name for i in worth.together if i != place]
    return WorthFacts(mean=worth.mean, error=_known(worth.error), together=others)


def _choice(choice: Choice) -> ChoiceFacts:
    columns = choice.sizes, choice.decreases, choice.errors, choice.clipped, choice.clipped_errors
    tried = zip(*(column.tolist() for column in columns), strict=True)
    names = "features", "decrease", "error", "clipped", "clipped_error"
    return ChoiceFacts(
        rows=choice.rows,
        sizes=[SizeFacts(**dict(zip(names, row, strict=True))) for row in tried],
        p=choice.p,
        kept=choice.kept,
    )


def _selected(universe: Universe, selected: Selected, place: int) -> SelectedFacts:
    """Describe the candidate at a place of the ranking."""
    candidate = int(selected.attribution.candidates[place])
    expression = universe.expression(candidate)
    (operator,), (left,), (right,) = universe.decode(np.array([candidate]))
    return SelectedFacts(
        rank=place + 1,
        name=expression.formula,
        formula=expression.formula,
        key=key_of(expression),
        operator=universe.operators[operator].name,
        inputs=[universe.names[i] for i in (left, right) if i >= 0],
        gain=selected.gains[candidate],
        importance=float(selected.attribution.importances[place]),
    )


def _round(facts: Round) -> RoundFacts:
    scored = facts.gains[~np.isnan(facts.gains)]
    return RoundFacts(
        train_rows=facts.train_rows,
        selection_rows=facts.selection_rows,
        candidates=len(facts.candidates),
        failed=len(facts.gains) - len(scored),
        same_gain=facts.same,
        kept=len(facts.kept),
        best_gain=float(scored.max()) if len(scored) else None,
        median_gain=float(np.median(scored)) if len(scored) else None,
        positive=int((scored > 0).sum()),
        agreement=facts.agreement,
        gains=histogram(scored),
    )


def evaluation_facts(spec: Spec, data: Dataset, outcome: Outcome) -> EvaluationFacts:
    """Describe the evaluation."""
    settings, task = spec.evaluation, data.labels.task
    metric, larger = metric_of(task, settings.metric)
    return EvaluationFacts(
        learner=settings.learner.learner,
        metric=metric,
        larger_is_better=larger,
        protocol=settings.protocol,
        seeds=settings.seeds,
        stopping=stopping_of(task, settings),
        base=_score(outcome.before),
        with_features=None if outcome.after is None else _score(outcome.after),
        difference=_difference(data, settings.metric, larger, outcome),
    )


def _score(scores: Scores) -> Score:
    trees = scores.trees.tolist() if scores.trees.any() else []
    values = scores.values
    return Score(mean=float(values.mean()), std=float(values.std()), values=values.tolist(), trees=trees)


def _difference(data: Dataset, metric: str, larger: bool, outcome: Outcome) -> DifferenceFacts | None:
    if outcome.after is None or outcome.difference is None:
        return None
    found = outcome.difference
    unit = "test rows" if data.groups is None else "groups of test rows"
    return DifferenceFacts(
        mean=found.mean,
        error=_known(found.error),
        low=_known(found.low),
        high=_known(found.high),
        units=found.units,
        unit="blocks of test rows" if metric != "auto" else unit,
        spread=float((outcome.after.values - outcome.before.values).std()),
        verdict=found.verdict(larger),
    )


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None
