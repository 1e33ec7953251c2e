"""The reference engine: the openfe package, given our pool, in a process of its own.

The package changes global state (warning filters, random streams, files in the working directory) and ends
the process when a candidate fails; a separate process keeps all of that away. Columns go in under safe names
and category codes, booleans as categories, so that its text formulas cannot be misread.
"""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from scopefe.components import Array
from scopefe.data.table import Table
from scopefe.errors import ComponentError, RunError
from scopefe.operators import DEFAULT
from scopefe.score.attribution import Attribution
from scopefe.score.featureboost import Block
from scopefe.score.halving import Halving, Round
from scopefe.score.objective import Objective
from scopefe.score.selection import Selected, Timed, last_gains
from scopefe.space.universe import Universe
from scopefe.spec.models import Selection

PACKAGE_OPERATORS = frozenset(DEFAULT)


@dataclass(frozen=True)
class OpenFE:
    """Runs the openfe package's two stages on a pool and baseline scores.

    Parameters
    ----------
    jobs
        Number of its worker processes.
    """

    jobs: int = 1

    def __call__(
        self,
        universe: Universe,
        candidates: Array,
        block: Block,
        settings: Selection,
        seed: int,
        step: Timed,
    ) -> Selected:
        with step("openfe", None):
            result = self.run(universe, candidates, block, settings, seed)
        rounds = []
        for position, facts in enumerate(result["rounds"]):
            ids, gains = np.array(facts["candidates"], dtype=np.int64), np.array(facts["gains"])
            following = result["rounds"][position + 1 :]
            kept = following[0]["candidates"] if following else result["survivors"]
            rounds.append(
                Round(
                    facts["train_rows"], facts["selection_rows"], ids, gains, None, facts["same"],
                    np.array(kept, dtype=np.int64),
                )
            )  # fmt: skip
        halving = Halving(tuple(rounds), np.array(result["survivors"], dtype=np.int64))
        ranking = result["ranking"]
        attribution = Attribution(
            np.array([i for i, _ in ranking], dtype=np.int64),
            np.array([v for _, v in ranking], dtype=np.float64),
            0,
            (),
        )
        return Selected(halving, attribution, (), last_gains(halving))

    def run(
        self, universe: Universe, candidates: Array, block: Block, settings: Selection, seed: int
    ) -> dict[str, Any]:
        """Run the package and return what it did: rounds, survivors, ranking, seconds per stage.

        Raises
        ------
        ComponentError
            If the package is not installed, or does not know an operator.
        RunError
            If it fails.
        """
        if importlib.util.find_spec("openfe") is None:
            raise ComponentError(
                "selection.engine openfe needs the package openfe: pip install 'scopefe[openfe]'"
            )
        if settings.attribution != "gain":
            raise ComponentError("the openfe engine ranks by gain: write selection.attribution: gain")
        return ask(
            request_of(
                universe,
                candidates,
                block.table,
                block.target,
                block.fitted,
                block.objective,
                settings,
                seed=seed,
                jobs=self.jobs,
                scores=block.scores,
            )
        )


def request_of(
    universe: Universe,
    candidates: Array,
    table: Table,
    target: Array,
    fitted: int,
    objective: Objective,
    settings: Selection,
    *,
    seed: int,
    jobs: int,
    scores: Array | None = None,
) -> dict[str, Any]:
    """Return what the worker process is asked.

    Parameters
    ----------
    table, target
        All training rows, then all selection rows.
    fitted
        Number of training rows.
    scores
        Baseline raw scores; None lets the package compute its own.

    Raises
    ------
    ComponentError
        If the package does not know an operator.
    """
    operators, left, right = universe.decode(candidates)
    names = [universe.operators[o].name for o in operators]
    foreign = sorted(set(names) - PACKAGE_OPERATORS)
    if foreign:
        raise ComponentError(f"the openfe package does not know the operator {foreign[0]!r}")
    return {
        "frame": safe_frame(table),
        "categorical": [f"f{i}" for i in table.categorical()],
        "target": target,
        "scores": scores,
        "fitted": fitted,
        "task": "regression" if objective.task == "regression" else "classification",
        "metric": objective.metric,
        "candidates": list(zip(candidates.tolist(), names, left.tolist(), right.tolist(), strict=True)),
        "data_blocks": settings.data_blocks,
        "min_candidates": settings.min_candidates,
        "seed": seed,
        "jobs": jobs,
    }


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """Send a request to a worker process and return its answer.

    Raises
    ------
    RunError
        If the package fails.
    """
    with tempfile.TemporaryDirectory(prefix="scopefe-openfe-") as folder:
        (Path(folder) / "request.pickle").write_bytes(pickle.dumps(request))
        done = subprocess.run(
            [sys.executable, "-m", "scopefe.score.openfe_worker"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        answer = Path(folder) / "answer.pickle"
        if done.returncode or not answer.is_file():
            said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            raise RunError(f"the openfe package failed: {said[-1] if said else 'it said nothing'}")
        result: dict[str, Any] = pickle.loads(answer.read_bytes())
        return result


def safe_frame(table: Table) -> pd.DataFrame:
    """Return the table with columns f0, f1, …; categories are zero-padded codes, which sort as codes do."""
    columns: dict[str, Any] = {}
    for i in range(len(table)):
        feature = table[i]
        if feature.values is not None:
            columns[f"f{i}"] = feature.values
        else:
            codes = feature.keys.codes
            names = pd.Index([f"{c:09d}" for c in range(feature.keys.size)], dtype=object)
            columns[f"f{i}"] = pd.Categorical.from_codes(codes, categories=names).astype(object)
    return pd.DataFrame(columns)
