"""Engines: the same results from threads, processes and dask, whatever becomes of a worker."""

from __future__ import annotations

import dataclasses
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scopefe.operators import DEFAULT

import scopefe
from scopefe.errors import ComponentError, RunError, SpecError
from scopefe.registry import components
from scopefe.run import engines
from scopefe.run.engines import AHEAD, Dask, Loky, Threads, Workers, carry_out, engine_of
from scopefe.run.shipping import receive, ship
from scopefe.run.workbench import Stored
from scopefe.score import featureboost
from scopefe.score.attribution import attribute
from scopefe.score.boosting import threads_for
from scopefe.score.engine import checkpoint
from scopefe.score.featureboost import Block, LightGBM, Scoring, compute, score
from scopefe.score.selection import Native, Nothing, measured_on
from scopefe.spec.models import Execution

pytestmark = pytest.mark.filterwarnings("default")  # of distributed and loky

MODULE = '''
import numpy as np
from scopefe import NUM, operator

@operator("half", takes=(NUM,))
def half(x, *, by: float = 2.0):
    """x divided."""
    return x / by

@operator("moody", takes=(NUM, NUM), symmetric=True)
def moody(a, b):
    """A sum, or a failure."""
    if a[0] > b[0]:
        raise ValueError(f"no sum of {len(a)} rows")
    return a + b
'''


@dataclass(frozen=True)
class Add:
    """Adds a number; fails on request."""

    number: int
    fails_at: int = -1

    def __call__(self, item: int) -> int:
        if item == self.fails_at:
            raise ValueError(f"item {item}")
        return item + self.number


@dataclass(frozen=True)
class Mortal:
    """Squares; the process dies at one item until it has died so many times."""

    folder: Path
    at: int
    deaths: int

    def __call__(self, item: int) -> int:
        if item == self.at and len(list(self.folder.iterdir())) < self.deaths:
            (self.folder / str(os.getpid())).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return item * item


@dataclass(frozen=True)
class Environment:
    def __call__(self, item: str) -> tuple[int, str | None]:
        return os.getpid(), os.environ.get(item)


@pytest.fixture(scope="module", params=["threads", "loky", "dask"])
def engine(request) -> Iterator[Any]:
    """Two workers that stay for all tests of this file."""
    made = engine_of(Execution(engine=request.param, jobs=2))
    yield made
    made.close()


# --- map ---------------------------------------------------------------------------------------------------


def test_results_come_in_order_and_all_are_told(engine):
    told = []
    results = list(engine.map(Add(5), iter(range(3000)), told.append))
    assert results == list(range(5, 3005))
    assert sum(told) == 3000 and len(told) > 1
    assert list(engine.map(Add(5), [])) == []


def test_the_first_failure_ends_the_rest_and_the_engine_goes_on(engine):
    drawn = []

    def items():
        for i in range(100_000):
            drawn.append(i)
            yield i

    with pytest.raises(ValueError, match="item 7"):
        list(engine.map(Add(1, fails_at=7), items()))
    assert len(drawn) < 50_000
    assert list(engine.map(Add(1), range(3))) == [1, 2, 3]


@given(
    st.lists(st.floats(0, 0.002), max_size=40),
    st.integers(1, 4),
)
@settings(max_examples=25, deadline=None)
def test_order_does_not_depend_on_how_long_items_take(naps, jobs):
    def work(item):
        time.sleep(item[1])
        return item[0]

    assert list(Threads(jobs).map(work, enumerate(naps))) == list(range(len(naps)))


@pytest.mark.parametrize("jobs", [1, 3])
def test_items_are_drawn_as_results_are_taken(jobs):
    drawn = 0

    def items():
        nonlocal drawn
        for i in range(10_000):
            drawn += 1
            yield i

    def work(item):
        time.sleep(engines.CHUNK_SECONDS / 2)
        return item

    results = Threads(jobs).map(work, items())
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    assert drawn <= 3 + 4 * AHEAD * jobs
    results.close()


def test_calls_that_nobody_waits_for_end_at_once():
    begun, ended = threading.Event(), threading.Event()

    def work(item):
        if not item:
            return begun.wait(10)
        try:
            begun.set()
            while True:
                checkpoint()
                time.sleep(0.001)
        finally:
            ended.set()

    results = Threads(2).map(work, [0, 1])
    assert next(results)
    results.close()
    assert ended.wait(10)


