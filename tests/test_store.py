"""The store: what is kept on disk, how it is shared, resumed, and cleared."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import scopefe
from scopefe import Splits
from scopefe.cli.main import cli
from scopefe.registry import components
from scopefe.run import code, disk, store
from scopefe.run.code import code_key
from scopefe.run.disk import Disk, cache_folder
from scopefe.run.packing import pack, read, unpack, write
from scopefe.run.store import Store
from scopefe.run.vector import Vector
from scopefe.score.attribution import Attribution
from scopefe.score.baseline import BaselineScores
from scopefe.score.featureboost import Failure

ABOUT = {"what": "gains", "dataset": "t.csv", "fingerprint": "f00d"}
FAILED = Failure(1, "f", "halving", "ValueError: no")


def ignore(count):
    pass


def gain(i):
    """What is computed in these tests; every seventh fails."""
    return Failure(i, "f", "s", f"ValueError: {i}") if i % 7 == 0 else (i / 3, -i)


def gains(ids):
    """What is known of ids."""
    return np.array([(np.nan, np.nan) if i % 7 == 0 else (i / 3, -i) for i in ids]).reshape(-1, 2)


def part_of(ids, seconds=1.0):
    errors = {i: f"ValueError: {i}" for i in ids if i % 7 == 0}
    return Vector.of(np.array(ids, np.int64), gains(ids), seconds, errors)


def assert_right(vector, ids):
    assert vector.ids.tolist() == sorted(ids)
    if len(vector):
        np.testing.assert_array_equal(vector.values, gains(sorted(ids)))
    assert vector.errors == {i: f"ValueError: {i}" for i in ids if i % 7 == 0}


class Computing:
    """Computes gains and counts them."""

    def __init__(self, stop_after=None, kind=KeyboardInterrupt):
        self.computed, self.stop_after, self.kind = [], stop_after, kind

    def __call__(self, ids):
        for i in ids.tolist():
            if len(self.computed) == self.stop_after:
                raise self.kind
            self.computed.append(i)
            yield gain(i)


def ask(some_store, folder, ids, compute):
    place = Disk(folder) if folder else None
    return some_store.vector("key", np.array(ids, np.int64), compute, place, ABOUT, ignore, width=2)


# --- vectors -----------------------------------------------------------------------------------------------

ids_lists = st.lists(st.integers(0, 60), unique=True, max_size=12)


@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from(["add", "merge"]), ids_lists), max_size=12))
def test_any_interleaving_of_two_processes_gives_the_union(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("cache")
    processes, known = [Disk(folder), Disk(folder)], set()
    for process, action, ids in steps:
        if action == "add":
            assert processes[process].add("key", part_of(ids), ABOUT)
            known |= set(ids)
        else:
            processes[process].merge("key", ABOUT)
        for each in processes:
            assert_right(each.vector("key"), known)


@given(ids_lists, ids_lists)
def test_a_merge_that_another_one_overtakes_loses_nothing(tmp_path_factory, mine, others):
    """Both read the same files; the other one merges, removes them and adds more in between."""
    folder = tmp_path_factory.mktemp("cache")
    one, other = Disk(folder), Disk(folder)
    one.add("key", part_of(mine), ABOUT)
    one.add("key", part_of([61, 62]), ABOUT)
    add = one.add

    def overtaken(key, part, about):
        other.merge(key, about)
        other.add(key, part_of(others), about)
        return add(key, part, about)

    one.add = overtaken
    one.merge("key", ABOUT)
    assert_right(Disk(folder).vector("key"), {*mine, *others, 61, 62})


@given(ids_lists, ids_lists, st.booleans())
def test_only_what_is_missing_is_computed(tmp_path_factory, first, second, same_process):
    folder = tmp_path_factory.mktemp("cache")
    shared = Store()
    ask(shared, folder, first, Computing())
    compute = Computing()
    found = ask(shared if same_process else Store(), folder, second, compute)
    assert compute.computed == [i for i in second if i not in first]
    assert found.ids.tolist() == second
    if second:
        np.testing.assert_array_equal(found.values, gains(second))
    assert found.errors == {i: f"ValueError: {i}" for i in second if i % 7 == 0}


@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
def test_what_was_computed_before_an_interruption_is_kept(tmp_path, kind):
    with pytest.raises(kind):
        ask(Store(), tmp_path, range(30), Computing(11, kind))
    compute = Computing()
    ask(Store(), tmp_path, range(30), compute)
    assert compute.computed == list(range(11, 30))


def test_work_is_flushed_as_it_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "FLUSH_SECONDS", 0.0)

    def compute(ids):
        for i in ids.tolist():
            assert len(Disk(tmp_path).vector("key")) == i
            yield gain(i)

    ask(Store(), tmp_path, range(5), compute)
    assert len(list(tmp_path.rglob("*.npz"))) == 1


def test_reused_values_count_with_the_seconds_they_took(tmp_path):
    def slow(ids):
        time.sleep(0.05)
        yield from (gain(i) for i in ids.tolist())

    ask(Store(), tmp_path, range(10), slow)
    again = Store()
    ask(again, tmp_path, range(5), slow)
    assert again.reused_seconds >= 0.025
    half = again.reused_seconds
    ask(again, tmp_path, range(10), slow)
    assert again.reused_seconds == pytest.approx(3 * half, rel=1e-5)


def test_a_failure_for_want_of_memory_is_tried_again(tmp_path):
    def short(ids):
        yield from (Failure(i, "f", "s", "MemoryError: 1 GB") if i == 2 else (1.0, 2.0) for i in ids.tolist())

    one = Store()
    assert ask(one, tmp_path, range(4), short).errors == {2: "MemoryError: 1 GB"}
    for other in (one, Store()):
        compute = Computing()
        ask(other, tmp_path, range(4), compute)
        assert compute.computed == ([2] if other is one else [])


def test_ten_million_values_are_looked_up_fast():
    n = 10_000_000
    ids = np.arange(n)
    whole = Vector.of(ids, ids[:, None] / 3, 1.0, {})
    asked = np.random.default_rng(0).integers(0, n, 1000)
    np.testing.assert_array_equal(whole.at(asked).values[:, 0], asked / 3)
    assert not whole.has(np.array([n, -1])).any()
    assert sum(a.nbytes for a in (whole.ids, whole.values, whole.seconds)) <= 20 * n


# --- artefacts ---------------------------------------------------------------------------------------------

VALUES = {
    "plain": [None, True, 3, -1.5, float("inf"), "ä\ud800"],
    "nested": {"a": (1, (2.0, "b")), 3: [{}], (1, 2): []},
    "array": np.arange(6, dtype=np.float32).reshape(2, 3),
    "empty": np.empty((0, 2), dtype=np.int64),
    "baseline": BaselineScores(np.array([0.1, np.nan]), (3, 4)),
    "attribution": (Attribution(np.array([5, 3]), np.array([2.0, 0.0]), 7, (FAILED,)), ()),
    "splits": Splits(np.array([2, 0]), np.array([-1, 0]), np.array([1.5, 0.5])),
    "numbers": [np.float64(0.1), np.int64(3)],
}


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for k in a:
            same(a[k], b[k])
    elif isinstance(a, BaselineScores | Attribution | Splits):
        same(vars(a), vars(b))
    else:
        assert a == b


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back_as_they_were(name, tmp_path):
    Disk(tmp_path).keep("key", VALUES[name], 2.5, ABOUT)
    value, seconds = Disk(tmp_path).artefact("key")
    assert seconds == 2.5
    same(value, VALUES[name])


@pytest.mark.parametrize(
    "value",
    [{1, 2}, pd.DataFrame(), np.array([None]), Path(), [Failure(1, "f", "s", "MemoryError: ")], object],
    ids=lambda v: type(v).__name__,
)
def test_other_values_are_kept_in_memory_only(value, tmp_path):
    with pytest.raises(TypeError):
        pack(value)
    one, calls = Store(), []
    for _ in range(2):
        got = one.get("key", lambda: calls.append(1) or value, Disk(tmp_path), ABOUT)
        assert got is value
    assert calls == [1]
    assert not list(tmp_path.rglob("*.npz"))


def test_no_file_is_unpickled(tmp_path):
    path = tmp_path / "1" / "artefacts" / "key.npz"
    path.parent.mkdir(parents=True)
    np.savez(path, about=np.array([print], dtype=object), allow_pickle=True)
    assert Disk(tmp_path).artefact("key") is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=10,
)


@given(json_values)
def test_plain_values_survive_json(value):
    tree, arrays = pack(value)
    same(unpack(json.loads(json.dumps(tree)), arrays), value)


@given(cut=st.floats(0, 1, exclude_max=True), flip=st.one_of(st.none(), st.floats(0, 1, exclude_max=True)))
@settings(max_examples=60)
def test_a_file_that_is_not_whole_is_absent_and_removed(tmp_path_factory, cut, flip):
    folder = tmp_path_factory.mktemp("cache")
    value = np.arange(40.0)
    Disk(folder).keep("key", value, 1.0, ABOUT)
    Disk(folder).add("key", part_of(range(40)), ABOUT)
    for path in folder.rglob("*.npz"):
        content = bytearray(path.read_bytes())
        if flip is None:
            content = content[: int(cut * len(content))]
        else:
            content[int(flip * len(content))] ^= 0x10
        path.write_bytes(content)
    found, vector = Disk(folder).artefact("key"), Disk(folder).vector("key")
    # a changed byte may be one that zip does not read, such as a date: then the values must be right
    if flip is None or found is None:
        assert found is None
    else:
        np.testing.assert_array_equal(found[0], value)
    if len(vector):
        assert flip is not None
        assert_right(vector, range(40))
    compute = Computing()
    ask(Store(), folder, range(40), compute)
    assert compute.computed == ([] if len(vector) else list(range(40)))


# --- the folder --------------------------------------------------------------------------------------------


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.delenv("SCOPEFE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(disk.sys, "platform", "linux")
    assert cache_folder() == tmp_path / "scopefe"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "scopefe"
    monkeypatch.setenv("SCOPEFE_CACHE_DIR", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    assert cache_folder("~/other") == tmp_path / "other"
    monkeypatch.setenv("SCOPEFE_CACHE_DIR", "off")
    assert cache_folder() is cache_folder(False) is cache_folder("off") is None
    assert Store().disk("here") is not None


def test_a_folder_that_cannot_be_written_is_one_warning(tmp_path, caplog):
    (tmp_path / "cache").write_text("a file, not a folder")
    one = Store()
    place = one.disk(str(tmp_path / "cache"))
    with caplog.at_level(logging.WARNING, "scopefe"):
        for key in "abc":
            assert one.get(key, lambda: 1.5, place, ABOUT) == 1.5
            one.vector(key, np.arange(3), Computing(), place, ABOUT, ignore, width=2)
    assert len(caplog.records) == 1
    assert str(tmp_path / "cache") in caplog.text


@pytest.mark.parametrize("name", ["x" * 300, "denied"])
def test_a_folder_that_cannot_be_read_is_a_warning(name, tmp_path, caplog, monkeypatch):
    if name == "denied":
        Disk(tmp_path / name).keep("key", 2.5, 1.0, ABOUT)
        Disk(tmp_path / name).add("key", part_of(range(3)), ABOUT)

        def denied(path):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(disk, "read", denied)
    one = Store()
    place = one.disk(str(tmp_path / name))
    with caplog.at_level(logging.WARNING, "scopefe"):
        for _ in range(2):
            assert one.get("key", lambda: 1.5, place, ABOUT) == 1.5
            assert_right(
                one.vector("key", np.arange(3), Computing(), place, ABOUT, ignore, width=2), range(3)
            )
    assert caplog.text.count("cannot all be read") == 1


def test_a_file_under_another_key_is_absent_and_removed(tmp_path):
    place = Disk(tmp_path)
    place.keep("one", 1.5, 1.0, ABOUT)
    place.add("one", part_of(range(3)), ABOUT)
    (artefact,) = tmp_path.rglob("artefacts/one.npz")
    (vector,) = tmp_path.rglob("vectors/one")
    artefact.rename(artefact.with_name("other.npz"))
    vector.rename(vector.with_name("other"))
    assert place.artefact("other") is None
    assert not len(place.vector("other"))
    assert not list(tmp_path.rglob("*.npz"))


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch, caplog):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    place = Disk(tmp_path)
    place.keep("key", [1], 1.0, ABOUT)
    assert not place.add("key", part_of([1]), ABOUT)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]
    assert caplog.text.count("No space left on device") == 1


def test_a_merge_that_cannot_be_written_removes_nothing(tmp_path, monkeypatch):
    place = Disk(tmp_path)
    place.add("key", part_of([1]), ABOUT)
    place.add("key", part_of([2]), ABOUT)
    place._writable = False
    place.merge("key", ABOUT)
    assert_right(Disk(tmp_path).vector("key"), [1, 2])


def test_whole_files_only(tmp_path):
    write(tmp_path / "a.npz", {"x": 1}, {"v": np.arange(3)})
    about, arrays = read(tmp_path / "a.npz")
    assert (about, arrays["v"].tolist()) == ({"x": 1}, [0, 1, 2])
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


# --- keys --------------------------------------------------------------------------------------------------

MODULE = """
from scopefe import NUM, operator

