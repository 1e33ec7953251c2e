"""The specs that come with scopefe: they load by name, and say of each dataset what is known of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import needs_data

from scopefe.data.dataset import Dataset, load_dataset
from scopefe.errors import DataError, SpecError
from scopefe.spec import Spec, load_spec
from scopefe.spec.loader import shipped_specs
from scopefe.spec.models import ColumnSplit, Evaluation, FileSource, FractionSplit, GateUse
from scopefe.spec.study import load_study

CLUSTERS = {"target_cluster_size": 16, "linkage": "average"}
PROBE = {"keep": 7, "ratio": 0.2, "candidates": 20, "top_k": 5, "folds": 3, "seed": 1}
MATCH = {"match": str(shipped_specs().absolute() / "scope-fe.yaml"), "seed": 1}
QUANTISED = {"budget": 0.1, "at_least": 500, "statistic": "boosting", "folds": 5, "seed": 1}
VARIANTS: dict[str, tuple[str, dict[str, Any], str, dict[str, Any]]] = {
    "base": ("all", {}, "list", {"use": []}),
    "openfe": ("all", {}, "all", {}),
    "fc-only": ("hard-intra", CLUSTERS, "all", {}),
    "op-only": ("all", {}, "probe", PROBE),
    "scope-fe": ("hard-intra", CLUSTERS, "probe", PROBE),
    "hard-inter": ("hard-inter", CLUSTERS, "probe", PROBE),
    "random-pair": ("random-pair", MATCH, "all", {}),
    "random-operator": ("all", {}, "random-operator", MATCH),
    "random-joint": ("all", {}, "random-joint", MATCH),
    "recommended": ("all", {}, "quantised", QUANTISED),
    "quickstart": ("all", {}, "quantised", QUANTISED),
}

# Dataset: task, row blocks, features kept.
BENCHMARK = {
    "california_housing": ("regression", 1, 10),
    "microsoft": ("regression", 64, 10),
    "medical": ("regression", 1, 10),
    "telecom": ("binary", 8, 10),
    "broken_machine": ("binary", 8, 10),
    "diabetes130": ("binary", 8, 10),
    "nomao": ("binary", 32, 10),
    "vehicle_norm": ("binary", 16, 10),
    "jannis": ("multiclass", 1, 10),
    "covtype": ("multiclass", 8, 10),
}
EXTRAS = {
    "microsoft_mslr_10k": "regression",
    "medical_indiana": "regression",
    "adult": "binary",
    "bike_sharing": "regression",
    "employee_salaries": "regression",
}
FRAGMENTS = [*BENCHMARK, *EXTRAS]

# Dataset: (numerical, ordinal, categorical) features, (train, selection, test) rows.
TABLES = {
    "california_housing": ((7, 1, 0), (13_209, 3_303, 4_128)),
    "telecom": ((21, 14, 22), (32_669, 8_168, 10_210)),
    "diabetes130": ((3, 10, 34), (65_129, 16_283, 20_354)),
    "nomao": ((36, 53, 29), (22_465, 6_000, 6_000)),
    "covtype": ((9, 45, 0), (371_847, 92_962, 116_203)),
    "jannis": ((54, 0, 0), (19_292, 4_824, 6_029)),
    "microsoft_mslr_10k": ((85, 51, 0), (6_400, 1_600, 2_000)),  # 86, 50 counted on all rows
    "medical_indiana": ((3, 2, 6), (2_726, 682, 852)),
    "adult": ((2, 4, 8), (31_258, 7_815, 9_769)),
    "bike_sharing": ((0, 6, 1), (11_122, 2_781, 3_476)),
    "employee_salaries": ((0, 1, 7), (5_905, 1_477, 1_846)),
}
# Dataset: rows of each class over all roles, the positive one last.
CLASSES = {
    "telecom": (36_336, 14_711),
    "diabetes130": (54_864, 35_545 + 11_357),
    "nomao": (9_844, 24_621),
    "covtype": (211_840, 283_301, 35_754, 2_747, 9_493, 17_367, 20_510),
    "jannis": (607, 10_365, 5_304, 13_869),
    "adult": (37_155, 11_687),
}


def load(name: str, variant: str = "scope-fe") -> Spec:
    return load_spec(variant, fragments=[f"data/{name}"])


@pytest.fixture
def no_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as that of data files."""
    monkeypatch.setenv("SCOPEFE_DATA", str(tmp_path))
    return tmp_path


