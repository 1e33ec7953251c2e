"""The tables of a study: those of the SCOPE-FE paper, and what it lacks."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from scopefe.audit.model import EnrichmentFacts
from scopefe.audit.statistics import (
    Margins,
    Outcome,
    adjusted,
    corrected_t,
    mean_jaccard,
    paired,
    variation,
    verdict,
    win_tie_loss,
)
from scopefe.report.build import CLAIMS
from scopefe.report.numbers import metric_name
from scopefe.report.study import LegFacts, StudyFacts
from scopefe.report.tables import (
    Column,
    Spread,
    Table,
    decimals,
    p_value,
    share,
    spread,
    times,
    whole,
)

BASE = "base"


def tables(study: StudyFacts) -> list[Table]:
    """Return all tables that a study has the facts for."""
    found = [_datasets(study)]
    if study.legs:
        found += [*_performance(study), _candidates(study), _runtime(study), _ablation(study)]
        found += [_margins(study), _operators(study)]
    if study.legs and study.inter is not None:
        found.append(_intra_inter(study))
    if study.audits:
        found += [_enrichment(study), _fresh(study), _gates(study), _controls(study), _recall(study)]
        found += [_lost(study), _gains(study), _parts(study, "operators"), _parts(study, "clusters")]
    if any(audit.matched for audit in study.audits.values()):
        found.append(_matched(study))
    if study.probe_seeds:
        found += [_probe_seeds(study), _reduction_by_seed(study)]
    if any(leg.split is not None for leg in study.legs):
        found.append(_splits(study))
    return [table for table in found if table.rows]


def variants(study: StudyFacts) -> list[str]:
    """Return the variants, in the order of the study."""
    return list(dict.fromkeys(leg.variant for leg in study.legs))


def leg(study: StudyFacts, dataset: str, variant: str, evaluation: str | None = None) -> LegFacts | None:
    """Return the first run of a variant on a dataset's own split, in the protocol that is compared."""
    wanted = evaluation or next(iter(study.evaluations), None)
    found = (
        run
        for run in study.legs
        if (run.dataset, run.variant, run.split, run.evaluation) == (dataset, variant, None, wanted)
    )
    return next(found, None)


def _pairs(study: StudyFacts, variant: str) -> Iterator[tuple[str, LegFacts, LegFacts]]:
    """Yield dataset, run of the reference, and run of a variant, where both are there."""
    for dataset in study.datasets:
        reference, other = (leg(study, dataset.name, v) for v in (study.reference, variant))
        if reference is not None and other is not None:
            yield dataset.name, reference, other


def _seeds(study: StudyFacts, dataset: str, variant: str, evaluation: str) -> list[float]:
    """Return the scores of a variant over all seeds of search and evaluation."""
    return [
        value
        for run in study.legs
        if (run.dataset, run.variant, run.split, run.evaluation) == (dataset, variant, None, evaluation)
        for value in run.score.values
    ]


def _datasets(study: StudyFacts) -> Table:
    rows: list[Sequence[Any]] = [
        (d.name, d.task, d.train, d.selection, d.test, d.numerical, d.ordinal, d.categorical)
        for d in study.datasets
    ]
    rows += [(name, None, None, None, None, None, None, None) for name in study.absent]
    names = ("train", "selection", "test", "numerical", "ordinal", "categorical")
    return Table(
        "datasets",
        "Datasets: rows by role, features by kind",
        [Column("dataset"), Column("task"), *(Column(name, whole) for name in names)],
        rows,
        "Datasets without numbers are not there." if study.absent else "",
    )


def _protocols(study: StudyFacts) -> str:
    """Say what the searches saw, and what that lets one claim."""
    used = dict.fromkeys(run.protocol for run in study.legs)
    return " ".join(f"Protocol of the search: {protocol}. {CLAIMS[protocol]}" for protocol in used)


