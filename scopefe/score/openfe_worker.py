"""The process that runs the openfe package; see `scopefe.score.openfe`."""

from __future__ import annotations

import pickle
import time
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

import lightgbm  # noqa: E402
import numpy as np  # noqa: E402
import openfe.openfe as package  # noqa: E402
import pandas as pd  # noqa: E402
from openfe.FeatureGenerator import FNode, Node  # noqa: E402


def mean_squared_error(truth: Any, predicted: Any, squared: bool = True) -> float:
    """Stand in for the argument that scikit-learn removed."""
    error = float(np.mean((np.asarray(truth).ravel() - np.asarray(predicted).ravel()) ** 2))
    return error if squared else float(np.sqrt(error))


package.mean_squared_error = mean_squared_error


class Recording(package.OpenFE):  # type: ignore[misc]
    """The package, noting what it does."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds: list[dict[str, Any]] = []
        self.seconds: dict[str, float] = {}
        self.survivors: list[Any] = []

    def _calculate_and_evaluate(self, candidates: Any, train_rows: Any, selection_rows: Any) -> Any:
        result = super()._calculate_and_evaluate(candidates, train_rows, selection_rows)
        self.rounds.append(
            {
                "train_rows": len(train_rows),
                "selection_rows": len(selection_rows),
                "candidates": [node.scopefe_id for node, _ in result],
                "gains": [gain for _, gain in result],
                "same": 0,
            }
        )
        return result

    def delete_same(self, scored: Any, threshold: float = 1e-20) -> Any:
        before = len(scored)
        result = super().delete_same(scored, threshold)
        self.rounds[-1]["same"] = before - len(result)
        return result

    def get_init_score(self, scores: Any, use_train: bool = False) -> Any:
        return self._timed("baseline", super().get_init_score, scores, use_train)

    def stage1_select(self, ratio: float = 0.5) -> Any:
        kept = self._timed("halving", super().stage1_select, ratio)
        self.survivors = [node.scopefe_id for node in kept]
        return kept

    def stage2_select(self) -> Any:
        return self._timed("attribution", super().stage2_select)

    def _timed(self, stage: str, function: Any, *arguments: Any) -> Any:
        started = time.perf_counter()
        result = function(*arguments)
        self.seconds[stage] = time.perf_counter() - started
        return result


def main() -> None:
    """Answer the request in the working directory."""
    request = pickle.loads(Path("request.pickle").read_bytes())
    Path("answer.pickle").write_bytes(pickle.dumps(answer(request)))


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Run the package on a request."""
    nodes: list[Any] = []
    by_formula: dict[str, int] = {}
    for identity, name, left, right in request["candidates"]:
        node = Node(name, [FNode(f"f{i}") for i in (left, right) if i >= 0])
        node.scopefe_id = identity
        nodes.append(node)
        by_formula.setdefault(package.tree_to_formula(node), identity)
    frame = request["frame"]
    label = pd.DataFrame({"target": request["target"]})
    if request["task"] == "classification":
        label = label.astype(int)
    scores = None if request["scores"] is None else pd.DataFrame(request["scores"])
    rows = pd.Series(np.arange(len(frame)))
    model = Recording()
    model.fit(
        data=frame,
        label=label,
        task=request["task"],
        train_index=rows.iloc[: request["fitted"]],
        val_index=rows.iloc[request["fitted"] :],
        candidate_features_list=nodes,
        init_scores=scores,
        categorical_features=request["categorical"],
        metric=request["metric"],
        n_data_blocks=request["data_blocks"],
        min_candidate_features=request["min_candidates"],
        feature_boosting=True,
        n_jobs=request["jobs"],
        seed=request["seed"],
        verbose=False,
    )
    ranking = [
        (by_formula[package.tree_to_formula(node)], float(importance))
        for node, importance in model.new_features_scores_list
    ]
    return {
        "rounds": model.rounds,
        "survivors": model.survivors,
        "ranking": ranking,
        "seconds": model.seconds,
        "scores": np.asarray(model.init_scores),
        "versions": {"lightgbm": lightgbm.__version__},
    }


if __name__ == "__main__":
    main()
