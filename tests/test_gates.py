"""Gate expressions, the plain operator gates, and the probe."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scopefe.operators import DEFAULT

from scopefe import ComponentError, PairSet, Sample, Scope, SpecError, UnknownNameError
from scopefe.registry import Components, collecting, components, operator_gate, pair_gate
from scopefe.run.compiling import StaticContext
from scopefe.run.gating import admit
from scopefe.space.context import NeedsDataError
from scopefe.space.expression import Apply, Leaf, key_of
from scopefe.space.universe import Universe
from scopefe.spec.models import AllOf, AnyOf, GateUse, Not


def universe_of(kinds, operators=DEFAULT):
    known = components().operators
    return Universe([f"c{i}" for i in range(len(kinds))], kinds, [known[n] for n in operators])


MIXED = universe_of(["numerical", "categorical", "ordinal", "numerical", "ordinal"])


@dataclass
class Fake:
    """A gate context whose gains are a function of candidate ids."""

    universe: Universe
    worth: Callable[[np.ndarray], np.ndarray] = lambda ids: np.zeros(len(ids))
    asked: list[tuple[np.ndarray, Sample, int]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)

    def rng(self, name, seed):
        return np.random.default_rng([seed, zlib.crc32(name.encode())])

    def gains(self, candidates, *, sample, folds):
        self.asked.append((candidates, sample, folds))
        return self.worth(candidates)

    def remember(self, name, parameters, compute, *, by_target=True):
        key = repr((name, dict(parameters)))
        if key not in self.known:
            self.known[key] = compute()
        return self.known[key]

    def note(self, name, fact):
        self.facts[name] = fact


# --- expressions ------------------------------------------------------------


@pytest.fixture(scope="module")
def registered():
    """The built-in gates and some whose result a test can choose."""
    with collecting(Components(components())) as mine:

        @pair_gate("inside")
        def inside(context, scope, *, labels: list[int]):
            return PairSet.within(np.array(labels))

        @pair_gate("head")
        def head(context, scope, *, count: int):
            return Scope.of_ids(context.universe, np.arange(count))

        @pair_gate("text")
        def text(context, scope):
            return "pairs"

        @pair_gate("broken")
        def broken(context, scope):
            return 1 / 0

        @operator_gate("refusing")
        def refusing(context, scope):
            raise ComponentError("no reason")

    return mine


def expressions(leaves):
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map(lambda e: AnyOf(any=e)),
            st.lists(inner, min_size=1, max_size=3).map(lambda e: AllOf(all=e)),
            inner.map(lambda e: Not(**{"not": e})),
        ),
        max_leaves=6,
    )


LABELS = st.lists(st.integers(0, 2), min_size=MIXED.d, max_size=MIXED.d)
PAIR_GATES = st.one_of(
    st.just(GateUse(gate="all")),
    LABELS.map(lambda labels: GateUse(gate="inside", labels=labels)),
    st.integers(0, MIXED.size).map(lambda count: GateUse(gate="head", count=count)),
)
OPERATOR_GATES = st.one_of(
    st.just(GateUse(gate="all")),
    st.lists(st.sampled_from(DEFAULT), max_size=9).map(lambda names: GateUse(gate="list", use=names)),
)
TRIPLES = list(zip(*(a.tolist() for a in MIXED.decode(np.arange(MIXED.size))), strict=True))


def admitted(expression, incoming, complement):
    """What an expression leaves of a set of ids, by python sets."""
    match expression:
        case AnyOf():
            return set().union(*(admitted(e, incoming, complement) for e in expression.any))
        case AllOf():
            return incoming.intersection(*(admitted(e, incoming, complement) for e in expression.all))
        case Not():
            return complement(incoming, admitted(expression.not_, incoming, complement))
        case GateUse(gate="all"):
            return incoming
        case GateUse(gate="inside", labels=labels):
            return {
                i for i in incoming if TRIPLES[i][2] < 0 or labels[TRIPLES[i][1]] == labels[TRIPLES[i][2]]
            }
        case GateUse(gate="head", count=count):
            return {i for i in incoming if i < count}
        case GateUse(gate="list", use=use):
            return {i for i in incoming if DEFAULT[TRIPLES[i][0]] in use}
    raise AssertionError(expression)


def keeping_unaries(incoming, left_out):
    return {i for i in incoming if TRIPLES[i][2] < 0 or i not in left_out}


INCOMING = st.one_of(
    st.just(Scope.everything(MIXED)),
    LABELS.map(lambda labels: Scope.everything(MIXED).restrict(PairSet.across(np.array(labels)))),
    st.sets(st.integers(0, MIXED.size - 1)).map(
        lambda s: Scope.of_ids(MIXED, np.array(sorted(s), dtype=int))
    ),
)


@settings(deadline=None, max_examples=80)
@given(expression=expressions(PAIR_GATES), incoming=INCOMING)
def test_pair_gates_combine_as_sets_and_not_keeps_one_input_candidates(registered, expression, incoming):
    found = admit(expression, registered.pair_gates, Fake(MIXED), incoming)
    ids = set(incoming.ids().tolist())
    assert set(found.ids().tolist()) == admitted(expression, ids, keeping_unaries)


@settings(deadline=None, max_examples=80)
@given(expression=expressions(OPERATOR_GATES), incoming=INCOMING)
def test_operator_gates_combine_as_sets(registered, expression, incoming):
    found = admit(expression, registered.operator_gates, Fake(MIXED), incoming)
    ids = set(incoming.ids().tolist())
    assert set(found.ids().tolist()) == admitted(expression, ids, set.difference)


def test_the_complement_of_pairs_is_the_other_pairs(registered):
    labels = [0, 0, 1, 1, 0]
    everything = Scope.everything(MIXED)
    inside = GateUse(gate="inside", labels=labels)
    found = admit(Not(**{"not": inside}), registered.pair_gates, Fake(MIXED), everything)
    expected = everything.restrict(PairSet.across(np.array(labels)))
    assert found.ids().tolist() == expected.ids().tolist()
    assert found.of_arity(1).ids().tolist() == everything.of_arity(1).ids().tolist()


def test_a_gate_that_fails_is_named(registered):
    everything = Scope.everything(MIXED)

    def run(use, registry=registered.pair_gates):
        return admit(use, registry, Fake(MIXED), everything)

    with pytest.raises(ComponentError, match=r"pair gate 'broken' .*ZeroDivisionError"):
        run(GateUse(gate="broken"))
    with pytest.raises(ComponentError, match=r"pair gate 'text' .* gave str"):
        run(GateUse(gate="text"))
    with pytest.raises(ComponentError, match="operator gate 'refusing': no reason"):
        run(GateUse(gate="refusing"), registered.operator_gates)
    with pytest.raises(ComponentError, match="4 features"):
        run(GateUse(gate="inside", labels=[0] * 4))
    with pytest.raises(ComponentError, match=r"pair gate 'head' .*candidate ids"):
        run(GateUse(gate="head", count=MIXED.size + 1))
    with pytest.raises(UnknownNameError, match="did you mean 'inside'"):
        run(GateUse(gate="insid"))
    with pytest.raises(SpecError, match="count"):
        run(GateUse(gate="head", count="many"))


@pytest.mark.parametrize("name", ["hard-intra", "hard-inter"])
def test_gates_that_need_rows_say_so(registered, name):
    static = StaticContext(MIXED)
    with pytest.raises(NeedsDataError):
        admit(GateUse(gate=name), registered.pair_gates, static, Scope.everything(MIXED))
    kept = admit(GateUse(gate="all"), registered.pair_gates, static, Scope.everything(MIXED))
    assert len(kept) == MIXED.size


def test_a_listed_operator_has_to_exist(registered):
    use = GateUse(gate="list", use=["+", "GroupByThenMeen"])
    with pytest.raises(ComponentError, match="did you mean 'GroupByThenMean'"):
        admit(use, registered.operator_gates, Fake(MIXED), Scope.everything(MIXED))


KEYS = [["/", "c3", "c0"], ["/", "c0", "c4"], ["*", "c3", "c0"], ["freq", "c1"], ["freq", "c2"],
        ["abs", "c4"], ["GroupByThenMean", "c2", "c1"], ["Combine", "c4", "c1"]]  # fmt: skip


def test_candidates_are_admitted_by_their_keys():
    universe = universe_of(MIXED.kinds, DEFAULT)
    both = Universe(universe.names, universe.kinds, universe.operators, "both")
    for static in (Fake(both), StaticContext(both)):
        found = admit(
            GateUse(gate="features", use=KEYS), components().operator_gates, static, Scope.everything(both)
        )
        wanted = [Apply(name, tuple(map(Leaf, inputs)), known(name).symmetric) for name, *inputs in KEYS]
        assert {key_of(e) for e in both.expressions(found.ids())} == set(map(key_of, wanted))
        assert len(found) == len(KEYS)


def known(name):
    return components().operators[name]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (
            ["GroupByThenMeen", "c0", "c1"],
            "unknown operator 'GroupByThenMeen'; did you mean 'GroupByThenMean'?",
        ),
        (["abs", "c9"], "unknown feature 'c9'; known: c0, c1"),
        (["abs", "c1"], "'abs' does not take c1 (categorical)"),
        (["abs", "c0", "c2"], "'abs' does not take c0 (numerical), c2 (ordinal)"),
        (["+", "c0"], "'+' does not take c0 (numerical)"),
        (["+", "c0", "c0"], "'+' does not take c0 (numerical), c0 (numerical)"),
        (["-", "c4", "c0"], "operators.directions may have to be both"),
    ],
)
def test_candidates_that_there_are_not(key, said):
    with pytest.raises(ComponentError, match=f"^operator gate 'features': .*{re.escape(said)}"):
        admit(
            GateUse(gate="features", use=[key]),
            components().operator_gates,
            Fake(MIXED),
            Scope.everything(MIXED),
        )


# --- probe ------------------------------------------------------------------

WIDE = universe_of(["numerical"] * 6 + ["ordinal"] * 2 + ["categorical"] * 5)


def probe(context, scope=None, **parameters):
    scope = Scope.everything(context.universe) if scope is None else scope
    use = GateUse(gate="probe", **parameters)
    return admit(use, components().operator_gates, context, scope)


def names_in(scope):
    return [o.name for i, o in enumerate(scope.universe.operators) if scope.count(i)]


def ranking(context, top_k):
    """Operators from the best, by what the context was asked and gave."""
    ids = context.asked[0][0]
    gains, operators = context.worth(ids), context.universe.decode(ids)[0]
    scores = {}
    for position, chosen in enumerate(context.universe.operators):
        known = [g for g in gains[operators == position] if not np.isnan(g)]
        if position in operators:
            best = sorted(known, reverse=True)[:top_k]
            scores[chosen.name] = sum(best) / len(best) if best else -np.inf
    return sorted(scores, key=lambda name: (-scores[name], DEFAULT.index(name)))


@pytest.mark.parametrize(
    "parameters", [{}, {"keep": 3}, {"top_k": 1, "keep": 10}, {"candidates": 4, "keep": 2}]
)
@pytest.mark.parametrize("noise", [0, 1])
def test_the_operators_that_score_best_are_kept(parameters, noise):
    worth = np.random.default_rng(noise).normal(size=WIDE.size)
    context = Fake(WIDE, lambda ids: worth[ids])
    found = probe(context, **parameters)
    kept = parameters.get("keep", 7)
    expected = ranking(context, parameters.get("top_k", 5))[:kept]
    assert names_in(found) == sorted(expected, key=DEFAULT.index)
    assert {n for n, fact in context.facts["probe"].items() if fact["kept"]} == set(expected)
    whole = Scope.everything(WIDE).only(lambda i: DEFAULT[i] in expected)
    assert found.ids().tolist() == whole.ids().tolist(), "all candidates of a kept operator stay"


def test_where_all_candidates_are_tried_the_score_is_the_mean_of_the_best_five():
    universe = universe_of(["numerical"] * 6, operators=["abs", "log", "sqrt"])
    gains = np.array([[9, -9, -9, -9, -9, 0], [1, 1, 1, 1, 1, -99], [2, 2, 2, 2, -2, -99]]).ravel() * 1.0
    context = Fake(universe, lambda ids: gains[ids])
    assert names_in(probe(context, keep=2)) == ["log", "sqrt"]
    scores = {n: fact["score"] for n, fact in context.facts["probe"].items()}
    assert scores == pytest.approx({"abs": -18 / 5, "log": 1, "sqrt": 6 / 5})
    assert [fact["best"] for fact in context.facts["probe"].values()] == [9, 1, 2]


def test_fewer_than_five_candidates_are_averaged_as_they_are():
    universe = universe_of(["numerical"] * 2, operators=["abs", "+"])
    gains = np.array([3.0, 1.0, 2.5])
    assert names_in(probe(Fake(universe, lambda ids: gains[ids]), keep=1)) == ["+"]


def test_ties_go_to_the_earlier_operator():
    assert names_in(probe(Fake(WIDE))) == list(DEFAULT[:7])
    backwards = universe_of(["numerical"] * 3, operators=["*", "log", "+", "abs"])
    assert names_in(probe(Fake(backwards), keep=2)) == ["*", "log"]


def test_candidates_that_failed_count_for_nothing():
    universe = universe_of(["numerical"] * 3, operators=["abs", "log", "sqrt", "square"])
    nan = np.nan
    gains = np.array([[nan, nan, nan], [nan, 2.0, nan], [1.0, 1.0, 1.0], [-5.0, nan, -5.0]]).ravel()
    context = Fake(universe, lambda ids: gains[ids])
    assert names_in(probe(context, keep=1)) == ["log"]
    assert names_in(probe(context, keep=2)) == ["log", "sqrt"]
    assert names_in(probe(context, keep=3)) == ["log", "sqrt", "square"], "all failed comes last"
    assert context.facts["probe"]["abs"]["best"] is None
    assert context.facts["probe"]["abs"]["candidates"] == 3


@pytest.mark.parametrize("keep", [4, 7])
def test_no_more_operators_than_are_wanted_are_all_kept(keep):
    universe = universe_of(["numerical"] * 4, operators=["abs", "log", "+", "/"])
    worth = np.random.default_rng(0).normal(size=universe.size)
    found = probe(Fake(universe, lambda ids: worth[ids]), keep=keep)
    assert found.ids().tolist() == list(range(universe.size))


def test_operators_without_candidates_take_no_place():
    """Numbers only: the group-bys and the category pairs have nothing to try."""
    universe = universe_of(["numerical"] * 3)
    context = Fake(universe, lambda ids: -ids.astype(float))
    found = probe(context, keep=14)
    assert len(names_in(found)) == 14
    assert set(context.facts["probe"]) == set(DEFAULT[:14])


def test_a_universe_without_candidates_is_left_as_it_is():
    universe = universe_of(["numerical"] * 3, operators=["Combine", "GroupByThenMean"])
    context = Fake(universe)
    assert len(probe(context)) == 0
    assert not context.asked


@pytest.mark.parametrize("candidates", [20, 3])
def test_at_most_twenty_candidates_of_each_operator_are_tried_once(candidates):
    context = Fake(WIDE)
    probe(context, candidates=candidates)
    ((ids, sample, folds),) = context.asked
    assert (sample, folds) == (Sample(0.2, 1), 3)
    assert len(np.unique(ids)) == len(ids)
    tried = np.bincount(WIDE.decode(ids)[0], minlength=len(DEFAULT))
    assert tried.tolist() == [min(candidates, block.size) for block in WIDE.blocks]


def test_the_settings_reach_the_evaluator():
    context = Fake(WIDE)
    probe(context, ratio=0.5, seed=9, folds=4)
    assert context.asked[0][1:] == (Sample(0.5, 9), 4)


def test_the_draw_does_not_depend_on_the_pair_gate():
    worth = np.random.default_rng(1).normal(size=WIDE.size)
    pairs = PairSet.within(np.arange(WIDE.d) % 3)
    free, gated = (Fake(WIDE, lambda ids: worth[ids]) for _ in range(2))
    restricted = Scope.everything(WIDE).restrict(pairs)
    whole, part = probe(free), probe(gated, restricted)
    assert np.array_equal(free.asked[0][0], gated.asked[0][0])
    assert not np.isin(gated.asked[0][0], restricted.ids()).all(), "the universe is tried, not the scope"
    assert free.facts == gated.facts
    assert part.ids().tolist() == (whole & restricted).ids().tolist()


def test_the_draw_is_the_seeds():
    draws = []
    for seed in (1, 1, 2):
        context = Fake(WIDE)
        probe(context, seed=seed)
        draws.append(context.asked[0][0].tolist())
    assert draws[0] == draws[1] != draws[2]


def test_every_candidate_has_the_same_chance():
    plus = WIDE.blocks[DEFAULT.index("+")]
    runs, hits = 400, np.zeros(plus.size)
    for seed in range(runs):
        context = Fake(WIDE)
        probe(context, seed=seed)
        ids = context.asked[0][0]
        hits[ids[(ids >= plus.offset) & (ids < plus.offset + plus.size)] - plus.offset] += 1
    share = 20 / plus.size
    assert share < 0.8
    assert np.abs(hits / runs - share).max() < 4.5 * np.sqrt(share * (1 - share) / runs)


def test_keeping_more_or_fewer_tries_nothing_again():
    context = Fake(WIDE)
    probe(context, keep=7)
    probe(context, keep=3)
    assert len(context.asked) == 1
    probe(context, seed=2)
    assert len(context.asked) == 2