FACTOR = {factor}

@operator("scaled", takes=(NUM,))
def scaled(a):
    return helper(a)

def helper(a):
    return a * FACTOR
"""


def test_keys_follow_the_whole_file_of_a_module(tmp_path, monkeypatch):
    def key(factor, age=0.0):
        path = tmp_path / "own.py"
        path.write_text(MODULE.format(factor=factor))
        written = code._STARTED - 100 - age
        os.utime(path, (written, written))
        return code_key(components([path]).operators)

    assert key(2) == key(2, age=50) != key(3)
    assert key(2) != code_key(components().operators) == code_key()
    monkeypatch.setattr(code, "_THIS_PROCESS", "another process")
    assert key(2) == key(2)


def test_code_that_may_not_be_what_runs_is_trusted_in_one_process_only(tmp_path, monkeypatch):
    path = tmp_path / "own.py"
    path.write_text(MODULE.format(factor=2))
    os.utime(path, (code._STARTED + 5, code._STARTED + 5))
    own = components([path]).operators
    here = code_key(own)
    assert code_key(own) == here
    monkeypatch.setattr(code, "_THIS_PROCESS", "another process")
    assert code_key(own) != here


def test_keys_follow_the_package_and_its_versions(monkeypatch):
    keys = [code_key()]
    for name, value in (("versions", dict), ("_code", lambda file: file.name)):
        code._package.cache_clear()
        with monkeypatch.context() as patch:
            patch.setattr(code, name, value)
            keys.append(code_key())
    code._package.cache_clear()
    assert len({*keys}) == 3
    assert code_key() == keys[0]
    named = {file.name for part in code.PARTS for file in code._files(part)}
    assert {"components.py", "numeric.py", "pair_gates.py", "featureboost.py", "workbench.py"} <= named
    assert {"fitting.py", "registry.py", "build.py"} <= named


# --- runs --------------------------------------------------------------------------------------------------


def table(seed=0, rows=300):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({n: rng.normal(size=rows) for n in "abc"} | {"k": rng.integers(0, 5, rows)})
    frame["y"] = frame["a"] * frame["b"] + 0.1 * rng.normal(size=rows)
    return frame


def spec_of(name="small", **changes):
    sections = {
        "name": name,
        "data": {"target": "y"},
        "baseline": {"max_trees": 30, "early_stopping": 5},
        "scope": {"pairs": {"gate": "hard-intra", "target_cluster_size": 2},
                  "operators": {"gate": "probe", "keep": 10, "ratio": 1.0}},
        "selection": {"data_blocks": 2, "min_candidates": 20},
        "evaluation": {"seeds": 2, "max_trees": 20},
        "execution": {"jobs": 1},
    }  # fmt: skip
    return scopefe.load_spec(sections | changes)


def run(spec, frame=None, **options):
    return scopefe.execute(spec, data=table() if frame is None else frame, write=False, **options).report


def facts(report):
    return report.model_dump_json(exclude={"volatile"})


def reused(report):
    return {t.step: t.reused for t in report.volatile.times}


def kinds_kept(folder):
    return {e.what for e in Disk(folder).entries()}


def test_a_second_process_computes_nothing(cache_dir, monkeypatch):
    first = run(spec_of())
    assert kinds_kept(cache_dir) == {
        "association", "attribution", "baseline", "evaluation", "gains", "probe",
    }  # fmt: skip
    assert max(reused(first).values()) == 0

    def never(*args, **kwargs):
        raise AssertionError("computed again")

    monkeypatch.setattr("lightgbm.Booster.update", never)
    monkeypatch.setattr("scopefe.score.featureboost.compute", never)
    second = run(spec_of())
    assert facts(second) == facts(first)
    for step in ("operators", "baseline", "halving", "attribution", "evaluation"):
        assert 0.2 < reused(second)[step] <= 1, step
    times = second.volatile.times
    assert second.volatile.run_stored_seconds == sum(t.stored_seconds for t in times if t.in_run)
    assert second.volatile.run_stored_seconds < second.volatile.run_seconds


def test_without_a_cache_nothing_is_written_or_reused(cache_dir):
    for cache in (False, "off"):
        assert not max(reused(run(spec_of(execution={"cache": cache, "jobs": 1}))).values())
    assert not cache_dir.exists()


def test_a_cache_of_ones_own(tmp_path):
    own = {"cache": str(tmp_path / "own"), "jobs": 1}
    run(spec_of(execution=own))
    assert kinds_kept(tmp_path / "own")
    assert run(spec_of(execution=own)).volatile.run_stored_seconds > 0


def test_variants_share_gains_across_processes(cache_dir):
    whole = {"pairs": "all", "operators": "all"}
    blocks = {"data_blocks": 1}
    run(spec_of(scope=whole, selection=blocks))
    gated = run(spec_of("gated", selection=blocks))
    assert facts(gated) == facts(
        run(spec_of("gated", selection=blocks, execution={"cache": False, "jobs": 1}))
    )
    assert reused(gated)["halving"] > 0.2
    assert reused(gated)["baseline"] > 0.2
    vectors = [e.values for e in Disk(cache_dir).entries() if e.what == "gains"]
    assert max(vectors) == scopefe.compile(spec_of(scope=whole), data=table()).pool_size


CHANGES = {
    "nothing": ({}, {"baseline", "gains", "attribution"}),
    "seed": ({"seed": 2}, set()),
    "metric": ({"data": {"target": "y", "task": "binary"}, "selection": {"metric": "auc"}}, set()),
    "baseline": ({"baseline": {"max_trees": 31, "early_stopping": 5}}, set()),
    "directions": ({"operators": {"directions": "both"}}, {"baseline"}),
    "attribution": ({"selection": {"data_blocks": 2, "min_candidates": 20, "attribution": "permutation"}},
                    {"baseline", "gains"}),
    "keep": ({"selection": {"data_blocks": 2, "min_candidates": 20, "keep": 3}},
             {"baseline", "gains", "attribution"}),
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_change_of_the_spec_leaves_in_use(name, cache_dir):
    changes, kept = CHANGES[name]
    frame = table()
    if name == "metric":
        frame["y"] = frame["y"] > 0
        run(spec_of(data={"target": "y", "task": "binary"}), frame)
    else:
        run(spec_of(), frame)
    before = {e.key for e in Disk(cache_dir).entries()}
    warm = run(spec_of(**changes), frame)
    new = {e.what for e in Disk(cache_dir).entries() if e.key not in before}
    assert {"baseline", "gains", "attribution"} - new == kept
    cold = run(spec_of(**changes, execution={"cache": False, "jobs": 1}), frame)
    assert facts(warm) == facts(cold)


def test_other_data_shares_nothing(cache_dir):
    run(spec_of())
    assert max(reused(run(spec_of(), table(seed=1))).values()) == 0


FAILING = """
import numpy as np
from scopefe import NUM, operator

