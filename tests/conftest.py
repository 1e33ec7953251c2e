"""What tests share: the folder of real tables, which not every checkout has."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

VARIABLE = "SCOPEFE_DATA"
TABLES = os.environ.get(VARIABLE)


def find_data_folder() -> Path | None:
    """Return the folder that SCOPEFE_DATA names, if there is one."""
    folder = Path(TABLES) if TABLES else None
    return folder.resolve() if folder and folder.is_dir() else None


def needs_data(*names: str) -> pytest.MarkDecorator:
    """Mark a test, or a parameter of one, that is skipped where one of these tables is absent."""
    return pytest.mark.tables(*names)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks for the folder of tables, and skip what lacks one of its own."""
    folder = find_data_folder()
    for item in items:
        if "data_folder" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.tables)
        names = [name for mark in item.iter_markers("tables") for name in mark.args]
        absent = [name for name in names if folder is None or not (folder / f"{name}.parquet").is_file()]
        if absent:
            reason = f"no {', '.join(absent)} in the folder that {VARIABLE} names"
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def _alone() -> Iterator[None]:
    """Keep tests from the user's cache, from each other's results, and from tables they do not ask for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCOPEFE_CACHE_DIR", "off")
        patch.delenv(VARIABLE, raising=False)
        yield


@pytest.fixture
def cache_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return a cache folder of the test's own."""
    monkeypatch.setenv("SCOPEFE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def data_folder(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of real tables, which SCOPEFE_DATA names for this test."""
    folder = find_data_folder()
    if folder is None:
        pytest.skip(f"set {VARIABLE} to a folder of tables (NAME.parquet, splits/NAME.parquet)")
    monkeypatch.setenv(VARIABLE, str(folder))
    return folder
