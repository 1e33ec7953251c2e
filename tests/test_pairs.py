"""Pair sets: constructors, algebra, and the graph they are."""

from __future__ import annotations

from itertools import combinations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scopefe import PairSet


@st.composite
def matrices(draw, count=1):
    """Symmetric boolean matrices of one size, diagonal included at random."""
    d = draw(st.integers(0, 6))
    made = []
    for _ in range(count):
        bits = draw(st.lists(st.booleans(), min_size=d * d, max_size=d * d))
        matrix = np.array(bits, dtype=bool).reshape(d, d)
        made.append(matrix | matrix.T)
    return made


LABELS = st.lists(st.integers(0, 3), max_size=9).map(lambda values: np.array(values, dtype=np.int64))


def members(pairs):
    """The pairs as a python set, read through `contains`."""
    d = len(pairs.matrix)
    left, right = np.array(list(combinations(range(d), 2)), dtype=np.int64).reshape(-1, 2).T
    inside = pairs.contains(left, right)
    assert np.array_equal(inside, pairs.contains(right, left)), "unordered"
    return {(int(a), int(b)) for a, b in zip(left[inside], right[inside], strict=True)}


@given(matrices())
def test_a_pair_set_holds_the_pairs_of_its_matrix(given_matrices):
    (matrix,) = given_matrices
    pairs = PairSet(matrix)
    expected = {(a, b) for a, b in combinations(range(len(matrix)), 2) if matrix[a, b]}
    assert members(pairs) == expected
    assert len(pairs) == len(expected)


@given(matrices())
def test_a_feature_is_never_paired_with_itself(given_matrices):
    (matrix,) = given_matrices
    before = matrix.copy()
    for pairs in (PairSet(matrix), ~PairSet(matrix), PairSet(matrix) | PairSet.complete(len(matrix))):
        every = np.arange(len(matrix))
        assert not pairs.contains(every, every).any()
    assert np.array_equal(matrix, before), "the caller's matrix stays"


@given(matrices(count=2))
def test_algebra_is_that_of_sets(given_matrices):
    a, b = (PairSet(m) for m in given_matrices)
    every = set(combinations(range(len(a.matrix)), 2))
    assert members(a & b) == members(a) & members(b)
    assert members(a | b) == members(a) | members(b)
    assert members(a - b) == members(a) - members(b)
    assert members(~a) == every - members(a)
    assert ~~a == a
    assert (a == b) == (members(a) == members(b))


@given(st.integers(0, 9))
def test_complete_holds_every_pair(d):
    pairs = PairSet.complete(d)
    assert members(pairs) == set(combinations(range(d), 2))
    assert len(pairs) == d * (d - 1) // 2
    assert len(~pairs) == 0


@given(LABELS)
def test_within_and_across_are_the_two_sides_of_a_partition(labels):
    within, across = PairSet.within(labels), PairSet.across(labels)
    alike = {(a, b) for a, b in combinations(range(len(labels)), 2) if labels[a] == labels[b]}
    assert members(within) == alike
    assert across == ~within
    assert len(within & across) == 0
    assert within | across == PairSet.complete(len(labels))


@given(LABELS)
def test_the_graph_of_clusters_is_disjoint_cliques(labels):
    graph = PairSet.within(labels).graph()
    clusters = {frozenset(np.flatnonzero(labels == label).tolist()) for label in set(labels.tolist())}
    assert {frozenset(c) for c in nx.connected_components(graph)} == clusters
    for cluster in clusters:
        size = len(cluster)
        assert graph.subgraph(cluster).number_of_edges() == size * (size - 1) // 2


@given(LABELS)
def test_the_graph_across_clusters_is_complete_multipartite(labels):
    graph = PairSet.across(labels).graph()
    assert graph.number_of_nodes() == len(labels)
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    expected = nx.relabel_nodes(
        nx.complete_multipartite_graph(*sizes[sizes > 0].tolist()), dict(enumerate(order.tolist()))
    )
    assert {frozenset(e) for e in graph.edges} == {frozenset(e) for e in expected.edges}


@given(matrices())
def test_the_graph_has_the_pairs_as_edges(given_matrices):
    pairs = PairSet(given_matrices[0])
    graph = pairs.graph()
    assert {tuple(sorted(e)) for e in graph.edges} == members(pairs)
    assert sorted(graph.nodes) == list(range(len(given_matrices[0])))


@pytest.mark.parametrize("shape", [(2, 3), (4,), (2, 2, 2)])
def test_a_matrix_that_is_not_square_is_refused(shape):
    with pytest.raises(ValueError, match="square"):
        PairSet(np.ones(shape, dtype=bool))


def test_a_matrix_that_is_not_symmetric_is_refused():
    matrix = np.zeros((3, 3), dtype=bool)
    matrix[0, 2] = True
    with pytest.raises(ValueError, match="symmetric"):
        PairSet(matrix)


def test_sets_of_other_sizes_and_other_things_are_not_equal():
    assert PairSet.complete(2) != PairSet.complete(3)
    assert PairSet.complete(2) != "pairs"
    assert "3 pairs of 3 features" in repr(PairSet.complete(3))
