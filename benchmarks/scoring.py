"""Scoring of single candidates, by signature, task and rows.

Candidates are drawn per signature and scored on one thread by both sides in turn: by the package's own
operators and `OpenFE._evaluate`, and by scopefe's operators and kernels. Scores to start from are those of a
small baseline (two folds, 50 trees). What a column needs once, such as its order and its codes, is computed
before, as in a run where hundreds of candidates share it. Seconds are per candidate.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest

import numpy as np

from benchmarks.harness import Comparison, Scale, Settings, interleave
from benchmarks.package import PackageScoring, Scored, quiet
from benchmarks.tables import Data, part
from scopefe.components import CAT, NUM, Array, Operator
from scopefe.score.featureboost import Block, Evaluator, Scoring
from scopefe.score.kernels import Kernel
from scopefe.space.universe import Universe

TABLES: Mapping[str, tuple[str, int | None]] = {
    "rmse": ("california_housing", None),
    "binary": ("telecom", None),
    "4 classes": ("covtype", 4),
}
TRAINING_ROWS: Mapping[Scale, Sequence[int]] = {
    "tiny": (400,),
    "quick": (700, 16_000, 60_000),
    "full": (700, 1_000, 16_000, 60_000, 100_000, 1_000_000),
}
CANDIDATES: Mapping[Scale, int] = {"tiny": 1, "quick": 6, "full": 6}
FEW_ROWS = 200_000
BASELINE = ("baseline.folds=2", "baseline.max_trees=50")


def scoring(settings: Settings) -> Iterator[Comparison]:
    """Compare per task, rows and signature."""
    for task, (table, classes) in TABLES.items():
        for rows in TRAINING_ROWS[settings.scale]:
            data = part(table, rows * 5 // 4, classes=classes)
            count = CANDIDATES[settings.scale] if rows < FEW_ROWS else 2
            with quiet():
                found = list(_compared(f"{task}, {rows:,} training rows", data, count, settings))
            yield from found


def _compared(group: str, data: Data, count: int, settings: Settings) -> Iterator[Comparison]:
    universe, block = block_of(data)
    package, native = PackageScoring(universe, block), NativeScoring(universe, block)
    for signature, operators in signatures(universe).items():
        candidates = drawn(universe, operators, count)
        if not candidates:
            continue
        for candidate in candidates:
            native(candidate)
        runs = [
            interleave({"openfe": partial(package, c), "scopefe": partial(native, c)}, settings.repeats)
            for c in candidates
        ]
        yield from _averaged(group, signature, block.initial, runs)


def _averaged(
    group: str, signature: str, initial: float, runs: list[dict[str, list[Scored]]]
) -> Iterator[Comparison]:
    """Compare the mean seconds per candidate of a signature, repeat by repeat."""
    differences = [abs(p.gain - s.gain) / initial for r in runs for p, s in zip(*r.values(), strict=True)]

    def mean(side: str, seconds: Callable[[Scored], float]) -> list[float]:
        return [
            statistics.mean(map(seconds, repeat)) for repeat in zip(*(r[side] for r in runs), strict=True)
        ]

    clocks: dict[str, Callable[[Scored], float]] = {
        "evaluate": lambda s: s.evaluate,
        "operator and evaluate": lambda s: s.operator + s.evaluate,
    }
    for what, clock in clocks.items():
        yield Comparison(
            group=group,
            name=f"{signature}: {what}",
            against="openfe package",
            peer=mean("openfe", clock),
            scopefe=mean("scopefe", clock),
            difference=max(differences),
        )


@dataclass
class Clocked:
    """An evaluator, and the seconds that its last call took."""

    inner: Evaluator
    name: str = "clocked"
    seconds: float = field(default=0.0, init=False)

    def gain(self, block: Block, values: Array, *, categorical: bool) -> float:
        """Return the gain."""
        started = time.perf_counter()
        gain = self.inner.gain(block, values, categorical=categorical)
        self.seconds = time.perf_counter() - started
        return gain


class NativeScoring:
    """Scores candidates as a run does, with a clock."""

    def __init__(self, universe: Universe, block: Block) -> None:
        self._evaluator = Clocked(Kernel())
        self._scoring = Scoring(universe, block.table, block.measured(), self._evaluator)

    def __call__(self, candidate: tuple[int, int, int]) -> Scored:
        """Score the candidate of (operator, left, right)."""
        started = time.perf_counter()
        gains = self._scoring(candidate)
        total = time.perf_counter() - started
        if isinstance(gains, str):
            raise RuntimeError(f"scopefe could not score {candidate}: {gains}")
        return Scored(total - self._evaluator.seconds, self._evaluator.seconds, *gains)


def block_of(data: Data) -> tuple[Universe, Block]:
    """Return the whole universe of a table, and its development rows over the scores of a small baseline."""
    compiled = data.compile("openfe", *BASELINE)
    found, bench = compiled.data, compiled.bench
    assert found is not None and bench is not None
    scores = bench.baseline(found, None, bench.spec.baseline.folds).scores
    table, fitted = found.development, len(found.rows.train)
    return compiled.universe, Block(table, fitted, found.scaled_target, scores, bench.objective(found))


def signatures(universe: Universe) -> dict[str, list[int]]:
    """Return the operators of each signature, by their positions; those of two categories one by one."""
    result: dict[str, list[int]] = {}
    for position, operator in enumerate(universe.operators):
        result.setdefault(_signature(operator), []).append(position)
    return result


def _signature(operator: Operator) -> str:
    known = {(NUM,): "numeric unary", (NUM, NUM): "numeric pair", (NUM, CAT): "group-by"}
    return known.get(operator.takes, operator.name)


def drawn(universe: Universe, operators: list[int], count: int) -> list[tuple[int, int, int]]:
    """Draw candidates, as many of each operator as of the others, give or take one."""
    rng, blocks = np.random.default_rng(0), [universe.blocks[o] for o in operators]
    shuffled = [(b.offset + rng.permutation(b.size)[:count]).tolist() for b in blocks]
    turns = [i for turn in zip_longest(*shuffled) for i in turn if i is not None]
    columns = universe.decode(np.array(turns[:count], dtype=np.int64))
    return list(zip(*(column.tolist() for column in columns), strict=True))
