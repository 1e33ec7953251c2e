"""Numbers as people read them."""

from __future__ import annotations

import math
from collections.abc import Iterable

METRICS = {
    "rmse": "RMSE",
    "auc": "ROC-AUC",
    "accuracy": "Accuracy",
    "binary_logloss": "Log loss",
    "multi_logloss": "Log loss",
}
NOTHING = "–"
GLUE = "\N{NO-BREAK SPACE}"


def thousands(value: int) -> str:
    """Return a whole number with thousands separators."""
    return f"{value:,}".replace("-", "−")


def number(value: float | None, digits: int = 4) -> str:
    """Return a number with so many significant digits, without trailing zeros."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if -5 < exponent < 15:
        return _plain(fixed(value, max(digits - 1 - exponent, 0)))
    mantissa, power = f"{value:.{digits - 1}e}".split("e")
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{_plain(mantissa).replace('-', '−')}{GLUE}×{GLUE}10{raised}"


def _plain(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def fixed(value: float, decimals: int) -> str:
    """Return a number with so many decimals."""
    return f"{value:,.{decimals}f}".replace("-", "−") if math.isfinite(value) else number(value)


def aligned(values: Iterable[float | None], digits: int = 4) -> list[str]:
    """Return the numbers of a column with the same decimals, as many as its largest needs.

    Those that would be left with less than two significant digits get their own.
    """
    column = list(values)
    sizes = [abs(v) for v in column if v and math.isfinite(v)]
    decimals = min(max(digits - 1 - math.floor(math.log10(max(sizes))), 0), 8) if sizes else 0

    def one(value: float | None) -> str:
        if not value or not math.isfinite(value) or abs(value) < 10.0 ** (1 - decimals):
            return number(value, 2)
        return fixed(value, decimals)

    return [one(v) for v in column]


def percent(share: float) -> str:
    """Return a share as a percentage; only nothing is 0%, and only the whole 100%."""
    if not math.isfinite(share):
        return NOTHING
    if 0 < share < 0.001:
        return f"<{GLUE}0.1%"
    if 0.999 < share < 1:
        return f">{GLUE}99.9%"
    decimals = 1 if 0 < share < 0.0995 or 0.9 < share < 1 else 0
    return f"{share:,.{decimals}%}"


def seconds(value: float) -> str:
    """Return a duration as people say it."""
    if value < 0.001:
        return f"<{GLUE}1{GLUE}ms" if value > 0 else f"0{GLUE}s"
    if value < 1:
        return f"{number(value, 2)}{GLUE}s"
    if value < 99.95:
        return f"{value:.1f}{GLUE}s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes}{GLUE}min {rest:02d}{GLUE}s"
    return f"{minutes // 60:,}{GLUE}h {minutes % 60:02d}{GLUE}min"


def metric_name(metric: str) -> str:
    """Return a metric's name as people write it."""
    return METRICS.get(metric, metric)
