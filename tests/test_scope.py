"""Scopes are sets of candidate ids, however their parts are held."""

from __future__ import annotations

from operator import and_, or_, sub

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scopefe.operators import DEFAULT

from scopefe.errors import ComponentError, RunError
from scopefe.registry import components
from scopefe.run.compiling import count
from scopefe.space.pairs import PairSet
from scopefe.space.scope import Scope
from scopefe.space.universe import Universe

KINDS = st.lists(st.sampled_from(["numerical", "ordinal", "categorical"]), min_size=1, max_size=5)
SETTINGS = settings(deadline=None, max_examples=40)


def universe_of(kinds, directions="one"):
    known = components().operators
    return Universe([f"c{i}" for i in range(len(kinds))], kinds, [known[n] for n in DEFAULT], directions)


@st.composite
def pair_sets(draw, d):
    bits = draw(st.lists(st.booleans(), min_size=d * d, max_size=d * d))
    matrix = np.array(bits, dtype=bool).reshape(d, d)
    return PairSet(matrix | matrix.T)


@st.composite
def scopes(draw, universe):
    """A scope of any mix of parts: all, none, a pair set, listed numbers; and its ids, found one by one."""
    parts, ids = [], set()
    for block in universe.blocks:
        left, right = block.layout.features(np.arange(block.size))
        forms = ["all", "none", "listed"] + (["pairs"] if block.operator.arity == 2 else [])
        form = draw(st.sampled_from(forms))
        if form == "all":
            part, local = True, range(block.size)
        elif form == "none":
            part, local = False, ()
        elif form == "pairs":
            part = draw(pair_sets(universe.d))
            local = [i for i in range(block.size) if part.matrix[left[i], right[i]]]
        else:
            bits = draw(st.integers(0, 2**block.size - 1))
            local = [i for i in range(block.size) if bits >> i & 1]
            part = np.array(local, dtype=np.int64)
        parts.append(part)
        ids |= {block.offset + i for i in local}
    return Scope(universe, parts), ids


@st.composite
def pairs_of_scopes(draw):
    universe = universe_of(draw(KINDS), draw(st.sampled_from(["one", "both"])))
    return draw(scopes(universe)), draw(scopes(universe))


@SETTINGS
@given(pairs_of_scopes())
def test_a_scope_is_the_set_of_its_ids(given_scopes):
    (scope, ids), _ = given_scopes
    listed = scope.ids().tolist()
    assert listed == sorted(ids)
    assert len(scope) == len(ids)
    for i, block in enumerate(scope.universe.blocks):
        members = {n for n in range(block.size) if block.offset + n in ids}
        assert scope.count(i) == len(members)
        assert scope.local(i).tolist() == sorted(members)
        everything = np.arange(block.size)
        assert np.flatnonzero(scope.contains(i, everything)).tolist() == sorted(members)


@SETTINGS
@given(pairs_of_scopes())
def test_algebra_is_that_of_sets(given_scopes):
    (a, a_ids), (b, b_ids) = given_scopes
    for combine in (and_, or_, sub):
        result = combine(a, b)
        expected = combine(a_ids, b_ids)
        assert result.ids().tolist() == sorted(expected), combine.__name__
        assert len(result) == len(expected)
    assert a.ids().tolist() == sorted(a_ids), "operands stay"


@SETTINGS
@given(pairs_of_scopes())
def test_the_algebra_has_its_laws(given_scopes):
    (a, _), (b, _) = given_scopes
    everything = Scope.everything(a.universe)

    def same(x, y):
        assert x.ids().tolist() == y.ids().tolist()

    same(a & everything, a)
    same(a | everything, everything)
    same(everything - (everything - a), a)
    same(everything - (a | b), (everything - a) & (everything - b))
    same(a - b, a & (everything - b))
    assert len(a - a) == 0


@SETTINGS
@given(pairs_of_scopes())
def test_unique_counts_are_distinct_expressions(given_scopes):
    (scope, _), _ = given_scopes
    universe = scope.universe
    for i, block in enumerate(universe.blocks):
        left, right = block.layout.features(scope.local(i))
        shown = list(zip(left.tolist(), right.tolist(), strict=True))
        assert scope.count_unique(i) == len(set(shown))
    total = count(universe, scope)
    assert total.pool.raw == len(scope)
    assert total.pool.unique == sum(scope.count_unique(i) for i in range(len(universe.blocks)))
    assert total.reduction == pytest.approx(1 - len(scope) / universe.size)


