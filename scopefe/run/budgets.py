"""Keeping a run within its budget."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from scopefe.sizes import size_text
from scopefe.spec.models import Budget

STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Stop:
    """Where and why a run ends early.

    Parameters
    ----------
    before
        The step, or the round of halving, that is not begun.
    budget
        The key of the budget.
    reason
        What was compared, and what to do.
    """

    before: str
    budget: Literal["max_candidates", "max_seconds", "max_memory"]
    reason: str


@dataclass(eq=False)
class Watch:
    """Says at every boundary whether a run may go on; once it may not, it never may again."""

    budget: Budget
    started: float = field(default_factory=time.perf_counter)
    stop: Stop | None = None

    def admit(self, candidates: int, peak_bytes: int) -> None:
        """Compare a run that has not begun with the budget.

        Parameters
        ----------
        candidates
            Raw number of candidates in the pool.
        peak_bytes
            Estimate of the memory held at most.
        """
        most, memory = self.budget.max_candidates, self.budget.max_memory
        if most is not None and candidates > most:
            reason = (
                f"the pool has {candidates:,} candidates, more than execution.budget.max_candidates: {most:,}"
            )
            self.stop = Stop("baseline", "max_candidates", f"{reason}; narrow scope or allow more")
        elif memory is not None and peak_bytes > memory:
            reason = (
                f"the run may need {size_text(peak_bytes)}, more than "
                f"execution.budget.max_memory: {size_text(memory)}"
            )
            advice = "narrow scope, lower selection.min_candidates or execution.jobs, or allow more"
            self.stop = Stop("baseline", "max_memory", f"{reason}; {advice}")

    def stops(self, before: str) -> bool:
        """Tell whether the run has to end before a step."""
        if self.stop is None:
            self.stop = self._spent(before)
        return self.stop is not None

    def _spent(self, before: str) -> Stop | None:
        seconds, memory = self.budget.max_seconds, self.budget.max_memory
        if seconds is not None and time.perf_counter() - self.started > seconds:
            reason = f"execution.budget.max_seconds: {seconds:g} is spent before {before}"
            return Stop(before, "max_seconds", f"{reason}; what was computed is kept for a later run")
        held = resident_bytes() if memory is not None else 0
        if memory is not None and held > memory:
            reason = f"{size_text(held)} are held before {before}"
            return Stop(
                before, "max_memory", f"{reason}, more than execution.budget.max_memory: {size_text(memory)}"
            )
        return None


def resident_bytes() -> int:
    """Return the memory this process holds; where the system does not tell, what it held at most, or 0."""
    if STATUS.exists():
        line = next(line for line in STATUS.read_text().splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:
        return 0
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held if sys.platform == "darwin" else held * 1024
