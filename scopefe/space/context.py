"""What a gate may see: the component API that the runner fills."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from scopefe.components import Array
from scopefe.data.table import Table
from scopefe.errors import ScopefeError
from scopefe.space.scope import Scope
from scopefe.space.universe import Universe

T = TypeVar("T")


class NeedsDataError(ScopefeError):
    """A gate asked for data where only the schema is known."""


@dataclass(frozen=True)
class Sample:
    """A random part of the training and of the selection rows, drawn independently.

    Parameters
    ----------
    ratio
        Share of each role's rows.
    seed
        Seed of the draw; classes are stratified where their counts permit.
    """

    ratio: float = 1.0
    seed: int = 1


@dataclass(frozen=True, eq=False)
class Gradients:
    """Derivatives of the loss with respect to the baseline's raw scores.

    Parameters
    ----------
    first, second
        float64, shape (outputs, rows): as many outputs as classes for more than two of them, else one.
    """

    first: Array
    second: Array


@dataclass(frozen=True, eq=False)
class Splits:
    """The splits of a model's trees, each of them after the one above it.

    Parameters
    ----------
    feature
        int64, shape (splits,): position of the feature that is split.
    parent
        int64, shape (splits,): position, among the splits, of the one above; -1 for a root.
    gain
        float64, shape (splits,): by how much the split lowers the training loss.
    """

    feature: Array
    parent: Array
    gain: Array


class GateContext(Protocol):
    """What a gate is given. Test rows are not in it.

    A pair gate sees the training rows and their targets, an operator gate the training and selection rows.
    """

    universe: Universe

    def table(self) -> Table:
        """Return the rows the gate may see."""
        ...

    def groups(self) -> Array | None:
        """Return the group of each row of `table`, int64; None where the split does not keep any together.

        What is learned from some rows of a group and measured on others is not measured on unseen ones.
        """
        ...

    def rng(self, name: str, seed: int) -> np.random.Generator:
        """Return a random stream of its own for a name and a seed from the spec."""
        ...

    def gains(self, candidates: Array, *, sample: Sample, folds: int) -> Array:
        """Return the FeatureBoost gain of candidates on a sample of rows.

        Parameters
        ----------
        candidates
            int64 ids, shape (n,).
        sample
            The rows: candidates learn from its training part and are scored on its selection part.
        folds
            Number of folds of the out-of-fold baseline on the sample.

        Returns
        -------
        ndarray
            float64, shape (n,); NaN for a candidate that failed.
        """
        ...

    def gradients(self) -> Gradients:
        """Return the derivatives of the loss at the baseline's scores, over the rows of `table`.

        Scores are out of fold; the baseline learns from these rows alone.
        """
        ...

    def splits(self) -> Splits:
        """Return the splits of a LightGBM on the features, trained on the rows of `table`.

        It has at most 100 trees, with the baseline's learning rate, and a fifth of the rows stops it early.
        """
        ...

    def map(self, work: Callable[[int], T], numbers: range) -> Iterator[T]:
        """Yield ``work(number)`` for each number, in order; several at a time where there are cores."""
        ...

    def matched(self, match: str) -> Scope:
        """Return the pool of another spec, compiled on the same data."""
        ...

    def remember(
        self, name: str, parameters: Mapping[str, Any], compute: Callable[[], Any], *, by_target: bool = True
    ) -> Any:
        """Return `compute()`, computed once for the same data, universe and parameters.

        Parameters
        ----------
        by_target
            Whether it depends on the target, and with it on the settings of the baseline.
        """
        ...

    def note(self, name: str, fact: Any) -> None:
        """Add a fact (JSON values) to the report."""
        ...

    def remark(self, sentence: str) -> None:
        """Add a sentence to the notes of the report."""
        ...

    def added(self, candidates: int, why: str) -> None:
        """Say that so many of the candidates that are admitted go beyond the gate's own rule.

        Parameters
        ----------
        why
            As in "added for noise"; `scopefe compile` shows the number beside what came in and what went.
        """
        ...


def agreement(by_fold: Array) -> float | None:
    """Return the mean correlation of two folds' gains; None where it has no meaning.

    Parameters
    ----------
    by_fold
        float64, shape (candidates, folds); candidates that failed are NaN.
    """
    known = by_fold[~np.isnan(by_fold).any(axis=1)]
    folds = by_fold.shape[1]
    if folds < 2 or len(known) < 3 or not (np.ptp(known, axis=0) > 0).all():
        return None
    return float(np.corrcoef(known.T)[np.triu_indices(folds, 1)].mean())
