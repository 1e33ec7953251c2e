"""The compiled kernels against LightGBM itself, on generated columns."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from scopefe.data.table import Table
from scopefe.score.featureboost import Block, LightGBM
from scopefe.score.kernels import Kernel, best_metric
from scopefe.score.kernels.binning import ascending, bin_rows, sampled_rows
from scopefe.score.kernels.boosting import FEW
from scopefe.score.objective import Objective

TOLERANCE = 1e-9
METRICS = {
    "rmse": ("regression", 0),
    "binary_logloss": ("binary", 2),
    "auc": ("binary", 2),
    "multi_logloss": ("multiclass", 4),
}


def block(metric, rng, fitted, measured, *, constant=False, spread=1.5, weighted=False):
    """Rows whose targets follow the starting scores loosely; every class occurs on both sides."""
    task, classes = METRICS[metric]
    rows = fitted + measured
    scores = rng.normal(size=rows if task != "multiclass" else (rows, classes)) * spread
    if task == "regression":
        target = 0.5 * scores + rng.normal(size=rows)
    elif task == "binary":
        target = (rng.random(rows) < 1 / (1 + np.exp(-scores / 2))).astype(float)
    else:
        target = np.argmax(scores / 2 + rng.gumbel(size=scores.shape), axis=1).astype(float)
    for first in (0, fitted):
        target[first : first + classes] = range(classes)
    if constant:
        scores = np.repeat(scores[:1], rows, axis=0)
    weights = rng.choice([0, 0.5, 1, 30], size=rows) * rng.random(rows) if weighted else None
    if weights is not None:
        # the order in which LightGBM adds up the weights of ties is its own: eighths have exact sums
        weights = (np.round(weights * 8) / 8).astype(np.float32).astype(np.float64)
    return Block(Table([], rows), fitted, target, scores, Objective.of(task, classes, metric), weights)


def holes(rng, values, *shares):
    values[rng.random(len(values)) < rng.choice(shares)] = np.nan
    return values


COLUMNS = {
    "continuous": lambda rng, x: x,
    "ties": lambda rng, x: np.round(x * rng.choice([1, 3, 20])),
    "heavy zeros": lambda rng, x: np.where(rng.random(len(x)) < rng.choice([0.5, 0.9, 0.99]), 0.0, x),
    "huge and tiny": lambda rng, x: x * 10.0 ** rng.integers(-300, 300),
    "missing": lambda rng, x: holes(rng, x, 0.001, 0.1, 0.7, 0.99),
    "missing ties": lambda rng, x: holes(rng, np.round(x * 2), 0.01, 0.3),
    "missing zeros": lambda rng, x: holes(rng, np.where(rng.random(len(x)) < 0.3, 0.0, np.abs(x)), 0.3),
    "infinite": lambda rng, x: np.where(np.abs(x) > 1.5, np.sign(x) * np.inf, holes(rng, x, 0, 0.1)),
    "skewed": lambda rng, x: np.exp(x * rng.choice([0.1, 1, 5])),
    "constant": lambda rng, x: np.full(len(x), rng.choice([0.0, 1.5, np.nan, np.inf])),
    "one value or missing": lambda rng, x: np.where(x > rng.choice([0, 1]), np.nan, rng.choice([0, 2])),
    "missing when large": lambda rng, x: np.where(x > 0.5, np.nan, np.round(x, rng.integers(3))),
    "two values": lambda rng, x: (rng.random(len(x)) < rng.choice([0.5, 0.1, 0.01])).astype(float),
    "around zero": lambda rng, x: x * rng.choice([5e-324, 1e-310, 1e-35, 3e-36]),
    "one sign": lambda rng, x: np.abs(np.round(x * 3)) * rng.choice([1.0, -1.0]),
    "one ulp apart": lambda rng, x: np.nextafter(1.0, 2.0) * np.round(x) + (x > 0) * 2.0**-52,
    "zeros when measured": lambda rng, x: np.where(np.arange(len(x)) < 0.6 * len(x), x, 0.0),
}


def column(kind, rng, target):
    x = rng.normal(size=len(target)) + rng.choice([0.0, 0.3, 1.0]) * (target - target.mean())
    return COLUMNS[kind](rng, x)


def differs(rows, values, *, categorical=False):
    """By how much the two evaluators differ, in units of the starting metric, at least a half."""
    gains = [e.gain(rows, values, categorical=categorical) for e in (Kernel(), LightGBM())]
    return abs(gains[0] - gains[1]) / max(rows.initial, 0.5)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("constant", [False, True], ids=["row-wise scores", "constant scores"])
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32 - 1),
    fitted=st.sampled_from([5, 20, 45, 100, 700, 3000, 9000]),
    measured=st.sampled_from([5, 20, 100, 500]),
    spread=st.sampled_from([0.1, 1.5, 8.0]),
)
def test_gains_are_those_of_lightgbm(metric, constant, seed, fitted, measured, spread):
    rng = np.random.default_rng(seed)
    if fitted > FEW:
        measured = max(
            measured, fitted // 18
        )  # where gradients are not rounded row by row, few rows would tell
    rows = block(metric, rng, fitted, measured, constant=constant, spread=spread)
    for kind in COLUMNS:
        values = column(kind, rng, rows.target)
        assert differs(rows, values) <= TOLERANCE, kind


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("constant", [False, True], ids=["row-wise scores", "constant scores"])
@example(seed=1271, fitted=100, measured=20)
@example(seed=17977, fitted=3000, measured=20)
@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32 - 1),
    fitted=st.sampled_from([20, 100, 700, 3000]),
    measured=st.sampled_from([20, 100, 500]),
)
def test_gains_of_weighted_rows_are_those_of_lightgbm(metric, constant, seed, fitted, measured):
    rng = np.random.default_rng(seed)
    rows = block(metric, rng, fitted, measured, constant=constant, weighted=True)
    for kind in COLUMNS:
        values = column(kind, rng, rows.target)
        assert differs(rows, values) <= TOLERANCE, kind


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("fitted", [3, 200_000, pytest.param(260_000, marks=pytest.mark.slow)])
def test_any_number_of_rows(metric, fitted):
    rng = np.random.default_rng(fitted)
    rows = block(metric, rng, max(fitted, METRICS[metric][1]), 2000)
    kinds = ["continuous", "missing ties"] if fitted > 1000 else COLUMNS
    for kind in kinds:
        assert differs(rows, column(kind, rng, rows.target)) <= TOLERANCE, kind


@pytest.mark.parametrize("rows", [200_001, 900_000, 4_000_000])
def test_the_rows_that_bins_are_made_from_are_drawn_as_lightgbm_draws_them(rows):
    drawn = sampled_rows(rows)
    assert len(drawn) == 200_000
    assert (np.diff(drawn) > 0).all()
    assert drawn[0] >= 0
    assert drawn[-1] < rows
    assert sampled_rows(200_000) is None


@pytest.mark.parametrize("metric", ["binary_logloss", "multi_logloss"])
def test_a_class_that_no_fitted_row_has_is_not_trained(metric):
    rng = np.random.default_rng(0)
    rows = block(metric, rng, 400, 100)
    rows.target[:400] = np.minimum(rows.target[:400], METRICS[metric][1] - 2)
    for kind in COLUMNS:
        assert differs(rows, column(kind, rng, rows.target)) <= TOLERANCE, kind


def test_far_scores_are_cut_off_as_in_lightgbm():
    rng = np.random.default_rng(0)
    for metric in METRICS:
        rows = block(metric, rng, 2000, 500, spread=60.0)
        assert differs(rows, column("continuous", rng, rows.target)) <= TOLERANCE, metric


@given(st.lists(st.floats(allow_subnormal=True), max_size=300))
def test_values_are_sorted(values):
    values = np.array(values, dtype=np.float64)
    assert np.array_equal(ascending(values), np.sort(values[~np.isnan(values)]))


def test_a_zero_bin_that_only_measured_rows_fill_is_left_to_lightgbm():
    rng = np.random.default_rng(0)
    rows = block("rmse", rng, 1000, 200)
    values = rng.normal(size=1200)
    assert best_metric(rows, values) is not None
    values[-1] = 0.0
    assert best_metric(rows, values) is None
    assert differs(rows, values) == 0


@pytest.mark.parametrize("metric", METRICS)
def test_gains_do_not_depend_on_where_values_lie_in_memory(metric):
    rng = np.random.default_rng(0)
    rows = block(metric, rng, 20_000, 5000)
    values = column("ties", rng, rows.target)
    gains = set()
    for shift in range(24):
        others = [np.ones(size) for size in rng.integers(1, 5000, 3)]
        placed = np.concatenate([np.ones(shift), values])[shift:]
        copied = Block(rows.table, rows.fitted, rows.target.copy(), rows.scores.copy(), rows.objective)
        gains.add(Kernel().gain(copied, placed, categorical=False))
        del others
    assert len(gains) == 1


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32 - 1),
    fitted=st.sampled_from([45, 300, 3000, 9000]),
    constant=st.booleans(),
    skew=st.sampled_from([0.0, 1.0, 1.5]),
    first=st.integers(0, 1),
)
def test_gains_of_categories_are_those_of_lightgbm(metric, seed, fitted, constant, skew, first):
    rng = np.random.default_rng(seed)
    rows = block(metric, rng, fitted, fitted // 4 + 20, constant=constant)
    for categories in (2, 3, 4, 5, 12, 60, 400, 3000):
        shares = np.arange(1, categories + 1) ** -skew
        codes = rng.permutation(categories)[rng.choice(categories, len(rows.target), p=shares / shares.sum())]
        moved = (rng.random(len(codes)) < 0.3) * (rows.target > rows.target.mean())
        codes = (codes + moved * rng.integers(0, categories)) % categories + first
        assert differs(rows, codes.astype(float), categorical=True) <= TOLERANCE, categories


def test_categories_beyond_count_are_left_to_lightgbm():
    rng = np.random.default_rng(0)
    rows = block("rmse", rng, 1000, 200)
    codes = np.arange(1200.0) * 100
    assert best_metric(rows, codes, categorical=True) is None
    assert differs(rows, codes, categorical=True) == 0


@given(st.lists(st.floats(allow_subnormal=True, width=32), min_size=1, max_size=300), st.integers(1, 300))
def test_bins_are_in_the_order_of_the_values(values, fitted):
    values = np.array(values, dtype=np.float64)
    fitted = min(fitted, len(values))
    binned = bin_rows(values, fitted, values[:fitted])
    present = ~np.isnan(values)
    order = np.argsort(values[present], kind="stable")
    bins = binned.bins[present][order].astype(int)
    assert binned.size <= 255
    if binned.size > 1:
        assert (np.diff(bins) >= 0).all()
        assert bins.max(initial=0) < binned.size


@pytest.mark.slow
def test_code_that_was_just_compiled_gives_what_code_from_the_cache_gives(tmp_path):
    program = textwrap.dedent("""
        import numpy as np
        from scopefe.data.table import Table
        from scopefe.score.featureboost import Block
        from scopefe.score.kernels import best_metric
        from scopefe.score.objective import Objective

        rng, n = np.random.default_rng(0), 6000
        for task, classes in (("multiclass", 4), ("binary", 2), ("regression", 1)):
            objective = Objective.of(task, classes)
            y = rng.integers(0, classes, size=n).astype(float) if classes > 1 else rng.normal(size=n)
            scores = 0.3 * rng.normal(size=(n, classes) if classes > 2 else n)
            block = Block(Table([], n), 4800, y, scores, objective)
            for k in range(20):
                values = np.round(rng.normal(size=n) + (y > 0.5), k % 4)
                print(repr(best_metric(block, values)))
                codes = rng.integers(0, 10 + 5 * k, size=n).astype(float)
                print(repr(best_metric(block, codes, categorical=True)))
    """)

    def run():
        environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
        command = [sys.executable, "-c", program]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    compiled = run()
    assert list(tmp_path.rglob("*.nbc"))
    assert run() == compiled
