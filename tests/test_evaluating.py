"""What an evaluation says: scores that others get too, how sure they are, what each feature is worth."""

from __future__ import annotations

import json
from dataclasses import replace

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from conftest import needs_data
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

import scopefe
from scopefe.data.dataset import load_dataset
from scopefe.evaluate.metrics import measure
from scopefe.evaluate.uncertainty import Difference, contributions
from scopefe.evaluate.worth import stand_ins
from scopefe.recipe.fitting import fit_recipe
from scopefe.recipe.matrix import Matrix
from scopefe.run.budgets import Watch
from scopefe.run.evaluating import evaluated

TASKS = ["regression", "binary", "multiclass"]


def table(task="regression", rows=900, seed=0):
    """Numbers of both widths, categories of few and of many levels, missing and infinite values."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, rows))
    k = rng.choice(["x", "y", "z"], rows).astype(object)
    m = rng.choice(list("pqrs"), rows).astype(object)
    many = np.char.add("c", rng.integers(0, 80, rows).astype(str)).astype(object)
    y = a * b + 2 * ((k == "x") == (m == "p")) + 0.3 * rng.normal(size=rows)
    b[::13], k[::17], many[::19] = np.nan, None, None
    frame = pd.DataFrame({"a": a.astype(np.float32), "b": b, "k": k, "m": m, "many": many})
    frame["truth"] = rng.random(rows) < 0.3
    frame["count"] = rng.integers(0, 9, rows)
    if task == "binary":
        y = np.where(y > np.median(y), "yes", "no")
    elif task == "multiclass":
        y = np.array(["low", "mid", "top"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    return frame.assign(y=y)


def spec_of(*overrides, **others):
    document = {
        "name": "e",
        "data": {"target": "y"},
        "operators": {"use": ["*", "freq", "Combine", "GroupByThenMean"]},
        "selection": {"keep": "all", "data_blocks": 1},
        "evaluation": {"seeds": 2, "max_trees": 60, "worth": False},
    }
    return scopefe.load_spec(document | others, overrides=overrides)


# --- the score told is the score found


def in_numpy(recipe, frame):
    """The recipe's columns as float64 codes, as an array or a database would hold them."""
    given = recipe.model_frame(frame)
    categories = [name for name, kind in recipe.feature_types.items() if kind == "category"]
    return given.assign(**{name: given[name].cat.codes.astype("float64") for name in categories})


def in_sql(recipe, frame):
    """The same by a database: its own columns, and what the recipe's query makes of them, as declared."""
    duckdb, data = pytest.importorskip("duckdb"), frame.assign(row=range(len(frame)))
    with duckdb.connect() as connection:
        connection.register("data", data)
        query = scopefe.to_sql(recipe, table="data", keep=["row"]).rstrip(";\n")
        joined = f"SELECT d.*, n.* EXCLUDE (row) FROM data d JOIN ({query}) n USING (row) ORDER BY row"
        found = connection.execute(joined).df()
    columns = {}
    for original in recipe.originals:
        values = found[original.name]
        if original.labels is not None:
            known = {label: code for code, label in enumerate(original.labels.tolist())}
            texts = values.map(lambda v: v if isinstance(v, str) else str(bool(v)), na_action="ignore")
            values = texts.map(known)
        columns[original.name] = values.astype("float64")
    columns |= {name: found[name].astype("float64") for name in recipe.names}
    return pd.DataFrame(columns)[list(recipe.feature_types)]


