"""Whole runs: every shipped variant, the report, the artefacts, determinism."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import needs_data

import scopefe
from scopefe import DataError
from scopefe.report.model import Report
from scopefe.run.executing import execute, summary, to_json
from scopefe.run.store import Store

VARIANTS = [
    "base",
    "openfe",
    "fc-only",
    "op-only",
    "scope-fe",
    "hard-inter",
    "random-pair",
    "random-operator",
    "random-joint",
    "quickstart",
]


@pytest.fixture(scope="module")
def store():
    return Store()


def run(name, tmp_path, *overrides, store=None, fragments=(), write=True):
    overrides = [f"execution.runs={tmp_path}/runs", "evaluation.seeds=1", *overrides]
    return execute(
        scopefe.load_spec(name, overrides=overrides, fragments=fragments), store=store, write=write
    )


@pytest.mark.parametrize("name", VARIANTS)
def test_every_shipped_variant_runs_on_the_bundled_table(name, tmp_path, store):
    done = run(name, tmp_path, store=store)
    report = Report.model_validate_json((done.folder / "report.json").read_text())
    assert report == done.report
    assert report.space.universe.raw == 266
    assert report.evaluation.base.mean > 0
    selected = report.selection.selected
    if name == "base":
        assert not selected
        assert report.space.pool.raw == 0
        assert report.evaluation.with_features is None
        assert any("empty" in note for note in report.notes)
    else:
        choice = report.selection.choice
        assert len(selected) == (min(10, report.selection.survivors) if choice is None else choice.kept) > 0
        assert report.evaluation.with_features.mean > 0
        assert report.selection.rounds[0].candidates == report.space.pool.raw
    assert [f.name for f in done.recipe.features] == [s.name for s in selected]
    assert (done.folder / "report.html").stat().st_size > 10_000
    assert not list((tmp_path / "runs").glob(".*"))
    reloaded = scopefe.Recipe.load(done.folder / "recipe.json")
    assert reloaded.formulas == [s.formula for s in selected]


def test_compile_and_execute_count_the_same_pool(tmp_path, store):
    spec = scopefe.load_spec("scope-fe")
    assert scopefe.compile(spec, store=store).space == run("scope-fe", tmp_path, store=store).report.space


def test_variants_share_what_they_have_in_common(tmp_path):
    store = Store()
    first = run("openfe", tmp_path, store=store, write=False)
    second = run("scope-fe", tmp_path, store=store, write=False)
    times = {t.step: t for t in second.report.volatile.times}
    assert times["baseline"].reused
    assert not {t.step: t for t in first.report.volatile.times}["baseline"].reused
    run_seconds = sum(t.seconds for t in second.report.volatile.times if t.in_run)
    assert second.report.volatile.run_seconds == pytest.approx(run_seconds)
    assert times["baseline"].seconds > 0.05
    graph = {s.name: s for s in second.report.graph}
    assert graph["baseline"].key == {s.name: s for s in first.report.graph}["baseline"].key
    assert graph["pool"].key != {s.name: s for s in first.report.graph}["pool"].key


def test_the_graph_lists_inputs_before_the_steps_that_read_them(tmp_path, store):
    graph = run("scope-fe", tmp_path, store=store, write=False).report.graph
    seen: set[str] = set()
    for step in graph:
        assert set(step.inputs) <= seen
        seen.add(step.name)
    expected = {
        "source", "kinds", "universe", "association", "pairs", "probe", "operators", "pool", "baseline",
        "halving", "attribution", "selection", "recipe", "evaluation", "report",
    }  # fmt: skip
    assert seen == expected


def test_a_pool_file_is_run_exactly(tmp_path, store):
    compiled = scopefe.compile(scopefe.load_spec("scope-fe"), store=store)
    whole = tmp_path / "pool.parquet"
    compiled.write_pool(whole)
    part = pd.read_parquet(whole).sample(40, random_state=0)
    chosen = tmp_path / "part.parquet"
    part.to_parquet(chosen)
    spec = scopefe.load_spec("openfe", overrides=["evaluation.seeds=0"])
    report = execute(spec, pool=chosen, store=store, write=False).report
    assert report.space.pool.raw == 40
    assert {s.key for s in report.selection.selected} <= set(part["key"])


def test_the_openfe_engine_selects_what_the_native_one_does(tmp_path, store):
    extra = ["evaluation.seeds=0", "scope.pairs={gate: hard-intra, target_cluster_size: 3}"]
    native = run("scope-fe", tmp_path, *extra, store=store, write=False).report
    package = run("scope-fe", tmp_path, *extra, "selection.engine=openfe", store=store, write=False).report
    assert package.selection.engine == "openfe"
    assert [s.formula for s in package.selection.selected] == [s.formula for s in native.selection.selected]
    for theirs, ours in zip(package.selection.rounds, native.selection.rounds, strict=True):
        assert theirs.model_dump(exclude={"gains"}) == pytest.approx(
            ours.model_dump(exclude={"gains"}), abs=1e-9
        )
        assert sum(theirs.gains.counts) == sum(ours.gains.counts)
    assert [t.step for t in package.volatile.times if t.step == "openfe" and t.in_run]


def test_summary_is_what_execute_prints_as_json(tmp_path, store):
    done = run("scope-fe", tmp_path, store=store)
    printed = json.loads(json.dumps(summary(done)))
    assert list(printed) == [
        "name", "run_dir", "report", "recipe", "run_seconds", "run_stored_seconds", "never_tried",
        "selected", "features",
        "metric", "difference",
    ]  # fmt: skip
    assert list(printed["features"].values()) == printed["selected"]
    assert list(printed["features"]) == [f.name for f in done.recipe.features]
    assert set(printed["metric"]) == {"name", "base", "with_features"}
    assert set(printed["metric"]["base"]) == {"mean", "std"}


def test_a_frame_instead_of_a_source_is_not_changed(store):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=400), "b": rng.integers(0, 5, 400), "c": ["x", "y"] * 200})
    frame["y"] = frame["a"] * frame["b"] > 0.2
    before = frame.copy(deep=True)
    spec = scopefe.load_spec(
        {
            "name": "frame",
            "data": {"target": "y"},
            "evaluation": {"seeds": 1},
            "selection": {"data_blocks": 1},
        }
    )
    report = execute(spec, data=frame, write=False).report
    pd.testing.assert_frame_equal(frame, before)
    assert report.data.task == "binary"
    assert report.data.source == "frame"
    assert report.data.classes == ["False", "True"]


def test_multiclass_and_auc_and_permutation_run(store):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({name: rng.normal(size=600) for name in "abcd"})
    frame["y"] = np.digitize(frame["a"] * frame["b"], [-0.3, 0.3])
    settings = {"data": {"target": "y"}, "evaluation": {"seeds": 1}}
    spec = scopefe.load_spec(
        {"name": "m", **settings, "selection": {"data_blocks": 1, "attribution": "permutation"}}
    )
    report = execute(spec, data=frame, write=False).report
    assert report.data.task == "multiclass"
    assert "(a*b)" in [s.formula for s in report.selection.selected]
    assert report.evaluation.metric == "accuracy"
    assert report.evaluation.with_features.mean > report.evaluation.base.mean

    binary = frame.assign(y=frame["y"] == 1)
    spec = scopefe.load_spec({"name": "b", **settings, "selection": {"data_blocks": 1, "metric": "auc"}})
    report = execute(spec, data=binary, write=False).report
    assert report.baseline.metric == "auc"
    assert 0.5 < report.baseline.initial < 1
    assert report.selection.selected[0].gain > 0


@pytest.mark.parametrize("task", ["regression", "binary", "multiclass"])
def test_without_boosting_noise_gains_nothing(task):
    """The starting scores are the mean or the log-odds, so a column of noise cannot look useful."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"noise": rng.normal(size=3000), "other": rng.normal(size=3000)})
    classes = {"regression": None, "binary": 2, "multiclass": 4}[task]
    frame["y"] = rng.normal(size=3000) if classes is None else rng.integers(0, classes, 3000) ** 2
    spec = scopefe.load_spec(
        {
            "name": "noise",
            "data": {"target": "y", "task": task},
            "baseline": {"boosting": False},
            "selection": {"data_blocks": 1},
            "evaluation": {"seeds": 0},
        }
    )
    report = execute(spec, data=frame, write=False).report
    assert report.selection.rounds[0].best_gain < 0.005


