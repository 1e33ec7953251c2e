"""How independent pieces of work are carried out, seen from the work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Carries out independent calls; results come in order and do not depend on engine or number of jobs."""

    @property
    def jobs(self) -> int:
        """Number of calls that run side by side."""
        ...

    @property
    def local(self) -> Engine:
        """The threads of this process, no more than it has cores."""
        ...

    def map(
        self, work: Callable[[T], R], items: Iterable[T], advance: Callable[[int], None] | None = None
    ) -> Iterator[R]:
        """Yield ``work(item)`` for each item, in order; the first exception ends the rest.

        Parameters
        ----------
        work
            A picklable object, which holds the data. It goes to each worker once, and works that are equal
            are one.
        items
            Small and picklable; drawn as the work goes on.
        advance
            Told of every item done.
        """
        ...

    def close(self) -> None:
        """Let the workers go; they start again when there is work."""
        ...


class Abandoned(BaseException):
    """Nobody waits for the result of this call any more."""


abandoned: ContextVar[Callable[[], bool]] = ContextVar("scopefe_abandoned", default=lambda: False)


def checkpoint() -> None:
    """Leave the current call if nobody waits for its result; long calls do so every now and then."""
    if abandoned.get()():
        raise Abandoned
