"""What a run comes to, in words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from scopefe.report.model import DifferenceFacts, EvaluationFacts, Report, Score
from scopefe.report.numbers import fixed, metric_name, number, percent, thousands

SHOWN = 3


@dataclass(frozen=True)
class Verdict:
    """What the features brought.

    Parameters
    ----------
    tone
        How the comparison ended; none if there was none.
    figure
        The metric before and after.
    spread
        The same, with standard deviations over seeds.
    sentence
        What to make of it.
    """

    tone: Literal["better", "worse", "level", "none"]
    figure: str
    spread: str
    sentence: str


def verdict(report: Report) -> Verdict:
    """Say what the features brought, and say so where they brought nothing."""
    facts = report.evaluation
    if facts is None:
        tested = report.data.rows.get("test")
        reason = "The evaluation was left out." if tested else "The data has no test rows."
        return Verdict("none", "Not evaluated", "", reason)
    name, digits = metric_name(facts.metric), decimals(facts)
    before = fixed(facts.base.mean, digits)
    if facts.with_features is None:
        spread = spread_text(facts.base, digits, facts.seeds)
        sentence = "No feature was selected: there is nothing to compare."
        return Verdict("none", f"{name} {before}", spread, sentence)
    after = fixed(facts.with_features.mean, digits)
    spread = f"{spread_text(facts.base, digits, 1)} → {spread_text(facts.with_features, digits, facts.seeds)}"
    if facts.difference is None:
        sentence = "This report does not say how sure the difference is."
        return Verdict("level", f"{name} {before} → {after}", spread, sentence)
    tone = TONES[facts.difference.verdict]
    return Verdict(tone, f"{name} {before} → {after}", spread, compared(facts, facts.difference, digits))


TONES: dict[str, Literal["better", "worse", "level"]] = {
    "better": "better",
    "worse": "worse",
    "no difference": "level",
}


def compared(facts: EvaluationFacts, difference: DifferenceFacts, digits: int) -> str:
    """Say how the scores differ, and how sure that is."""
    units = f"{thousands(difference.units)} {difference.unit}"
    if difference.low is None or difference.high is None:
        return f"No difference that {units} can show."
    change = _amount(abs(difference.mean), facts, digits)
    word = "higher" if difference.mean > 0 else "lower"
    interval = f"{_signed(difference.low, digits)} to {_signed(difference.high, digits)}"
    told = f"{metric_name(facts.metric)} is {word} by {change} (95 % interval over {units}: {interval})"
    if difference.verdict == "no difference":
        return f"No difference that these {units} can show: {told}."
    if difference.verdict == "better":
        return f"Better: {told}."
    return f"Worse: {told}. The new features do not help this model."


def _signed(value: float, digits: int) -> str:
    shown = fixed(value, digits)
    return f"+{shown}" if value > 0 else shown


def spread_text(score: Score, digits: int, seeds: int) -> str:
    """Return a mean with its standard deviation over seeds."""
    over = f" over {seeds} seeds" if seeds > 1 else ""
    return f"{fixed(score.mean, digits)} ± {fixed(score.std, digits)}{over}"


def _amount(change: float, facts: EvaluationFacts, digits: int) -> str:
    text = fixed(change, digits) if change >= 10.0**-digits else number(change, 2)
    relative = not facts.larger_is_better and facts.base.mean
    return f"{text} ({percent(change / abs(facts.base.mean))})" if relative else text


def decimals(facts: EvaluationFacts) -> int:
    """Return the decimals that show the finest of the spreads, and of the error, with two digits."""
    scores = [s for s in (facts.base, facts.with_features) if s is not None]
    errors = [facts.difference.error] if facts.difference and facts.difference.error else []
    sizes = [size for size in (*(s.std for s in scores), *errors) if math.isfinite(size) and size > 1e-9] or [
        abs(s.mean) / 100 for s in scores if abs(s.mean) > 1e-300 and math.isfinite(s.mean)
    ]
    return min(max(1 - math.floor(math.log10(min(sizes))), 0), 6) if sizes else 4


def found(report: Report) -> str:
    """Say what stands behind the number of selected features."""
    selection, space = report.selection, report.space
    last = selection.rounds[-1] if selection.rounds else None
    if not space.universe.raw:
        return "The universe is empty: no operator takes these features."
    if not space.pool.raw:
        return "The pool is empty: the gates admit no candidate, so there was nothing to score."
    if not selection.selected:
        if report.spec.get("selection", {}).get("keep") == 0:
            return "The spec keeps no feature (selection.keep is 0)."
        if not selection.survivors:
            return "No candidate of the pool could be scored."
        if selection.choice:
            return "No number of features helps surely enough on rows that the search had not seen."
        return f"None of the {thousands(selection.survivors)} survivors was kept."
    if last and not last.positive:
        return "No candidate had a gain above 0 in the last round; the best of them were ranked all the same."
    without = sum(f.gain <= 0 for f in selection.selected)
    text = f"The first by rank of {thousands(selection.survivors)} survivors"
    return f"{text}; {thousands(without)} without a gain above 0." if without else f"{text}."


def instead(report: Report) -> Iterator[str]:
    """Say, where nothing was selected, what came nearest, what was never tried, and what to change next."""
    selection, space = report.selection, report.space
    if selection.selected or not space.universe.raw:
        return
    choice = selection.choice
    if choice is not None and choice.rows:
        tried = [(s.features, s.decrease, s.error) for s in choice.sizes]
        tried += [(s.features, s.clipped, s.clipped_error) for s in choice.sizes]
        count, decrease, error = max(tried, key=lambda one: one[1] / one[2] if one[2] else -math.inf)
        names = "1 feature" if count == 1 else f"{count} features"
        lowered = "lower" if decrease > 0 else "higher"
        yield (
            f"Nearest: with {names} the loss of a row is {lowered} by {number(abs(decrease), 3)} ± "
            f"{number(error, 2)} on {thousands(choice.rows)} unseen rows (p = {number(choice.p, 2)}; "
            "below 0.05 would be kept)."
        )
    best = sorted(selection.ranking, key=lambda f: -f.gain)[:SHOWN]
    if best:
        yield f"Best candidates by gain: {', '.join(f'{f.formula} ({number(f.gain, 2)})' for f in best)}."
    if space.never_tried:
        yield (
            f"Never tried: {thousands(space.never_tried)} of {thousands(space.universe.unique)} candidates; "
            "scope.operators=all and scope.pairs=all try them."
        )
    kept = report.spec.get("selection", {}).get("keep")
    if selection.survivors and kept == "auto":
        yield "To keep the best all the same, set selection.keep=10; the evaluation says whether they help."
    elif selection.survivors and kept == 0:
        yield "Set selection.keep=auto to keep what helps, or a number."
    elif space.pool.raw and not selection.survivors:
        yield "The failures in the report say why no candidate could be scored."
