"""YAML documents as trees in which every value knows where it stands."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, StringMark, YAMLError
from ruamel.yaml.nodes import MappingNode, ScalarNode, SequenceNode

from scopefe.errors import Mark, SpecError
from scopefe.spec.models import KeyPath, Section, Spec, file_type

SOURCE: KeyPath = ("data", "source")
SPLIT: KeyPath = ("data", "split")
GATES: tuple[KeyPath, ...] = (("scope", "pairs"), ("scope", "operators"))
SHORTHANDS: dict[KeyPath, str] = {SOURCE: "path", ("data", "target"): "column"}
FREE_KEYS: tuple[KeyPath, ...] = (("data", "features", "kinds"), ("evaluation", "learner"))


@dataclass(frozen=True)
class Node:
    """A value of a document.

    Parameters
    ----------
    value
        A scalar, a list of nodes, or a dict of nodes.
    mark
        Where the value stands.
    key
        Where its key stands, if it is the value of one.
    folder
        Folder of the file it is written in; what its relative paths start from.
    """

    value: Any
    mark: Mark | None = None
    key: Mark | None = None
    folder: Path = Path()

    def plain(self) -> Any:
        """Return the value without marks."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def walk(self, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Node]]:
        """Yield this node and every node below it, with their paths."""
        yield path, self
        for key, node in self._children():
            yield from node.walk((*path, key))

    def rewrite(self, change: Callable[[KeyPath, Node], Node], path: KeyPath = ()) -> Node:
        """Return the tree with every scalar node replaced by ``change(path, node)``."""
        if isinstance(self.value, dict):
            return replace(self, value={k: n.rewrite(change, (*path, k)) for k, n in self.value.items()})
        if isinstance(self.value, list):
            return replace(self, value=[n.rewrite(change, (*path, i)) for i, n in enumerate(self.value)])
        return change(path, self)

    def nearest(self, path: KeyPath) -> Node:
        """Return the node at a path, or the deepest one above it that exists."""
        here = self
        for part in path:
            below = dict(here._children()).get(part)
            if below is None:
                break
            here = below
        return here

    def _children(self) -> Iterator[tuple[str | int, Node]]:
        if isinstance(self.value, dict):
            yield from self.value.items()
        elif isinstance(self.value, list):
            yield from enumerate(self.value)


def is_gate(path: KeyPath) -> bool:
    """Tell whether a gate or an expression of gates stands at a path of a spec."""
    if path[:2] not in GATES:
        return False
    if len(path) == 2 or path[-1] == "not":
        return True
    return isinstance(path[-1], int) and path[-2] in ("any", "all")


def read_document(path: Path) -> Node:
    """Read a YAML file that holds one mapping.

    Raises
    ------
    SpecError
        If it cannot be read, is no valid YAML, or holds something else.
    """
    here = Mark(str(path))
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise SpecError(f"the file is not UTF-8 text (line {line}); save it as UTF-8", here) from error
    except OSError as error:
        raise SpecError(f"the file cannot be read: {error.strerror}", here) from error
    node = parse(text, str(path), path.parent)
    if node is None:
        raise SpecError("the file is empty; write at least `name` and `data`", here)
    if not isinstance(node.value, dict):
        raise SpecError("a spec is a mapping, such as `name: my-run`", node.mark)
    return node


def parse(text: str, source: str, folder: Path, *, path: KeyPath = (), positions: bool = True) -> Node | None:
    """Parse YAML text.

    Parameters
    ----------
    text
        One document.
    source
        What marks call it.
    folder
        What its relative paths start from.
    path
        Where in a spec the document belongs.
    positions
        Whether marks have lines and columns.

    Returns
    -------
    Node or None
        None if there is no content.

    Raises
    ------
    SpecError
        If the text is no valid YAML, or a mapping has a key twice.
    """
    yaml = YAML(typ="safe", pure=True)
    reader = _Reader(yaml, source, folder, positions)
    try:
        root = yaml.compose(text)
        return None if root is None else reader.node(root, path, ())
    except MarkedYAMLError as error:
        raise reader.syntax_error(error) from error
    except YAMLError as error:
        raise SpecError(f"not valid YAML: {str(error).splitlines()[0]}", Mark(source)) from error
    except RecursionError as error:
        raise SpecError("the document is nested too deeply", Mark(source)) from error


