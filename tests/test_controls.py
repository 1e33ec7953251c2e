"""The randomised gates: what they keep of the pool they resample, and what they draw."""

from __future__ import annotations

import tracemalloc
import zlib
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scopefe.operators import DEFAULT

from scopefe import ComponentError, PairSet, Scope, SpecError
from scopefe.registry import components
from scopefe.run.gating import admit
from scopefe.space.universe import Universe
from scopefe.spec.models import GateUse

GATES = ["random-pair", "random-operator", "random-joint"]
SETTINGS = settings(deadline=None, max_examples=40)


def universe_of(kinds, directions="one"):
    known = components().operators
    return Universe([f"c{i}" for i in range(len(kinds))], kinds, [known[n] for n in DEFAULT], directions)


KINDS = [
    "numerical",
    "ordinal",
    "categorical",
    "numerical",
    "ordinal",
    "categorical",
    "numerical",
    "categorical",
]
MIXED = universe_of(KINDS)
BOTH = universe_of(KINDS, "both")


@dataclass
class Fake:
    """A gate context that knows one other pool."""

    universe: Universe
    pool: Scope | None = None
    asked: list[str] = field(default_factory=list)

    def rng(self, name, seed):
        return np.random.default_rng([seed, zlib.crc32(name.encode())])

    def matched(self, match):
        self.asked.append(match)
        assert self.pool is not None
        return self.pool


def draw(gate, universe, pool=None, incoming=None, **parameters):
    """Run a gate the way a run does."""
    registered = components()
    registry = registered.pair_gates if gate in registered.pair_gates else registered.operator_gates
    if pool is not None:
        parameters["match"] = "other"
    context = Fake(universe, pool)
    scope = Scope.everything(universe) if incoming is None else incoming
    result = admit(GateUse(gate=gate, **parameters), registry, context, scope)
    assert context.asked == (["other"] if pool is not None else [])
    return result


def ids_of(scope, arity):
    return scope.of_arity(arity).ids().tolist()


def slot_of(universe, candidate):
    """Signature and pair; a group-by has a value and a key, two inputs of one kind have no order."""
    ((position,), (left,), (right,)) = (a.tolist() for a in universe.decode(np.array([candidate])))
    takes = universe.operators[position].takes
    return takes, frozenset([left, right]) if takes[0] == takes[1] else (left, right)


def slots(universe, ids):
    return Counter(slot_of(universe, i) for i in ids)


@st.composite
def pools(draw_):
    """Pools as gates leave them: factored by pairs and operators, or any set of candidates."""
    universe = draw_(st.sampled_from([MIXED, BOTH]))
    if draw_(st.booleans()):
        labels = draw_(st.lists(st.integers(0, 2), min_size=universe.d, max_size=universe.d))
        kept = draw_(st.sets(st.integers(0, len(DEFAULT) - 1)))
        scope = Scope.everything(universe).restrict(PairSet.within(np.array(labels)))
        return scope.only(lambda i: i in kept)
    rng = np.random.default_rng(draw_(st.integers(0, 10**6)))
    chosen = rng.random(universe.size) < draw_(st.sampled_from([0.0, 0.05, 0.5, 1.0]))
    return Scope.of_ids(universe, np.flatnonzero(chosen))


@SETTINGS
@given(pool=pools(), seed=st.integers(0, 1000), gate=st.sampled_from(GATES))
def test_controls_keep_the_one_input_candidates_and_the_number_of_the_others(pool, seed, gate):
    found = draw(gate, pool.universe, pool, seed=seed)
    assert ids_of(found, 1) == ids_of(pool, 1)
    assert len(ids_of(found, 2)) == len(ids_of(pool, 2)), "without replacement"


@SETTINGS
@given(pool=pools(), seed=st.integers(0, 1000))
def test_random_pair_keeps_the_number_of_every_operator(pool, seed):
    found = draw("random-pair", pool.universe, pool, seed=seed)
    every = range(len(DEFAULT))
    assert [found.count(i) for i in every] == [pool.count(i) for i in every]


@SETTINGS
@given(pool=pools(), seed=st.integers(0, 1000))
def test_random_operator_keeps_the_number_of_every_slot(pool, seed):
    universe = pool.universe
    found = draw("random-operator", universe, pool, seed=seed)
    assert slots(universe, ids_of(found, 2)) == slots(universe, ids_of(pool, 2))


@SETTINGS
@given(pool=pools(), seed=st.integers(0, 1000), gate=st.sampled_from(GATES))
def test_a_draw_is_its_seeds(pool, seed, gate):
    first, again = (draw(gate, pool.universe, pool, seed=seed).ids().tolist() for _ in range(2))
    assert first == again


