"""The universe: its order, its closed-form numbering, its counts; nothing is listed to be counted."""

from __future__ import annotations

import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scopefe.operators import DEFAULT

from scopefe.components import CAT, NUM
from scopefe.registry import Components, collecting, components, operator
from scopefe.run.compiling import count
from scopefe.space.pairs import PairSet
from scopefe.space.scope import Scope
from scopefe.space.universe import Universe

UNARY = ("abs", "log", "sqrt", "square", "sigmoid", "round", "residual")
NUMERIC_PAIRS = ("min", "max", "+", "-", "*", "/")
GROUPS = ("Min", "Max", "Mean", "Median", "Std", "Rank")

# The paper's ten datasets: (numerical, ordinal, categorical), raw universe, unique universe.
TABLES = {
    "CA": ((7, 1, 0), 275, 274),
    "MI": ((111, 25, 0), 77_643, 77_618),
    "ME": ((5, 0, 6), 346, 346),
    "TE": ((21, 14, 22), 13_882, 13_868),
    "BR": ((31, 27, 0), 21_047, 21_020),
    "DI": ((3, 10, 34), 7_772, 7_762),
    "NO": ((36, 53, 29), 81_044, 80_991),
    "VE": ((100, 0, 0), 30_500, 30_500),
    "JA": ((54, 0, 0), 9_018, 9_018),
    "CO": ((9, 45, 0), 27_333, 27_288),
}
# The operators that the paper's probe kept, and the candidates they have.
SELECTED = {
    "CA": ("+ min - GroupByThenRank / * max", 175),
    "MI": ("freq * GroupByThenMin + round GroupByThenMedian residual", 25_543),
    "ME": ("- / GroupByThenRank + min GroupByThenMean *", 110),
    "TE": ("* CombineThenFreq freq GroupByThenStd abs GroupByThenMean log", 3_858),
    "BR": ("abs round max - + / min", 8_381),
    "DI": ("freq max * / + GroupByThenStd sqrt", 944),
    "NO": ("+ residual / GroupByThenRank * - sigmoid", 23_087),
    "VE": ("log / sigmoid round abs residual min", 10_400),
    "JA": ("freq / square round sigmoid - abs", 3_132),
    "CO": ("+ Combine freq CombineThenFreq GroupByThenRank - GroupByThenStd", 9_711),
}

KINDS = st.lists(st.sampled_from(["numerical", "ordinal", "categorical"]), max_size=7)
DIRECTIONS = st.sampled_from(["one", "both"])


def universe_of(kinds, directions="one", operators=DEFAULT):
    known = components().operators
    names = [f"c{i}" for i in range(len(kinds))]
    return Universe(names, kinds, [known[name] for name in operators], directions)


def kinds_of(numerical, ordinal, categorical):
    return ["numerical"] * numerical + ["ordinal"] * ordinal + ["categorical"] * categorical


def enumerated(kinds, directions):
    """The protocol's enumeration, as loops: (operator, left, right), right None for one input."""
    ordinal = [i for i, kind in enumerate(kinds) if kind == "ordinal"]
    numeric = [i for i, kind in enumerate(kinds) if kind == "numerical"] + ordinal
    categorical = [i for i, kind in enumerate(kinds) if kind == "categorical"] + ordinal
    result = [("freq", i, None) for i in numeric] + [("freq", i, None) for i in categorical]
    for name in UNARY:
        result += [(name, i, None) for i in numeric]
    for name in NUMERIC_PAIRS:
        both = name in "-/" and directions == "both"
        for a, left in enumerate(numeric):
            for b, right in enumerate(numeric):
                if a < b or (both and a > b):
                    result.append((name, left, right))
    for statistic in GROUPS:
        for value in numeric:
            result += [(f"GroupByThen{statistic}", value, key) for key in categorical if key != value]
    unordered = [(a, b) for i, a in enumerate(categorical) for b in categorical[i + 1 :]]
    result += [("CombineThenFreq", a, b) for a, b in unordered]
    result += [("GroupByThenNUnique", a, b) for a in categorical for b in categorical if a != b]
    result += [("Combine", a, b) for a, b in unordered]
    return result


def decoded(universe, ids):
    triples = zip(*(a.tolist() for a in universe.decode(np.asarray(ids))), strict=True)
    return [(universe.operators[o].name, a, b if b >= 0 else None) for o, a, b in triples]


