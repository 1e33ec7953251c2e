"""How values lie, and how the target goes with them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scopefe.data.dataset import Labels
from scopefe.report.shapes import associations, histogram, shape

REGRESSION, TWO, THREE = (
    Labels("regression", np.empty(0)),
    Labels("binary", np.empty(0), ("no", "yes")),
    Labels("multiclass", np.empty(0), ("a", "b", "c")),
)
NUMBERS = st.lists(
    st.one_of(st.floats(-1e300, 1e300), st.just(np.nan), st.integers(0, 3).map(float)), min_size=1
)


def test_bins_have_all_values_and_outer_ones_the_farthest():
    values = np.r_[np.arange(1000.0), 1e9, -1e9, np.nan, np.inf]
    found = histogram(values)
    assert sum(found.counts) == 1002
    assert (found.low, found.high) == (pytest.approx(9, abs=2), pytest.approx(990, abs=2))
    assert histogram(np.full(5, 2.0)).counts == [5]
    assert histogram(np.full(5, np.nan)) is None


def test_tenths_of_the_rows_with_the_mean_of_the_target():
    values = np.random.default_rng(0).permutation(np.arange(100.0))
    found = shape(np.r_[values, np.nan], np.r_[values * 2, 7.0], REGRESSION, categorical=False)
    assert [g.rows for g in found.groups] == [10] * 10
    assert [g.target for g in found.groups] == [[2 * (10 * i + 4.5)] for i in range(10)]
    assert (found.missing, found.missing_target) == (1, [7.0])


def test_few_values_are_groups_of_their_own_and_shares_are_told():
    values, target = np.array([1.0, 1, 1, 5, 5]), np.array([0.0, 1, 1, 1, 1])
    two = shape(values, target, TWO, categorical=False)
    assert [(g.low, g.high, g.rows, g.target) for g in two.groups] == [
        (1, 1, 3, [0.666667]),
        (5, 5, 2, [1.0]),
    ]
    three = shape(values, target + 1, THREE, categorical=False)
    assert three.groups[0].target == [0.0, 0.333333, 0.666667]


def test_the_ten_largest_categories():
    codes = np.repeat(np.arange(30.0), np.arange(1, 31))
    found = shape(codes, codes, REGRESSION, categorical=True)
    assert [g.low for g in found.groups] == list(range(29, 19, -1))
    assert found.histogram is None


@given(NUMBERS, st.booleans())
def test_rows_are_in_one_group_or_missing(given, categorical):
    values = np.abs(np.trunc(given)) % 50 if categorical else np.array(given)
    found = shape(values, np.zeros(len(values)), REGRESSION, categorical=categorical)
    known = sum(g.rows for g in found.groups) + found.missing
    assert known == len(values) or (categorical and known < len(values) and len(found.groups) == 10)
    assert len(found.groups) <= 10
    assert all(g.low <= g.high for g in found.groups)


def test_associations_are_ordered_by_cluster_or_are_means_between_clusters():
    matrix = np.array([[1, 0.1, 0.9], [0.1, 1, 0.2], [0.9, 0.2, 1]])
    found = associations(matrix, np.array([0, 1, 0]), ["a", "b", "c"])
    assert (found.features, found.bounds) == (["a", "c", "b"], [2])
    assert found.values == [[1, 0.9, 0.1], [0.9, 1, 0.2], [0.1, 0.2, 1]]
    many = np.where(np.eye(70, dtype=bool), 1.0, 0.25)
    groups = np.r_[np.zeros(69, dtype=int), 1]
    between = associations(many, groups, [f"f{i}" for i in range(70)])
    assert between.features is None
    assert between.values == [[0.25, 0.25], [0.25, 1.0]]
