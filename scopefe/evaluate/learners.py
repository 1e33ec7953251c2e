"""Downstream learners: each trains a model of numbers and categories, and gives raw scores."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd

from scopefe.components import Array
from scopefe.errors import RunError, suggestion
from scopefe.score.boosting import Part, raw_scores, train
from scopefe.score.objective import Objective

Predict = Callable[[Array], Array]
TINY = 1e-15


@dataclass(frozen=True)
class Model:
    """A trained model.

    Parameters
    ----------
    predict
        Gives raw scores of rows, shape (n,) or (n, classes).
    trees
        Trees of a boosting that predict; 0 for models without rounds.
    """

    predict: Predict
    trees: int = 0


@dataclass(frozen=True, eq=False)
class Problem:
    """What a learner is given.

    Parameters
    ----------
    objective
        Task and classes.
    fit, held
        Training rows, and rows to stop by; learners that do not stop early learn from both.
    categorical
        Positions of the columns that hold category codes; missing is NaN.
    stopping
        Metric to stop by, as LightGBM calls it.
    max_trees, early_stopping
        Number of trees at most, and without improvement.
    seed
        Seed of the model.
    """

    objective: Objective
    fit: Part
    held: Part
    categorical: list[int]
    stopping: str
    max_trees: int
    early_stopping: int
    seed: int

    def first(self, width: int) -> Problem:
        """Return the problem with so many of the first columns; their values are shared."""
        fit, held = (replace(part, values=part.values[:, :width]) for part in (self.fit, self.held))
        return replace(self, fit=fit, held=held, categorical=[i for i in self.categorical if i < width])

    def both(self) -> tuple[Array, Array]:
        """Return values and targets of all rows."""
        values = np.concatenate([self.fit.values, self.held.values])
        return values, np.concatenate([self.fit.target, self.held.target])

    def weights(self) -> Array | None:
        """Return what each of all rows counts; None where all count the same."""
        if self.fit.weights is None or self.held.weights is None:
            return None
        return np.concatenate([self.fit.weights, self.held.weights])


def lightgbm(problem: Problem, parameters: Mapping[str, Any]) -> Model:
    """Train a LightGBM."""
    options = {
        **problem.objective.lightgbm(),
        "metric": problem.stopping,
        "num_threads": 1,
        "deterministic": True,
        "force_col_wise": True,
        "verbosity": -1,
        **parameters,
        "seed": problem.seed,
    }
    booster, _ = train(
        options,
        problem.fit,
        problem.held,
        categorical=problem.categorical,
        trees=problem.max_trees,
        patience=problem.early_stopping,
    )
    return Model(lambda values: raw_scores(booster, values, threads=1), booster.best_iteration)


def xgboost(problem: Problem, parameters: Mapping[str, Any]) -> Model:
    """Train an XGBoost on histograms, with categories as such."""
    package: Any = importlib.import_module("xgboost")
    objectives = {
        "regression": "reg:squarederror",
        "binary": "binary:logistic",
        "multiclass": "multi:softprob",
    }
    metrics = {
        "binary_logloss": "logloss",
        "multi_logloss": "mlogloss",
        "binary_error": "error",
        "multi_error": "merror",
    }
    types = ["c" if i in problem.categorical else "q" for i in range(problem.fit.values.shape[1])]

    def matrix(values: Array, target: Array | None = None, weights: Array | None = None) -> Any:
        return package.DMatrix(
            values, target, weight=weights, feature_types=types, enable_categorical=True, nthread=1
        )

    options = {
        "objective": objectives[problem.objective.task],
        "eval_metric": metrics.get(problem.stopping, problem.stopping),
        "tree_method": "hist",
        "nthread": 1,
        "verbosity": 0,
        **parameters,
        "seed": problem.seed,
    }
    if problem.objective.task == "multiclass":
        options["num_class"] = problem.objective.classes
    booster = package.train(
        options,
        matrix(problem.fit.values, problem.fit.target, problem.fit.weights),
        num_boost_round=problem.max_trees,
        evals=[(matrix(problem.held.values, problem.held.target, problem.held.weights), "held")],
        early_stopping_rounds=problem.early_stopping,
        verbose_eval=False,
    )
    rounds = (0, booster.best_iteration + 1)

    def predict(values: Array) -> Array:
        scores: Array = booster.predict(matrix(values), output_margin=True, iteration_range=rounds)
        return scores.astype(np.float64)

    return Model(predict, rounds[1])


def catboost(problem: Problem, parameters: Mapping[str, Any]) -> Model:
    """Train a CatBoost, with categories as such."""
    package: Any = importlib.import_module("catboost")
    losses = {"regression": "RMSE", "binary": "Logloss", "multiclass": "MultiClass"}
    loss = losses[problem.objective.task]
    metrics = {"binary_error": "Accuracy", "multi_error": "Accuracy", "auc": "AUC"}

    def pool(values: Array, target: Array | None = None, weights: Array | None = None) -> Any:
        frame = pd.DataFrame(values)
        for i in problem.categorical:
            frame[i] = frame[i].fillna(-1).astype(np.int64)
        return package.Pool(frame, target, cat_features=problem.categorical, weight=weights)

    model = package.CatBoost(
        {
            "loss_function": loss,
            "eval_metric": metrics.get(problem.stopping, loss),
            "iterations": problem.max_trees,
            "od_type": "Iter",
            "od_wait": problem.early_stopping,
            "thread_count": 1,
            "allow_writing_files": False,
            "verbose": False,
            **parameters,
            "random_seed": problem.seed,
        }
    )
    model.fit(
        pool(problem.fit.values, problem.fit.target, problem.fit.weights),
        eval_set=pool(problem.held.values, problem.held.target, problem.held.weights),
        use_best_model=True,
    )

    def predict(values: Array) -> Array:
        scores: Array = model.predict(pool(values), prediction_type="RawFormulaVal", thread_count=1)
        return scores

    return Model(predict, model.tree_count_)


def random_forest(problem: Problem, parameters: Mapping[str, Any]) -> Model:
    """Train a random forest of scikit-learn; codes of categories are numbers to it."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    options = {"n_estimators": 300, "n_jobs": 1, **parameters, "random_state": problem.seed}
    if problem.objective.task == "regression":
        forest = RandomForestRegressor(**options).fit(*problem.both(), problem.weights())
        return Model(forest.predict)
    model = RandomForestClassifier(**options).fit(*problem.both(), problem.weights())
    return _log_odds(model, problem.objective)


