"""The folder that keeps results from one process to the next.

An artefact is one file. A vector is a folder of files that never change, each with some of its values; the
vector is their union. Several processes may add to a vector and merge its files at the same time without a
lock: a file is removed only by a process that has written another one with all it holds.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from scopefe.run.packing import SUFFIX, pack, read, read_about, unpack, write
from scopefe.run.vector import Vector

VARIABLE = "SCOPEFE_CACHE_DIR"
OFF = "off"
FORMAT = "1"
TRIES = 10
ABANDONED = 3600.0

_log = logging.getLogger(__name__)
About = Mapping[str, Any]
T = TypeVar("T")


def cache_folder(cache: bool | str = True) -> Path | None:
    """Return the folder that ``execution.cache`` means; None where nothing is kept on disk.

    True stands for the folder that the environment variable SCOPEFE_CACHE_DIR names, or else the user's
    cache folder on this platform; ``off`` in either place turns it off.
    """
    named = cache if isinstance(cache, str) else os.environ.get(VARIABLE) if cache else OFF
    if named == OFF:
        return None
    try:
        return Path(named).expanduser() if named else _users_folder() / "scopefe"
    except RuntimeError:  # there is no home
        return None


def _users_folder() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


@dataclass(frozen=True)
class Entry:
    """Something kept.

    Parameters
    ----------
    key
        Its key.
    what
        What it is, such as ``baseline`` or ``gains``.
    dataset
        Name of the table.
    fingerprint
        Fingerprint of the dataset.
    values
        Number of values of a vector; None for an artefact.
    size
        Bytes.
    written
        When it was last written, in seconds since 1970.
    seconds
        What it took to compute.
    path
        Its file or folder.
    """

    key: str
    what: str
    dataset: str
    fingerprint: str
    values: int | None
    size: int
    written: float
    seconds: float
    path: Path


class Disk:
    """Artefacts and vectors by key.

    A file that is not whole, or is of another key, is removed and counts as absent. If the folder cannot be
    read or written, one warning is logged; what is in it is computed again, and nothing more is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._artefacts = folder / FORMAT / "artefacts"
        self._vectors = folder / FORMAT / "vectors"
        self._readable = self._writable = True

    def artefact(self, key: str) -> tuple[Any, float] | None:
        """Return a value and the seconds it took; None if it is not there."""
        try:
            return _whole(self._artefacts / f"{key}{SUFFIX}", key, _artefact)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._unread(error)
            return None

    def keep(self, key: str, value: Any, seconds: float, about: About) -> None:
        """Keep a value, if it is of a kind that can be kept."""
        try:
            tree, arrays = pack(value)
        except TypeError as reason:
            _log.debug("%s is kept in memory only: %s", about["what"], reason)
            return
        about = {**about, "key": key, "seconds": seconds, "value": tree}
        self._write(self._artefacts / f"{key}{SUFFIX}", about, arrays)

    def vector(self, key: str) -> Vector:
        """Return what is known of a vector."""
        return Vector.union(self._parts(key).values())

    def add(self, key: str, part: Vector, about: About) -> bool:
        """Add values to a vector; tells whether they are kept."""
        about = {**about, "key": key, "seconds": part.total_seconds, "errors": sorted(part.errors.items())}
        arrays = {"ids": part.ids, "gains": part.values, "shares": part.seconds}
        return self._write(self._vectors / key / f"{uuid.uuid4().hex}{SUFFIX}", about, arrays)

    def merge(self, key: str, about: About) -> None:
        """Make one file of a vector's files."""
        parts = self._parts(key)
        if len(parts) > 1 and self.add(key, Vector.union(parts.values()), about):
            for path in parts:
                _remove(path)

    def _parts(self, key: str) -> dict[Path, Vector]:
        """Return a vector's files; another process may replace some of them by one while they are read."""
        parts: dict[Path, Vector] = {}
        for _ in range(TRIES):
            parts = {}
            try:
                for path in sorted((self._vectors / key).glob(f"*{SUFFIX}")):
                    part = _whole(path, key, _vector)
                    if part is not None:
                        parts[path] = part
            except FileNotFoundError:
                continue
            except OSError as error:
                self._unread(error)
            break
        return parts

    def _unread(self, error: OSError) -> None:
        if self._readable:
            self._readable = False
            reason = error.strerror or error
            _log.warning("results that are kept cannot all be read: %s: %s", self.folder, reason)

    def _write(self, path: Path, about: About, arrays: Mapping[str, Any]) -> bool:
        if not self._writable:
            return False
        try:
            write(path, about, arrays)
        except OSError as error:
            self._writable = False
            _log.warning("results are no longer kept: %s: %s", self.folder, error.strerror or error)
        return self._writable

    def entries(self) -> list[Entry]:
        """Return everything kept, the latest first."""
        found = [self._entry(p.stem, p, [p]) for p in self._artefacts.glob(f"*{SUFFIX}")]
        found += [self._entry(p.name, p, list(p.glob(f"*{SUFFIX}"))) for p in self._vectors.glob("*")]
        return sorted((e for e in found if e is not None), key=lambda e: (-e.written, e.key))

    def _entry(self, key: str, path: Path, files: list[Path]) -> Entry | None:
        about, size, written = None, 0, 0.0
        for file in files:
            with contextlib.suppress(Exception):
                about, facts = read_about(file), file.stat()
                size, written = size + facts.st_size, max(written, facts.st_mtime)
        if about is None:
            return None
        values, seconds = None, float(about["seconds"])
        if path.is_dir():  # files that were written at the same time may overlap
            known = self.vector(key)
            values, seconds = len(known), known.total_seconds
        told = (about["what"], about["dataset"], about["fingerprint"])
        return Entry(key, *told, values, size, written, seconds, path)

    def remove(self, entry: Entry) -> None:
        """Remove something kept."""
        if entry.path.is_dir():
            shutil.rmtree(entry.path, ignore_errors=True)
        else:
            _remove(entry.path)

    def sweep(self) -> None:
        """Remove what processes that were killed have left unfinished."""
        for path in self._unfinished():
            with contextlib.suppress(OSError):
                if time.time() - path.stat().st_mtime > ABANDONED:
                    path.unlink()

    def _unfinished(self) -> Iterator[Path]:
        yield from self._artefacts.glob(".*")
        yield from self._vectors.glob("*/.*")


def _artefact(about: dict[str, Any], arrays: Mapping[str, Any]) -> tuple[Any, float]:
    return unpack(about["value"], arrays), float(about["seconds"])


def _vector(about: dict[str, Any], arrays: Mapping[str, Any]) -> Vector:
    ids, values, shares = (arrays[name] for name in ("ids", "gains", "shares"))
    if not len(ids) == len(values) == len(shares):
        raise ValueError("values are missing")
    return Vector(ids, values, shares, {int(i): str(error) for i, error in about["errors"]})


def _whole(path: Path, key: str, meaning: Callable[[dict[str, Any], Mapping[str, Any]], T]) -> T | None:
    """Return what a file holds, or None if it is not whole, or of another key; it is gone then.

    Raises
    ------
    OSError
        If there is no such file, or it cannot be read.
    """
    try:
        about, arrays = read(path)
        if about["key"] != key:
            raise ValueError("it is of another key")
        return meaning(about, arrays)
    except OSError:
        raise
    except Exception as error:
        _log.debug("%s is not whole and is removed: %s", path, error)
        _remove(path)
    return None


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
