"""Peak memory of a piece of work, in a process of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
PROCESS = Path("/proc/self")


@dataclass(frozen=True)
class Memory:
    """Bytes of a process: before the work, with its data in place, and at the peak of the work."""

    before: int
    peak: int


def available() -> bool:
    """Whether this system tells."""
    return (PROCESS / "status").is_file()


def memory_of(work: Callable[[T], object], data: T) -> Memory:
    """Carry out a function of a module on some data in a new process, and return what it used."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_observed, work, data).result()


def _observed(work: Callable[[T], object], data: T) -> Memory:
    with contextlib.suppress(OSError):
        (PROCESS / "clear_refs").write_text("5")  # what receiving the data took is forgotten
    before = _status("VmRSS")
    work(data)
    return Memory(before, _status("VmHWM"))


def _status(name: str) -> int:
    lines = (PROCESS / "status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))
