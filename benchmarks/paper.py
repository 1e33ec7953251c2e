"""Put the tables of the study `paper` beside the SCOPE-FE paper's own, in docs/results.md.

    SCOPEFE_DATA=FOLDER scopefe study paper -o FOLDER
    SCOPEFE_DATA=FOLDER scopefe study paper-operators -o FOLDER
    python -m benchmarks.paper FOLDER FOLDER

A study may be run in parts (`scopefe study paper --dataset covtype`): datasets replace those that are kept.

The studies `gates` and `harm` go after them in the same way. The facts of all are kept in docs/results;
without folders, the page is made of those that are kept.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from scopefe.report.evidence import leg, tables
from scopefe.report.study import StudyFacts
from scopefe.report.tables import Column, Spread, Table, decimals, p_value, share, times, whole

PUBLISHED: dict[str, Any] = json.loads(Path(__file__).with_name("published.json").read_text(encoding="utf-8"))
PAGE, KEPT = Path("docs/results.md"), Path("docs/results")
STUDIES = ("paper", "paper-operators")
OTHERS = {"gates": "gates", "harm": "splits"}
START, END = "<!-- tables: made by python -m benchmarks.paper -->", "<!-- end of tables -->"


def main() -> None:
    """Keep the facts of both studies, and make the page's tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    names = ", ".join([*STUDIES, *OTHERS])
    parser.add_argument("folders", nargs="*", type=Path, help=f"those of the studies {names}")
    options = parser.parse_args()
    for folder in options.folders:
        facts = StudyFacts.model_validate_json((folder / "study.json").read_bytes())
        kept = KEPT / f"{facts.name}.json"
        if kept.is_file():
            facts = merged(StudyFacts.model_validate_json(kept.read_bytes()), facts)
        kept.write_text(facts.model_dump_json(indent=1) + "\n", encoding="utf-8")
    own, theirs = (StudyFacts.model_validate_json((KEPT / f"{name}.json").read_bytes()) for name in STUDIES)
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    made = "\n".join(table.markdown() for table in [*beside(own, theirs), *others()])
    PAGE.write_text(f"{before}{START}\n\n{made}\n{END}{after}", encoding="utf-8")


def merged(kept: StudyFacts, new: StudyFacts) -> StudyFacts:
    """Return a study's kept facts with the datasets of a later part of it in the place of its own."""
    names = {dataset.name for dataset in new.datasets}
    return new.model_copy(
        update={
            "datasets": list({d.name: d for d in [*kept.datasets, *new.datasets]}.values()),
            "absent": {k: v for k, v in (kept.absent | new.absent).items() if k not in names},
            "legs": [*(x for x in kept.legs if x.dataset not in names), *new.legs],
            "audits": kept.audits | new.audits,
            "variant_audits": kept.variant_audits | new.variant_audits,
            "probe_seeds": kept.probe_seeds | new.probe_seeds,
        }
    )


def beside(own: StudyFacts, theirs: StudyFacts) -> Iterator[Table]:
    """Yield the tables: of the study with our own probe, and of that with the paper's operators."""
    yield performance(own)
    yield candidates(own)
    yield operators(own)
    yield with_their_operators(theirs)
    yield enrichment(own, theirs)
    yield controls(theirs)
    yield matched(theirs)
    yield probe_seeds(own)
    yield intra_inter(own)
    chosen = ("recall", "lost", "reduction-by-seed", "ablation", "margins")
    yield from (table for table in tables(own) if table.name in chosen)


def others() -> Iterator[Table]:
    """Yield a table of each other study that is kept."""
    for study, name in OTHERS.items():
        file = KEPT / f"{study}.json"
        if file.is_file():
            facts = StudyFacts.model_validate_json(file.read_bytes())
            yield from (table for table in tables(facts) if table.name == name)


def seen(study: StudyFacts) -> Iterator[tuple[str, Any]]:
    """Yield the datasets that are in both, with the paper's figures."""
    for dataset in study.datasets:
        if dataset.name in PUBLISHED:
            yield dataset.name, PUBLISHED[dataset.name]


def spread(value: Any) -> str:
    return str(value).replace("±", " ± ").replace("  ", " ")


def dashed(value: Any) -> str:
    return str(value).replace("--", "–")


