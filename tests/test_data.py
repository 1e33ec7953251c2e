"""Reading a table: sources, kinds, encoding, labels, and what is said of data that cannot be used."""

from __future__ import annotations

import datetime
import decimal
import importlib.metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import scopefe
from scopefe import DataError, components
from scopefe.components import Keys
from scopefe.data.dataset import Dataset, load_dataset
from scopefe.data.kinds import encode, encode_column, kind_of
from scopefe.data.source import read
from scopefe.data.table import Feature, label_array, text_keys
from scopefe.spec.models import Data


def table(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    return pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "few": rng.integers(0, 5, n),
            "k": rng.choice(list("abc"), n),
            "y": rng.normal(size=n),
        }
    )


def load(frame: pd.DataFrame | None, **data: Any) -> Dataset:
    return load_dataset(Data.model_validate({"target": "y", **data}), frame)


def refused(frame: pd.DataFrame | None, **data: Any) -> str:
    with pytest.raises(DataError) as error:
        load(frame, **data)
    assert "\n" not in str(error.value)
    return str(error.value)


def kinds(data: Dataset) -> dict[str, str]:
    return dict(zip(data.table.names, data.table.kinds, strict=True))


# --- kinds -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "limit", "kind"),
    [
        (np.arange(100), 100, "ordinal"),
        (np.arange(101), 100, "numerical"),
        (np.append(np.arange(100.0), [np.nan] * 9), 100, "ordinal"),
        (np.arange(3), 2, "numerical"),
        ([1, 1, 1], 0, "numerical"),
        ([np.nan, np.nan], 100, "ordinal"),
        ([True, False], 100, "categorical"),
        (["1", "2"], 100, "categorical"),
        (pd.Categorical([1, 2]), 100, "categorical"),
        (pd.array([1, None], dtype="Int64"), 100, "ordinal"),
        (pd.array([True, None], dtype="boolean"), 100, "categorical"),
        (pd.array([True, None], dtype="bool[pyarrow]"), 100, "categorical"),
        (pd.to_datetime(["2020-01-01", None]), 100, "categorical"),
        (pd.to_timedelta([1, 2], unit="s"), 100, "categorical"),
        ([decimal.Decimal("1.5"), None], 100, "ordinal"),
    ],
)
def test_the_kind_of_a_column(values, limit, kind):
    assert kind_of(pd.Series(values), limit) == kind


def test_kinds_are_decided_on_development_rows_only():
    frame = pd.DataFrame({"x": np.arange(150.0), "y": np.arange(150.0)})
    part = ["train"] * 60 + ["val"] * 40 + ["test"] * 50
    roles = frame.assign(part=part)
    split = {"by": "column", "column": "part"}
    assert kinds(load(roles, split=split))["x"] == "ordinal"
    assert kinds(load(roles.assign(part=part[::-1]), split=split))["x"] == "ordinal"
    more = roles.assign(part=["train"] * 61 + ["val"] * 40 + ["test"] * 49)
    assert kinds(load(more, split=split))["x"] == "numerical"


def test_kinds_may_be_fixed_by_hand():
    fixed = {"few": "numerical", "x": "ordinal", "flag": "numerical", "digits": "numerical"}
    frame = table().assign(flag=[True, False] * 60, digits=["1", "2.5", None] * 40)
    data = load(frame, features={"kinds": fixed})
    assert kinds(data) == {
        "x": "ordinal", "few": "numerical", "k": "categorical", "flag": "numerical", "digits": "numerical",
    }  # fmt: skip
    np.testing.assert_array_equal(data.table.numeric(4)[:3], [1, 2.5, np.nan])
    few = load(table(), features={"kinds": {"few": "categorical"}}).table.keys(1)
    assert few.labels.tolist() == [0, 1, 2, 3, 4]


