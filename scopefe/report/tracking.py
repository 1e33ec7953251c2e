"""Runs in MLflow: the spec's values as parameters, what a run comes to as metrics, its files as artefacts."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from scopefe.errors import RunError, first_line
from scopefe.report.html import compact
from scopefe.report.model import Report

LONGEST = 500
NAME = re.compile(r"[\w. /:-]{1,250}")
DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
DATABASE_PACKAGES = ("sqlalchemy", "alembic")
MISSING = "tracking needs mlflow: pip install 'scopefe[mlflow]'"

log = logging.getLogger(__name__)
_parent: ContextVar[str | None] = ContextVar("parent", default=None)


def require(experiment: str) -> None:
    """Check that MLflow is there, and can use its store, before anything is computed.

    A server is asked only when there is something to tell: it may be back by then.

    Raises
    ------
    RunError
        If MLflow is not installed, or cannot use the store of its settings.
    """
    try:
        import mlflow
        from mlflow.tracking import MlflowClient
    except ModuleNotFoundError:
        raise RunError(MISSING) from None
    store = mlflow.get_tracking_uri().partition(":")[0]
    if store in ("http", "https", "databricks", "uc"):
        return
    try:
        MlflowClient().get_experiment_by_name(experiment)
    except Exception as error:
        lacking = [name for name in DATABASE_PACKAGES if find_spec(name) is None]
        if lacking and store in DATABASES:
            reason = f"needs {' and '.join(lacking)}: pip install 'scopefe[mlflow]'"
        else:
            reason = f"cannot be used: {first_line(error).replace(mlflow.get_tracking_uri(), '…')}"
        raise RunError(
            f"MLflow's store ({store}, by MLFLOW_TRACKING_URI or MLflow's default) {reason}"
        ) from None


@contextmanager
def nested(experiment: str | None, name: str) -> Iterator[None]:
    """Put the runs inside under one of this name, if there is an experiment."""
    if experiment is None:
        yield
        return
    require(experiment)
    client, run = None, None
    with _telling(name):
        client, run = _begun(experiment, name)
    token = _parent.set(run)
    try:
        yield
    finally:
        _parent.reset(token)
        if client is not None:
            with _telling(name):
                client.set_terminated(run)


def track(experiment: str, report: Report, folder: Path | None) -> None:
    """Tell MLflow of a run; where it does not answer, a warning says so, and nothing is lost.

    Parameters
    ----------
    experiment
        Its name; the server is that of MLflow's own settings.
    folder
        The run folder, whose files become artefacts.
    """
    from mlflow.entities import Metric, Param

    now = int(time.time() * 1000)
    with _telling(report.name):
        client, run = _begun(experiment, report.name)
        try:
            metrics = [Metric(name, value, now, 0) for name, value in metrics_of(report).items()]
            client.log_batch(run, metrics=metrics)
            if folder is not None:
                client.log_artifacts(run, str(folder))
            parameters = [Param(name, value) for name, value in parameters_of(report.spec).items()]
            client.log_batch(run, params=parameters)
        finally:
            client.set_terminated(run)


@contextmanager
def _telling(name: str) -> Iterator[None]:
    """Turn what goes wrong in MLflow, or in its database, into a warning."""
    try:
        yield
    except Exception as error:
        log.warning("MLflow was not told all of %s: %s", name, first_line(error))


def _begun(experiment: str, name: str) -> tuple[Any, str]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient()
    known = client.get_experiment_by_name(experiment)
    number = client.create_experiment(experiment) if known is None else known.experiment_id
    parent = _parent.get()
    tags = {} if parent is None else {"mlflow.parentRunId": parent}
    return client, client.create_run(number, run_name=name, tags=tags).info.run_id


def metrics_of(report: Report) -> dict[str, float]:
    """Return what a run comes to as numbers."""
    found = {
        "universe": float(report.space.universe.raw),
        "pool": float(report.space.pool.raw),
        "reduction": report.space.reduction,
        "selected": float(len(report.selection.selected)),
        "run_seconds": report.volatile.run_seconds,
        "seconds": report.volatile.seconds,
    }
    if report.evaluation is not None:
        found[f"{report.evaluation.metric}.base"] = report.evaluation.base.mean
        if report.evaluation.with_features is not None:
            found[f"{report.evaluation.metric}.with_features"] = report.evaluation.with_features.mean
    return found


def parameters_of(content: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Return the values of a spec by dotted path; long ones, and odd names, are in the report only."""
    found: dict[str, str] = {}
    for key, value in content.items():
        if isinstance(value, dict):
            found |= parameters_of(value, f"{prefix}{key}.")
        elif value is not None and len(text := compact(value)) <= LONGEST and NAME.fullmatch(prefix + key):
            found[prefix + key] = text
    return found
