"""The example notebook: it runs, and shows what it has kept."""

from __future__ import annotations

import shutil
from copy import deepcopy
from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).resolve().parents[1] / "docs" / "examples"


def shown(cell):
    """Return the texts and kinds of what a cell shows; progress comes and goes."""
    kept = [o for o in cell.outputs if o.output_type != "display_data" or "image/png" in o.data]
    return [(o.get("text") or o.data["text/plain"], sorted(o.get("data", ()))) for o in kept]


def test_the_example_runs_and_shows_what_it_has_kept(tmp_path):
    shutil.copy(EXAMPLES / "houses.csv", tmp_path)
    kept = nbformat.read(EXAMPLES / "houses.ipynb", as_version=4)
    fresh = deepcopy(kept)
    NotebookClient(fresh, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    for before, after in zip(kept.cells, fresh.cells, strict=True):
        if before.cell_type == "code":
            assert shown(after) == shown(before), before.source
    assert sorted(p.name for p in tmp_path.iterdir()) == ["houses-recipe.json", "houses.csv"]
