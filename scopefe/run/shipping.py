"""Objects on their way to worker processes: a file whose arrays are mapped into memory, not read."""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any

ALIGNMENT = 64


def ship(content: Any, folder: Path) -> Path:
    """Write an object into a new file of a folder, its arrays one after another behind it."""
    buffers: list[pickle.PickleBuffer] = []
    pickled = pickle.dumps(content, protocol=5, buffer_callback=buffers.append)
    parts = [buffer.raw() for buffer in buffers]
    descriptor, name = tempfile.mkstemp(dir=folder)
    with os.fdopen(descriptor, "wb") as file:
        pickle.dump((pickled, [part.nbytes for part in parts]), file)
        for part in parts:
            file.write(bytes(-file.tell() % ALIGNMENT))
            file.write(part)
    return Path(name)


def receive(path: Path) -> Any:
    """Return the object that was written; its arrays are private copies of pages that are written to."""
    with path.open("rb") as file:
        pickled, sizes = pickle.load(file)
        place = file.tell()
        whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    parts = []
    for size in sizes:
        place += -place % ALIGNMENT
        parts.append(whole[place : place + size])
        place += size
    return pickle.loads(pickled, buffers=parts)
