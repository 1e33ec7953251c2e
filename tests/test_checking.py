"""Checks of operators of one's own: each fault is found, and sound operators pass."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from scopefe.operators import DEFAULT

from scopefe import ComponentError, check_operators
from scopefe.cli.main import cli

HEAD = "import numpy as np\nfrom scopefe import CAT, NUM, Lookup, operator\n\n"
FAULTS = {
    "fails": (
        '@operator("own", takes=(NUM,))\ndef own(x):\n    raise ValueError("no\\nmore")\n',
        ["fails: ValueError: no"],
    ),
    "one row": (
        '@operator("own", takes=(NUM,))\ndef own(x):\n    return x if x[7] is not None else x\n',
        [
            "fails on one row: IndexError: index 7 is out of bounds for axis 0 with size 1",
            "fails on no rows: IndexError: index 7 is out of bounds for axis 0 with size 0",
            "fails on missing values only: IndexError: index 7 is out of bounds for axis 0 with size 3",
            "fails for a row alone: IndexError: index 7 is out of bounds for axis 0 with size 1",
        ],
    ),
    "infinite": (
        '@operator("own", takes=(NUM,))\nclass Own:\n    """Own."""\n'
        '    def fit(self, x):\n        return {"m": np.array([np.nanmean(x)])}\n'
        '    def apply(self, state, x):\n        return x - state["m"][0]\n',
        ["gives nothing but missing values if a fitted number is infinite"],
    ),
    "nothing": (
        '@operator("own", takes=(NUM,))\ndef own(x):\n    return np.full(len(x), np.nan)\n',
        ["gives nothing but missing values"],
    ),
    "inputs": (
        '@operator("own", takes=(NUM,))\ndef own(x):\n    x[:] = np.abs(x)\n    return x + 1\n',
        ["changes its inputs"],
    ),
    "symmetric": (
        '@operator("own", takes=(NUM, NUM), symmetric=True)\ndef own(a, b):\n    return a - b\n',
        ["is declared symmetric, but the order of its inputs matters"],
    ),
    "batch": (
        '@operator("own", takes=(NUM,))\ndef own(x):\n    return x + len(x)\n',
        ["for a row alone, 16 of 20 values are others: "],
    ),
    "saved": (
        '@operator("own", takes=(NUM,))\nclass Own:\n    """Own."""\n'
        '    def fit(self, x):\n        self.m = 3.0\n        return {}\n'
        '    def apply(self, state, x):\n        return x * getattr(self, "m", 1.0)\n',
        ["after being saved, "],
    ),
    "python": (
        '@operator("own", takes=(NUM,), python="{0} + 1")\ndef own(x):\n    return x + 2\n',
        ["in Python, 56 of 60 values are others: 1 instead of 2 for x = 0.0"],
    ),
    "sql": (
        '@operator("own", takes=(NUM,), sql="{0} % 9", python="{0} % 9")\ndef own(x):\n    return x % 9\n',
        ["in SQL, "],
    ),
    "lookup": (
        '@operator("own", takes=(NUM, CAT))\nclass Own:\n    """Own."""\n'
        '    def fit(self, x, keys):\n        return {"labels": keys.labels, "n": keys.counts}\n'
        '    def apply(self, state, x, keys):\n'
        '        return np.append(state["n"], 0.0)[keys.coded_as(state["labels"])]\n'
        '    def lookup(self, state):\n        return Lookup({1: state["labels"]}, state["n"], default=0)\n',
        ["in Python, 6 of 60 values are others: nan instead of 0 ", "in SQL, 6 of 60 values are others: nan"],
    ),
}  # fmt: skip


def module(tmp_path: Path, text: str) -> str:
    path = tmp_path / "own.py"
    path.write_text(HEAD + text)
    return str(path)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault, tmp_path):
    if fault in ("sql", "lookup"):
        pytest.importorskip("duckdb")
        pytest.importorskip("sqlglot")
    text, expected = FAULTS[fault]
    (checked,) = check_operators([module(tmp_path, text)])
    assert checked.operator == "own"
    assert len(checked.problems) == len(expected), checked.problems
    for problem, start in zip(checked.problems, expected, strict=True):
        assert problem.startswith(start)


def test_sound_operators_pass():
    examples = str(Path(__file__).parent.parent / "docs" / "examples" / "my_operators.py")
    for checked in (*check_operators([examples]), *check_operators([], DEFAULT)):
        assert checked.problems == [], checked


def test_what_cannot_be_checked_is_said(tmp_path):
    text = '@operator("own", takes=(NUM,))\ndef own(x, *, q: float):\n    return x * q\n'
    (checked,) = check_operators([module(tmp_path, text)])
    assert (checked.problems, checked.remarks) == ([], ["not checked: no default for q"])
    with pytest.raises(ComponentError, match="there is no operator to check"):
        check_operators([])
    with pytest.raises(ComponentError, match="unknown operator 'nothing'"):
        check_operators([], ["nothing"])


def test_the_command_says_what_is_wrong_and_exits_with_1(tmp_path):
    wrong = module(tmp_path, FAULTS["nothing"][0])
    run = CliRunner().invoke(cli, ["components", "check", "--module", wrong, "--json"])
    assert run.exit_code == 1
    assert run.stderr.startswith("own: not as it should be\n  gives nothing but missing values\n")
    assert [f["operator"] for f in json.loads(run.stdout)] == ["own"]
    run = CliRunner().invoke(cli, ["components", "check", "abs"])
    assert (run.exit_code, run.stdout, run.stderr) == (0, "", "abs: ok\n")
