"""The JSON Schema accepts what the loader accepts, and says what components can be named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import jsonschema  # type: ignore[import-untyped]
import pytest
from pydantic import BaseModel

import scopefe
from scopefe.components import CAT, NUM, SpecPath
from scopefe.registry import Components, collecting, operator, operator_gate, pair_gate
from scopefe.spec.schema import json_schema, write_schema


class Window(BaseModel):
    """A range of rows."""

    first: int
    last: int = 3


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    with collecting(Components()) as components:

        @operator("t_lag", takes=(NUM,))
        def lag(a: Any, *, steps: int = 1) -> Any:
            """Shifts."""

        @operator("t_key", takes=(CAT, CAT), gives=CAT)
        def key(a: Any, b: Any) -> Any:
            """Combines."""

        @pair_gate("t_pairs")
        def pairs(
            context: Any, scope: Any, *, size: int = 16, linkage: Literal["average", "single"] = "average",
            window: Window | None = None
        ) -> Any:  # fmt: skip
            """Groups of columns.

            More about them.
            """

        @operator_gate("t_probe")
        def probe(context: Any, scope: Any, *, keep: int, match: SpecPath | None = None) -> Any:
            """The best operators."""

    return json_schema(components)


def accepts(schema: dict[str, Any], document: object) -> bool:
    return bool(jsonschema.Draft7Validator(schema).is_valid(document))


def test_it_is_draft_7_and_self_contained(schema: dict[str, Any]) -> None:
    jsonschema.Draft7Validator.check_schema(schema)
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    text = json.dumps(schema)
    assert "$defs" not in text
    assert '"discriminator"' not in text
    assert "required" not in schema

    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            if "$ref" in value:
                assert list(value) == ["$ref"]
                return [value["$ref"]]
            return [r for item in value.values() for r in references(item)]
        return [r for item in value for r in references(item)] if isinstance(value, list) else []

    assert {r.rpartition("/")[2] for r in references(schema)} <= set(schema["definitions"])


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"extends": "base.yaml", "name": "a"},
        {"extends": ["a.yaml", "b.yaml"]},
        {"data": {"source": "a.csv", "target": "y"}},
        {"data": {"source": {"path": "a.csv"}, "target": {"column": "y", "positive": ["1", 2]}}},
        {"data": {"source": {"type": "frame"}}},
        {"data": {"source": {"type": "package", "distribution": "d", "path": "p.csv"}}},
        {"data": {"split": {"train": 0.5, "selection": 0.3, "test": 0.2}}},
        {"data": {"split": {"by": "column", "test": ["t", True, 1]}}},
        {"data": {"split": {"by": "time", "column": "t"}}},
        {"data": {"features": {"kinds": {"any (text)": "ordinal"}, "missing_as": None}}},
        {"operators": {"use": ["default", "t_lag", {"operator": "t_lag", "steps": 2}]}},
        {"operators": {"use": [{"operator": "default"}]}},
        {"scope": {"pairs": "t_pairs", "operators": {"gate": "t_probe", "keep": 3, "match": "a.yaml"}}},
        {
            "scope": {
                "pairs": {"any": ["t_pairs", {"not": {"gate": "t_pairs", "size": 3}}, {"all": ["t_pairs"]}]}
            }
        },
        {"scope": {"pairs": {"gate": "t_pairs", "window": {"first": 1}}}},
        {"evaluation": {"learner": {"num_leaves": 3, "boosting": "gbdt"}}},
        {"execution": {"jobs": "auto"}},
    ],
)
def test_accepted(schema: dict[str, Any], document: object) -> None:
    jsonschema.Draft7Validator(schema).validate(document)


@pytest.mark.parametrize(
    "document",
    [
        {"sed": 1},
        {"data": {"splt": {}}},
        {"data": {"split": {"by": "colum"}}},
        {"data": {"split": {"by": "column", "seed": 1}}},
        {"data": {"source": {"type": "parqet", "path": "a"}}},
        {"data": {"source": {"type": "frame", "path": "a"}}},
        {"data": {"target": 3}},
        {"operators": {"use": ["t_lga"]}},
        {"operators": {"use": [{"operator": "t_key", "steps": 2}]}},
        {"scope": {"pairs": "t_probe"}},
        {"scope": {"pairs": {"gate": "t_pairs", "sise": 3}}},
        {"scope": {"pairs": {"gate": "t_pairs", "linkage": "averge"}}},
        {"scope": {"pairs": {"any": []}}},
        {"scope": {"pairs": {"any": ["t_pairs"], "gate": "t_pairs"}}},
        {"scope": {"operators": {"not": "t_pairs"}}},
        {"execution": {"jobs": 0}},
    ],
)
def test_refused(schema: dict[str, Any], document: object) -> None:
    assert not accepts(schema, document)


def test_what_editors_show(schema: dict[str, Any]) -> None:
    definitions = schema["definitions"]
    assert schema["additionalProperties"] is False
    gate = next(g for g in definitions["PairGate"]["oneOf"] if g.get("properties", {}).get("gate"))
    assert gate["description"] == "Groups of columns."
    assert gate["properties"]["gate"] == {"const": "t_pairs"}
    assert gate["properties"]["size"] == {"type": "integer", "default": 16}
    assert definitions["PairGate"]["oneOf"][0] == {"type": "string", "enum": ["t_pairs"]}
    assert definitions["Operator"]["oneOf"][0]["enum"] == ["default", "t_lag", "t_key"]
    assert definitions["Selection"]["properties"]["keep"]["default"] == 10
    assert definitions["Features"]["properties"]["kinds"]["examples"] == [{"zip_code": "categorical"}]


def test_the_shipped_schema_is_current(tmp_path: Path) -> None:
    shipped = Path(scopefe.__path__[0]) / "scopefe.schema.json"
    write_schema(tmp_path / "schema.json")
    assert json.loads((tmp_path / "schema.json").read_text()) == json.loads(shipped.read_text())
