"""Measure scopefe against the openfe package: the same rows, pool, seeds and jobs, interleaved in one run.

    python -m benchmarks [--dataset data/california_housing] [--repeats 3] [--output FILE]

Without a folder of data files (SCOPEFE_DATA) the bundled quickstart table is used.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
from pathlib import Path
from typing import Any

from scopefe.operators.group import NAMES as GROUP_BYS

import scopefe
from scopefe.report.build import versions
from scopefe.run.compiling import Compiled
from scopefe.run.executing import execute
from scopefe.score.openfe import ask, request_of

STAGES = ("baseline", "halving", "attribution")
COLD = ("evaluation.seeds=0", "execution.cache=false")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    default = "data/california_housing" if "SCOPEFE_DATA" in os.environ else None
    parser.add_argument("--dataset", default=default, help="fragment to lay over the openfe variant")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, help="where to write the figures as JSON")
    options = parser.parse_args()
    fragments = [options.dataset] if options.dataset else []
    quoted = ", ".join(f'"{name}"' for name in GROUP_BYS)
    pools = {
        "whole pool": [],
        "group-bys": [f"scope.operators={{gate: list, use: [{quoted}]}}"],
    }
    figures = {
        "dataset": options.dataset or "quickstart",
        "machine": {"system": platform.platform(), "cores": os.cpu_count(), "processor": processor()},
        "versions": versions(),
        "pools": {name: measure(fragments, extra, options.repeats) for name, extra in pools.items()},
    }
    show(figures)
    if options.output:
        options.output.write_text(json.dumps(figures, indent=1) + "\n")


def measure(fragments: list[str], overrides: list[str], repeats: int) -> dict[str, Any]:
    """Run both engines on one pool in turn, cold, and give every stage's seconds."""
    spec = scopefe.load_spec("openfe", fragments=fragments, overrides=[*overrides, *COLD])
    compiled = scopefe.compile(spec)
    seconds: dict[str, dict[str, list[float]]] = {s: {"scopefe": [], "openfe": []} for s in STAGES}
    for _ in range(repeats):
        for stage, value in package_seconds(compiled).items():
            seconds[stage]["openfe"].append(value)
        for stage, value in native_seconds(spec).items():
            seconds[stage]["scopefe"].append(value)
    result: dict[str, Any] = {"candidates": compiled.pool_size}
    for stage, sides in seconds.items():
        ratios = [o / s for o, s in zip(sides["openfe"], sides["scopefe"], strict=True)]
        result[stage] = {
            **sides,
            "ratio": {"median": statistics.median(ratios), "min": min(ratios), "max": max(ratios)},
        }
    return result


def native_seconds(spec: scopefe.Spec) -> dict[str, float]:
    report = execute(spec, write=False).report
    return {t.step: t.seconds for t in report.volatile.times if t.step in STAGES}


def package_seconds(compiled: Compiled) -> dict[str, float]:
    data, bench = compiled.data, compiled.bench
    assert data is not None
    assert bench is not None
    request = request_of(
        compiled.universe,
        compiled.scope.ids(),
        data.development,
        data.scaled_target,
        len(data.rows.train),
        bench.objective(data),
        compiled.spec.selection,
        seed=compiled.spec.seed,
        jobs=bench.engine.jobs,
    )
    answer: dict[str, float] = ask(request)["seconds"]
    return answer


def processor() -> str:
    """Return the processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def show(figures: dict[str, Any]) -> None:
    print(f"{figures['dataset']}, {figures['machine']['processor']}, {figures['machine']['cores']} cores")
    for name, pool in figures["pools"].items():
        print(f"\n{name}: {pool['candidates']} candidates")
        print(f"{'stage':12} {'openfe s':>9} {'scopefe s':>9} {'times faster: median (min to max)':>36}")
        for stage in STAGES:
            row, ratio = pool[stage], pool[stage]["ratio"]
            package, ours = statistics.median(row["openfe"]), statistics.median(row["scopefe"])
            print(
                f"{stage:12} {package:9.2f} {ours:9.2f} "
                f"{ratio['median']:12.1f} ({ratio['min']:.1f} to {ratio['max']:.1f})"
            )


if __name__ == "__main__":
    main()
