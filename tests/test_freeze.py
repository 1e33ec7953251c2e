"""Specs of exactly a recipe's features: they find them again, whatever they are worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from ruamel.yaml import YAML
from test_recipe import fit, leaves

import scopefe
from scopefe import Recipe, freeze
from scopefe.data.kinds import encode
from scopefe.export.freezing import to_yaml
from scopefe.recipe.fitting import fit_recipe
from scopefe.space.expression import Apply


def noise(rows: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "a: b": rng.normal(size=rows),
            "é": rng.normal(size=rows),
            "level": rng.integers(0, 5, rows).astype(float),
            "null": rng.choice(["x", "y", "z"], rows),
        }
    )
    return frame.assign(target=rng.normal(size=rows), group=rng.choice(list("pq"), rows))


def frozen(recipe: Recipe, **settings: Any) -> dict[str, Any]:
    """Return a frozen spec, through its text, with the data and quick settings."""
    spec = YAML(typ="safe").load(to_yaml(freeze(recipe)))
    assert spec == freeze(recipe)
    spec["data"] |= {"target": "target"}
    return spec | {"evaluation": {"seeds": 0}, "execution": {"jobs": 1, "cache": False}} | settings


def test_a_frozen_spec_finds_the_same_features_whatever_they_are_worth():
    frame = noise()
    asked = [("/", "é", "a: b"), ("-", "a: b", "é"), ("freq", "level"), ("GroupByThenRank", "é", "null"),
             ("GroupByThenNUnique", "level", "group"), ("Combine", "null", "group"), ("sqrt", "level"),
             ("square", "level")]  # fmt: skip
    recipe = fit(frame.drop(columns="target"), *asked, missing_as="none")
    run = scopefe.execute(scopefe.load_spec(frozen(recipe)), data=frame, write=False)
    assert run.report.space.pool.raw == len(asked)
    assert run.name == "named-frozen"
    expected = {f.name: f for f in recipe.features}
    assert {f.name for f in run.recipe.features} == set(expected)
    assert any(f.gain <= 0 for f in run.recipe.features)
    assert {i.name: i for i in run.recipe.inputs} == {i.name: i for i in recipe.inputs}
    again = scopefe.execute(scopefe.load_spec(frozen(run.recipe)), data=frame, write=False).recipe
    assert {f.name for f in again.features} == set(expected)
    pd.testing.assert_frame_equal(again.transform(frame)[list(run.recipe.names)], run.recipe.transform(frame))


def test_kinds_are_those_of_the_recipe():
    frame = noise()
    recipe = fit(frame.drop(columns="target"), ("GroupByThenMean", "é", "level"), ("freq", "a: b"))
    other = frame.assign(level=np.arange(len(frame)) / 2)
    compiled = scopefe.compile(scopefe.load_spec(frozen(recipe)), data=other)
    assert compiled.pool_size == 2


def test_operators_with_parameters_are_frozen_with_them(tmp_path):
    own = tmp_path / "own.py"
    own.write_text(
        "from scopefe import NUM, operator\n\n"
        "@operator('power', takes=(NUM,))\n"
        "def power(x, *, n: int = 2):\n    return x ** n\n",
        encoding="utf-8",
    )
    frame = noise()
    used = scopefe.registry.components([own]).operators["power"].bind({"n": 3})
    table = encode(frame.drop(columns="target"), np.arange(len(frame)))
    recipe = fit_recipe("n", "k", table, [(Apply(used.name, leaves("é")), used, 1.0, 1.0)])
    spec = freeze(recipe, extends="base", modules=[str(own)])
    assert spec["extends"] == "base"
    assert spec["operators"] == {
        "use": [{"operator": "power", "n": 3}], "modules": [str(own)], "directions": "one",
    }  # fmt: skip
    spec["data"] |= {"source": {"type": "frame"}, "target": "target"}
    assert scopefe.compile(scopefe.load_spec(spec), data=frame).pool_size == 1
