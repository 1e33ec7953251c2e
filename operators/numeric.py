"""Elementwise operators on numbers; values are computed in the columns' own floating type."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from scopefe import NUM, operator

Floats = npt.NDArray[Any]

UNARY = ("abs", "log", "sqrt", "square", "sigmoid", "round", "residual")
BINARY = ("min", "max", "+", "-", "*", "/")


@operator("abs", takes=(NUM,))
def absolute(x: Floats) -> Floats:
    """Absolute value."""
    return np.abs(x)


@operator("log", takes=(NUM,))
def log(x: Floats) -> Floats:
    """Natural logarithm of the absolute value; zero gives missing."""
    return _missing_where(x == 0, np.log(np.abs(x)))


@operator("sqrt", takes=(NUM,))
def sqrt(x: Floats) -> Floats:
    """Square root of the absolute value."""
    return np.sqrt(np.abs(x))


@operator("square", takes=(NUM,))
def square(x: Floats) -> Floats:
    """Square."""
    return np.square(x)


@operator("sigmoid", takes=(NUM,))
def sigmoid(x: Floats) -> Floats:
    """Logistic function, 1 / (1 + e^-x)."""
    return 1 / (1 + np.exp(-x))


@operator("round", takes=(NUM,))
def floor(x: Floats) -> Floats:
    """Largest integer not above the value."""
    return np.floor(x)


@operator("residual", takes=(NUM,))
def residual(x: Floats) -> Floats:
    """Value minus the largest integer not above it."""
    return x - np.floor(x)


@operator("min", takes=(NUM, NUM), symmetric=True)
def minimum(a: Floats, b: Floats) -> Floats:
    """Smaller of two values; missing if either is."""
    return np.minimum(a, b)


@operator("max", takes=(NUM, NUM), symmetric=True)
def maximum(a: Floats, b: Floats) -> Floats:
    """Larger of two values; missing if either is."""
    return np.maximum(a, b)


@operator("+", takes=(NUM, NUM), symmetric=True)
def add(a: Floats, b: Floats) -> Floats:
    """Sum."""
    return a + b


@operator("-", takes=(NUM, NUM), one_way=True)
def subtract(a: Floats, b: Floats) -> Floats:
    """Difference."""
    return a - b


@operator("*", takes=(NUM, NUM), symmetric=True)
def multiply(a: Floats, b: Floats) -> Floats:
    """Product."""
    return a * b


@operator("/", takes=(NUM, NUM), one_way=True)
def divide(a: Floats, b: Floats) -> Floats:
    """Ratio; division by zero gives missing."""
    return _missing_where(b == 0, a / b)


def _missing_where(mask: Floats, values: Floats) -> Floats:
    values[mask] = np.nan
    return values
