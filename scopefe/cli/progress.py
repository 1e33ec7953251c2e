"""Progress on stderr: bars on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from scopefe.cli.output import Settings
from scopefe.run.progress import Event, Listener, silent

EVERY = 5.0
WORTH_A_LINE = 1.0


@contextmanager
def showing_progress(settings: Settings) -> Iterator[Listener]:
    """Give the listener that shows progress where people see it."""
    if settings.quiet:
        yield silent
    elif sys.stderr.isatty():
        console = Console(stderr=True, markup=False, emoji=False, highlight=False)
        with Progress(*_columns(), console=console, transient=True) as progress:
            yield Bars(progress)
    else:
        yield Lines()


class RateColumn(ProgressColumn):
    """Pieces of work per second."""

    def render(self, task: Task) -> Text:
        """Return the rate, once it is known."""
        return Text(f"{task.speed:,.1f}/s" if task.speed else "", style="progress.data.speed")


def _columns() -> list[ProgressColumn]:
    return [
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]


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
    if event.total is None or not rate or event.done >= event.total:
        return f"{event.done:,} done, {rate:,.1f}/s"
    left = (event.total - event.done) / rate
    return f"{event.done:,} of {event.total:,}, {rate:,.1f}/s, about {left:,.0f} s left"


class Bars:
    """Progress as bars with rate and remaining time; finished long steps become lines above them."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[tuple[str, str], TaskID] = {}

    def __call__(self, event: Event) -> None:
        """Show an event."""
        place = (event.run, event.step)
        if event.happened == "started":
            self._tasks[place] = self._progress.add_task(f"{event.run}: {event.step}", total=event.total)
        elif event.happened == "advanced":
            total = None if event.total is None else max(event.total, event.done)
            self._progress.update(self._tasks[place], completed=event.done, total=total)
        else:
            self._finish(place)

    def _finish(self, place: tuple[str, str]) -> None:
        task = self._tasks.pop(place)
        seconds = self._progress.tasks[self._progress.task_ids.index(task)].elapsed or 0.0
        self._progress.remove_task(task)
        if seconds >= WORTH_A_LINE:
            self._progress.console.print(f"{place[0]}: {place[1]} took {seconds:.1f} s")