def from_outside(run, frame, library):
    """Train the evaluation's learner by nothing but recipe, data and the split that the run wrote."""
    report, recipe = run.report, scopefe.Recipe.load(run.folder)
    rows = pq.read_table(run.folder / "rows.parquet").to_pandas()
    asked = report.spec["evaluation"]
    parameters = {key: value for key, value in asked["learner"].items() if key != "learner"}
    parts, codes = {}, frame["y"].map({name: n for n, name in enumerate(report.data.classes)})
    y = (codes if report.data.classes else frame["y"]).to_numpy(dtype=np.float64)
    categorical = "auto"
    for role in ("train", "selection", "test"):
        positions = rows["position"][rows["role"] == role].to_numpy()
        some = frame.iloc[positions]
        if library == "pandas":
            matrix = recipe.model_frame(some)
        elif library == "polars":
            matrix = recipe.model_frame(pl.from_pandas(some)).to_pandas()  # its categories are ordered ones
            categorical = [name for name, kind in recipe.feature_types.items() if kind == "category"]
        else:
            matrix = (in_sql if library == "sql" else in_numpy)(recipe, some).to_numpy()
            kinds = list(recipe.feature_types.values())
            categorical = [place for place, kind in enumerate(kinds) if kind == "category"]
        parts[role] = matrix, y[positions]
    mean, std = parts["train"][1].mean(), parts["train"][1].std()
    task = report.data.task
    if task == "regression":
        parts = {role: (matrix, (values - mean) / std) for role, (matrix, values) in parts.items()}
    scores = []
    for seed in range(asked["seeds"]):
        kind = lightgbm.LGBMRegressor if task == "regression" else lightgbm.LGBMClassifier
        model = kind(
            n_estimators=asked["max_trees"], random_state=seed, n_jobs=1, deterministic=True, verbosity=-1,
            force_col_wise=True, **parameters,
        )  # fmt: skip
        model.fit(
            *parts["train"],
            eval_set=[parts["selection"]],
            eval_metric=report.evaluation.stopping,
            categorical_feature=categorical,
            callbacks=[
                lightgbm.early_stopping(asked["early_stopping"], first_metric_only=True, verbose=False)
            ],
        )
        matrix, truth = parts["test"]
        if task == "regression":
            errors = (truth - model.predict(matrix)) * std
            scores.append(np.sqrt(np.mean(errors**2)))
        elif task == "binary":
            ranks = rankdata(model.predict_proba(matrix)[:, 1])[truth == 1]
            positive, negative = len(ranks), int((truth == 0).sum())
            scores.append((ranks.sum() - positive * (positive + 1) / 2) / positive / negative)
        else:
            scores.append((model.predict_proba(matrix).argmax(axis=1) == truth).mean())
    return scores


@pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore:The argument 'eval_set'")
@pytest.mark.parametrize("categories", ["declared", "openfe"])
@pytest.mark.parametrize("task", TASKS)
def test_a_model_on_what_the_recipe_gives_has_the_reports_scores(task, categories, tmp_path):
    frame = table(task)
    spec = spec_of(f"execution.runs={tmp_path}", f"selection.categories={categories}")
    run = scopefe.execute(spec, data=frame)
    kinds = run.recipe.feature_types
    assert kinds["Combine_k_m"] == "category"
    assert kinds["Combine_k_many"] == ("number" if categories == "declared" else "category")
    told = run.report.evaluation.with_features.values
    for library in ("pandas", "polars", "numpy", "sql"):
        assert from_outside(run, frame, library) == pytest.approx(told, abs=1e-12), library


def test_labels_of_one_text_are_apart_in_every_library():
    mixed = np.array([1.0, "1.0", "b"] * 100, dtype=object)
    frame = pd.DataFrame({"k": mixed, "y": np.arange(300.0)})
    spec = spec_of("operators.use=[freq]", "data.features.kinds={k: categorical}", "evaluation.seeds=0")
    recipe = scopefe.execute(spec, data=frame, write=False).recipe
    given = recipe.model_frame(pl.DataFrame({"k": ["1.0", "b", None]}))["k"]
    assert given.dtype.categories.to_list() == ["1.0 (float)", "1.0 (str)", "b"]
    assert given.to_list() == ["1.0 (str)", "b", None]


@pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore:The argument 'eval_set'")
def test_the_base_score_is_that_of_the_originals_alone(tmp_path):
    frame = table("binary")
    spec = spec_of(f"execution.runs={tmp_path}", "operators.use=[freq]", "selection.keep=0")
    run = scopefe.execute(spec, data=frame)
    assert list(run.recipe.feature_types) == ["a", "b", "k", "m", "many", "truth", "count"]
    assert from_outside(run, frame, "pandas") == pytest.approx(run.report.evaluation.base.values, abs=1e-12)


