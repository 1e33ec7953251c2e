"""All registries in one place: decorators, look-up, user modules and entry points.

A `Components` object is a set of registered components. Built-in operators and gates, and what installed
packages offer through the entry point group ``scopefe.components``, form the base set; a spec's ``modules``
are loaded on top of it, so that one spec's components never leak into another.
"""

from __future__ import annotations

import copyreg
import hashlib
import importlib
import importlib.metadata
import importlib.util
import logging
import sys
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar

from scopefe.components import ANY, CAT, NUM, Component, Gate, Kind, Operator
from scopefe.errors import ComponentError, UnknownNameError

ENTRY_POINTS = "scopefe.components"
FILE_MODULE = "scopefe_module_"

_log = logging.getLogger(__name__)
C = TypeVar("C", bound=Component)
T = TypeVar("T", bound=Callable[..., object])


class Registry(Generic[C]):
    """Named components of one sort, in order of registration."""

    def __init__(self, sort: str) -> None:
        self.sort = sort
        self._items: dict[str, C] = {}

    def add(self, component: C) -> None:
        """Register a component.

        Raises
        ------
        ComponentError
            If another declaration already has the name.
        """
        known = self._items.get(component.name)
        if known and (known.source.file, known.target.__qualname__) != (
            component.source.file,
            component.target.__qualname__,
        ):
            raise ComponentError(f"{self.sort} {component.name!r} is already declared at {known.source}")
        self._items[component.name] = component

    def __getitem__(self, name: str) -> C:
        try:
            return self._items[name]
        except KeyError:
            raise UnknownNameError(self.sort, name, self._items) from None

    def __contains__(self, name: str) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[C]:
        return iter(self._items.values())

    def names(self) -> list[str]:
        """Return the registered names."""
        return list(self._items)


class Components:
    """Every registry: operators, pair gates, operator gates."""

    def __init__(self, base: Components | None = None) -> None:
        self.operators: Registry[Operator] = Registry("operator")
        self.pair_gates: Registry[Gate] = Registry("pair gate")
        self.operator_gates: Registry[Gate] = Registry("operator gate")
        if base is not None:
            self.include(base)

    def __iter__(self) -> Iterator[Registry[Component]]:
        yield from (self.operators, self.pair_gates, self.operator_gates)  # type: ignore[misc]

    def include(self, others: Components) -> None:
        """Add the components of another set.

        Raises
        ------
        ComponentError
            If another declaration already has a name.
        """
        for mine, theirs in zip(self, others, strict=True):
            for component in theirs:
                mine.add(component)

    def find(self, name: str) -> list[tuple[str, Component]]:
        """Return (sort, component) for every component of this name.

        Raises
        ------
        UnknownNameError
            If there is none.
        """
        found = [(registry.sort, registry[name]) for registry in self if name in registry]
        if not found:
            raise UnknownNameError("component", name, [n for registry in self for n in registry.names()])
        return found


_base = Components()
_target: ContextVar[Components] = ContextVar("scopefe_components", default=_base)


@contextmanager
def collecting(components: Components) -> Iterator[Components]:
    """Send the declarations made in this context to `components`."""
    token = _target.set(components)
    try:
        yield components
    finally:
        _target.reset(token)


def operator(
    name: str,
    *,
    takes: tuple[Kind, ...],
    gives: Kind = NUM,
    symmetric: bool = False,
    one_way: bool = False,
    ordered: bool = False,
    words: str = "",
    latex: str = "",
    sql: str = "",
    python: str = "",
) -> Callable[[T], T]:
    """Register an operator.

    The decorated object is a function of one array per input, or a class with ``fit(*columns) → state`` and
    ``apply(state, *columns) → values``, and perhaps ``lookup(state) → Lookup``. Keyword-only arguments are
    the operator's parameters.

    Parameters
    ----------
    name
        Name in specs and formulas.
    takes
        Kind of each input: ``NUM`` gives a float array, ``CAT`` and ``ANY`` give `Keys`.
    gives
        Kind of the result.
    symmetric
        The order of the two inputs does not matter.
    one_way
        The order matters, but only one is enumerated unless the spec says ``directions: both``.
    ordered
        ``NUM`` gives `Ordered`: the array, and its order, which is computed once for all candidates.
    words, latex
        The value as a phrase and as LaTeX, for people: ``"{0} divided by {1}"``. Inputs are ``{0}`` and
        ``{1}``, parameters ``{name}``.
    sql, python
        The value as expressions for exports, of a function of numbers: in SQL, where a missing input is NULL,
        and in Python with numpy as ``np``, where it is NaN.

    Raises
    ------
    ComponentError
        If the declaration contradicts itself.
    """
    if not 1 <= len(takes) <= 2 or not set(takes) <= {NUM, CAT, ANY} or gives not in (NUM, CAT):
        raise ComponentError(f"operator {name!r}: takes one or two of NUM, CAT, ANY; gives NUM or CAT")
    if ANY in takes and len(takes) > 1:
        raise ComponentError(f"operator {name!r}: ANY is for one-input operators")
    if (symmetric or one_way) and (len(takes) != 2 or takes[0] != takes[1]):
        raise ComponentError(f"operator {name!r}: symmetric and one_way need two inputs of one kind")

    templates: dict[str, Any] = {"words": words, "latex": latex, "sql": sql, "python": python}

    def register(target: T) -> T:
        if (sql or python) and (isinstance(target, type) or {*takes, gives} != {NUM}):
            raise ComponentError(f"operator {name!r}: sql and python are for functions, from NUM to NUM")
        declaration = Component.declaration(name, target)
        _check_templates(name, templates, len(takes), [p.name for p in declaration["keywords"]])
        _target.get().operators.add(
            Operator(
                **declaration,
                **templates,
                takes=takes,
                gives=gives,
                symmetric=symmetric,
                one_way=one_way,
                ordered=ordered,
            )
        )
        return target

    return register