@operator("fussy", takes=(NUM, NUM))
def fussy(a, b):
    raise ValueError("not these")
"""


def test_failures_come_back_from_the_store(cache_dir, tmp_path):
    path = tmp_path / "fussy.py"
    path.write_text(FAILING)
    os.utime(path, (1e9, 1e9))
    use = {"use": ["default", "fussy"], "modules": [str(path)]}
    first, second = (run(spec_of(operators=use)) for _ in range(2))
    assert {f.stage for f in first.selection.failures} == {"probe"}
    assert facts(first) == facts(second)
    wide = {"pairs": "all", "operators": "all"}
    first, second = (run(spec_of(operators=use, scope=wide)) for _ in range(2))
    assert {f.stage for f in first.selection.failures} == {"halving"}
    assert "ValueError: not these" in first.selection.failures[0].error
    assert facts(first) == facts(second)
    assert reused(second)["halving"] > 0.2


def test_specs_of_one_process_share_in_memory_too():
    shared = Store()
    first, second = (run(spec_of(), frame, store=shared) for frame in [table()] for _ in range(2))
    assert facts(first) == facts(second)
    assert second.volatile.run_stored_seconds > 0.5 * first.volatile.run_seconds


# --- several processes -------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A folder with a spec and its table, and the environment of processes that run in it."""
    table(rows=500).to_csv(tmp_path / "table.csv", index=False)
    (tmp_path / "spec.yaml").write_text(
        "name: small\n"
        "data: {source: table.csv, target: y}\n"
        "baseline: {max_trees: 200}\n"
        "selection: {data_blocks: 2, min_candidates: 20}\n"
        "scope: {operators: {gate: probe, keep: 12}}\n"
        "evaluation: {seeds: 3, max_trees: 200}\n"
        "execution: {jobs: 1, cache: cache}\n"
    )
    return tmp_path


