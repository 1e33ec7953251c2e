"""Pages of the site that are made: the start from README.md, the reference from the registry and the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import scopefe
from scopefe.cli.components import facts
from scopefe.registry import Registry, components

README = Path(__file__).parents[1] / "README.md"


def on_files(files: Files, config: Any) -> Files:
    """Add the made pages."""
    pages = {
        "index.md": start(),
        "reference/components.md": "\n".join(component_lines()),
        "reference/python.md": "\n".join(python_lines()),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def start() -> str:
    """Return README.md with links as they are from the site; files outside the site are named only."""
    text = README.read_text(encoding="utf-8").replace("](docs/", "](")
    return re.sub(r"\[([^\]]+)\]\((LICENSE|CHANGELOG\.md)\)", r"\1", text)


def component_lines() -> Iterator[str]:
    """Yield the built-in components: what they do, and their parameters."""
    known = components()
    sorts: dict[str, Registry[Any]] = {
        "Operators": known.operators,
        "Pair gates": known.pair_gates,
        "Operator gates": known.operator_gates,
    }
    yield "# Components\n"
    for title, registry in sorts.items():
        yield f"## {title}\n"
        for component in registry:
            about = facts(registry.sort, component)
            yield f"### `{component.name}`\n"
            yield f"`{about['signature']}`\n" if registry.sort == "operator" else ""
            yield f"{about['doc']}\n"
            yield from (parameter_line(p) for p in about["parameters"])
            yield ""


def parameter_line(about: dict[str, Any]) -> str:
    """Return a parameter with its type, default and description."""
    default = "" if about["required"] else f", default `{about['default']}`"
    return f"* `{about['name']}` ({about['type']}{default}): {about['description']}"


def python_lines() -> Iterator[str]:
    """Yield a reference entry of each public name."""
    yield "# Python\n"
    for name in sorted(set(scopefe.__all__) - {"__version__"}):
        module = (
            getattr(scopefe, name).__module__
            if name not in {"ANY", "CAT", "NUM", "SpecPath", "State"}
            else None
        )
        yield f"::: {module or 'scopefe.components'}.{name}\n"
