"""From YAML to a validated `Spec`: shipped specs, ``extends``, fragments, overrides, paths, components."""

from __future__ import annotations

import importlib.util
import os
import typing
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import scopefe
from scopefe import registry
from scopefe.components import SpecPathMarker
from scopefe.errors import ComponentError, Mark, SpecError, suggestion
from scopefe.registry import Components
from scopefe.spec.check import gate_problems, gate_uses, operator_problems, resolved_operators
from scopefe.spec.document import Node, from_python, merge, override, read_document
from scopefe.spec.environment import expanded, variables
from scopefe.spec.models import SUFFIXES, KeyPath, Origin, Spec
from scopefe.spec.problems import Problem, dotted, fail, validated

DATA_FOLDER = "SCOPEFE_DATA"
_YAML = (".yaml", ".yml")


def load_spec(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    *,
    overrides: Sequence[str] = (),
    fragments: Sequence[str | os.PathLike[str]] = (),
    modules: Sequence[str] = (),
    name: str | None = None,
) -> Spec:
    """Load and validate a spec, with everything it extends.

    Parameters
    ----------
    spec
        A YAML file, the name of a shipped spec, or a mapping.
    overrides
        ``a.b=c``, the value in YAML, laid over the spec and the fragments.
    fragments
        YAML files or names of shipped ones, deep-merged over the spec in order.
    modules
        Python files or importable modules with components, on top of the spec's own.
    name
        What a spec without a name is called; None if it needs one.

    Returns
    -------
    Spec
        Its paths are absolute; ``spec.origin`` tells where it came from.

    Raises
    ------
    SpecError
        If anything in it cannot be carried out; every problem is a line with its place.
    """
    overrides, fragments, modules = listed(overrides), listed(fragments), listed(modules)
    root, path = _document(spec)
    for fragment in fragments:
        root = merge(root, read_spec_file(find_spec_file(os.fspath(fragment))))
    for text in overrides:
        root = merge(root, override(text))
    if name is not None:
        root = merge(from_python({"name": name}), root)
    files = set(_file_paths(root.plain()))
    written = files | {("data", "source", "query")}
    root = root.rewrite(lambda place, node: _with_environment(place, node, written))
    root = root.rewrite(lambda place, node: _absolute(node) if place in files else node)

    loaded = validated(root, Spec)
    components = _components(loaded, root, modules)
    fail([*operator_problems(loaded, root, components), *gate_problems(loaded, root, components)])
    specs = set(_spec_paths(loaded, components))
    root = root.rewrite(lambda place, node: absolute_spec(node) if place in specs else node)
    loaded = validated(root, Spec)
    loaded._origin = Origin(
        path,
        tuple(overrides),
        tuple(os.fspath(fragment) for fragment in fragments),
        tuple(modules),
        components,
        {place: node.mark for place, node in root.walk() if node.mark},
    )
    resolved_operators(loaded)
    return loaded


def listed(given: Any) -> list[Any]:
    """Return what is given as a list; one text or path is a list of one."""
    return [given] if isinstance(given, str | os.PathLike) else list(given)


def shipped_specs() -> Path:
    """Return the folder of the specs that come with scopefe."""
    try:
        found = importlib.util.find_spec("scopefe.specs")
    except ModuleNotFoundError:
        found = None
    if found and found.submodule_search_locations:
        return Path(next(iter(found.submodule_search_locations)))
    return Path(scopefe.__path__[0]).parent / "specs"


def find_spec_file(name: str, folder: Path = Path(), mark: Mark | None = None) -> Path:
    """Return the file that a name stands for: one in `folder`, or a shipped spec.

    Parameters
    ----------
    name
        A path, or the name of a shipped spec with or without ``.yaml``.
    folder
        What relative paths start from.
    mark
        Where the name is written.

    Raises
    ------
    SpecError
        If there is no such file.
    """
    path = folder / Path(name).expanduser()
    candidates = [path]
    if not Path(name).is_absolute() and ".." not in Path(name).parts:
        candidates += [shipped_specs() / name, shipped_specs() / f"{name}.yaml"]
    existing = [candidate for candidate in candidates if _exists(candidate)]
    found = next((candidate for candidate in existing if not candidate.is_dir()), None)
    if found:
        return found
    if path in existing:
        raise SpecError(f"{name!r} is a folder; name a YAML file in it", mark)
    raise SpecError(f"there is no spec {name!r}{suggestion(name, _names_near(name, path))}", mark)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _names_near(name: str, path: Path) -> list[str]:
    siblings = [p for p in sorted(path.parent.glob("*")) if p.suffix in _YAML]
    shipped = shipped_specs()
    return [
        *(str(Path(name).with_name(sibling.name)) for sibling in siblings),
        *(str(p.relative_to(shipped).with_suffix("")) for p in sorted(shipped.rglob("*.yaml"))),
    ]


