"""Elementwise operators on numbers; values are computed in the columns' own floating type.

Their SQL keeps to what every database computes alike: no overflow that need not be, no reliance on NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from scopefe import NUM, operator

Floats = npt.NDArray[Any]

UNARY = ("abs", "log", "sqrt", "square", "sigmoid", "round", "residual")
BINARY = ("min", "max", "+", "-", "*", "/")


@operator(
    "abs",
    takes=(NUM,),
    words="Absolute value of {0}",
    latex=r"\left|{0}\right|",
    sql="ABS({0})",
    python="np.abs({0})",
)
def absolute(x: Floats) -> Floats:
    """Absolute value."""
    return np.abs(x)


@operator(
    "log",
    takes=(NUM,),
    words="Natural logarithm of the absolute value of {0}",
    latex=r"\ln\left|{0}\right|",
    sql="CASE WHEN {0} <> 0 THEN LN(ABS({0})) END",
    python="np.where({0} == 0, np.nan, np.log(np.abs({0})))",
)
def log(x: Floats) -> Floats:
    """Natural logarithm of the absolute value; zero gives missing."""
    return _missing_where(x == 0, np.log(np.abs(x)))


@operator(
    "sqrt",
    takes=(NUM,),
    words="Square root of the absolute value of {0}",
    latex=r"\sqrt{{\left|{0}\right|}}",
    sql="SQRT(ABS({0}))",
    python="np.sqrt(np.abs({0}))",
)
def sqrt(x: Floats) -> Floats:
    """Square root of the absolute value."""
    return np.sqrt(np.abs(x))


@operator(
    "square",
    takes=(NUM,),
    words="Square of {0}",
    latex=r"{0}^2",
    sql="{0} * {0}",
    python="np.square({0})",
)
def square(x: Floats) -> Floats:
    """Square."""
    return np.square(x)


@operator(
    "sigmoid",
    takes=(NUM,),
    words="Logistic function of {0}",
    latex=r"\frac{{1}}{{1 + e^{{-{0}}}}}",
    sql="CASE WHEN {0} < -709.78 THEN 0 WHEN {0} > 40 THEN 1 ELSE 1 / (1 + EXP(-{0})) END",
    python="1 / (1 + np.exp(-{0}))",
)
def sigmoid(x: Floats) -> Floats:
    """Logistic function, 1 / (1 + e^-x)."""
    return 1 / (1 + np.exp(-x))


@operator(
    "round",
    takes=(NUM,),
    words="Largest integer not above {0}",
    latex=r"\left\lfloor{0}\right\rfloor",
    sql="FLOOR({0})",
    python="np.floor({0})",
)
def floor(x: Floats) -> Floats:
    """Largest integer not above the value."""
    return np.floor(x)


@operator(
    "residual",
    takes=(NUM,),
    words="{0} minus the largest integer not above it",
    latex=r"{0} - \left\lfloor{0}\right\rfloor",
    sql="{0} - FLOOR({0})",
    python="{0} - np.floor({0})",
)
def residual(x: Floats) -> Floats:
    """Value minus the largest integer not above it."""
    return x - np.floor(x)


@operator(
    "min",
    takes=(NUM, NUM),
    symmetric=True,
    words="Smaller one of {0} and {1}",
    latex=r"\min({0}, {1})",
    sql="CASE WHEN {0} <= {1} THEN {0} WHEN {1} < {0} THEN {1} END",
    python="np.minimum({0}, {1})",
)
def minimum(a: Floats, b: Floats) -> Floats:
    """Smaller of two values; missing if either is."""
    return np.minimum(a, b)


@operator(
    "max",
    takes=(NUM, NUM),
    symmetric=True,
    words="Larger one of {0} and {1}",
    latex=r"\max({0}, {1})",
    sql="CASE WHEN {0} >= {1} THEN {0} WHEN {1} > {0} THEN {1} END",
    python="np.maximum({0}, {1})",
)
def maximum(a: Floats, b: Floats) -> Floats:
    """Larger of two values; missing if either is."""
    return np.maximum(a, b)


@operator(
    "+",
    takes=(NUM, NUM),
    symmetric=True,
    words="Sum of {0} and {1}",
    latex=r"{0} + {1}",
    sql="{0} + {1}",
    python="{0} + {1}",
)
def add(a: Floats, b: Floats) -> Floats:
    """Sum."""
    return a + b


@operator(
    "-",
    takes=(NUM, NUM),
    one_way=True,
    words="{0} minus {1}",
    latex=r"{0} - {1}",
    sql="{0} - {1}",
    python="{0} - {1}",
)
def subtract(a: Floats, b: Floats) -> Floats:
    """Difference."""
    return a - b


@operator(
    "*",
    takes=(NUM, NUM),
    symmetric=True,
    words="Product of {0} and {1}",
    latex=r"{0} \cdot {1}",
    sql="{0} * {1}",
    python="{0} * {1}",
)
def multiply(a: Floats, b: Floats) -> Floats:
    """Product."""
    return a * b


@operator(
    "/",
    takes=(NUM, NUM),
    one_way=True,
    words="{0} divided by {1}",
    latex=r"\frac{{{0}}}{{{1}}}",
    sql="{0} / NULLIF({1}, 0)",
    python="np.where({1} == 0, np.nan, {0} / {1})",
)
def divide(a: Floats, b: Floats) -> Floats:
    """Ratio; division by zero gives missing."""
    return _missing_where(b == 0, a / b)


def _missing_where(mask: Floats, values: Floats) -> Floats:
    values[mask] = np.nan
    return values
