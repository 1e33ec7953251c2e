"""The universe: every candidate the operators allow on the features, as an ordering."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scopefe.components import ANY, CAT, NUM, Array, Kind, Operator
from scopefe.data.table import FeatureKind
from scopefe.space.expression import Apply, Expression, Leaf
from scopefe.space.layout import Grid, Layout, Pairs, Singles


@dataclass(frozen=True, eq=False)
class Block:
    """The candidates of one operator: ids from `offset` on, in the order of `layout`."""

    operator: Operator
    layout: Layout
    offset: int

    @property
    def size(self) -> int:
        """Number of candidates."""
        return self.layout.size


class Universe:
    """An ordering of candidates: id ↔ (operator, left, right) in closed form.

    Operators follow each other in the given order. Lists of features are filled numerical, categorical,
    ordinal; ordinal features stand in the numeric and in the categorical list, and a one-input operator of
    any kind meets them twice: raw counts have both, unique counts one.

    Parameters
    ----------
    names, kinds
        The features.
    operators
        The operators, in order.
    directions
        ``both`` enumerates one-way operators in both orders.
    levels
        A category-valued candidate with more levels is a number to models, the frequency of its category;
        None: categories are treated as OpenFE does.
    """

    def __init__(
        self,
        names: Sequence[str],
        kinds: Sequence[FeatureKind],
        operators: Sequence[Operator],
        directions: Literal["one", "both"] = "one",
        levels: int | None = None,
    ) -> None:
        self.levels = levels
        self.names = list(names)
        self.kinds = list(kinds)
        self.operators = list(operators)
        self.directions = directions
        self._layouts: dict[object, Layout] = {}
        self.blocks: list[Block] = []
        offset = 0
        for operator in operators:
            block = Block(operator, self._layout(operator), offset)
            self.blocks.append(block)
            offset += block.size
        self.size = offset
        self._offsets = np.array([b.offset for b in self.blocks], dtype=np.int64)

    @property
    def d(self) -> int:
        """Number of features."""
        return len(self.names)

    @property
    def ordinals(self) -> Array:
        """Positions of the ordinal features."""
        return self._of("ordinal")

    @property
    def key(self) -> str:
        """Hash of the features, kinds, operators and directions: what the ids of candidates stand for."""
        content = [
            self.names,
            self.kinds,
            [(o.name, o.version, o.signature) for o in self.operators],
            self.directions,
        ]
        return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()

    @property
    def values_key(self) -> str:
        """Hash of what models are given of the candidates."""
        return f"{self.key} {self.levels}"

    def items(self, kind: Kind) -> Array:
        """Return the list of features that an input of this kind runs over."""
        if kind == NUM:
            return np.concatenate([self._of("numerical"), self._of("ordinal")])
        if kind == CAT:
            return np.concatenate([self._of("categorical"), self._of("ordinal")])
        return np.concatenate([self.items(NUM), self.items(CAT)])

    def _of(self, kind: FeatureKind) -> Array:
        return np.array([i for i, k in enumerate(self.kinds) if k == kind], dtype=np.int64)

    def _layout(self, operator: Operator) -> Layout:
        once = operator.symmetric or (operator.one_way and self.directions == "one")
        signature = (operator.takes, once)
        if signature not in self._layouts:
            lists = [self.items(kind) for kind in operator.takes]
            if len(lists) == 1:
                layout: Layout = Singles(lists[0])
            elif operator.takes[0] == operator.takes[1]:
                layout = Pairs(lists[0], ordered=not once)
            else:
                layout = Grid(*lists)
            self._layouts[signature] = layout
        return self._layouts[signature]

    def check(self, ids: Array) -> None:
        """Raise IndexError if the universe does not have all of these candidates."""
        if len(ids) and (ids.min() < 0 or ids.max() >= self.size):
            raise IndexError(f"candidate ids run from 0 to {self.size - 1}")

    def block_of(self, ids: Array) -> Array:
        """Return the position of the operator of each candidate."""
        return np.searchsorted(self._offsets, ids, side="right") - 1

    def decode(self, ids: Array) -> tuple[Array, Array, Array]:
        """Return (operator, left, right) of candidates; right is -1 for one-input operators.

        Parameters
        ----------
        ids
            int64, shape (n,).

        Returns
        -------
        tuple of ndarray
            int32 positions of operators and features, each of shape (n,).
        """
        ids = np.asarray(ids, dtype=np.int64)
        self.check(ids)
        operators = self.block_of(ids)
        left = np.empty(len(ids), dtype=np.int32)
        right = np.empty(len(ids), dtype=np.int32)
        for position in np.unique(operators):
            block = self.blocks[position]
            chosen = operators == position
            left[chosen], right[chosen] = block.layout.features(ids[chosen] - block.offset)
        return operators.astype(np.int32), left, right

    def encode(self, operator: int, left: Array, right: Array) -> Array:
        """Return the ids of an operator's candidates; -1 for tuples it does not take."""
        block = self.blocks[operator]
        left = np.asarray(left)
        local = block.layout.locate(left, np.asarray(right))
        known = local >= 0
        if block.operator.one_way:  # b - a is not a - b, even where only one of them is enumerated
            known[known] = block.layout.features(local[known])[0] == left[known]
        return np.where(known, local + block.offset, -1)

    def expressions(self, ids: Array) -> Iterator[Expression]:
        """Yield candidates as expressions."""
        for operator, left, right in zip(*self.decode(ids), strict=True):
            chosen = self.operators[operator]
            arguments = (left,) if right < 0 else (left, right)
            yield Apply(chosen.name, tuple(Leaf(self.names[i]) for i in arguments), chosen.symmetric)

    def expression(self, candidate: int) -> Expression:
        """Return a candidate as an expression."""
        return next(self.expressions(np.array([candidate])))

    def doubles(self, operator: int) -> tuple[Array, Array]:
        """Return the numbers, within an operator's block, of the first and second place of ordinal features.

        Both arrays are empty unless the operator takes any kind.
        """
        if self.operators[operator].takes != (ANY,):
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        numeric, total, o = len(self.items(NUM)), len(self.items(ANY)), len(self.ordinals)
        return np.arange(numeric - o, numeric), np.arange(total - o, total)

    def canonical(self, ids: Array) -> Array:
        """Return candidates with those that repeat another replaced by it."""
        result = np.array(ids, dtype=np.int64)
        for position, block in enumerate(self.blocks):
            first, second = (place + block.offset for place in self.doubles(position))
            if len(second):
                repeats = (result >= second[0]) & (result <= second[-1])
                result[repeats] += first[0] - second[0]
        return result

    def unique(self) -> Array:
        """Return the ids of all distinct candidates, int64, ascending."""
        ids = np.arange(self.size, dtype=np.int64)
        distinct: Array = ids[self.canonical(ids) == ids]
        return distinct