def _document(spec: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[Node, Path | None]:
    if isinstance(spec, Mapping):
        return _extended(from_python(spec), ()), None
    path = find_spec_file(os.fspath(spec))
    return read_spec_file(path), path.absolute()


def read_spec_file(path: Path, chain: tuple[Path, ...] = ()) -> Node:
    """Read a document, laid over what it extends; `chain` are the files that extend it."""
    return _extended(read_document(path), (*chain, path))


def _extended(node: Node, chain: tuple[Path, ...]) -> Node:
    """Lay a document over what it extends."""
    own = {key: value for key, value in node.value.items() if key != "extends"}
    node, extends = replace(node, value=own), node.value.get("extends")
    bases = [] if extends is None else extends.value if isinstance(extends.value, list) else [extends]
    below = Node({})
    for entry in bases:
        if not isinstance(entry.value, str):
            raise SpecError("extends: must be a file or a list of files", entry.mark)
        base = find_spec_file(entry.value, entry.folder, entry.mark)
        if base.resolve() in [path.resolve() for path in chain]:
            cycle = " extends ".join(str(path) for path in (*chain, base))
            raise SpecError(f"specs extend each other in a circle: {cycle}", entry.mark)
        below = merge(below, read_spec_file(base, chain))
    return merge(below, node)


def _with_environment(path: KeyPath, node: Node, written: Container[KeyPath]) -> Node:
    """Put in the values of environment variables, but where the text is to stay as it is written."""
    if path[:1] != ("data",) or not isinstance(node.value, str):
        return node
    for name in variables(node.value):
        if name not in os.environ:
            use = "it names the folder of data files" if name == DATA_FOLDER else f"{dotted(path)} needs it"
            raise SpecError(f"the environment variable {name} is not set; {use}", node.mark)
    return node if path in written else replace(node, value=expanded(node.value))


def _file_paths(document: dict[str, Any]) -> Iterator[KeyPath]:
    """Yield where a spec names files other than specs."""
    data, operators = document.get("data"), document.get("operators")
    if isinstance(data, dict):
        source, split = data.get("source"), data.get("split")
        if isinstance(source, str):
            yield ("data", "source")
        elif isinstance(source, dict) and source.get("type") in (None, "sql", *SUFFIXES.values()):
            yield ("data", "source", "path")
        if isinstance(split, dict):
            keys = {"column": ("path",), "files": ("selection", "test")}.get(str(split.get("by")), ())
            yield from (("data", "split", key) for key in keys)
    if isinstance(operators, dict) and isinstance(operators.get("modules"), list):
        for index, module in enumerate(operators["modules"]):
            if str(module).endswith(".py"):
                yield ("operators", "modules", index)


def _absolute(node: Node) -> Node:
    if not isinstance(node.value, str) or not node.value or node.value.startswith("${"):
        return node
    path = node.folder / Path(node.value).expanduser()
    return replace(node, value=os.path.normpath(path.absolute()))


def _spec_paths(spec: Spec, components: Components) -> Iterator[KeyPath]:
    """Yield where gates name other specs."""
    for path, use, gates in gate_uses(spec, components):
        for name, field in gates[use.gate].parameters.model_fields.items():
            if isinstance(use.parameters.get(name), str) and _names_spec([*field.metadata, field.annotation]):
                yield (*path, name)


def _names_spec(hints: Sequence[Any]) -> bool:
    return any(isinstance(hint, SpecPathMarker) or _names_spec(typing.get_args(hint)) for hint in hints)


def absolute_spec(node: Node) -> Node:
    """Turn the name of a spec into the absolute path of its file."""
    return replace(node, value=str(find_spec_file(node.value, node.folder, node.mark).absolute()))


def _components(spec: Spec, root: Node, modules: Sequence[str]) -> Components:
    own = spec.operators.modules
    try:
        return registry.components([*own, *modules])
    except ComponentError as error:
        fail(_module_problems(own, root))
        raise SpecError(str(error)) from error


def _module_problems(modules: Sequence[str], root: Node) -> Iterator[Problem]:
    """Yield the first module that does not load on top of those before it."""
    for index in range(len(modules)):
        try:
            registry.components(modules[: index + 1])
        except ComponentError as error:
            yield Problem(str(error), root.nearest(("operators", "modules", index)).mark)
            return
