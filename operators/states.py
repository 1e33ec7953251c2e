"""Checks of states that come from files: a damaged one is refused before it is used."""

from __future__ import annotations

from scopefe.components import Array


def check_labels(values: Array) -> None:
    """Check labels: each is there once.

    Raises
    ------
    ValueError
        If one is there twice.
    """
    if len(set(values.tolist())) < len(values):
        raise ValueError("a label is there twice")


def check_numbers(
    name: str,
    values: Array,
    *,
    rows: int,
    whole: bool = False,
    least: float | None = None,
    below: float | None = None,
) -> None:
    """Check an array of numbers.

    Parameters
    ----------
    rows
        How many there are to be.
    whole
        Whether they are integers, not floats.
    least, below
        Bounds of all values, the first included; None for none.

    Raises
    ------
    ValueError
        If it is not so.
    """
    if values.dtype.kind not in ("iu" if whole else "f"):
        raise ValueError(f"{name} holds {values.dtype}, not {'integers' if whole else 'floats'}")
    if len(values) != rows:
        raise ValueError(f"{name} has {len(values)} values, not {rows}")
    if len(values) and least is not None and values.min() < least:
        raise ValueError(f"{name} has {values.min()}, which is below {least}")
    if len(values) and below is not None and values.max() >= below:
        raise ValueError(f"{name} has {values.max()}, which is not below {below}")
