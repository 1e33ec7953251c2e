"""Bad input: each gives its one line and its exit code, and leaves no run folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

from scopefe.cli.main import cli
from scopefe.report.model import Report

ODD = 'a,b (c)-"d"'
Cli = Callable[..., Result]

SPEC = """\
name: bad
data:
  source: table.csv
  target: target
selection: {data_blocks: 1, keep: 3}
evaluation: {seeds: 1, max_trees: 50}
execution: {jobs: 1}
"""


def table(rows: int = 240) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=rows),
            "b": rng.normal(size=rows),
            "group": rng.choice(["x", "y", "z"], rows),
        }
    )
    frame["target"] = frame["a"] * frame["b"]
    return frame


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    table().to_csv("table.csv", index=False)
    Path("spec.yaml").write_text(SPEC)
    return lambda *args: CliRunner().invoke(cli, list(args))


def refused(result: Result, code: int, *says: str) -> None:
    """Check that a command said one line, had its exit code, and left nothing behind."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ")
    for text in says:
        assert text in line
    assert not Path("runs").exists() or not list(Path("runs").iterdir())


def with_table(frame: pd.DataFrame) -> None:
    frame.to_csv("table.csv", index=False)


# ---- specs


def test_an_unknown_gate(run: Cli) -> None:
    Path("spec.yaml").write_text(SPEC + "scope:\n  pairs: {gate: hard-infra}\n")
    refused(run("execute", "spec.yaml"), 2, "spec.yaml:9:17: ", "'hard-infra'", "did you mean 'hard-intra'?")


def test_a_wrong_type(run: Cli) -> None:
    Path("spec.yaml").write_text(SPEC + "seed: many\n")
    refused(run("execute", "spec.yaml"), 2, "spec.yaml:8:7: ", "seed", "many")


def test_a_missing_spec(run: Cli) -> None:
    refused(run("execute", "spek.yaml"), 2, "there is no spec 'spek.yaml'; did you mean 'spec.yaml'?")


def test_a_circle_of_matches(run: Cli) -> None:
    for name, other in (("one", "two"), ("two", "one")):
        gate = f"scope:\n  pairs: {{gate: random-pair, match: {other}.yaml}}\n"
        Path(f"{name}.yaml").write_text(SPEC + gate)
    refused(run("execute", "one.yaml"), 2, "match goes in a circle", "one.yaml", "two.yaml")


def test_a_spec_that_matches_itself(run: Cli) -> None:
    Path("spec.yaml").write_text(SPEC + "scope:\n  operators: {gate: random-joint, match: spec.yaml}\n")
    refused(run("execute", "spec.yaml"), 2, "match goes in a circle")


@pytest.mark.parametrize("place", ["pairs: {gate: random-pair", "operators: {gate: random-joint",
                                   "operators: {gate: random-operator"])  # fmt: skip
def test_a_budget_larger_than_what_there_is(run: Cli, place: str) -> None:
    Path("spec.yaml").write_text(SPEC + f"scope:\n  {place}, budget: 100000}}\n")
    refused(run("execute", "spec.yaml"), 2, "spec.yaml:9:", "budget 100000 is more than the ")


# ---- data


def test_a_missing_file(run: Cli) -> None:
    refused(
        run("execute", "spec.yaml", "--set", "data.source=nosuch.csv"), 3, "there is no file", "nosuch.csv"
    )


def test_a_target_with_missing_values(run: Cli) -> None:
    frame = table()
    frame.loc[:6, "target"] = np.nan
    with_table(frame)
    refused(
        run("execute", "spec.yaml"),
        3,
        "target 'target' is missing in 7 of 240 rows",
        "set data.target.missing=drop",
    )
    assert run("execute", "spec.yaml", "--set", "data.target.missing=drop").exit_code == 0


def test_a_constant_table(run: Cli) -> None:
    with_table(pd.DataFrame({"a": [1.5] * 90, "b": ["x"] * 90, "target": np.arange(90.0)}))
    refused(run("execute", "spec.yaml"), 3, "every feature is constant")