@pytest.mark.parametrize("gate", GATES)
def test_other_seeds_draw_others(gate):
    pool = Scope.of_ids(MIXED, np.arange(0, MIXED.size, 3))
    draws = {tuple(draw(gate, MIXED, pool, seed=seed).ids().tolist()) for seed in range(20)}
    assert len(draws) == 20


def frequencies(gate, universe, runs, **parameters):
    hits = np.zeros(universe.size)
    for seed in range(runs):
        hits[draw(gate, universe, seed=seed, **parameters).ids()] += 1
    return hits / runs


def check_chances(found, expected, runs):
    """Frequencies lie around their chances as a fair draw has them; fixed seeds, so never by accident."""
    spread = np.sqrt(expected * (1 - expected) / runs)
    assert (np.abs(found - expected) <= 4.5 * spread + 1e-12).all()


def test_every_pair_of_an_operator_has_the_same_chance():
    pool = Scope.everything(MIXED).restrict(PairSet.within(np.array([0, 0, 0, 0, 0, 1, 1, 1])))
    expected = np.ones(MIXED.size)
    for i, block in enumerate(MIXED.blocks):
        if block.operator.arity == 2:
            expected[block.offset : block.offset + block.size] = pool.count(i) / block.size
    assert 0.1 < expected.min() < 0.9
    check_chances(frequencies("random-pair", MIXED, 300, pool=pool), expected, 300)


