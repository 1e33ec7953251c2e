"""The gate ``quantised``: every operator is scored on histograms of gradients, not on candidates.

A pair of numeric features becomes one joint histogram of the loss's derivatives at the baseline's scores, on
whose cells every operator is evaluated; what depends on a key alone is scored on the key's groups. Only what
is neither is computed for all rows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from threading import Lock
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field
from scopefe.gates.draws import AT_LEAST, Budget, allowed
from scopefe.operators.kernels import number_pairs

from scopefe import CAT, NUM, GateContext, Keys, Scope, Table, agreement, operator_gate
from scopefe.components import Array, Operator

RANK_CELLS, CHECKED, FINE = 1024, 256, 2**16
VALUE_BINS = {"boosting": 128, "chi2": 32}
BUILT_IN = "scopefe.operators."


@operator_gate("quantised")
def quantised(
    context: GateContext,
    scope: Scope,
    *,
    budget: Annotated[
        Budget, Field(description="Candidates to keep: a share of those that come in, or a count.")
    ] = 0.1,
    at_least: Annotated[int, AT_LEAST] = 1,
    statistic: Annotated[
        Literal["boosting", "chi2"],
        Field(description="`boosting` measures on held-out folds; `chi2` is faster, and coarser."),
    ] = "boosting",
    folds: Annotated[int, Field(ge=2, description="Folds that a boosting is measured on.")] = 5,
    bins: Annotated[int, Field(ge=2, le=1024, description="Bins of a numeric feature within a pair.")] = 32,
    value_bins: Annotated[
        int | None,
        Field(ge=2, description="Bins of a candidate's values; null: 128, or 32 of the coarser statistic."),
    ] = None,
    rows: Annotated[
        int | None,
        Field(ge=100, description="Most rows to score on, a random part of all; null: all of them."),
    ] = 20_000,
    noise: Annotated[
        float,
        Field(ge=-1, le=1, description="Correlation of folds' scores below which the pool is widened."),
    ] = 0.25,
    seed: Annotated[int, Field(ge=0, description="Seed of the part of the rows and of the folds.")] = 1,
) -> Scope:
    """Keep the candidates that lower the loss most, by histograms of its derivatives.

    Candidates are not made: operators on two numbers are evaluated on the cells of a joint histogram, and
    statistics of groups on the groups. A small boosting, measured on rows that it has not seen, scores the
    candidate in the quadratic expansion of the loss at the baseline's scores. Where the folds hardly agree,
    as many candidates again are kept by the importance of their features, which is no matter of gains.
    """
    ids = scope.ids()
    ids = ids[context.universe.canonical(ids) == ids]
    count, total = allowed(budget, len(ids), at_least), context.table().rows
    scored = total if rows is None else min(rows, total)
    value_bins = value_bins or VALUE_BINS[statistic]
    parameters = {
        "statistic": statistic,
        "folds": folds,
        "bins": bins,
        "value_bins": value_bins,
        "rows": scored,
        "seed": seed,
    }
    asked = hashlib.blake2b(ids.data, digest_size=16).hexdigest()

    def compute() -> tuple[Array, dict[str, str]]:
        scoring = Scoring(context, statistic == "chi2", folds, bins, value_bins, scored, seed)
        return scoring.scores(ids), scoring.failures

    by_fold, failures = context.remember("quantised", {**parameters, "candidates": asked}, compute)
    scores = np.where(np.isnan(by_fold).any(axis=1), -np.inf, by_fold.mean(axis=1))
    ranked = np.argsort(-scores, kind="stable")
    best, correlation = ranked[:count], agreement(by_fold[np.isfinite(by_fold).all(axis=1)])
    lowest = float(scores[best[-1]]) if len(best) else -np.inf
    noisy = correlation is not None and correlation < noise
    others = by_importance(context, ids, ranked[count:])[:count] if noisy else best[:0]
    facts = {
        "candidates": len(ids),
        "kept": len(best) + len(others),
        "rows": total,
        "rows_scored": scored,
        "failed": int(np.isnan(by_fold).any(axis=1).sum()),
        "lowest_kept": lowest if np.isfinite(lowest) else None,
        "fold_correlation": correlation,
        "kept_by_importance": len(others),
        "failures": dict(sorted(failures.items())),
    }
    context.note("quantised", facts)
    context.added(len(others), "for noise")
    if scored < total:
        context.remark(
            f"The gate quantised scored candidates on {scored:,} of {total:,} rows, drawn at random."
        )
    if len(others):
        context.remark(
            f"Scores of the gate quantised hardly agree between folds: {len(others):,} more candidates are "
            "kept, by the importance of their features."
        )
    return Scope.of_ids(context.universe, ids[np.concatenate([best, others])])


def by_importance(context: GateContext, ids: Array, positions: Array) -> Array:
    """Order positions of candidates by the product of their features' importances, the largest first.

    Importances are the gains of a LightGBM's splits, which depend on no candidate's gain; that of a feature
    alone counts twice.
    """
    splits = context.splits()
    importances = np.bincount(splits.feature, splits.gain, minlength=context.universe.d)
    _, left, right = context.universe.decode(ids[positions])
    products = importances[left] * importances[np.where(right < 0, left, right)]
    ordered: Array = positions[np.argsort(-products, kind="stable")]
    return ordered


@dataclass(eq=False)
class Scoring:
    """Scores candidates on rows of a context.

    Parameters
    ----------
    chi2
        Whether to score without folds.
    folds, bins, value_bins, seed
        See `quantised`.
    scored
        Number of rows, drawn at random where the context has more.
    """

    context: GateContext
    chi2: bool
    folds: int
    bins: int
    value_bins: int
    scored: int
    seed: int
    _binned: dict[int, tuple[Array, Array]] = field(default_factory=dict)
    _grouped: dict[int, Array] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        from scopefe.gates import histograms

        self.kernels = histograms
        self.failures: dict[str, str] = {}
        self.table: Table = self.context.table()
        gradients = self.context.gradients()
        self.first, self.second = gradients.first, gradients.second
        rng = self.context.rng("quantised", self.seed)
        drawn: Any = slice(None)
        if self.scored < self.table.rows:
            drawn = np.sort(rng.choice(self.table.rows, self.scored, replace=False))
            self.table = self.table.take(drawn).compact()
            self.first, self.second = self.first[:, drawn], self.second[:, drawn]
        rows = self.table.rows
        if self.chi2:
            self.fold = np.zeros(rows, dtype=np.int64)
            variance = np.square(self.first).sum(axis=1, keepdims=True)
            self.first = self.first * np.sqrt(self.second.sum(axis=1, keepdims=True) / variance)
        else:
            groups = self.context.groups()
            self.fold = self._folds(rng, None if groups is None else groups[drawn])
            self.folds = int(self.fold.max()) + 1
        self.by_fold = np.argsort(self.fold, kind="stable")
        self.starts = np.append(0, np.cumsum(np.bincount(self.fold)))
        both = np.stack([self.first, self.second], axis=2)[:, self.by_fold]
        self.derivatives = np.ascontiguousarray(both.swapaxes(0, 1)).reshape(rows, -1)

    def _folds(self, rng: np.random.Generator, groups: Array | None) -> Array:
        """Return the fold of each row, at random; rows of a group are in one."""
        if groups is None:
            return rng.permutation(np.arange(self.table.rows) % self.folds)
        numbers = np.unique(groups, return_inverse=True)[1]
        fold: Array = rng.permutation(np.arange(numbers.max() + 1) % self.folds)[numbers]
        return fold

    def scores(self, ids: Array) -> Array:
        """Return the score of each candidate on each fold, float64, shape (n, folds); NaN where it failed."""
        operators, left, right = self.context.universe.decode(ids)
        order = np.lexsort((operators, right, left))
        pairs = np.stack([left[order], right[order]])
        first = np.r_[True, (pairs[:, 1:] != pairs[:, :-1]).any(axis=0)][: len(ids)]
        groups = np.split(order, np.flatnonzero(first)[1:]) if len(ids) else []
        result = np.full((len(ids), 1 if self.chi2 else self.folds), np.nan)

        def work(number: int) -> list[Array | str]:
            members = groups[number]
            return self._of_pair(
                [self.context.universe.operators[i] for i in operators[members]],
                int(left[members[0]]),
                int(right[members[0]]),
            )

        for members, found in zip(groups, self.context.map(work, range(len(groups))), strict=True):
            for place, score in zip(members, found, strict=True):
                if isinstance(score, str):
                    self.failures.setdefault(self.context.universe.operators[operators[place]].name, score)
                else:
                    result[place] = score
        return result

    def _of_pair(self, operators: list[Operator], left: int, right: int) -> list[Array | str]:
        """Score all candidates of a pair, or of a single feature, or say why one cannot be computed."""
        scores: list[Array | str] = [""] * len(operators)
        shared: dict[str, tuple[Array, Any]] = {}
        together: dict[int, tuple[Array, list[int], list[Array]]] = {}
        for place, operator in enumerate(operators):
            try:
                sums, values = self._cells(operator, left, right, shared)
            except Exception as error:
                if operator.source.module.startswith(BUILT_IN):
                    raise
                scores[place] = f"{type(error).__name__}: {error}"
                continue
            if values is None:
                scores[place] = self._of_categories(sums)
                continue
            _, places, rows = together.setdefault(id(sums), (sums, [], []))
            places.append(place)
            rows.append(values)
        for sums, places, rows in together.values():
            found = self.kernels.cell_scores(np.array(rows), sums, self.value_bins, self.chi2)
            for place, score in zip(places, found, strict=True):
                scores[place] = score
        return scores

    def _cells(
        self, operator: Operator, left: int, right: int, shared: dict[str, tuple[Array, Any]]
    ) -> tuple[Array, Array | None]:
        """Return the sums of the cells that a candidate is scored on, and its value on each.

        Cells without values are categories. What operators of the same features share is kept in `shared`.
        """
        elementwise = not operator.learns and set(operator.takes) == {NUM}
        if elementwise:
            if "cells" not in shared:
                shared["cells"] = self._numeric_pair(left, right) if right >= 0 else self._feature_cells(left)
            sums, inputs = shared["cells"]
            return sums, operator.apply({}, *inputs)
        columns: Any = self.table.arguments(operator, [left, right] if right >= 0 else [left])
        built_in = operator.source.module.startswith(BUILT_IN)
        if built_in and operator.takes == (CAT, CAT) and operator.symmetric:
            if "pairs" not in shared:
                shared["pairs"] = self._category_pair(*columns)
            sums, counts = shared["pairs"]
            return sums, None if operator.gives == CAT and self._as_category(len(counts) - 1) else counts
        state = operator.fit(*columns)
        if operator.arity == 2 and operator.takes[1] == CAT:
            looked_up = self._looked_up(operator, state, columns)
            if looked_up is not None:
                return self._groups(right, columns[1]), np.append(np.nan, looked_up)
        values = operator.apply(state, *columns)
        if operator.gives == CAT:
            counts = np.bincount(values + 1, minlength=1)
            sums = self._sums(values + 1, len(counts))
            if self._as_category(int(np.count_nonzero(counts[1:]))):
                return sums, None
            return sums, np.append(np.nan, counts[1:])
        if operator.name == "GroupByThenRank" and built_in:
            sums = self.kernels.rank_sums(values, RANK_CELLS, self.fold, self.first, self.second)
            return sums, np.append(np.nan, np.arange(RANK_CELLS + 1.0))
        distinct, cells = np.unique(values, return_inverse=True)
        return self._sums(cells, len(distinct)), distinct

    def _as_category(self, levels: int) -> bool:
        """Whether models are given a category-valued candidate of so many levels as a category."""
        most = self.context.universe.levels
        return most is None or levels <= most

    def _looked_up(self, operator: Operator, state: dict[str, Array], columns: Any) -> Array | None:
        """Return the value of each group of the key, if that is all that an operator does."""
        keys: Keys = columns[1]
        if set(state) != {"labels", "values"} or len(state["values"]) != keys.size:
            return None
        values = state["values"].astype(np.float64)
        if not operator.source.module.startswith(BUILT_IN):
            rows = np.unique(np.linspace(0, len(keys) - 1, CHECKED).astype(np.int64))
            some = [_rows(column, rows) for column in columns]
            given = operator.apply(state, *some).astype(np.float64)
            if not np.array_equal(given, np.append(values, np.nan)[some[1].codes], equal_nan=True):
                return None
        return values

    def _numeric_pair(self, left: int, right: int) -> tuple[Array, list[Array]]:
        """Return the sums of the cells of two numeric features, and the values that stand for them."""
        (a, first), (b, second) = self._feature_bins(left), self._feature_bins(right)
        sizes = len(first), len(second)
        sums = self.kernels.pair_sums(a, b, sizes, self.starts, self.derivatives)
        return sums, [np.repeat(first, len(second)), np.tile(second, len(first))]

    def _category_pair(self, left: Keys, right: Keys) -> tuple[Array, Array]:
        """Return the sums of the pairs of two categorical features and their counts, missing ones first."""
        none = np.empty(0, dtype=np.int64)
        numbers, pairs = number_pairs(left.codes, right.codes, left.size, right.size, none, True)
        sums = self._sums(numbers + 1, len(pairs) + 1)
        return sums, np.append(np.nan, sums[:, 1:, -1].sum(axis=0))

    def _feature_bins(self, feature: int) -> tuple[Array, Array]:
        """Return the bin of each row, fold by fold, and the middle value of each, in the feature's type."""
        with self._lock:
            if feature not in self._binned:
                bins, middle = self._make_bins(feature, self.bins)
                self._binned[feature] = bins[self.by_fold].astype(np.uint16), middle
            return self._binned[feature]

    def _make_bins(self, feature: int, most: int) -> tuple[Array, Array]:
        values = self.table.numeric(feature)
        distinct, cells, counts = np.unique(values, return_inverse=True, return_counts=True, equal_nan=True)
        bins, count = self.kernels.joined(distinct.astype(np.float64), counts.astype(np.float64), most)
        known = np.flatnonzero(bins)
        rows = np.cumsum(counts[known])
        ends = rows[np.searchsorted(bins[known], np.arange(1, count), side="right") - 1]
        starts = np.append(0, ends[:-1])
        middle = np.full(count, np.nan, dtype=values.dtype)
        middle[1:] = distinct[known[np.searchsorted(rows, (starts + ends) / 2)]]
        return bins[cells], middle

    def _feature_cells(self, feature: int) -> tuple[Array, list[Array]]:
        """Return the sums of a feature's values, and these; close ones stand for each other if very many."""
        cells, values = self._make_bins(feature, FINE)
        return self._sums(cells, len(values)), [values]

    def _groups(self, feature: int, keys: Keys) -> Array:
        """Return the sums of a key's groups, missing first."""
        with self._lock:
            if feature not in self._grouped:
                self._grouped[feature] = self._sums(keys.codes + 1, keys.size + 1)
            return self._grouped[feature]

    def _sums(self, cells: Array, count: int) -> Array:
        found: Array = self.kernels.cell_sums(cells, count, self.fold, self.first, self.second)
        return found

    def _of_categories(self, sums: Array) -> Array:
        if self.chi2:
            result: Array = self.kernels.chi2_score(sums)
        else:
            result = self.kernels.category_scores(sums, self.value_bins)
        return result


def _rows(column: Any, rows: Array) -> Any:
    return column.take(rows) if isinstance(column, Keys) else column[rows]
