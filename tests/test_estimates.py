"""What a run is said to cost, and what keeps it within a budget."""

from __future__ import annotations

import json
import logging
import math
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import scopefe
from scopefe import registry
from scopefe.cli.main import cli
from scopefe.report.model import Report
from scopefe.run import budgets, estimating
from scopefe.run.budgets import Stop, Watch, resident_bytes
from scopefe.run.estimating import GATES
from scopefe.run.executing import execute, to_json
from scopefe.score.halving import halve, rounds_at_most
from scopefe.sizes import read_size, size_text
from scopefe.spec.models import Budget

STEPS = ["gates", "baseline", "halving", "attribution"]
SEVERAL_ROUNDS = ["selection.data_blocks=4", "selection.min_candidates=8"]


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, 400))
    group = rng.integers(5, size=400)
    target = a * b + group + 0.1 * rng.normal(size=400)
    return pd.DataFrame({"a": a, "b": b, "c": c, "g": group.astype(str), "y": target})


def spec(*overrides: str, **sections):
    content = {"name": "s", "data": {"target": "y"}, "evaluation": {"seeds": 1, "worth": False}, **sections}
    return scopefe.load_spec(content, overrides=[*overrides])


def compiled(frame, *overrides, store=None):
    return scopefe.compile(spec(*overrides), data=frame, store=store)


def facts(report: Report) -> str:
    return report.model_dump_json(exclude={"volatile"})


# --- amounts of memory


@given(
    st.integers(1, 10**6),
    st.sampled_from(["", "k", "M", "G", "T"]),
    st.booleans(),
    st.sampled_from(["", " "]),
)
def test_a_size_is_its_number_times_its_unit(number, prefix, binary, space):
    unit = f"{prefix}{'i' if binary and prefix else ''}B"
    power = ["", "k", "M", "G", "T"].index(prefix)
    assert read_size(f"{number}{space}{unit}") == number * (1024 if "i" in unit else 1000) ** power


@pytest.mark.parametrize("wrong", ["", "GB", "4", "-4GB", "4 XB", "4iB", "4 GB or so", "1e3GB"])
def test_what_is_no_size_is_refused_by_name(wrong):
    with pytest.raises(ValueError, match="no amount of memory"):
        read_size(wrong)
    with pytest.raises(scopefe.SpecError, match=r"execution.budget.max_memory: .* is no amount of memory"):
        spec(execution={"budget": {"max_memory": wrong}})


def test_sizes_are_told_in_the_unit_that_suits():
    assert [size_text(s) for s in (0, 999, 1000, 4_200_000, 5e13)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "4.2 MB",
        "50.0 TB",
    ]


def test_a_budget_takes_bytes_or_text():
    assert Budget(max_memory="1.5 GB").max_memory == Budget(max_memory=1_500_000_000).max_memory


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_candidates": 0},
        {"max_seconds": 0},
        {"max_seconds": math.inf},
        {"max_memory": 0},
        {"max_memory": "0 GB"},
        {"max_rows": 1},
    ],
)
def test_a_budget_that_allows_nothing_is_refused(wrong):
    with pytest.raises(ValidationError):
        Budget(**wrong)


# --- the rounds that are foreseen


@given(
    candidates=st.integers(1, 300),
    train=st.integers(1, 60),
    selection=st.integers(1, 60),
    blocks=st.sampled_from([1, 2, 4, 8]),
    min_candidates=st.integers(1, 100),
)
def test_rounds_are_foreseen_where_all_gains_differ(candidates, train, selection, blocks, min_candidates):
    sizes = {"train": train, "selection": selection, "blocks": blocks, "min_candidates": min_candidates}
    done = halve(
        np.arange(candidates),
        lambda ids, rows, fitted: ids[:, None] + 1.0,
        rng=random.Random(1),
        stops=lambda: False,
        **sizes,
    )
    rounds = [(r.train_rows + r.selection_rows, len(r.candidates)) for r in done.rounds]
    assert rounds_at_most(candidates, **sizes) == rounds