def apart(study: StudyFacts, name: str, ours: float, theirs: str) -> float | None:
    """Return by how many of the paper's standard deviations a mean is off, as far as its digits tell.

    None where the study took a part of the rows.
    """
    rows = next([d.train, d.selection, d.test] for d in study.datasets if d.name == name)
    if rows != PUBLISHED[name]["rows"]:
        return None
    mean, deviation = (float(part) for part in re.split(r"\s*±\s*", theirs))
    return (ours - mean) / deviation if deviation else None


def performance(study: StudyFacts) -> Table:
    rows: list[Sequence[Any]] = []
    for name, paper in seen(study):
        for variant, theirs in paper["scores"].items():
            runs = [leg(study, name, variant, evaluation) for evaluation in ("benchmark", "inductive")]
            if runs[0] is None:
                continue
            off = apart(study, name, runs[0].score.mean, theirs)
            scores = [None if run is None else Spread(run.score.mean, run.score.std) for run in runs]
            rows.append([name, variant, scores[0], theirs, off, scores[1]])
    return Table(
        "performance",
        "Test scores over ten seeds",
        [
            Column("dataset"),
            Column("variant"),
            Column("ours, benchmark", spread),
            Column("paper", spread),
            Column("off, in its deviations", decimals(1, sign=True)),
            Column("ours, inductive", spread),
        ],
        rows,
        "RMSE for california_housing, accuracy for covtype, ROC-AUC for the others. Covtype's scores are "
        "those of a part of its rows.",
    )


def candidates(study: StudyFacts) -> Table:
    rows: list[Sequence[Any]] = []
    for name, paper in seen(study):
        full = leg(study, name, "openfe")
        for variant, theirs in paper["candidates"].items():
            run = leg(study, name, variant)
            if run is None or full is None:
                continue
            most = paper["candidates"]["openfe"]
            rows.append(
                [
                    name,
                    variant,
                    run.pool.raw,
                    theirs,
                    1 - run.pool.raw / full.pool.raw,
                    1 - theirs / most,
                    run.run_seconds,
                    full.run_seconds / run.run_seconds,
                    paper["run_seconds"]["openfe"] / paper["run_seconds"][variant],
                ]
            )
    return Table(
        "candidates",
        "Candidates (raw), reduction, and RUN against the full search",
        [
            Column("dataset"),
            Column("variant"),
            Column("candidates", whole),
            Column("paper", whole),
            Column("reduction", share),
            Column("paper", share),
            Column("RUN, s", decimals(1)),
            Column("speed-up", times),
            Column("paper", times),
        ],
        rows,
        "RUN is ours, on this machine. Speed-ups are over the full search of the same code. Where scoring "
        "is fast, baseline and attribution, which no gate shortens much, weigh more.",
    )


def operators(study: StudyFacts) -> Table:
    rows = []
    for name, paper in seen(study):
        run = leg(study, name, "scope-fe")
        kept = set() if run is None or run.operators is None else set(run.operators)
        common = kept & set(paper["operators"])
        rows.append([name, ", ".join(sorted(kept)), ", ".join(sorted(paper["operators"])), len(common)])
    return Table(
        "operators",
        "Operators that the probe keeps",
        [Column("dataset"), Column("ours"), Column("paper"), Column("in common", whole)],
        rows,
    )


def with_their_operators(study: StudyFacts) -> Table:
    rows = []
    for name, paper in seen(study):
        for variant in ("op-only", "scope-fe", "hard-inter"):
            run = leg(study, name, variant)
            if run is not None:
                theirs = paper["scores"][variant]
                own = Spread(run.score.mean, run.score.std)
                count = paper["candidates"].get(variant)
                off = apart(study, name, run.score.mean, theirs)
                rows.append([name, variant, run.pool.raw, count, own, theirs, off])
    return Table(
        "their-operators",
        "With the paper's seven operators named by hand instead of probed",
        [
            Column("dataset"),
            Column("variant"),
            Column("candidates", whole),
            Column("paper", whole),
            Column("ours, benchmark", spread),
            Column("paper", spread),
            Column("off, in its deviations", decimals(1, sign=True)),
        ],
        rows,
    )


