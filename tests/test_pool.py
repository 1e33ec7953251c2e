"""The pool file: what a scope writes is what a universe reads."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scopefe.operators import DEFAULT

from scopefe.errors import DataError
from scopefe.registry import components
from scopefe.space.pairs import PairSet
from scopefe.space.pool import Pool, read_pool, write_pool
from scopefe.space.scope import Scope
from scopefe.space.universe import Universe

NASTY = ["a,b", 'say "x"', "(a+b)", "freq(a)", " ", "", "ü\n\t", "a_b", "null", "None", "\x00", "-1"]
NAMES = st.lists(st.sampled_from(NASTY) | st.text(st.characters(exclude_categories=["Cs"])), unique=True)


def universe_of(names, kinds, directions="one"):
    known = components().operators
    return Universe(names, kinds, [known[n] for n in DEFAULT], directions)


MIXED = universe_of(["x", "y", "o", "g", "h"], ["numerical", "numerical", "ordinal", *["categorical"] * 2])


def file_of(path, *rows):
    """A pool file made elsewhere: only the columns that say what a candidate is."""
    frame = pd.DataFrame(rows, columns=["operator", "left", "right"], dtype=object)
    schema = pa.schema([("operator", pa.string()), ("left", pa.string()), ("right", pa.string())])
    pq.write_table(pa.Table.from_pandas(frame, schema=schema, preserve_index=False), path)
    return path


@settings(deadline=None, max_examples=60)
@given(names=NAMES.filter(lambda n: 0 < len(n) < 7), data=st.data())
def test_a_scope_comes_back_under_any_names(names, data):
    kinds = [data.draw(st.sampled_from(["numerical", "ordinal", "categorical"])) for _ in names]
    universe = universe_of(names, kinds, data.draw(st.sampled_from(["one", "both"])))
    bits = np.random.default_rng(data.draw(st.integers(0, 1000))).random(universe.size) < 0.5
    # A doubled candidate is known by standing twice in the file; alone it is read as its first place.
    first, second = universe.doubles(0)
    bits[second] &= bits[first]
    scope = Scope.of_ids(universe, np.flatnonzero(bits))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pool.parquet"
        assert write_pool(scope, path) == len(scope)
        assert read_pool(path, universe).ids().tolist() == scope.ids().tolist()


def test_the_file_says_what_the_candidates_are(tmp_path):
    path = tmp_path / "pool.parquet"
    scope = Scope.everything(MIXED)
    write_pool(scope, path)
    table = pd.read_parquet(path)
    assert table.columns.tolist() == ["id", "operator", "left", "right", "cluster", "key", "formula"]
    assert table["id"].tolist() == list(range(MIXED.size))
    assert table["formula"].tolist() == [e.formula for e in MIXED.expressions(scope.ids())]
    assert table["cluster"].isna().all()
    unary = table["operator"].isin(DEFAULT[:8])
    assert table["right"].isna().tolist() == unary.tolist()
    assert table["key"].nunique() == MIXED.size - 1, "one ordinal feature: one candidate stands there twice"
    assert json.loads(table["key"].iloc[0]) == ["freq", "x"]


def test_an_ordinal_feature_keeps_both_of_its_frequencies(tmp_path):
    path = tmp_path / "pool.parquet"
    scope = Scope.everything(MIXED).only(lambda i: i == 0)
    write_pool(scope, path)
    assert (pd.read_parquet(path)["left"] == "o").sum() == 2
    again = read_pool(path, MIXED)
    assert again.count(0) == 6
    assert again.count_unique(0) == 5
    once = read_pool(file_of(tmp_path / "once.parquet", ("freq", "o", None)), MIXED)
    assert once.count(0) == once.count_unique(0) == 1


def test_clusters_are_those_of_both_inputs(tmp_path):
    path = tmp_path / "pool.parquet"
    labels = np.array([0, 0, 2, 1, 1])
    write_pool(Scope.everything(MIXED), path, labels)
    table = pd.read_parquet(path)
    of = dict(zip(MIXED.names, labels.tolist(), strict=True))
    for row in table.itertuples():
        ends = {of[row.left], of[row.left if pd.isna(row.right) else row.right]}
        if len(ends) == 1:
            assert row.cluster == ends.pop()
        else:
            assert pd.isna(row.cluster)


def test_an_empty_pool_is_a_pool(tmp_path):
    path = tmp_path / "pool.parquet"
    nothing = Scope(MIXED, [False] * len(MIXED.blocks))
    assert write_pool(nothing, path, np.zeros(5, dtype=np.int64)) == 0
    assert len(pd.read_parquet(path)) == 0
    assert len(read_pool(path, MIXED)) == 0
    assert len(Pool.of(nothing)) == 0


def test_a_pool_in_memory_has_the_columns_of_the_universe():
    scope = Scope.everything(MIXED).restrict(PairSet.within(np.array([0, 0, 1, 1, 2])))
    pool = Pool.of(scope)
    assert pool.ids.tolist() == scope.ids().tolist()
    for mine, theirs in zip((pool.operators, pool.left, pool.right), MIXED.decode(pool.ids), strict=True):
        assert np.array_equal(mine, theirs)


def test_order_and_duplicates_in_a_file_do_not_matter(tmp_path):
    rows = [("*", "y", "x"), ("Combine", "g", "h"), ("*", "x", "y"), ("abs", "o", None), ("abs", "o", None)]
    scope = read_pool(file_of(tmp_path / "pool.parquet", *rows), MIXED)
    assert sorted(e.formula for e in MIXED.expressions(scope.ids())) == ["(x*y)", "Combine(g,h)", "abs(o)"]


@pytest.mark.parametrize(
    "row",
    [
        ("nope", "x", "y"),
        ("+", "x", "nope"),
        ("+", "nope", "x"),
        ("+", "x", "x"),
        ("+", "x", "g"),
        ("+", "x", None),
        ("abs", "x", "y"),
        ("abs", "x", "nope"),
        ("abs", "g", None),
        ("GroupByThenMean", "g", "x"),
        ("GroupByThenMean", "o", "o"),
        ("-", "y", "x"),
        ("/", "o", "x"),
        (None, "x", "y"),
        ("abs", None, None),
    ],
)
def test_a_foreign_candidate_is_named(tmp_path, row):
    path = file_of(tmp_path / "pool.parquet", ("abs", "x", None), row)
    with pytest.raises(DataError, match="not in the universe") as error:
        read_pool(path, MIXED)
    assert f"{row[0]}({row[1]}, {row[2]})" in str(error.value)


def test_a_group_by_is_foreign_where_there_are_no_numbers(tmp_path):
    path = file_of(tmp_path / "pool.parquet", ("GroupByThenMean", "g", "h"))
    with pytest.raises(DataError, match="not in the universe"):
        read_pool(path, universe_of(["g", "h"], ["categorical"] * 2))


def test_the_reverse_of_a_difference_is_read_with_both_directions_only(tmp_path):
    both = universe_of(MIXED.names, MIXED.kinds, "both")
    path = file_of(tmp_path / "pool.parquet", ("-", "y", "x"))
    assert [e.formula for e in both.expressions(read_pool(path, both).ids())] == ["(y-x)"]


def test_what_is_no_pool_is_an_error(tmp_path):
    text = tmp_path / "text.parquet"
    text.write_text("no parquet")
    other = tmp_path / "other.parquet"
    pd.DataFrame({"operator": ["+"]}).to_parquet(other)
    for path in (text, other, tmp_path / "absent.parquet"):
        with pytest.raises(DataError, match="is no pool"):
            read_pool(path, MIXED)
