"""The openfe package: whole runs of it, and its way of scoring a single candidate."""

from __future__ import annotations

import contextlib
import importlib
import logging
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import lightgbm
import pandas as pd

from benchmarks.harness import Kept, Machine, Settings
from scopefe.run.compiling import Compiled
from scopefe.score.featureboost import Block
from scopefe.score.openfe import ask, request_of, safe_frame
from scopefe.space.universe import Universe

STAGES = ("baseline", "halving", "attribution")


class PackageRun(Kept):
    """What the package did with a pool.

    Parameters
    ----------
    seconds
        Of each stage; the start of its process and the enumeration of candidates are left out.
    selected
        Formulas of the most important features.
    """

    dataset: str
    rows: int
    candidates: int
    jobs: int
    seconds: dict[str, float]
    selected: list[str]


def package_run(compiled: Compiled, dataset: str) -> PackageRun:
    """Run the package on the pool, rows, seed and jobs of a spec, its own baseline included."""
    data, bench = compiled.data, compiled.bench
    assert data is not None and bench is not None
    spec, development = compiled.spec, data.development
    request = request_of(
        compiled.universe,
        compiled.scope.ids(),
        development,
        data.scaled_target,
        len(data.rows.train),
        bench.objective(data),
        spec.selection,
        seed=spec.seed,
        jobs=bench.engine.jobs,
    )
    answer = ask(request)
    best = [candidate for candidate, _ in answer["ranking"][: spec.selection.keep]]
    return PackageRun.now(
        dataset=dataset,
        rows=development.rows,
        candidates=compiled.pool_size,
        jobs=bench.engine.jobs,
        seconds=answer["seconds"],
        selected=[compiled.universe.expression(candidate).formula for candidate in best],
    )


def kept_run(compiled: Compiled, dataset: str, settings: Settings) -> PackageRun:
    """Return the kept run of the package on a dataset; make it first if there is none from this machine."""
    path = settings.folder / f"openfe-{dataset}.json"
    if path.is_file() and not settings.again:
        kept = PackageRun.read(path)
        if (kept.machine, kept.candidates) == (Machine.this(), compiled.pool_size):
            return kept
    run = package_run(compiled, dataset)
    run.write(path)
    return run


@dataclass(frozen=True)
class Scored:
    """Seconds that a candidate's values and their evaluation took, and its gain."""

    operator: float
    evaluate: float
    gain: float


class PackageScoring:
    """Computes and scores candidates with the package's own code, in this process, on one thread.

    Use it inside `quiet`.

    Parameters
    ----------
    universe
        Where operators are looked up.
    block
        The rows.
    """

    def __init__(self, universe: Universe, block: Block) -> None:
        from openfe.FeatureGenerator import FNode, Node
        from openfe.openfe import OpenFE

        self._nodes = Node, FNode
        self._universe = universe
        self._model = model = OpenFE()
        model.task = "regression" if block.objective.task == "regression" else "classification"
        model.metric, model.stage1_metric = block.objective.metric, "predictive"
        label, scores = pd.DataFrame({"target": block.target}), pd.DataFrame(block.scores)
        if model.task == "classification":
            label = label.astype(int)
        self._frame = safe_frame(block.table)
        parts = slice(block.fitted), slice(block.fitted, None)
        self._rows = [side.iloc[rows] for side in (label, scores) for rows in parts]
        self._initial = model.get_init_metric(self._rows[3], self._rows[1])

    def __call__(self, candidate: tuple[int, int, int]) -> Scored:
        """Score the candidate of (operator, left, right)."""
        node_class, leaf_class = self._nodes
        operator, *inputs = candidate
        name = self._universe.operators[operator].name
        node = node_class(name, [leaf_class(f"f{i}") for i in inputs if i >= 0])
        started = time.perf_counter()
        node.calculate(self._frame, is_root=True)
        computed = time.perf_counter()
        try:
            gain = self._model._evaluate(node, *self._rows, self._initial)
        except SystemExit:
            raise RuntimeError(f"the openfe package could not score {name}") from None
        return Scored(computed - started, time.perf_counter() - computed, float(gain))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Make the package run with any scikit-learn, and show none of its warnings or of LightGBM's log."""
    log = logging.getLogger("benchmarks.lightgbm")
    log.setLevel(logging.CRITICAL)
    lightgbm.register_logger(log)
    with warnings.catch_warnings():
        importlib.import_module("scopefe.score.openfe_worker")
        warnings.simplefilter("ignore")
        yield