def linear(problem: Problem, parameters: Mapping[str, Any]) -> Model:
    """Train a ridge or logistic regression on standardised numbers and indicators of categories.

    Missing numbers take the median, with an indicator; rare and unknown categories are one.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numeric = [i for i in range(problem.fit.values.shape[1]) if i not in problem.categorical]
    imputed = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
    indicators = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=10)
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(imputed, StandardScaler()), numeric),
            ("categories", indicators, problem.categorical),
        ]
    )
    if problem.objective.task == "regression":
        ridge = make_pipeline(columns, Ridge(**parameters, random_state=problem.seed))
        return Model(ridge.fit(*problem.both(), ridge__sample_weight=problem.weights()).predict)
    options = {"max_iter": 1000, **parameters, "random_state": problem.seed}
    model = make_pipeline(columns, LogisticRegression(**options))
    model.fit(*problem.both(), logisticregression__sample_weight=problem.weights())
    return _log_odds(model, problem.objective)


def _log_odds(model: Any, objective: Objective) -> Model:
    """Return what gives the logarithms of odds, or of shares, of a classifier; unseen classes have none."""

    def predict(values: Array) -> Array:
        shares = np.full((len(values), objective.classes), TINY)
        shares[:, model.classes_.astype(np.int64)] = np.clip(model.predict_proba(values), TINY, 1)
        scores: Array = np.log(shares)
        return scores if objective.task == "multiclass" else scores[:, 1] - scores[:, 0]

    return Model(predict)


def _lightgbm_names(parameters: Mapping[str, Any]) -> set[str] | None:
    """Return names and aliases, which LightGBM tells in a private place only; None once that has moved."""
    told = getattr(getattr(lgb.basic, "_ConfigAliases", None), "_get_all_param_aliases", None)
    if told is None:
        return None
    aliases: dict[str, list[str]] = told()
    return {name for names in aliases.values() for name in names}.union(aliases)


def _xgboost_names(parameters: Mapping[str, Any]) -> set[str]:
    """Return the names in the configuration of a model, which go by its booster and objective."""
    package: Any = importlib.import_module("xgboost")
    chosen = {key: parameters[key] for key in ("booster", "objective") if key in parameters}
    rows = package.DMatrix(np.zeros((2, 1)), np.zeros(2))
    configuration = package.train({"verbosity": 0, **chosen}, rows, 1).save_config()
    return {"eval_metric", "verbosity", *re.findall(r'"(\w+)":', configuration)}


def _catboost_names(parameters: Mapping[str, Any]) -> set[str]:
    package: Any = importlib.import_module("catboost")
    models = package.CatBoostRegressor, package.CatBoostClassifier
    return {name for model in models for name in inspect.signature(model).parameters}


def _random_forest_names(parameters: Mapping[str, Any]) -> set[str]:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    return {*RandomForestRegressor().get_params(), *RandomForestClassifier().get_params()}


def _linear_names(parameters: Mapping[str, Any]) -> set[str]:
    from sklearn.linear_model import LogisticRegression, Ridge

    return {*Ridge().get_params(), *LogisticRegression().get_params()}


@dataclass(frozen=True)
class Learner:
    """How a model is trained, and what a spec may say of it.

    Parameters
    ----------
    train
        Trains a model with parameters.
    names
        Gives the names of all parameters, some of which may go by those that are given; None if it cannot.
    package
        The package that it needs, if that is an extra.
    """

    train: Callable[[Problem, Mapping[str, Any]], Model]
    names: Callable[[Mapping[str, Any]], set[str] | None]
    package: str | None = None


LEARNERS: Mapping[str, Learner] = {
    "lightgbm": Learner(lightgbm, _lightgbm_names),
    "xgboost": Learner(xgboost, _xgboost_names, "xgboost"),
    "catboost": Learner(catboost, _catboost_names, "catboost"),
    "random-forest": Learner(random_forest, _random_forest_names),
    "linear": Learner(linear, _linear_names),
}


def version_of(name: str) -> str | None:
    """Return the version of a learner's package, where that is an extra."""
    package = LEARNERS[name].package
    return None if package is None else str(importlib.import_module(package).__version__)


def require(name: str, parameters: Mapping[str, Any]) -> None:
    """Load a learner's package, and check that it knows the names of the parameters: some ignore others.

    Raises
    ------
    RunError
        If it is not installed, or does not know one.
    """
    learner = LEARNERS[name]
    if learner.package is not None:
        try:
            importlib.import_module(learner.package)
        except ImportError as error:
            raise RunError(
                f"evaluation.learner {name} needs a package that cannot be imported ({error}): "
                f"pip install 'scopefe[{name}]'"
            ) from None
    known = learner.names(parameters) if parameters else None
    for parameter in parameters:
        if known is not None and parameter not in known:
            raise RunError(
                f"evaluation.learner {name} has no parameter {parameter!r}{suggestion(parameter, known)}"
            )
