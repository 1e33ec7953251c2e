"""Run the paper's variants on one of its datasets, under both evaluation protocols, and keep the figures.

    python -m benchmarks.paper california_housing

Each variant runs cold, nothing shared. The figures go to docs/results/DATASET.json; a table beside the
paper's own figures is printed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import scopefe
from benchmarks.harness import Machine
from scopefe.report.build import versions
from scopefe.run.executing import execute

VARIANTS = ("base", "openfe", "fc-only", "op-only", "scope-fe")
PAPER_OPERATORS = {"california_housing": ["+", "min", "-", "GroupByThenRank", "/", "*", "max"]}
PROTOCOLS = ("benchmark", "inductive")
PAPER: dict[str, dict[str, tuple[int | None, str, float | None]]] = {
    "california_housing": {
        # raw candidates, metric over 10 seeds, RUN in seconds on an Apple M4 with 8 jobs
        "base": (None, "0.433 ± 0.003", None),
        "openfe": (275, "0.4206 ± 0.0016", 34.90),
        "fc-only": (227, "0.4278 ± 0.0026", 14.87),
        "op-only": (175, "0.4427 ± 0.0025", 16.98),
        "scope-fe": (132, "0.4291 ± 0.0014", 18.82),
    }
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__.splitlines()[0])
    parser.add_argument("dataset", choices=sorted(PAPER))
    parser.add_argument("--output", type=Path, help="default: docs/results/DATASET.json")
    options = parser.parse_args()
    figures = {
        "dataset": options.dataset,
        "machine": Machine.this().model_dump(),
        "versions": versions(),
        "variants": {variant: measured(options.dataset, variant) for variant in VARIANTS}
        | {
            f"{variant}, the paper's operators": measured(
                options.dataset, variant, {"gate": "list", "use": PAPER_OPERATORS[options.dataset]}
            )
            for variant in ("op-only", "scope-fe")
        },
    }
    target = options.output or Path("docs/results") / f"{options.dataset}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(figures, indent=1) + "\n")
    show(options.dataset, figures["variants"])


def measured(dataset: str, variant: str, operators: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run one variant under each protocol, with another operator gate if one is given."""
    replaced = [f"scope.operators={json.dumps(operators)}"] if operators else []
    result: dict[str, Any] = {}
    for protocol in PROTOCOLS:
        spec = scopefe.load_spec(
            variant,
            fragments=[f"data/{dataset}"],
            overrides=[
                "evaluation.seeds=10",
                f"evaluation.protocol={protocol}",
                "execution.cache=false",
                *replaced,
            ],
        )
        report = execute(spec, write=False).report
        assert report.evaluation is not None
        after = report.evaluation.with_features or report.evaluation.base
        result |= {
            "candidates": report.space.pool.model_dump(),
            "reduction": report.space.reduction,
            "selected": [s.formula for s in report.selection.selected],
            "operators": [p.operator for p in report.probe or [] if p.kept],
            "metric": report.evaluation.metric,
            f"{protocol}": after.model_dump(),
            f"run_seconds_{protocol}": report.volatile.run_seconds,
        }
    return result


def show(dataset: str, variants: dict[str, Any]) -> None:
    print(
        "| variant | candidates | paper | benchmark protocol | paper | inductive | RUN s | paper RUN s (M4) |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, row in variants.items():
        count, metric, seconds = PAPER[dataset][name.partition(",")[0]]
        scores = [f"{row[p]['mean']:.4f} ± {row[p]['std']:.4f}" for p in PROTOCOLS]
        run = min(row[f"run_seconds_{p}"] for p in PROTOCOLS)
        print(
            f"| {name} | {row['candidates']['raw']} | {count or '–'} | {scores[0]} | {metric} "
            f"| {scores[1]} | {run:.1f} | {seconds or '–'} |"
        )


if __name__ == "__main__":
    main()
