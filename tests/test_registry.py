"""Registering components: decorators, conflicts, modules of one's own, parameters, installed packages."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import Field, ValidationError

import scopefe
from scopefe import (
    ANY,
    CAT,
    NUM,
    ComponentError,
    SpecError,
    UnknownNameError,
    operator,
    operator_gate,
    pair_gate,
)
from scopefe.registry import Components, collecting, components


@pytest.fixture
def own():
    """A set of components that declarations of a test go to."""
    with collecting(Components()) as found:
        yield found


@pytest.fixture
def write(tmp_path):
    def written(name: str, text: str) -> str:
        path = tmp_path / name
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return str(path)

    return written


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"words": "{0} and {1}"}, "words cannot be filled in: "),
        ({"latex": r"\\frac{0}{1}{"}, "latex cannot be filled in: "),
        ({"sql": "ABS({x})"}, "sql cannot be filled in: 'x'"),
        ({"python": "{0} ** {n} * {m}"}, "python cannot be filled in: 'm'"),
        ({"takes": (CAT,), "sql": "LENGTH({0})"}, "sql and python are for functions, from NUM to NUM"),
        ({"gives": CAT, "python": "{0} > 0"}, "sql and python are for functions, from NUM to NUM"),
    ],
)
def test_templates_that_cannot_be_used(own, declared, said):
    def power(x, *, n: int = 2):
        return x**n

    with pytest.raises(ComponentError, match=f"^operator 'power': {re.escape(said)}"):
        operator("power", **{"takes": (NUM,), **declared})(power)
    assert "power" not in own.operators


def test_templates_are_for_functions(own):
    with pytest.raises(ComponentError, match="from NUM to NUM"):
        operator("shift", takes=(NUM,), sql="{0} - 1")(type("Shift", (), {}))


def test_values_of_parameters_with_and_without_defaults(own):
    @operator("power", takes=(NUM,), words="{0} to the power of {n}")
    def power(x, *, n: int = 2):
        return x**n

    known = own.operators["power"]
    assert known.values == {"n": 2}
    assert known.bind({"n": 3}).values == {"n": 3}


LOG_RATIO = """
    import numpy as np
    from scopefe import NUM, operator

    @operator("log_ratio", takes=(NUM, NUM))
    def log_ratio(a, b):
        '''log|a| - log|b|.

        And more.
        '''
        return np.log(np.abs(a)) - np.log(np.abs(b))