@settings(deadline=None)
@given(kinds=KINDS, directions=DIRECTIONS)
def test_the_order_is_that_of_the_nested_loops(kinds, directions):
    universe = universe_of(kinds, directions)
    expected = enumerated(kinds, directions)
    assert universe.size == len(expected)
    assert decoded(universe, np.arange(universe.size)) == expected


@settings(deadline=None)
@given(kinds=KINDS, directions=DIRECTIONS, data=st.data())
def test_features_find_their_ids_again(kinds, directions, data):
    universe = universe_of(kinds, directions)
    ids = np.arange(universe.size)
    if len(ids):
        ids = np.array(data.draw(st.lists(st.integers(0, universe.size - 1), max_size=30)), dtype=np.int64)
    second_places = set()
    o = kinds.count("ordinal")
    if o:  # the last o of freq's candidates repeat features that stand in the numeric list already
        freq = universe.blocks[0].size
        second_places = set(range(freq - o, freq))
    for candidate, position, left, right in zip(ids.tolist(), *universe.decode(ids), strict=True):
        found = universe.encode(int(position), np.array([left]), np.array([right])).tolist()
        if candidate in second_places:
            assert found[0] < candidate
            assert decoded(universe, found) == decoded(universe, [candidate])
        else:
            assert found == [candidate]


@settings(deadline=None)
@given(kinds=KINDS.filter(bool), directions=DIRECTIONS)
def test_tuples_that_an_operator_does_not_take_have_no_id(kinds, directions):
    """Every (operator, left, right) there could be: known exactly where the loops have it."""
    universe = universe_of(kinds, directions)
    known = set(enumerated(kinds, directions))
    d = len(kinds)
    left, right = (a.ravel() for a in np.meshgrid(np.arange(d), np.arange(-1, d), indexing="ij"))
    for position, chosen in enumerate(universe.operators):
        ids = universe.encode(position, left, right)
        for a, b, found in zip(left.tolist(), right.tolist(), ids.tolist(), strict=True):
            wanted = {(chosen.name, a, None if b < 0 else b)}
            if chosen.symmetric:
                wanted.add((chosen.name, b, a))
            if known & wanted:
                assert set(decoded(universe, [found])) <= wanted
            else:
                assert found == -1


def test_the_reverse_of_a_one_way_candidate_is_not_the_candidate():
    universe = universe_of(["numerical"] * 2)
    ends = np.array([0, 1]), np.array([1, 0])
    positions = {name: DEFAULT.index(name) for name in ("+", "-", "/")}
    plus = universe.encode(positions["+"], *ends).tolist()
    assert plus[0] == plus[1] >= 0
    for name in ("-", "/"):
        forth, back = universe.encode(positions[name], *ends).tolist()
        assert forth >= 0
        assert back == -1


@given(kinds=st.lists(st.sampled_from(["numerical", "ordinal", "categorical"]), max_size=60))
def test_counts_are_the_closed_form(kinds):
    o = kinds.count("ordinal")
    m, c = kinds.count("numerical") + o, kinds.count("categorical") + o
    raw = 8 * m + c + 3 * m * (m - 1) + 6 * (m * c - o) + 2 * c * (c - 1)
    universe = universe_of(kinds)
    space = count(universe, Scope.everything(universe)).universe
    assert (universe.size, space.raw, space.unique) == (raw, raw, raw - o)
    assert universe_of(kinds, "both").size == raw + m * (m - 1)


@pytest.mark.parametrize("table", TABLES)
def test_the_papers_tables_have_the_papers_counts(table):
    kinds, raw, unique = TABLES[table]
    universe = universe_of(kinds_of(*kinds))
    space = count(universe, Scope.everything(universe))
    assert (space.universe.raw, space.universe.unique) == (raw, unique)


@pytest.mark.parametrize("table", SELECTED)
def test_the_papers_operators_leave_the_papers_counts(table):
    names, raw = SELECTED[table]
    universe = universe_of(kinds_of(*TABLES[table][0]))
    scope = Scope.everything(universe).only(lambda i: universe.operators[i].name in names.split())
    assert len(scope) == raw
    assert universe_of(kinds_of(*TABLES[table][0]), operators=names.split()).size == raw