def _performance(study: StudyFacts) -> Iterator[Table]:
    """Yield a table per protocol: mean and standard deviation over the seeds, as in the paper."""
    names = variants(study)
    for evaluation in study.evaluations:
        rows: list[list[Any]] = []
        for dataset in study.datasets:
            first = next(run for run in study.legs if run.dataset == dataset.name)
            row: list[Any] = [dataset.name, metric_name(first.metric)]
            for name in names:
                values = _seeds(study, dataset.name, name, evaluation)
                row.append(Spread(float(np.mean(values)), float(np.std(values))) if values else None)
            rows.append(row)
        yield Table(
            f"performance-{evaluation}",
            f"Test scores, protocol of the evaluation: {evaluation} (mean ± standard deviation over seeds)",
            [Column("dataset"), Column("metric"), *(Column(name, spread) for name in names)],
            rows,
            "For RMSE, smaller is better. The deviation is that of the learner's seeds, on one split. "
            + _protocols(study),
        )


def _candidates(study: StudyFacts) -> Table:
    names = [name for name in variants(study) if name not in (BASE, study.reference)]
    rows: list[list[Any]] = []
    reductions: dict[str, list[float]] = {name: [] for name in names}
    for dataset in study.datasets:
        reference = leg(study, dataset.name, study.reference)
        row: list[Any] = [dataset.name, None if reference is None else reference.pool.raw]
        for name in names:
            run = leg(study, dataset.name, name)
            reduced = None if run is None else 1 - run.pool.raw / max(run.universe.raw, 1)
            row += [None if run is None else run.pool.raw, reduced]
            if reduced is not None:
                reductions[name].append(reduced)
        rows.append(row)
    summary: list[Any] = ["median", None]
    for name in names:
        summary += [None, statistics.median(reductions[name]) if reductions[name] else None]
    columns = [Column("dataset"), Column(study.reference, whole)]
    for name in names:
        columns += [Column(name, whole), Column("reduction", share)]
    return Table(
        "candidates", "Candidates (raw), and the reduction of the universe", columns, [*rows, summary]
    )


def _runtime(study: StudyFacts) -> Table:
    names = [name for name in variants(study) if name not in (BASE, study.reference)]
    rows: list[list[Any]] = []
    speedups: dict[str, list[float]] = {name: [] for name in names}
    for dataset in study.datasets:
        reference = leg(study, dataset.name, study.reference)
        row: list[Any] = [dataset.name, None if reference is None else reference.run_seconds]
        for name in names:
            run = leg(study, dataset.name, name)
            faster = None
            if run is not None and reference is not None and run.run_seconds and reference.run_seconds:
                faster = reference.run_seconds / run.run_seconds
                speedups[name].append(faster)
            row += [None if run is None else run.run_seconds, faster]
        rows.append(row)
    summary: list[Any] = ["geometric mean", None]
    for name in names:
        summary += [None, statistics.geometric_mean(speedups[name]) if speedups[name] else None]
    columns = [Column("dataset"), Column(study.reference, decimals(2))]
    for name in names:
        columns += [Column(name, decimals(2)), Column("speed-up", times)]
    return Table(
        "runtime",
        "RUN in seconds, and the speed-up over the reference",
        columns,
        [*rows, summary],
        "RUN is gates, enumeration, baseline, halving, attribution and choice. What variants share was "
        "computed once, and counts in each with what it took.",
    )


def _outcomes(study: StudyFacts, variant: str, margins: Margins) -> list[Outcome]:
    outcomes = (
        margins.outcome(run.score.mean, reference.score.mean, metric=run.metric)
        for _, reference, run in _pairs(study, variant)
    )
    return [outcome for outcome in outcomes if outcome is not None]


def _stated(study: StudyFacts) -> Margins:
    return Margins(study.absolute_margin, study.relative_margin)


