"""What must change nothing: test rows, the order and names of columns, jobs, row labels; and the caller."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scopefe.gates.association import association

import scopefe
from scopefe.data.kinds import encode
from scopefe.registry import components
from scopefe.run.executing import Run
from scopefe.space.expression import key_of

N = 400
TASKS = ["regression", "binary", "multiclass"]
GATES = {
    "pairs": {"gate": "hard-intra", "target_cluster_size": 2},
    "operators": {"gate": "probe", "keep": 12},
}
ROLES = {"by": "column", "column": "role"}


@cache
def _frame(task: str) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=N) * 3, rng.lognormal(size=N).astype(np.float32)
    o, k, c = rng.integers(1, 6, N), rng.choice(list("abcd"), N), rng.choice(list("uvw"), N)
    score = x / (1 + z) + o * (k == "a") + rng.normal(size=N) * 0.3
    y = {
        "regression": score,
        "binary": np.where(score > np.median(score), "yes", "no"),
        "multiclass": pd.qcut(score, 3, labels=["low", "mid", "high"]).astype(str),
    }[task]
    columns = {"x": x, "z": z, "o": o, "k": k, "c": pd.Categorical(c), "b": rng.random(N) > 0.5, "y": y}
    frame = pd.DataFrame(columns)
    frame.loc[::17, "x"], frame.loc[3::29, "k"] = np.nan, None
    frame["role"] = rng.permutation(["train"] * 240 + ["val"] * 80 + ["test"] * 80)
    return frame


def table(task: str = "regression") -> pd.DataFrame:
    return _frame(task).copy()


def spec_of(**changes: Any) -> scopefe.Spec:
    sections: dict[str, Any] = {
        "name": "small",
        "data": {"target": "y", "split": ROLES},
        "baseline": {"max_trees": 150, "early_stopping": 20},
        "selection": {"data_blocks": 1, "keep": 8},
        "evaluation": {"seeds": 1, "worth": False, "max_trees": 60, "learner": {"num_leaves": 8}},
        "execution": {"jobs": 1},
    }
    return scopefe.load_spec(sections | changes)


def run(frame: pd.DataFrame, **changes: Any) -> Run:
    return scopefe.execute(spec_of(**changes), data=frame, write=False)


@cache
def reference(task: str = "regression", gated: bool = False) -> Run:
    return run(_frame(task), **({"scope": GATES} if gated else {}))


def learned(found: Run) -> dict[str, Any]:
    """Return everything in a report but times, and what the test rows are measured for."""
    report = found.report.model_dump(mode="json")
    del report["volatile"], report["evaluation"], report["data"]["rows"]["test"]
    del report["data"]["test_fingerprint"]
    return report


def saved(found: Run, folder: Any) -> bytes:
    return found.recipe.save(folder / "recipe.json").read_bytes()


def gains(found: Run) -> dict[str, float]:
    return {s.key: s.gain for s in found.report.selection.ranking}


def pool_of(found: scopefe.Compiled) -> set[str]:
    return {key_of(e) for e in found.universe.expressions(found.scope.ids())}


def test_the_reference_has_something_to_lose():
    for task in TASKS:
        found = reference(task)
        assert found.report.data.task == task
        assert len(found.recipe.features) > 5
        assert max(gains(found).values()) > 0.001
    gated = reference(gated=True)
    assert 0 < gated.report.space.pool.raw < gated.report.space.universe.raw
    assert gated.report.space.clusters is not None and gated.report.probe is not None


# --- test rows ---------------------------------------------------------------------------------------------


def other_values(frame: pd.DataFrame) -> pd.DataFrame:
    """Give test rows values that no other row has, extreme ones and missing ones."""
    rows = frame["role"] == "test"
    n = int(rows.sum())
    frame["c"] = frame["c"].astype(object)
    frame.loc[rows, "x"] = np.resize([1e30, -np.inf, np.nan, 7e-5], n)
    frame.loc[rows, "z"] = np.resize(np.array([-1e9, np.nan], np.float32), n)
    frame.loc[rows, "o"] = np.arange(n) + 1000
    frame.loc[rows, "k"] = [f" new {i}" for i in range(n)]
    frame.loc[rows, "c"] = np.resize(["A", None, "ua"], n)
    frame.loc[rows, "b"] = ~frame.loc[rows, "b"]
    return frame


def other_targets(frame: pd.DataFrame) -> pd.DataFrame:
    rows = frame["role"] == "test"
    frame.loc[rows, "y"] = frame.loc[rows, "y"].iloc[0]
    return frame


CHANGES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "values": other_values,
    "targets": other_targets,
    "order": lambda f: pd.concat([f[f["role"] != "test"], f[f["role"] == "test"][::-1]]),
    "number": lambda f: f.drop(f.index[f["role"] == "test"][5:]),
    "none": lambda f: f[f["role"] != "test"],
}


@pytest.mark.parametrize(
    ("task", "change"),
    [*((task, "values") for task in TASKS), *(("regression", c) for c in CHANGES if c != "values")],
)
def test_test_rows_change_nothing_that_is_learned(task, change, tmp_path):
    before, after = reference(task), run(CHANGES[change](table(task)))
    first, second = learned(before), learned(after)
    for report in (first, second):
        del report["notes"]
        report["graph"] = [s for s in report["graph"] if s["name"] not in ("evaluation", "report")]
    assert second == first
    assert saved(after, tmp_path) == saved(before, tmp_path)
    assert gains(after) == gains(before)


def test_test_rows_change_no_gate(tmp_path):
    before, after = reference(gated=True), run(other_values(table()), scope=GATES)
    assert after.report.space == before.report.space
    assert after.report.probe == before.report.probe
    assert saved(after, tmp_path) == saved(before, tmp_path)


def test_the_test_would_see_a_change_of_a_training_row(tmp_path):
    frame = table()
    frame.loc[frame.index[frame["role"] == "train"][0], "x"] += 1
    before, after = reference(), run(frame)
    assert after.report.data.fingerprint != before.report.data.fingerprint
    assert gains(after) != gains(before)
    assert saved(after, tmp_path) != saved(before, tmp_path)


def test_selection_rows_play_no_part_in_pair_gates():
    frame = table()
    rows = frame["role"] == "val"
    frame.loc[rows, "x"] = frame.loc[rows, "z"].to_numpy()
    frame.loc[rows, "c"] = "u"
    for gate in ("hard-intra", "hard-inter"):
        spec = spec_of(scope={"pairs": {"gate": gate, "target_cluster_size": 2}})
        one, other = (scopefe.compile(spec, data=f) for f in (table(), frame))
        assert one.facts["clusters"] == other.facts["clusters"]
        assert np.array_equal(one.scope.ids(), other.scope.ids())


BY_TARGET = ["fast", "tree-path", "importance-product"]
EXPRESSIONS = {
    "pairs": ["all", "hard-intra", "hard-inter", {"gate": "random-pair", "budget": 30},
              *({"gate": name, "budget": 0.3} for name in BY_TARGET)],
    "operators": [
        {"gate": "features", "use": [["abs", "x"], ["+", "z", "x"]]},
        "all",
        {"gate": "probe", "keep": 9, "candidates": 4},
        {"gate": "list", "use": ["abs", "+", "Combine"]},
        {"gate": "random-operator", "budget": 30},
        {"gate": "random-joint", "budget": 30},
        {"gate": "quantised", "budget": 0.3},
    ],
}  # fmt: skip


def test_every_gate_is_among_those_tried():
    found = components()
    for place, registry in (("pairs", found.pair_gates), ("operators", found.operator_gates)):
        tried = {e if isinstance(e, str) else e["gate"] for e in EXPRESSIONS[place]}
        assert tried == set(registry.names())


@pytest.mark.parametrize(
    ("place", "expression"), [(place, e) for place, listed in EXPRESSIONS.items() for e in listed]
)
def test_a_gate_depends_on_the_values_of_development_rows_only(place, expression):
    """Not on test rows, jobs, labels of rows, or whatever else the process does."""
    spec = spec_of(scope={place: expression})
    expected = scopefe.compile(spec, data=table()).scope.ids()
    changed = other_values(table())
    changed.index = np.zeros(N)
    random.seed(5)
    other = spec_of(scope={place: expression}, execution={"jobs": 3})
    assert len(expected)
    assert np.array_equal(scopefe.compile(other, data=changed).scope.ids(), expected)


# --- the order of columns ----------------------------------------------------------------------------------

ORDERS = [["y", "b", "role", "o", "c", "z", "k", "x"], ["k", "x", "c", "o", "z", "role", "y", "b"]]


@pytest.mark.parametrize("order", ORDERS)
def test_the_order_of_columns_changes_no_association(order):
    names = [c for c in order if c not in ("y", "role")]
    plain = [c for c in table() if c not in ("y", "role")]
    one, other = (association(encode(table()[n], np.arange(N))) for n in (plain, names))
    where = [names.index(c) for c in plain]
    np.testing.assert_allclose(other[np.ix_(where, where)], one, rtol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_the_order_of_columns_changes_no_values(order):
    recipe = reference().recipe
    expected = recipe.transform(table())
    pd.testing.assert_frame_equal(recipe.transform(table()[order]), expected, check_exact=True)


@pytest.mark.parametrize("gate", ["all", "hard-intra", "hard-inter"])
def test_the_order_of_columns_changes_no_pool_in_both_directions(gate):
    spec = spec_of(operators={"directions": "both"}, scope={"pairs": gate})
    pools = [pool_of(scopefe.compile(spec, data=table()[order])) for order in (list(table()), *ORDERS)]
    assert pools[0] == pools[1] == pools[2]


def test_in_one_direction_the_pool_follows_the_order_of_columns():
    """As in the openfe package: the counts are the paper's, and `a - b` stands for `b - a`."""
    pools = [pool_of(scopefe.compile(spec_of(), data=table()[order])) for order in (list(table()), *ORDERS)]
    assert len(pools[0]) == len(pools[1])
    assert '["-","x","z"]' in pools[0] and '["-","z","x"]' in pools[1]
    assert {k for k in pools[0] ^ pools[1] if k[2] not in "-/"} == set()


