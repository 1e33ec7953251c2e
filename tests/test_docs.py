"""The documentation: every example runs, outputs shown are those printed, no key or field is left out."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from conftest import VARIABLE, find_data_folder
from pydantic import BaseModel
from ruamel.yaml import YAML
from scopefe.operators import DEFAULT

import scopefe
from scopefe import registry
from scopefe.cli.main import COMMANDS, cli
from scopefe.data.datetimes import TimePart
from scopefe.data.kinds import encode
from scopefe.recipe.arrays import LARGE
from scopefe.recipe.fitting import described, fit_recipe
from scopefe.recipe.recipe import RECIPE_VERSION
from scopefe.report import model
from scopefe.space.expression import Apply, Leaf
from scopefe.spec.models import Section, Spec

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "docs" / "examples"
MEASURED = {"results.md", "performance.md"}
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").glob("*.md") if p.name not in MEASURED)]
LINKED = [*PAGES, ROOT / "CHANGELOG.md", *sorted(ROOT / "docs" / name for name in MEASURED)]
SPECS, RUNS, RECIPES = (ROOT / "docs" / name for name in ("specs.md", "runs.md", "recipes.md"))

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STEPS = (
    "data|pairs|gate baseline|operators|kernels|pool|estimate|baseline|halving|attribution|openfe|recipe|"
    "evaluation|worth|audit|choice|controls|fresh|study"
)
PROGRESS = re.compile(rf"^\S+: ({STEPS})\b.*")
ANYTHING = "…"


@dataclass(frozen=True)
class Example:
    """A fenced block of a page."""

    place: str
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The file that the first line, a comment, says it is."""
        found = re.match(r"# (\S+\.(?:yaml|py))\b", self.text)
        return found[1] if found else None


def examples(page: Path) -> list[Example]:
    text = page.read_text(encoding="utf-8")
    return [
        Example(f"{page.name}:{text[: m.start()].count(chr(10)) + 1}", m[1], m[2])
        for m in BLOCK.finditer(text)
    ]


def plain(text: str) -> Any:
    return YAML(typ="safe", pure=True).load(text)


def lines(text: str) -> list[str]:
    shown = (re.sub(r"≈ [\d.]+ \w+", "≈", " ".join(line.split())) for line in text.splitlines())
    return [line for line in shown if line and not PROGRESS.match(line)]


def masked(shown: list[str]) -> list[str]:
    """Leave out of what a run prints what a machine or a version of LightGBM may change."""
    result = []
    for line in shown:
        line = re.sub(r"\d{8}-\d{6}(-\d+)?", "TIME", line)
        line = re.sub(r"-?\d+\.\d+(e-?\d+)?", "NUMBER", line)
        line = re.sub(r'^"[^"]+"(,?)$', r'"FORMULA"\1', line)
        result.append(re.sub(r"^(\d+)\. .*", r"\1. FORMULA", line))
    return result


def assert_shown(printed: list[str], shown: list[str], place: str) -> None:
    """Compare what a page shows with what was printed; a line … stands for any lines."""
    parts: list[list[str]] = [[]]
    for line in shown:
        if line == ANYTHING:
            parts.append([])
        else:
            parts[-1].append(line)
    assert printed[: len(parts[0])] == parts[0], place
    if len(parts) == 1:
        assert printed == shown, place
    elif parts[-1]:
        assert printed[-len(parts[-1]) :] == parts[-1], place


