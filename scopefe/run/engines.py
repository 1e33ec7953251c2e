"""Carrying out independent work."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Literal, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Threads:
    """Threads of this process; the columns are shared without a copy.

    Parameters
    ----------
    jobs
        Number of threads; ``auto`` takes the cores this process may use.
    """

    def __init__(self, jobs: int | Literal["auto"] = "auto") -> None:
        self.jobs = cores() if jobs == "auto" else jobs

    def map(
        self, function: Callable[[T], R], items: Sequence[T], advance: Callable[[int], None] | None = None
    ) -> list[R]:
        """Return ``[function(item) for item in items]``, in order; the first exception ends the rest."""
        told = advance or _ignore
        if self.jobs == 1 or len(items) < 2:
            results = []
            for item in items:
                results.append(function(item))
                told(1)
            return results
        pool = ThreadPoolExecutor(self.jobs)
        try:
            futures = [pool.submit(function, item) for item in items]
            pending = set(futures)
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                told(len(done))
            return [future.result() for future in futures]
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _ignore(count: int) -> None:
    pass
