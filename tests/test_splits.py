"""The three row roles: every row has one, and who decides which."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import find_data_folder, needs_data
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from sklearn.model_selection import train_test_split

from scopefe import DataError
from scopefe.data.dataset import Dataset, load_dataset
from scopefe.data.splits import Rows, assign
from scopefe.spec.models import Data, Split

ADAPTER: TypeAdapter[Any] = TypeAdapter(Split)


def rows(frame: pd.DataFrame, classes: Any = None, **split: Any) -> Rows:
    return assign(ADAPTER.validate_python(split), frame, None if classes is None else np.asarray(classes))


def refused(frame: pd.DataFrame, **split: Any) -> str:
    with pytest.raises(DataError) as error:
        rows(frame, **split)
    assert "\n" not in str(error.value)
    return str(error.value)


def assert_partition(found: Rows, n: int) -> None:
    everything = np.concatenate([found.train, found.selection, found.test])
    assert sorted(everything.tolist()) == list(range(n))
    assert len(found.train) and len(found.selection)


def table(n: int) -> pd.DataFrame:
    return pd.DataFrame({"x": np.arange(n)})


# --- fractions ---------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_fractions_give_every_row_one_role(data):
    n = data.draw(st.integers(3, 60))
    classes = data.draw(st.none() | st.lists(st.integers(0, 3), min_size=n, max_size=n))
    test = data.draw(st.sampled_from([0.0, 0.01, 0.2, 0.5, 0.9]))
    selection = (1 - test) * data.draw(st.sampled_from([0.01, 0.2, 0.5, 0.99]))
    split = {"train": 1 - test - selection, "selection": selection, "test": test}
    found = rows(table(n), classes, **split)
    assert_partition(found, n)
    assert (len(found.test) > 0) == (test > 0)


@pytest.mark.parametrize(
    ("most", "train", "selection", "test"), [(50, 40, 10, 50), (95, 64, 16, 20), (2, 1, 1, 98)]
)
def test_development_rows_can_be_limited(most, train, selection, test):
    found = rows(table(100), development=most)
    assert found.counts() == {"train": train, "selection": selection, "test": test}
    assert_partition(found, 100)


def test_fractions_are_kept():
    found = rows(table(1000))
    assert found.counts() == {"train": 640, "selection": 160, "test": 200}
    assert not np.array_equal(found.train, np.sort(found.train))


def test_the_default_split_is_scikit_learn_s_twice():
    found = rows(table(1003), seed=0)
    rest, test = train_test_split(np.arange(1003), test_size=0.2, random_state=0)
    train, selection = train_test_split(rest, test_size=0.2, random_state=0)
    for ours, theirs in ((found.train, train), (found.selection, selection), (found.test, test)):
        np.testing.assert_array_equal(ours, theirs)


def test_seeds_matter_and_nothing_else_does():
    one, again, other = (rows(table(200), seed=s) for s in (1, 1, 2))
    assert np.array_equal(one.train, again.train) and np.array_equal(one.test, again.test)
    assert not np.array_equal(one.train, other.train)
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    assert np.array_equal(rows(table(200), seed=1).train, one.train)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_classes_are_stratified():
    classes = np.repeat([0, 1, 2], [700, 200, 100])
    found = rows(table(1000), classes)
    for part in (found.train, found.selection, found.test):
        shares = np.bincount(classes[part]) / len(part)
        np.testing.assert_allclose(shares, [0.7, 0.2, 0.1], atol=0.01)
    plain = rows(table(1000))
    assert not np.array_equal(plain.test, found.test)


def test_classes_too_small_to_stratify_are_split_at_random():
    classes = np.array([0] * 99 + [1])
    assert_partition(rows(table(100), classes), 100)
    many = np.repeat(np.arange(30), 2)
    found = rows(table(60), many, train=0.8, selection=0.1, test=0.1)
    assert_partition(found, 60)
    assert len(found.test) == 6


def test_too_few_rows():
    assert refused(table(2)) == "2 rows are too few to split"
    assert rows(table(3)).counts() == {"train": 1, "selection": 1, "test": 1}


def test_fractions_must_add_up():
    with pytest.raises(ValidationError, match=r"train \+ selection \+ test is 1\.1, not 1"):
        rows(table(9), train=0.6, selection=0.3, test=0.2)


# --- a column ----------------------------------------------------------------------------------------------


def test_a_column_says_it():
    frame = pd.DataFrame({"split": ["test", "train", "val", "train", "val", "train"], "x": range(6)})
    found = rows(frame, by="column")
    assert [p.tolist() for p in (found.train, found.selection, found.test)] == [[1, 3, 5], [2, 4], [0]]


@pytest.mark.parametrize("dtype", ["object", "str", "category", "string[pyarrow]"])
def test_roles_of_any_type_and_of_several_values(dtype):
    frame = pd.DataFrame({"fold": pd.Series(["a", "b", "c", "d"], dtype=dtype)})
    found = rows(frame, by="column", column="fold", train=["a", "d"], selection=["b"], test=["c"])
    assert [p.tolist() for p in (found.train, found.selection, found.test)] == [[0, 3], [1], [2]]


def test_roles_that_are_numbers_or_truth_values():
    frame = pd.DataFrame({"fold": [0, 1, 2, 0], "late": [False, True, False, False]})
    found = rows(frame, by="column", column="fold", train=[0], selection=[1], test=[2])
    assert [p.tolist() for p in (found.train, found.selection, found.test)] == [[0, 3], [1], [2]]
    found = rows(frame, by="column", column="late", train=[False], selection=[True], test=[])
    assert [p.tolist() for p in (found.train, found.selection, found.test)] == [[0, 2, 3], [1], []]


def test_the_order_inside_a_part():
    frame = pd.DataFrame({"split": ["train", "val", "train", "train", "val"], "pos": [2, 1, 0, 1, 0]})
    found = rows(frame, by="column", order="pos")
    assert (found.train.tolist(), found.selection.tolist()) == ([2, 3, 0], [4, 1])


def test_another_file_has_the_column(tmp_path):
    frame = pd.DataFrame({"x": range(4)})
    roles = pd.DataFrame({"part": ["val", "train", "train", "test"], "pos": [0, 1, 0, 0]})
    for name, write in (("r.csv", roles.to_csv), ("r.parquet", roles.to_parquet)):
        write(tmp_path / name, index=False)
        found = rows(frame, by="column", column="part", order="pos", path=str(tmp_path / name))
        assert [p.tolist() for p in (found.train, found.selection, found.test)] == [[2, 1], [0], [3]]
    message = refused(frame.iloc[:3], by="column", column="part", path=str(tmp_path / "r.csv"))
    assert message.endswith("r.csv has 4 rows, the data 3")
    assert "there is no file" in refused(frame, by="column", path=str(tmp_path / "absent.csv"))


def test_columns_that_do_not_say_it():
    frame = pd.DataFrame({"split": ["train", "valid", "test"]})
    assert (
        refused(frame, by="column")
        == "column 'split' has rows with 'valid', which is no role; did you mean 'val'?"
    )
    assert refused(frame, by="column", column="splt") == (
        "data.split.column: there is no column 'splt'; did you mean 'split'?"
    )
    assert refused(frame, by="column", column="split", order="pos", selection=["valid"]).startswith(
        "data.split.order: there is no column 'pos'"
    )
    assert "no selection rows" in refused(pd.DataFrame({"split": ["train", "test"]}), by="column")
    assert "no train rows" in refused(pd.DataFrame({"split": ["val", "test"]}), by="column")


@needs_data("california_housing")
def test_the_benchmark_s_rows_of_california():
    folder = find_data_folder()
    assert folder is not None
    frame = pd.read_parquet(folder / "california_housing.parquet")
    path = str(folder / "splits" / "california_housing.parquet")
    found = rows(frame, by="column", path=path, column="split", order="pos")
    roles = pd.read_parquet(path)
    for role, part in (("train", found.train), ("val", found.selection), ("test", found.test)):
        assert (roles["split"].iloc[part] == role).all()
        assert roles["pos"].iloc[part].tolist() == list(range(len(part)))
    assert found.counts() == {"train": 13209, "selection": 3303, "test": 4128}
    assert_partition(found, len(frame))


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        pytest.param("telecom", (32669, 8168, 10210), marks=needs_data("telecom")),
        pytest.param("nomao", (22465, 6000, 6000), marks=needs_data("nomao")),
    ],
)
def test_the_benchmark_s_parts(name, counts):
    folder = find_data_folder()
    assert folder is not None
    path = folder / "splits" / f"{name}.parquet"
    n = len(pd.read_parquet(path))
    found = rows(table(n), by="column", path=str(path), column="split", order="pos")
    assert_partition(found, n)
    assert tuple(found.counts().values()) == counts


# --- time --------------------------------------------------------------------------------------------------

TIMES = {
    "numbers": np.arange(100),
    "floats": np.arange(100) / 4,
    "dates": pd.date_range("2020-01-01", periods=100),
    "dates in a zone": pd.date_range("2020-01-01", periods=100, tz="Europe/Paris"),
    "texts": pd.date_range("2020-01-01", periods=100).strftime("%Y-%m-%d"),
    "texts with hours": pd.date_range("2020-01-01", periods=100, freq="h").strftime("%Y-%m-%d %H:%M"),
    "objects": pd.date_range("2020-01-01", periods=100).date,
    "nullable": pd.array(range(100), dtype="Int64"),
}


@pytest.mark.parametrize("kind", TIMES)
def test_the_earliest_train_and_the_latest_test(kind):
    order = np.random.default_rng(0).permutation(100)
    frame = pd.DataFrame({"t": TIMES[kind]}).iloc[order]
    found = rows(frame, by="time", column="t")
    assert_partition(found, 100)
    assert order[found.train].tolist() == list(range(64))
    assert order[found.selection].tolist() == list(range(64, 80))
    assert order[found.test].tolist() == list(range(80, 100))


@settings(max_examples=60, deadline=None)
@given(times=st.lists(st.integers(0, 12), min_size=8, max_size=50), test=st.sampled_from([0.0, 0.2, 0.4]))
def test_rows_of_one_time_stay_together(times, test):
    frame = pd.DataFrame({"t": times})
    t = frame["t"].to_numpy()
    split = {"by": "time", "column": "t", "train": 0.8 - test, "selection": 0.2, "test": test}
    try:
        found = rows(frame, **split)
    except DataError:
        assert "the split leaves no" in refused(frame, **split)
        assert len(set(times)) < len(times)
        return
    assert_partition(found, len(times))
    assert t[found.train].max() < t[found.selection].min()
    assert not len(found.test) or t[found.selection].max() < t[found.test].min()


def test_times_that_do_not_order_the_rows():
    assert refused(pd.DataFrame({"t": [1.0, np.nan, 2.0]}), by="time", column="t") == (
        "column 't' orders the rows, but has 1 missing"
    )
    frame = pd.DataFrame({"t": ["soon", "late", "never"]})
    assert refused(frame, by="time", column="t").startswith("column 't' is no time: ")
    frame = pd.DataFrame({"t": ["2020-01-01", "never", "2020-01-03"]})
    assert refused(frame, by="time", column="t").startswith("column 't' is no time: ")
    assert "the split leaves no train rows" in refused(pd.DataFrame({"t": [1] * 9}), by="time", column="t")
    assert refused(frame, by="time", column="T").startswith("data.split.column: there is no column 'T'")


# --- groups ------------------------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(names=st.lists(st.sampled_from(list("abcdefgh")), min_size=10, max_size=40), seed=st.integers(0, 5))
def test_rows_of_one_group_stay_together(names, seed):
    frame = pd.DataFrame({"g": names})
    if len(set(names)) < 3:
        assert "has too few groups to split" in refused(frame, by="groups", column="g", seed=seed)
        return
    found = rows(frame, by="groups", column="g", seed=seed)
    assert_partition(found, len(names))
    parts = [{names[i] for i in part} for part in (found.train, found.selection, found.test)]
    assert sum(map(len, parts)) == len(set(names))


def test_groups_may_be_missing_and_of_any_type():
    frame = pd.DataFrame({"g": pd.Series([None, 1, 1, "a", None, "b", 2.5, "c"] * 5, dtype=object)})
    found = rows(frame, by="groups", column="g")
    assert_partition(found, 40)
    missing = set(np.flatnonzero(frame["g"].isna()))
    assert sum(bool(missing & set(p.tolist())) for p in (found.train, found.selection, found.test)) == 1


def test_groups_without_a_test_part():
    found = rows(pd.DataFrame({"g": list("aabb")}), by="groups", column="g", train=0.8, selection=0.2, test=0)
    assert found.counts() == {"train": 2, "selection": 2, "test": 0}


# --- separate files ----------------------------------------------------------------------------------------


def whole() -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {"x": rng.normal(size=60), "k": rng.choice(["a", "b", None], 60), "y": rng.normal(size=60)}
    )


def load(frame: pd.DataFrame, split: Any, **data: Any) -> Dataset:
    return load_dataset(Data.model_validate({"target": "y", "split": split, **data}), frame)


def test_separate_files_are_joined_in_their_order(tmp_path):
    frame = whole()
    train, selection, test = frame[:30], frame[30:45], frame[45:]
    selection[["y", "x", "k"]].assign(more=1).to_csv(tmp_path / "s.csv", index=False)
    test.to_parquet(tmp_path / "t.parquet")
    split = {"by": "files", "selection": str(tmp_path / "s.csv"), "test": str(tmp_path / "t.parquet")}
    data = load(train, split)
    assert data.rows.counts() == {"train": 30, "selection": 15, "test": 15}
    assert_partition(data.rows, 60)
    assert data.table.names == ["x", "k"]
    np.testing.assert_allclose(data.table.numeric(0), frame["x"])
    np.testing.assert_allclose(data.labels.values, frame["y"])
    assert (data.table.keys(1).codes < 0).tolist() == frame["k"].isna().tolist()


def test_separate_files_without_a_test_part(tmp_path):
    frame = whole()
    frame[40:].to_parquet(tmp_path / "s.parquet")
    data = load(frame[:40], {"by": "files", "selection": str(tmp_path / "s.parquet")})
    assert data.rows.counts() == {"train": 40, "selection": 20, "test": 0}


def test_separate_files_with_a_column_that_is_all_missing(tmp_path):
    frame = whole()
    frame[40:].assign(x=np.nan, k=None).to_parquet(tmp_path / "s.parquet")
    data = load(frame[:40], {"by": "files", "selection": str(tmp_path / "s.parquet")})
    assert data.table.kinds == ["ordinal", "categorical"]
    assert np.isnan(data.table.numeric(0)[40:]).all()


def test_separate_files_with_rows_without_a_target(tmp_path):
    frame = whole()
    frame.loc[[0, 50], "y"] = np.nan
    frame[40:].to_parquet(tmp_path / "s.parquet")
    split = {"by": "files", "selection": str(tmp_path / "s.parquet")}
    data = load(frame[:40], split, target={"column": "y", "missing": "drop"})
    assert data.rows.counts() == {"train": 39, "selection": 19, "test": 0}
    np.testing.assert_array_equal(data.labels.values, frame["y"].dropna())


def test_separate_files_that_do_not_fit(tmp_path):
    frame = whole()
    frame.rename(columns={"k": "kk"}).to_csv(tmp_path / "s.csv", index=False)
    for split, said in (
        ({"selection": str(tmp_path / "s.csv")}, "has no column 'k'; did you mean 'kk'?"),
        ({"selection": str(tmp_path / "absent.csv")}, "there is no file"),
    ):
        with pytest.raises(DataError) as error:
            load(frame, {"by": "files", **split})
        assert said in str(error.value) and "\n" not in str(error.value)


def test_columns_that_serve_the_split_are_no_features():
    frame = whole().assign(g=np.arange(60) % 9, t=np.arange(60), split=["train", "train", "val"] * 20)
    by_group = load(frame, {"by": "groups", "column": "g"})
    by_column = load(frame, {"by": "column"})
    assert by_group.dropped == {"y": "target", "g": "split"}
    assert by_column.dropped == {"y": "target", "split": "split"}
    assert "t" in load(frame, {"by": "time", "column": "t"}).table.names


# --- what makes no sense


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"train": ["train", "test"]}, "'test' is in two roles, train and test"),
        ({"train": ["train", "val"]}, "'val' is in two roles, train and selection"),
        ({"selection": ["val", "test"]}, "'test' is in two roles, selection and test"),
        ({"train": [1, 2], "selection": [True]}, "True is in two roles, train and selection"),
    ],
)
def test_a_value_has_one_role(split, message):
    with pytest.raises(ValidationError, match=message):
        ADAPTER.validate_python({"by": "column", **split})


def test_a_file_has_one_role():
    with pytest.raises(ValidationError, match=r"selection and test are one file, 'a\.csv'"):
        ADAPTER.validate_python({"by": "files", "selection": "a.csv", "test": "a.csv"})
    given = {
        "source": "a.csv",
        "target": "y",
        "split": {"by": "files", "selection": "b.csv", "test": "a.csv"},
    }
    with pytest.raises(ValidationError, match=r"split\.test is the file of the training rows, 'a\.csv'"):
        Data.model_validate(given)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"weight": "y"}, "weight is the column 'y', which is the target"),
        ({"split": {"by": "time", "column": "y"}}, r"split\.column is the column 'y', which is the target"),
        ({"split": {"by": "groups", "column": "y"}}, "which is the target"),
        ({"split": {"by": "column", "column": "y"}}, "which is the target"),
        ({"split": {"by": "column", "order": "y"}}, r"split\.order is the column 'y', which is the target"),
        ({"weight": "w", "split": {"by": "groups", "column": "w"}}, "which is the weight"),
    ],
)
def test_a_column_has_one_use(data, message):
    with pytest.raises(ValidationError, match=message):
        Data.model_validate({"target": "y", **data})


@pytest.mark.parametrize("order", [["a", "b", "c", "d"], [1.0, np.nan, 2.0, 3.0], [None] * 4])
def test_what_orders_rows_is_all_numbers_or_times(order):
    frame = pd.DataFrame({"split": ["train", "train", "val", "test"], "order": order})
    assert "column 'order' orders the rows, but" in refused(frame, by="column", order="order")
    frame["order"] = pd.to_datetime(["2024-01-02", "2024-01-01", "2024-01-03", "2024-01-04"])
    assert rows(frame, by="column", order="order").train.tolist() == [1, 0]


def test_separate_files_hold_the_same_kinds(tmp_path):
    pd.DataFrame({"a": ["x", "y"], "y": [1.0, 2.0]}).to_csv(tmp_path / "more.csv", index=False)
    given = {"target": "y", "split": {"by": "files", "selection": str(tmp_path / "more.csv")}}
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]})
    with pytest.raises(
        DataError, match=r"column 'a' holds numbers in the data, but other values in .*more\.csv"
    ):
        load_dataset(Data.model_validate(given), frame)