def test_a_fixed_kind_that_does_not_suit_or_names_nothing():
    assert refused(table(), features={"kinds": {"k": "numerical"}}).startswith(
        "column 'k' is to be numeric, but"
    )
    assert refused(table(), features={"kinds": {"fwe": "ordinal"}}) == (
        "data.features.kinds names 'fwe', which is no feature; did you mean 'few'?"
    )
    assert "'y', which is no feature" in refused(table(), features={"kinds": {"y": "ordinal"}})


# --- encoding ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "kept"),
    [("float32", "float32"), ("float64", "float64"), ("float16", "float64"), ("int8", "float64"),
     ("uint64", "float64"), ("Int64", "float64"), ("Float32", "float32"), ("Float64", "float64"),
     ("float[pyarrow]", "float32"), ("double[pyarrow]", "float64"), ("int64[pyarrow]", "float64")],
)  # fmt: skip
def test_numbers_are_floats_and_single_precision_is_kept(dtype, kept):
    feature = encode_column("x", pd.Series([3, 1, 3]).astype(dtype), "ordinal")
    assert feature.numbers.dtype == kept
    assert feature.numbers.tolist() == [3, 1, 3]
    assert (feature.keys.codes.tolist(), feature.keys.labels.tolist()) == ([1, 0, 1], [1, 3])


@pytest.mark.parametrize(
    "dtype", ["Int64", "Float32", "Float64", "int64[pyarrow]", "double[pyarrow]", "object"]
)
def test_missing_numbers_are_nan(dtype):
    feature = encode_column("x", pd.Series([3, None, 1], dtype=dtype), "ordinal")
    np.testing.assert_array_equal(feature.numbers, [3, np.nan, 1])
    assert feature.keys.codes.tolist() == [1, -1, 0]


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(["b", None, "a", "b"], dtype=object),
        pd.Series(["b", np.nan, "a", "b"], dtype="str"),
        pd.Series(["b", pd.NA, "a", "b"], dtype="string[python]"),
        pd.Series(["b", pd.NA, "a", "b"], dtype="string[pyarrow]"),
        pd.Series(["b", float("nan"), "a", "b"], dtype=object),
        pd.Series(["b", pd.NaT, "a", "b"], dtype=object),
        pd.Series(["b", None, "a", "b"]).astype("category"),
    ],
)
def test_texts_are_sorted_categories(values):
    keys = encode_column("k", values, "categorical").keys
    assert keys.labels.tolist() == ["a", "b"]
    assert keys.codes.tolist() == [1, -1, 0, 1]
    assert keys.codes.dtype == np.int64


@pytest.mark.parametrize(
    ("values", "labels", "codes"),
    [
        ([True, None, False], ["False", "True"], [1, -1, 0]),
        (pd.array([True, None, False], dtype="boolean"), ["False", "True"], [1, -1, 0]),
        (pd.Categorical(["z", None, "b"], categories=["z", "b", "q"]), ["z", "b", "q"], [0, -1, 1]),
        (pd.Categorical([3, None, 1]), [1, 3], [1, -1, 0]),
        ([2.5, np.inf, np.nan], [2.5, np.inf], [0, 1, -1]),
        (pd.to_datetime(["2020-01-02", None]), ["2020-01-02 00:00:00"], [0, -1]),
        ([datetime.date(2020, 1, 2), None], ["2020-01-02"], [0, -1]),
        ([decimal.Decimal("1.5"), None, decimal.Decimal("-1")], [-1, 1.5], [1, -1, 0]),
        ([1, "a", None, 2.5], [1, 2.5, "a"], [0, 2, -1, 1]),
        ([2**53, 2**53 + 1, -(2**53) - 1], [2.0**53, "-9007199254740993", "9007199254740993"], [0, 2, 1]),
        ([None, None], [], [-1, -1]),
        ([], [], []),
    ],
)
def test_categories_of_other_types(values, labels, codes):
    keys = encode_column("k", pd.Series(values, dtype=getattr(values, "dtype", object)), "categorical").keys
    assert keys.labels.tolist() == labels
    assert keys.codes.tolist() == codes