def test_a_constant_target(run: Cli) -> None:
    with_table(table().assign(target=2.0))
    refused(run("execute", "spec.yaml", "--set", "data.task=regression"), 3, "the target is constant")


def test_one_class_only(run: Cli) -> None:
    with_table(table().assign(target="same"))
    refused(run("execute", "spec.yaml"), 3, "one class only ('same')")


def test_duplicate_columns(run: Cli) -> None:
    lines = Path("table.csv").read_text().splitlines()
    Path("table.csv").write_text("\n".join(["a,a,group,target", *lines[1:]]))
    refused(run("execute", "spec.yaml"), 3, "two columns are named 'a'")


def test_an_empty_selection_split(run: Cli) -> None:
    with_table(table().assign(split=["train", "test"] * 120))
    refused(
        run("execute", "spec.yaml", "--set", "data.split={by: column}"),
        3,
        "the split leaves no selection rows",
    )
    refused(run("execute", "spec.yaml", "--set", "data.split={selection: 0}"), 2, "data.split.selection")


def test_an_empty_file(run: Cli) -> None:
    Path("table.csv").write_text("")
    refused(run("execute", "spec.yaml"), 3, "table.csv", "cannot be read as csv")
    Path("table.csv").write_text("a,b,group,target\n")
    refused(run("execute", "spec.yaml"), 3, "the table has no rows")


def test_a_file_that_is_not_what_its_name_says(run: Cli) -> None:
    Path("table.parquet").write_text("a,b\n1,2\n")
    refused(run("execute", "spec.yaml", "--set", "data.source=table.parquet"), 3, "cannot be read as parquet")


def test_a_pool_that_is_none(run: Cli) -> None:
    refused(run("execute", "spec.yaml", "--pool", "nosuch.parquet"), 3, "nosuch.parquet", "is no pool")
    refused(run("execute", "spec.yaml", "--pool", "table.csv"), 3, "table.csv", "is no pool")


def test_any_text_is_a_column_name(run: Cli) -> None:
    table().rename(columns={"a": ODD, "b": "[bold]é{\n"}).to_csv("table.csv", index=False)
    result = run("execute", "spec.yaml", "--json", "--set", "scope.operators={gate: list, use: ['*', freq]}")
    assert result.exit_code == 0, result.stderr
    done = json.loads(result.stdout)
    formula = f"({ODD}*[bold]é{{\n)"
    assert formula in done["selected"]
    assert run("transform", done["run_dir"], "table.csv", "-o", "out.csv").exit_code == 0
    new = pd.read_csv("out.csv")
    (name,) = (name for name, found in done["features"].items() if found == formula)
    np.testing.assert_allclose(new[name], new[ODD] * new["[bold]é{\n"])
    assert run("init", "table.csv", "--target", "target").exit_code == 0
    assert run("compile", "table.yaml", "--json").exit_code == 0


# ---- components


def test_a_module_that_raises_at_import(run: Cli) -> None:
    Path("ops.py").write_text("import math\nmath.nosuch\n")
    refused(
        run("execute", "spec.yaml", "--module", "ops.py"),
        2,
        "module 'ops.py' does not load",
        "line 2 of ops.py",
    )
    Path("spec.yaml").write_text(SPEC + "operators:\n  modules: [ops.py]\n")
    refused(run("execute", "spec.yaml"), 2, "spec.yaml:9:13: ", "does not load: AttributeError")


def test_a_module_with_a_syntax_error(run: Cli) -> None:
    Path("ops.py").write_text("def f(:\n")
    refused(
        run("execute", "spec.yaml", "--module", "ops.py"), 2, "module 'ops.py' does not load: SyntaxError"
    )


def test_a_module_that_is_not_there(run: Cli) -> None:
    refused(
        run("execute", "spec.yaml", "--module", "nosuch.py"), 2, "module 'nosuch.py': there is no such file"
    )
    refused(run("components", "--module", "no_such_module"), 2, "module 'no_such_module' does not load")


FAILING = '''
from scopefe import NUM, operator


@operator("fails", takes=(NUM,))
def fails(a):
    """Fails."""
    raise ValueError("this column\\nis not to my liking")
'''


