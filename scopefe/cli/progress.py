"""Progress on stderr: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

from scopefe.cli.output import Settings
from scopefe.run.bars import WORTH_A_LINE, progress
from scopefe.run.progress import Event, Listener, pace, silent

EVERY = 5.0


@contextmanager
def showing_progress(settings: Settings) -> Iterator[Listener]:
    """Give the listener that shows progress where people see it."""
    if settings.quiet:
        yield silent
    elif sys.stderr.isatty():
        with progress(stderr=True) as listener:
            yield listener
    else:
        yield Lines()


class Lines:
    """Progress as plain lines: of long steps only, and not often."""

    def __init__(self) -> None:
        self._started: dict[tuple[str, str], float] = {}
        self._told = time.monotonic()

    def __call__(self, event: Event) -> None:
        """Tell an event, if it is worth a line."""
        now, place = time.monotonic(), (event.run, event.step)
        seconds = now - self._started.setdefault(place, now)
        if event.happened == "finished":
            del self._started[place]
            if seconds >= WORTH_A_LINE:
                self._tell(f"{event.run}: {event.step} took {seconds:.1f} s", now)
        elif event.happened == "advanced" and now - self._told >= EVERY:
            self._tell(f"{event.run}: {event.step} {describe(event, seconds)}", now)

    def _tell(self, text: str, now: float) -> None:
        self._told = now
        click.echo(text, err=True)


def describe(event: Event, seconds: float) -> str:
    """Return how far a step is, how fast it goes, and how long it will take yet."""
    rate = event.done / seconds if seconds else 0.0
    if not rate:
        return f"{event.done:,} done"
    if event.total is None or event.done >= event.total:
        return f"{event.done:,} done, {pace(rate)}"
    left = (event.total - event.done) / rate
    return f"{event.done:,} of {event.total:,}, {pace(rate)}, about {left:,.0f} s left"
