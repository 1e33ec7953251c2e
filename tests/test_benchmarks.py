"""The benchmarks, on tables so small that only their working shows."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

pytest.importorskip("openfe")

from benchmarks import package, report, tables
from benchmarks.__main__ import AGREEMENT, ENTRIES, measure
from benchmarks.harness import Comparison, Results, Settings, interleave, quantity


@pytest.fixture(autouse=True)
def _generated_tables(monkeypatch):
    """Leave real tables alone, and use one core: on a busy machine threads wait for each other."""
    monkeypatch.delenv("SCOPEFE_DATA", raising=False)
    monkeypatch.setattr(tables, "COLD", (*tables.COLD, "execution.jobs=1"))


def comparison(**fields):
    sides = {"peer": [2.0, 9.0, 4.0], "scopefe": [1.0, 3.0, 4.0]}
    return Comparison(**({"group": "g", "name": "n", "against": "a"} | sides | fields))


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_measures_both_sides_and_keeps_what_it_found(name, tmp_path):
    found = measure(name, Settings("tiny", 1, tmp_path))
    assert Results.read(tmp_path / f"{name}.json") == found
    assert [p.name for p in tmp_path.iterdir()] == [f"{name}.json"]
    assert found.comparisons and not found.failure
    for c in found.comparisons:
        assert len(c.peer) == len(c.scopefe) > 0
        assert all(math.isfinite(v) and v > 0 for v in [*c.peer, *c.scopefe])
        assert (c.difference or 0) <= AGREEMENT


def test_what_was_measured_before_a_failure_is_kept(tmp_path, monkeypatch):
    def entry(settings):
        yield comparison()
        raise ValueError("no more")

    monkeypatch.setitem(ENTRIES, "run", entry)
    found = measure("run", Settings("tiny", 1, tmp_path))
    assert Results.read(tmp_path / "run.json") == found
    assert (len(found.comparisons), found.failure) == (1, "ValueError: no more")


def test_a_long_run_of_the_package_is_made_once_per_machine_and_pool(tmp_path, monkeypatch):
    made = []

    def package_run(compiled, dataset):
        made.append(compiled.pool_size)
        facts = {"rows": 1, "jobs": 1, "seconds": {}, "selected": []}
        return package.PackageRun.now(dataset=dataset, candidates=compiled.pool_size, **facts)

    monkeypatch.setattr(package, "package_run", package_run)
    once, again = (Settings("tiny", 1, tmp_path, again=again) for again in (False, True))
    for pool, settings in [(7, once), (7, once), (8, once), (8, again), (8, once)]:
        assert package.kept_run(SimpleNamespace(pool_size=pool), "d", settings).candidates == pool
    assert made == [7, 8, 8]
    other = package.PackageRun.read(tmp_path / "openfe-d.json")
    machine = other.machine.model_copy(update={"processor": "another"})
    other.model_copy(update={"machine": machine}).write(tmp_path / "openfe-d.json")
    package.kept_run(SimpleNamespace(pool_size=8), "d", once)
    assert made == [7, 8, 8, 8]


def test_ratios_are_taken_repeat_by_repeat():
    faster = comparison().ratio
    assert (faster.median, faster.min, faster.max) == (2.0, 1.0, 3.0)
    assert comparison(reading="cost").ratio.median == 0.5
    assert comparison(reading="share").cells()[-1] == "50% of it (33% to 100%)"


def test_sides_take_turns():
    calls = []
    sides = {side: lambda side=side: calls.append(side) or len(calls) for side in "ab"}
    assert interleave(sides, 2) == {"a": [1, 3], "b": [2, 4]}
    assert calls == list("abab")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(2.0, "s", "2 s"), (0.01234, "s", "12.3 ms"), (5e-8, "s", "0.05 µs"), (4321.0, "s", "4,321 s"),
     (4e8, "bytes", "400 MB"), (10.0, "bytes", "0.01 kB")],
)  # fmt: skip
def test_quantities_are_shown_with_a_fitting_unit(value, unit, text):
    assert quantity(value, unit) == text


def test_the_page_is_made_of_kept_results_between_its_markers(tmp_path):
    Results.now(entry="run", scale="tiny", comparisons=[comparison(), comparison(name="m")]).write(
        tmp_path / "run.json"
    )
    page = tmp_path / "page.md"
    page.write_text(f"before\n{report.START}\nold\n{report.END}\nafter\n")
    for _ in range(2):
        report.write(ENTRIES, tmp_path, page)
        text = page.read_text()
        assert text.startswith("before\n") and text.endswith("\nafter\n")
        assert "old" not in text
        assert text.count("| m | a | 4 s | 3 s | 2.0 times faster (1.0 to 3.0) |") == 1
    assert "<svg" in (tmp_path / report.FIGURE).read_text()