def from_python(value: Any, path: KeyPath = ()) -> Node:
    """Make a tree without marks of plain mappings, sequences and scalars.

    Raises
    ------
    SpecError
        If a key is not text.
    """
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) and path not in FREE_KEYS:
                raise SpecError(f"the key {key!r} is not text")
        return Node({str(key): from_python(item, (*path, str(key))) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return Node([from_python(item, (*path, i)) for i, item in enumerate(value)])
    return Node(_or_empty(os.fspath(value) if isinstance(value, os.PathLike) else value, path))


def override(text: str) -> Node:
    """Read an override, ``a.b=value``, as a document that holds this value only.

    Raises
    ------
    SpecError
        If there is no key or no ``=``, the value is no valid YAML, or the key is ``extends``.
    """
    keys, equals, value = text.partition("=")
    path = tuple(key.strip() for key in keys.split("."))
    if not equals or not all(path):
        raise SpecError(f"override {text}: write KEY=VALUE, such as selection.keep=20")
    if path == ("extends",):
        raise SpecError(f"override {text}: a spec is extended in a file; lay a file over it by --with FILE")
    source = f"override {text}"
    node = parse(value, source, Path(), path=path, positions=False) or Node(_or_empty(None, path))
    mark = Mark(source)
    for key in reversed(path):
        node = Node({key: replace(node, mark=mark, key=mark)}, mark)
    return node


def merge(base: Node, over: Node, path: KeyPath = ()) -> Node:
    """Lay one document over another.

    Mappings are merged key by key and anything else replaces what was there. A mapping of
    another source type, kind of split or gate replaces the former one as a whole.

    Parameters
    ----------
    base
        The document below.
    over
        The document that has the last word.
    path
        Where in a spec the two stand.
    """
    if isinstance(over.value, dict) and isinstance(base.value, str) and _shorthand(path):
        base = replace(base, value={_shorthand(path): base})
    if not isinstance(base.value, dict) or not isinstance(over.value, dict) or _replaces(path, base, over):
        return over
    merged = dict(base.value)
    for key, node in over.value.items():
        merged[key] = merge(merged[key], node, (*path, key)) if key in merged else node
    named = over if over.mark is None or over.mark.line else base  # an override has no mapping of its own
    return replace(named, value=merged)


def _shorthand(path: KeyPath) -> str | None:
    return "gate" if is_gate(path) else SHORTHANDS.get(path)


def _replaces(path: KeyPath, base: Node, over: Node) -> bool:
    before, after = _form(path, base), _form(path, over)
    if path == SOURCE:
        before = before or _form_of_path(base)
        after = after if after or before == "package" else _form_of_path(over)
    elif path == SPLIT:
        before = before or "fractions"
    return before is not None and after is not None and before != after


def _form(path: KeyPath, mapping: Node) -> Any:
    if path == SOURCE:
        return _scalar(mapping, "type")
    if path == SPLIT:
        return _scalar(mapping, "by")
    if is_gate(path):
        word = next((word for word in ("any", "all", "not") if word in mapping.value), None)
        return (word,) if word else _scalar(mapping, "gate")
    return None


def _form_of_path(source: Node) -> str | None:
    path = _scalar(source, "path")
    return file_type(path) if isinstance(path, str) else None


def _scalar(mapping: Node, key: str) -> Any:
    return mapping.value[key].value if key in mapping.value else None


def _sections(model: type[BaseModel], path: KeyPath = ()) -> Iterator[KeyPath]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield (*path, name)
            yield from _sections(field.annotation, (*path, name))


_MAPPINGS = frozenset([*_sections(Spec), *FREE_KEYS])


def _or_empty(value: Any, path: KeyPath) -> Any:
    """Read a section with nothing under it as an empty one."""
    return {} if value is None and path in _MAPPINGS else value


@dataclass(frozen=True)
class _Reader:
    yaml: YAML
    source: str
    folder: Path
    positions: bool

    def mark(self, place: StringMark) -> Mark:
        return Mark(self.source, place.line + 1, place.column + 1) if self.positions else Mark(self.source)

    def syntax_error(self, error: MarkedYAMLError) -> SpecError:
        problem = str(error.problem or error.context)
        if "another document" in problem:
            problem = "a second document starts here; a spec is one document"
        elif "'\\t'" in problem:
            problem = "a tab where YAML wants spaces; indent with spaces"
        elif "scanning an alias" in str(error.context):
            problem = "text that starts with * must be quoted: '*'"
        elif "expected <block end>" in problem:
            problem = "not valid YAML: this line does not belong to what is above; check its indentation"
        elif "mapping values" in problem:
            problem = f"not valid YAML: {problem}; check the indentation, and quote text with ': ' in it"
        elif "cannot start any token" in problem:
            problem = f"not valid YAML: {problem}; quote the text"
        else:
            problem = f"not valid YAML: {problem}"
        place = error.problem_mark or error.context_mark
        return SpecError(problem, self.mark(place) if place else Mark(self.source))

    def node(self, node: Any, path: KeyPath, above: tuple[int, ...]) -> Node:
        mark = self.mark(node.start_mark)
        if id(node) in above:
            raise SpecError("an anchor contains itself", mark)
        above = (*above, id(node))
        if isinstance(node, ScalarNode):
            return Node(_or_empty(self.scalar(node), path), mark, None, self.folder)
        if isinstance(node, SequenceNode):
            items = [self.node(item, (*path, i), above) for i, item in enumerate(node.value)]
            return Node(items, mark, None, self.folder)
        return Node(self.mapping(node, path, above), mark, None, self.folder)

    def scalar(self, node: ScalarNode) -> Any:
        try:
            return self.yaml.constructor.construct_object(node)
        except ValueError as error:
            raise SpecError(
                f"not valid YAML: {node.value!r} does not fit its tag", self.mark(node.start_mark)
            ) from error

    def mapping(self, node: MappingNode, path: KeyPath, above: tuple[int, ...]) -> dict[str, Node]:
        inherited: dict[str, Node] = {}
        own: dict[str, Node] = {}
        for key_node, value_node in node.value:
            if str(key_node.tag).endswith(":merge"):
                inherited = {**self.merged(value_node, path, above), **inherited}
                continue
            key, mark = self.key(key_node, path), self.mark(key_node.start_mark)
            if key in own:
                raise SpecError(f"the key {key!r} is given twice, first at {own[key].key}", mark)
            own[key] = replace(self.node(value_node, (*path, key), above), key=mark)
        return {**inherited, **own}

    def merged(self, node: Any, path: KeyPath, above: tuple[int, ...]) -> dict[str, Node]:
        sources = node.value if isinstance(node, SequenceNode) else [node]
        result: dict[str, Node] = {}
        for source in reversed(sources):
            if not isinstance(source, MappingNode) or id(source) in above:
                raise SpecError("`<<` takes a mapping, or a list of mappings", self.mark(source.start_mark))
            result.update(self.mapping(source, path, (*above, id(source))))
        return result

    def key(self, node: Any, path: KeyPath) -> str:
        if isinstance(node, ScalarNode):
            if path in FREE_KEYS or str(node.tag).endswith(":str"):
                return str(node.value)
            raise SpecError(
                f'the key {node.value} is not text; quote it: "{node.value}"', self.mark(node.start_mark)
            )
        raise SpecError("a key must be text, not a list or mapping", self.mark(node.start_mark))