def test_a_category_may_stand_for_missing_texts():
    frame = table(6).assign(k=["a", None, "b", "", "?", None], y=range(6), few=[1, None, 2, 3, 4, 5])
    options: dict[str, Any] = {"task": "regression"}
    plain, named = (load(frame, features={"missing_as": m}, **options).table for m in (None, "?"))
    assert (plain.keys(2).codes < 0).tolist() == [False, True, False, True, False, True]
    labels = named.keys(2).labels[named.keys(2).codes]
    assert labels.tolist() == ["a", "?", "b", "?", "?", "?"]
    assert (
        (named.keys(1).codes < 0).tolist()
        == (plain.keys(1).codes < 0).tolist()
        == [False, True, *[False] * 4]
    )


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([[1], [2]], "holds values of type list"),
        ([{}, {}], "holds values of type dict"),
        ([1j, 2j], "complex"),
    ],
)
def test_columns_that_are_no_features(values, said):
    message = (
        refused(table(2).assign(bad=values), split={"train": 0.5, "selection": 0.25, "test": 0.25})
        if False
        else (refused(table(120).assign(bad=pd.Series(values * 60))))
    )
    assert "'bad'" in message and said in message


def test_the_caller_s_frame_is_not_changed():
    frame = table().set_index(pd.Index([7] * 120, name="i")).assign(flag=True)
    before = frame.copy(deep=True)
    columns, blocks = frame.columns, [frame[c].to_numpy() for c in frame]
    data = load(frame, features={"missing_as": "?"})
    for i in range(len(data.table)):
        data.table[i].model_values()
    pd.testing.assert_frame_equal(frame, before, check_exact=True)
    assert frame.columns is columns
    assert all(np.shares_memory(frame[c].to_numpy(), b) for c, b in zip(("x", "few"), blocks, strict=False))


# --- the target --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "data", "task", "classes", "first"),
    [
        (["no", "yes"] * 60, {}, "binary", ("no", "yes"), [0, 1]),
        ([True, False] * 60, {}, "binary", ("False", "True"), [1, 0]),
        (pd.array([True, False] * 60, dtype="boolean"), {}, "binary", ("False", "True"), [1, 0]),
        ([3, 1] * 60, {}, "binary", ("1", "3"), [1, 0]),
        ([0.5, 2.0, 1.0] * 40, {}, "multiclass", ("0.5", "1", "2"), [0, 2]),
        (list("cab") * 40, {}, "multiclass", ("a", "b", "c"), [2, 0]),
        (pd.Categorical(list("cab") * 40, list("cbad")), {}, "multiclass", ("c", "b", "a"), [0, 2]),
        (list(range(19)) * 6 + list(range(6)), {}, "multiclass", tuple(map(str, range(19))), [0, 1]),
        (list(range(20)) * 6, {}, "regression", (), [0, 1]),
        ([1, 2] * 60, {"task": "regression"}, "regression", (), [1, 2]),
        ([1, 2] * 60, {"task": "multiclass"}, "multiclass", ("1", "2"), [0, 1]),
        (list("cab") * 40, {"target": {"column": "y", "positive": ["a", "c"]}}, "binary",
         ("negative", "positive"), [1, 1]),
        (list("cab") * 40, {"target": {"column": "y", "negative": ["a"]}}, "binary",
         ("negative", "positive"), [1, 0]),
        ([3, 1, 2] * 40, {"target": {"column": "y", "positive": [3]}}, "binary",
         ("negative", "positive"), [1, 0]),
        ([True, False] * 60, {"target": {"column": "y", "positive": [False]}}, "binary",
         ("negative", "positive"), [0, 1]),
    ],
)  # fmt: skip
def test_what_is_predicted(target, data, task, classes, first):
    labels = load(table().assign(y=target), **data).labels
    assert (labels.task, labels.classes) == (task, classes)
    assert labels.values[:2].tolist() == first
    assert labels.values.dtype == np.float64