"""


def names(found: Components) -> list[list[str]]:
    return [registry.names() for registry in found]


# --- declarations ------------------------------------------------------------------------------------------


def test_a_function_is_an_operator(own):
    @operator("double", takes=(NUM,))
    def double(x):
        """Twice the value.

        More.
        """
        return x * 2

    found = own.operators["double"]
    assert double(2) == 4
    assert (found.arity, found.learns, found.signature) == (1, False, "numeric → numeric")
    assert (found.summary, found.doc) == ("Twice the value.", "Twice the value.\n\nMore.")
    assert (found.source.file, found.source.module) == (__file__, __name__)
    assert (
        Path(found.source.file)
        .read_text("utf-8")
        .splitlines()[found.source.line - 1]
        .strip()
        .startswith("@operator")
    )
    assert found.fit(np.array([1.0])) == {}
    result = found.apply({}, np.array([1.5, 2], dtype=np.float32))
    assert result.tolist() == [3, 4] and result.dtype == np.float64


def test_a_class_is_an_operator_that_learns(own):
    @operator("centred", takes=(NUM,))
    class Centred:
        def fit(self, x):
            return {"mean": np.array([x.mean()])}

        def apply(self, state, x):
            return x - state["mean"][0]

    found = own.operators["centred"]
    state = found.fit(np.array([1.0, 3.0]))
    assert found.learns
    assert found.apply(state, np.array([5.0])).tolist() == [3]


def test_gates_are_registered_each_in_its_place(own):
    @pair_gate("none")
    def no_pair(context, scope):
        return scope

    @operator_gate("none")
    def no_operator(context, scope, *, n: int = 1):
        return n

    assert names(own) == [[], ["none"], ["none"]]
    gate = own.operator_gates["none"]
    assert gate(None, None, gate.parameters(n=3)) == 3
    assert [sort for sort, _ in own.find("none")] == ["pair gate", "operator gate"]


@pytest.mark.parametrize(
    "declaration",
    [
        {"takes": ()},
        {"takes": (NUM, NUM, NUM)},
        {"takes": ("number",)},
        {"takes": (NUM,), "gives": ANY},
        {"takes": (ANY, NUM)},
        {"takes": (ANY, ANY)},
        {"takes": (NUM,), "symmetric": True},
        {"takes": (NUM, CAT), "symmetric": True},
        {"takes": (CAT, NUM), "one_way": True},
    ],
)
def test_declarations_that_contradict_themselves(declaration, own):
    with pytest.raises(ComponentError, match="operator 'bad': "):
        operator("bad", **declaration)(abs)
    assert names(own) == [[], [], []]


def test_a_name_may_be_declared_once(own):
    @operator("one", takes=(NUM,))
    def one(x):
        return x

    with pytest.raises(ComponentError, match=rf"operator 'one' is already declared at {__file__}:\d+"):

        @operator("one", takes=(NUM,))
        def other(x):
            return x

    assert own.operators["one"].target is one


def test_a_declaration_may_be_run_again(own):
    def declare(version: int) -> Any:
        @operator("cell", takes=(NUM,))
        def cell(x):
            return x * version

        return cell

    declare(1)
    last = declare(2)
    assert own.operators["cell"].target is last


def test_a_result_that_is_not_one_value_per_row(own):
    @operator("total", takes=(NUM,))
    def total(x):
        return x.sum()

    with pytest.raises(ComponentError, match=r"operator 'total' gave shape \(\) for 2 rows"):
        own.operators["total"].apply({}, np.array([1.0, 2]))


@pytest.mark.parametrize("dtype", ["complex128", "datetime64[s]", "U3", "i8,f8"])
def test_values_that_are_no_numbers(own, dtype):
    @operator("odd", takes=(NUM,))
    def odd(x):
        return np.ones(len(x), dtype=dtype)

    with pytest.raises(ComponentError, match=r"operator 'odd' gave values of type .*, not numbers"):
        own.operators["odd"].apply({}, np.array([1.0, 2]))


def test_numeric_warnings_of_a_component_are_not_the_user_s(own):
    @operator("careless", takes=(NUM,))
    class Careless:
        def fit(self, x):
            return {"log": np.log(x)}

        def apply(self, state, x):
            return state["log"] / 0

    state = own.operators["careless"].fit(np.array([0.0, -1]))
    np.testing.assert_array_equal(
        own.operators["careless"].apply(state, np.array([0.0, -1])), [-np.inf, np.nan]
    )


# --- look-up -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("look_up", "said"),
    [
        (
            lambda c: c.operators["GroupByThenMeen"],
            "unknown operator 'GroupByThenMeen'; did you mean 'GroupByThenMe",
        ),
        (lambda c: c.pair_gates["hard-intr"], "unknown pair gate 'hard-intr'; did you mean 'hard-intra'?"),
        (lambda c: c.operator_gates["prob"], "unknown operator gate 'prob'; did you mean 'probe'?"),
        (lambda c: c.find("probee"), "unknown component 'probee'; did you mean 'probe'?"),
        (
            lambda c: c.operator_gates["zzz"],
            "unknown operator gate 'zzz'; known: all, features, list, probe, ",
        ),
        (lambda c: Components().operators["x"], "unknown operator 'x'"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(look_up, said):
    with pytest.raises(UnknownNameError) as error:
        look_up(components())
    assert str(error.value).startswith(said)


def test_the_built_in_components():
    found = components()
    assert len(found.operators.names()) >= 23
    assert {"all", "hard-intra", "hard-inter", "random-pair"} <= set(found.pair_gates.names())
    assert {"all", "list", "probe", "random-operator", "random-joint"} <= set(found.operator_gates.names())
    assert "abs" in found.operators and "abs" not in found.pair_gates
    assert all(component.summary for registry in found for component in registry)


# --- modules of one's own ----------------------------------------------------------------------------------


def test_a_module_s_components_stand_on_top_of_the_built_in_ones(write):
    before = names(components())
    found = components([write("own.py", LOG_RATIO)])
    assert found.operators.names() == [*components().operators.names(), "log_ratio"]
    assert found.operators["log_ratio"].summary == "log|a| - log|b|."
    assert found.operators["log_ratio"].source.line == 5
    assert names(components()) == before


def test_modules_never_meet_those_of_another_load(write):
    one = write("one.py", LOG_RATIO)
    two = write("two.py", LOG_RATIO.replace("np.log(np.abs(b))", "np.log(np.abs(b)) + 1"))
    x = np.array([1.0])
    results = [components([path]).operators["log_ratio"].apply({}, x, x)[0] for path in (one, two, one)]
    assert results == [0, 1, 0]
    with pytest.raises(ComponentError, match=r"log_ratio' is already declared at .*one\.py:5"):
        components([one, two])
    assert "log_ratio" not in components().operators


def test_importable_modules_do_not_leak_either(write, tmp_path, monkeypatch):
    write("importable_ops.py", LOG_RATIO)
    monkeypatch.syspath_prepend(tmp_path)
    before = names(components())
    for _ in range(2):
        found = components(["importable_ops"])
        assert found.operators["log_ratio"].source.module == "importable_ops"
        assert names(components()) == before
    both = components(["importable_ops", write("more.py", LOG_RATIO.replace("log_ratio", "other"))])
    assert {"log_ratio", "other"} <= set(both.operators.names())


def test_one_spec_s_components_are_unknown_to_the_next(write):
    data = {"data": {"target": "y"}}
    module = write("own.py", LOG_RATIO)
    spec = scopefe.load_spec({"name": "a", **data, "operators": {"use": ["log_ratio"], "modules": [module]}})
    assert "log_ratio" in spec.origin.components.operators
    with pytest.raises(SpecError, match="unknown operator 'log_ratio'"):
        scopefe.load_spec({"name": "b", **data, "operators": {"use": ["log_ratio"]}})


def test_a_module_that_was_changed_is_read_again(write):
    path = write("own.py", LOG_RATIO)
    first = components([path]).operators["log_ratio"]
    write("own.py", LOG_RATIO.replace("np.log(np.abs(b))", "np.log(np.abs(b)) + 100"))
    second = components([path]).operators["log_ratio"]
    x = np.array([1.0])
    assert (first.apply({}, x, x)[0], second.apply({}, x, x)[0]) == (0, 100)
    assert first.version != second.version


def test_versions_follow_the_code_and_nothing_else(write):
    def version(text: str) -> str:
        return components([write("own.py", text)]).operators["log_ratio"].version

    first = version(LOG_RATIO)
    assert version("\n\n# words\n" + textwrap.dedent(LOG_RATIO)) == first
    assert version(LOG_RATIO.replace("And more.", "And less.")) == first
    assert version(LOG_RATIO.replace("- np.log", "+ np.log")) != first


HEAD = "from scopefe import NUM, operator\n"
BROKEN = {
    "a name": ("y = 1\n\nx = nothing\n", "NameError: name 'nothing' is not", "line 3 of own.py"),
    "a syntax error": ("x = 1\ny = = 2\n", "SyntaxError: invalid syntax", "line 2"),
    "an import": ("\nimport no_such_module\n", "No module named 'no_such_module'", "line 2 of own.py"),
    "deep in a library": ("import pandas\n\n\npandas.to_datetime(['x'])\n", "Error", "line 4 of own.py"),
    "with a long message": ("raise ValueError('one\\ntwo')\n", "ValueError: one two", "line 1 of own.py"),
    "inside a function": ("def f():\n    return 1 / 0\n\nf()\n", "ZeroDivisionError", "line 2 of own.py"),
    "an exit": ("import sys\nsys.exit(0)\n", "SystemExit", "line 2 of own.py"),
    "a declaration": (f"{HEAD}\n@operator('x', takes=(NUM,), gives='text')\ndef x(a): ...\n",
                      "operator 'x': takes one or two", ""),
    "a name that is taken": (f"{HEAD}\n@operator('abs', takes=(NUM,))\ndef x(a): ...\n",
                             "operator 'abs' is already declared at", ""),
    "no annotation": (f"{HEAD}\n@operator('x', takes=(NUM,))\ndef x(a, *, n=1): ...\n",
                      "parameter 'n' of 'x' needs a type annotation", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_module_is_one_line_that_names_it(case, write):
    text, said, line = BROKEN[case]
    path = write("own.py", text)
    with pytest.raises(ComponentError) as error:
        components([path])
    message = str(error.value)
    assert message.startswith(f"module {path!r}") and said in message and line in message
    assert "\n" not in message
    assert "x" not in components().operators


@pytest.mark.parametrize(
    ("module", "said"), [("absent.py", "there is no such file"), ("no_such_module", "No module named")]
)
def test_a_module_that_is_not_there(module, said):
    with pytest.raises(ComponentError, match=f"module '{module}'.*{said}"):
        components([module])


def test_modules_stay_where_their_classes_can_be_found(write):
    found = components([write("own.py", LOG_RATIO)]).operators["log_ratio"]
    assert sys.modules[found.source.module].log_ratio is found.target


# --- parameters --------------------------------------------------------------------------------------------


@pytest.fixture
def clip(own):
    @operator("clip", takes=(NUM,))
    def clip(
        x,
        *,
        low: float = -1.0,
        high: Annotated[float, Field(gt=0, description="Upper end.")] = 1.0,
        mode: str = "hard",
    ):
        """Clip."""
        return np.clip(x, low, high)

    return own.operators["clip"]


def test_parameters_come_from_the_signature(clip):
    fields = clip.parameters.model_fields
    assert list(fields) == ["low", "high", "mode"]
    assert (fields["high"].default, fields["high"].description) == (1.0, "Upper end.")
    assert clip.apply({}, np.array([-3.0, 3])).tolist() == [-1, 1]


def test_parameters_that_are_bound_show_in_the_name(clip):
    wide = clip.bind({"high": 2.5, "low": -1.0})
    assert (wide.name, clip.name) == ("clip[high=2.5]", "clip")
    assert wide.apply({}, np.array([-3.0, 3])).tolist() == [-1, 2.5]
    assert clip.apply({}, np.array([-3.0, 3])).tolist() == [-1, 1]
    assert clip.bind({}) is clip is clip.bind({"high": 1.0})


def test_parameters_of_an_operator_that_learns(own):
    @operator("bins", takes=(NUM,))
    class Bins:
        def __init__(self, *, count: int = 2):
            self.count = count

        def fit(self, x):
            return {"edges": np.quantile(x, np.linspace(0, 1, self.count + 1))}

        def apply(self, state, x):
            return np.searchsorted(state["edges"], x)

    bins, x = own.operators["bins"], np.arange(9.0)
    assert len(bins.fit(x)["edges"]) == 3
    assert len(bins.bind({"count": 4}).fit(x)["edges"]) == 5
    assert len(bins.fit(x)["edges"]) == 3


@pytest.mark.parametrize(
    ("values", "place"), [({"low": "deep"}, "low"), ({"high": -1.0}, "high"), ({"lo": 1.0}, "lo")]
)
def test_parameters_that_do_not_fit(values, place, clip):
    with pytest.raises(ValidationError, match=place):
        clip.bind(values)


def test_a_parameter_without_a_default_is_needed(own):
    @operator("power", takes=(NUM,))
    def power(x, *, n: int):
        return x**n

    with pytest.raises(ValidationError, match="Field required"):
        own.operators["power"].bind({})
    assert own.operators["power"].bind({"n": 3}).apply({}, np.array([2.0])).tolist() == [8]


CLIP = """
    from typing import Annotated
    from pydantic import Field
    from scopefe import NUM, operator

    @operator("clip", takes=(NUM,))
    def clip(x, *, high: Annotated[float, Field(gt=0)] = 1.0):
        return x.clip(None, high)