@SETTINGS
@given(pairs_of_scopes(), st.data())
def test_counts_by_label_are_those_of_a_list(given_scopes, data):
    (scope, ids), _ = given_scopes
    d = scope.universe.d
    labels = np.array(data.draw(st.lists(st.integers(0, 3), min_size=d, max_size=d)), dtype=np.int64)
    inside, across = scope.count_by_label(labels)
    expected, others = [0] * (int(labels.max()) + 1), 0
    for left, right in zip(*scope.universe.decode(np.array(sorted(ids), dtype=np.int64))[1:], strict=True):
        if right < 0:
            continue
        if labels[left] == labels[right]:
            expected[labels[left]] += 1
        else:
            others += 1
    assert (inside.tolist(), across) == (expected, others)
    space = count(scope.universe, scope, labels)
    assert [c.candidates for c in space.clusters] == expected
    assert space.across_clusters == others
    assert [len(c.features) for c in space.clusters] == np.bincount(labels).tolist()


@SETTINGS
@given(pairs_of_scopes(), st.randoms(use_true_random=False))
def test_ids_make_the_scope_again_in_any_order(given_scopes, random):
    (scope, ids), _ = given_scopes
    shuffled = [*ids, *list(ids)[:3]]
    random.shuffle(shuffled)
    again = Scope.of_ids(scope.universe, np.array(shuffled, dtype=np.int64))
    assert again.ids().tolist() == sorted(ids)
    assert [again.count(i) for i in range(len(DEFAULT))] == [scope.count(i) for i in range(len(DEFAULT))]


@SETTINGS
@given(pairs_of_scopes(), st.data())
def test_pairs_restrict_two_inputs_and_leave_one_input_alone(given_scopes, data):
    (scope, ids), _ = given_scopes
    pairs = data.draw(pair_sets(scope.universe.d))
    kept = set()
    listed = np.array(sorted(ids), dtype=np.int64)
    _, left, right = scope.universe.decode(listed)
    for candidate, a, b in zip(listed.tolist(), left, right, strict=True):
        if b < 0 or pairs.matrix[a, b]:
            kept.add(candidate)
    assert scope.restrict(pairs).ids().tolist() == sorted(kept)


@SETTINGS
@given(pairs_of_scopes())
def test_arities_part_a_scope(given_scopes):
    (scope, _), _ = given_scopes
    single, double = scope.of_arity(1), scope.of_arity(2)
    assert len(single) + len(double) == len(scope)
    assert (scope.universe.decode(single.ids())[2] == -1).all()
    assert (scope.universe.decode(double.ids())[2] >= 0).all()


def test_operators_are_kept_by_position():
    universe = universe_of(["numerical", "ordinal", "categorical"])
    scope = Scope.everything(universe).only(lambda i: DEFAULT[i] in ("freq", "*"))
    found = {DEFAULT[i] for i in universe.decode(scope.ids())[0]}
    assert found == {"freq", "*"}
    assert len(scope) == universe.blocks[0].size + universe.blocks[DEFAULT.index("*")].size


@pytest.mark.parametrize("wrong", [-1, 10**6])
def test_ids_of_no_candidate_are_refused(wrong):
    universe = universe_of(["numerical", "ordinal"])
    with pytest.raises(IndexError, match="candidate ids"):
        Scope.of_ids(universe, np.array([0, wrong]))


@pytest.mark.parametrize("d", [2, 4])
def test_a_pair_set_of_another_width_is_refused(d):
    universe = universe_of(["numerical"] * 3)
    with pytest.raises(ComponentError, match=f"{d} features"):
        Scope.everything(universe).restrict(PairSet.complete(d))


def test_scopes_of_different_universes_do_not_mix():
    one, other = universe_of(["numerical"] * 3), universe_of(["numerical"] * 3, "both")
    with pytest.raises(ValueError, match="different universes"):
        Scope.everything(one) & Scope.everything(other)
    again = universe_of(["numerical"] * 3)
    assert len(Scope.everything(one) & Scope.everything(again)) == one.size


def test_more_than_memory_holds_is_not_listed():
    universe = universe_of(["numerical"] * 18_500)
    scope = Scope.everything(universe)
    assert len(scope) > 10**9
    with pytest.raises(RunError, match="narrow the scope"):
        scope.ids()
    with pytest.raises(RunError, match="narrow the scope"):
        Scope(universe, [True] * len(universe.blocks)).ids()
    assert len(scope.of_arity(1).ids()) == 8 * 18_500