def test_rows_without_a_target():
    frame = table()
    frame.loc[[1, 5, 119], "y"] = np.nan
    assert refused(frame) == (
        "target 'y' is missing in 3 of 120 rows; set data.target.missing=drop to leave them out"
    )
    data = load(frame, target={"column": "y", "missing": "drop"})
    assert data.table.rows == sum(data.rows.counts().values()) == 117
    np.testing.assert_array_equal(data.table.numeric(0), frame.drop([1, 5, 119])["x"])
    np.testing.assert_array_equal(data.labels.values, frame["y"].dropna())


def test_rows_without_a_target_and_a_split_by_column():
    frame = table(10).assign(
        part=["train"] * 5 + ["val"] * 3 + ["test"] * 2, pos=[4, 3, 2, 1, 0, 0, 1, 2, 1, 0]
    )
    frame.loc[[0, 3, 6, 9], "y"] = np.nan
    split = {"by": "column", "column": "part", "order": "pos"}
    data = load(frame, target={"column": "y", "missing": "drop"}, split=split, task="regression")
    kept = frame.drop([0, 3, 6, 9])
    x = kept["x"].to_numpy()
    assert x[data.rows.train].tolist() == frame["x"][[4, 2, 1]].tolist()
    assert x[data.rows.selection].tolist() == frame["x"][[5, 7]].tolist()
    assert x[data.rows.test].tolist() == [frame["x"][8]]
    assert data.dropped == {"y": "target", "part": "split", "pos": "split"}


def test_a_regression_target_is_standardised_by_its_training_rows():
    data = load(table())
    scaled, train = data.scaled_target, len(data.rows.train)
    np.testing.assert_allclose([scaled[:train].mean(), scaled[:train].std()], [0, 1], atol=1e-12)
    back = scaled * data.labels.values[data.rows.train].std() + data.labels.values[data.rows.train].mean()
    np.testing.assert_allclose(back, data.labels.values[data.rows.development])


@pytest.mark.parametrize(
    ("change", "data", "said"),
    [
        ({"y": 1.5}, {"task": "regression"}, "the target is constant on the training rows"),
        ({"y": "a"}, {}, "the training rows have one class only ('a')"),
        ({"y": ["a", "b", "c"] * 40}, {"task": "binary"},
         "target 'y' has 3 classes: write data.target.positive"),
        ({"y": ["a", "b"] * 60}, {"task": "regression"},
         "target 'y' is no number: a regression needs numbers"),
        ({"y": [np.inf, *range(119)]}, {}, "target 'y' holds infinite values"),
        ({}, {"target": "Y"}, "data.target: there is no column 'Y'"),
        ({"y": ["no", "yes"] * 60}, {"target": {"column": "y", "positive": ["Yes"]}},
         "target 'y' never is 'Yes'; did you mean 'yes'?"),
        ({"y": range(120)}, {"target": {"column": "y", "positive": ["> 30"]}},
         "target 'y' never is '> 30'; numbers above one are positive by data.target.above"),
        ({"y": ["a", "b"] * 60}, {"target": {"column": "y", "above": 30}},
         "target 'y' is no number: data.target.above needs numbers"),
        ({"y": range(120)}, {"target": {"column": "y", "above": 300}},
         "the training rows have one class only ('negative')"),
        ({}, {"features": {"drop": ["fewer"]}}, "data.features.drop names 'fewer'; did you mean 'few'?"),
        ({}, {"features": {"drop": ["x", "few", "k"]}}, "no column is left as a feature"),
        ({"x": 1.0, "few": 2, "k": "a"}, {}, "every feature is constant on the development rows"),
        ({"x": None, "few": np.nan, "k": None}, {}, "every feature is constant on the development rows"),
        ({"y": np.nan}, {"target": {"column": "y", "missing": "drop"}}, ""),
    ],
)  # fmt: skip
def test_what_cannot_be_used(change, data, said):
    assert refused(table().assign(**change), **data).startswith(said)


