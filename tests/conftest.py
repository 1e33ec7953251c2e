"""What tests share: the folder of real tables, which not every checkout has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

VARIABLE = "SCOPEFE_DATA"
SIBLING = Path(__file__).resolve().parents[2] / "shared" / "data"


def find_data_folder() -> Path | None:
    """Return the folder that SCOPEFE_DATA names, or else one beside the repository, if it is there."""
    named = os.environ.get(VARIABLE)
    folder = Path(named) if named else SIBLING
    return folder.resolve() if folder.is_dir() else None


def needs_data(*names: str) -> pytest.MarkDecorator:
    """Skip a test, or a parameter of one, where a table is absent: ``@needs_data("telecom")``."""
    folder = find_data_folder()
    absent = [name for name in names if folder is None or not (folder / f"{name}.parquet").is_file()]
    return pytest.mark.skipif(bool(absent), reason=f"no {', '.join(absent)} in the folder {VARIABLE} names")


@pytest.fixture(scope="session", autouse=True)
def _no_cache() -> Iterator[None]:
    """Keep tests from the user's cache, and from each other's results."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOPEFE_CACHE_DIR", "off")
        yield


@pytest.fixture
def cache_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a cache folder of the test's own."""
    monkeypatch.setenv("SCOPEFE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def data_folder() -> Iterator[Path]:
    """Return the folder of real tables; SCOPEFE_DATA names it until the session ends."""
    folder = find_data_folder()
    if folder is None:
        pytest.skip(f"set {VARIABLE} to a folder of tables (NAME.parquet, splits/NAME.parquet)")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(folder))
        yield folder
