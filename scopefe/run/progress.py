"""Progress as a stream of events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Event:
    """Something that happened in a run.

    Parameters
    ----------
    run
        Name of the spec.
    step
        Name of the step.
    happened
        What: the step began, went on, or ended.
    done, total
        Pieces of work; total is None where it is not known.
    detail
        A few words for people.
    """

    run: str
    step: str
    happened: Literal["started", "advanced", "finished"]
    done: int = 0
    total: int | None = None
    detail: str = ""


Listener = Callable[[Event], None]


def pace(per_second: float) -> str:
    """Return how fast work goes: pieces per second, or seconds per piece if that is longer than one."""
    return f"{per_second:,.1f}/s" if per_second >= 1 else f"{1 / per_second:,.1f} s each"


def silent(event: Event) -> None:
    """Ignore an event."""
