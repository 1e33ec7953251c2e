"""Pair gates: which pairs of features two-input operators may take."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field
from scopefe.gates.association import association
from scopefe.gates.draws import BUDGET, MATCH, SEED, matched_or_budget, shares
from sklearn.cluster import AgglomerativeClustering

from scopefe import GateContext, PairSet, Scope, SpecPath, pair_gate
from scopefe.components import Array

Size = Annotated[int, Field(ge=1, description="Wanted number of features per cluster (paper: τ).")]
Linkage = Literal["average", "complete", "single"]


@pair_gate("all")
def every_pair(context: GateContext, scope: Scope) -> PairSet:
    """Admit every pair."""
    return PairSet.complete(context.universe.d)


@pair_gate("hard-intra")
def hard_intra(
    context: GateContext, scope: Scope, *, target_cluster_size: Size = 16, linkage: Linkage = "average"
) -> PairSet:
    """Admit pairs inside clusters of associated features (the paper's FeatureClustering)."""
    return PairSet.within(clusters(context, target_cluster_size, linkage))


@pair_gate("hard-inter")
def hard_inter(
    context: GateContext, scope: Scope, *, target_cluster_size: Size = 16, linkage: Linkage = "average"
) -> PairSet:
    """Admit pairs between clusters of associated features."""
    return PairSet.across(clusters(context, target_cluster_size, linkage))


@pair_gate("random-pair")
def random_pair(
    context: GateContext,
    scope: Scope,
    *,
    match: Annotated[SpecPath | None, MATCH] = None,
    budget: Annotated[int | None, BUDGET] = None,
    seed: Annotated[int, SEED] = 1,
) -> Scope:
    """Replace each operator's pairs by as many random ones of its own.

    For each two-input operator of the matched pool, draws as many of its candidates as the pool has, without
    replacement, from all of them. A budget is shared among the operators in proportion to their candidates.
    One-input candidates are those of the pool.
    """
    pool = matched_or_budget(context, scope, match, budget)
    universe = context.universe
    binary = [i for i, o in enumerate(universe.operators) if o.arity == 2]
    sizes = np.array([universe.blocks[i].size for i in binary], dtype=np.int64)
    if budget is None:
        counts = np.array([pool.count(i) for i in binary], dtype=np.int64)
    else:
        counts = shares(budget, sizes * np.array([pool.count(i) > 0 for i in binary]))
    drawn = [pool.of_arity(1).ids()]
    for i, count in zip(binary, counts, strict=True):
        block = universe.blocks[i]
        rng = context.rng(f"random-pair/{block.operator.name}", seed)
        drawn.append(block.offset + rng.choice(block.size, size=count, replace=False, shuffle=False))
    return Scope.of_ids(universe, np.concatenate(drawn))


def clusters(context: GateContext, target_cluster_size: int, linkage: str) -> Array:
    """Cluster the features by association (paper, Algorithm "Feature Clustering").

    Returns
    -------
    ndarray
        int64, shape (d,): cluster of each feature, numbered from the largest; the report gets them as
        ``clusters``, and the associations as ``associations``.
    """
    similarity = context.remember("association", {}, lambda: association(context.table()), by_target=False)
    d = len(similarity)
    count = min(d, max(2, -(-d // target_cluster_size)))
    if d < 2:
        labels = np.zeros(d, dtype=np.int64)
    else:
        model = AgglomerativeClustering(n_clusters=count, metric="precomputed", linkage=linkage)
        labels = by_size(model.fit_predict(np.clip(1 - similarity, 0, 1)))
    context.note("clusters", labels.tolist())
    context.note("associations", similarity)
    return labels


def by_size(labels: Array) -> Array:
    """Renumber clusters from the largest to the smallest, equal ones by their first feature."""
    names, first, counts = np.unique(labels, return_index=True, return_counts=True)
    order = np.lexsort((first, -counts))
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    return rank[np.searchsorted(names, labels)]
