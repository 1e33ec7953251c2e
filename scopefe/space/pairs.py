"""Sets of unordered feature pairs."""

from __future__ import annotations

import networkx as nx
import numpy as np

from scopefe.components import Array


class PairSet:
    """A set of unordered pairs of features; a feature is never paired with itself.

    Parameters
    ----------
    matrix
        Boolean, shape (d, d), symmetric; the diagonal is ignored.
    """

    def __init__(self, matrix: Array) -> None:
        admitted = np.array(matrix, dtype=bool)
        if admitted.ndim != 2 or admitted.shape[0] != admitted.shape[1]:
            raise ValueError(f"a pair set needs a square matrix, not shape {admitted.shape}")
        if not (admitted == admitted.T).all():
            raise ValueError("a pair set needs a symmetric matrix")
        np.fill_diagonal(admitted, False)
        self.matrix = admitted

    @classmethod
    def complete(cls, d: int) -> PairSet:
        """Return every pair of `d` features."""
        return cls(np.ones((d, d), dtype=bool))

    @classmethod
    def within(cls, labels: Array) -> PairSet:
        """Return the pairs inside clusters (paper, Eq. intra indicator): disjoint cliques.

        Parameters
        ----------
        labels
            Integers, shape (d,): cluster of each feature.
        """
        return cls(labels[:, None] == labels[None, :])

    @classmethod
    def across(cls, labels: Array) -> PairSet:
        """Return the pairs between clusters: a complete multipartite graph."""
        return cls(labels[:, None] != labels[None, :])

    def __and__(self, other: PairSet) -> PairSet:
        return PairSet(self.matrix & other.matrix)

    def __or__(self, other: PairSet) -> PairSet:
        return PairSet(self.matrix | other.matrix)

    def __sub__(self, other: PairSet) -> PairSet:
        return PairSet(self.matrix & ~other.matrix)

    def __invert__(self) -> PairSet:
        return PairSet(~self.matrix)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PairSet) and np.array_equal(self.matrix, other.matrix)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return int(self.matrix.sum()) // 2

    def __repr__(self) -> str:
        return f"<PairSet: {len(self)} pairs of {len(self.matrix)} features>"

    def contains(self, left: Array, right: Array) -> Array:
        """Boolean, shape (n,): whether each pair of features is in the set."""
        return self.matrix[left, right]

    def graph(self) -> nx.Graph[int]:
        """Return the pairs as the edges of an undirected graph over the features."""
        return nx.from_numpy_array(self.matrix)
