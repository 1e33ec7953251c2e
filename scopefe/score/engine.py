"""How independent pieces of work are carried out, seen from the work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Engine(Protocol):
    """Carries out independent calls; results come in order and do not depend on the number of jobs."""

    @property
    def jobs(self) -> int:
        """Number of workers."""
        ...

    def map(
        self, function: Callable[[T], R], items: Sequence[T], advance: Callable[[int], None] | None = None
    ) -> list[R]:
        """Return ``[function(item) for item in items]``, telling `advance` of every item done."""
        ...