TARGETS = {
    "california_housing": "MedHouseVal",
    "employee_salaries": "current_annual_salary",
    "adult": "income",
    "telecom": "Churn",
}


@pytest.mark.filterwarnings("ignore:.*:UserWarning", "ignore:The argument 'eval_set'")
@pytest.mark.parametrize("name", [pytest.param(name, marks=needs_data(name)) for name in TARGETS])
def test_scores_of_real_tables_are_had_from_outside(name, data_folder, tmp_path):
    frame = pd.read_parquet(data_folder / f"{name}.parquet").rename(columns={TARGETS[name]: "y"})
    frame = frame.sample(4000, random_state=0, ignore_index=True)
    spec = spec_of(
        f"execution.runs={tmp_path}",
        "operators.use=[default]",
        "scope.operators={gate: quantised, budget: 60}",
        "selection.keep=10",
    )
    run = scopefe.execute(spec, data=frame)
    told = run.report.evaluation.with_features.values
    for library in ("pandas", "polars", "numpy"):
        assert from_outside(run, frame, library) == pytest.approx(told, rel=1e-12), library


def test_positions_of_rows_are_those_of_the_source(tmp_path):
    frame = table().assign(role=["train", "val", "test"] * 300)
    frame.loc[[0, 1, 2, 100], "y"] = np.nan
    split = "data.split={by: column, column: role}"
    spec = spec_of(f"execution.runs={tmp_path}", "data.target={column: y, missing: drop}", split)
    rows = pq.read_table(scopefe.execute(spec, data=frame).folder / "rows.parquet").to_pandas()
    assert set(rows["position"]) == set(range(900)) - {0, 1, 2, 100}
    named = frame["role"].replace({"val": "selection"}).to_numpy()[rows["position"]]
    assert (rows["role"] == named).all()


# --- how sure


def dataset(task, truth, weights=None, groups=None):
    """A dataset whose rows are all test rows, with a truth of one's own."""
    data = load_dataset(spec_of().data, table(task, rows=60))
    rows = np.arange(len(truth))
    labels = replace(data.labels, values=truth)
    return replace(data, labels=labels, rows=replace(data.rows, test=rows), weights=weights, groups=groups)


def drawn(task, rows, rng):
    if task == "regression":
        return rng.normal(size=rows), rng.normal(size=rows)
    if task == "binary":
        return np.arange(rows) % 2.0, np.round(rng.normal(size=rows), 1)
    return (np.arange(rows) % 3).astype(float), rng.normal(size=(rows, 3))


@pytest.mark.parametrize("task", TASKS)
@given(seed=st.integers(0, 10**6), weighted=st.booleans())
@settings(max_examples=20, deadline=None)
def test_a_contribution_is_how_the_metric_goes_with_a_rows_weight(task, seed, weighted):
    rng = np.random.default_rng(seed)
    truth, scores = drawn(task, 40, rng)
    weights = rng.random(40) + 0.1 if weighted else np.ones(40)
    found = contributions(dataset(task, truth, weights), scores, "auto")
    step = 1e-6
    for row in range(40):
        more, less = weights.copy(), weights.copy()
        more[row], less[row] = weights[row] * (1 + step), weights[row] * (1 - step)
        slope = measure(task, truth, scores, "auto", more) - measure(task, truth, scores, "auto", less)
        assert found[row] == pytest.approx(slope / (2 * step), abs=1e-7)


@pytest.mark.parametrize(("task", "metric"), [("binary", "roc_auc"), ("multiclass", "accuracy")])
def test_blocks_give_about_the_error_that_rows_do(task, metric):
    rng = np.random.default_rng(5)
    truth, scores = drawn(task, 3000, rng)
    scores = scores + truth if task == "binary" else scores + np.eye(3)[truth.astype(int)]
    data = dataset(task, truth)
    by_row, by_block = (Difference.of(0.0, contributions(data, scores, m)).error for m in ("auto", metric))
    assert by_block == pytest.approx(by_row, rel=0.35)


