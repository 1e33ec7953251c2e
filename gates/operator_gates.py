"""Operator gates: which operators, or which operators on which features, may be used."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field
from scopefe.gates.draws import BUDGET, MATCH, SEED, matched_or_budget

from scopefe import ComponentError, GateContext, Sample, Scope, SpecPath, UnknownNameError, operator_gate
from scopefe.components import Array


@operator_gate("all")
def every_operator(context: GateContext, scope: Scope) -> Scope:
    """Admit every operator."""
    return scope


@operator_gate("list")
def listed(
    context: GateContext,
    scope: Scope,
    *,
    use: Annotated[list[str], Field(description="Names of the operators to keep.")],
) -> Scope:
    """Admit the operators that are named."""
    names = [o.name for o in context.universe.operators]
    for name in use:
        if name not in names:
            raise UnknownNameError("operator", name, names)
    return scope.only(lambda i: names[i] in use)


@operator_gate("features")
def features(
    context: GateContext,
    scope: Scope,
    *,
    use: Annotated[
        list[Annotated[list[str], Field(min_length=2)]],
        Field(description="Keys of the candidates to keep, such as [abs, x] and [+, x, y]."),
    ],
) -> Scope:
    """Admit the candidates that are named by their keys."""
    ids = [_candidate(context, *key) for key in use]
    return Scope.of_ids(context.universe, np.array(ids, dtype=np.int64))


def _candidate(context: GateContext, name: str, *inputs: str) -> int:
    universe = context.universe
    operators = [o.name for o in universe.operators]
    if name not in operators:
        raise UnknownNameError("operator", name, operators)
    for feature in inputs:
        if feature not in universe.names:
            raise UnknownNameError("feature", feature, universe.names)
    number, places = operators.index(name), [universe.names.index(feature) for feature in inputs]
    ids = np.array([-1])
    if len(places) == universe.operators[number].arity:
        left, right, *_ = np.array([*places, -1])[:, None]
        ids = universe.encode(number, left, right)
    if ids[0] < 0:
        kinds = ", ".join(f"{universe.names[i]} ({universe.kinds[i]})" for i in places)
        raise ComponentError(f"{name!r} does not take {kinds}; operators.directions may have to be both")
    return int(ids[0])


@operator_gate("probe")
def probe(
    context: GateContext,
    scope: Scope,
    *,
    keep: Annotated[int, Field(ge=1, description="Operators to keep (paper: N_top).")] = 7,
    ratio: Annotated[float, Field(gt=0, le=1, description="Share of the rows (paper: r_probe).")] = 0.2,
    candidates: Annotated[
        int, Field(ge=1, description="Candidates tried per operator (paper: n_cand).")
    ] = 20,
    top_k: Annotated[int, Field(ge=1, description="Gains averaged per operator (paper: k).")] = 5,
    folds: Annotated[int, Field(ge=2, description="Folds of the baseline on the sample.")] = 3,
    seed: Annotated[int, SEED] = 1,
) -> Scope:
    """Admit the operators that score best on a few candidates and rows (paper, Algorithm "Operator Probing").

    Candidates are sampled from the ungated universe, so that the choice does not depend on the pair gate. The
    score of an operator is the mean of its best gains; ties go to the earlier operator.
    """
    parameters: dict[str, Any] = {
        "ratio": ratio,
        "candidates": candidates,
        "top_k": top_k,
        "folds": folds,
        "seed": seed,
    }
    scores = context.remember("probe", parameters, lambda: _scores(context, **parameters))
    ranked = sorted(scores, key=lambda name: -scores[name]["score"])
    chosen = ranked[:keep]
    context.note("probe", {n: {**scores[n], "kept": n in chosen} for n in scores})
    names = [o.name for o in context.universe.operators]
    return scope.only(lambda i: names[i] in chosen)


def _scores(
    context: GateContext, ratio: float, candidates: int, top_k: int, folds: int, seed: int
) -> dict[str, dict[str, Any]]:
    """Score every operator that has candidates, in operator order."""
    drawn: list[Array] = []
    names: list[str] = []
    for block in context.universe.blocks:
        if not block.size:
            continue
        rng = context.rng(f"probe/{block.operator.name}", seed)
        size = min(candidates, block.size)
        drawn.append(block.offset + np.sort(rng.choice(block.size, size=size, replace=False, shuffle=False)))
        names.append(block.operator.name)
    if not drawn:
        return {}
    gains = context.gains(np.concatenate(drawn), sample=Sample(ratio, seed), folds=folds)
    result = {}
    for name, ids, part in zip(
        names, drawn, np.split(gains, np.cumsum([len(d) for d in drawn])[:-1]), strict=True
    ):
        best = np.sort(part[~np.isnan(part)])[::-1][:top_k]
        result[name] = {
            "score": float(best.mean()) if len(best) else float("-inf"),
            "candidates": len(ids),
            "best": float(best[0]) if len(best) else None,
        }
    return result


@operator_gate("random-operator")
def random_operator(
    context: GateContext,
    scope: Scope,
    *,
    match: Annotated[SpecPath | None, MATCH] = None,
    budget: Annotated[int | None, BUDGET] = None,
    seed: Annotated[int, SEED] = 1,
) -> Scope:
    """Keep the pool's pairs and draw the operators on them at random.

    For each slot of the pool (signature and pair; for group-bys value and key), draws as many candidates as
    the pool has there, without replacement, from all of the universe on that slot. A budget is drawn from
    all candidates on the slots of the incoming scope. One-input candidates are those of the pool.
    """
    pool = matched_or_budget(context, scope, match, budget)
    universe = context.universe
    binary = pool.of_arity(2).ids()
    slots, ids = _slots(context, binary)
    rng = context.rng("random-operator", seed)
    if budget is not None:
        drawn = _draw(rng, ids, budget)
    else:
        wanted = pd.Series(slots[np.isin(ids, binary)]).value_counts()
        order = np.lexsort((rng.random(len(ids)), slots))
        place = np.arange(len(ids)) - np.searchsorted(slots[order], slots[order])
        drawn = ids[order[place < wanted.reindex(slots[order], fill_value=0).to_numpy()]]
    return Scope.of_ids(universe, np.concatenate([pool.of_arity(1).ids(), drawn]))


def _slots(context: GateContext, pool: Array) -> tuple[Array, Array]:
    """Return (slot, id) of every candidate of the universe that lies on a slot of the pool, by id."""
    universe = context.universe
    d = universe.d
    operators, left, right = universe.decode(pool)
    found: list[Array] = []
    slots: list[Array] = []
    signatures = sorted({universe.operators[i].takes for i in operators})
    for number, takes in enumerate(signatures):
        alike = [i for i, o in enumerate(universe.operators) if o.takes == takes]
        chosen = np.isin(operators, alike)
        a, b = left[chosen].astype(np.int64), right[chosen].astype(np.int64)
        if takes[0] == takes[1]:
            a, b = np.minimum(a, b), np.maximum(a, b)
        pairs = np.unique(a * d + b)
        for i in alike:
            for first, second in {(0, 1), (1, 0)} if takes[0] == takes[1] else {(0, 1)}:
                ends = np.divmod(pairs, d)
                ids = universe.encode(i, ends[first], ends[second])
                found.append(ids[ids >= 0])
                slots.append(number * d * d + pairs[ids >= 0])
    if not found:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    ids, first_place = np.unique(np.concatenate(found), return_index=True)
    return np.concatenate(slots)[first_place], ids


@operator_gate("random-joint")
def random_joint(
    context: GateContext,
    scope: Scope,
    *,
    match: Annotated[SpecPath | None, MATCH] = None,
    budget: Annotated[int | None, BUDGET] = None,
    seed: Annotated[int, SEED] = 1,
) -> Scope:
    """Draw pairs and operators together: two-input candidates uniformly from the universe.

    Draws as many as the matched pool has, or the budget. One-input candidates are those of the pool.
    """
    pool = matched_or_budget(context, scope, match, budget)
    universe = context.universe
    count = len(pool.of_arity(2)) if budget is None else budget
    binary = [b for b in universe.blocks if b.operator.arity == 2]
    ends = np.cumsum([b.size for b in binary])
    total = int(ends[-1]) if len(ends) else 0
    numbers = _draw(context.rng("random-joint", seed), total, count)
    block = np.searchsorted(ends, numbers, side="right")
    offsets = np.array([b.offset for b in binary], dtype=np.int64) - np.concatenate([[0], ends[:-1]])
    drawn = numbers + offsets[block] if total else np.empty(0, dtype=np.int64)
    return Scope.of_ids(universe, np.concatenate([pool.of_arity(1).ids(), drawn]))


def _draw(rng: np.random.Generator, source: Array | int, count: int) -> Array:
    available = source if isinstance(source, int) else len(source)
    if count > available:
        raise ComponentError(f"budget {count} is more than the {available} candidates there are")
    return rng.choice(source, size=count, replace=False, shuffle=False)
