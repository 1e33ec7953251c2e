"""Recipes applied to tables in files, some rows at a time."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from test_recipe import fit, fit_every_operator, invented

from scopefe import DataError, RecipeError
from scopefe.data.frames import codes_of
from scopefe.data.source import read_csv, read_file
from scopefe.recipe.files import transform_file

SPELLED = 'plain,n,x\n007,1,1.50\n,2,\nNA,,1e3\n"a,b",4,2\n'


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "csv.zip", "csv.zst", "tsv"])
def test_a_text_file_is_transformed_part_by_part_and_keeps_its_spelling(tmp_path, suffix):
    source, target = tmp_path / "in.csv", tmp_path / f"out.{suffix}"
    source.write_text(SPELLED)
    recipe = fit(pd.DataFrame({"x": [1.0, 2.0], "n": [3.0, 4.0]}), ("*", "x", "n"))
    assert transform_file(recipe, source, target, rows=3) == (4, 4)
    found = read_csv(target, dtype=str, keep_default_na=False)
    written = read_csv(source, dtype=str, keep_default_na=False)
    pd.testing.assert_frame_equal(found[list(written)], written)
    assert found["x_times_n"].tolist() == ["1.5", "", "", "8.0"]


@pytest.mark.parametrize("to", ["parquet", "feather", "csv"])
@pytest.mark.parametrize("form", ["parquet", "feather"])
def test_a_table_of_types_is_transformed_part_by_part_and_keeps_them(tmp_path, form, to):
    n = 50
    frame = invented(n).assign(when=pd.Timestamp("2024-01-01", tz="UTC"), small=np.arange(n, dtype=np.int8))
    source, target = tmp_path / f"in.{form}", tmp_path / f"out.{to}"
    table = pa.Table.from_pandas(frame)
    if form == "parquet":
        pq.write_table(table, source)
    else:
        pyarrow.feather.write_feather(table, source, chunksize=7)
    recipe, _ = fit_every_operator(frame)
    expected = recipe.transform(frame)
    rows, columns = transform_file(recipe, source, target, rows=7)
    assert (rows, columns) == (n, len(frame.columns) + len(expected.columns))
    if to == "csv":
        found, expected = read_csv(target), codes_of(expected)
    else:
        found = read_file(target)
        own = frame.assign(category=frame["category"].astype("str")) if to == "feather" else frame
        pd.testing.assert_frame_equal(found[list(frame)], own)
    if to == "feather":
        texts = expected.select_dtypes("category").columns
        expected = expected.astype(dict.fromkeys(texts, "str"))
    pd.testing.assert_frame_equal(found[list(expected)], expected, check_exact=True, check_dtype=to != "csv")
    transform_file(recipe, source, target, only_new=True, rows=7)
    assert list(read_file(target)) == list(expected)


@pytest.mark.parametrize("to", ["csv", "csv.zip", "parquet", "feather"])
@pytest.mark.parametrize("form", ["csv", "parquet", "feather", "batches"])
def test_a_table_without_rows_gives_one(tmp_path, form, to):
    frame = invented()
    recipe, _ = fit_every_operator(frame)
    source, target = tmp_path / f"in.{form.replace('batches', 'arrow')}", tmp_path / f"out.{to}"
    table = pa.Table.from_pandas(frame.iloc[:0])
    if form == "csv":
        frame.iloc[:0].to_csv(source, index=False)
    elif form == "parquet":
        pq.write_table(table, source)
    elif form == "feather":
        pyarrow.feather.write_feather(table, source)
    else:
        with pa.ipc.new_file(str(source), table.schema):
            pass
    assert transform_file(recipe, source, target) == (0, len(frame.columns) + len(recipe.features))
    found = read_csv(target) if to.startswith("csv") else read_file(target)
    assert (len(found), list(found)) == (0, [*frame, *recipe.transform(frame)])


def test_files_that_cannot_be_transformed_leave_nothing_new(tmp_path):
    recipe = fit(pd.DataFrame({"x": [1.0, 2.0], "n": [3.0, 4.0]}), ("*", "x", "n"))
    empty = tmp_path / "empty.csv"
    empty.write_text("")
    with pytest.raises(DataError, match="cannot be read as csv"):
        transform_file(recipe, empty, tmp_path / "out.csv")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1")
    with pytest.raises(DataError, match="cannot be read as parquet"):
        transform_file(recipe, broken, tmp_path / "out.parquet")
    late = tmp_path / "late.csv"
    late.write_text("x,n\n1,2\n3,4\ntext,5\n")
    with pytest.raises(RecipeError, match="column 'x' is to be numeric, but holds text"):
        transform_file(recipe, late, tmp_path / "out.csv", rows=2)


def test_memory_does_not_grow_with_the_file(tmp_path):
    recipe = fit(pd.DataFrame({"x": [1.0, 2.0], "n": [3.0, 4.0]}), ("*", "x", "n"))
    source = tmp_path / "in.parquet"
    rng = np.random.default_rng(0)
    with pq.ParquetWriter(source, pa.schema({"x": pa.float64(), "n": pa.float64()})) as writer:
        for _ in range(20):
            writer.write_table(pa.table({"x": rng.random(50_000), "n": rng.random(50_000)}))
    tracemalloc.start()
    transform_file(recipe, source, tmp_path / "out.parquet", rows=10_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6 < 8 * 1_000_000


def test_the_types_of_a_text_file_are_those_of_all_its_rows(tmp_path):
    frame = pd.DataFrame({"c": ["10115", "SW1A", "01099", "x"] * 5, "x": range(20)})
    recipe = fit(frame, ("freq", "c"), ("GroupByThenMean", "x", "c"), missing=("",))
    source = tmp_path / "in.csv"
    source.write_text("c,x\n10115,1\n10115,2\n01099,3\nSW1A,4.5\n,5\nx,\n10115,7\n")
    transform_file(recipe, source, tmp_path / "out.csv", only_new=True, rows=2)
    expected = recipe.transform(pd.read_csv(source, low_memory=False))
    assert expected.notna().sum().sum() > 5
    pd.testing.assert_frame_equal(read_csv(tmp_path / "out.csv"), expected)


def test_text_files_that_are_not_what_they_seem(tmp_path):
    recipe = fit(pd.DataFrame({"x": [1.0, 2.0], "n": [3.0, 4.0]}), ("*", "x", "n"))
    source, target = tmp_path / "in.csv", tmp_path / "OUT.CSV.GZ"
    source.write_text("x,n\n1,2,3\n4,5,6\n")
    with pytest.raises(DataError, match="Expected 2 fields in line 2, saw 3"):
        transform_file(recipe, source, target)
    source.write_text('x,n,text\n1,2,"one\rtwo"\n3,4,"a\nb"\n')
    assert transform_file(recipe, source, target, rows=1) == (2, 4)
    assert read_csv(target)["text"].tolist() == ["one\rtwo", "a\nb"]
    source.write_text("x,n,NA,null\n1,2,3,4\n")
    assert transform_file(recipe, source, target) == (1, 5)


def test_dictionaries_of_parts_may_differ(tmp_path):
    recipe = fit(pd.DataFrame({"x": [1.0, 2.0], "n": [3.0, 4.0]}), ("*", "x", "n"))
    parts = [{"x": [1.0], "n": [2.0], "c": pa.array([v]).dictionary_encode()} for v in "xy"]
    pq.write_table(pa.concat_tables([pa.table(p) for p in parts]), tmp_path / "in.parquet", row_group_size=1)
    assert transform_file(recipe, tmp_path / "in.parquet", tmp_path / "out.arrow", rows=1) == (2, 4)
    assert read_file(tmp_path / "out.arrow")["c"].tolist() == ["x", "y"]
    odd = pa.table({"x": [1.0], "n": [2.0], "odd": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with pa.ipc.new_file(tmp_path / "odd.arrow", odd.schema) as writer:
        writer.write_table(odd)
    with pytest.raises(DataError, match="parquet cannot hold the table"):
        transform_file(recipe, tmp_path / "odd.arrow", tmp_path / "odd.parquet")