@pytest.mark.parametrize("order", ORDERS)
def test_the_order_of_columns_changes_no_selection_in_both_directions(order):
    """But which of several candidates with one and the same gain stands for them: they are shuffled."""
    both = {"directions": "both"}
    one, other = run(table(), operators=both), run(table()[order], operators=both)
    assert other.report.baseline == one.report.baseline
    assert other.report.selection.rounds == one.report.selection.rounds
    assert sorted(gains(other).values()) == sorted(gains(one).values())
    shared = set(gains(one)) & set(gains(other))
    assert len(shared) > 3 and all(gains(one)[k] == gains(other)[k] for k in shared)
    assert [s.gain for s in other.report.selection.selected] == [
        s.gain for s in one.report.selection.selected
    ]


# --- the names of columns ----------------------------------------------------------------------------------

NEW_NAMES = {
    "x": 'a,b (c)-"d"', "z": "\N{SNAKE}", "o": "line\nbreak", "k": "x", "c": "capital-gain", "b": "f0",
    "y": "{target}", "role": " ",
}  # fmt: skip
NAMED = {"data": {"target": NEW_NAMES["y"], "split": {"by": "column", "column": NEW_NAMES["role"]}}}


@pytest.mark.parametrize("gated", [False, True])
def test_the_names_of_columns_change_nothing_but_names(gated):
    scope = {"scope": GATES} if gated else {}
    before, after = reference(gated=gated), run(table().rename(columns=NEW_NAMES), **NAMED, **scope)
    one, other = before.report, after.report
    assert other.space.operators == one.space.operators
    assert other.baseline == one.baseline and other.probe == one.probe
    assert other.selection.rounds == one.selection.rounds
    assert other.evaluation == one.evaluation
    assert len(other.selection.selected) == len(one.selection.selected)
    for a, b in zip(one.selection.ranking, other.selection.ranking, strict=True):
        assert (b.operator, b.gain, b.importance) == (a.operator, a.gain, a.importance)
        assert b.inputs == [NEW_NAMES[i] for i in a.inputs]
    if gated:
        renamed = [[NEW_NAMES[i] for i in cluster.features] for cluster in one.space.clusters]
        assert [cluster.features for cluster in other.space.clusters] == renamed
    values = before.recipe.transform(table())
    named = after.recipe.transform(table().rename(columns=NEW_NAMES))
    np.testing.assert_array_equal(named.to_numpy(), values.to_numpy())


