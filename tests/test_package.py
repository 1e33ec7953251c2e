"""The package as it is shipped and imported."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Names of the files in a wheel built from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    files = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in files:
        if (ROOT / name).is_file():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        "out",
        ".",
    ]
    subprocess.run(command, cwd=source, capture_output=True, check=True)
    (built,) = (source / "out").glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


def test_the_wheel_has_all_that_a_user_needs(wheel):
    shipped = [f"scopefe/specs/{p.relative_to(ROOT / 'specs')}" for p in (ROOT / "specs").rglob("*.yaml")]
    folder = ROOT / "scopefe/report/templates"
    templates = [f"scopefe/report/templates/{p.name}" for p in folder.iterdir()]
    components = [f"scopefe/{d}/{p.name}" for d in ("operators", "gates") for p in (ROOT / d).glob("*.py")]
    assert len(shipped) >= 26
    for name in [*shipped, *templates, *components, "scopefe/py.typed", "scopefe/scopefe.schema.json"]:
        assert name in wheel, name


def test_the_wheel_has_nothing_else(wheel):
    assert {name.partition("/")[0] for name in wheel if ".dist-info/" not in name} == {"scopefe"}


def test_importing_changes_nothing_that_its_dependencies_do_not():
    script = textwrap.dedent(
        """
        import logging, os, random, warnings
        import jinja2, lightgbm, networkx, numpy, pandas, pyarrow.feather, pyarrow.parquet, pydantic
        import ruamel.yaml, scipy.special, sklearn.cluster, sklearn.metrics, sklearn.model_selection

        def state():
            stream = numpy.random.get_state()[1].tolist()
            handlers = logging.getLogger().handlers[:]
            return warnings.filters[:], random.getstate(), stream, os.getcwd(), handlers

        before = state()
        import scopefe
        scopefe.load_spec, scopefe.compile, scopefe.execute, scopefe.operator
        import scopefe.cli.main
        assert state() == before
        """
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


def test_every_public_name_is_there():
    import scopefe

    for name in scopefe.__all__:
        assert getattr(scopefe, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = scopefe.no_such_name