def test_numbers_above_one_are_positive():
    frame = table().assign(y=[30, 31, 29.5] * 40)
    frame.loc[:2, "y"] = np.nan
    labels = load(frame, target={"column": "y", "above": 30, "missing": "drop"}).labels
    assert (labels.task, labels.classes) == ("binary", ("negative", "positive"))
    np.testing.assert_array_equal(labels.values, [0, 1, 0] * 39)


def test_classes_that_are_numbers_have_names_of_their_own():
    for given in ([1_000_001, 1_000_002], [0.12345671, 0.12345672, 3.0]):
        frame = pd.DataFrame({"a": np.arange(60.0), "y": np.array(given)[np.arange(60) % len(given)]})
        labels = load(frame, task="multiclass" if len(given) > 2 else "binary").labels
        assert labels.classes == tuple(str(value).removesuffix(".0") for value in given)


def test_a_class_that_no_training_row_has():
    frame = table(9).assign(y=list("aabbabcca"), part=["train"] * 5 + ["val"] * 2 + ["test"] * 2)
    message = refused(frame, split={"by": "column", "column": "part"})
    assert message == "class 'c' has no training row; change data.split"


def test_a_constant_feature_among_others_is_kept():
    assert kinds(load(table().assign(one=1)))["one"] == "ordinal"


# --- sources -----------------------------------------------------------------------------------------------


def zstandard_file(path: Path, text: str) -> None:
    with pa.output_stream(str(path), compression="zstd") as file:
        file.write(text.encode())