# --- jobs --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "gated", "jobs"),
    [("regression", True, 2), ("regression", True, 4), ("binary", False, 2), ("multiclass", False, 2)],
)
def test_the_number_of_jobs_changes_no_byte(task, gated, jobs, tmp_path):
    before = reference(task, gated)
    after = run(table(task), execution={"jobs": jobs}, **({"scope": GATES} if gated else {}))
    reports = [r.report.model_dump_json(exclude={"volatile"}) for r in (before, after)]
    assert reports[1] == reports[0]
    assert saved(after, tmp_path) == saved(before, tmp_path)
    assert after.report.volatile.jobs == jobs


def test_a_second_run_is_the_first(tmp_path):
    again = run(table(), scope=GATES)
    before = reference(gated=True)
    reports = [r.report.model_dump_json(exclude={"volatile"}) for r in (before, again)]
    assert reports[1] == reports[0]
    assert saved(again, tmp_path) == saved(before, tmp_path)


# --- labels of rows ----------------------------------------------------------------------------------------

INDEXES = {
    "duplicates": np.arange(N) // 7,
    "texts": [f"row {i % 50}" for i in range(N)],
    "backwards": np.arange(N)[::-1],
    "levels": pd.MultiIndex.from_arrays([np.arange(N) % 2, np.arange(N)], names=["x", "y"]),
}


