"""Carrying out independent work: in threads, in processes of this machine (loky), on a dask cluster."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import signal
import tempfile
import time
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    CancelledError,
    Future,
    ThreadPoolExecutor,
    wait,
)
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any, Literal, TypeVar, cast

from scopefe.errors import RunError, ScopefeError
from scopefe.run.shipping import receive, ship
from scopefe.score.engine import Engine, abandoned, checkpoint
from scopefe.spec.models import Execution

T = TypeVar("T")
R = TypeVar("R")
Jobs = int | Literal["auto"]
Advance = Callable[[int], None]
Result = Future[tuple[list[Any], float]]
Submit = Callable[[Sequence[Any]], Result]

CHUNK_SECONDS = 0.1
CHUNK_ITEMS = 1000
AHEAD = 2
PULSE = 0.2
SETTLE_SECONDS = 1.0
LOSSES = 2
POLL_SECONDS = 5.0
WORKER_SECONDS = 60.0
THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMBA_NUM_THREADS",
)
_log = logging.getLogger(__name__)


def engine_of(execution: Execution) -> Engine:
    """Return the engine of a spec; its workers start when there is work.

    Raises
    ------
    RunError
        If a package that it needs is not installed.
    """
    if execution.engine == "loky":
        return Loky(execution.jobs)
    if execution.engine == "dask":
        return Dask(execution.jobs, execution.address)
    return Threads(execution.jobs)


@dataclass(eq=False)
class Chunk:
    """Items that one call carries out, and that call's future."""

    items: Sequence[Any]
    future: Result = field(default_factory=Future)


class Workers(ABC):
    """Workers that take items in chunks of about a tenth of a second, a few chunks at a time.

    Chunks whose worker is lost are carried out again; a run ends at the third loss in one step.
    """

    @property
    @abstractmethod
    def jobs(self) -> int:
        """Number of calls that run side by side."""

    @property
    def local(self) -> Engine:
        """See `scopefe.score.engine.Engine.local`."""
        return Threads(min(self.jobs, cores()))

    @abstractmethod
    def _session(self, work: Callable[[Any], Any]) -> AbstractContextManager[Submit]:
        """Give what sends chunks of a work to the workers; leaves no call running."""

    @abstractmethod
    def close(self) -> None:
        """Let the workers go; they start again when there is work."""

    def map(self, work: Callable[[T], R], items: Iterable[T], advance: Advance | None = None) -> Iterator[R]:
        """See `scopefe.score.engine.Engine.map`."""
        left, size, losses, ahead = iter(items), 1, 0, AHEAD * self.jobs
        chunks: deque[Chunk] = deque()
        running: list[Chunk] = []
        with self._session(work) as submit:
            while True:
                try:
                    while len(running) < ahead and (taken := list(islice(left, size))):
                        running.append(Chunk(taken))
                        chunks.append(running[-1])
                        chunks[-1].future = submit(taken)
                    if not chunks:
                        return
                    for chunk in self._finished(running):
                        seconds = max(chunk.future.result()[1], 1e-9)
                        running.remove(chunk)
                        pace = int(len(chunk.items) * CHUNK_SECONDS / seconds)
                        size = max(1, min(2 * size, pace, CHUNK_ITEMS))
                        if advance is not None:
                            advance(len(chunk.items))
                except (BrokenExecutor, CancelledError) as error:
                    losses += 1
                    if losses > LOSSES:
                        raise RunError(
                            f"{losses} workers ended abruptly, perhaps for lack of memory: "
                            "try fewer execution.jobs, or execution.engine: threads"
                        ) from error
                    _log.warning("a worker ended abruptly; what it was doing is done again")
                    self.close()
                    for chunk in running:
                        chunk.future = submit(chunk.items)
                while chunks and chunks[0] not in running:
                    yield from chunks.popleft().future.result()[0]

    def _finished(self, running: list[Chunk]) -> list[Chunk]:
        """Wait until a chunk is finished, and return all that are."""
        futures = [c.future for c in running]
        # a signal handler of another library may let a wait go on where Python's would end it
        while not wait(futures, timeout=PULSE, return_when=FIRST_COMPLETED).done:
            pass
        return [c for c in running if c.future.done()]


class Threads(Workers):
    """Threads of this process; the data is shared without a copy.

    Parameters
    ----------
    jobs
        Number of threads; ``auto`` takes the cores this process may use.
    """

    def __init__(self, jobs: Jobs = "auto") -> None:
        self._jobs = cores() if jobs == "auto" else jobs

    @property
    def jobs(self) -> int:
        return self._jobs

    def map(self, work: Callable[[T], R], items: Iterable[T], advance: Advance | None = None) -> Iterator[R]:
        if self.jobs > 1:
            yield from super().map(work, items, advance)
            return
        for item in items:
            result = work(item)
            if advance is not None:
                advance(1)
            yield result

    @contextmanager
    def _session(self, work: Callable[[Any], Any]) -> Iterator[Submit]:
        stop = Event()
        with ThreadPoolExecutor(self.jobs, initializer=abandoned.set, initargs=(stop.is_set,)) as pool:
            try:
                yield lambda items: pool.submit(carry_out, work, items)
            finally:
                stop.set()
                pool.shutdown(wait=False, cancel_futures=True)

    def close(self) -> None:
        pass