def test_rows_of_a_group_are_one_unit():
    rng = np.random.default_rng(6)
    truth, scores = drawn("regression", 200, rng)
    groups = np.repeat(np.arange(40), 5)
    whole = contributions(dataset("regression", truth, groups=groups), scores, "auto")
    rows = contributions(dataset("regression", truth), scores, "auto")
    np.testing.assert_allclose(whole, rows.reshape(40, 5).sum(axis=1))
    repeated = contributions(dataset("regression", np.repeat(truth, 5)), np.repeat(scores, 5), "auto")
    as_groups = dataset("regression", np.repeat(truth, 5), groups=np.repeat(np.arange(200), 5))
    error = Difference.of(0.0, contributions(as_groups, np.repeat(scores, 5), "auto")).error
    assert error == pytest.approx(Difference.of(0.0, rows).error)
    assert Difference.of(0.0, repeated).error == pytest.approx(error / np.sqrt(5), rel=0.01)


@pytest.mark.parametrize("task", TASKS)
def test_intervals_hold_the_true_difference_as_often_as_they_say(task):
    """Two models, one of them a little better; the truth is their difference on very many rows."""

    def both(rows, rng):
        if task == "regression":
            truth = rng.standard_t(5, size=rows)
            return truth, truth + rng.normal(size=rows), truth + 0.9 * rng.normal(size=rows)
        if task == "binary":
            truth = (rng.random(rows) < 0.3).astype(float)
            return truth, truth + rng.normal(size=rows), truth + 0.9 * rng.normal(size=rows)
        truth = rng.integers(0, 3, rows).astype(float)
        one, two = rng.normal(size=(2, rows, 3))
        return truth, np.eye(3)[truth.astype(int)] + one, np.eye(3)[truth.astype(int)] + 0.9 * two

    truth, before, after = both(400_000, np.random.default_rng(0))
    true = measure(task, truth, after, "auto") - measure(task, truth, before, "auto")
    inside = 0
    for seed in range(1, 201):
        truth, before, after = both(300, np.random.default_rng(seed))
        data = dataset(task, truth)
        mean = measure(task, truth, after, "auto") - measure(task, truth, before, "auto")
        moved = contributions(data, after, "auto") - contributions(data, before, "auto")
        found = Difference.of(mean, moved)
        inside += found.low <= true <= found.high
    assert 0.90 <= inside / 200 <= 0.99


@pytest.mark.parametrize(
    ("task", "metric", "truth"),
    [
        ("multiclass", "neg_log_loss", np.r_[2.0, np.tile([0.0, 1.0], 40)]),
        ("binary", "roc_auc", np.r_[1.0, np.zeros(80)]),
        ("regression", "neg_mean_absolute_error", np.ones(1)),
    ],
)
@pytest.mark.filterwarnings("ignore:.*:sklearn.exceptions.UndefinedMetricWarning")
def test_where_some_rows_cannot_be_left_out_nothing_is_sure(task, metric, truth):
    scores = np.zeros((len(truth), 3)) if task == "multiclass" else np.zeros(len(truth))
    assert np.isfinite(measure(task, truth, scores, metric))
    found = Difference.of(0.1, contributions(dataset(task, truth), scores, metric))
    assert found.verdict(True) == found.verdict(False) == "no difference"
    assert np.isnan(found.error)


