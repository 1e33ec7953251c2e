"""The scikit-learn transformer: its contract, pipelines, and every family of tables."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

import scopefe
from scopefe import ScopeFE
from scopefe.run.engines import cores

FEW = ("baseline.max_trees=20", "selection.keep=3", "operators.use=[+, '*', freq, GroupByThenMean]")
QUICK = ScopeFE("openfe", overrides=("baseline.max_trees=5", "selection.keep=2", "operators.use=['*', freq]"))


def table(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=rows) for i in range(3)})
    frame["k"] = rng.choice(list("abcde"), size=rows)
    frame.loc[::23, ["x1", "k"]] = [np.nan, None]
    y = frame["x0"] * frame["x2"] + 0.05 * rng.normal(size=rows)
    return frame, y.to_numpy()


def small(**parameters):
    return ScopeFE("openfe", overrides=FEW, **parameters)


UNEQUAL = {
    "check_sample_weight_equivalence_on_dense_data": "a row of weight 2 is one row, where rows are counted: "
    "in the least size of a leaf, the split, and operators that learn"
}


@parametrize_with_checks([QUICK], expected_failed_checks=lambda _: UNEQUAL)
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


# --- what it finds


def test_features_are_found_and_come_after_the_columns():
    frame, y = table()
    before = frame.copy()
    found = small().fit(frame, y)
    after = found.transform(frame)
    assert "x0_times_x2" in found.get_feature_names_out()
    assert list(after) == list(found.get_feature_names_out())
    assert list(after)[:4] == list(frame)
    pd.testing.assert_frame_equal(after[list(frame)], frame)
    np.testing.assert_array_equal(after["x0_times_x2"], frame["x0"] * frame["x2"])
    pd.testing.assert_frame_equal(frame, before)
    assert found.report_.selection.selected[0].formula == "(x0*x2)"
    alone = small(passthrough=False).fit(frame, y)
    assert list(alone.transform(frame)) == [f.name for f in found.recipe_.features]


def test_index_and_any_names_are_kept_and_rows_can_come_alone():
    frame, y = table()
    frame.index = pd.Index(np.arange(len(frame)) % 7)
    frame = frame.rename(columns={"x0": 'a,"b" (c)'})
    found = small().fit(frame, y)
    whole = found.transform(frame)
    assert whole.index.equals(frame.index)
    pd.testing.assert_frame_equal(found.transform(frame.iloc[[5]]), whole.iloc[[5]])


def test_classes_may_be_texts_and_groups_stay_together():
    frame, y = table()
    labels = np.where(y > 0, "up", "down")
    groups = np.arange(len(frame)) // 20
    found = small().fit(frame, labels, groups=groups)
    assert found.report_.data.task == "binary"
    assert found.report_.data.rows == {"train": 320, "selection": 80, "test": 0}
    assert found.report_.data.split["by"] == "groups"
    assert list(found.feature_names_in_) == list(frame)


def test_without_anything_that_helps_the_columns_come_out_alone(caplog):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    with caplog.at_level("WARNING", "scopefe.sklearn"):
        found = ScopeFE(overrides="baseline.max_trees=20").fit(frame, rng.normal(size=200))
    (said,) = caplog.messages
    assert said.startswith("ScopeFE adds no feature. ")
    pd.testing.assert_frame_equal(found.transform(frame), frame)
    assert list(found.get_feature_names_out()) == ["a", "b", "c"]


# --- families of tables


def frames(family):
    frame, y = table()
    if family == "pandas":
        return frame, y
    if family == "pandas arrow":
        return frame.convert_dtypes(dtype_backend="pyarrow"), y
    if family == "polars":
        return pytest.importorskip("polars").from_pandas(frame), y
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.Table.from_pandas(frame, preserve_index=False), y


@pytest.mark.parametrize("family", ["pandas", "pandas arrow", "polars", "pyarrow"])
def test_every_family_of_tables_gives_the_same_and_gets_its_own_back(family):
    frame, y = table()
    expected = small().fit(frame, y)
    given, _ = frames(family)
    found = small().fit(given, y)
    assert list(found.get_feature_names_out()) == list(expected.get_feature_names_out())
    after = found.transform(given)
    assert type(after) is type(given)
    wanted = expected.transform(frame)
    for name in [f.name for f in expected.recipe_.features]:
        values = np.asarray(after[name].to_numpy(), dtype=np.float64)
        np.testing.assert_array_equal(values, wanted[name])


def test_arrays_come_back_as_arrays():
    frame, y = table()
    values = frame[["x0", "x1", "x2"]].to_numpy()
    found = small().fit(values, y)
    assert not hasattr(found, "feature_names_in_")
    after = found.transform(values)
    assert after.dtype == np.float64
    np.testing.assert_array_equal(after[:, :3], values)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_set_output_chooses_the_family(library):
    package = pytest.importorskip(library)
    frame, y = table()
    found = small().set_output(transform=library).fit(frame, y)
    assert isinstance(found.transform(frame), package.DataFrame)


# --- among other estimators


def model():
    encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan)
    texts = (encoder, make_column_selector(dtype_include=["object", "string"]))
    columns = ColumnTransformer([("texts", *texts)], remainder="passthrough")
    return make_pipeline(small(), columns, HistGradientBoostingRegressor(max_iter=30, random_state=0))


def test_cross_validation_of_a_pipeline_is_that_of_a_loop_by_hand():
    frame, y = table()
    folds = KFold(3, shuffle=True, random_state=0)
    scores = cross_val_score(model(), frame, y, cv=folds)
    by_hand = []
    for train, test in folds.split(frame):
        fitted = model().fit(frame.iloc[train], y[train])
        by_hand.append(r2_score(y[test], fitted.predict(frame.iloc[test])))
    assert scores.tolist() == by_hand
    assert min(scores) > 0.5


def test_targets_of_other_rows_change_nothing_that_is_learned():
    frame, y = table()
    train, test = np.arange(300), np.arange(300, 400)
    first = small().fit(frame.iloc[train], y[train]).transform(frame.iloc[test])
    other = frame.copy()
    other.loc[test, "x0"] = 0.0
    second = small().fit(other.iloc[train], y[train]).transform(frame.iloc[test])
    pd.testing.assert_frame_equal(first, second)


def test_it_is_cloned_pickled_searched_and_shown():
    frame, y = table()
    found = small(random_state=3, n_jobs=1)
    assert clone(found).get_params() == found.get_params()
    fitted = found.fit(frame, y)
    again = pickle.loads(pickle.dumps(fitted))
    pd.testing.assert_frame_equal(again.transform(frame), fitted.transform(frame))
    search = GridSearchCV(model(), {"scopefe__passthrough": [True, False]}, cv=2).fit(frame, y)
    assert search.best_score_ > 0.5
    assert "ScopeFE" in fitted._repr_html_()


def test_the_same_seed_finds_the_same_and_it_is_the_seed_of_the_report():
    frame, y = table()
    first, second = (small(random_state=7).fit(frame, y).report_ for _ in range(2))
    assert first.model_dump(exclude={"volatile"}) == second.model_dump(exclude={"volatile"})
    assert (first.seed, first.data.split["seed"]) == (7, 7)


@pytest.mark.parametrize(
    ("spec", "change", "message"),
    [
        ("no-such-spec", {}, "no-such-spec"),
        ("openfe", {"y": np.full(400, np.nan)}, "NaN|missing"),
        ("openfe", {"y": np.zeros(400)}, "one class only"),
        ("openfe", {"y": np.zeros(3)}, "inconsistent"),
    ],
)
def test_what_cannot_be_used_is_a_value_error_in_one_line(spec, change, message):
    frame, y = table()
    with pytest.raises(ValueError, match=message) as error:
        ScopeFE(spec, overrides=FEW).fit(frame, change.get("y", y))
    assert "\n" not in str(error.value)


def test_settings_are_named_as_they_were_given():
    frame, y = table()
    with pytest.raises(ValueError, match=r"^override selection\.kep=5: unknown key 'kep'"):
        ScopeFE(overrides=["selection.kep=5"]).fit(frame, y)


def test_target_and_split_of_the_spec_are_replaced():
    frame, _ = table()
    document = {
        "extends": "openfe",
        "data": {
            "target": {"column": "price", "above": 0},
            "split": {"by": "fractions", "development": 50, "test": 0.2, "train": 0.6, "selection": 0.2},
        },
    }
    y = np.random.default_rng(0).normal(size=len(frame))
    report = ScopeFE(document, overrides=FEW).fit(frame, y).report_
    assert report.data.task == "regression"
    assert report.data.rows == {"train": 320, "selection": 80, "test": 0}


def test_a_mapping_needs_no_name():
    frame, y = table()
    document = {"selection": {"keep": 2}, "operators": {"use": ["*"]}}
    found = ScopeFE(document, overrides=["baseline.max_trees=5"]).fit(frame, y)
    assert (found.report_.name, found.recipe_.name) == ("ScopeFE", "ScopeFE")
    named = ScopeFE({"extends": "openfe"}, overrides=[*FEW, "operators.use=['*']"])
    assert named.fit(frame, y).report_.name == "openfe"
    named.set_params(spec={**document, "name": "mine"})
    assert named.fit(frame, y).report_.name == "mine"


@pytest.mark.parametrize("name", ["price 😀", "self", "target", "a: 'b\"}", 7])
def test_a_target_may_have_any_name(name):
    frame, y = table()
    found = small().fit(frame, pd.Series(y, name=name))
    assert found.report_.data.target == str(name)


def test_columns_that_are_no_texts_keep_their_names():
    frame, y = table()
    frame.columns = range(len(frame.columns))
    found = small().fit(frame, y)
    assert list(found.get_feature_names_out()) == list(found.transform(frame).columns)
    assert list(found.set_output(transform="pandas").transform(frame).columns)[:2] == ["0", "1"]


@pytest.mark.parametrize("seed", [-1, 1.5, np.random.RandomState(0)])
def test_a_seed_is_a_whole_number(seed):
    frame, y = table()
    with pytest.raises(ValueError, match="random_state must be None or an integer") as error:
        small(random_state=seed).fit(frame, y)
    assert "\n" not in str(error.value)


def test_messages_name_weights_and_groups_as_they_are_called():
    frame, y = table()
    with pytest.raises(ValueError, match=r"data.weight 'sample_weight' is"):
        small().fit(frame, y, sample_weight=-np.ones(len(y)))
    assert small(n_jobs=-1).fit(frame, y).report_.volatile.jobs == cores()


def test_missing_columns_are_named():
    frame, y = table()
    found = small().fit(frame, y)
    with pytest.raises(ValueError, match="x2"):
        found.transform(frame.drop(columns="x2"))


def test_it_is_reached_from_the_top():
    assert scopefe.ScopeFE is ScopeFE


def test_messages_name_the_target_as_it_is_named():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 2)), columns=["a", "b"])
    target = pd.Series(rng.normal(size=40), name="the price: in €").where(frame["a"] > -1)
    with pytest.raises(ValueError, match="target 'the price: in €' is missing in"):
        ScopeFE("openfe").fit(frame, target)
    with pytest.raises(ValueError, match="target 'target' is missing in"):
        ScopeFE("openfe").fit(frame, target.rename("a"))


def test_a_lazy_table_is_to_be_collected():
    frame = pl.LazyFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    with pytest.raises(ValueError, match="collect it first"):
        ScopeFE().fit(frame, [1.0, 2.0])