WRITERS = {
    "t.csv": lambda f, p: f.to_csv(p, index=False),
    "t.csv.gz": lambda f, p: f.to_csv(p, index=False),
    "t.csv.zip": lambda f, p: f.to_csv(p, index=False),
    "t.csv.zst": lambda f, p: zstandard_file(p, f.to_csv(index=False)),
    "t.tsv": lambda f, p: f.to_csv(p, index=False, sep="\t"),
    "t.parquet": lambda f, p: f.to_parquet(p),
    "t.pq": lambda f, p: f.to_parquet(p),
    "t.feather": lambda f, p: f.to_feather(p),
    "t.arrow": lambda f, p: f.to_feather(p),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_gives_the_same_table(name, tmp_path):
    frame = table().assign(text=["a,b", 'q"', "é", None] * 30)
    frame.loc[3, "x"] = np.nan
    WRITERS[name](frame, tmp_path / name)
    found, expected = load(None, source=str(tmp_path / name)), load(frame)
    assert kinds(found) == kinds(expected)
    assert found.fingerprint == expected.fingerprint
    np.testing.assert_array_equal(found.labels.values, expected.labels.values)


def test_the_type_of_a_file_may_be_told(tmp_path):
    table().to_csv(tmp_path / "data.txt", index=False)
    path = str(tmp_path / "data.txt")
    assert load(None, source={"type": "csv", "path": path}).table.names == ["x", "few", "k"]


def test_frames_that_cannot_be_read():
    twice = pa.Table.from_arrays([pa.array([1.0])] * 3, names=["x", "y", "x"])
    assert refused(twice) == "two columns are named 'x': rename one of them"


def test_what_a_query_gives(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    frame = table().assign(text=["a,b", 'q"', "é", None] * 30)
    frame.to_parquet(tmp_path / "t.parquet")
    query = f"SELECT * FROM '{tmp_path / 't.parquet'}'"
    expected = load(frame).fingerprint
    assert load(None, source={"type": "sql", "query": query}).fingerprint == expected
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t AS {query}")
    source = {"type": "sql", "query": "SELECT * FROM t", "path": str(tmp_path / "t.duckdb")}
    assert load(None, source=source).fingerprint == expected
    absent = {**source, "path": str(tmp_path / "none.duckdb")}
    assert refused(None, source=absent) == f"there is no file {absent['path']!r}"
    unknown = {**source, "query": "SELECT * FROM u"}
    assert refused(None, source=unknown).startswith("the query of data.source fails: Catalog Error: ")
    empty = {**source, "query": " -- nothing"}
    assert refused(None, source=empty) == "the query of data.source gives no table"
    spec = {"name": "n", "data": {"source": {"type": "sql", "query": query}, "target": "y"}}
    overrides = ["selection.keep=1", "scope.operators=all", "evaluation.seeds=0"]
    assert scopefe.execute(
        scopefe.load_spec(spec, overrides=overrides), write=False
    ).report.selection.selected
    nothing = {**source, "query": "SELECT * FROM t WHERE false"}
    assert refused(None, source=nothing) == "the table has no rows"


def test_a_file_that_a_package_ships():
    source = {"type": "package", "distribution": "scikit-lego", "path": "sklego/data/abalone.zip"}
    assert load(None, source=source, target="rings").table.rows > 4000
    absent = {**source, "path": "sklego/data/none.zip"}
    assert refused(None, source=absent).endswith("does not ship 'sklego/data/none.zip'")
    unknown = {**source, "distribution": "no-such-thing"}
    assert refused(None, source=unknown) == (
        "the data comes with the package no-such-thing: pip install no-such-thing"
    )


@pytest.mark.parametrize(
    ("distribution", "what"),
    [("scikit-lego", "'scopefe[examples]'"), ("Scikit.LEGO", "'scopefe[examples]'"), ("ruff", "ruff")],
)
def test_an_extra_brings_a_package_that_is_not_installed(distribution, what, monkeypatch):
    installed = importlib.metadata.distribution

    def absent(name):
        if name == distribution:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(importlib.metadata, "distribution", absent)
    source = {"type": "package", "distribution": distribution, "path": "table.csv"}
    expected = f"the data comes with the package {distribution}: pip install {what}"
    assert refused(None, source=source) == expected


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", b"", "cannot be read as csv: "),
        ("t.csv", b"x,y\n1,2\n1,2,3,4\n", "cannot be read as csv: "),
        ("t.csv", b"x,y\n\xff\xfe,1\n", "cannot be read as csv: "),
        ("t.csv.gz", b"x,y\n1,2\n", "cannot be read as csv: "),
        ("t.parquet", b"x,y\n1,2\n", "cannot be read as parquet: "),
        ("t.feather", b"x,y\n1,2\n", "cannot be read as arrow: "),
        ("t.csv", b"x,y\n", "the table has no rows"),
        ("t.csv", b"x;y\n1,5;2\n", "t.csv' seem to be separated by ';': save it with commas"),
        ("t.csv", b"x\ty\n1\t2\n", "t.csv' seem to be separated by '\\t': save it with commas"),
        ("t.csv", b"x,x,y\n1,2,3\n", "two columns are named 'x': rename one of them"),
    ],
)
def test_files_that_cannot_be_read(name, content, said, tmp_path):
    (tmp_path / name).write_bytes(content)
    assert said in refused(None, source=str(tmp_path / name))


def test_no_file_and_no_frame(tmp_path):
    assert refused(None, source=str(tmp_path / "t.csv")) == f"there is no file {str(tmp_path / 't.csv')!r}"
    assert refused(None) == "data.source is missing: name a file, or pass data= in Python"


def test_a_frame_wins_over_the_source():
    assert load(table(), source="absent.csv").table.rows == 120


def test_two_columns_of_one_name():
    frame = table()
    assert (
        refused(frame.set_axis(["x", "x", "k", "y"], axis=1))
        == "two columns are named 'x': rename one of them"
    )
    assert (
        refused(frame.set_axis([1, "1", "k", "y"], axis=1)) == "two columns are named '1': rename one of them"
    )
    assert refused(frame.iloc[:0]) == "the table has no rows"


def test_names_that_are_no_text():
    frame = table().set_axis([0, 1.5, ("a", 2), "y"], axis=1)
    assert load(frame).table.names == ["0", "1.5", "('a', 2)"]
    assert frame.columns.tolist() == [0, 1.5, ("a", 2), "y"]


def test_reading_hands_out_a_frame_of_its_own():
    frame = table()
    found = read(Data(target={"column": "y"}).source, frame)
    found["new"] = 1
    found.columns = list("abcde")
    assert frame.columns.tolist() == ["x", "few", "k", "y"]


