"""A scope: a set of candidate ids, kept factored for as long as it can be."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from scopefe.components import Array
from scopefe.errors import ComponentError, RunError
from scopefe.space.pairs import PairSet
from scopefe.space.universe import Block, Universe

MAX_LISTED = 300_000_000

Part = bool | PairSet | Array
"""What one operator may take: everything, nothing, the tuples a pair set admits, or listed numbers."""


class Scope:
    """A set of candidates of a universe.

    Parameters
    ----------
    universe
        Where the candidates come from.
    parts
        One per operator: True (all of its candidates), False (none), a `PairSet`, or ascending int64 numbers
        within the operator's block.
    """

    def __init__(self, universe: Universe, parts: Sequence[Part]) -> None:
        self.universe = universe
        self.parts = tuple(parts)

    @classmethod
    def everything(cls, universe: Universe) -> Scope:
        """Return the whole universe."""
        return cls(universe, [True] * len(universe.blocks))

    @classmethod
    def of_ids(cls, universe: Universe, ids: Array) -> Scope:
        """Return the scope of listed candidate ids, in any order."""
        ids = np.unique(np.asarray(ids, dtype=np.int64))
        universe.check(ids)
        edges = np.searchsorted(ids, [b.offset for b in universe.blocks] + [universe.size])
        parts = [
            ids[a:b] - block.offset
            for a, b, block in zip(edges[:-1], edges[1:], universe.blocks, strict=True)
        ]
        return cls(universe, parts)

    def restrict(self, pairs: PairSet) -> Scope:
        """Keep the two-input candidates that a pair set admits; one-input candidates stay.

        Raises
        ------
        ComponentError
            If the pair set is over another number of features.
        """
        if len(pairs.matrix) != self.universe.d:
            raise ComponentError(
                f"a pair set over {len(pairs.matrix)} features does not fit a table of {self.universe.d}"
            )
        parts = [
            _meet(part, pairs if block.operator.arity == 2 else True, block)
            for part, block in zip(self.parts, self.universe.blocks, strict=True)
        ]
        return Scope(self.universe, parts)

    def only(self, keep: Callable[[int], bool]) -> Scope:
        """Keep the candidates of the operators, by position, for which `keep` is true."""
        return Scope(self.universe, [part if keep(i) else False for i, part in enumerate(self.parts)])

    def of_arity(self, arity: int) -> Scope:
        """Keep the candidates of operators with so many inputs."""
        return self.only(lambda i: self.universe.operators[i].arity == arity)

    def __and__(self, other: Scope) -> Scope:
        return self._with(other, _meet)

    def __or__(self, other: Scope) -> Scope:
        return self._with(other, _join)

    def __sub__(self, other: Scope) -> Scope:
        return self._with(other, _minus)

    def _with(self, other: Scope, combine: Callable[[Part, Part, Block], Part]) -> Scope:
        if other.universe is not self.universe and other.universe.key != self.universe.key:
            raise ValueError("the scopes are of different universes")
        parts = zip(self.parts, other.parts, self.universe.blocks, strict=True)
        return Scope(self.universe, [combine(a, b, block) for a, b, block in parts])

    def __len__(self) -> int:
        return sum(self.count(i) for i in range(len(self.parts)))

    def count(self, operator: int) -> int:
        """Return the raw number of candidates of an operator."""
        return _count(self.parts[operator], self.universe.blocks[operator])

    def count_unique(self, operator: int) -> int:
        """Return the number of distinct candidates of an operator."""
        first, second = self.universe.doubles(operator)
        if not len(first):
            return self.count(operator)
        part, block = self.parts[operator], self.universe.blocks[operator]
        both = _contains(part, first, block) & _contains(part, second, block)
        return self.count(operator) - int(both.sum())

    def local(self, operator: int) -> Array:
        """Return the numbers of an operator's candidates within its block, ascending."""
        return _list(self.parts[operator], self.universe.blocks[operator])

    def ids(self) -> Array:
        """Return all candidate ids, ascending.

        Raises
        ------
        RunError
            If there are too many to list.
        """
        _check_listable(len(self))
        listed = [self.local(i) + block.offset for i, block in enumerate(self.universe.blocks)]
        return np.concatenate([np.empty(0, dtype=np.int64), *listed])

    def count_by_label(self, labels: Array) -> tuple[Array, int]:
        """Count two-input candidates by the label of their features.

        Parameters
        ----------
        labels
            int64, shape (d,): a label from 0 for each feature.

        Returns
        -------
        tuple
            Candidates whose features share a label, int64, one count per label; and how many do not.
        """
        inside = np.zeros(int(labels.max(initial=-1)) + 1, dtype=np.int64)
        total = 0
        for i, (part, block) in enumerate(zip(self.parts, self.universe.blocks, strict=True)):
            if block.operator.arity != 2:
                continue
            total += self.count(i)
            if isinstance(part, np.ndarray):
                left, right = block.layout.features(part)
                same = labels[left] == labels[right]
                inside += np.bincount(labels[left[same]], minlength=len(inside))
            else:
                for label in range(len(inside)):
                    members = labels == label
                    clique = PairSet(members[:, None] & members[None, :])
                    inside[label] += _count(_meet(part, clique, block), block)
        return inside, total - int(inside.sum())

    def contains(self, operator: int, local: Array) -> Array:
        """Boolean: whether the numbered candidates of an operator are in the scope."""
        return _contains(self.parts[operator], local, self.universe.blocks[operator])


def _check_listable(count: int) -> None:
    if count > MAX_LISTED:
        raise RunError(
            f"{count:,} candidates are too many to list (at most {MAX_LISTED:,}); narrow the scope by a gate"
        )


def _count(part: Part, block: Block) -> int:
    if isinstance(part, bool):
        return block.size if part else 0
    return block.layout.count(part) if isinstance(part, PairSet) else len(part)


def _list(part: Part, block: Block) -> Array:
    if isinstance(part, bool):
        _check_listable(block.size if part else 0)
        return np.arange(block.size if part else 0)
    return block.layout.members(part) if isinstance(part, PairSet) else part


def _contains(part: Part, local: Array, block: Block) -> Array:
    if isinstance(part, bool):
        return np.full(len(local), part)
    if isinstance(part, PairSet):
        return part.contains(*block.layout.features(local))
    return np.isin(local, part, assume_unique=False)


def _meet(a: Part, b: Part, block: Block) -> Part:
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    if isinstance(a, PairSet) and isinstance(b, PairSet):
        return a & b
    listed, other = (b, a) if isinstance(a, PairSet) else (a, b)
    assert not isinstance(listed, PairSet)
    return listed[_contains(other, listed, block)]


def _join(a: Part, b: Part, block: Block) -> Part:
    if isinstance(a, bool):
        return True if a else b
    if isinstance(b, bool):
        return True if b else a
    if isinstance(a, PairSet) and isinstance(b, PairSet):
        return a | b
    return np.union1d(_list(a, block), _list(b, block))


def _minus(a: Part, b: Part, block: Block) -> Part:
    if isinstance(b, bool):
        return False if b else a
    if isinstance(a, bool):
        if not a:
            return False
        if isinstance(b, PairSet):
            return ~b
    elif isinstance(a, PairSet) and isinstance(b, PairSet):
        return a - b
    listed = _list(a, block)
    return listed[~_contains(b, listed, block)]