def _ablation(study: StudyFacts) -> Table:
    rows: list[list[Any]] = []
    for name in variants(study):
        pairs = list(_pairs(study, name))
        if name == BASE or not pairs:
            continue
        reductions = [1 - run.pool.raw / max(run.universe.raw, 1) for _, _, run in pairs]
        faster = [a.run_seconds / b.run_seconds for _, a, b in pairs if a.run_seconds and b.run_seconds]
        outcomes = _outcomes(study, name, _stated(study))
        same = name == study.reference
        rows.append(
            [
                name,
                statistics.median(reductions),
                statistics.geometric_mean(faster) if faster else None,
                None if same else win_tie_loss(outcomes),
                None if same else f"{sum(o != 'loss' for o in outcomes)}/{len(outcomes)}",
            ]
        )
    return Table(
        "ablation",
        f"Components against {study.reference}: reduction, speed-up, practical equivalence",
        [
            Column("variant"),
            Column("median reduction", share),
            Column("speed-up (geometric mean)", times),
            Column("win/tie/loss"),
            Column("comparable"),
        ],
        rows,
        f"Ties: within {study.absolute_margin:g} of ROC-AUC or accuracy, {study.relative_margin:g} of RMSE.",
    )


def _margins(study: StudyFacts) -> Table:
    rows = []
    for factor in (0.5, 1.0, 2.0):
        margins = _stated(study).times(factor)
        outcomes = _outcomes(study, study.subject, margins)
        if outcomes:
            comparable = f"{sum(o != 'loss' for o in outcomes)}/{len(outcomes)}"
            rows.append([margins.absolute, margins.relative, win_tie_loss(outcomes), comparable])
    return Table(
        "margins",
        f"{study.subject} against {study.reference} at narrower and wider margins",
        [
            Column("classification", decimals(4)),
            Column("regression", share),
            Column("W/T/L"),
            Column("comparable"),
        ],
        rows,
    )


def _operators(study: StudyFacts) -> Table:
    rows = []
    for dataset in study.datasets:
        run = leg(study, dataset.name, study.subject)
        if run is not None and (run.operators is not None or run.clusters is not None):
            clusters = None if run.clusters is None else ", ".join(map(str, run.clusters))
            rows.append([dataset.name, None if run.operators is None else ", ".join(run.operators), clusters])
    return Table(
        "operators",
        f"What the gates of {study.subject} found: operators, best first, and sizes of clusters",
        [Column("dataset"), Column("operators"), Column("clusters")],
        rows,
    )


def _intra_inter(study: StudyFacts) -> Table:
    assert study.inter is not None
    evaluation = study.evaluations[0]
    names, results = [], []
    for dataset in study.datasets:
        first, second = (_seeds(study, dataset.name, v, evaluation) for v in (study.subject, study.inter))
        run = leg(study, dataset.name, study.subject)
        if run is not None and first and len(first) == len(second):
            names.append((dataset.name, first, second))
            results.append(paired(first, second, larger_is_better=run.larger_is_better))
    t, wilcoxon = (adjusted([getattr(r, test) for r in results], "holm") for test in ("t", "wilcoxon"))
    words = {"first": study.subject, "second": study.inter, "n.s.": "n.s."}
    rows = [
        [
            name,
            Spread(float(np.mean(first)), float(np.std(first))),
            Spread(float(np.mean(second)), float(np.std(second))),
            float(t[i]),
            float(wilcoxon[i]),
            words[verdict(t[i], wilcoxon[i], results[i].difference)],
        ]
        for i, (name, first, second) in enumerate(names)
    ]
    return Table(
        "intra-inter",
        f"{study.subject} against {study.inter}: paired tests over seeds, corrected by Holm",
        [
            Column("dataset"),
            Column(study.subject, spread),
            Column(study.inter, spread),
            Column("p (t)", p_value),
            Column("p (Wilcoxon)", p_value),
            Column("better"),
        ],
        rows,
        "A difference counts where both tests are below 0.05. Seeds are those of the learner on one split: "
        "they say nothing of other rows.",
    )