EXECUTE = (
    "from scopefe.run import store; store.FLUSH_SECONDS = 0.05; from scopefe.cli.main import main; main()"
)


def start(folder, *options):
    return subprocess.Popen(
        [sys.executable, "-c", EXECUTE, "execute", "spec.yaml", "--no-html", "-q", *options],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(process):
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return said


def reports(folder):
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("runs/*/report.json"))]
    return [{k: v for k, v in report.items() if k != "volatile"} for report in found], found


def test_two_processes_at_once_give_the_same_report(folder):
    both = [start(folder) for _ in range(2)]
    assert [ended(p) for p in both] == ["", ""]
    ended(start(folder, "--set", "execution.cache=other"))
    facts, _ = reports(folder)
    assert len(facts) == 3
    assert facts[0] == facts[1] == facts[2]
    kept = {e.key: e.values for e in Disk(folder / "cache").entries()}
    assert kept == {e.key: e.values for e in Disk(folder / "other").entries()}


@pytest.mark.slow
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_is_not(folder):
    started = time.perf_counter()
    ended(start(folder, "--no-cache"))
    whole = time.perf_counter() - started
    rng = random.Random(0)
    for _ in range(10):
        process = start(folder)
        try:
            process.wait(rng.uniform(0.3, 0.95) * whole)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
    assert Disk(folder / "cache").entries()
    ended(start(folder))
    facts, whole_reports = reports(folder)
    assert all(other == facts[0] for other in facts)
    assert whole_reports[-1]["volatile"]["run_stored_seconds"] > 0


