"""The search as a scikit-learn transformer."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

import narwhals as nw
import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from scopefe.components import Array
from scopefe.data.frames import codes_of, in_library_of, to_pandas
from scopefe.errors import ScopefeError
from scopefe.report.verdicts import found
from scopefe.run.executing import execute
from scopefe.spec.loader import listed, load_spec
from scopefe.spec.models import Spec

logger = logging.getLogger(__name__)

SPLIT = "train: 0.8, selection: 0.2, test: 0"


class ScopeFE(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Finds new features of a table, and adds them to it.

    Parameters
    ----------
    spec
        What is searched, and how: the name of a shipped spec, a file, or a mapping. What it says of source,
        target and split is replaced: by what `fit` is given, four fifths of the rows to learn from, and a
        fifth to select on.
    overrides
        Further settings, such as ``("selection.keep=5",)``.
    modules
        Python files with components of your own.
    task
        ``regression``, ``binary``, ``multiclass``; ``auto`` takes numbers of 20 distinct values or more for
        a regression.
    passthrough
        Whether the given columns come out too, before the new ones.
    random_state
        Seed of search and split; None leaves the spec's seed, and 1 for the split.
    n_jobs
        Threads, -1 for as many as there are cores; None leaves what the spec says.

    Attributes
    ----------
    recipe_ : Recipe
        The new features, fitted on all rows.
    report_ : Report
        How they were found.
    n_features_in_, feature_names_in_
        As scikit-learn defines them.

    Notes
    -----
    The same rows are transformed alike in `fit_transform` and in `transform`. Inside cross-validation each
    fit sees its own training rows alone.
    """

    def __init__(
        self,
        spec: str | os.PathLike[str] | Mapping[str, Any] = "recommended",
        *,
        overrides: Sequence[str] = (),
        modules: Sequence[str] = (),
        task: str = "auto",
        passthrough: bool = True,
        random_state: int | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.spec = spec
        self.overrides = overrides
        self.modules = modules
        self.task = task
        self.passthrough = passthrough
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, *, sample_weight: Any = None, groups: Any = None) -> Self:
        """Search for new features.

        Parameters
        ----------
        X
            Table of shape (rows, columns): a pandas, polars or pyarrow frame with any columns, or an array.
        y
            The target, shape (rows,).
        sample_weight
            What each row counts in every loss, shape (rows,); None counts all rows alike.
        groups
            Shape (rows,): rows of one group are either learned from or selected on.

        Raises
        ------
        ValueError
            If the table, the target or the spec cannot be used; one line says why.
        """
        if y is None:
            raise ValueError("ScopeFE needs a target: requires y to be passed, but the target y is None")
        frame = self._frame(X, reset=True)
        if len(frame) < 2:
            raise ValueError("ScopeFE needs more rows to learn from and to select on: n_samples = 1")
        target = column_or_1d(y, warn=True)
        check_consistent_length(frame, target, groups, sample_weight)
        self._columns = list(frame.columns)
        columns: dict[str, Any] = {}

        def add(name: str, values: Any) -> str:
            while name in frame.columns or name in columns:
                name += "_"
            columns[name] = np.asarray(values)
            return json.dumps(name, ensure_ascii=False)

        given = getattr(y, "name", None)
        name = "target" if given is None or str(given) in frame.columns else str(given)
        settings = [f"data.target={add(name, target)}"]
        by = "by: fractions"
        if groups is not None:
            by = f"by: groups, column: {add('groups', column_or_1d(groups))}"
        if sample_weight is not None:
            settings.append(f"data.weight={add('sample_weight', column_or_1d(sample_weight))}")
        data = pd.concat([frame, pd.DataFrame(columns)], axis="columns")
        try:
            run = execute(self._spec(by, settings), data=data, write=False)
        except ScopefeError as error:
            raise ValueError(str(error)) from error
        self.recipe_, self.report_ = run.recipe, run.report
        if not run.recipe.features:
            logger.warning("ScopeFE adds no feature. %s", found(run.report))
        return self

    def transform(self, X: Any) -> Any:
        """Return the table with the new features, or these alone.

        Returns
        -------
        frame or ndarray
            Of the kind that was given; float64 for an array.
        """
        check_is_fitted(self)
        frame = self._frame(X, reset=False)
        try:
            new = self.recipe_.transform(frame)
        except ScopefeError as error:
            raise ValueError(str(error)) from error
        native = nw.from_native(X, eager_only=True, pass_through=True)
        if not isinstance(native, nw.DataFrame):
            new = codes_of(new)
        result = pd.concat([frame, new], axis="columns") if self.passthrough else new
        if isinstance(X, pd.DataFrame):
            return result.set_axis(X.index, axis="index")
        if not isinstance(native, nw.DataFrame):
            return result.to_numpy()
        added = in_library_of(native, new)
        both = nw.concat([native, added], how="horizontal") if self.passthrough else added
        return both.to_native()

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns that come out, objects of shape (columns,)."""
        check_is_fitted(self)
        given = self._columns
        if input_features is not None and list(input_features) != list(given):
            raise ValueError("input_features is not equal to feature_names_in_")
        new = [feature.name for feature in self.recipe_.features]
        return np.array([*(given if self.passthrough else ()), *new], dtype=object)

    def _spec(self, by: str, settings: Sequence[str]) -> Spec:
        """Load the spec with settings of what `fit` was given in place of its data."""
        seed = 1 if self.random_state is None else self.random_state
        if not isinstance(seed, int | np.integer) or seed < 0:
            raise ValueError(f"random_state must be None or an integer from 0 on (got {seed!r})")
        chosen = [
            "data.source={type: frame}",
            *settings,
            f"data.task={self.task}",
            "data.split={by: time, column: none}",  # another kind of split replaces all of the spec's
            f"data.split={{{by}, {SPLIT}, seed: {seed}}}",
            "evaluation.seeds=0",
        ]
        chosen += [] if self.random_state is None else [f"seed={seed}"]
        jobs = "auto" if self.n_jobs == -1 else self.n_jobs
        chosen += [] if jobs is None else [f"execution.jobs={jobs}"]
        overrides = [*chosen, *listed(self.overrides)]
        return load_spec(self.spec, overrides=overrides, modules=self.modules, name=type(self).__name__)

    def _frame(self, table: Any, *, reset: bool) -> pd.DataFrame:
        """Return any table as a pandas frame with texts as names; arrays get some."""
        native = nw.from_native(table, pass_through=True)
        if isinstance(native, nw.LazyFrame):
            raise ValueError("the table is lazy: collect it first")
        if isinstance(native, nw.DataFrame):
            validate_data(self, table, reset=reset, skip_check_array=True)
            frame = table if isinstance(table, pd.DataFrame) else to_pandas(table)
            if not frame.shape[0] or not frame.shape[1]:
                what = "sample" if not frame.shape[0] else "feature"
                raise ValueError(
                    f"Found array with 0 {what}(s) (shape={frame.shape}) while a minimum of 1 is required."
                )
            return frame.set_axis([str(c) for c in frame.columns], axis="columns").reset_index(drop=True)
        values = check_array(table, dtype=None, ensure_all_finite="allow-nan" if _floats(table) else False)
        validate_data(self, values, reset=reset, skip_check_array=True)
        return pd.DataFrame(values, columns=_array_names(values.shape[1])).infer_objects()

    def __sklearn_tags__(self) -> Tags:
        """Tell what tables are taken."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


def _array_names(count: int) -> list[str]:
    return [f"x{i}" for i in range(count)]


def _floats(table: Any) -> bool:
    return np.asarray(table).dtype.kind in "fiub" if not hasattr(table, "toarray") else True