@dataclass
class Reader:
    """Someone who follows a page, block by block, in a copy of docs/examples."""

    monkeypatch: pytest.MonkeyPatch
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "page"})
    printed: str | None = None
    exit_code: int = 0

    def follow(self, example: Example) -> None:
        printed, self.printed = self.printed, None
        match example.language:
            case "python":
                self.python(example)
            case "text":
                assert printed is not None, f"{example.place}: no output to compare with"
                assert_shown(lines(printed), lines(example.text), example.place)
            case "yaml":
                self.yaml(example)
            case "console":
                self.console(example)
            case "toml":
                tomllib.loads(example.text)
            case other:
                assert other == "", f"{example.place}: a block in an unknown language"

    def python(self, example: Example) -> None:
        if example.file:
            body = example.text.partition("\n")[2]
            assert body in (EXAMPLES / example.file).read_text(encoding="utf-8"), example.place
            return
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(compile(example.text, example.place, "exec"), self.names)
        self.printed = output.getvalue()

    def yaml(self, example: Example) -> None:
        content = plain(example.text)
        path = Path(example.file or "example.yaml")
        if (EXAMPLES / path).exists():
            assert content == plain((EXAMPLES / path).read_text(encoding="utf-8")), example.place
        else:
            path.write_text(example.text, encoding="utf-8")
        if "mistake" in example.text.partition("\n")[0]:
            with pytest.raises(scopefe.SpecError):
                scopefe.load_spec(path)
            return
        assert {"data", "extends"} & set(content), f"{example.place}: not a whole spec"
        spec = scopefe.load_spec(path, overrides=[] if "name" in content else ["name=fragment"])
        compiled = scopefe.compile(spec, static=spec.data.source.type == "frame")
        assert compiled.pool_size, example.place

    def console(self, example: Example) -> None:
        commands: list[tuple[str, list[str]]] = []
        for line in example.text.splitlines():
            if line.startswith("$ "):
                commands.append((line[2:], []))
            else:
                commands[-1][1].append(line)
        exits = [int(output[0]) for command, output in commands if command == "echo $?"]
        for command, output in commands:
            place = f"{example.place}: {command}"
            name = command.removeprefix("export ").partition("=")[0]
            if command == "echo $?":
                assert self.exit_code == int(output[0]), place
            elif command.startswith("export "):
                assert name == VARIABLE, place
                folder = find_data_folder()
                if folder is None:
                    return
                self.monkeypatch.setenv(name, str(folder))
            else:
                self.scopefe(command, "\n".join(output), place, may_fail=bool(exits))

    def scopefe(self, command: str, shown: str, place: str, *, may_fail: bool) -> None:
        program, *arguments = shlex.split(command)
        assert program == "scopefe", place
        result = CliRunner().invoke(cli, arguments)
        self.exit_code = result.exit_code
        assert may_fail or result.exit_code == 0, f"{place}\n{result.output}"
        if shown:
            printed = lines(result.stdout) + lines(result.stderr)
            if arguments[0] == "execute" and not result.exit_code:
                assert_shown(masked(printed), masked(lines(shown)), place)
            else:
                assert_shown(printed, lines(shown), place)