@pytest.mark.parametrize("universe", [MIXED, BOTH], ids=["one", "both"])
def test_every_operator_on_a_slot_has_the_same_chance(universe):
    pool = Scope.of_ids(universe, np.random.default_rng(0).permutation(universe.size)[: universe.size // 2])
    there = slots(universe, range(universe.blocks[8].offset, universe.size))
    wanted = slots(universe, ids_of(pool, 2))
    expected = np.zeros(universe.size)
    expected[pool.of_arity(1).ids()] = 1
    for i in range(universe.blocks[8].offset, universe.size):
        slot = slot_of(universe, i)
        expected[i] = wanted[slot] / there[slot]
    assert 0 < expected[-1] < 1
    check_chances(frequencies("random-operator", universe, 300, pool=pool), expected, 300)


def test_every_pair_and_operator_have_the_same_chance():
    pool = Scope.of_ids(MIXED, np.arange(0, MIXED.size, 3))
    expected = np.zeros(MIXED.size)
    expected[ids_of(pool, 1)] = 1
    binary = Scope.everything(MIXED).of_arity(2).ids()
    expected[binary] = len(ids_of(pool, 2)) / len(binary)
    check_chances(frequencies("random-joint", MIXED, 300, pool=pool), expected, 300)


def test_operators_draw_their_pairs_apart():
    """One stream for all would give `+` the pairs of `*`."""
    pool = Scope.of_ids(MIXED, np.concatenate([MIXED.blocks[i].offset + np.arange(4) for i in range(8, 14)]))
    for seed in range(5):
        found = draw("random-pair", MIXED, pool, seed=seed)
        assert len({tuple(found.local(i).tolist()) for i in range(8, 14)}) > 1


def test_slots_draw_their_operators_apart():
    plus = DEFAULT.index("+")
    pool = Scope.everything(MIXED).only(lambda i: i == plus)
    for seed in range(5):
        found = draw("random-operator", MIXED, pool, seed=seed)
        assert np.unique(MIXED.decode(found.ids())[0]).size > 1


def test_group_bys_keep_value_and_key_apart():
    """Two ordinal features: grouping o by p and p by o are two slots."""
    universe = universe_of(["ordinal", "ordinal"])
    mean, freq_pairs = DEFAULT.index("GroupByThenMean"), DEFAULT.index("CombineThenFreq")
    o_by_p = universe.encode(mean, np.array([0]), np.array([1]))
    both = universe.encode(freq_pairs, np.array([0]), np.array([1]))
    pool = Scope.of_ids(universe, np.concatenate([o_by_p, both]))
    seen = set()
    for seed in range(60):
        formulas = [
            e.formula for e in universe.expressions(draw("random-operator", universe, pool, seed=seed).ids())
        ]
        assert len(formulas) == 2
        group, pair = sorted(formulas, key=lambda f: f.startswith(("Combine", "GroupByThenNUnique")))
        assert group.endswith("(c0,c1)")
        seen |= {group, pair}
    assert {"GroupByThenNUnique(c0,c1)", "GroupByThenNUnique(c1,c0)", "Combine(c0,c1)"} <= seen
    assert len({s for s in seen if not s.startswith(("Combine", "GroupByThenNUnique"))}) == 6


# --- budgets ----------------------------------------------------------------


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("budget", [0, 1, 50])
def test_a_budget_is_the_number_of_two_input_candidates(gate, budget):
    found = draw(gate, MIXED, budget=budget, seed=5)
    assert ids_of(found, 1) == ids_of(Scope.everything(MIXED), 1)
    assert len(ids_of(found, 2)) == budget


@pytest.mark.parametrize("gate", GATES)
def test_a_budget_of_all_draws_all_and_one_more_is_an_error(gate):
    available = len(Scope.everything(MIXED).of_arity(2))
    assert len(draw(gate, MIXED, budget=available)) == MIXED.size
    with pytest.raises(ComponentError, match=f"budget {available + 1} is more than the {available}"):
        draw(gate, MIXED, budget=available + 1)


@given(budget=st.integers(0, len(Scope.everything(MIXED).of_arity(2))), seed=st.integers(0, 9))
@SETTINGS
def test_random_pair_shares_a_budget_in_proportion(budget, seed):
    found = draw("random-pair", MIXED, budget=budget, seed=seed)
    total = len(Scope.everything(MIXED).of_arity(2))
    counts = [found.count(i) for i in range(8, len(DEFAULT))]
    assert sum(counts) == budget
    for i, drawn in enumerate(counts, 8):
        assert abs(drawn - budget * MIXED.blocks[i].size / total) < 1


def test_a_budget_of_random_operators_stays_on_the_pairs_that_came_in():
    incoming = Scope.everything(MIXED).restrict(PairSet.within(np.array([0, 0, 0, 1, 1, 1, 0, 1])))
    allowed = set(slots(MIXED, ids_of(incoming, 2)))
    for seed in range(5):
        found = draw("random-operator", MIXED, incoming=incoming, budget=30, seed=seed)
        assert len(ids_of(found, 2)) == 30
        assert set(slots(MIXED, ids_of(found, 2))) <= allowed
        assert ids_of(found, 1) == ids_of(incoming, 1)


def test_random_pair_draws_for_the_operators_that_came_in():
    incoming = Scope.everything(MIXED).only(lambda i: DEFAULT[i] in ("abs", "+", "Combine"))
    found = draw("random-pair", MIXED, incoming=incoming, budget=10)
    assert len(ids_of(found, 2)) == 10
    assert {DEFAULT[i] for i in MIXED.decode(found.ids())[0]} == {"abs", "+", "Combine"}


def test_every_candidate_has_the_same_chance_under_a_budget():
    binary = Scope.everything(MIXED).of_arity(2).ids()
    expected = np.ones(MIXED.size)
    expected[binary] = 60 / len(binary)
    for gate in ("random-operator", "random-joint"):
        check_chances(frequencies(gate, MIXED, 300, budget=60), expected, 300)


@pytest.mark.parametrize("gate", GATES)
def test_either_a_match_or_a_budget(gate):
    pool = Scope.everything(MIXED)
    with pytest.raises(ComponentError, match="either match: SPEC or budget: NUMBER"):
        draw(gate, MIXED)
    with pytest.raises(ComponentError, match="either match: SPEC or budget: NUMBER"):
        admit(
            GateUse(gate=gate, match="other", budget=3),
            components().pair_gates if gate == "random-pair" else components().operator_gates,
            Fake(MIXED, pool),
            pool,
        )


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("wrong", [{"budget": -1}, {"budget": 1, "seed": -1}, {"budget": 1.5}])
def test_numbers_that_make_no_sense_are_refused(gate, wrong):
    with pytest.raises(SpecError):
        draw(gate, MIXED, **wrong)


@pytest.mark.parametrize("gate", GATES)
def test_a_universe_without_pairs_has_no_control_but_itself(gate):
    universe = universe_of(["numerical"])
    everything = Scope.everything(universe)
    assert draw(gate, universe, everything).ids().tolist() == everything.ids().tolist()
    assert draw(gate, universe, budget=0).ids().tolist() == everything.ids().tolist()
    with pytest.raises(ComponentError, match="budget 1 is more than the 0"):
        draw(gate, universe, budget=1)


@pytest.mark.parametrize("gate", GATES)
def test_a_small_pool_of_a_huge_universe_is_resampled_in_little_memory(gate):
    universe = universe_of(["numerical"] * 18_500)
    pool = Scope.of_ids(universe, np.random.default_rng(0).integers(0, universe.size, 500))
    tracemalloc.start()
    found = draw(gate, universe, pool)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert universe.size > 10**9
    assert len(found) == len(pool)
    assert peak < 50e6
