"""Measure scopefe side by side with the openfe package, with plain code, and with itself.

Real tables come from the folder that SCOPEFE_DATA names; where one is not there, a generated one stands in.
"""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Mapping
from pathlib import Path

from benchmarks import report
from benchmarks.ablation import ablation
from benchmarks.association import association
from benchmarks.gate import gate
from benchmarks.harness import Comparison, Entry, Results, Settings
from benchmarks.run import run
from benchmarks.scaling import scaling
from benchmarks.scoring import scoring
from benchmarks.tables import warm_up
from benchmarks.transform import transform

ENTRIES: Mapping[str, Entry] = {
    "scoring": scoring,
    "association": association,
    "run": run,
    "gate": gate,
    "ablation": ablation,
    "scaling": scaling,
    "transform": transform,
}
PAGE = Path("docs/performance.md")
AGREEMENT = 1e-9


def main() -> None:
    """Measure entries and keep their results, or make the page of the results that are kept."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("entries", nargs="*", metavar="ENTRY", help=f"of {', '.join(ENTRIES)}; default: all")
    parser.add_argument("--full", action="store_true", help="large tables and whole runs: hours")
    parser.add_argument("--repeats", type=int, default=3, help="how often each side is measured")
    parser.add_argument("--output", type=Path, default=Path("docs/results"), metavar="FOLDER")
    parser.add_argument("--again", action="store_true", help="repeat runs of the package that are kept")
    parser.add_argument("--report", action="store_true", help=f"only make {PAGE} of the kept results")
    options = parser.parse_args()
    unknown = sorted(set(options.entries) - set(ENTRIES))
    if unknown:
        parser.error(f"there is no entry {unknown[0]!r}: choose from {', '.join(ENTRIES)}")
    if options.report:
        report.write(ENTRIES, options.output, PAGE)
        return
    settings = Settings("full" if options.full else "quick", options.repeats, options.output, options.again)
    warm_up()
    results = [measure(name, settings) for name in options.entries or ENTRIES]
    problems = [f"{r.entry}: {r.failure}" for r in results if r.failure]
    problems += [
        f"{r.entry}: {c.name}, {c.group}: results differ by {c.difference:.0e}"
        for r in results
        for c in r.comparisons
        if (c.difference or 0.0) > AGREEMENT
    ]
    if problems:
        parser.exit(1, "\n".join(problems) + "\n")


def measure(name: str, settings: Settings) -> Results:
    """Measure an entry, show every comparison as it is made, and keep them; a failure ends no other."""
    results = Results.now(entry=name, scale=settings.scale, comparisons=[])
    try:
        for comparison in ENTRIES[name](settings):
            show(name, comparison, new=comparison.group not in {c.group for c in results.comparisons})
            results.comparisons.append(comparison)
            results.write(settings.folder / f"{name}.json")
    except Exception as error:
        traceback.print_exc()
        results.failure = f"{type(error).__name__}: {error}"
        if results.comparisons:
            results.write(settings.folder / f"{name}.json")
    return results


def show(entry: str, comparison: Comparison, *, new: bool) -> None:
    """Print a comparison, under its group where that is new."""
    if new:
        print(f"\n{entry}: {comparison.group}", flush=True)
    what, against, theirs, ours, ratio = comparison.cells()
    print(f"  {what}: {ours} against {theirs} ({against}): {ratio}", flush=True)


if __name__ == "__main__":
    main()