# --- the column store --------------------------------------------------------------------------------------


def test_taken_rows_keep_the_categories_and_share_nothing():
    frame = pd.DataFrame({"k": ["b", None, "a", "c"], "x": [1.0, 2.0, 3.0, 4.0], "o": [5, 6, 5, 7]})
    whole = encode(frame, np.arange(4), kinds={"x": "numerical"})
    part = whole.take(np.array([3, 0, 0])).take(np.array([2, 0]))
    assert part.keys(0).codes.tolist() == [1, 2] and part.keys(0).labels.tolist() == ["a", "b", "c"]
    assert part.numeric(1).tolist() == [1, 4] and part.keys(1).codes.tolist() == [0, 1]
    assert part.keys(2).codes.tolist() == [0, 2]
    assert (part.rows, whole.rows, len(part)) == (2, 4, 3)


def test_a_compact_table_has_only_the_categories_of_its_rows():
    frame = pd.DataFrame({"k": ["b", None, "a", "c"], "x": [1.0, 2.0, 3.0, 4.0], "o": [5, 6, 5, 7]})
    whole = encode(frame, np.arange(4), kinds={"x": "numerical"})
    part = whole.take(np.array([3, 1, 0])).compact()
    assert part.keys(0).codes.tolist() == [1, -1, 0] and part.keys(0).labels.tolist() == ["b", "c"]
    assert part.numeric(1).tolist() == [4, 2, 1] and part.keys(1).labels.tolist() == [1, 2, 4]
    assert part.keys(2).codes.tolist() == [2, 1, 0] and part.kinds == whole.kinds
    assert part.fingerprint() == whole.take(np.array([3, 1, 0])).fingerprint()
    assert whole.take(np.array([1])).compact().keys(0).size == 0


def test_rows_taken_twice_and_slices_of_rows():
    frame = pd.DataFrame({"x": np.arange(10.0), "k": list("abcdefghij"), "o": [1, 2] * 5})
    whole = encode(frame, np.arange(10), kinds={"x": "numerical"})
    part = whole.take(np.array([9, 3, 5, 7, 0])).take(slice(1, 4))
    assert (
        part.rows == 3 and part.numeric(0).tolist() == [3, 5, 7] and part.keys(1).codes.tolist() == [3, 5, 7]
    )
    assert part.keys(2).labels is whole.keys(2).labels
    again = part.take(np.array([2, 0]))
    assert again.numeric(0).tolist() == [7, 3] and again.keys(0).labels.tolist() == [3, 7]
    assert whole.take(slice(None)).fingerprint() == whole.fingerprint()
    assert whole.take(slice(3, 3)).rows == 0


def test_what_is_computed_of_a_column_is_kept_with_it():
    frame = pd.DataFrame({"x": [3.0, np.nan, -1.0, 3.0, -np.inf]})
    part = encode(frame, np.arange(5), kinds={"x": "numerical"}).take(np.arange(5)[::-1])
    assert part[0].ordered is part[0].ordered and part.keys(0) is part.keys(0)
    assert part[0].ordered.order.tolist() == [0, 2, 1, 4, 3]
    assert part.keys(0).counts.tolist() == [1, 1, 2]


def test_a_column_that_is_looked_at_once_is_not_kept():
    frame = pd.DataFrame({"x": [3.0, 1.0], "k": ["a", "b"]})
    part = encode(frame, np.arange(2)).take(np.array([1, 0]))
    assert part.passing(0).numbers.tolist() == [1.0, 3.0]
    assert part.passing(0) is not part.passing(0)
    assert part[0] is part.passing(0), "it is kept now"
    part.forget()
    assert part.passing(0) is not part.passing(0)
    assert part[1].keys.codes.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("labels", "kind"), [(1, np.int8), (128, np.int8), (129, np.int16), (40_000, np.int32)]
)
def test_codes_are_held_in_few_bytes_and_given_as_int64(labels, kind):
    codes = np.array([-1, 0, labels - 1])
    keys = Keys(codes, np.arange(labels, dtype=np.float64))
    assert keys.codes.dtype == np.int64
    assert keys.codes.tolist() == codes.tolist()
    assert keys.take(np.array([2, 0])).codes.tolist() == [labels - 1, -1]
    assert keys._codes.dtype == kind


