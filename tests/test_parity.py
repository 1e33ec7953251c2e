"""The native engine against the openfe package: the same pool, rows, seeds and baseline scores.

Gains must agree within 1e-9 of the metric. Survivors and their order must be equal, leaving out candidates
whose gain is a rounding error, and taking candidates of equal gain for one another.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pytest
from conftest import needs_data

import scopefe
from scopefe.score.featureboost import Block
from scopefe.score.kernels import Kernel
from scopefe.score.openfe import OpenFE
from scopefe.score.selection import Native

GAIN_TOLERANCE, ZERO = 1e-9, 1e-8


@dataclass
class Case:
    """A pool on the rows of a dataset."""

    universe: object
    candidates: np.ndarray
    block: Block
    settings: object
    engine: object

    def native(self):
        @contextmanager
        def step(name, total):
            yield lambda count: None

        native = Native(Kernel(), self.engine)
        return native(self.universe, self.candidates, self.block, self.settings, 1, step)

    def package(self):
        return OpenFE(2).run(self.universe, self.candidates, self.block, self.settings, 1)


def case(dataset: str, *, candidates: int | None, rows: int | None, blocks: int = 1) -> Case:
    """Draw candidates, stratified by operator, and rows of a dataset."""
    spec = scopefe.load_spec(
        "openfe", fragments=[f"data/{dataset}"], overrides=[f"selection.data_blocks={blocks}"]
    )
    compiled = scopefe.compile(spec)
    data, bench, universe = compiled.data, compiled.bench, compiled.universe
    rng = np.random.default_rng(0)
    positions, fitted = drawn_rows(rng, len(data.rows.train), len(data.rows.selection), rows)
    target = data.scaled_target[positions]
    table, objective = data.development.take(positions), bench.objective(data)
    scores = bench.baseline(data, positions, 5).scores
    block = Block(table, fitted, target, scores, objective)
    ids = compiled.scope.ids() if candidates is None else drawn_candidates(rng, universe, candidates)
    return Case(universe, ids, block, spec.selection, bench.engine)


def drawn_rows(rng, train: int, selection: int, rows: int | None):
    if rows is None:
        return np.arange(train + selection), train
    first = np.sort(rng.choice(train, rows, replace=False))
    second = train + np.sort(rng.choice(selection, rows // 3, replace=False))
    return np.concatenate([first, second]), rows


def drawn_candidates(rng, universe, count: int):
    """Draw about as many of each operator; those with few give their share to the others."""
    left, drawn = count, []
    blocks = sorted((b for b in universe.blocks if b.size), key=lambda b: b.size)
    for position, block in enumerate(blocks):
        size = min(block.size, left // (len(blocks) - position))
        drawn.append(block.offset + rng.choice(block.size, size, replace=False))
        left -= size
    return np.sort(np.concatenate(drawn))


def assert_same_rounds(native, package, initial: float) -> None:
    """Rounds score the same candidates on as many rows with the same gains."""
    assert len(native.halving.rounds) == len(package["rounds"])
    for ours, theirs in zip(native.halving.rounds, package["rounds"], strict=True):
        assert (ours.train_rows, ours.selection_rows) == (theirs["train_rows"], theirs["selection_rows"])
        our_gains = dict(zip(ours.candidates.tolist(), ours.gains, strict=True))
        their_gains = dict(zip(theirs["candidates"], theirs["gains"], strict=True))
        common = our_gains.keys() & their_gains.keys()
        assert len(common) >= 0.99 * len(their_gains)
        differences = [abs(our_gains[c] - their_gains[c]) for c in common]
        assert max(differences) <= GAIN_TOLERANCE * initial


def assert_same_survivors(native, package, initial: float) -> None:
    """Survivors have the same gains in the same order, but for rounding errors."""
    last = dict(zip(package["rounds"][-1]["candidates"], package["rounds"][-1]["gains"], strict=True))

    def gains(ids, known):
        values = np.array([known[i] for i in ids])
        return values[np.abs(values) > ZERO * initial]

    ours, theirs = gains(native.halving.survivors.tolist(), native.gains), gains(package["survivors"], last)
    ours, theirs = distinct(ours, initial), distinct(theirs, initial)
    assert len(ours) == len(theirs)
    assert np.abs(ours - theirs).max(initial=0) <= GAIN_TOLERANCE * initial


def distinct(gains, initial: float):
    """Leave one of each run of equal gains."""
    return gains[np.append(True, np.diff(gains) < -GAIN_TOLERANCE * initial)] if len(gains) else gains


def assert_same_ranking(native, package, keep: int = 10) -> None:
    """The most important features are the same, in the same order.

    Importances are sums that LightGBM keeps in single precision, in an order that varies with its threads.
    """
    ours = native.attribution
    theirs = package["ranking"]
    assert ours.candidates[:keep].tolist() == [candidate for candidate, _ in theirs[:keep]]
    expected = [importance for _, importance in theirs[:keep]]
    assert ours.importances[:keep] == pytest.approx(expected, rel=1e-4)


def check(chosen: Case, *, ranking: bool = True):
    native, package = chosen.native(), chosen.package()
    assert not native.failures
    initial = chosen.block.initial
    assert_same_rounds(native, package, initial)
    assert_same_survivors(native, package, initial)
    if ranking:
        assert_same_ranking(native, package)
    return native, package


QUICK, LONG = ["california_housing", "telecom", "adult"], ["nomao", "diabetes130", "jannis"]


@pytest.mark.parametrize(
    "dataset",
    [
        *(pytest.param(d, marks=needs_data(d)) for d in QUICK),
        *(pytest.param(d, marks=[needs_data(d), pytest.mark.slow]) for d in LONG),
    ],
)
def test_200_candidates_on_a_few_thousand_rows(dataset, data_folder):
    check(case(dataset, candidates=200, rows=3000))


@pytest.mark.slow
@pytest.mark.parametrize(
    "dataset", [pytest.param(d, marks=needs_data(d)) for d in ("california_housing", "adult")]
)
def test_the_whole_pool_on_all_rows(dataset, data_folder):
    check(case(dataset, candidates=None, rows=None))


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1, 8])
@pytest.mark.parametrize("dataset", [pytest.param("telecom", marks=needs_data("telecom"))])
def test_a_pool_large_enough_to_be_halved(dataset, blocks, data_folder):
    native, _ = check(case(dataset, candidates=2500, rows=None, blocks=blocks))
    assert len(native.halving.rounds) == (1 if blocks == 1 else 2)


@pytest.mark.parametrize(
    "dataset", [pytest.param("california_housing", marks=needs_data("california_housing"))]
)
def test_the_baseline_is_the_packages(dataset, data_folder):
    from scopefe.score import openfe

    chosen = case(dataset, candidates=23, rows=3000)
    block = chosen.block
    request = openfe.request_of(
        chosen.universe,
        chosen.candidates[:1],
        block.table,
        block.target,
        block.fitted,
        block.objective,
        chosen.settings,
        seed=1,
        jobs=1,
    )
    scores = openfe.ask(request)["scores"].ravel()
    assert scores == pytest.approx(block.scores, abs=1e-9)