def test_the_store_tells_groups_of_test_rows_apart(cache_dir):
    frame = table(rows=400)
    rng = np.random.default_rng(0)
    split = "data.split={by: column, column: role}"
    frame["role"] = rng.choice(["train", "val", "test"], 400)
    data = load_dataset(spec_of(split).data, frame)
    keys = []

    class AskedError(Exception):
        pass

    def ask(key, *rest, **others):
        keys.append(key)
        raise AskedError

    for groups in (None, np.arange(400) // 5, np.arange(400) // 4):
        compiled = scopefe.compile(spec_of(split), data=frame)
        compiled.data = replace(data, groups=groups)
        compiled.bench.store.vector = ask
        recipe = fit_recipe("r", "", data.development, [])
        with pytest.raises(AskedError):
            evaluated(
                compiled, recipe, np.empty(0, dtype=np.int64), Watch(compiled.spec.execution.budget, 0.0)
            )
    assert len(set(keys)) == 3


def test_a_verdict_goes_by_the_interval_and_the_direction():
    assert Difference(0.1, 0.01, 0.08, 0.12, 50).verdict(True) == "better"
    assert Difference(0.1, 0.01, 0.08, 0.12, 50).verdict(False) == "worse"
    assert Difference(-0.1, 0.1, -0.3, 0.1, 50).verdict(False) == "no difference"
    assert Difference.of(1.0, np.array([0.3])).verdict(True) == "no difference"


def test_what_makes_a_model_worse_is_said_in_the_last_line():
    from scopefe.cli.execute import told

    rng = np.random.default_rng(1)
    frame = pd.DataFrame({f"x{i}": rng.normal(size=400) for i in range(12)})
    frame["y"] = frame["x0"] + 0.1 * rng.normal(size=400)
    overrides = ["operators.use=[residual, '*']", "evaluation.seeds=3", "data.split.test=0.5",
                 "data.split.train=0.4", "data.split.selection=0.1"]  # fmt: skip
    run = scopefe.execute(spec_of(*overrides), data=frame, write=False)
    assert run.report.evaluation.difference.verdict == "worse"
    last = told(run).splitlines()[-1]
    assert last.strip().startswith("Worse: RMSE is higher by ")
    assert last.endswith("The new features do not help this model.")


# --- worth


def features_of(*columns, categorical=()):
    return Matrix([np.asarray(c, dtype=float) for c in columns], list(categorical))


def test_features_that_rank_rows_alike_stand_for_each_other():
    rng = np.random.default_rng(0)
    a, b, y = rng.normal(size=(3, 500))
    codes = np.digitize(a, [-1, 0, 1])
    order = np.array([2, 0, 3, 1])[codes]  # other numbers for the same categories
    y = y + codes
    features = features_of(a, b, -np.exp(a), codes, order, np.ones(500), categorical=[3, 4])
    rows = np.arange(500)
    assert stand_ins(features, rows, y, 10) == [[0, 2, 3, 4], [1], [5]]
    assert stand_ins(features, rows, y, 1) == [[0, 1, 2, 3, 4, 5]]
    assert stand_ins(features_of(a), rows, y, 5) == [[0]]
    many = features_of(*rng.normal(size=(105, 500)))
    assert stand_ins(many, rows, y, 200)[-1] == [100, 101, 102, 103, 104]


def test_what_the_model_needs_is_worth_something_and_noise_is_not():
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(3000, 4)), columns=list("abcd"))
    frame["y"] = 3 * frame["a"] * frame["b"] + 0.5 * rng.normal(size=3000)
    events = []
    spec = spec_of("operators.use=[+, '*']", "evaluation={seeds: 4, max_trees: 200, worth: true}")
    report = scopefe.execute(spec, data=frame, write=False, listener=events.append).report
    worth = {s.formula: s.worth for s in report.selection.selected}
    assert worth["(a*b)"].mean > 3 * worth["(a*b)"].error > 0
    assert all(abs(w.mean) < 0.5 * worth["(a*b)"].mean for f, w in worth.items() if f != "(a*b)")
    models = max(e.total for e in events if e.step == "worth")
    assert models <= max(e.total for e in events if e.step == "evaluation")
    assert json.loads(report.model_dump_json())["selection"]["selected"][0]["worth"]


def test_a_spec_may_leave_worth_out():
    report = scopefe.execute(spec_of(), data=table(), write=False).report
    assert all(s.worth is None for s in report.selection.selected)
    assert not [t for t in report.volatile.times if t.step == "worth"]