# --- the command -------------------------------------------------------------------------------------------


def command(*arguments, answer=None):
    result = CliRunner().invoke(cli, ["cache", *arguments], input=answer)
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture
def filled(cache_dir):
    place = Disk(cache_dir)
    place.keep("aaa1", [1], 2.0, {**ABOUT, "what": "baseline"})
    place.keep("aab2", [1], 3.0, {**ABOUT, "what": "baseline", "fingerprint": "beef"})
    place.add("ccc3", part_of([1, 2, 3], 6.0), ABOUT)
    old = time.time() - 40 * 86400
    for path in cache_dir.rglob("aab2*"):
        os.utime(path, (old, old))
    return cache_dir


def test_ls_and_du(filled):
    code, out, _ = command("ls", "--json")
    listed = {e["key"]: e for e in json.loads(out)}
    assert code == 0
    assert set(listed) == {"aaa1", "aab2", "ccc3"}
    assert (listed["ccc3"]["values"], listed["ccc3"]["seconds"]) == (3, 6.0)
    assert (listed["aaa1"]["what"], listed["aaa1"]["dataset"]) == ("baseline", "t.csv")
    last = command("ls")[1].splitlines()[-1].split()
    assert (last[:4], last[-4:]) == (["aab2", "baseline", "t.csv", "beef"], ["6", "w", "3.0", "s"])
    sums = {t["what"]: (t["entries"], t["seconds"]) for t in json.loads(command("du", "--json")[1])["totals"]}
    assert sums == {"baseline": (2, 5.0), "gains": (1, 6.0), "all": (3, 11.0)}
    assert command("du")[1].splitlines()[-1].split()[:2] == ["all", "3"]


