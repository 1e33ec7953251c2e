"""What has been computed, by key."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Artefact:
    """A result with the seconds it took to compute.

    Parameters
    ----------
    value
        The result.
    seconds
        Wall time of the computation, whenever it was made.
    reused
        Whether it came from the store.
    """

    value: Any
    seconds: float
    reused: bool = False


class Store:
    """Artefacts of this process, shared by the specs that run in it."""

    def __init__(self) -> None:
        self._artefacts: dict[str, Artefact] = {}

    def get(self, key: str, compute: Callable[[], Any]) -> Artefact:
        """Return the artefact of a key, computing it if it is not there."""
        if key in self._artefacts:
            known = self._artefacts[key]
            return Artefact(known.value, known.seconds, reused=True)
        started = time.perf_counter()
        value = compute()
        self._artefacts[key] = Artefact(value, time.perf_counter() - started)
        return self._artefacts[key]
