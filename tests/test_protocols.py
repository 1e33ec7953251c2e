"""What gates and search see of the rows under each protocol, and parts of the rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import scopefe
from scopefe.run.compiling import compile

SPLIT = "data.split={train: 0.5, selection: 0.25, test: 0.25}"


def frame(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(size=(3, rows))
    return pd.DataFrame({"a": a, "b": b, "c": c, "y": a * b + 0.1 * rng.normal(size=rows)})


def spec_of(*overrides, **sections):
    probe = {"gate": "probe", "keep": 2, "candidates": 3, "ratio": 0.5}
    document = {"name": "p", "data": {"target": "y"}, "scope": {"operators": probe}, **sections}
    return scopefe.load_spec(
        document,
        overrides=[SPLIT, "baseline.max_trees=20", "evaluation={seeds: 1, worth: false}", *overrides],
    )


def run(protocol, data):
    return scopefe.execute(spec_of(f"selection.protocol={protocol}"), data=data, write=False).report


def roles(data):
    return compile(spec_of(), data=data).data.rows


def changed(data, positions):
    """Return the data with other targets in some rows."""
    other = data.copy()
    other.loc[positions, "y"] = other["y"].to_numpy()[positions][::-1]
    return other


def found(report):
    shown = {"claim": True, "selected": {"__all__": {"shape"}}}  # what is said of the choice, no part of it
    selection = report.selection.model_dump(exclude=shown)
    return selection, report.probe


@pytest.mark.parametrize("protocol", ["cross-fitted", "train-only", "nested"])
def test_no_protocol_sees_the_test_rows(protocol):
    data = frame()
    assert found(run(protocol, data)) == found(run(protocol, changed(data, roles(data).test)))


def test_targets_of_selection_rows_are_for_whom_the_protocol_says():
    data = frame()
    other = changed(data, roles(data).selection)
    selections, probes = {}, {}
    for protocol in ("cross-fitted", "train-only", "nested"):
        (a, first), (b, second) = (found(run(protocol, d)) for d in (data, other))
        selections[protocol], probes[protocol] = a == b, first == second
    assert selections == {"cross-fitted": False, "train-only": False, "nested": True}
    assert probes == {"cross-fitted": False, "train-only": True, "nested": True}


def test_a_nested_search_divides_the_training_rows():
    data = frame()
    compiled = compile(spec_of("selection.protocol=nested"), data=data)
    outer, inner = compiled.data.rows, compiled.searched.rows
    assert sorted(inner.development) == sorted(outer.train)
    assert inner.counts() == {"train": 133, "selection": 67, "test": 100}
    report = run("nested", data)
    assert report.selection.rounds[-1].train_rows == 133
    assert report.data.rows["train"] == 200
    assert report.selection.protocol == "nested"
    assert "training rows alone" in report.selection.claim


def test_classes_stay_in_proportion_when_training_rows_are_divided():
    data = frame()
    data["y"] = np.where(np.arange(len(data)) % 10 == 0, "rare", "often")
    compiled = compile(spec_of("selection.protocol=nested"), data=data)
    classes = compiled.data.labels.values
    assert classes[compiled.searched.rows.selection].mean() == pytest.approx(0.1, abs=0.01)


def test_the_pair_gate_sees_the_same_rows_under_every_protocol():
    data = frame()
    labels = [
        compile(
            spec_of(
                f"selection.protocol={protocol}", "scope.pairs={gate: hard-intra, target_cluster_size: 2}"
            ),
            data=data,
        ).facts["clusters"]
        for protocol in ("cross-fitted", "train-only", "nested")
    ]
    assert labels[0] == labels[1] == labels[2]


# --- a part of the rows


def test_a_sample_takes_its_share_of_every_role_in_their_order():
    data = frame()
    whole = compile(spec_of(), data=data).data.rows
    part = compile(spec_of("data.sample={fraction: 0.1, seed: 3}"), data=data).data.rows
    assert part.counts() == {"train": 20, "selection": 10, "test": 10}
    for role in ("train", "selection", "test"):
        drawn = getattr(part, role)
        places = [list(getattr(whole, role)).index(i) for i in drawn]
        assert places == sorted(places)
    other = compile(spec_of("data.sample={fraction: 0.1, seed: 4}"), data=data).data.rows
    assert set(part.train) != set(other.train)


def test_a_sample_of_everything_is_everything():
    data = frame()
    whole, all_of_it = (compile(spec_of(*o), data=data).data for o in ([], ["data.sample={fraction: 1}"]))
    assert whole.fingerprint == all_of_it.fingerprint


def test_kinds_are_told_by_all_rows():
    data = frame()
    data["c"] = np.arange(len(data)) % 150
    compiled = compile(spec_of("data.sample={fraction: 0.1}"), data=data)
    assert compiled.data.table.kinds == ["numerical", "numerical", "numerical"]


def test_classes_stay_in_proportion_in_a_sample():
    data = frame()
    data["y"] = np.where(np.arange(len(data)) % 10 == 0, "rare", "often")
    found = compile(spec_of("data.sample={fraction: 0.25}"), data=data).data
    assert found.labels.values[found.rows.train].mean() == pytest.approx(0.1, abs=0.01)


def test_the_report_says_how_many_rows_are_left_out():
    report = scopefe.execute(spec_of("data.sample={fraction: 0.5}"), data=frame(), write=False).report
    assert [note for note in report.notes if "Left out" in note] == [
        "Left out: 200 rows not drawn into the sample."
    ]
    data = frame()
    data.loc[:9, "y"] = np.nan
    spec = spec_of("data.target.missing=drop")
    report = scopefe.execute(spec, data=data, write=False).report
    assert [note for note in report.notes if "Left out" in note] == ["Left out: 10 rows without a target."]


@pytest.mark.parametrize("fraction", ["0", "1.5", "many"])
def test_a_fraction_is_checked(fraction):
    with pytest.raises(scopefe.SpecError, match=r"data\.sample\.fraction"):
        spec_of(f"data.sample={{fraction: {fraction}}}")