@pytest.mark.parametrize(
    ("arguments", "gone"),
    [
        (["aa"], {"aaa1", "aab2"}),
        (["aaa", "c"], {"aaa1", "ccc3"}),
        (["--dataset", "be"], {"aab2"}),
        (["--older-than", "30d"], {"aab2"}),
        (["--older-than", "50d"], set()),
        (["aaa", "--dataset", "be"], set()),
        (["--all", "--yes"], {"aaa1", "aab2", "ccc3"}),
    ],
)
def test_rm_removes_what_fits_all_that_is_given(filled, arguments, gone):
    code, out, _ = command("rm", *arguments, "--json")
    assert code == 0
    assert set(json.loads(out)["removed"]) == gone
    assert {e.key for e in Disk(filled).entries()} == {"aaa1", "aab2", "ccc3"} - gone


def test_rm_asks_before_it_removes_all(filled):
    assert command("rm", "--all", answer="n\n")[0] == 1
    assert len(Disk(filled).entries()) == 3
    assert command("rm", "--all", answer="y\n")[0] == 0
    assert not Disk(filled).entries()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["rm"], "say what to remove"),
        (["rm", "--all", "aa"], "say what to remove"),
        (["rm", "--older-than", "soon"], "'soon' is no age"),
    ],
)
def test_rm_has_to_be_told_what(filled, arguments, told):
    code, _, said = command(*arguments)
    assert (code, told in said) == (2, True)
    assert len(Disk(filled).entries()) == 3