# --- estimates


@pytest.mark.parametrize("baseline", ["{}", "{boosting: false}"])
def test_an_estimate_is_made_of_its_steps(frame, baseline):
    found = scopefe.estimate(compiled(frame, f"baseline={baseline}"))
    assert list(found.steps) == [*STEPS, "evaluation"]
    assert (found.steps["baseline"].seconds > 0) == (baseline == "{}")
    assert min(found.steps[s].seconds for s in ("halving", "attribution", "evaluation")) > 0
    assert found.seconds == pytest.approx(sum(s.seconds for s in found.steps.values()))
    assert found.peak_bytes == found.held + max(s.bytes for s in found.steps.values())
    assert 1e7 < found.held < found.peak_bytes
    assert repr(found) == f"<Estimate: ≈ {found.seconds:.1f} s, ≈ {size_text(found.peak_bytes)}>"


def test_gates_count_what_they_took_and_the_baseline_that_they_made_nothing(frame):
    one = compiled(frame, "scope.operators={gate: quantised, budget: 5}")
    found = scopefe.estimate(one)
    assert found.steps["gates"].seconds == sum(t.seconds for t in one.bench.times if t.step in GATES) > 0
    assert found.steps["baseline"].seconds == 0
    probed = scopefe.estimate(compiled(frame, "scope.operators={gate: probe, keep: 3}"))
    assert probed.steps["baseline"].seconds > 0


def test_seconds_of_gates_whose_result_is_stored_count_too(frame, cache_dir):
    gate = "scope.operators={gate: quantised, budget: 5}"
    first, again = (scopefe.estimate(compiled(frame, gate)).steps["gates"].seconds for _ in range(2))
    assert again > 0.5 * first


def test_an_evaluation_is_in_it_if_there_is_one(frame):
    def evaluation(*overrides: str) -> float:
        return scopefe.estimate(compiled(frame, "execution.jobs=1", *overrides)).steps["evaluation"].seconds

    few, more = (evaluation(f"evaluation.seeds={seeds}") for seeds in (2, 20))
    assert more > 5 * few
    for none in ("evaluation.seeds=0", "data.split={by: fractions, train: 0.8, selection: 0.2, test: 0}"):
        assert list(scopefe.estimate(compiled(frame, none)).steps) == STEPS


def test_what_measuring_worth_takes_is_in_it(frame):
    steps = scopefe.estimate(compiled(frame, "evaluation.worth=true")).steps
    assert list(steps) == [*STEPS, "evaluation", "worth"]
    assert steps["worth"] == steps["evaluation"]


def test_what_it_takes_to_decide_how_many_to_keep_is_in_it(frame):
    def choice(*overrides: str):
        found = scopefe.estimate(compiled(frame, "selection.keep=auto", *overrides))
        assert list(found.steps) == [*STEPS, "choice", "evaluation"]
        return found.steps["choice"].seconds, sum(found.steps[s].seconds for s in STEPS)

    by_rows, _ = choice("selection.unseen=selection")
    for gate in ("all", "{gate: quantised, budget: 0.5}"):
        by_parts, search = choice("selection.unseen=parts", f"scope.operators={gate}")
        assert by_parts > 4 * search
    assert by_rows > 0
    few, _ = choice("selection.unseen=selection", "selection.keep_most=1")
    assert few < by_rows


@pytest.mark.parametrize("task", ["binary", "multiclass"])
@pytest.mark.parametrize("rare", [False, True])
def test_classes_are_estimated_too(frame, task, rare):
    labels = np.arange(400) % (2 if task == "binary" else 3)
    if rare:
        labels = np.where(np.arange(400) < 390, 0, labels)
    table = frame.assign(y=[f"c{i}" for i in labels])
    assert scopefe.estimate(compiled(table)).seconds > 0


