"""What an evaluation found: scores over seeds, their difference, and what each feature is worth."""

from __future__ import annotations

from dataclasses import dataclass

from scopefe.components import Array
from scopefe.evaluate.uncertainty import Difference
from scopefe.evaluate.worth import Worth


@dataclass(frozen=True, eq=False)
class Scores:
    """A model's metric on the test rows, over seeds.

    Parameters
    ----------
    values
        float64, shape (seeds,).
    trees
        int64, shape (seeds,): trees of each model.
    contributions
        float64, shape (seeds, units): see `scopefe.evaluate.uncertainty.contributions`.
    """

    values: Array
    trees: Array
    contributions: Array

    def first(self, seeds: int) -> Scores:
        """Return the scores of the first seeds."""
        return Scores(self.values[:seeds], self.trees[:seeds], self.contributions[:seeds])

    def minus(self, other: Scores) -> Difference:
        """Return the paired difference to scores of the same seeds."""
        mean = float((self.values - other.values).mean())
        return Difference.of(mean, (self.contributions - other.contributions).mean(axis=0))


@dataclass(frozen=True, eq=False)
class Outcome:
    """What an evaluation found.

    Parameters
    ----------
    before
        Without new features.
    after, difference
        With them, and what that changed; None where there are none.
    worth
        Of each feature, in the recipe's order; empty where it was not measured.
    """

    before: Scores
    after: Scores | None
    difference: Difference | None
    worth: tuple[Worth, ...]
