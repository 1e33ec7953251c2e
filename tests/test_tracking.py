"""What MLflow is told of runs and studies."""

from __future__ import annotations

import logging
import sys

import numpy as np
import pandas as pd
import pytest

import scopefe
from scopefe import RunError
from scopefe.report import tracking
from scopefe.report.tracking import parameters_of
from scopefe.run.studying import run_study
from scopefe.spec.study import load_study

SPEC = {
    "name": "told",
    "data": {"target": "y", "split": {"train": 0.5, "selection": 0.25, "test": 0.25}},
    "operators": {"use": ["*", "abs"]},
    "baseline": {"max_trees": 20},
    "evaluation": {"seeds": 1, "max_trees": 20},
    "report": {"mlflow": "houses"},
}


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, 300))
    return pd.DataFrame({"a": a, "b": b, "c": c, "y": a * b + 0.1 * c})


@pytest.fixture
def client(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    from mlflow.tracking import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.chdir(tmp_path)
    return MlflowClient()


def runs_of(client, experiment):
    return client.search_runs([client.get_experiment_by_name(experiment).experiment_id])


def test_a_run_is_told(client, frame):
    run = scopefe.execute(scopefe.load_spec(SPEC), data=frame)
    (told,) = runs_of(client, "houses")
    assert told.info.run_name == "told"
    assert told.info.status == "FINISHED"
    assert told.data.params["data.target.column"] == "y"
    assert told.data.metrics["pool"] == run.report.space.pool.raw
    assert told.data.metrics["rmse.with_features"] == run.report.evaluation.with_features.mean
    files = {file.path for file in client.list_artifacts(told.info.run_id)}
    assert files == {"recipe.json", "report.json", "report.html", "rows.parquet"}


def test_the_runs_of_a_study_stand_under_it(client, frame, tmp_path):
    frame.to_csv(tmp_path / "t.csv", index=False)
    (tmp_path / "data.yaml").write_text(
        "data: {source: t.csv, target: y, split: {train: 0.5, selection: 0.25, test: 0.25}}\n"
    )
    (tmp_path / "study.yaml").write_text(
        "name: mine\ndatasets: {first: data.yaml}\nvariants: [base, openfe]\nsubject: openfe\n"
        "set: [baseline.max_trees=20, evaluation.seeds=1, evaluation.max_trees=20, report.mlflow=trees]\n"
    )
    run_study(load_study(tmp_path / "study.yaml"), tmp_path / "out")
    told = {run.info.run_name: run for run in runs_of(client, "trees")}
    parent = told.pop("mine")
    assert len(told) == 2
    assert {run.data.tags["mlflow.parentRunId"] for run in told.values()} == {parent.info.run_id}
    assert parent.info.status == "FINISHED"


def test_a_server_that_does_not_answer_costs_a_warning(frame, tmp_path, monkeypatch, caplog):
    pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with caplog.at_level(logging.WARNING):
        run = scopefe.execute(scopefe.load_spec(SPEC), data=frame)
    assert run.folder is not None and (run.folder / "report.json").is_file()
    assert "MLflow was not told all of told" in caplog.text


@pytest.mark.filterwarnings("ignore")  # of MLflow and its database
def test_mlflow_s_own_default_store_is_told(frame, tmp_path, monkeypatch):
    for package in ("mlflow", "sqlalchemy", "alembic"):
        pytest.importorskip(package)
    from mlflow.tracking import MlflowClient

    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    scopefe.execute(scopefe.load_spec(SPEC), data=frame)
    (told,) = runs_of(MlflowClient(), "houses")
    assert told.info.status == "FINISHED"


@pytest.mark.parametrize(
    ("store", "message"),
    [
        (
            "file:mlruns",
            r"MLflow's store \(file, by MLFLOW_TRACKING_URI or MLflow's default\) cannot be used: The",
        ),
        ("foo://user:secret@localhost/none", r"MLflow's store \(foo, .* cannot be used: "),
    ],
)
def test_a_store_that_cannot_be_used_is_said_before_anything_is_computed(
    frame, tmp_path, monkeypatch, store, message
):
    pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    with pytest.raises(RunError, match=message) as error:
        scopefe.execute(scopefe.load_spec(SPEC), data=frame)
    assert "secret" not in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()


def test_a_store_in_a_database_needs_its_packages(frame, tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///of/none.db")
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    monkeypatch.setattr("mlflow.tracking.MlflowClient.__init__", _fails)
    with pytest.raises(RunError, match=r"needs sqlalchemy and alembic: pip install 'scopefe\[mlflow\]'"):
        scopefe.execute(scopefe.load_spec(SPEC), data=frame)


def _fails(*_):
    raise ImportError("no sqlalchemy")


def test_without_mlflow_nothing_is_computed(frame, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(RunError, match=r"pip install 'scopefe\[mlflow\]'"):
        scopefe.execute(scopefe.load_spec(SPEC), data=frame)


def test_parameters_are_values_by_path():
    content = {"a": {"b": 1, "c": None, "d": "x" * 600}, "e": ["f"], "g": "h"}
    assert parameters_of(content) == {"a.b": "1", "e": '["f"]', "g": "h"}