class Loky(Workers):
    """Processes of this machine; the data is written once per work, and mapped into all of them.

    Parameters
    ----------
    jobs
        Number of processes; ``auto`` takes the cores this process may use. Each computes with its share of
        the cores.
    """

    def __init__(self, jobs: Jobs = "auto") -> None:
        self._jobs = cores() if jobs == "auto" else jobs
        self._pool: Any = None
        self._folder: Path | None = None
        self._shipped: tuple[Any, Path] | None = None
        self._resources = ExitStack()
        weakref.finalize(self, self._resources.close)

    @property
    def jobs(self) -> int:
        return self._jobs

    @contextmanager
    def _session(self, work: Callable[[Any], Any]) -> Iterator[Submit]:
        recent: deque[Result] = deque(maxlen=AHEAD * self.jobs)

        def submit(items: Sequence[Any]) -> Result:
            if self._pool is None:
                self._start()
            recent.append(cast(Result, self._pool.submit(carry_out_file, self._ship(work), items)))
            return recent[-1]

        try:
            yield submit
        except BaseException:
            if self._pool is not None:
                self._settle(recent)
                self._pool.shutdown(kill_workers=True)
            self.close()
            raise

    @staticmethod
    def _settle(calls: Iterable[Result]) -> None:
        """Wait a moment until the pool has taken its calls up: ending it, its thread stumbles over others."""
        until = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < until and not all(call.running() or call.done() for call in calls):
            time.sleep(0.001)

    def _start(self) -> None:
        from joblib.externals.loky import ProcessPoolExecutor

        limit = str(max(1, cores() // self.jobs))
        self._pool = ProcessPoolExecutor(
            self.jobs, initializer=ignore_interrupts, env=dict.fromkeys(THREAD_LIMITS, limit)
        )
        folder = tempfile.TemporaryDirectory(prefix="scopefe-", ignore_cleanup_errors=True)
        self._folder = Path(self._resources.enter_context(folder))
        self._resources.callback(self._pool.shutdown)

    def _ship(self, work: Callable[[Any], Any]) -> Path:
        if self._shipped is None or self._shipped[0] != work:
            assert self._folder is not None
            if self._shipped is not None:
                with suppress(OSError):  # a system may keep a file that a worker has mapped
                    self._shipped[1].unlink()
            self._shipped = work, ship(work, self._folder)
        return self._shipped[1]

    def close(self) -> None:
        self._resources.close()
        self._pool = self._folder = self._shipped = None


class Dask(Workers):
    """A dask cluster; the data goes to each of its workers once per work.

    Parameters
    ----------
    jobs
        Number of processes of a local cluster, which lives as long as the run.
    address
        A scheduler, whose workers are taken instead; they need the same packages, and modules at the same
        paths.

    Raises
    ------
    RunError
        If dask is not installed.
    """

    def __init__(self, jobs: Jobs = "auto", address: str | None = None) -> None:
        if importlib.util.find_spec("distributed") is None:
            raise RunError("execution.engine: dask needs dask: pip install 'scopefe[dask]'")
        self._jobs = cores() if jobs == "auto" else jobs
        self._address = address
        self._client: Any = None
        self._shipped: tuple[Any, Any] | None = None
        self._resources = ExitStack()
        weakref.finalize(self, self._resources.close)

    @property
    def jobs(self) -> int:
        if self._address is None:
            return self._jobs
        with self._reaching():
            return max(1, int(sum(self._connected().nthreads().values())))

    @contextmanager
    def _session(self, work: Callable[[Any], Any]) -> Iterator[Submit]:
        from distributed import KilledWorker

        def submit(items: Sequence[Any]) -> Result:
            with self._reaching():
                executor = self._connected().get_executor()
                return cast(Result, executor.submit(carry_out, self._ship(work), items))

        try:
            yield submit
        except BaseException as error:
            self.close()
            if isinstance(error, KilledWorker):
                raise RunError(f"dask gave the run up: {' '.join(str(error).split())}") from error
            raise

    def _connected(self) -> Any:
        if self._client is None:
            distributed: Any = importlib.import_module("distributed")
            cluster = self._address
            if cluster is None:
                cluster = self._resources.enter_context(
                    distributed.LocalCluster(
                        n_workers=self.jobs,
                        threads_per_worker=1,
                        memory_limit=None,
                        dashboard_address="127.0.0.1:0",
                        silence_logs=logging.CRITICAL,
                        preload=[f"from {__name__} import ignore_interrupts; ignore_interrupts()"],
                    )
                )
            self._client = self._resources.enter_context(distributed.Client(cluster, set_as_default=False))
            self._client.wait_for_workers(1, timeout=WORKER_SECONDS)
        return self._client

    def _ship(self, work: Callable[[Any], Any]) -> Any:
        if self._shipped is None or self._shipped[0] != work:
            self._shipped = work, self._client.scatter(work, broadcast=True, hash=False)
        return self._shipped[1]

    def _finished(self, running: list[Chunk]) -> list[Chunk]:
        while not wait([c.future for c in running], POLL_SECONDS, FIRST_COMPLETED).done:
            with self._reaching():
                self._client.wait_for_workers(1, timeout=WORKER_SECONDS)
        return super()._finished(running)

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except ScopefeError:
            raise
        except Exception as error:
            where = self._address or "local, which needs if __name__ == '__main__' in a script"
            told = " ".join(str(error).split())
            raise RunError(f"the dask cluster ({where}) does not work: {told}") from error

    def close(self) -> None:
        self._resources.close()
        self._client = self._shipped = None


def carry_out(work: Callable[[T], R], items: Sequence[T]) -> tuple[list[R], float]:
    """Return the results of a chunk, and the seconds they took."""
    started = time.perf_counter()
    results = []
    for item in items:
        checkpoint()
        results.append(work(item))
    return results, time.perf_counter() - started


def carry_out_file(path: Path, items: Sequence[Any]) -> tuple[list[Any], float]:
    """Carry out a chunk with the work in a file."""
    return carry_out(_received(path), items)


@lru_cache(maxsize=1)
def _received(path: Path) -> Any:
    return receive(path)


def ignore_interrupts() -> None:
    """Leave it to the parent process what an interrupt ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
