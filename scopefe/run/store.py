"""What has been computed, by key: in memory, and on disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scopefe.components import Array
from scopefe.run.disk import About, Disk, cache_folder
from scopefe.run.vector import Vector
from scopefe.score.featureboost import Failure

FLUSH_SECONDS = 3.0

Values = Sequence[float] | Array
Compute = Callable[[Array], Iterable[Values | Failure]]


class Store:
    """Results of this process, shared by the specs that run in it, over what is kept on disk.

    Datasets and values that cannot be kept are in memory only. What is kept on disk, and where, is said by
    ``execution.cache`` of each spec.
    """

    def __init__(self) -> None:
        self.reused_seconds = 0.0
        """What the results that were handed out again had taken, in all."""
        self._held: dict[str, Any] = {}
        self._artefacts: dict[str, tuple[Any, float]] = {}
        self._vectors: dict[str, Vector] = {}
        self._disks: dict[Path, Disk] = {}

    def disk(self, cache: bool | str) -> Disk | None:
        """Return the folder that ``execution.cache`` means."""
        folder = cache_folder(cache)
        return None if folder is None else self._disks.setdefault(folder, Disk(folder))

    def hold(self, key: str, make: Callable[[], Any]) -> Any:
        """Return what is held in memory under a key, making it first if need be."""
        if key not in self._held:
            self._held[key] = make()
        return self._held[key]

    def get(self, key: str, compute: Callable[[], Any], disk: Disk | None, about: About) -> Any:
        """Return the artefact of a key, computing it if it is not there.

        Parameters
        ----------
        disk
            Where it is kept.
        about
            What it is, and of which dataset.
        """
        known = self._artefacts.get(key) or (disk.artefact(key) if disk else None)
        if known is None:
            started, reused = time.perf_counter(), self.reused_seconds
            value = compute()
            known = value, time.perf_counter() - started + self.reused_seconds - reused
            if disk:
                disk.keep(key, *known, about)
        else:
            self.reused_seconds += known[1]
        self._artefacts[key] = known
        return known[0]

    def vector(
        self,
        key: str,
        ids: Array,
        compute: Compute,
        disk: Disk | None,
        about: About,
        advance: Callable[[int], None],
        width: int = 1,
    ) -> Vector:
        """Return the values of ids, computing those that are not known.

        Parameters
        ----------
        ids
            int64, each once.
        compute
            Gives the values or failure of each id, in order, and tells progress itself. What it gave is kept
            every few seconds, and when it is interrupted.
        advance
            Told how many are known already.
        width
            Number of values per id.
        """
        known = self._vectors.get(key, Vector.union([]))
        if disk and not known.has(ids).all():
            known = Vector.union([known, disk.vector(key)])
        found = known.has(ids)
        self.reused_seconds += known.at(ids[found]).total_seconds
        if found.any():
            advance(int(found.sum()))
        parts = [known]
        try:
            for part in _parts(ids[~found], compute, width):
                parts.append(part)
                if disk:
                    disk.add(key, part.lasting(), about)
        finally:
            whole = Vector.union(parts)
            self._vectors[key] = whole.lasting()
        if disk and len(parts) > 1:
            disk.merge(key, about)
        return whole.at(ids)


def _parts(ids: Array, compute: Compute, width: int) -> Iterator[Vector]:
    """Yield what is computed, a few seconds of it at a time."""
    if not len(ids):
        return
    results: list[Values | Failure] = []
    done, since = 0, time.perf_counter()

    def part() -> Vector:
        nonlocal done, since, results
        chunk, now = ids[done : done + len(results)], time.perf_counter()
        values = [(np.nan,) * width if isinstance(r, Failure) else r for r in results]
        errors = {int(i): r.error for i, r in zip(chunk, results, strict=True) if isinstance(r, Failure)}
        made = Vector.of(chunk, np.array(values), now - since, errors)
        done, since, results = done + len(results), now, []
        return made

    try:
        for result in compute(ids):
            results.append(result)
            if time.perf_counter() - since >= FLUSH_SECONDS:
                yield part()
    finally:
        if results:
            yield part()