ENRICHED = (
    Column("N", whole),
    Column("M", whole),
    Column("H", whole),
    Column("coverage", decimals(3)),
    Column("expected", decimals(3)),
    Column("enrichment", decimals(3)),
    Column("p", p_value),
    Column("q", p_value),
)
READ = "N unique candidates, M of them in the pool, H of the best M in the pool; q by Benjamini-Hochberg."


def _enriched(found: Sequence[EnrichmentFacts]) -> list[list[Any]]:
    """Return the values of `ENRICHED` for each."""
    q = adjusted([e.p for e in found], "fdr_bh").tolist()
    return [
        [e.universe, e.pool, e.hits, e.coverage, e.expected_coverage, e.enrichment, e.p, own]
        for e, own in zip(found, q, strict=True)
    ]


def _enrichment(study: StudyFacts) -> Table:
    values = _enriched([audit.enrichment for audit in study.audits.values()])
    return Table(
        "enrichment",
        f"Exhaustive audit of {study.subject}: its pool and the whole universe, on the rows of the search",
        [Column("dataset"), *ENRICHED],
        [[name, *row] for name, row in zip(study.audits, values, strict=True)],
        f"{READ} Gains are those of training and selection rows, as in the paper: what the search goes by.",
    )


def _fresh(study: StudyFacts) -> Table:
    found = {name: audit.fresh for name, audit in study.audits.items() if audit.fresh is not None}
    values = _enriched([fresh.enrichment for fresh in found.values()])
    return Table(
        "enrichment-fresh",
        f"Exhaustive audit of {study.subject}: its pool and the whole universe, on fresh rows",
        [Column("dataset"), Column("test rows", whole), Column("agreement", decimals(2)), *ENRICHED],
        [
            [name, fresh.rows, fresh.agreement, *row]
            for (name, fresh), row in zip(found.items(), values, strict=True)
        ],
        f"{READ} Gains are the means over folds of the test rows, which neither gates nor selection saw; "
        "agreement is the mean correlation of two folds' gains, near 0 where they are noise.",
    )