def without_volatile(report: Report) -> str:
    content = json.loads(to_json(report))
    del content["volatile"]
    return json.dumps(content)


@pytest.mark.parametrize(
    "dataset",
    [
        pytest.param(name, marks=[needs_data(name), pytest.mark.slow])
        for name in ("california_housing", "nomao")
    ],
)
def test_the_number_of_jobs_changes_no_byte_of_the_report(dataset, data_folder, tmp_path):
    reports = [
        run(
            "scope-fe",
            tmp_path,
            "evaluation.seeds=2",
            f"execution.jobs={jobs}",
            fragments=[f"data/{dataset}"],
            write=False,
        ).report
        for jobs in (1, 2)
    ]
    assert without_volatile(reports[0]) == without_volatile(reports[1])
    assert reports[0].volatile.jobs != reports[1].volatile.jobs


@pytest.mark.slow
@pytest.mark.parametrize(
    "dataset", [pytest.param("california_housing", marks=needs_data("california_housing"))]
)
def test_the_base_score_of_the_benchmark_is_reproduced(dataset, data_folder, tmp_path):
    report = run(
        "base",
        tmp_path,
        "evaluation.seeds=10",
        "evaluation.protocol=benchmark",
        fragments=[f"data/{dataset}"],
        write=False,
    ).report
    base = report.evaluation.base
    assert (round(base.mean, 4), round(base.std, 4)) == (0.4323, 0.0035)