SLOW = """
import time
from scopefe import NUM, operator


@operator("slow", takes=(NUM, NUM), gives=NUM, symmetric=True)
def slow(a, b):
    time.sleep(0.02)
    return a * b
"""


def test_slow_candidates_are_foreseen(frame, tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    use = f"operators={{use: [slow], modules: ['{tmp_path / 'slow.py'}']}}"
    one = compiled(frame, use, "execution.jobs=1", "selection.data_blocks=1")
    assert one.pool_size == 3
    assert 3 * 0.02 * 0.5 < scopefe.estimate(one).steps["halving"].seconds < 3 * 0.02 * 10


def test_a_smaller_pool_is_estimated_to_cost_less(frame):
    store = scopefe.Store()
    whole, part = (
        scopefe.estimate(compiled(frame, f"scope.operators={gate}", store=store))
        for gate in ("all", "{gate: list, use: ['*']}")
    )
    assert whole.steps["baseline"] == part.steps["baseline"]
    for step in ("halving", "attribution"):
        assert whole.steps[step].seconds > part.steps[step].seconds
    assert whole.peak_bytes > part.peak_bytes


def test_specs_on_the_same_data_are_calibrated_once(frame, monkeypatch):
    calls, calibrate = [], estimating.calibrate
    monkeypatch.setattr(estimating, "calibrate", lambda *a: calls.append(1) or calibrate(*a))
    store = scopefe.Store()
    for gate in ("all", "{gate: list, use: ['*']}"):
        scopefe.estimate(compiled(frame, f"scope.operators={gate}", store=store))
    assert len(calls) == 1
    scopefe.estimate(compiled(frame, "baseline.learning_rate=0.3", store=store))
    assert len(calls) == 2


def test_an_estimate_changes_no_result_and_keeps_nothing(frame, cache_dir):
    store = scopefe.Store()
    scopefe.estimate(compiled(frame, store=store))
    assert not [path for path in cache_dir.rglob("*") if path.is_file()]
    after = execute(spec(), data=frame, store=store, write=False).report
    fresh = execute(spec("execution.cache=false"), data=frame, write=False).report
    assert facts(after) == facts(fresh)
    assert after.volatile.run_stored_seconds == 0


def test_there_is_no_estimate_without_data_or_for_the_package(frame):
    static = scopefe.load_spec(
        {"name": "s", "data": {"target": "y", "features": {"kinds": {"a": "numerical", "b": "numerical"}}}}
    )
    assert scopefe.estimate(scopefe.compile(static, static=True)) is None
    assert scopefe.estimate(compiled(frame, "selection.engine=openfe")) is None


REFUSED = {
    "few rows": (6, {}, "4 rows are too few for 5 folds of the baseline"),
    "no class for the folds": (
        12,
        {"y": list("abcabcabcabc")},
        "no class has 5 rows, one for each fold: fewer baseline.folds, or more rows",
    ),
    "no metric": (
        40,
        {"y": ["a"] * 37 + ["b"] * 3, "role": ["train"] * 8 + ["val"] * 8 + ["test"] * 16 + ["train"] * 8},
        "selection.metric auc has no value on the selection rows, which have one class",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_data_that_execute_refuses_have_no_estimate_but_its_message(case, frame, caplog):
    rows, columns, message = REFUSED[case]
    table = frame.iloc[:rows].assign(**columns)
    overrides = [
        {"few rows": "data.task=regression", "no metric": "selection.metric=auc"}.get(case, "seed=1")
    ]
    overrides += ["data.split={by: column, column: role}"] if "role" in columns else []
    one = spec(*overrides)
    with pytest.raises(scopefe.DataError) as refused:
        execute(one, data=table, write=False)
    assert str(refused.value) == message
    assert scopefe.estimate(scopefe.compile(one, data=table)) is None
    (record,) = caplog.records
    assert record.getMessage() == f"s: there is no estimate: execute would end with: {message}"


def test_parts_that_execute_may_refuse_are_foreseen(frame, caplog):
    table = frame.iloc[:36].assign(y=[f"c{i}" for i in np.arange(36) % 6])
    one = spec("selection.keep=auto", "selection.unseen=parts")
    assert scopefe.estimate(scopefe.compile(one, data=table)) is None
    assert "s: there is no estimate: execute may end with: no class has 5 rows" in caplog.text


def test_an_empty_pool_costs_nothing(frame):
    found = scopefe.estimate(compiled(frame, "scope.operators={gate: list, use: []}"))
    assert (found.steps, found.seconds, found.peak_bytes) == ({}, 0, found.held)


def test_a_sample_that_cannot_be_scored_is_a_warning(frame, caplog, monkeypatch):
    def fail(*_):
        raise ValueError("no luck")

    monkeypatch.setattr(estimating, "calibrate", fail)
    assert scopefe.estimate(compiled(frame)) is None
    assert [r.getMessage() for r in caplog.records] == ["s: there is no estimate: ValueError: no luck"]


def test_the_memory_of_the_process_is_what_it_holds():
    before = resident_bytes()
    held = np.ones(20_000_000)
    assert resident_bytes() - before > 0.9 * held.nbytes


# --- budgets


def stopping(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the time be over before a step."""

    def spent(self, step):
        return Stop(before, "max_seconds", "time is over") if step == before else None

    monkeypatch.setattr(Watch, "_spent", spent)


def test_a_pool_that_is_too_large_is_not_scored(frame, tmp_path, caplog):
    size = compiled(frame).pool_size
    runs = f"execution.runs={tmp_path}"
    run = execute(spec(runs, f"execution.budget.max_candidates={size - 1}"), data=frame)
    assert run.failed
    report = Report.model_validate_json((run.folder / "report.json").read_text())
    assert report.selection.stopped.model_dump() == {"before": "baseline", "budget": "max_candidates"}
    assert (report.baseline, report.selection.rounds, report.evaluation) == (None, [], None)
    assert any("max_candidates" in note for note in report.notes)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert f"the pool has {size} candidates" in record.getMessage()


def test_a_budget_that_is_enough_changes_nothing(frame):
    size = compiled(frame).pool_size
    budget = f"execution.budget={{max_candidates: {size}, max_seconds: 3600, max_memory: 1TB}}"
    with_budget = execute(spec(budget), data=frame, write=False)
    assert not with_budget.failed
    assert facts(with_budget.report) == facts(execute(spec(), data=frame, write=False).report)


def test_an_empty_pool_is_within_any_budget_and_no_failure(frame):
    budget = "execution.budget={max_candidates: 1, max_seconds: 3600}"
    run = execute(spec(budget, "scope.operators={gate: list, use: []}"), data=frame, write=False)
    assert not run.failed
    assert run.report.selection.stopped is None
    assert run.report.evaluation is not None


@pytest.mark.parametrize("budget", ["max_seconds: 0.000001", "max_memory: 1 kB"])
def test_a_budget_that_is_spent_at_once_leaves_a_report(frame, budget):
    run = execute(spec(f"execution.budget={{{budget}}}"), data=frame, write=False)
    assert run.failed
    stopped = run.report.selection.stopped
    assert (stopped.before, stopped.budget) == ("baseline", budget.partition(":")[0])
    assert any("depends on the machine" in note for note in run.report.notes)
    assert not run.recipe.features


def test_memory_is_measured_between_steps(frame, monkeypatch, caplog):
    held = iter([10**9, 10**9, 3 * 10**12])
    monkeypatch.setattr(budgets, "resident_bytes", lambda: next(held))
    run = execute(spec("execution.budget.max_memory=2TB", "selection.data_blocks=1"), data=frame, write=False)
    assert run.report.selection.stopped.before == "attribution"
    assert "3.0 TB are held before attribution" in caplog.text


@pytest.mark.parametrize("before", ["baseline", "halving"])
def test_without_a_round_nothing_is_selected(frame, before, monkeypatch):
    stopping(before, monkeypatch)
    run = execute(spec(), data=frame, write=False)
    assert run.failed
    assert (run.report.baseline is not None) == (before == "halving")
    assert not run.report.selection.rounds
    assert run.report.evaluation is None


@pytest.mark.parametrize("before", ["another round of halving", "attribution"])
def test_what_was_ranked_is_carried_on(frame, before, monkeypatch, caplog):
    whole = execute(spec(*SEVERAL_ROUNDS), data=frame, write=False).report
    assert len(whole.selection.rounds) > 2
    stopping(before, monkeypatch)
    run = execute(spec(*SEVERAL_ROUNDS), data=frame, write=False)
    selection = run.report.selection
    assert not run.failed
    assert [r.levelno for r in caplog.records] == [logging.WARNING]
    rounds = whole.selection.rounds
    assert len(selection.rounds) == (1 if before.startswith("another") else len(rounds))
    assert selection.rounds[0].model_dump(exclude={"kept"}) == rounds[0].model_dump(exclude={"kept"})
    gains = [s.gain for s in selection.ranking]
    assert gains == sorted(gains, reverse=True)
    assert gains[0] == selection.rounds[-1].best_gain
    assert min(gains) > 0
    assert [s.importance for s in selection.ranking] == gains
    assert [f.name for f in run.recipe.features] == [s.name for s in selection.selected] != []
    assert run.report.evaluation is None
    assert any("ranked by their gains" in note for note in run.report.notes)
    key = {step.name: step.key for step in run.report.graph}
    assert key["recipe"] != {step.name: step.key for step in whole.graph}["recipe"]


def test_without_time_for_the_evaluation_the_selection_is_whole(frame, monkeypatch):
    whole = execute(spec(), data=frame, write=False).report
    stopping("evaluation", monkeypatch)
    run = execute(spec(), data=frame, write=False)
    assert run.report.evaluation is None
    assert not run.failed
    assert run.report.selection.model_copy(update={"stopped": None}) == whole.selection
    assert run.report.graph == whole.graph


def test_without_time_for_the_worth_of_features_they_are_kept_and_evaluated(monkeypatch):
    stopping("worth", monkeypatch)
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(1500, 3)), columns=list("abc"))
    frame["y"] = frame["a"] * frame["b"]
    report = execute(spec("selection.keep=auto", "evaluation.worth=true"), data=frame, write=False).report
    assert report.selection.stopped.before == "worth"
    assert report.selection.selected
    assert report.evaluation.difference.verdict == "better"
    assert not any("Nothing is kept" in n or "Without attribution" in n for n in report.notes)


@pytest.mark.parametrize("before", ["halving", "another round of halving", "attribution"])
def test_a_stopped_run_goes_on_from_the_store(frame, before, cache_dir):
    with pytest.MonkeyPatch.context() as patch:
        stopping(before, patch)
        execute(spec(*SEVERAL_ROUNDS), data=frame, write=False)
    again = execute(spec(*SEVERAL_ROUNDS), data=frame, write=False).report
    fresh = execute(spec(*SEVERAL_ROUNDS, "execution.cache=false"), data=frame, write=False).report
    assert facts(again) == facts(fresh)
    assert again.volatile.run_stored_seconds > 0


def test_once_stopped_a_run_stays_stopped(monkeypatch):
    watch = Watch(Budget(max_memory=100))
    monkeypatch.setattr(budgets, "resident_bytes", lambda: 200)
    assert watch.stops("halving")
    monkeypatch.setattr(budgets, "resident_bytes", lambda: 0)
    assert watch.stops("attribution")
    assert watch.stop.before == "halving"


# --- the command line


@pytest.fixture
def here(frame, tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    frame.to_csv("t.csv", index=False)
    Path("s.yaml").write_text("name: s\ndata: {source: t.csv, target: y}\nevaluation: {seeds: 0}\n")
    return tmp_path


def run_cli(*arguments: str):
    with registry.collecting(registry.Components(registry.components())):
        return CliRunner().invoke(cli, list(arguments))


def test_compile_shows_an_estimate_unless_told_not_to(here):
    shown = run_cli("compile", "s.yaml")
    assert shown.exit_code == 0, shown.output
    assert "estimate for this machine" in shown.stdout
    (told,) = json.loads(run_cli("compile", "s.yaml", "--json").stdout)
    assert list(told["estimate"]) == ["seconds", "peak_bytes", "steps"]
    assert list(told["estimate"]["steps"]) == STEPS
    assert told["estimate"]["seconds"] >= max(s["seconds"] for s in told["estimate"]["steps"].values())
    assert "estimate" not in run_cli("compile", "s.yaml", "--no-estimate").stdout
    assert "estimate" not in json.loads(run_cli("compile", "s.yaml", "--json", "--no-estimate").stdout)[0]


def test_compile_warns_of_data_that_execute_refuses(here):
    pd.read_csv("t.csv").iloc[:6].to_csv("t.csv", index=False)
    shown = run_cli("compile", "s.yaml", "--set", "data.task=regression")
    assert (shown.exit_code, len(shown.stderr.splitlines())) == (0, 1)
    assert "execute would end with: 4 rows are too few" in shown.stderr
    assert "≈" not in shown.stdout
    assert run_cli("execute", "s.yaml", "-q", "--set", "data.task=regression").stderr.splitlines()[-1] == (
        "error: 4 rows are too few for 5 folds of the baseline"
    )


def test_steps_that_a_spec_does_not_have_are_left_open(here):
    Path("auto.yaml").write_text("extends: s.yaml\nname: auto\nselection: {keep: auto}\n")
    shown = run_cli("compile", "s.yaml", "auto.yaml").stdout
    (line,) = (line.split() for line in shown.splitlines() if line.split()[:1] == ["choice"])
    assert line[1:3] == ["–", "≈"]


def test_a_spent_budget_is_one_line_and_exit_code_1(here):
    done = run_cli("execute", "s.yaml", "-q", "--json", "--set", "execution.budget.max_candidates=3")
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: s: the pool has ")
    told = json.loads(done.stdout)
    assert told["selected"] == []
    assert Path(told["report"]).is_file()


def test_when_every_candidate_failed_the_exit_code_is_1_and_the_report_is_kept(here):
    Path("ops.py").write_text(
        "from scopefe import NUM, operator\n\n\n"
        "@operator('broken', takes=(NUM,), gives=NUM)\n"
        "def broken(a):\n    '''Fail.'''\n    raise ValueError('no')\n"
    )
    chosen = ["--module", "ops.py", "--set", "operators.use=[broken]"]
    done = run_cli("execute", "s.yaml", "-q", "--json", *chosen)
    assert done.exit_code == 1
    assert done.stderr.splitlines() == [
        "error: s: every candidate failed, so nothing could be selected; the report says why"
    ]
    report = Report.model_validate_json(Path(json.loads(done.stdout)["report"]).read_text())
    assert {f.error for f in report.selection.failures} == {"ValueError: no"}
    assert report.selection.stopped is None


def test_a_stopped_report_is_read_and_rendered_again(here):
    done = run_cli("execute", "s.yaml", "--json", "--set", "execution.budget.max_candidates=3")
    folder = json.loads(done.stdout)["run_dir"]
    again = run_cli("report", folder)
    assert again.exit_code == 0, again.output
    assert "max_candidates" in (Path(folder) / "report.html").read_text()
    report = Report.model_validate_json((Path(folder) / "report.json").read_text())
    assert to_json(report) == (Path(folder) / "report.json").read_text()