def test_an_operator_that_raises_on_a_candidate(run: Cli) -> None:
    Path("ops.py").write_text(FAILING)
    result = run(
        "execute", "spec.yaml", "--module", "ops.py", "--set", "operators.use=['*', fails]", "--json"
    )
    assert result.exit_code == 0, result.stderr
    report = json.loads(Path(json.loads(result.stdout)["report"]).read_text())
    failures = report["selection"]["failures"]
    assert {f["formula"] for f in failures} == {"fails(a)", "fails(b)"}
    assert all("this column" in f["error"] for f in failures)
    (line,) = [line for line in result.stderr.splitlines() if "failed" in line]
    assert line.strip() == "2 candidates failed, first fails(a): ValueError: this column is not to my liking"


def test_every_candidate_fails(run: Cli) -> None:
    Path("ops.py").write_text(FAILING)
    result = run("execute", "spec.yaml", "--module", "ops.py", "--set", "operators.use=[fails]", "--json")
    assert result.exit_code == 1
    assert "nothing could be selected" in result.stderr
    assert json.loads(result.stdout)["selected"] == []


def test_an_operator_that_gives_the_wrong_number_of_rows(run: Cli) -> None:
    Path("ops.py").write_text(FAILING.replace("raise ValueError", "return a[1:] #"))
    result = run("execute", "spec.yaml", "--module", "ops.py", "--set", "operators.use=['*', fails]")
    assert result.exit_code == 0, result.stderr
    assert "2 candidates failed, first fails(a): ComponentError: " in result.stderr


def test_classes_too_small_for_the_folds(run: Cli) -> None:
    with_table(table(25).assign(target=np.arange(25) % 5))
    for spec in ("openfe", "recommended"):
        result = run("execute", spec, "--set", "data.source=table.csv", "--set", "data.target=target", "-q")
        refused(result, 3, "no class has 5 rows, one for each fold")


def test_a_run_folder_that_cannot_be_made(run: Cli) -> None:
    refused(
        run("execute", "spec.yaml", "--set", "execution.runs=table.csv", "-q"), 1, "execution.runs: no folder"
    )


def test_a_metric_without_a_value(run: Cli) -> None:
    frame = table(100)
    frame["target"] = (np.arange(100) < 2).astype(int)
    frame["part"] = np.where(np.arange(100) < 60, "train", np.where(np.arange(100) < 80, "val", "test"))
    with_table(frame)
    command = ["execute", "spec.yaml", "--set", "data.split={by: column, column: part}", "--set"]
    result = run(*command, "selection.metric=binary_logloss", "--json", "-q")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["metric"] is None
    report = Report.model_validate_json(next(Path("runs").glob("*/report.json")).read_text("utf-8"))
    assert any(note.startswith("There is no evaluation: its metric has no value") for note in report.notes)
    shutil.rmtree("runs")
    result = run(*command, "selection.metric=auc", "-q")
    refused(result, 3, "selection.metric auc has no value on the selection rows, which have one class")


def test_what_was_finished_before_a_failure_is_printed(run: Cli) -> None:
    Path("other.yaml").write_text(SPEC.replace("target: target", "target: tarlet"))
    result = run("execute", "spec.yaml", "other.yaml", "--json", "-q")
    assert result.exit_code == 3
    assert [summary["name"] for summary in json.loads(result.stdout)] == ["bad"]


def test_a_pool_that_is_not_there(run: Cli) -> None:
    refused(run("execute", "spec.yaml", "--pool", "gone.parquet", "-q"), 3, "there is no pool 'gone.parquet'")


@pytest.mark.parametrize(
    ("factor", "says"), [(1e-170, "too small to be squared"), (1e170, "too large to be squared")]
)
def test_a_target_out_of_scale(run: Cli, factor: float, says: str) -> None:
    with_table(table().assign(target=lambda t: t["target"] * factor))
    refused(run("execute", "spec.yaml", "-q"), 3, says)


def test_an_empty_pool_is_a_result(run: Cli) -> None:
    result = run("execute", "spec.yaml", "--json", "--set", "scope.operators={gate: list, use: []}")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["selected"] == []