def test_the_tests_know_every_shipped_spec() -> None:
    folder = shipped_specs()
    assert {p.stem for p in folder.glob("*.yaml")} == {*VARIANTS, "_defaults"}
    assert {p.stem for p in (folder / "data").glob("*.yaml")} == set(FRAGMENTS)


def test_every_spec_opens_with_what_it_is() -> None:
    for path in shipped_specs().rglob("*.yaml"):
        assert path.read_text(encoding="utf-8").startswith("# "), path


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_loads_by_name_and_has_the_gates_of_the_paper(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = load_spec(name)
    pairs, operators = spec.scope.pairs, spec.scope.operators
    assert isinstance(pairs, GateUse)
    assert isinstance(operators, GateUse)
    assert (pairs.gate, pairs.parameters, operators.gate, operators.parameters) == VARIANTS[name]
    assert spec.name == name
    assert spec.description
    keep = "auto" if name in ("recommended", "quickstart") else 10
    assert (spec.seed, spec.selection.data_blocks, spec.selection.keep) == (1, 1, keep)


def test_the_quickstart_is_recommended_with_fewer_seeds() -> None:
    quickstart, variant = load_spec("quickstart"), load_spec("recommended")
    assert quickstart.evaluation.seeds == 5
    own = {"name": True, "description": True, "evaluation": True, "data": {"task"}}
    assert quickstart.model_dump(exclude=own) == variant.model_dump(exclude=own)


def test_a_target_of_one_s_own_has_its_own_task(tmp_path: Path) -> None:
    pd.DataFrame({"x": range(40), "late": [True, False] * 20}).to_csv(tmp_path / "t.csv", index=False)
    for name in VARIANTS.keys() - {"quickstart"}:
        data = {"source": str(tmp_path / "t.csv"), "target": "late"}
        spec = load_spec({"extends": name, "name": "own", "data": data})
        assert load_dataset(spec.data).labels.task == "binary"


def test_the_quickstart_table_has_numbers_and_text() -> None:
    data = load_dataset(load_spec("quickstart").data)
    assert dict(zip(data.table.names, data.table.kinds, strict=True)) == {
        "sex": "categorical",
        "length": "numerical",
        "diameter": "numerical",
        "height": "ordinal",
        "whole_weight": "numerical",
        "shucked_weight": "numerical",
        "viscera_weight": "numerical",
        "shell_weight": "numerical",
    }
    assert data.rows.counts() == {"train": 2672, "selection": 669, "test": 836}
    assert data.labels.task == "regression"


@pytest.mark.parametrize("name", FRAGMENTS)
def test_a_fragment_changes_the_data_of_every_variant(name: str, no_tables: Path) -> None:
    for variant in VARIANTS:
        plain, spec = load_spec(variant), load(name, variant)
        assert spec.data.source == FileSource(type="parquet", path=f"${{SCOPEFE_DATA}}/{name}.parquet")
        own = {"data", "selection", "evaluation"}
        assert spec.model_dump(exclude=own) == plain.model_dump(exclude=own)
        assert spec.evaluation.protocol == plain.evaluation.protocol
        assert spec.evaluation.seeds == plain.evaluation.seeds


@pytest.mark.parametrize("study", ["paper", "harm", "gates", "paper-operators"])
def test_of_many_classes_studies_keep_as_many_features_as_the_paper(study: str, no_tables: Path) -> None:
    loaded = load_study(f"studies/{study}")
    kept = {
        dataset: loaded.spec(dataset, variant).selection.keep
        for dataset in loaded.datasets
        for variant in loaded.variants
        if variant not in ("base", "recommended")
    }
    assert kept == {name: 50 if name in ("covtype", "jannis") else 10 for name in loaded.datasets}


@pytest.mark.parametrize("name", BENCHMARK)
def test_a_benchmark_fragment_has_its_settings(name: str, no_tables: Path) -> None:
    spec = load(name)
    selection, evaluation = spec.selection, spec.evaluation
    assert (spec.data.task, selection.data_blocks, selection.keep) == BENCHMARK[name]
    assert (selection.min_candidates, evaluation.max_trees, evaluation.early_stopping) == (2000, 2000, 50)
    assert set(evaluation.learner.parameters) == {
        "colsample_bytree",
        "learning_rate",
        "min_child_samples",
        "min_child_weight",
        "num_leaves",
        "reg_lambda",
        "subsample",
    }
    if name != "jannis":
        path = f"${{SCOPEFE_DATA}}/splits/{name}.parquet"
        assert spec.data.split == ColumnSplit(by="column", path=path, column="split", order="pos")


@pytest.mark.parametrize("name", ["jannis", *EXTRAS])
def test_a_split_that_is_not_published_says_so(name: str, no_tables: Path) -> None:
    split = load(name).data.split
    assert isinstance(split, FractionSplit)
    assert (split.train, split.selection, split.test, split.seed) == (0.64, 0.16, 0.20, 1)
    assert "benchmark's split" in split.note or "published split" in split.note


@pytest.mark.parametrize("name", EXTRAS)
def test_an_extra_is_not_tuned(name: str, no_tables: Path) -> None:
    spec = load(name)
    assert (spec.data.task, spec.evaluation.learner) == (EXTRAS[name], Evaluation().learner)


@pytest.mark.parametrize("name", FRAGMENTS)
def test_an_absent_table_is_one_line_that_names_it(name: str, no_tables: Path) -> None:
    with pytest.raises(DataError) as caught:
        load_dataset(load(name).data)
    message = str(caught.value)
    assert f"${{SCOPEFE_DATA}}/{name}.parquet" in message
    assert "\n" not in message


@needs_data("california_housing")
def test_an_absent_split_is_one_line_that_names_it(data_folder: Path, no_tables: Path) -> None:
    (no_tables / "california_housing.parquet").symlink_to(data_folder / "california_housing.parquet")
    with pytest.raises(DataError) as caught:
        load_dataset(load("california_housing").data)
    message = str(caught.value)
    assert "${SCOPEFE_DATA}/splits/california_housing.parquet" in message
    assert "\n" not in message


@pytest.mark.parametrize("name", FRAGMENTS)
def test_an_unset_data_folder_is_one_line_that_names_the_variable(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCOPEFE_DATA", raising=False)
    with pytest.raises(SpecError) as caught:
        load(name)
    message = str(caught.value)
    assert "SCOPEFE_DATA" in message
    assert f"{name}.yaml:" in message
    assert "\n" not in message


@pytest.mark.parametrize("name", [pytest.param(name, marks=needs_data(name)) for name in TABLES])
def test_a_table_is_read_as_its_fragment_says(name: str, data_folder: Path) -> None:
    data = load_dataset(load(name).data)
    kinds, rows = TABLES[name]
    assert tuple(map(data.table.kinds.count, ("numerical", "ordinal", "categorical"))) == kinds
    assert tuple(data.rows.counts().values()) == rows
    _check_labels(name, data)
    _check_columns(name, data)


def _check_labels(name: str, data: Dataset) -> None:
    if name not in CLASSES:
        assert data.labels.task == "regression"
        return
    assert data.labels.task == ("binary" if len(CLASSES[name]) == 2 else "multiclass")
    counts = np.bincount(data.labels.values.astype(np.int64))
    assert tuple(counts.tolist()) == CLASSES[name]


def _check_columns(name: str, data: Dataset) -> None:
    """Columns that are easily left in, or out, by mistake."""
    kept = {"telecom": {"CustomerID"}, "diabetes130": {"encounter_id", "patient_nbr"}}
    dropped = {
        "diabetes130": {"examide", "citoglipton"},
        "microsoft_mslr_10k": {"qid"},
        "bike_sharing": {"casual", "registered", "instant"},
    }
    assert kept.get(name, set()) <= set(data.table.names)
    assert {c for c, why in data.dropped.items() if why != "target"} == dropped.get(name, set())
    if name == "diabetes130":
        weight = data.table.keys(data.table.names.index("weight"))
        assert "?" in weight.labels.tolist()
        assert not weight.missing.any()