"""


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (
            {"operator": "clip", "hihg": 2.0},
            "unknown parameter 'hihg' of operator 'clip'; did you mean 'high'?",
        ),
        ({"operator": "clip", "high": "much"}, "operators.use[0].high"),
        ({"operator": "clip", "high": -2.0}, "operators.use[0].high"),
        ({"operator": "abs", "n": 1}, "unknown parameter 'n' of operator 'abs'; it takes none"),
        ({"operator": "clop"}, "unknown operator 'clop'; did you mean 'clip'?"),
    ],
)
def test_a_spec_s_parameters_are_checked(use, said, write):
    with pytest.raises(SpecError) as error:
        scopefe.load_spec(
            {
                "name": "a",
                "data": {"target": "y"},
                "operators": {"use": [use], "modules": [write("c.py", CLIP)]},
            }
        )
    assert said in str(error.value)


def test_an_operator_may_be_used_with_several_values(write):
    use = ["clip", {"operator": "clip", "high": 2.0}]
    spec = scopefe.load_spec(
        {
            "name": "a",
            "data": {"target": "y", "features": {"kinds": {"a": "numerical", "b": "numerical"}}},
            "operators": {"use": use, "modules": [write("c.py", CLIP)]},
        }
    )
    compiled = scopefe.compile(spec, static=True)
    assert [o.name for o in compiled.universe.operators] == ["clip", "clip[high=2.0]"]
    assert compiled.pool_size == 4


# --- installed packages ------------------------------------------------------------------------------------

PROGRAM = """
    import logging
    logging.basicConfig(format="%(message)s")
    from scopefe.registry import components
    found = components()
    print("log_ratio" in found.operators, "abs" in found.operators, "half" in found.operators)
"""


def distribution(folder: Path, name: str, module: str, text: str) -> None:
    (folder / f"{module}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(f"[scopefe.components]\nops = {module}\n", encoding="utf-8")


def test_installed_packages_offer_components_and_a_broken_one_is_left_out(tmp_path):
    """In processes of their own: what is installed is loaded once."""
    distribution(tmp_path, "good-ops", "good_ops", LOG_RATIO)
    distribution(
        tmp_path,
        "bad-ops",
        "bad_ops",
        """
        from scopefe import NUM, operator

        @operator("half", takes=(NUM,))
        def half(x):
            return x / 2

        raise RuntimeError("out of order")
        """,
    )
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n" + textwrap.dedent(PROGRAM)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "False"]
    assert done.stderr.strip() == (
        "components of the package bad-ops are left out: RuntimeError: out of order (line 8 of bad_ops.py)"
    )
    without = subprocess.run([sys.executable, "-c", textwrap.dedent(PROGRAM)], capture_output=True, text=True)
    assert (without.stdout.split()[0], without.stderr) == ("False", "")
