"""The command line: what each command prints where, what it writes, and its exit code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import scopefe
from scopefe.cli.graph_files import Box, dot, mermaid, svg
from scopefe.cli.init import scalar
from scopefe.cli.main import COMMANDS, cli
from scopefe.cli.progress import Lines, describe
from scopefe.data.kinds import encode
from scopefe.recipe.fitting import described, fit_recipe
from scopefe.run.progress import Event
from scopefe.space.expression import Apply, Leaf
from scopefe.spec.loader import load_spec

Cli = Callable[..., Result]
OPERATOR = '''
import numpy as np
from scopefe import NUM, operator


@operator("ratio_of_logs", takes=(NUM, NUM))
def ratio_of_logs(a, b):
    """log|a| over log|b|."""
    return np.log(np.abs(a)) / np.log(np.abs(b))
'''


def table(rows: int = 240) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "a": rng.normal(size=rows),
            "b": rng.normal(size=rows),
            "level": rng.integers(0, 6, rows),
            "group": rng.choice(["x", "y", "z"], rows),
        }
    )
    frame["target"] = frame["a"] * frame["b"] + 0.1 * rng.normal(size=rows)
    frame.loc[:4, "a"] = np.nan
    return frame


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    table().to_csv("table.csv", index=False)
    Path("mine.yaml").write_text(
        "name: mine\n"
        "data: {source: table.csv, target: target}\n"
        "selection: {data_blocks: 1, keep: 2}\n"
        "evaluation: {seeds: 1}\n"
        "execution: {jobs: 1}\n"
    )
    Path("ops.py").write_text(OPERATOR)
    return lambda *args: CliRunner().invoke(cli, [str(a) for a in args])


def subprocess_run(*args: str, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scopefe", *args], capture_output=True, text=True, timeout=120, **kwargs
    )


# ---- the group


def test_help_lists_every_command_as_it_describes_itself(run: Cli) -> None:
    result = run("-h")
    assert result.exit_code == 0, result.stderr
    assert "130  interrupted" in result.stdout
    for name, text in COMMANDS.items():
        assert name in result.stdout
        assert text in result.stdout
        own = run(name, "-h")
        assert own.exit_code == 0
        assert "--verbose" in own.stdout


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from scopefe.cli.main import cli\n"
        "cli.main(['--help'], standalone_mode=False)\n"
        "heavy = ('pandas', 'lightgbm', 'sklearn', 'rich', 'scopefe.run', 'scopefe.spec')\n"
        "print([m for m in heavy if m in sys.modules], file=sys.stderr)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert result.stderr == "[]\n"


def test_version(run: Cli) -> None:
    assert scopefe.__version__ in run("--version").stdout


def test_a_misspelt_command_is_recognised(run: Cli) -> None:
    result = run("compil")
    assert result.exit_code == 2
    assert "there is no command 'compil'; did you mean 'compile'?" in result.stderr


def test_an_interruption_is_one_line(run: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("scopefe.cli.execute.execute", interrupted)
    result = run("execute", "mine.yaml")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")


def test_an_unexpected_error_is_one_line_and_a_traceback_if_asked(
    run: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise ValueError("first\nsecond")

    monkeypatch.setattr("scopefe.cli.execute.execute", broken)
    result = run("execute", "mine.yaml")
    assert result.exit_code == 1
    assert result.stderr == "internal error: ValueError: first; run again with --verbose\n"
    for args in (["-v", "execute", "mine.yaml"], ["execute", "mine.yaml", "--verbose"]):
        assert "Traceback" in run(*args).stderr


def test_a_file_that_cannot_be_written_is_one_line(run: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").write_text("")
    result = run("execute", "mine.yaml", "--set", "execution.runs=file/runs", "-q")
    assert result.exit_code == 1
    there = str(Path("file").absolute())
    assert result.stderr == f"error: execution.runs: no folder can be made in {there!r}\n"


def test_a_closed_pipe_is_silent() -> None:
    reader = subprocess.Popen(
        [sys.executable, "-m", "scopefe", "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert reader.stdout is not None
    assert reader.stderr is not None
    reader.stdout.close()
    assert reader.stderr.read() == b""
    reader.stderr.close()
    reader.wait(60)


# ---- init


def test_init_writes_a_spec_that_compiles(run: Cli) -> None:
    result = run("init", "table.csv", "--target", "target")
    assert (result.exit_code, result.stdout) == (0, "")
    text = Path("table.yaml").read_text()
    assert "a      numerical    235 distinct, 5 missing" in text
    assert "level  ordinal" in text
    assert "group  categorical" in text
    assert "153 train, 39 selection, 48 test" in text
    spec = load_spec("table.yaml")
    assert (spec.data.task, spec.scope.pairs.gate, spec.scope.operators.gate) == (  # type: ignore[union-attr]
        "regression",
        "all",
        "quantised",
    )
    assert (spec.selection.gain, spec.selection.keep) == ("cross-fitted", "auto")
    assert run("compile", "table.yaml").exit_code == 0


def test_init_remarks_on_columns_that_may_be_no_features(run: Cli) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, 120)
    frame = pd.DataFrame({"x": x, "y": x * 10, "id": range(120), "one": "a", "wide": rng.normal(size=120)})
    frame["target"] = rng.integers(0, 5, 120) * 1.5
    frame["late"] = frame["target"] > 3
    frame.to_csv("remarks.csv", index=False)
    assert run("init", "remarks.csv", "--target", "target").exit_code == 0
    text = Path("remarks.yaml").read_text(encoding="utf-8")
    remarks = text[text.index("kinds: {}") : text.index("    drop: ")].splitlines()[1:]
    assert remarks == [
        "    # Another value in every row, so perhaps no feature but an identifier: id",
        "    # The same value in every row: one",
        '    # One tells the other, so that one of them will do: "y" = x',
        "    # Tells the target, or follows from it, so perhaps not known before it: late",
    ]


def test_init_does_not_replace_a_file_unless_told_to(run: Cli) -> None:
    Path("table.yaml").write_text("mine")
    result = run("init", "table.csv", "--target", "target")
    assert (result.exit_code, Path("table.yaml").read_text()) == (2, "mine")
    assert result.stderr == "error: 'table.yaml' is there already; --force replaces it\n"
    assert run("init", "table.csv", "--target", "target", "--force").exit_code == 0
    assert load_spec("table.yaml").name == "table"


def test_init_knows_a_misspelt_target(run: Cli) -> None:
    result = run("init", "table.csv", "--target", "targe")
    assert result.exit_code == 3
    assert result.stderr == "error: --target: there is no column 'targe'; did you mean 'target'?\n"
    assert not Path("table.yaml").exists()


@pytest.mark.parametrize("suffix", ["csv.gz", "tsv", "parquet", "feather"])
def test_init_in_another_folder_and_format(run: Cli, suffix: str) -> None:
    frame = table().rename(columns={"target": "yes"})
    frame["yes"] = np.where(frame["yes"] > 0, "on", "off")
    frame.loc[:2, "yes"] = None
    frame["split"] = np.where(np.arange(len(frame)) % 3 == 0, "validation", "train")
    frame["when"] = pd.date_range("2020-01-01", periods=len(frame)).astype(str)
    frame["code"] = [f"row {i}" for i in range(len(frame))]
    path = Path(f"odd #1 $: name.{suffix}")
    if "sv" in suffix:
        frame.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    elif suffix == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_feather(path)
    Path("specs").mkdir()
    assert run("init", path, "--target", "yes", "-o", "specs/s.yaml").stderr.startswith("wrote")
    spec = load_spec("specs/s.yaml")
    assert spec.data.target.missing == "drop"
    assert spec.data.split.by == "column"
    assert spec.data.task == "binary"
    text = Path("specs/s.yaml").read_text()
    assert "perhaps no feature but an identifier: code" in text
    assert re.search(r"#   when.month +ordinal +\d+ distinct\n", text)
    assert run("compile", "specs/s.yaml", "-q", "--set", "scope.operators=all").exit_code == 0


@pytest.mark.parametrize(
    "text", ["plain", "y", "1.5", "~", 'q"uo\\te', "new\nline", "é 😀 \x85", "a: b #c", ""]
)
def test_init_quotes_what_yaml_would_read_otherwise(text: str) -> None:
    from ruamel.yaml import YAML

    assert YAML(typ="safe").load(f"{{k: {scalar(text)}}}") == {"k": text}


# ---- validate


def test_validate(run: Cli) -> None:
    result = run("validate", "mine.yaml", "openfe")
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == "mine.yaml: ok\nopenfe: ok\n"


def test_validate_goes_on_after_an_error(run: Cli) -> None:
    Path("bad.yaml").write_text("name: bad\nsed: 1\ndata: {source: table.csv, target: [1]}\n")
    result = run("validate", "bad.yaml", "mine.yaml", "--json")
    assert result.exit_code == 2
    bad, good = json.loads(result.stdout)
    assert (bad["ok"], good["ok"], good["name"]) == (False, True, "mine")
    assert {error[:14] for error in bad["errors"]} == {"bad.yaml:2:1: ", "bad.yaml:3:35:"}
    lines = result.stderr.splitlines()
    assert all(line.startswith("error: bad.yaml:") for line in lines[:-1])
    assert lines[-1] == "mine.yaml: ok"


# ---- compile


def test_compile_prints_one_table(run: Cli) -> None:
    result = run("compile", "mine.yaml", "fc-only", "--with", "mine.yaml", "--set", "name=both")
    assert (result.exit_code, result.stderr) == (0, "")
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["candidates", "both", "both"]
    assert {"universe, raw", "pool, unique", "reduction"} <= {row[:25].strip() for row in rows}
    assert any(row.split()[:3] == ["numeric", "×", "categorical"] for row in rows)


def test_compile_json(run: Cli) -> None:
    chosen = ["--set", "scope.operators={gate: list, use: [abs]}"]
    result = run("compile", "mine.yaml", "mine.yaml", "--json", "--no-estimate", *chosen)
    first, second = json.loads(result.stdout)
    assert first == second
    assert first["pool"] == {"raw": 3, "unique": 3}
    assert set(first) == {"name", "universe", "pool", "reduction", "operators", "gates"}
    assert sum(o["universe"]["raw"] for o in first["operators"]) == first["universe"]["raw"]
    assert first["reduction"] == pytest.approx(1 - 3 / first["universe"]["raw"])


def test_compile_static_gives_bounds_and_says_which_gates_need_data(run: Cli) -> None:
    args = ["compile", "scope-fe", "--static", "--set", "data.features.kinds={a: numerical, b: ordinal}"]
    result = run(*args)
    assert "≤ " in result.stdout
    assert "≥ 0.00 %" in result.stdout
    assert result.stderr == (
        "scope-fe: bounds, as these gates need data: scope.pairs (hard-intra), scope.operators (probe)\n"
    )
    assert json.loads(run(*args, "--json").stdout)[0]["bounded"] == ["scope.pairs", "scope.operators"]


def test_compile_static_without_kinds(run: Cli) -> None:
    result = run("compile", "mine.yaml", "--static")
    assert result.exit_code == 2
    assert "kinds must be given" in result.stderr


@pytest.mark.parametrize(
    ("name", "starts"),
    [("g.svg", "<svg "), ("g.dot", "digraph "), ("g.mmd", "flowchart "), ("g.MERMAID", "flowchart ")],
)
def test_compile_draws_the_graph(run: Cli, name: str, starts: str) -> None:
    result = run("compile", "mine.yaml", "--set", "scope.pairs=hard-intra", "--graph", name)
    assert result.exit_code == 0, result.stderr
    text = Path(name).read_text()
    assert text.startswith(starts)
    for word in ("source", "association", "hard-intra", "2 clusters", "candidates", "pool"):
        assert word in text


def test_compile_pool_is_what_execute_runs(run: Cli) -> None:
    gates = ["--set", "scope.operators={gate: list, use: ['*', abs]}"]
    assert run("compile", "mine.yaml", *gates, "--pool", "pool.parquet").exit_code == 0
    assert len(pd.read_parquet("pool.parquet")) == 6
    result = run("execute", "mine.yaml", "--pool", "pool.parquet", "--json", "--no-html")
    report = json.loads(Path(json.loads(result.stdout)["report"]).read_text())
    assert report["space"]["pool"]["raw"] == 6
    assert sorted(p.name for p in Path("runs").glob("*/*")) == ["recipe.json", "report.json", "rows.parquet"]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["a", "b", "--graph", "g.svg"], "--graph takes one spec"),
        (["a", "b", "--pool", "p.parquet"], "--pool takes one spec"),
        (["a", "--static", "--pool", "p.parquet"], "--pool needs data"),
        (["a", "--graph", "g.png"], "'g.png' must end in .svg"),
        (["a", "--pool", "no/p.parquet"], "there is no folder 'no'"),
        ([], "Missing argument"),
    ],
)
def test_compile_usage(run: Cli, args: list[str], says: str) -> None:
    result = run("compile", *args)
    assert result.exit_code == 2
    assert says in result.stderr


def test_labels_are_escaped() -> None:
    items = [Box(('a "b" <c> & \\d #1',), ()), Box(("next", "line"), (0,))]
    assert '"a \\"b\\" <c> & \\\\d #1"' in dot(items)
    assert 'n0["a #34;b#34; #60;c#62; #38; #92;d #35;1"]' in mermaid(items)
    assert 'a "b" <c> & \\d #1' in [node.text for node in ET.fromstring(svg(items)).iter()]


# ---- execute


def test_execute_tells_people_on_stderr(run: Cli) -> None:
    result = run("execute", "mine.yaml")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "mine: 2 selected of " in result.stderr
    assert " → " in result.stderr
    assert "(smaller is better)" in result.stderr
    assert "RUN " in result.stderr
    (folder,) = Path("runs").iterdir()
    assert str(folder) in result.stderr
    assert {p.name for p in folder.iterdir()} == {"report.json", "report.html", "recipe.json", "rows.parquet"}


def test_execute_json_is_one_object_or_a_list(run: Cli) -> None:
    one = json.loads(run("execute", "mine.yaml", "--json", "--no-html", "-q").stdout)
    assert set(one) == {
        "name", "run_dir", "report", "recipe", "run_seconds", "run_stored_seconds", "never_tried",
        "selected", "features", "metric", "difference",
    }  # fmt: skip
    result = run("execute", "mine.yaml", "mine.yaml", "--json", "--no-html", "-q", "--jobs", "2")
    assert result.stderr == ""
    two = json.loads(result.stdout)
    assert [r["selected"] for r in two] == [one["selected"]] * 2
    assert len(list(Path("runs").iterdir())) == 3


def test_execute_in_a_process_of_its_own_prints_pure_json(run: Cli, tmp_path: Path) -> None:
    result = subprocess_run("execute", "mine.yaml", "--json", "--no-html", cwd=tmp_path)
    assert result.returncode == 0
    assert json.loads(result.stdout)["name"] == "mine"
    assert "Traceback" not in result.stderr
    assert "\x1b" not in result.stderr


def test_a_mistake_in_the_last_spec_costs_nothing(run: Cli) -> None:
    assert run("execute", "mine.yaml", "nosuch").exit_code == 2
    assert not Path("runs").exists()


def test_progress_in_lines_is_rare_and_tells_rate_and_remaining_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    listener = Lines()
    listener(Event("r", "halving", "started", 0, 100))
    for done in range(1, 11):
        now += 1
        listener(Event("r", "halving", "advanced", done, 100))
    listener(Event("r", "halving", "finished", 10, 100))
    assert capsys.readouterr().err.splitlines() == [
        "r: halving 5 of 100, 1.0/s, about 95 s left",
        "r: halving 10 of 100, 1.0/s, about 90 s left",
        "r: halving took 10.0 s",
    ]
    assert describe(Event("r", "s", "advanced", 4, None), 2.0) == "4 done, 2.0/s"
    assert describe(Event("r", "s", "advanced", 2, 5), 50.0) == "2 of 5, 25.0 s each, about 75 s left"
    assert describe(Event("r", "s", "advanced", 2, 5), 0.0) == "2 done"


def test_bars_are_for_whoever_asks_for_them(capsys: pytest.CaptureFixture[str]) -> None:
    with scopefe.progress() as listener:
        listener(Event("r", "halving", "started", 0, 2))
        listener(Event("r", "halving", "advanced", 1, 2))
        listener(Event("r", "probe", "started"))
        listener(Event("r", "probe", "advanced", 7))
        listener(Event("r", "halving", "finished", 2, 2))
        listener(Event("r", "probe", "finished"))
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "took" not in shown.out


# ---- components, schema


def test_components_lists_every_registry(run: Cli) -> None:
    result = run("components", "--module", "ops.py")
    assert result.exit_code == 0, result.stderr
    for text in (
        "operators",
        "pair gates",
        "operator gates",
        "GroupByThenMean",
        "ratio_of_logs",
        "hard-intra",
    ):
        assert text in result.stdout
    listed = json.loads(run("components", "--json").stdout)
    assert list(listed) == ["operators", "pair_gates", "operator_gates"]
    assert len(listed["operators"]) == 23


def test_components_show(run: Cli) -> None:
    text = run("components", "show", "ratio_of_logs", "--module", "ops.py").stdout
    assert "numeric × numeric → numeric" in text
    assert "log|a| over log|b|." in text
    assert "ops.py:6" in text
    text = run("components", "show", "probe").stdout
    assert "ratio: number > 0 ≤ 1, default 0.2" in text
    assert "Share of the rows" in text
    assert "match: spec or null, default null" in run("components", "show", "random-pair").stdout
    assert "use: list of text, required" in run("components", "show", "list").stdout
    assert [c["sort"] for c in json.loads(run("components", "show", "all", "--json").stdout)] == [
        "pair gate",
        "operator gate",
    ]
    result = run("components", "show", "hard-infra")
    assert result.exit_code == 2
    assert result.stderr == "error: unknown component 'hard-infra'; did you mean 'hard-intra'?\n"


def test_schema(run: Cli) -> None:
    schema = json.loads(run("schema").stdout)
    assert schema["title"] == "scopefe spec"
    assert run("schema", "-o", "s.json", "--module", "ops.py").stdout == ""
    assert "ratio_of_logs" in Path("s.json").read_text()
    assert "ratio_of_logs" not in json.dumps(schema)


# ---- report, transform


@pytest.fixture
def folder(run: Cli) -> Path:
    settings = ["--set", "scope.operators={gate: list, use: ['*', freq]}", "--set", "evaluation.seeds=0"]
    return Path(json.loads(run("execute", "mine.yaml", *settings, "--json", "--no-html").stdout)["run_dir"])


def test_report_is_rendered_again(run: Cli, folder: Path) -> None:
    assert run("report", folder).exit_code == 0
    assert (folder / "report.html").read_text().startswith("<!")
    assert run("report", folder / "report.json", "-o", "other.html").exit_code == 0
    assert Path("other.html").read_text() == (folder / "report.html").read_text()


def test_report_that_cannot_be_read(run: Cli, folder: Path) -> None:
    source = folder / "report.json"
    text = source.read_text()
    cases = {
        "is no report": "{",
        "is no report: TypeError": "[]",
        "has report version 2; this scopefe reads version 1": text.replace(
            '"report_version": 1', '"report_version": 2'
        ),
        "is damaged: seed: ": text.replace('\n "seed": 1', '\n "seed": "x"'),
    }
    for says, damaged in cases.items():
        source.write_text(damaged)
        result = run("report", folder)
        assert (result.exit_code, len(result.stderr.splitlines())) == (3, 1)
        assert says in result.stderr
    assert run("report", "nosuch").stderr == "error: there is no report 'nosuch'\n"
    assert not (folder / "report.html").exists()


@pytest.mark.parametrize("suffix", ["csv", "parquet", "feather"])
def test_transform(run: Cli, folder: Path, suffix: str) -> None:
    out = f"out.{suffix}"
    assert run("transform", folder, "table.csv", "-o", out).exit_code == 0
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "feather": pd.read_feather}[suffix]
    frame: pd.DataFrame = read(out)  # type: ignore[operator]
    original = pd.read_csv("table.csv")
    pd.testing.assert_frame_equal(frame[list(original)], original)
    assert "a_times_b" in frame
    np.testing.assert_allclose(frame["a_times_b"], original["a"] * original["b"])
    assert run("transform", folder / "recipe.json", out, "-o", f"new.{suffix}", "--only-new").exit_code == 0
    assert list(read(f"new.{suffix}")) == list(frame)[len(original.columns) :]  # type: ignore[operator]
    again = run("transform", folder, out, "-o", out)
    assert again.exit_code == 3
    assert "already has a column" in again.stderr


def test_transform_to_stdout(run: Cli, folder: Path) -> None:
    assert run("transform", folder, "table.csv", "-o", "out.csv", "--only-new").exit_code == 0
    result = run("transform", folder, "table.csv", "--only-new")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == Path("out.csv").read_text()


def test_transform_keeps_the_index_of_a_parquet_table(run: Cli, folder: Path) -> None:
    table().set_index(pd.Index(range(7, 247), name="row")).to_parquet("in.parquet")
    assert run("transform", folder, "in.parquet", "-o", "out.feather").exit_code == 0
    assert list(pd.read_feather("out.feather").index[:2]) == [7, 8]


def test_transform_that_does_not_fit(run: Cli, folder: Path) -> None:
    table().drop(columns="a").to_csv("less.csv", index=False)
    result = run("transform", folder, "less.csv", "-o", "out.csv")
    assert result.exit_code == 3
    assert "no column 'a'" in result.stderr
    assert run("transform", "nosuch.json", "table.csv", "-o", "out.csv").exit_code == 3
    assert run("transform", folder, "nosuch.csv", "-o", "out.csv").exit_code == 3
    assert run("transform", folder, "ops.py", "-o", "out.csv").exit_code == 3
    assert run("transform", folder, "table.csv", "-o", "out.xlsx").exit_code == 2
    assert not list(Path().glob("*out*"))


def test_transform_with_an_operator_of_ones_own(run: Cli) -> None:
    args = ["--module", "ops.py", "--set", "operators.use=[ratio_of_logs]", "--set", "evaluation.seeds=0"]
    folder = json.loads(run("execute", "mine.yaml", *args, "--json", "--no-html").stdout)["run_dir"]
    result = run("transform", folder, "table.csv", "-o", "out.csv")
    assert result.exit_code == 3
    assert "needs an operator of yours, 'ratio_of_logs': name its module (--module" in result.stderr
    assert run("transform", folder, "table.csv", "-o", "out.csv", "--module", "ops.py").exit_code == 0


# ---- explain, freeze, export


def test_explain(run: Cli, folder: Path) -> None:
    result = run("explain", folder)
    assert (result.exit_code, result.stderr) == (0, "")
    told = result.stdout.split("\n\n")[0].splitlines()
    assert told[:2] == ["1. a_times_b", "   Product of a and b."]
    lines = {line[3:15].strip(): line[15:] for line in told[2:]}
    assert lines["inputs"] == "a (numerical), b (numerical)"
    assert (lines["formula"], lines["LaTeX"]) == ("(a*b)", r"\text{a} \cdot \text{b}")
    assert float(lines["gain"]) > 0 and float(lines["importance"]) > 0
    assert re.fullmatch(r"192 rows, \d\.\d % missing, \d+ distinct", lines["values"])
    assert lines[""].startswith("min -")


def test_explain_as_json(run: Cli, folder: Path) -> None:
    document = json.loads(run("explain", folder / "recipe.json", "--json").stdout)
    assert set(document) == {"name", "key", "features"}
    first = document["features"][0]
    assert list(first) == ["rank", "name", "formula", "words", "latex", "operator", "inputs", "gain",
                           "importance", "distribution"]  # fmt: skip
    assert first["inputs"] == [{"name": n, "kind": "numerical"} for n in "ab"]
    found = first["distribution"]
    assert list(found) == ["count", "missing", "distinct", "min", "quartiles", "max"]
    values = scopefe.Recipe.load(folder / "recipe.json").transform(table())["a_times_b"]
    assert found["min"] >= values.min() and found["max"] <= values.max()


def test_explain_what_has_no_words_of_its_own(run: Cli) -> None:
    args = ["--module", "ops.py", "--set", "operators.use=[ratio_of_logs]", "--set", "evaluation.seeds=0"]
    folder = json.loads(run("execute", "mine.yaml", *args, "--json", "--no-html").stdout)["run_dir"]
    text = run("explain", folder, "--module", "ops.py").stdout
    assert re.search(r"^   ratio_of_logs of \w+ and \w+: log\|a\| over log\|b\|\.$", text, re.MULTILINE)
    assert r"\operatorname{ratio\_of\_logs}(\text{" in text
    for to in ("sql", "python"):
        result = run("export", folder, "--to", to, "--module", "ops.py")
        assert (result.exit_code, len(result.stderr.splitlines())) == (3, 1)
        assert f"operators with {to} or a lookup, but 'ratio_of_logs' gives neither" in result.stderr


def test_a_name_with_a_line_break_stays_on_its_line(run: Cli) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a\nb": rng.normal(size=200), "c\t": rng.normal(size=200)})
    frame.assign(y=frame["a\nb"] * frame["c\t"]).to_csv("odd.csv", index=False)
    Path("odd.yaml").write_text(
        "name: odd\ndata: {source: odd.csv, target: y}\noperators: {use: ['*']}\nevaluation: {seeds: 0}\n"
    )
    done = run("execute", "odd.yaml", "--json", "--no-html")
    assert r"1. (a\nb*c\t)" in done.stderr
    told = run("explain", json.loads(done.stdout)["run_dir"]).stdout.splitlines()
    assert told[0] == "1. a_b_times_c"
    assert r"   formula     (a\nb*c\t)" in told
    assert "wrote" in run("init", "odd.csv", "--target", "y", "-o", "made.yaml").stderr


def test_explain_categories(run: Cli) -> None:
    frame = pd.DataFrame({"k": ["a", "b", "a", None], "o": [1.0, 2.0, 1.0, 3.0]})
    encoded = encode(frame, np.arange(4))
    operator = scopefe.registry.components().operators["Combine"]
    chosen = [(Apply("Combine", (Leaf("k"), Leaf("o")), True), operator, 0.5, 1.0)]
    described(fit_recipe("n", "k", encoded, chosen), encoded).save("r.json")
    lines = run("explain", "r.json").stdout.splitlines()[-3:]
    assert [line.split(None, 1)[-1].strip() for line in lines] == [
        "4 rows, 25.0 % missing, 2 categories", "(a, 1.0): 2 rows", "(b, 2.0): 1 rows",
    ]  # fmt: skip
    found = json.loads(run("explain", "r.json", "--json").stdout)["features"][0]["distribution"]
    assert found["most_frequent"][0] == {"category": 0, "rows": 2, "labels": ["a", "1.0"]}
    fit_recipe("n", "k", encoded, []).save("none.json")
    result = run("explain", "none.json")
    assert (result.stdout, result.stderr) == ("", "the recipe has no features\n")


def test_a_frozen_spec_runs(run: Cli, folder: Path) -> None:
    Path("specs").mkdir()
    result = run("freeze", folder, "--spec", "mine.yaml", "-o", "specs/frozen.yaml")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "wrote specs/frozen.yaml\n")
    assert "extends: ../mine.yaml" in Path("specs/frozen.yaml").read_text()
    done = json.loads(run("execute", "specs/frozen.yaml", "--json", "--no-html").stdout)
    assert sorted(done["selected"]) == sorted(scopefe.Recipe.load(folder / "recipe.json").formulas)
    text = run("freeze", folder).stdout
    assert "extends" not in text and "--with" in text
    Path("alone.yaml").write_text(text)
    assert "data.target is missing" in run("validate", "alone.yaml").stderr
    Path("data.yaml").write_text("data: {source: table.csv, target: target}\n")
    counted = json.loads(
        run("compile", "alone.yaml", "--with", "data.yaml", "--no-estimate", "--json").stdout
    )
    assert counted[0]["pool"]["raw"] == len(done["selected"])
    assert "extends: openfe\n" in run("freeze", folder, "--spec", "openfe").stdout
    result = run("freeze", folder, "--spec", "mne.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "error: there is no spec 'mne.yaml'; did you mean 'mine.yaml'?\n"


def test_a_frozen_spec_names_modules(run: Cli) -> None:
    args = ["--module", "ops.py", "--set", "operators.use=[ratio_of_logs]", "--set", "evaluation.seeds=0"]
    folder = json.loads(run("execute", "mine.yaml", *args, "--json", "--no-html").stdout)["run_dir"]
    Path("specs").mkdir()
    run("freeze", folder, "--spec", "mine.yaml", "--module", "ops.py", "-o", "specs/frozen.yaml")
    assert "modules: [../ops.py]" in Path("specs/frozen.yaml").read_text()
    assert run("validate", "specs/frozen.yaml").exit_code == 0


def test_export(run: Cli, folder: Path) -> None:
    text = run("export", folder, "--to", "json").stdout
    assert json.loads(text) == json.loads((folder / "recipe.json").read_text())
    text = run("export", folder, "--to", "python").stdout
    assert "def transform(frame: pd.DataFrame)" in text and "import scopefe" not in text
    for to, name in (("json", "r.json"), ("python", "features.py")):
        result = run("export", folder, "--to", to, "-o", name)
        assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"wrote {name}\n")
    assert Path("features.py").read_text() == text
    assert not list(Path().glob(".*"))


def test_export_without_some_features(run: Cli) -> None:
    encoded, known = encode(table(), np.arange(100)), scopefe.registry.components().operators
    asked = [("*", "a", "b"), ("/", "b", "a"), ("abs", "b")]
    chosen = [(Apply(o, tuple(map(Leaf, inputs))), known[o], 0.5, 1.0) for o, *inputs in asked]
    fit_recipe("n", "k", encoded, chosen).save("r.json")
    args = ["export", "r.json", "--to", "json"]
    told = json.loads(run(*args, "--without", "a_times_b", "--without", "(b/a)").stdout)
    assert [f["name"] for f in told["features"]] == ["abs_b"]
    assert [i["name"] for i in told["inputs"]] == ["b"]
    result = run(*args, "--without", "a_tmes_b")
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == "error: the recipe has no feature 'a_tmes_b'; did you mean 'a_times_b'?\n"


def test_export_to_sql(run: Cli, folder: Path) -> None:
    pytest.importorskip("sqlglot")
    result = run("export", folder, "--to", "sql", "--table", "houses", "--keep", "a", "--keep", "b")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "FROM houses" in result.stdout
    assert 'keep1 AS "a",\n  keep2 AS "b",' in result.stdout
    args = ["--dialect", "bigquery", "--create-tables", "-o", "q.sql"]
    assert run("export", folder, "--to", "sql", *args).stderr == "wrote q.sql\n"
    assert "FLOAT64" in Path("q.sql").read_text()


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["--to", "sqll"], 2, "error: unknown format 'sqll'; did you mean 'sql'?"),
        (["--to", "sql", "--dialect", "duck"], 2, "error: unknown dialect 'duck'; did you mean 'duckdb'?"),
        (
            ["--to", "sql", "--keep", "a_times_b"],
            3,
            "error: the column to keep 'a_times_b' has the name of a feature",
        ),
        (["--to", "json", "--dialect", "duckdb"], 2, "Error: --dialect is for --to sql"),
        (["--to", "python", "--create-tables"], 2, "Error: --create-tables is for --to sql"),
        ([], 2, "Error: Missing option '--to'."),
        (["--to", "json", "-o", "no/r.json"], 2, "there is no folder 'no'"),
    ],
)
def test_export_that_does_not_fit(run: Cli, folder: Path, args: list[str], code: int, says: str) -> None:
    pytest.importorskip("sqlglot")
    before = sorted(Path().iterdir())
    result = run("export", folder, *args)
    assert (result.exit_code, result.stdout) == (code, "")
    assert says in result.stderr.splitlines()[-1]
    assert sorted(Path().iterdir()) == before


@pytest.mark.parametrize("command", [["explain"], ["freeze"], ["export", "--to", "json"]])
def test_recipes_that_cannot_be_read(run: Cli, command: list[str]) -> None:
    result = run(*command, "nosuch.json")
    assert (result.exit_code, result.stderr) == (3, "error: there is no recipe 'nosuch.json'\n")


SCRIPT = Path(sys.executable).with_name("scopefe")


@pytest.mark.skipif(not SCRIPT.exists(), reason="scopefe is not installed")
def test_the_console_script_has_exit_codes(run: Cli, tmp_path: Path) -> None:
    codes = [
        subprocess.run([SCRIPT, *args], capture_output=True, cwd=tmp_path, timeout=60).returncode
        for args in (
            ["validate", "mine.yaml"],
            ["validate", "nosuch"],
            ["init", "nosuch.csv", "--target", "y"],
        )
    ]
    assert codes == [0, 2, 3]
