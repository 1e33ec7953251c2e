"""Loading specs: merging, marks, paths, environment, components, and the wording of every error."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scopefe import registry
from scopefe.data.source import read
from scopefe.errors import ComponentError, Mark, SpecError, UnknownNameError
from scopefe.spec import Spec, load_spec
from scopefe.spec.check import gate_parameters, resolved_operators
from scopefe.spec.document import from_python, merge
from scopefe.spec.loader import shipped_specs
from scopefe.spec.models import AnyOf, ColumnSplit, FileSource, GateUse, Not

MINIMAL = {"name": "a", "data": {"source": "x.csv", "target": "y"}, "operators": {"use": ["t_sum"]}}

COMPONENTS = '''
from typing import Literal
from scopefe.components import CAT, NUM, SpecPath
from scopefe.registry import operator, operator_gate, pair_gate

@operator("t_key", takes=(CAT, CAT), gives=CAT)
def t_key(a, b):
    """Combines two columns."""

@operator("t_sum", takes=(NUM, NUM), symmetric=True)
def t_sum(a, b):
    """Adds."""

@operator("t_lag", takes=(NUM,))
def t_lag(a, *, steps: int = 1, fill: float | None = None):
    """Shifts."""

@pair_gate("t_pairs")
def t_pairs(context, scope, *, size: int = 16, linkage: Literal["average", "single"] = "average"):
    """Groups of columns."""

@pair_gate("t_random")
def t_random(context, scope, *, budget: int, match: SpecPath | None = None):
    """As many pairs."""

@pair_gate("t_any")
def t_any(context, scope):
    """Every pair."""

@operator_gate("t_probe")
def t_probe(context, scope, *, keep: int = 7, match: SpecPath = ""):
    """The best operators."""

@operator_gate("t_all")
def t_all(context, scope):
    """Every operator."""
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "parts.py").write_text(COMPONENTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> str:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return name


def spec_file(more: str = "", name: str = "s.yaml") -> str:
    text = """\
        name: s
        data:
          source: x.csv
          target: y
        operators:
          modules: [parts.py]
          use: [t_sum]
        scope: {pairs: t_any, operators: t_all}
        """
    return write(name, textwrap.dedent(text) + textwrap.dedent(more))


def error_of(spec: object, **more: object) -> str:
    with pytest.raises(SpecError) as caught:
        load_spec(spec, **more)  # type: ignore[arg-type]
    return str(caught.value)


def loaded(text: str, **more: object) -> Spec:
    return load_spec(spec_file(text), **more)  # type: ignore[arg-type]


SCOPE = {"pairs": "t_any", "operators": "t_all"}


def test_shortest_spec(folder: Path) -> None:
    spec = load_spec({**MINIMAL, "scope": SCOPE}, modules=["parts.py"])
    assert spec.data.source == FileSource(type="csv", path=str(folder / "x.csv"))
    assert spec.data.target.column == "y"
    assert spec.origin.path is None
    assert spec.origin.modules == ("parts.py",)
    assert spec.origin.mark("name") is None


def test_origin_remembers_and_takes_no_part(folder: Path) -> None:
    write("f.yaml", "selection: {keep: 5}\n")
    spec = loaded("", fragments=["f.yaml"], overrides=["seed=3"])
    origin = spec.origin
    assert origin.path == folder / "s.yaml"
    assert (origin.overrides, origin.fragments, origin.modules) == (("seed=3",), ("f.yaml",), ())
    assert origin.mark("data", "target") == Mark("s.yaml", 4, 11)
    assert origin.mark("data", "target", "column", "more") == Mark("s.yaml", 4, 11)
    assert origin.mark("selection", "keep") == Mark("f.yaml", 1, 19)
    assert origin.mark("seed") == Mark("override seed=3")
    assert "t_sum" in origin.components.operators
    assert spec == Spec.model_validate(spec.model_dump(by_alias=True))
    assert not {"origin", "_origin"} & set(spec.model_dump())


def test_without_loader_the_origin_is_empty() -> None:
    spec = Spec.model_validate(MINIMAL)
    assert spec.origin.path is None
    assert spec.origin.mark("data") is None
    assert spec.origin.components is registry.components()


# Merging


def test_extends_merges_deeply_and_in_order(folder: Path) -> None:
    spec_file(name="sub/base.yaml", more="selection: {keep: 5, min_candidates: 9}\nseed: 2\n")
    write("sub/parts.py", COMPONENTS)
    write("two.yaml", "selection: {min_candidates: 8}\ndata: {features: {drop: [a]}}\n")
    write(
        "top.yaml", "extends: [sub/base.yaml, two.yaml]\nname: top\nselection: {attribution: permutation}\n"
    )
    spec = load_spec("top.yaml")
    assert (spec.name, spec.seed) == ("top", 2)
    assert (spec.selection.keep, spec.selection.min_candidates) == (5, 8)
    assert spec.selection.attribution == "permutation"
    assert spec.data.source == FileSource(type="csv", path=str(folder / "sub" / "x.csv"))
    assert spec.operators.modules == [str(folder / "sub" / "parts.py")]
    assert spec.origin.mark("selection", "keep") == Mark("sub/base.yaml", 9, 19)


def test_fragments_then_overrides_have_the_last_word() -> None:
    write("f.yaml", "selection: {keep: 5}\nseed: 4\n")
    write("g.yaml", "selection: {keep: 6}\n")
    spec = loaded("seed: 2\n", fragments=["f.yaml", Path("g.yaml")], overrides=["selection.keep=7", "seed=8"])
    assert (spec.selection.keep, spec.seed) == (7, 8)
    assert loaded("seed: 2\n", fragments=["f.yaml", "g.yaml"]).selection.keep == 6


def test_extending_in_a_circle_names_the_chain() -> None:
    write("a.yaml", "extends: b.yaml\n")
    write("b.yaml", "name: b\nextends:\n  - a.yaml\n")
    assert error_of("a.yaml") == (
        "b.yaml:3:5: specs extend each other in a circle: a.yaml extends b.yaml extends a.yaml"
    )


def test_extending_what_is_not_there() -> None:
    write("a.yaml", "name: a\nextends: bsae.yaml\n")
    write("base.yaml", "seed: 1\n")
    assert error_of("a.yaml") == "a.yaml:2:10: there is no spec 'bsae.yaml'; did you mean 'base.yaml'?"
    write("a.yaml", "name: a\nextends: {a: 1}\n")
    assert error_of("a.yaml") == "a.yaml:2:10: extends: must be a file or a list of files"


def test_a_file_may_be_extended_twice_on_different_ways() -> None:
    spec_file(name="base.yaml")
    write("l.yaml", "extends: base.yaml\n")
    write("r.yaml", "extends: base.yaml\n")
    write("top.yaml", "extends: [l.yaml, r.yaml]\n")
    assert load_spec("top.yaml").name == "s"


@pytest.mark.parametrize(
    ("path", "base", "over", "result"),
    [
        ("data.split", {"by": "fractions", "train": 0.64}, {"by": "column"}, {"by": "column"}),
        ("data.split", {"train": 0.64}, {"by": "column"}, {"by": "column"}),
        ("data.split", {"by": "groups", "column": "g"}, {"seed": 2},
         {"by": "groups", "column": "g", "seed": 2}),
        ("data.split", {"seed": 1}, {"by": "fractions"}, {"seed": 1, "by": "fractions"}),
        ("data.source", {"type": "csv", "path": "a"}, {"type": "frame"}, {"type": "frame"}),
        ("data.source", {"type": "csv", "path": "a"}, {"path": "b.parquet"}, {"path": "b.parquet"}),
        ("data.source", {"type": "csv", "path": "a"}, {"path": "b"}, {"type": "csv", "path": "b"}),
        ("data.source", "a.csv", {"type": "frame"}, {"type": "frame"}),
        ("data.source", "a.txt", {"type": "csv"}, {"type": "csv", "path": "a.txt"}),
        ("data.target", "y", {"positive": [1]}, {"column": "y", "positive": [1]}),
        ("data.target", {"column": "y", "positive": [1]}, "z", "z"),
        ("scope.pairs", {"gate": "g", "size": 16}, {"gate": "h"}, {"gate": "h"}),
        ("scope.pairs", {"gate": "g", "size": 16}, {"size": 8}, {"gate": "g", "size": 8}),
        ("scope.pairs", {"gate": "g", "size": 16}, {"any": ["a"]}, {"any": ["a"]}),
        ("scope.pairs", {"any": ["a"]}, {"all": ["a"]}, {"all": ["a"]}),
        ("scope.pairs", {"any": ["a"]}, {"any": ["b", "c"]}, {"any": ["b", "c"]}),
        ("scope.pairs", {"not": {"gate": "g", "size": 1}}, {"not": {"gate": "h"}}, {"not": {"gate": "h"}}),
        ("scope.operators", "g", {"keep": 3}, {"gate": "g", "keep": 3}),
        ("data.features.kinds", {"type": "ordinal", "a": "ordinal"}, {"type": "categorical"},
         {"type": "categorical", "a": "ordinal"}),
        ("operators.use", ["a", "b"], ["c"], ["c"]),
    ],
)  # fmt: skip
def test_forms_replace_each_other(path: str, base: object, over: object, result: object) -> None:
    def at(value: object) -> dict[str, object]:
        for key in reversed(path.split(".")):
            value = {key: value}
        assert isinstance(value, dict)
        return value

    assert merge(from_python(at(base)), from_python(at(over))).plain() == at(result)


documents = st.recursive(
    st.integers() | st.text(max_size=3) | st.lists(st.integers(), max_size=2),
    lambda below: st.dictionaries(st.sampled_from("abcdefg"), below, max_size=4),
    max_leaves=12,
).map(lambda value: value if isinstance(value, dict) else {"a": value})


@given(documents, documents)
def test_merge_has_the_laws_of_layering(a: dict[str, object], b: dict[str, object]) -> None:
    x, y = from_python(a), from_python(b)
    assert merge(x, x).plain() == a
    assert merge(from_python({}), x).plain() == merge(x, from_python({})).plain() == a
    merged = merge(x, y).plain()
    assert merge(from_python(merged), y).plain() == merged
    assert set(merged) == set(a) | set(b)
    assert x.plain() == a
    scalars = {k: v for k, v in b.items() if not isinstance(v, dict)}
    assert scalars.items() <= merged.items()


@given(*[st.dictionaries(st.sampled_from("ab"), st.dictionaries(st.sampled_from("cd"), st.integers()))] * 3)
def test_layers_of_one_shape_may_be_merged_in_any_grouping(a: object, b: object, c: object) -> None:
    x, y, z = map(from_python, (a, b, c))
    assert merge(merge(x, y), z).plain() == merge(x, merge(y, z)).plain()


# Overrides


def test_overrides_are_yaml(folder: Path) -> None:
    spec = loaded(
        "",
        overrides=[
            "data.target.positive=[a, 1]",
            "data.features.missing_as=",
            "data.source={type: csv, path: sub/z.dat}",
            "baseline.boosting=false",
            "description=a=b",
            'data.features.kinds={"a.b": ordinal}',
            "data.features.kinds.7=categorical",
        ],
    )
    assert spec.data.target.positive == ["a", 1]
    assert spec.data.features.missing_as is None
    assert spec.data.source == FileSource(type="csv", path=str(folder / "sub" / "z.dat"))
    assert (spec.baseline.boosting, spec.description) == (False, "a=b")
    assert spec.data.features.kinds == {"a.b": "ordinal", "7": "categorical"}


@pytest.mark.parametrize("text", ["a.b", "=3", "a..b=3", ""])
def test_an_override_without_key_or_value(text: str) -> None:
    assert error_of(spec_file(), overrides=[text]) == (
        f"override {text}: write KEY=VALUE, such as selection.keep=20"
    )


def test_errors_in_overrides_name_them() -> None:
    spec = spec_file()
    assert error_of(spec, overrides=["selection.keep=x"]) == (
        "override selection.keep=x: selection.keep: must be 'auto' or 'all' or a whole number (got 'x')"
    )
    assert error_of(spec, overrides=["selection.kep=1"]) == (
        "override selection.kep=1: unknown key 'kep' in selection; did you mean 'keep'?"
    )
    assert error_of(spec, overrides=["seed=[1"]).startswith("override seed=[1: not valid YAML: ")


def test_what_a_file_lacks_is_not_put_down_to_an_override(folder: Path) -> None:
    (folder / "nameless.yaml").write_text("seed: 1\ndata: {target: y}\n", encoding="utf-8")
    said = error_of("nameless.yaml", overrides=["selection.keep=3", "data.task=binary"])
    assert said == "nameless.yaml:1:1: name is missing; write `name: my-run`"


# YAML


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "s.yaml: the file is empty; write at least `name` and `data`"),
        ("# nothing\n", "s.yaml: the file is empty; write at least `name` and `data`"),
        ("- a\n", "s.yaml:1:1: a spec is a mapping, such as `name: my-run`"),
        ("name: a\nseed: 1\nname: b\n", "s.yaml:3:1: the key 'name' is given twice, first at s.yaml:1:1"),
        (
            "name: a: b\n",
            "s.yaml:1:8: not valid YAML: mapping values are not allowed here; check the indentation, and "
            "quote text with ': ' in it",
        ),
        (
            "data:\n    source: a\n  target: b\n",
            "s.yaml:3:3: not valid YAML: this line does not belong to what is above; check its indentation",
        ),
        ("name:\n\t- a\n", "s.yaml:2:1: a tab where YAML wants spaces; indent with spaces"),
        ("name: a\n---\nname: b\n", "s.yaml:2:1: a second document starts here; a spec is one document"),
        ("use: [+, *, /]\n", "s.yaml:1:11: text that starts with * must be quoted: '*'"),
        (
            "name: @a\n",
            "s.yaml:1:7: not valid YAML: found character '@' that cannot start any token; quote the text",
        ),
        ("1: a\n", 's.yaml:1:1: the key 1 is not text; quote it: "1"'),
        ("[a]: a\n", "s.yaml:1:1: a key must be text, not a list or mapping"),
        ("name: &a [*a]\n", "s.yaml:1:7: an anchor contains itself"),
        ("name: !!int x\n", "s.yaml:1:7: not valid YAML: 'x' does not fit its tag"),
        ("<<: 3\n", "s.yaml:1:5: `<<` takes a mapping, or a list of mappings"),
    ],
)
def test_yaml_that_is_no_spec(text: str, message: str) -> None:
    assert error_of(write("s.yaml", text)) == message


def test_files_that_cannot_be_read(folder: Path) -> None:
    Path("l.yaml").write_bytes("name: a\ndescription: caf\xe9\n".encode("latin-1"))
    assert error_of("l.yaml") == "l.yaml: the file is not UTF-8 text (line 2); save it as UTF-8"
    Path("d").mkdir()
    assert error_of("d") == "'d' is a folder; name a YAML file in it"
    spec_file()
    assert error_of("t.yaml") == "there is no spec 't.yaml'; did you mean 's.yaml'?"
    assert error_of(folder / "t.yaml").endswith("did you mean '" + str(folder / "s.yaml") + "'?")
    assert "there is no spec" in error_of("x" * 5000)
    Path("c.yaml").write_bytes(b"name: \x01\n")
    assert error_of("c.yaml").startswith("c.yaml: not valid YAML: unacceptable character")
    Path("n.yaml").write_text("name: " + "[" * 5000)
    assert error_of("n.yaml") == "n.yaml: the document is nested too deeply"


def test_byte_order_mark_anchors_and_merge_keys() -> None:
    text = """\
        baseline: &b {folds: 3, max_trees: 7}
        selection: {keep: &k 4, min_candidates: *k}
        evaluation:
          <<: {seeds: 2, max_trees: 9}
          max_trees: 8
        """
    write("m.yaml", "\ufeff" + textwrap.dedent(text))
    spec = loaded("", fragments=["m.yaml"])
    assert (spec.baseline.folds, spec.selection.min_candidates) == (3, 4)
    assert (spec.evaluation.seeds, spec.evaluation.max_trees) == (2, 8)


def test_sections_with_everything_commented_out() -> None:
    spec = loaded("selection:\n  # keep: 3\nreport:\n")
    assert spec.selection.keep == 10


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)
@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=90))
def test_any_column_name_can_have_a_kind(name: str) -> None:
    quoted = "".join(f"\\U{ord(letter):08x}" for letter in name)
    write("k.yaml", f'data: {{features: {{kinds: {{"{quoted}": ordinal}}}}}}')
    assert loaded("", fragments=["k.yaml"]).data.features.kinds == {name: "ordinal"}


def test_unquoted_keys_of_kinds_are_text() -> None:
    write("k.yaml", "data: {features: {kinds: {1: ordinal, true: ordinal, 1.0: ordinal, type: ordinal}}}\n")
    assert list(loaded("", fragments=["k.yaml"]).data.features.kinds) == ["1", "true", "1.0", "type"]
    mapping = {**MINIMAL, "scope": SCOPE, "data": {"target": "y", "features": {"kinds": {1: "ordinal"}}}}
    assert load_spec(mapping, modules=["parts.py"]).data.features.kinds == {"1": "ordinal"}
    assert error_of({1: "a"}) == "the key 1 is not text"


# Structure


@pytest.mark.parametrize(
    ("fragment", "message"),
    [
        ("data:\n  splt: {train: 0.5}", "f.yaml:2:3: unknown key 'splt' in data; did you mean 'split'?"),
        ("sed: 1", "f.yaml:1:1: unknown key 'sed' in the spec; did you mean 'seed'?"),
        ("keep: 1", "f.yaml:1:1: unknown key 'keep' in the spec; it belongs under selection"),
        ("data: {split: {train: -1}}", "f.yaml:1:23: data.split.train: must be greater than 0 (got -1)"),
        ("data: {split: {train: 0.5}}", "f.yaml:1:15: data.split: train + selection + test is 0.86, not 1"),
        ("data: {split: {by: colum}}",
         "f.yaml:1:20: data.split.by: 'colum' is unknown; did you mean 'column'?"),
        ("data: {split: {by: time, colum: t}}",
         "f.yaml:1:8: data.split.column is missing\nf.yaml:1:26: unknown key 'colum' in data.split; "
         "did you mean 'column'?"),
        ("data: {split: {by: files, selection: a.csv, sed: 1}}",
         "f.yaml:1:45: unknown key 'sed' in data.split; known: by, selection, test"),
        ("data: {source: {type: parqet, path: a}}",
         "f.yaml:1:23: data.source.type: 'parqet' is unknown; did you mean 'parquet'?"),
        ("data: {source: {type: package, distribution: d}}", "f.yaml:1:8: data.source.path is missing"),
        ("data: {source: {distribution: d}}",
         "f.yaml:1:17: unknown key 'distribution' in data.source; known: path, type"),
        ("data: {source: a.txt}",
         "f.yaml:1:16: data.source: cannot tell the format of 'PATH/a.txt' from its name; "
         "write {type: csv, path: …} (or parquet, arrow)"),
        ("data: {source: 3}", "f.yaml:1:16: data.source: must be a mapping (got 3)"),
        ("data: {target: 3}", "f.yaml:1:16: data.target: must be the name of a column or a mapping (got 3)"),
        ("data: {target: {column: 3}}",
         'f.yaml:1:25: data.target.column: must be text (got 3); quote it: "3"'),
        ("data: {target: {positive: [~]}}",
         "f.yaml:1:28: data.target.positive[0]: must be text, true or false, a whole number or a number "
         "(got nothing)"),
        ("data: {target: {positive: [1], negative: [2]}}",
         "f.yaml:1:16: data.target: give one of positive, negative and above"),
        ("data: {task: binery}",
         "f.yaml:1:14: data.task: must be 'auto', 'regression', 'binary' or 'multiclass' (got 'binery'); "
         "did you mean 'binary'?"),
        ("data: {features: {kinds: {'a,b (c)': ordnal}}}",
         "f.yaml:1:38: data.features.kinds['a,b (c)']: must be 'numerical', 'ordinal' or 'categorical' "
         "(got 'ordnal'); did you mean 'ordinal'?"),
        ("selection: {keep: '3'}",
         "f.yaml:1:19: selection.keep: must be 'auto' or 'all' or a whole number (got '3')"),
        ("selection: {keep: true}",
         "f.yaml:1:19: selection.keep: must be 'auto' or 'all' or a whole number (got true)"),
        ("selection: {data_blocks: 3}",
         "f.yaml:1:12: selection: data_blocks must be a power of two, not 3"),
        ("execution: {jobs: 0}", "f.yaml:1:19: execution.jobs: must be 'auto' or at least 1 (got 0)"),
        ("seed: 4294967296", "f.yaml:1:7: seed: must be less than 4294967296 (got 4294967296)"),
        ("name: a/b", "f.yaml:1:7: name: must not contain / or \\, since it names folders"),
        (f"name: {'a' * 201}", f"f.yaml:1:7: name: must be of at most 200 characters (got '{'a' * 56}…)"),
        ("name: ''", "f.yaml:1:7: name: must be non-empty (got '')"),
        ("scope: {pairs: {any: []}}", "f.yaml:1:22: scope.pairs.any: must be non-empty (got [])"),
        ("scope: {pairs: {any: [t_any, 5]}}",
         "f.yaml:1:30: scope.pairs.any[1]: must be the name of a gate or a mapping (got 5)"),
        ("scope: {pairs: {not: {not: t_any, extra: 1}}}",
         "f.yaml:1:35: unknown key 'extra' in scope.pairs.not; known: not"),
        ("scope: {pairs: {any: [{size: 5}]}}", "f.yaml:1:23: scope.pairs.any[0].gate is missing"),
        ("scope: {operators: {gate: 5}}",
         'f.yaml:1:27: scope.operators.gate: must be text (got 5); quote it: "5"'),
        ("scope: [1]", "f.yaml:1:8: scope: must be a mapping (got [1])"),
        ("operators: {use: t_sum}", "f.yaml:1:18: operators.use: must be a list (got 't_sum')"),
        ("operators: {use: [3]}",
         "f.yaml:1:19: operators.use[0]: must be the name of an operator or a mapping (got 3)"),
        ("report: {formats: [pdf]}", "f.yaml:1:20: report.formats[0]: must be 'json' or 'html' (got 'pdf')"),
        ("version: 2", "f.yaml:1:10: version: must be 1 (got 2)"),
    ],
)  # fmt: skip
def test_structure_errors(folder: Path, fragment: str, message: str) -> None:
    write("f.yaml", fragment + "\n")
    assert error_of(spec_file(), fragments=["f.yaml"]) == message.replace("PATH", str(folder))


def test_what_is_missing_is_named_with_an_example() -> None:
    assert error_of(write("a.yaml", "seed: 1\n")) == (
        "a.yaml:1:1: name is missing; write `name: my-run`\n"
        "a.yaml:1:1: data is missing; write `data: {source: table.csv, target: COLUMN}`"
    )
    assert error_of(write("a.yaml", "name: a\ndata:\n  source: a.csv\n")) == (
        "a.yaml:2:1: data.target is missing; write `target: COLUMN`"
    )
    with pytest.raises(SpecError) as caught:
        load_spec({"name": "a", "data": {}})
    assert str(caught.value) == "data.target is missing; write `target: COLUMN`"
    assert caught.value.mark is None


# Paths and environment


def test_paths_start_from_the_file_they_are_written_in(folder: Path) -> None:
    write("d/f.yaml", "data: {split: {by: files, selection: v.csv, test: ../t.csv}}\n")
    split = loaded("", fragments=["d/f.yaml"]).data.split
    assert (split.selection, split.test) == (str(folder / "d" / "v.csv"), str(folder / "t.csv"))
    write("d/f.yaml", "data: {split: {by: column, path: s.parquet}}\n")
    split = loaded("", fragments=["d/f.yaml"], overrides=["data.source=z.csv"]).data.split
    assert isinstance(split, ColumnSplit)
    assert split.path == str(folder / "d" / "s.parquet")
    write("d/f.yaml", "data: {source: {type: package, distribution: x, path: x/y.csv}}\n")
    assert loaded("", fragments=["d/f.yaml"]).data.source.path == "x/y.csv"  # type: ignore[union-attr]


def test_environment_variables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "data: {source: '${SCOPEFE_DATA}/a.parquet', features: {drop: ['${T_COLUMN}_${T_COLUMN}']}}\n"
    write("d/f.yaml", text)
    monkeypatch.delenv("SCOPEFE_DATA", raising=False)
    assert error_of(spec_file(), fragments=["d/f.yaml"]) == (
        "d/f.yaml:1:16: the environment variable SCOPEFE_DATA is not set; it names the folder of data files"
    )
    monkeypatch.setenv("SCOPEFE_DATA", "tables")
    assert error_of(spec_file(), fragments=["d/f.yaml"]) == (
        "d/f.yaml:1:63: the environment variable T_COLUMN is not set; data.features.drop[0] needs it"
    )
    monkeypatch.setenv("T_COLUMN", "c")
    data = loaded("", fragments=["d/f.yaml"]).data
    assert data.source == FileSource(type="parquet", path="${SCOPEFE_DATA}/a.parquet")
    (folder / "tables").mkdir()
    pd.DataFrame({"a": [1]}).to_parquet(folder / "tables" / "a.parquet")
    assert len(read(data.source)) == 1
    assert data.features.drop == ["c_c"]
    assert loaded("description: ${NOT_SET}\n").description == "${NOT_SET}"


def test_shipped_specs_are_found_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shipped_specs().name == "specs"
    monkeypatch.setattr("scopefe.spec.loader.shipped_specs", lambda: folder / "shipped")
    write("shipped/data/wine.yaml", "data: {target: quality}\n")
    spec_file(name="shipped/quick.yaml")
    write("shipped/parts.py", COMPONENTS)
    for name in ("quick", "quick.yaml"):
        assert load_spec(name).origin.path == folder / "shipped" / "quick.yaml"
    assert load_spec("quick", fragments=["data/wine"]).data.target.column == "quality"
    write("mine.yaml", "extends: quick\nname: mine\n")
    assert load_spec("mine.yaml").name == "mine"
    assert error_of("quik") == "there is no spec 'quik'; did you mean 'quick'?"
    assert error_of("quick", fragments=["wine"]) == "there is no spec 'wine'; did you mean 'data/wine'?"
    spec_file(name="quick.yaml", more="seed: 9\n")
    assert load_spec("quick.yaml").seed == 9
    assert "there is no spec" in error_of("../shipped/quick.yml")


def test_gates_may_name_specs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scopefe.spec.loader.shipped_specs", lambda: folder / "shipped")
    write("shipped/quick.yaml", "name: quick\n")
    write("d/own.yaml", "name: own\n")
    write("d/f.yaml", "scope: {pairs: {gate: t_random, budget: 3, match: own.yaml}}\n")
    pairs = loaded("", fragments=["d/f.yaml"]).scope.pairs
    assert pairs == GateUse(gate="t_random", budget=3, match=str(folder / "d" / "own.yaml"))
    write("d/f.yaml", "scope: {operators: {any: [t_all, {not: {gate: t_probe, match: quick}}]}}\n")
    inner = loaded("", fragments=["d/f.yaml"]).scope.operators
    assert isinstance(inner, AnyOf)
    assert isinstance(inner.any[1], Not)
    assert inner.any[1].not_ == GateUse(gate="t_probe", match=str(folder / "shipped" / "quick.yaml"))
    write("d/f.yaml", "scope: {operators: {gate: t_probe, match: owm.yaml}}\n")
    assert error_of(spec_file(), fragments=["d/f.yaml"]) == (
        "d/f.yaml:1:43: there is no spec 'owm.yaml'; did you mean 'own.yaml'?"
    )


# Components


@pytest.mark.parametrize(
    ("fragment", "message"),
    [
        ("operators: {use: [t_smu]}", "f.yaml:1:19: unknown operator 't_smu'; did you mean 't_sum'?"),
        ("operators: {use: [t_probe]}",
         "f.yaml:1:19: 't_probe' is an operator gate; it belongs under scope.operators"),
        ("operators: {use: [{operator: t_lag, step: 2}]}",
         "f.yaml:1:37: unknown parameter 'step' of operator 't_lag'; did you mean 'steps'?"),
        ("operators: {use: [{operator: t_sum, step: 2}]}",
         "f.yaml:1:37: unknown parameter 'step' of operator 't_sum'; it takes none"),
        ("operators: {use: [{operator: t_lag, steps: two}]}",
         "f.yaml:1:44: operators.use[0].steps: must be a whole number (got 'two')"),
        ("operators: {use: [{operator: default, steps: 2}]}",
         "f.yaml:1:39: `default` takes no parameters; list the operator itself"),
        ("operators: {use: [t_sum, t_lag, t_sum]}", "f.yaml:1:33: operator 't_sum' is listed twice"),
        ("scope: {pairs: t_pair}", "f.yaml:1:16: unknown pair gate 't_pair'; did you mean 't_pairs'?"),
        ("scope: {pairs: t_probe}",
         "f.yaml:1:16: 't_probe' is an operator gate; it belongs under scope.operators"),
        ("scope: {operators: {all: [t_all, {gate: t_pairs}]}}",
         "f.yaml:1:41: 't_pairs' is a pair gate; it belongs under scope.pairs"),
        ("scope: {operators: {not: t_sum}}",
         "f.yaml:1:26: 't_sum' is an operator; it belongs under operators.use"),
        ("scope: {pairs: {gate: t_pairs, sise: 3}}",
         "f.yaml:1:32: unknown parameter 'sise' of gate 't_pairs'; did you mean 'size'?"),
        ("scope: {pairs: {any: [{gate: t_pairs, linkage: averge}]}}",
         "f.yaml:1:48: scope.pairs.any[0].linkage: must be 'average' or 'single' (got 'averge'); "
         "did you mean 'average'?"),
        ("scope: {pairs: t_random}", "f.yaml:1:16: gate 't_random' needs the parameter 'budget'"),
    ],
)  # fmt: skip
def test_component_errors(fragment: str, message: str) -> None:
    write("f.yaml", fragment + "\n")
    assert error_of(spec_file(), fragments=["f.yaml"]) == message


def test_every_problem_has_its_line() -> None:
    write("f.yaml", "operators: {use: [t_smu, t_lga]}\nscope: {pairs: t_pair}\n")
    assert len(error_of(spec_file(), fragments=["f.yaml"]).splitlines()) == 3


def test_a_module_that_does_not_load_is_named_where_it_is_listed(folder: Path) -> None:
    write("broken.py", "\nraise RuntimeError('no luck')\n")
    write("f.yaml", "operators:\n  modules:\n    - parts.py\n    - broken.py\n")
    assert error_of(spec_file(), fragments=["f.yaml"]) == (
        f"f.yaml:4:7: module '{folder / 'broken.py'}' does not load: "
        "RuntimeError: no luck (line 2 of broken.py)"
    )
    assert error_of(spec_file(), modules=["broken.py"]).startswith("module 'broken.py' does not load")
    write("f.yaml", "operators: {modules: [none.py]}\n")
    assert error_of(spec_file(), fragments=["f.yaml"]) == (
        f"f.yaml:1:23: module '{folder / 'none.py'}': there is no such file"
    )
    write("f.yaml", "operators: {modules: [t_no_such_module]}\n")
    assert error_of(spec_file(), fragments=["f.yaml"]).startswith("f.yaml:1:23: module 't_no_such_module'")


def test_operators_are_bound_and_categorical_results_come_last() -> None:
    spec = loaded("", overrides=["operators.use=[t_key, {operator: t_lag, steps: 2}, t_lag, t_sum]"])
    assert [o.name for o in resolved_operators(spec)] == ["t_lag[steps=2]", "t_lag", "t_sum", "t_key"]


def test_default_stands_for_the_built_in_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scopefe.operators.DEFAULT", ["t_key", "t_lag"])
    spec = loaded("", overrides=["operators.use=[t_sum, default]"])
    assert [o.name for o in resolved_operators(spec)] == ["t_sum", "t_lag", "t_key"]
    message = error_of(spec_file(), overrides=["operators.use=[default, t_lag]"])
    assert message.endswith("operator 't_lag' is listed twice, once by `default`")


def test_specs_made_in_python_are_checked_when_used() -> None:
    gates = loaded("").origin.components.pair_gates
    gate, values = gate_parameters(GateUse(gate="t_pairs", size=3), gates)
    assert (gate.name, values.model_dump()) == ("t_pairs", {"size": 3, "linkage": "average"})
    with pytest.raises(UnknownNameError, match="unknown pair gate 't_pair'; did you mean 't_pairs'"):
        gate_parameters(GateUse(gate="t_pair"), gates)
    with pytest.raises(SpecError, match=r"^size: must be a whole number \(got 'x'\)$"):
        gate_parameters(GateUse(gate="t_pairs", size="x"), gates)
    unknown = Spec.model_validate({**MINIMAL, "operators": {"use": ["t_nothing"]}})
    with pytest.raises(ComponentError, match="unknown operator 't_nothing'"):
        resolved_operators(unknown)


def test_what_a_spec_extends_is_not_set_from_outside() -> None:
    with pytest.raises(
        SpecError, match=r"override extends=base: a spec is extended in a file; .*--with FILE"
    ):
        load_spec({"name": "a", "data": {"target": "y"}}, overrides=["extends=base"])