def _gates(study: StudyFacts) -> Table:
    """Compare the pools of all variants that are audited, and their means over the datasets."""
    sizes = (10, 50, 100)
    rows: list[list[Any]] = []
    for name, others in study.variant_audits.items():
        for variant, audit in {study.subject: study.audits[name], **others}.items():
            found, fresh = audit.enrichment, audit.fresh
            recall = {r.best: r.recall for r in fresh.recall} if fresh else {}
            on_fresh = (fresh.enrichment.enrichment, fresh.tenth) if fresh else (None, None)
            enriched = [found.enrichment, *on_fresh]
            shares = [found.pool / found.universe, *enriched, *(recall.get(size) for size in sizes)]
            rows.append([name, variant, *shares])
    by_variant: dict[str, list[list[Any]]] = {}
    for row in rows:
        by_variant.setdefault(row[1], []).append(row[2:])
    means = [["mean", v, *map(_mean, zip(*own, strict=True))] for v, own in by_variant.items()]
    return Table(
        "gates",
        "Pools of several gates, on the rows of the search and on fresh rows",
        [
            Column("dataset"),
            Column("gates"),
            Column("pool / universe", share),
            Column("enrichment, rows of the search", decimals(2)),
            Column("enrichment, fresh rows", decimals(2)),
            Column("at a tenth, fresh rows", decimals(2)),
            *(Column(f"best {size}, fresh rows", share) for size in sizes),
        ],
        [*rows, *means],
        "Enrichment is at most universe / pool: compare pools of one size, or by the column at a tenth, "
        "which is of a random part of larger pools. Gates that go by the target saw the rows of the search, "
        "which flatter them; fresh rows are test rows. Means are over the datasets "
        "that have a value.",
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _controls(study: StudyFacts) -> Table:
    found = [(name, c) for name, audit in study.audits.items() for c in audit.controls]
    q = adjusted([c.p for _, c in found], "fdr_bh")
    rows = [
        [name, c.control, c.median_difference, "yes" if c.median_difference > 0 else "no", c.p, float(q[i])]
        for i, (name, c) in enumerate(found)
    ]
    return Table(
        "controls",
        "The pool against random pools of the same size",
        [
            Column("dataset"),
            Column("control"),
            Column("median ΔE", decimals(3, sign=True)),
            Column("ΔE > 0"),
            Column("p", p_value),
            Column("q", p_value),
        ],
        rows,
        f"{found[0][1].seeds:,} pools each, with the same one-input candidates; q jointly over all rows."
        if found
        else "",
    )


def _recall(study: StudyFacts) -> Table:
    sizes = sorted({r.best for audit in study.audits.values() for r in audit.recall})
    rows: list[list[Any]] = []
    for name, audit in study.audits.items():
        by_size = {r.best: r.recall for r in audit.recall}
        kept = sum(f.in_pool for f in audit.selected)
        row: list[Any] = [name, audit.enrichment.pool / audit.enrichment.universe]
        row += [by_size.get(size) for size in sizes]
        rows.append([*row, kept / len(audit.selected) if audit.selected else None])
    return Table(
        "recall",
        "What the pool has of the universe's best candidates, on the rows of the search, and of the features "
        "the full search selects",
        [
            Column("dataset"),
            Column("pool / universe", share),
            *(Column(f"best {size}", share) for size in sizes),
            Column("selected", share),
        ],
        rows,
    )


def _lost(study: StudyFacts) -> Table:
    rows = [
        [name, f.rank, f.formula, f.gain_rank, f.lost_by]
        for name, audit in study.audits.items()
        for f in audit.selected
        if not f.in_pool
    ]
    return Table(
        "lost",
        "Features that the full search selects and the gates leave out",
        [
            Column("dataset"),
            Column("place", whole),
            Column("feature"),
            Column("rank of its gain", whole),
            Column("left out by"),
        ],
        rows,
    )


def _gains(study: StudyFacts) -> Table:
    rows: list[list[Any]] = []
    for name, audit in study.audits.items():
        for side, facts in (("inside", audit.inside), ("outside", audit.outside)):
            quantiles = [facts.quantiles.get(q) for q in ("0.25", "0.5", "0.75", "0.95", "1")]
            positive = facts.positive / facts.candidates if facts.candidates else None
            rows.append([name, side, facts.candidates, positive, *quantiles])
    small = Column("", lambda value: f"{value:.3g}").text
    return Table(
        "gains",
        "Gains inside and outside the pool",
        [
            Column("dataset"),
            Column("pool"),
            Column("candidates", whole),
            Column("above 0", share),
            *(Column(name, small) for name in ("25 %", "median", "75 %", "95 %", "best")),
        ],
        rows,
    )


def _parts(study: StudyFacts, parts: str) -> Table:
    """Tell where the best candidates of the universe are, by operator or by cluster."""
    rows = [
        [name, p.part, p.universe, p.pool, p.best, p.hits, p.enrichment]
        for name, audit in study.audits.items()
        for p in getattr(audit, parts)
        if p.universe
    ]
    return Table(
        f"enrichment-by-{parts.removesuffix('s')}",
        f"The universe's best candidates by {parts.removesuffix('s')}",
        [
            Column("dataset"),
            Column(parts.removesuffix("s")),
            Column("universe", whole),
            Column("pool", whole),
            Column("among the best M", whole),
            Column("of these in the pool", whole),
            Column("enrichment", decimals(2)),
        ],
        rows,
        "Enrichment of a part: its share of the best M over its share of the universe.",
    )


def _matched(study: StudyFacts) -> Table:
    rows = [
        [name, m.against, m.budget, m.enrichment, _range(m.range), m.other, _range(m.other_range)]
        for name, audit in study.audits.items()
        for m in audit.matched
    ]
    return Table(
        "matched",
        f"Enrichment of {study.subject} and another pool at the same number of two-input candidates",
        [
            Column("dataset"),
            Column("against"),
            Column("budget", whole),
            Column(study.subject, decimals(3)),
            Column("5–95 %"),
            Column("other", decimals(3)),
            Column("5–95 %"),
        ],
        rows,
        "Medians over draws from the larger pool, and the range of the draws.",
    )


def _range(ends: tuple[float, float]) -> str:
    return f"{ends[0]:.3f}–{ends[1]:.3f}" if ends[0] != ends[1] else "all of it"


def _probe_seeds(study: StudyFacts) -> Table:
    rows = []
    for name, seeds in study.probe_seeds.items():
        values = [s.enrichment for s in seeds if s.enrichment is not None]
        rows.append(
            [
                name,
                mean_jaccard([s.operators for s in seeds]),
                variation([s.pool.unique for s in seeds]),
                float(np.mean(values)) if values else None,
                variation(values),
                f"{min(values):.3f}–{max(values):.3f}" if values else None,
                f"{sum(v > 1 for v in values)}/{len(seeds)}",
            ]
        )
    return Table(
        "probe-seeds",
        "How much hangs on the seed of the probe",
        [
            Column("dataset"),
            Column("Jaccard", decimals(3)),
            Column("CV of the pool's size", decimals(3)),
            Column("mean E", decimals(3)),
            Column("CV of E", decimals(3)),
            Column("range of E"),
            Column("E > 1"),
        ],
        rows,
    )


def _reduction_by_seed(study: StudyFacts) -> Table:
    rows = []
    for name, seeds in study.probe_seeds.items():
        run = leg(study, name, study.subject)
        if run is None:
            continue
        reductions = [1 - s.pool.raw / run.universe.raw for s in seeds]
        own = 1 - run.pool.raw / run.universe.raw
        rows.append([name, own, min(reductions), statistics.median(reductions), max(reductions)])
    return Table(
        "reduction-by-seed",
        f"Reduction of the universe by {study.subject}, over seeds of the probe",
        [Column("dataset"), *(Column(n, share) for n in ("the study's seed", "least", "median", "most"))],
        rows,
    )


def _splits(study: StudyFacts) -> Table:
    """Compare variants with the reference over repeated splits; seeds of a split are averaged."""
    legs = [run for run in study.legs if run.split is not None]
    rows: list[list[Any]] = []
    for dataset in study.datasets:
        own = [run for run in legs if run.dataset == dataset.name]
        for name in dict.fromkeys(run.variant for run in own):
            if name == study.reference:
                continue
            first, second = (
                [run.score.mean for run in sorted(own, key=lambda r: r.split or 0) if run.variant == v]
                for v in (name, study.reference)
            )
            if len(first) != len(second):
                continue
            found = paired(first, second, larger_is_better=own[0].larger_is_better)
            sign = 1 if own[0].larger_is_better else -1
            differences = sign * (np.array(first) - np.array(second))
            rows.append(
                [
                    dataset.name,
                    name,
                    len(first),
                    Spread(float(np.mean(first)), float(np.std(first))),
                    Spread(float(np.mean(second)), float(np.std(second))),
                    float(differences.mean()),
                    float(differences.std(ddof=1) / np.sqrt(len(differences))),
                    int((differences > 0).sum()),
                    corrected_t(differences, test_share=own[0].test / (own[0].train + own[0].selection)),
                    found.wilcoxon,
                ]
            )
    corrected = adjusted([row[-2] for row in rows], "holm")
    return Table(
        "splits",
        f"Repeated random splits: variants against {study.reference}",
        [
            Column("dataset"),
            Column("variant"),
            Column("splits", whole),
            Column("its score", spread),
            Column(study.reference, spread),
            Column("better by", decimals(4, sign=True)),
            Column("standard error", decimals(4)),
            Column("better on", whole),
            Column("p (corrected t)", p_value),
            Column("p (Wilcoxon)", p_value),
            Column("corrected t, Holm", p_value),
        ],
        [[*row, float(p)] for row, p in zip(rows, corrected, strict=True)],
        "Splits share rows: the t-test allows for it (Nadeau and Bengio, 2003), Wilcoxon's does not.",
    )