def test_rm_sweeps_what_killed_processes_left(filled):
    left = filled / "1" / "artefacts" / ".abandoned"
    new = filled / "1" / "vectors" / "ccc3" / ".in-work"
    for path in (left, new):
        path.write_bytes(b"half")
    os.utime(left, (1e9, 1e9))
    command("rm", "--older-than", "50d")
    assert new.exists() and not left.exists()


def test_no_default_cache_is_said(monkeypatch, tmp_path):
    assert command("ls")[0] == 2
    assert command("ls", "--folder", str(tmp_path), "--json")[:2] == (0, "[]\n")


def test_no_cache_on_the_command_line(folder, monkeypatch):
    monkeypatch.chdir(folder)
    quick = ["--set", "evaluation.seeds=0", "--set", "operators.use=[/, freq]"]

    def said(*options):
        result = CliRunner().invoke(cli, [*options, "spec.yaml", *quick])
        assert result.exit_code == 0, result.output
        return result.stderr

    said("compile", "--no-cache")
    assert "from the store" not in said("execute", "--no-html", "--no-cache")
    assert not (folder / "cache").exists()
    said("compile")
    assert kinds_kept(folder / "cache") == {"baseline", "gains", "probe"}
    said("execute", "--no-html")
    assert "s from the store" in said("execute", "--no-html")