def test_what_python_shows_is_one_line(store):
    done = run("quickstart", None, "selection.keep=3", store=store, write=False)
    compiled = scopefe.compile(scopefe.load_spec("quickstart"), store=store)
    assert repr(done) == "<Run 'quickstart': 3 of 265 candidates, of 266 in all>"
    assert repr(done.recipe).startswith("<Recipe 'quickstart': 3 features of ")
    assert repr(done.recipe.features[0]) == f"<FittedFeature {done.recipe.features[0].name!r}>"
    assert repr(compiled) == "<Compiled 'quickstart': 265 of 266 candidates>"


def test_a_folder_of_a_run_at_the_same_time_is_left_alone(tmp_path, store, monkeypatch):
    taken = []
    rename = Path.rename

    def another_first(self, target):
        if not taken:
            taken.append(Path(target))
            (taken[0] / "mine").mkdir(parents=True)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", another_first)
    done = run("quickstart", tmp_path, "selection.keep=3", store=store)
    assert done.folder.name == f"{taken[0].name}-2"
    assert json.loads((done.folder / "report.json").read_text())["volatile"]["folder"] == str(done.folder)
    assert [path.name for path in taken[0].iterdir()] == ["mine"]
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_what_a_variable_holds_is_in_no_report_or_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOKEN", "s3cr3t-T0KEN")
    rng = np.random.default_rng(0)
    pd.DataFrame(rng.normal(size=(240, 3)), columns=list("abt")).to_csv(tmp_path / "table.csv", index=False)
    query = "SELECT * FROM read_csv('table.csv') WHERE '${TOKEN}' <> ''"
    document = {
        "name": "x",
        "data": {"source": {"type": "sql", "query": query}, "target": "t"},
        "operators": {"use": ["/"]},
        "selection": {"data_blocks": 1, "keep": 3},
        "evaluation": {"seeds": 0},
    }
    run = scopefe.execute(scopefe.load_spec(document))
    files = [path.read_bytes() for path in run.folder.iterdir()]
    assert files
    assert not any(b"s3cr3t" in content for content in files)
    assert run.report.spec["data"]["source"]["query"] == query
    for wrong in ("SELECT * FROM '${TOKEN}.csv'", "SELECT ${TOKEN}"):
        document["data"]["source"]["query"] = wrong
        with pytest.raises(DataError, match=r"\$\{TOKEN\}") as error:
            scopefe.execute(scopefe.load_spec(document), write=False)
        assert "s3cr3t" not in str(error.value)
    document["data"]["source"] = "${TOKEN}/table.csv"
    with pytest.raises(DataError, match=r"there is no file '\$\{TOKEN\}/table\.csv'"):
        scopefe.execute(scopefe.load_spec(document), write=False)


def test_another_value_of_a_variable_is_another_table(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    for name in ("one", "two"):
        pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "t"]).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    document = {"name": "x", "data": {"source": str(tmp_path / "${TABLE}.csv"), "target": "t"}}
    store, prints = Store(), []
    for name in ("one", "two"):
        monkeypatch.setenv("TABLE", name)
        spec = scopefe.load_spec(document, overrides=["operators.use=[abs]", "evaluation.seeds=0"])
        prints.append(scopefe.execute(spec, store=store, write=False).report.data.fingerprint)
    assert prints[0] != prints[1]