def test_local_threads_are_no_more_than_the_cores():
    for made in (Threads(1), Threads(1000), Loky(1000), Dask(1000)):
        assert made.local.jobs == min(made.jobs, engines.cores())


# --- processes ---------------------------------------------------------------------------------------------


class Counted:
    """Counts how often it is pickled; all of one number are equal."""

    pickled = 0

    def __init__(self, number: int) -> None:
        self.number = number
        self.data = np.arange(1000.0)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counted) and other.number == self.number

    def __hash__(self) -> int:
        return self.number

    def __getstate__(self) -> dict[str, Any]:
        Counted.pickled += 1
        return self.__dict__

    def __call__(self, item: int) -> float:
        return float(self.data[item]) + self.number


@pytest.mark.parametrize("engine", ["loky", "dask"], indirect=True)
def test_equal_works_are_sent_once(engine):
    Counted.pickled = 0
    for _ in range(3):
        assert list(engine.map(Counted(1), range(500))) == list(np.arange(1.0, 501.0))
    once = Counted.pickled
    assert once <= engine.jobs
    assert list(engine.map(Counted(2), range(3))) == [2.0, 3.0, 4.0]
    assert once < Counted.pickled <= 2 * engine.jobs


@pytest.mark.parametrize("engine", ["loky", "dask"], indirect=True)
def test_workers_compute_with_their_share_of_the_cores(engine):
    limit = str(max(1, engines.cores() // 2))
    found = list(engine.map(Environment(), ["OMP_NUM_THREADS"] * 8))
    assert {value for _, value in found} <= {limit, "1"}
    assert os.getpid() not in {process for process, _ in found}


@pytest.mark.parametrize("engine", ["loky", "dask"], indirect=True)
def test_a_lost_worker_costs_nothing_but_time(engine, tmp_path):
    assert list(engine.map(Mortal(tmp_path, 20, 1), range(40))) == [i * i for i in range(40)]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.slow
def test_the_only_worker_of_a_cluster_may_be_lost(tmp_path):
    lonely = Dask(1)
    try:
        assert list(lonely.map(Mortal(tmp_path, 5, 1), range(10))) == [i * i for i in range(10)]
    finally:
        lonely.close()


class Doomed(Workers):
    """Workers that end abruptly, but for the calls from `better` on."""

    jobs = 2

    def __init__(self, better: int) -> None:
        self.better, self.calls, self.closed = better, 0, 0

    def close(self) -> None:
        self.closed += 1

    @contextmanager
    def _session(self, work):
        def submit(items):
            future = Future()
            self.calls += 1
            if self.calls < self.better:
                future.set_exception(BrokenExecutor())
            else:
                future.set_result(carry_out(work, items))
            return future

        yield submit


def test_what_lost_workers_were_doing_is_done_again():
    workers = Doomed(better=6)
    assert list(workers.map(Add(1), range(10))) == list(range(1, 11))
    assert workers.closed == 2


def test_workers_that_always_end_are_one_line():
    with pytest.raises(RunError, match=r"3 workers ended abruptly.*fewer execution\.jobs") as caught:
        list(Doomed(better=1000).map(Add(1), range(10)))
    assert "\n" not in str(caught.value)


@given(
    st.lists(
        arrays.arrays(
            st.sampled_from([np.float32, np.float64, np.int64, np.bool_]),
            arrays.array_shapes(min_dims=1, max_dims=2, min_side=0),
        ),
        max_size=5,
    ),
    st.booleans(),
)
@settings(max_examples=50, deadline=None)
def test_objects_arrive_as_they_were_sent(tmp_path_factory, content, fortran):
    sent = [np.asfortranarray(a) for a in content] if fortran else content
    path = ship((sent, "text"), tmp_path_factory.mktemp("sent"))
    received, text = receive(path)
    assert text == "text"
    for before, after in zip(sent, received, strict=True):
        assert type(after) is np.ndarray and after.dtype == before.dtype
        np.testing.assert_array_equal(after, before)
        after[...] = 0
    np.testing.assert_array_equal(receive(path)[0][0] if sent else 0, sent[0] if sent else 0)


# --- what is sent ------------------------------------------------------------------------------------------


def frame(rows: int = 240) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    columns = {
        "x": rng.normal(size=rows) * 3,
        "z": rng.lognormal(size=rows).astype(np.float32),
        "o": rng.integers(1, 6, rows),
        "k": rng.choice(list("abcd"), rows),
    }
    found = pd.DataFrame(columns)
    found["y"] = found["x"] / (1 + found["z"]) + found["o"] * (found["k"] == "a")
    found.loc[::17, "x"], found.loc[3::29, "k"] = np.nan, None
    return found


def spec_of(module: Path | None = None, **changes: Any) -> scopefe.Spec:
    sections: dict[str, Any] = {
        "name": "engines",
        "data": {"target": "y"},
        "operators": {"use": ["default"]},
        "scope": {"operators": {"gate": "probe", "keep": 12}},
        "baseline": {"max_trees": 40, "early_stopping": 5},
        "selection": {"data_blocks": 2, "min_candidates": 30, "keep": 6},
        "evaluation": {"seeds": 2, "max_trees": 20},
    }
    if module is not None:
        sections["operators"] = {"use": ["default", "half", "moody"], "modules": [str(module)]}
    sections |= changes
    sections["execution"] = {"cache": False, **sections.get("execution", {})}
    return scopefe.load_spec(sections)


@pytest.fixture
def module(tmp_path) -> Path:
    path = tmp_path / "own.py"
    path.write_text(MODULE, encoding="utf-8")
    return path


def block_of(spec: scopefe.Spec, data: pd.DataFrame) -> tuple[scopefe.Compiled, Block]:
    compiled = scopefe.compile(spec, data=data)
    found, bench = compiled.data, compiled.bench
    target = found.scaled_target
    block = Block(
        found.development, len(found.rows.train), target, np.zeros(len(target)), bench.objective(found)
    )
    return compiled, block


def test_blocks_are_sent_without_other_rows_and_caches():
    _, block = block_of(spec_of(scope={}), frame())
    part = dataclasses.replace(
        block,
        table=block.table.take(np.arange(50)),
        fitted=40,
        target=block.target[:50],
        scores=block.scores[:50],
    )
    assert part.initial > 0
    arrived = pickle.loads(pickle.dumps(part))
    assert set(vars(arrived)) == {f.name for f in dataclasses.fields(Block)}
    assert arrived.table.names == part.table.names
    for i in range(len(part.table)):
        mine, other = part.table[i], arrived.table[i]
        np.testing.assert_array_equal(other.model_values(), mine.model_values())
        np.testing.assert_array_equal(
            other.keys.labels[other.keys.codes[other.keys.codes >= 0]].astype(str),
            mine.keys.labels[mine.keys.codes[mine.keys.codes >= 0]].astype(str),
        )
    assert len(pickle.dumps(part)) < len(pickle.dumps(block)) / 2


@pytest.mark.parametrize("name", DEFAULT)
def test_built_in_operators_are_sent_by_name(name):
    operator = components().operators[name]
    assert pickle.loads(pickle.dumps(operator)) is operator


def test_operators_of_files_are_sent_by_place_and_parameters(module):
    operator = components([module]).operators["half"].bind({"by": 4.0})
    arrived = pickle.loads(pickle.dumps(operator))
    assert (arrived.name, arrived.bound) == (operator.name, {"by": 4.0})
    assert arrived.apply({}, np.array([8.0])).tolist() == [2.0]


def test_an_operator_that_changed_meanwhile_is_refused(module):
    sent = pickle.dumps(components([module]).operators["half"])
    script = f"import pickle, scopefe.registry; pickle.loads({sent!r})"
    module.write_text(MODULE.replace("x / by", "x * by"), encoding="utf-8")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode and "has changed in" in done.stderr.splitlines()[-1]


def test_an_operator_that_workers_cannot_find_is_an_error(module):
    operator = components([module]).operators["half"]
    lost = dataclasses.replace(operator, target=math.sqrt)
    with pytest.raises(ComponentError, match="'half' is not in 'math'"):
        pickle.loads(pickle.dumps(lost))


# --- runs --------------------------------------------------------------------------------------------------


def facts(found: scopefe.Run) -> str:
    return found.report.model_dump_json(exclude={"volatile"})


def executed(module: Path, **execution: Any) -> scopefe.Run:
    return scopefe.execute(spec_of(module, execution=execution), data=frame(), write=False)


OTHERS = [("threads", 2), ("threads", 4), ("loky", 2), ("dask", 2)]


@pytest.mark.slow
def test_every_engine_gives_the_same_report(module):
    expected = executed(module, jobs=1)
    failures = expected.report.selection.failures
    assert failures and all("no sum of" in f.error for f in failures)
    assert len(expected.report.selection.selected) > 2
    for name, jobs in OTHERS:
        found = executed(module, engine=name, jobs=jobs)
        assert facts(found) == facts(expected), name
        assert found.report.volatile.jobs == jobs


@pytest.mark.parametrize("engine", ["dask"], indirect=True)
def test_a_run_on_dask_survives_the_death_of_a_worker(engine):
    compiled, block = block_of(spec_of(scope={}), frame())
    universe, ids = compiled.universe, compiled.scope.ids()
    measured = block.measured()
    expected = list(score(universe, ids, block.table, measured, LightGBM(), Threads(1), stage="halving"))
    processes = {p for p, _ in engine.map(Environment(), ["PATH"] * 30)}
    results = score(universe, ids, block.table, measured, LightGBM(), engine, stage="halving")
    found = [next(results)]
    os.kill(min(processes), signal.SIGKILL)
    found.extend(results)
    assert found == expected


@pytest.mark.parametrize("engine", ["dask"], indirect=True)
def test_a_dask_address_is_worked_on(engine):
    cluster = engine._connected()
    cluster.wait_for_workers(2, timeout=60)
    address = cluster.scheduler.address
    made = engine_of(Execution(engine="dask", address=address))
    assert made.jobs == 2
    assert list(made.map(Add(1), range(100))) == list(range(1, 101))
    made.close()
    assert list(engine.map(Add(2), range(3))) == [2, 3, 4]


def test_a_scheduler_that_is_not_there_is_one_line(monkeypatch):
    import dask

    with dask.config.set({"distributed.comm.timeouts.connect": "300ms"}):
        made = Dask(1, "tcp://127.0.0.1:9")
        with pytest.raises(RunError, match=r"tcp://127\.0\.0\.1:9\) does not work") as caught:
            list(made.map(Add(1), [1]))
    assert "\n" not in str(caught.value)


def test_dask_that_is_not_installed_is_one_line(monkeypatch):
    monkeypatch.setattr(engines.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RunError, match=r"pip install 'scopefe\[dask\]'"):
        engine_of(Execution(engine="dask"))


def test_an_address_is_for_dask():
    with pytest.raises(SpecError, match="address is for engine: dask"):
        spec_of(execution={"address": "tcp://localhost:8786"})


LONG = """
import sys
import pandas as pd
import scopefe

spec = scopefe.load_spec({
    "name": "long",
    "data": {"target": "y"},
    "baseline": {"learning_rate": 0.0001, "max_trees": 1000000, "early_stopping": 1000000},
    "execution": {"engine": sys.argv[1], "jobs": 2, "cache": False},
})
scopefe.execute(spec, data=pd.read_csv("table.csv"), listener=lambda e: print(e.step, flush=True))
"""


@pytest.mark.parametrize("name", ["threads", "loky"])
def test_an_interrupt_ends_a_run_promptly(name, tmp_path):
    frame(3000).to_csv(tmp_path / "table.csv", index=False)
    run = subprocess.Popen(
        [sys.executable, "-c", LONG, name],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert "baseline\n" in iter(run.stdout.readline, "")
    time.sleep(1)
    os.killpg(run.pid, signal.SIGINT)
    started = time.monotonic()
    _, told = run.communicate(timeout=30)
    assert time.monotonic() - started < 10
    assert run.returncode and told.splitlines()[-1] == "KeyboardInterrupt"
    assert not list(tmp_path.glob("runs/*"))


# --- memory ------------------------------------------------------------------------------------------------


def test_attribution_holds_its_values_once():
    rng = np.random.default_rng(0)
    rows, width = 3000, 12
    data = pd.DataFrame(rng.normal(size=(rows, width)), columns=[f"c{i}" for i in range(width)])
    data["y"] = data["c0"] * data["c1"] + rng.normal(size=rows)
    compiled, block = block_of(spec_of(scope={}, operators={"use": ["+", "-", "*", "/", "min", "max"]}), data)
    survivors = compiled.scope.ids()
    assert len(survivors) > 300
    settled = attribute(compiled.universe, survivors[:5], block, Threads(2), method="gain", rng=_Sorted())
    assert len(settled.candidates) == 5
    tracemalloc.start()
    found = attribute(compiled.universe, survivors, block, Threads(2), method="gain", rng=_Sorted())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(found.candidates) == len(survivors)
    assert peak < 1.25 * 8 * block.table.rows * (len(survivors) + width)


class _Sorted:
    """A random stream that leaves everything where it is."""

    def shuffle(self, items: list[int]) -> None:
        pass


def test_candidates_that_fail_in_attribution_leave_no_gap():
    compiled, block = block_of(spec_of(scope={}), frame())
    universe, ids = compiled.universe, compiled.scope.ids()[:30]
    expected = attribute(universe, ids[::2], block, Threads(1), method="permutation", rng=_Sorted())
    broken = {int(i) for i in ids[1::2]}
    tampered = _Tampered(universe, broken)
    found = attribute(tampered, ids, block, Threads(2), method="permutation", rng=_Sorted())
    assert {f.candidate for f in found.failures} == broken
    assert sorted(found.candidates) == sorted(expected.candidates)
    assert found.trees == expected.trees


class _Tampered:
    """A universe some of whose candidates have no features."""

    def __init__(self, universe: Any, broken: set[int]) -> None:
        self.universe, self.broken = universe, broken

    def __getattr__(self, name: str) -> Any:
        return getattr(self.universe, name)

    def decode(self, ids: Any) -> Any:
        operators, left, right = self.universe.decode(ids)
        return operators, np.where(np.isin(ids, list(self.broken)), 10_000, left), right


def test_scoring_keeps_no_values():
    compiled, block = block_of(spec_of(scope={}), frame(2000))
    ids = np.repeat(compiled.scope.ids()[:40], 50)
    measured = block.measured()
    (gain,) = Scoring(compiled.universe, block.table, measured, LightGBM())((0, 0, -1))
    assert isinstance(gain, float)

    class Half:
        def gain(self, block, values, *, categorical):
            return 0.5

    tracemalloc.start()
    results = list(score(compiled.universe, ids, block.table, measured, Half(), Threads(1), stage="halving"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert results == [(0.5,)] * len(ids)
    assert peak < 8 * len(ids) * block.table.rows / 20


def test_values_are_computed_once_for_all_folds(monkeypatch):
    compiled, block = block_of(spec_of(scope={}), frame())
    ids, computed = compiled.scope.ids(), []

    def counted(*arguments):
        computed.append(arguments)
        return compute(*arguments)

    monkeypatch.setattr(featureboost, "compute", counted)
    folds = measured_on(block, 4)
    found = list(score(compiled.universe, ids, block.table, folds, LightGBM(), Threads(1), stage=""))
    assert len(computed) == len(found) == len(ids)
    assert {len(gains) for gains in found} == {4}


@pytest.mark.parametrize("stored", [False, True])
def test_fewer_groups_than_folds_give_as_many_gains_even_where_some_candidates_fail(stored):
    compiled, block = block_of(spec_of(scope={}), frame())
    ids, count = compiled.scope.ids()[:30], block.table.rows
    block = dataclasses.replace(block, groups=np.arange(count) % 3)
    broken = {int(i) for i in ids[1::2]}
    universe = _Tampered(compiled.universe, broken)
    known = Stored(compiled.bench, compiled.data, universe, []) if stored else Nothing()
    found, failures = Native(LightGBM(), Threads(1), known).gains(
        universe, ids, block, np.arange(count), block.fitted, 5, stage="halving", advance=lambda _: None
    )
    assert found.shape == (30, 3)
    assert not np.isnan(found[::2]).any() and np.isnan(found[1::2]).all()
    assert {f.candidate for f in failures} == broken


def test_little_data_is_trained_on_one_thread():
    assert threads_for(1000, 10, 8) == 1
    assert threads_for(1_000_000, 100, 8) == 8
    assert threads_for(1_000_000, 3, 8) == 3
    assert threads_for(0, 0, 0) == 1