@pytest.mark.tables
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(EXAMPLES, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    reader = Reader(monkeypatch)
    with registry.collecting(registry.Components(registry.components())):
        for example in examples(page):
            reader.follow(example)


@pytest.mark.parametrize("page", LINKED, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`]*`", "code", re.sub(BLOCK, "", page.read_text(encoding="utf-8")))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:", link):
            assert (page.parent / link.partition("#")[0]).exists(), link


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from models_in(argument)


def spec_keys(section: type[BaseModel], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every key of a spec with its default; keys of gates and operators are components' business."""
    for name, info in section.model_fields.items():
        key = f"{path}{name}"
        yield key, ... if info.is_required() else info.get_default(call_default_factory=True)
        if key in ("scope.pairs", "scope.operators", "operators.use"):
            continue
        for inner in models_in(info.annotation):
            if issubclass(inner, Section):
                yield from spec_keys(inner, f"{key}.")


def rows(text: str) -> list[list[str]]:
    """Return the cells of the tables of a page."""
    return [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in text.splitlines()
        if line.startswith("| ")
    ]


def test_every_key_of_a_spec_is_documented_with_its_default() -> None:
    known: dict[str, list[Any]] = {}
    for key, default in spec_keys(Spec):
        known.setdefault(key, []).append(default)
    sections = {key for key in known if any(other.startswith(f"{key}.") for other in known)}
    documented: dict[str, list[str]] = {}
    for cells in rows(SPECS.read_text(encoding="utf-8").partition("## Every key")[2]):
        if len(cells) == 3 and re.fullmatch(r"`[a-z_.]+`", cells[0]):
            documented.setdefault(cells[0].strip("`"), []).append(cells[1])
    assert set(documented) - set(known) == {"extends"}
    assert set(known) - sections - set(documented) == set()
    for key in set(known) & set(documented) - sections:
        for shown in documented[key]:
            value = ... if shown == "–" else plain(shown.strip("`"))
            defaults = [_written(default) for default in known[key]]
            assert value in defaults, f"{key}: {shown} is not the default, which is {defaults}"


def _written(default: Any) -> Any:
    if isinstance(default, list):
        return [_written(item) for item in default]
    if isinstance(default, BaseModel):
        values = default.model_dump(mode="json", by_alias=True)
        return next(iter(values.values())) if len(values) == 1 else values
    return default


def test_every_gate_is_documented_with_its_parameters() -> None:
    known = registry.components()
    shown = {}
    for cells in rows(SPECS.read_text(encoding="utf-8")):
        found = re.fullmatch(r"(pairs|operators): `([\w-]+)`", cells[0])
        if found:
            shown[found[1], found[2]] = set(re.findall(r"`([^`]+)`", cells[1]))
    expected = {}
    for place, gates in (("pairs", known.pair_gates), ("operators", known.operator_gates)):
        for gate in gates:
            if gate.source.module.startswith("scopefe."):
                fields = gate.parameters.model_fields.items()
                expected[place, gate.name] = {
                    name if f.is_required() or f.default is None else f"{name}: {f.default}"
                    for name, f in fields
                }
    assert shown == expected


def test_every_built_in_operator_is_documented() -> None:
    page = (ROOT / "docs" / "components.md").read_text(encoding="utf-8")
    table = page.partition("## Built-in operators")[2]
    named = [name for cells in rows(table) for name in re.findall(r"`([^`]+)`", cells[0])]
    assert sorted(named) == sorted(DEFAULT)


def test_every_field_of_the_report_is_documented() -> None:
    text = RUNS.read_text(encoding="utf-8").partition("## report.json")[2]
    parts = re.split(r"\(`(\w+)`\)", text)
    documented = {
        name: [cells[0].strip("`") for cells in rows(section) if cells[0].startswith("`")]
        for name, section in zip(parts[1::2], parts[2::2], strict=True)
    }
    known = {
        name: list(part.model_fields)
        for name, part in vars(model).items()
        if isinstance(part, type) and issubclass(part, model.Part) and part is not model.Part
    }
    assert documented == known
    assert f"`report_version` is {model.REPORT_VERSION}" in text


def test_every_field_of_a_recipe_is_documented(tmp_path: Path) -> None:
    text = RECIPES.read_text(encoding="utf-8").partition("## The file")[2]
    documented = {name for cells in rows(text) for name in re.findall(r"`(\w+)`", cells[0])}
    frame = pd.DataFrame({"k": [f"t{i}" for i in range(LARGE + 1)]})
    table = encode(frame, np.arange(len(frame)))
    known = registry.components().operators
    asked = [("freq", "k"), ("Combine", "k", "k")]
    chosen = [(Apply(o, tuple(map(Leaf, i))), known[o], 1.0, 1.0) for o, *i in asked]
    fitted = fit_recipe("n", "k", table, chosen, time_parts={"k": TimePart("when", "month", "UTC")})
    recipe = described(fitted, table)
    document = json.loads(recipe.save(tmp_path / "r.json").read_text("utf-8"))
    features = document["features"]
    parts = [document, *document["inputs"], *features, *(f["distribution"] for f in features)]
    assert set().union(*parts) == documented
    assert f"`recipe_version` is {RECIPE_VERSION}" in text


def test_every_command_and_option_is_documented() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name in COMMANDS:
        assert f"scopefe {name}" in text, name
        command = cli.get_command(None, name)  # type: ignore[arg-type]
        assert command is not None
        for parameter in command.params:
            options = [option for option in parameter.opts if option.startswith("--")]
            assert all(option in text or "-o" in parameter.opts for option in options), (name, options)


class Links(HTMLParser):
    """What a page of the site links to, and the places in it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.places: set[str | None] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.places.add(given.get("id"))
        self.found += [link for name in ("href", "src") if (link := given.get(name))]


def broken_links(site: Path) -> Iterator[tuple[str, str]]:
    pages = {page: Links(page) for page in site.rglob("*.html") if page.name != "404.html"}
    for page, links in pages.items():
        for link in links.found:
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (page.parent / unquote(url.path)).resolve() if url.path else page
            target = target / "index.html" if target.is_dir() else target
            places = pages[target].places if target in pages else set()
            if not target.is_file() or (url.fragment and unquote(url.fragment) not in places):
                yield str(page.relative_to(site)), link


def test_the_site_builds_strictly(tmp_path, monkeypatch):
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(broken_links(tmp_path)) == []
    page = (tmp_path / "reference" / "components" / "index.html").read_text(encoding="utf-8")
    assert all(f">{name}<" in page for name in ("GroupByThenMean", "hard-intra", "quantised"))