def test_operators_follow_each_other_in_the_given_order():
    universe = universe_of(["numerical", "ordinal"], operators=["*", "freq", "abs"])
    assert decoded(universe, np.arange(universe.size)) == [
        ("*", 0, 1),
        ("freq", 0, None),
        ("freq", 1, None),
        ("freq", 1, None),
        ("abs", 0, None),
        ("abs", 1, None),
    ]


def test_a_users_operator_of_categories_first_is_numbered_too():
    mine = Components()
    with collecting(mine):

        @operator("by", takes=(CAT, NUM))
        def by(keys, values):
            return values

        @operator("ratio", takes=(NUM, NUM))
        def ratio(a, b):
            return a / b

    universe = Universe(["x", "g", "o"], ["numerical", "categorical", "ordinal"], list(mine.operators))
    assert decoded(universe, np.arange(universe.size)) == [
        ("by", 1, 0),
        ("by", 1, 2),
        ("by", 2, 0),
        ("ratio", 0, 2),
        ("ratio", 2, 0),
    ]


@pytest.mark.parametrize("wrong", [[-1], [275], [0, 275]])
def test_ids_outside_the_universe_are_refused(wrong):
    universe = universe_of(kinds_of(7, 1, 0))
    with pytest.raises(IndexError, match="from 0 to 274"):
        universe.decode(np.array(wrong))


def test_expressions_have_names_and_formulas():
    universe = universe_of(["numerical", "categorical", "ordinal"])
    names = [e.formula for e in universe.expressions(np.arange(universe.size))]
    assert len(names) == universe.size
    assert {"freq(c0)", "(c0/c2)", "max(c0,c2)", "GroupByThenMean(c0,c1)", "Combine(c1,c2)"} <= set(names)
    assert universe.expression(names.index("(c0/c2)")).formula == "(c0/c2)"


def test_the_key_tells_universes_apart():
    kinds = ["numerical", "numerical"]
    known = components().operators
    keys = [
        universe_of(kinds).key,
        universe_of(kinds, "both").key,
        universe_of(["numerical", "ordinal"]).key,
        universe_of(kinds, operators=DEFAULT[::-1]).key,
        Universe(["c0", "d"], kinds, [known[name] for name in DEFAULT]).key,
    ]
    assert len(set(keys)) == len(keys)
    assert universe_of(kinds).key == keys[0]


def address(universe, ids):
    operators, left, right = universe.decode(ids)
    for position in np.unique(operators):
        chosen = operators == position
        found = universe.encode(int(position), left[chosen], right[chosen])
        assert np.array_equal(found, ids[chosen])


@pytest.mark.parametrize(("kinds", "least"), [((1_900, 0, 0), 10_000_000), ((18_000, 100, 900), 10**9)])
def test_millions_are_counted_and_addressed_without_a_list(kinds, least):
    kinds = kinds_of(*kinds)
    rng = np.random.default_rng(0)
    tracemalloc.start()
    started = time.perf_counter()
    universe = universe_of(kinds)
    space = count(universe, Scope.everything(universe))
    ids = np.sort(rng.integers(0, universe.size, 20_000))
    first_doubled = sum(k != "categorical" for k in kinds) + kinds.count("categorical")
    ids = ids[(ids >= universe.blocks[0].size) | (ids < first_doubled)]
    ids = np.concatenate([ids, [0, universe.size - 1]])
    address(universe, ids)
    seconds = time.perf_counter() - started
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert space.universe.raw == universe.size > least
    assert peak < 50e6
    assert seconds < 20


def test_a_small_gate_of_a_huge_universe_is_counted_and_listed_alone():
    kinds = kinds_of(18_500, 0, 0)
    universe = universe_of(kinds)
    rng = np.random.default_rng(0)
    wanted = np.unique(rng.integers(0, universe.size, 1_000))
    tracemalloc.start()
    scope = Scope.of_ids(universe, wanted) & Scope.everything(universe)
    assert np.array_equal(scope.ids(), wanted)
    assert len(Scope.everything(universe) & scope) == len(wanted)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert universe.size > 10**9
    assert peak < 20e6


def test_a_pair_gate_of_ten_millions_costs_its_matrix_not_its_candidates():
    kinds = kinds_of(1_900, 0, 0)
    universe = universe_of(kinds)
    tracemalloc.start()
    pairs = PairSet.within(np.arange(1_900) // 2)
    scope = Scope.everything(universe).restrict(pairs)
    assert len(scope) == 8 * 1_900 + 6 * 950
    assert len(scope.ids()) == len(scope)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200e6
