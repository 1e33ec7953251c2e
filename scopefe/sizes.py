"""Amounts of memory and time, as people write and read them."""

from __future__ import annotations

import re
from typing import Any

PREFIXES = " kMGT"


def read_size(value: Any) -> Any:
    """Return the bytes that a text such as ``4GB`` or ``512 MiB`` stands for; anything but text as it is.

    Raises
    ------
    ValueError
        If it is no such text.
    """
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kKMGT]?)(i?)B", value.strip())
    if found is None or (found[3] and not found[2]):
        raise ValueError(f"{value!r} is no amount of memory; write bytes, or a number and unit such as 4GB")
    power = PREFIXES.index(found[2].replace("K", "k") or " ")
    return round(float(found[1]) * (1024 if found[3] else 1000) ** power)


def size_text(size: float) -> str:
    """Return bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"


def time_text(seconds: float) -> str:
    """Return seconds for people."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
