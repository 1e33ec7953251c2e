"""The figures of a study, as SVG text."""

from __future__ import annotations

import importlib.util
import io
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from scopefe.report.evidence import leg
from scopefe.report.study import StudyFacts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GOOD, BAD, PLAIN = "#2a78d6", "#c2452d", "#6b6b66"
_log = logging.getLogger(__name__)


def plots(study: StudyFacts) -> dict[str, str]:
    """Return the figures that a study has the facts for, by name; none where matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        _log.warning("matplotlib is not installed: there are no figures; pip install 'scopefe[plot]'")
        return {}
    ran = len(study.datasets) if study.legs else 0
    chosen: Mapping[str, tuple[Callable[[Axes, StudyFacts], None], int]] = {
        "reduction": (_reduction, ran),
        "scores": (_scores, ran),
        "enrichment": (_enrichment, len(study.audits)),
        "controls": (_controls, len(study.audits)),
    }
    return {name: _drawn(draw, rows, study) for name, (draw, rows) in chosen.items() if rows}


def _drawn(draw: Callable[[Any, StudyFacts], None], rows: int, study: StudyFacts) -> str:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "scopefe", "svg.fonttype": "none"}):
        figure = Figure(figsize=(7, 1.4 + 0.5 * rows), layout="constrained")
        axes = figure.subplots()
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes, study)
        figure.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def _names(axes: Axes, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()


def _reduction(axes: Axes, study: StudyFacts) -> None:
    """Draw the pool of the subject as a share of the universe; where probe seeds vary, their range."""
    names = [d.name for d in study.datasets if leg(study, d.name, study.subject)]
    for place, name in enumerate(names):
        run = leg(study, name, study.subject)
        assert run is not None
        axes.barh(place, 100 * run.pool.raw / max(run.universe.raw, 1), color=GOOD, height=0.5)
        shares = [100 * s.pool.raw / max(run.universe.raw, 1) for s in study.probe_seeds.get(name, [])]
        if shares:
            axes.plot([min(shares), max(shares)], [place, place], color=PLAIN, linewidth=1)
    _names(axes, names)
    axes.set_xlim(0, 100)
    axes.set_xlabel(f"candidates of {study.subject}, per cent of the universe; line: range over probe seeds")


def _scores(axes: Axes, study: StudyFacts) -> None:
    """Draw how the subject's score differs from the reference's, in margins of practical equivalence."""
    names: list[str] = []
    axes.axvspan(-1, 1, color=PLAIN, alpha=0.15, linewidth=0)
    for dataset in study.datasets:
        run, reference = (leg(study, dataset.name, v) for v in (study.subject, study.reference))
        if run is None or reference is None:
            continue
        margin = (
            study.relative_margin * reference.score.mean if run.metric == "rmse" else study.absolute_margin
        )
        better = (run.score.mean - reference.score.mean) * (1 if run.larger_is_better else -1)
        value = better / margin if margin else 0.0
        error = float(np.hypot(run.score.std, reference.score.std)) / margin if margin else 0.0
        colour = BAD if value < -1 else GOOD
        axes.errorbar(value, len(names), xerr=error, fmt="o", color=colour)
        names.append(dataset.name)
    _names(axes, names)
    axes.set_xlabel(f"{study.subject} less {study.reference}, in margins (right is better); bar: seeds")


def _enrichment(axes: Axes, study: StudyFacts) -> None:
    names = list(study.audits)
    for place, name in enumerate(names):
        value = study.audits[name].enrichment.enrichment
        for seed in study.probe_seeds.get(name, []):
            if seed.enrichment is not None:
                axes.plot(seed.enrichment, place, "o", color=PLAIN, alpha=0.35, markersize=4)
        if value is not None:
            axes.plot(value, place, "o", color=GOOD if value > 1 else BAD, markersize=8)
    axes.axvline(1, color=PLAIN, linewidth=0.8, linestyle="--")
    _names(axes, names)
    axes.set_xlabel(f"enrichment of {study.subject}, rows of the search; small: other probe seeds; 1: random")


def _controls(axes: Axes, study: StudyFacts) -> None:
    names = list(study.audits)
    controls = list(dict.fromkeys(c.control for audit in study.audits.values() for c in audit.controls))
    values = np.full((len(names), len(controls)), np.nan)
    for row, audit in enumerate(study.audits.values()):
        for found in audit.controls:
            values[row, controls.index(found.control)] = found.median_difference
    size = float(np.nanmax(np.abs(values))) if np.isfinite(values).any() else 1.0
    axes.imshow(values, cmap="RdBu", vmin=-size, vmax=size, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if np.isfinite(value):
            axes.text(column, row, f"{value:+.3f}", ha="center", va="center")
    axes.set_xticks(range(len(controls)), controls)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel("enrichment less the median of random pools")