def test_what_a_model_is_given():
    frame = pd.DataFrame(
        {"k": ["b", None, "a"], "x": [np.inf, np.nan, 3.0], "o": [5, 6, 5], "f": ["u", "v", "u"]}
    )
    given = encode(frame, np.arange(3), kinds={"x": "numerical"})
    matrix = np.stack([given[i].model_values() for i in range(4)], axis=1)
    np.testing.assert_array_equal(matrix, [[2, np.nan, 5, 0], [0, np.nan, 6, 1], [1, 3, 5, 0]])


def test_fingerprints_tell_tables_apart_and_nothing_else():
    def of(frame: pd.DataFrame) -> str:
        return encode(frame, np.arange(len(frame))).fingerprint()

    frame = pd.DataFrame({"x": [1.0, 2.0], "k": ["a", "b"]})
    assert of(frame) == of(frame.set_axis([5, 5])) == of(frame.astype({"k": "category"}))
    others = [
        frame.assign(x=[1.0, 3.0]), frame.assign(k=["a", "c"]), frame.astype({"x": "float32"}),
        frame.rename(columns={"x": "z"}), frame.iloc[::-1], frame.assign(k=["a", None]),
    ]  # fmt: skip
    assert len({of(f) for f in [frame, *others]}) == 7


def test_the_data_of_a_spec():
    spec = scopefe.load_spec({"name": "n", "data": {"target": "y", "features": {"drop": ["few"]}}})
    data = load_dataset(spec.data, table(200))
    assert kinds(data) == {"x": "numerical", "k": "categorical"}
    assert data.dropped == {"y": "target", "few": "dropped by the spec"}
    assert data.rows.counts() == {"train": 128, "selection": 32, "test": 40}


def test_what_is_no_frame_is_refused():
    with pytest.raises(DataError, match="must be a pandas, polars or pyarrow frame, not ndarray"):
        load(np.zeros((3, 2)))


def test_categories_of_other_rows_do_not_change_a_models_codes():
    few = text_keys(pd.Series(["b", None, "d", "b"]))
    many = text_keys(pd.Series(["a", "b", None, "c", "d", "b", "e"])).take(np.array([1, 2, 4, 5]))
    codes = [Feature("x", "categorical", None, keys).category_codes.tolist() for keys in (few, many)]
    assert codes == [[1, 0, 2, 1]] * 2


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_of_other_libraries_are_the_same_data(library):
    frame = pd.DataFrame({"a": [1.5, None, 3.0, 4.0], "k": ["x", None, "y", "x"], "y": [0, 1, 0, 1]})
    package = pytest.importorskip(library)
    other = package.from_pandas(frame) if library == "polars" else package.Table.from_pandas(frame)
    first, second = (load_dataset(Data(target={"column": "y"}), table) for table in (frame, other))
    assert first.fingerprint == second.fingerprint


def test_codes_over_other_labels():
    keys = Keys(np.array([0, 1, 2, -1, 1]), label_array(["a", 1.0, "1"]))
    other = label_array(["1", "b", 1.0])
    for _ in range(2):
        assert keys.coded_as(other).tolist() == [-1, 2, 0, -1, 2]
    assert keys.coded_as(np.array([-0.0, 1.0])).tolist() == [-1, 1, -1, -1, 1]
    assert keys.coded_as(np.empty(0)).tolist() == [-1] * 5
    assert Keys(np.array([-1]), np.empty(0)).coded_as(other).tolist() == [-1]
    known = len(components._known)
    del other
    assert len(components._known) == known - 1, "labels that are gone are forgotten"