def _check_templates(name: str, templates: Mapping[str, str], arity: int, parameters: Iterable[str]) -> None:
    """Fill the templates of an operator on trial.

    Raises
    ------
    ComponentError
        If one of them cannot be filled.
    """
    for key, template in templates.items():
        try:
            template.format(*["x"] * arity, **dict.fromkeys(parameters, "x"))
        except (IndexError, KeyError, ValueError) as error:
            raise ComponentError(f"operator {name!r}: {key} cannot be filled in: {error}") from None


def pair_gate(name: str) -> Callable[[T], T]:
    """Register a pair gate: ``(context, scope, *, parameters) → PairSet or Scope``."""

    def register(target: T) -> T:
        _target.get().pair_gates.add(Gate(**Component.declaration(name, target)))
        return target

    return register


def operator_gate(name: str) -> Callable[[T], T]:
    """Register an operator gate: ``(context, scope, *, parameters) → Scope``."""

    def register(target: T) -> T:
        _target.get().operator_gates.add(Gate(**Component.declaration(name, target)))
        return target

    return register


def components(modules: Iterable[str | Path] = ()) -> Components:
    """Return the built-in and installed components, with those of `modules` on top.

    Parameters
    ----------
    modules
        Python files, or names of importable modules.

    Raises
    ------
    ComponentError
        If a module does not load; the message names it and the line at fault.
    """
    _load_installed()
    modules = list(modules)
    if not modules:
        return _base
    with collecting(Components(_base)) as result:
        for module in modules:
            if Path(module).suffix == ".py":
                _load_file(Path(module))
            else:
                with _naming(module):
                    result.include(_imported(str(module)))
    return result


def operators(names: Collection[str], modules: Iterable[str | Path] = ()) -> Registry[Operator]:
    """Return a registry that has operators of these names if there are such, and loads nothing it need not.

    Parameters
    ----------
    names
        As they were registered.
    modules
        Python files, or names of importable modules.

    Raises
    ------
    ComponentError
        If a module does not load.
    """
    modules = list(modules)
    _load_built_in("scopefe.operators")
    if not modules and all(name in _base.operators for name in names):
        return _base.operators
    return components(modules).operators


def _load_built_in(package: str) -> None:
    with collecting(_base):
        importlib.import_module(package)


@cache
def _load_installed() -> None:
    _load_built_in("scopefe.operators")
    _load_built_in("scopefe.gates")
    for point in importlib.metadata.entry_points(group=ENTRY_POINTS):
        try:
            with collecting(Components()) as found:
                point.load()
            Components(_base).include(found)
        except (Exception, SystemExit) as error:
            owner = point.dist.name if point.dist else point.value
            _log.warning("components of the package %s are left out: %s", owner, _told(error))
        else:
            _base.include(found)


@cache
def _imported(module: str) -> Components:
    """Return what an importable module declares: it runs once in a process."""
    with collecting(Components()) as found:
        importlib.import_module(module)
    return found


def _load_file(path: Path) -> None:
    with _naming(path):
        if not path.is_file():
            raise ComponentError("there is no such file")
        name = f"{FILE_MODULE}{hashlib.blake2b(str(path.resolve()).encode(), digest_size=6).hexdigest()}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[name] = loaded
        spec.loader.exec_module(loaded)
        for component in (c for registry in _target.get() for c in registry):
            if component.target.__module__ == name:
                component.read_code()


@contextmanager
def _naming(module: str | Path) -> Iterator[None]:
    try:
        yield
    except ComponentError as error:
        raise ComponentError(f"module {str(module)!r}: {error}") from error
    except (Exception, SystemExit) as error:
        raise ComponentError(f"module {str(module)!r} does not load: {_told(error, str(module))}") from error


def _told(error: BaseException, file: str | None = None) -> str:
    """Say what happened, and on which line: the last one of the file, or else of anyone's but ours."""
    frames = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    own = [f for f in frames if file and Path(f[0]).resolve() == Path(file).resolve()]
    frames = own or [f for f in frames if f[0] != __file__ and "importlib" not in f[0]]
    message = str(error)
    if isinstance(error, SyntaxError) and error.filename:
        frames, message = [(error.filename, error.lineno)], error.msg
    where = f" (line {frames[-1][1]} of {Path(frames[-1][0]).name})" if frames else ""
    return " ".join(f"{type(error).__name__}: {message}{where}".split())


def _reference(operator: Operator) -> tuple[Any, ...]:
    """Pickle an operator as where it was declared: another process loads it from there."""
    source = operator.source
    module = str(Path(source.file).resolve()) if source.module.startswith(FILE_MODULE) else source.module
    return _referred, (module, operator.declared or operator.name, operator.version, dict(operator.bound))


def _referred(module: str, name: str, version: str, bound: Mapping[str, Any]) -> Operator:
    known = _declared_in(module).operators
    if name not in known:
        raise ComponentError(f"operator {name!r} is not in {module!r}, where a worker process looks for it")
    if known[name].version != version:
        raise ComponentError(f"operator {name!r} has changed in {module!r} since the run began")
    return known[name].bind(bound)


@cache
def _declared_in(module: str) -> Components:
    _load_installed()
    loaded = any(component.source.module == module for component in _base.operators)
    return _base if loaded else components([module])


copyreg.pickle(Operator, _reference)
