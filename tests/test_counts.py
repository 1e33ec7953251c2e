"""The paper's counts, clusters and budgets, on the real tables."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from conftest import needs_data

import scopefe

PAPER_OPERATORS = {
    "california_housing": ["+", "min", "-", "GroupByThenRank", "/", "*", "max"],
    "telecom": ["*", "CombineThenFreq", "freq", "GroupByThenStd", "abs", "GroupByThenMean", "log"],
    "diabetes130": ["freq", "max", "*", "/", "+", "GroupByThenStd", "sqrt"],
    "nomao": ["+", "residual", "/", "GroupByThenRank", "*", "-", "sigmoid"],
    "jannis": ["freq", "/", "square", "round", "sigmoid", "-", "abs"],
    "covtype": ["+", "Combine", "freq", "CombineThenFreq", "GroupByThenRank", "-", "GroupByThenStd"],
}
COUNTS = {
    # openfe, fc-only, op-only, scope-fe, unique universe
    "california_housing": (275, 227, 175, 132, 274),
    "nomao": (81044, 30866, 23087, 9163, 80991),
    "telecom": (13882, 10472, 3858, 2892, 13868),
    "diabetes130": (7772, 7276, 944, 918, 7762),
    "covtype": (27333, 24171, 9711, 8571, 27288),
}
CLUSTERS = {
    "california_housing": [7, 1],
    "nomao": [70, 12, 8, 8, 8, 6, 4, 2],
    "telecom": [50, 3, 3, 1],
    "diabetes130": [45, 1, 1],
    "covtype": [51, 1, 1, 1],
}
BUDGETS = {"california_housing": 43, "telecom": 966, "diabetes130": 26, "nomao": 8985, "covtype": 1140}


def compiled(dataset: str, store, *, pairs: str = "all", operators: list[str] | None = None):
    """Compile a dataset's fragment under a pair gate and the named operators."""
    overrides = [f"scope.pairs={{gate: {pairs}}}"]
    if operators is not None:
        quoted = ", ".join(f"'{name}'" for name in operators)
        overrides.append(f"scope.operators={{gate: list, use: [{quoted}]}}")
    spec = scopefe.load_spec("openfe", fragments=[f"data/{dataset}"], overrides=overrides)
    return scopefe.compile(spec, store=store)


@pytest.fixture(scope="module")
def store():
    from scopefe.run.store import Store

    return Store()


@pytest.mark.parametrize("dataset", [pytest.param(name, marks=needs_data(name)) for name in COUNTS])
def test_counts_clusters_and_budgets_are_the_papers(dataset, data_folder, store):
    chosen = PAPER_OPERATORS[dataset]
    openfe = compiled(dataset, store)
    fc_only = compiled(dataset, store, pairs="hard-intra")
    op_only = compiled(dataset, store, operators=chosen)
    scope_fe = compiled(dataset, store, pairs="hard-intra", operators=chosen)
    inter = compiled(dataset, store, pairs="hard-inter", operators=chosen)

    sizes = tuple(c.pool_size for c in (openfe, fc_only, op_only, scope_fe))
    assert (*sizes, openfe.space.universe.unique) == COUNTS[dataset]
    assert [len(c.features) for c in fc_only.space.clusters] == CLUSTERS[dataset]
    binary = [len(c.scope.of_arity(2)) for c in (scope_fe, inter)]
    assert min(binary) == BUDGETS[dataset]
    assert sum(binary) == len(op_only.scope.of_arity(2))


@pytest.mark.parametrize("dataset", [pytest.param("jannis", marks=needs_data("jannis"))])
def test_counts_of_a_table_whose_split_is_not_the_papers(dataset, data_folder, store):
    assert compiled(dataset, store).pool_size == 9018
    assert compiled(dataset, store, operators=PAPER_OPERATORS[dataset]).pool_size == 3132


@pytest.mark.parametrize("dataset", [pytest.param("nomao", marks=needs_data("nomao"))])
def test_counts_per_cluster_add_up(dataset, data_folder, store):
    fc_only = compiled(dataset, store, pairs="hard-intra")
    space = fc_only.space
    assert space.across_clusters == 0
    assert sum(c.candidates for c in space.clusters) == len(fc_only.scope.of_arity(2))
    left, right = fc_only.universe.decode(fc_only.scope.ids())[1:]
    pairs = right >= 0
    labels = fc_only.clusters
    assert np.array_equal(labels[left[pairs]], labels[right[pairs]])


def test_ten_million_candidates_compile_in_little_memory():
    script = textwrap.dedent(
        """
        import scopefe

        kinds = {f"c{i}": "numerical" for i in range(1900)}
        spec = scopefe.load_spec(
            {"name": "wide", "data": {"target": "y", "features": {"kinds": kinds}}}
        )
        compiled = scopefe.compile(spec, static=True)
        print(compiled.space.pool.raw, len(compiled.scope.ids()))
        print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
        """
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    counted, listed, peak_kilobytes = map(int, done.stdout.split())
    assert counted == listed == 8 * 1900 + 3 * 1900 * 1899
    assert counted > 10_000_000
    assert peak_kilobytes < 2 * 1024 * 1024