@pytest.mark.parametrize("kind", INDEXES)
def test_labels_of_rows_play_no_part(kind, tmp_path):
    frame = table().set_axis(pd.Index(INDEXES[kind]), axis="index")
    before, after = reference(gated=True), run(frame, scope=GATES)
    assert after.report.model_dump(exclude={"volatile"}) == before.report.model_dump(exclude={"volatile"})
    assert saved(after, tmp_path) == saved(before, tmp_path)


# --- the caller --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_nothing_of_the_caller_s_is_changed(task, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = table(task)
    frame.index = pd.Index(np.arange(N) % 9, name="own")
    frame.attrs["note"] = "mine"
    copy, axes = frame.copy(deep=True), (frame.index, frame.columns)
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    expected = random.getstate(), np.random.get_state(), dict(os.environ)  # noqa: NPY002
    filters, errors = list(warnings.filters), np.geterr()
    spec = spec_of(scope=GATES)
    before = spec.model_dump()
    compiled = scopefe.compile(spec, data=frame)
    assert compiled.pool_size
    found = scopefe.execute(spec, data=frame, write=False)
    found.recipe.transform(frame)

    pd.testing.assert_frame_equal(frame, copy, check_exact=True)
    assert (frame.index is axes[0], frame.columns is axes[1], frame.attrs) == (True, True, {"note": "mine"})
    assert random.getstate() == expected[0]
    state = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(state, expected[1], strict=True))
    assert dict(os.environ) == expected[2]
    assert list(warnings.filters) == filters
    assert np.geterr() == errors
    assert Path.cwd() == tmp_path and not list(tmp_path.iterdir())
    assert spec.model_dump() == before


def test_random_streams_of_the_process_play_no_part(tmp_path):
    random.seed(99)
    np.random.seed(99)  # noqa: NPY002
    assert saved(run(table(), scope=GATES), tmp_path) == saved(reference(gated=True), tmp_path)
