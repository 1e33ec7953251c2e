"""Pages of the site that are made: from README.md and CHANGELOG.md, of folders, the registry and the code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import scopefe
from scopefe.cli.components import facts
from scopefe.registry import Registry, components

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "examples": ("examples/index.md", "Files of the examples"),
    "results/": ("results/files.md", "Files of the results"),
}


def on_files(files: Files, config: Any) -> Files:
    """Add the made pages."""
    pages = {
        "index.md": start(),
        "changelog.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
        **{page: "\n".join(folder_lines(folder, title)) for folder, (page, title) in FOLDERS.items()},
        "reference/components.md": "\n".join(component_lines()),
        "reference/python.md": "\n".join(python_lines()),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Let links to folders lead to the pages that list their files."""
    for folder, (page, _title) in FOLDERS.items():
        markdown = markdown.replace(f"]({folder})", f"]({page})")
    return markdown


def start() -> str:
    """Return README.md with links as they are from the site; the license is named only."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").replace("](docs/", "](")
    return text.replace("](CHANGELOG.md)", "](changelog.md)").replace("[MIT](LICENSE)", "MIT")


def folder_lines(folder: str, title: str) -> Iterator[str]:
    """Yield a list of the files in a folder of the documentation."""
    yield f"# {title}\n"
    for path in sorted((ROOT / "docs" / folder).iterdir()):
        if path.is_file():
            yield f"* [{path.name}]({path.name})"


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
