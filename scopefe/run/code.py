"""What results depend on besides data and parameters: the code that computes them."""

from __future__ import annotations

import hashlib
import importlib.util
import platform
import time
import uuid
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from scopefe.components import Component
from scopefe.report.build import versions
from scopefe.space.graph import key_of

PARTS = ("scopefe", "scopefe.gates", "scopefe.operators")

_STARTED = time.time()
_THIS_PROCESS = uuid.uuid4().hex


def code_key(components: Iterable[Component] = ()) -> str:
    """Return the hash of this package, of what it computes with, and of components and their files.

    The whole file of a component of one's own counts, not what it imports. Where it is not certain that the
    file is what runs (typed into a session, or edited since the process began), no other process has the key.
    """
    own = [c for c in components if not c.source.module.startswith("scopefe.")]
    files = sorted({c.source.file for c in own})
    return key_of([_package(), sorted(c.version for c in own), [_code(Path(file)) for file in files]])


@cache
def _package() -> str:
    code = [[part, [_code(file) for file in _files(part)]] for part in PARTS]
    return key_of([code, versions(), platform.machine()])


def _files(package: str) -> list[Path]:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    folders = spec.submodule_search_locations or []
    return sorted(file for folder in folders for file in Path(folder).rglob("*.py"))


def _code(file: Path) -> str:
    try:
        digest = hashlib.blake2b(file.read_bytes(), digest_size=16).hexdigest()
        certain = file.stat().st_mtime < _STARTED
    except OSError:
        return _THIS_PROCESS
    return digest if certain else digest + _THIS_PROCESS
