"""The paper's statistics, from its own counts, to the printed digits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from scopefe.audit.statistics import (
    Enrichment,
    Margins,
    adjusted,
    corrected_t,
    empirical_p,
    mean_jaccard,
    paired,
    variation,
    verdict,
    win_tie_loss,
)

# N, M, H, coverage, expected coverage, enrichment, p, q (paper, Table enrichment_details)
ENRICHMENT = {
    "CA": (274, 132, 58, "0.439", "0.482", "0.91", "0.930", "1.000"),
    "MI": (77618, 12516, 1887, "0.151", "0.161", "0.93", "1.000", "1.000"),
    "ME": (346, 78, 30, "0.385", "0.225", "1.71", "2.0e-04", "2.9e-04"),
    "TE": (13868, 2878, 815, "0.283", "0.208", "1.36", "5.1e-28", "1.7e-27"),
    "BR": (21020, 2516, 347, "0.138", "0.120", "1.15", "1.7e-03", "2.2e-03"),
    "DI": (7762, 908, 176, "0.194", "0.117", "1.66", "4.8e-13", "9.5e-13"),
    "NO": (80991, 9163, 1263, "0.138", "0.113", "1.22", "6.1e-15", "1.5e-14"),
    "VE": (30500, 5068, 1417, "0.280", "0.166", "1.68", "7.3e-112", "3.7e-111"),
    "JA": (9018, 1590, 375, "0.236", "0.176", "1.34", "1.7e-11", "2.8e-11"),
    "CO": (27288, 8526, 3661, "0.429", "0.312", "1.37", "1.9e-169", "1.9e-168"),
}
# p and q of random-pair, random-operator and random-joint (paper, Table random_control_full)
CONTROLS = {
    "CA": [(0.644, 0.840), (0.017, 0.025), (0.787, 0.931)],
    "MI": [(1.000, 1.000), (0.001, 0.002), (1.000, 1.000)],
    "ME": [(0.382, 0.520), (0.030, 0.043), (0.002, 0.003)],
    "TE": [(0.001, 0.002), (0.001, 0.002), (0.001, 0.002)],
    "BR": [(0.807, 0.931), (0.939, 1.000), (0.001, 0.002)],
    "DI": [(0.001, 0.002), (0.790, 0.931), (0.001, 0.002)],
    "NO": [(1.000, 1.000), (0.001, 0.002), (0.001, 0.002)],
    "VE": [(0.001, 0.002), (0.001, 0.002), (0.001, 0.002)],
    "JA": [(0.002, 0.003), (0.002, 0.003), (0.001, 0.002)],
    "CO": [(0.011, 0.017), (0.001, 0.002), (0.001, 0.002)],
}
# mean scores of openfe, fc-only, op-only and scope-fe (paper, Table full_ablation)
SCORES = {
    "CA": ("rmse", 0.4206, 0.4278, 0.4427, 0.4291),
    "MI": ("rmse", 0.7382, 0.7378, 0.7379, 0.7381),
    "ME": ("rmse", 981.3, 981.73, 982.75, 985.28),
    "TE": ("auc", 0.6815, 0.6805, 0.6712, 0.6712),
    "BR": ("auc", 0.7855, 0.7727, 0.7874, 0.7871),
    "DI": ("auc", 0.8878, 0.8878, 0.8899, 0.8899),
    "NO": ("auc", 0.9958, 0.9966, 0.9956, 0.9954),
    "VE": ("auc", 0.9281, 0.9272, 0.9273, 0.9275),
    "JA": ("accuracy", 0.7286, 0.7331, 0.7319, 0.7293),
    "CO": ("accuracy", 0.9736, 0.9735, 0.9742, 0.9743),
}


def printed(value: float, like: str) -> str:
    """Write a value with the digits of another."""
    return f"{value:.1e}" if "e" in like else f"{value:.{len(like.split('.')[1])}f}"


@pytest.mark.parametrize("dataset", ENRICHMENT)
def test_enrichment_from_the_papers_counts(dataset):
    universe, pool, hits, coverage, expected, enrichment, p, _ = ENRICHMENT[dataset]
    found = Enrichment(universe, pool, hits)
    assert printed(found.coverage, coverage) == coverage
    assert printed(found.expected_coverage, expected) == expected
    assert printed(found.value, enrichment) == enrichment
    assert printed(found.p, p) == p


def test_q_values_over_the_papers_datasets():
    found = [Enrichment(*row[:3]).p for row in ENRICHMENT.values()]
    for q, row in zip(adjusted(found, "fdr_bh"), ENRICHMENT.values(), strict=True):
        assert printed(q, row[7]) == row[7]


def test_joint_q_values_of_the_papers_controls():
    rows = [row for dataset in CONTROLS.values() for row in dataset]
    exact = [round(1001 * p) / 1001 for p, _ in rows]
    for q, (_, wanted) in zip(adjusted(exact, "fdr_bh"), rows, strict=True):
        assert f"{q:.3f}" == f"{wanted:.3f}"


@pytest.mark.parametrize("factor", [0.5, 1, 2])
def test_wins_ties_and_losses_at_the_papers_margins(factor):
    margins = Margins().times(factor)
    outcomes = [margins.outcome(row[4], row[1], metric=row[0]) for row in SCORES.values()]
    assert win_tie_loss(outcomes) == "0/8/2"
    assert [name for name, o in zip(SCORES, outcomes, strict=True) if o == "loss"] == ["CA", "TE"]


@pytest.mark.parametrize("leg", [2, 3, 4])
def test_eight_of_ten_are_comparable_in_every_leg(leg):
    outcomes = [Margins().outcome(row[leg], row[1], metric=row[0]) for row in SCORES.values()]
    assert sum(o != "loss" for o in outcomes) == 8


def test_a_difference_of_the_margin_is_a_tie():
    assert Margins(absolute=0.25).outcome(0.75, 0.5, metric="auc") == "tie"
    assert Margins(relative=0.5).outcome(0.5, 1.0, metric="rmse") == "tie"


@given(st.integers(1, 60), st.data())
def test_hypergeometric_p_is_the_share_of_random_pools(universe, data):
    pool = data.draw(st.integers(0, universe))
    hits = data.draw(st.integers(max(0, 2 * pool - universe), pool))
    ways = sum(math.comb(pool, h) * math.comb(universe - pool, pool - h) for h in range(hits, pool + 1))
    assert Enrichment(universe, pool, hits).p == pytest.approx(ways / math.comb(universe, pool), rel=1e-9)


def test_an_empty_pool_has_no_enrichment():
    found = Enrichment(10, 0, 0)
    assert math.isnan(found.coverage)
    assert math.isnan(found.value)
    assert found.p == 1


def test_missing_p_values_do_not_count():
    assert adjusted([0.01, np.nan, 0.02], "holm").tolist() == pytest.approx([0.02, np.nan, 0.02], nan_ok=True)
    assert len(adjusted([], "holm")) == 0


def test_empirical_p_counts_the_observation():
    assert empirical_p(1.0, np.array([0.0, 1.0, 2.0])) == 3 / 4


def test_paired_tests_are_scipys():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 10))
    found = paired(first, second, larger_is_better=True)
    assert found.t == pytest.approx(scipy.stats.ttest_rel(first, second).pvalue)
    assert found.wilcoxon == pytest.approx(scipy.stats.wilcoxon(first, second).pvalue)
    assert found.difference == pytest.approx((first - second).mean())
    assert paired(first, second, larger_is_better=False).difference == pytest.approx(-found.difference)


def test_paired_tests_of_equal_and_of_single_values():
    assert paired([1, 2], [1, 2], larger_is_better=True).t == 1
    assert math.isnan(paired([1], [2], larger_is_better=True).t)
    assert paired([2, 3, 4], [1, 2, 3], larger_is_better=True).t == 0


def test_both_tests_have_to_agree():
    assert verdict(0.01, 0.01, 1.0) == "first"
    assert verdict(0.01, 0.01, -1.0) == "second"
    assert verdict(0.01, 0.06, 1.0) == "n.s."
    assert verdict(math.nan, 0.01, 1.0) == "n.s."


def test_splits_that_share_rows_make_the_t_test_weaker():
    rng = np.random.default_rng(1)
    differences = rng.normal(0.5, 1, size=10)
    plain = scipy.stats.ttest_1samp(differences, 0).pvalue
    assert corrected_t(differences, test_share=0.0) == pytest.approx(plain)
    assert corrected_t(differences, test_share=0.25) > plain


def test_stability():
    assert mean_jaccard([["a", "b"], ["b", "c"], ["a", "b"]]) == pytest.approx((1 / 3 + 1 + 1 / 3) / 3)
    assert variation([1, 2, 3]) == pytest.approx(0.5)
    assert math.isnan(variation([1]))