def enrichment(own: StudyFacts, theirs: StudyFacts) -> Table:
    rows = []
    for name, paper in seen(theirs):
        printed = paper["enrichment"]
        for label, study in (("the paper's", theirs), ("ours", own)):
            if name not in study.audits:
                continue
            facts = study.audits[name].enrichment
            rows.append(
                [name, label, facts.universe, facts.pool, facts.hits, facts.enrichment, facts.p]
                + ([printed[k] for k in ("M", "H", "enrichment", "p")] if label != "ours" else [None] * 4)
            )
    return Table(
        "enrichment",
        "Exhaustive audit of scope-fe, with the paper's operators and with ours",
        [
            Column("dataset"),
            Column("operators"),
            Column("N", whole),
            Column("M", whole),
            Column("H", whole),
            Column("enrichment", decimals(3)),
            Column("p", p_value),
            Column("M, paper", whole),
            Column("H, paper", whole),
            Column("enrichment, paper", decimals(2)),
            Column("p, paper", str),
        ],
        rows,
    )


def controls(study: StudyFacts) -> Table:
    rows = []
    for name, paper in seen(study):
        if name in study.audits:
            for found in study.audits[name].controls:
                difference, p, _ = paper["controls"][found.control]
                rows.append([name, found.control, found.median_difference, difference, found.p, p])
    signed = decimals(3, sign=True)
    return Table(
        "controls",
        "Randomised controls of that pool, with the paper's operators",
        [
            Column("dataset"),
            Column("control"),
            Column("median ΔE", signed),
            Column("paper", signed),
            Column("p", p_value),
            Column("paper", p_value),
        ],
        rows,
    )


def matched(study: StudyFacts) -> Table:
    rows = []
    for name, paper in seen(study):
        if name in study.audits:
            for found in study.audits[name].matched:
                ranges = [f"{low:.3f}–{high:.3f}" for low, high in (found.range, found.other_range)]
                medians = found.enrichment, ranges[0], found.other, ranges[1]
                rows.append([name, found.budget, *medians, *paper["matched"]])
    return Table(
        "matched",
        "Intra against inter at the same number of two-input candidates, with the paper's operators",
        [
            Column("dataset"),
            Column("budget", whole),
            Column("intra", decimals(3)),
            Column("5–95 %"),
            Column("inter", decimals(3)),
            Column("5–95 %"),
            Column("budget, paper", whole),
            Column("intra, paper", decimals(3)),
            Column("inter, paper", decimals(3)),
        ],
        rows,
        "Medians over 1,000 draws from the larger pool, and 90 % of the draws.",
    )


def probe_seeds(study: StudyFacts) -> Table:
    ours = {row[0]: row[1:] for table in tables(study) if table.name == "probe-seeds" for row in table.rows}
    rows = []
    for name, paper in seen(study):
        printed = paper["probe_seeds"]
        keys = ("jaccard", "count_cv", "mean_E", "E_cv", "E_range", "E_above_1")
        if name in ours:
            rows.append([name, "ours", *ours[name]])
            if printed:
                rows.append([name, "paper", *(printed[key] for key in keys)])
    return Table(
        "probe-seeds",
        "Ten seeds of the probe",
        [
            Column("dataset"),
            Column("whose"),
            *(Column(n, decimals(3)) for n in ("Jaccard", "CV of the pool's size", "mean E", "CV of E")),
            Column("range of E", dashed),
            Column("E > 1", dashed),
        ],
        rows,
    )


def intra_inter(study: StudyFacts) -> Table:
    ours = {row[0]: row[1:] for table in tables(study) if table.name == "intra-inter" for row in table.rows}
    words = {"scope-fe": "Intra", "hard-inter": "Inter"}
    rows = []
    for name, paper in seen(study):
        if name in ours:
            *values, better = ours[name]
            rows.append([name, *values, words.get(better, better), *paper["intra_inter"]])
    return Table(
        "intra-inter",
        "Intra against inter: paired tests over the ten seeds, corrected by Holm",
        [
            Column("dataset"),
            Column("intra", spread),
            Column("inter", spread),
            Column("p (t)", p_value),
            Column("p (Wilcoxon)", p_value),
            Column("better"),
            Column("p (t), paper"),
            Column("p (W), paper"),
            Column("better, paper"),
        ],
        rows,
        "Holm is over our datasets here, and over the paper's ten there.",
    )


if __name__ == "__main__":
    main()
