"""Progress as bars, on a terminal or in a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

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

from scopefe.run.progress import Event, Listener, pace

WORTH_A_LINE = 1.0


@contextmanager
def progress(*, stderr: bool = False) -> Iterator[Listener]:
    """Give a listener that shows progress as bars, with rate and remaining time.

    In a notebook bars need the package ipywidgets; without it, steps that took a second or more are lines.

    Parameters
    ----------
    stderr
        Whether to show them on stderr instead of stdout, outside of notebooks.

    Examples
    --------
    >>> with scopefe.progress() as listener:  # doctest: +SKIP
    ...     run = scopefe.execute(spec, listener=listener)
    """
    console = Console(
        stderr=stderr,
        markup=False,
        emoji=False,
        highlight=False,
        force_jupyter=None if find_spec("ipywidgets") else False,
    )
    with Progress(*_columns(), console=console, transient=True) as shown:
        yield Bars(shown)


class RateColumn(ProgressColumn):
    """How fast work goes."""

    def render(self, task: Task) -> Text:
        """Return the rate, once it is known."""
        return Text(pace(task.speed) if task.speed else "", style="progress.data.speed")


def _columns() -> list[ProgressColumn]:
    return [
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]


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
