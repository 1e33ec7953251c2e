"""What a component is: kinds, keys, operators and gates, as their authors and the framework see them."""

from __future__ import annotations

import ast
import hashlib
import inspect
import math
import textwrap
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from scopefe.errors import ComponentError

if TYPE_CHECKING:
    from scopefe.parameters import Parameters

Kind = Literal["numeric", "categorical", "any"]
NUM: Kind = "numeric"
CAT: Kind = "categorical"
ANY: Kind = "any"

Array = npt.NDArray[Any]
State = dict[str, Array]


class Keys:
    """A column read as categories.

    Parameters
    ----------
    codes
        Integers, shape (rows,): the position of each row's value in `labels`, -1 where it is missing. Held in
        as few bytes as they fit.
    labels
        Shape (distinct values,): float64, or text and floats as objects.
    """

    def __init__(self, codes: Array, labels: Array) -> None:
        self.labels = labels
        self._codes = codes.astype(np.min_scalar_type(-max(len(labels), 1)), copy=False)

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def codes(self) -> Array:
        """int64, shape (rows,): see above."""
        return self._codes.astype(np.int64)

    @property
    def size(self) -> int:
        """Number of labels, present in these rows or not."""
        return len(self.labels)

    @cached_property
    def missing(self) -> Array:
        """Boolean, shape (rows,): where the value is missing."""
        return cast(Array, self._codes < 0)

    @cached_property
    def counts(self) -> Array:
        """int64, shape (labels,): number of rows with each label."""
        return np.bincount(self._codes[~self.missing], minlength=self.size)

    def take(self, rows: Array | slice) -> Keys:
        """Return the keys of the rows at these positions, over the same labels."""
        return Keys(self._codes[rows], self.labels)

    def compact(self) -> Keys:
        """Return the keys over the labels that these rows have."""
        used = np.flatnonzero(self.counts)
        places = np.full(self.size + 1, -1, dtype=np.int64)
        places[used] = np.arange(len(used))
        return Keys(places[self._codes], self.labels[used])

    def coded_as(self, labels: Array) -> Array:
        """Return int64 codes over other `labels`; -1 where the value is missing or not among them."""
        if labels is self.labels:
            return self.codes
        places = _places(labels)
        found = np.array([*(places.get(label, -1) for label in self.labels.tolist()), -1], dtype=np.int64)
        return cast(Array, found[self._codes])


_known: dict[int, tuple[weakref.ref[Array], dict[str | float, int]]] = {}


def _places(labels: Array) -> dict[str | float, int]:
    """Return the position of each label, found once for as long as the array is there."""
    number = id(labels)
    if number not in _known or _known[number][0]() is not labels:
        places = {label: place for place, label in enumerate(labels.tolist())}
        _known[number] = weakref.ref(labels, lambda _: _known.pop(number, None)), places
    return _known[number][1]


@dataclass(frozen=True, eq=False)
class Ordered:
    """A numeric column with its order.

    Parameters
    ----------
    values
        float32 or float64, shape (rows,), missing is NaN.
    """

    values: Array

    def __len__(self) -> int:
        return len(self.values)

    @property
    def order(self) -> Array:
        """int64, shape (rows,): positions by ascending value, equal ones as they stand, missing ones last."""
        return self._order.astype(np.int64)

    @cached_property
    def _order(self) -> Array:
        order: Array = np.argsort(self.values, kind="stable")
        return order.astype(np.min_scalar_type(-max(len(order), 1)))


Column = Array | Ordered | Keys


@dataclass(frozen=True, eq=False)
class Lookup:
    """What an operator has learned, as a table: a row has the value of the table's row that has its keys.

    Parameters
    ----------
    keys
        By position of the input: its label in each row of the table, as in `Keys.labels`, shape (rows,). No
        two rows have the same keys. A row of data that misses one of them has no value.
    values
        Numbers, shape (rows,).
    default
        Value where no row of the table has the keys.
    lower
        For values that are steps of a number: position of that input, and the number from which each row
        holds up to the next one of the same keys, shape (rows,). Rows of the same keys are ascending.
    between
        Values of numbers above `lower`, where they differ from those of `lower` itself, shape (rows,).
    """

    keys: Mapping[int, Array]
    values: Array
    default: float = math.nan
    lower: tuple[int, Array] | None = None
    between: Array | None = None


@dataclass(frozen=True)
class Source:
    """Where a component was declared."""

    module: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, eq=False)
class Component:
    """A registered building block.

    Parameters
    ----------
    name
        What a spec calls it.
    target
        The decorated function or class.
    keywords
        Its keyword-only arguments.
    """

    name: str
    target: Callable[..., Any]
    keywords: tuple[inspect.Parameter, ...]

    @classmethod
    def declaration(cls, name: str, target: Callable[..., Any]) -> dict[str, Any]:
        """Return the constructor arguments that can be read off the decorated object itself."""
        return {"name": name, "target": target, "keywords": keywords_of(name, target)}

    @cached_property
    def parameters(self) -> type[Parameters]:
        """Pydantic model of the keyword-only arguments; unknown keys are errors."""
        from scopefe.parameters import model_of

        return model_of(self.name, self.keywords)

    @property
    def source(self) -> Source:
        """Where it was declared."""
        return source_of(self.target)

    @property
    def version(self) -> str:
        """Hash of its code."""
        return code_version(self.target)

    def read_code(self) -> None:
        """Read source and version now, while the file is what was loaded."""
        _ = self.source, self.version

    @property
    def doc(self) -> str:
        """Its docstring."""
        return inspect.cleandoc(self.target.__doc__ or "")

    @property
    def summary(self) -> str:
        """First line of the docstring."""
        return self.doc.partition("\n")[0]


@dataclass(frozen=True, eq=False)
class Operator(Component):
    """A named transformation of one or two features.

    Parameters
    ----------
    takes
        The kind of each input; ``ANY`` is allowed for one-input operators only.
    gives
        ``NUM``: floats, missing is NaN. ``CAT``: int64 codes, missing is -1.
    symmetric
        ``f(a, b) == f(b, a)``: each unordered pair is one candidate.
    one_way
        Not symmetric, yet enumerated once per unordered pair unless ``directions: both``.
    ordered
        Numeric inputs arrive as `Ordered`.
    words, latex, sql, python
        The value as a phrase, as LaTeX and as expressions of other languages: templates with the inputs as
        ``{0}`` and ``{1}`` and parameters by name; empty where the operator gives none.
    bound
        Parameter values.
    declared
        Name it was registered under, where parameters show in `name`.
    """

    takes: tuple[Kind, ...] = (NUM,)
    gives: Kind = NUM
    symmetric: bool = False
    one_way: bool = False
    ordered: bool = False
    words: str = ""
    latex: str = ""
    sql: str = ""
    python: str = ""
    bound: Mapping[str, Any] = field(default_factory=dict)
    declared: str = ""

    @property
    def arity(self) -> int:
        """Number of inputs."""
        return len(self.takes)

    @property
    def signature(self) -> str:
        """Kinds in and out, such as ``numeric × categorical → numeric``."""
        return f"{' × '.join(self.takes)} → {self.gives}"

    @property
    def learns(self) -> bool:
        """Whether the operator fits a state."""
        return inspect.isclass(self.target)

    @property
    def values(self) -> dict[str, Any]:
        """Value of every parameter, by name."""
        return dict(self.bound) or (self.parameters().model_dump() if self.keywords else {})

    @cached_property
    def _instance(self) -> Any:
        return self.target(**self.bound) if self.learns else None

    def bind(self, values: Mapping[str, Any]) -> Operator:
        """Return the operator with parameter values; values off the defaults show in its name."""
        if not values and not self.keywords:
            return self
        chosen = self.parameters.model_validate(dict(values))
        changed = chosen.model_dump(exclude_defaults=True)
        if not changed:
            return self
        shown = ",".join(f"{k}={v}" for k, v in changed.items())
        return replace(self, name=f"{self.name}[{shown}]", bound=chosen.model_dump(), declared=self.name)

    def _given(self, columns: tuple[Column, ...]) -> tuple[Column, ...]:
        if not self.ordered:
            return columns
        return tuple(Ordered(c) if isinstance(c, np.ndarray) else c for c in columns)

    def fit(self, *columns: Column) -> State:
        """Learn from rows.

        Parameters
        ----------
        columns
            One per input: a float array (or `Ordered`, where its order is known) for ``NUM``, `Keys`
            otherwise, each with n rows.

        Returns
        -------
        State
            Named one-dimensional arrays; empty for operators that do not learn.
        """
        with np.errstate(all="ignore"):
            return cast(State, self._instance.fit(*self._given(columns))) if self.learns else {}

    def check(self, state: State) -> None:
        """Check a state that was read from a file, as far as the operator can.

        Raises
        ------
        ComponentError
            If its arrays do not fit each other, or what they are for.
        """
        if not self.learns and state:
            raise ComponentError(f"operator {self.name!r} does not learn, but has a state")
        if hasattr(self._instance, "check"):
            try:
                self._instance.check(state)
            except KeyError as error:
                raise ComponentError(f"the state of operator {self.name!r} has no {error}") from None
            except ValueError as error:
                raise ComponentError(f"the state of operator {self.name!r}: {error}") from None

    def lookup(self, state: State) -> Lookup | None:
        """Return what was learned as a table; None if the operator does not give it so."""
        return self._instance.lookup(state) if hasattr(self._instance, "lookup") else None

    def apply(self, state: State, *columns: Column) -> Array:
        """Compute the values of rows from a fitted state.

        Returns
        -------
        ndarray
            Shape (n,): float64 for ``NUM``, int64 codes for ``CAT``.

        Raises
        ------
        ComponentError
            If the operator gives something that is not one value per row.
        """
        with np.errstate(all="ignore"):
            if self.learns:
                result = self._instance.apply(state, *self._given(columns))
            else:
                result = self.target(*self._given(columns), **self.bound)
        given = np.asarray(result)
        if given.dtype.kind not in "biufO":
            raise ComponentError(f"operator {self.name!r} gave values of type {given.dtype}, not numbers")
        values = given.astype(np.float64 if self.gives == NUM else np.int64, copy=False)
        if values.shape != (len(columns[0]),):
            raise ComponentError(
                f"operator {self.name!r} gave shape {values.shape} for {len(columns[0])} rows"
            )
        return values


@dataclass(frozen=True, eq=False)
class Gate(Component):
    """A pair gate or operator gate: a function ``(context, scope, *, parameters) → scope``."""

    def __call__(self, context: Any, scope: Any, values: Parameters) -> Any:
        """Run the gate with validated parameters."""
        return self.target(context, scope, **{k: getattr(values, k) for k in type(values).model_fields})


def keywords_of(name: str, target: Callable[..., Any]) -> tuple[inspect.Parameter, ...]:
    """Return the keyword-only arguments of a component.

    Raises
    ------
    ComponentError
        If one has no annotation.
    """
    if inspect.isclass(target) and target.__init__ is object.__init__:
        return ()
    given = inspect.signature(target, eval_str=True).parameters.values()
    keywords = tuple(p for p in given if p.kind is inspect.Parameter.KEYWORD_ONLY)
    for parameter in keywords:
        if parameter.annotation is inspect.Parameter.empty:
            raise ComponentError(f"parameter {parameter.name!r} of {name!r} needs a type annotation")
    return keywords


@cache
def source_of(target: Callable[..., Any]) -> Source:
    """Return the module, file and line of a declaration; unknown ones are named as such."""
    try:
        file, line = inspect.getsourcefile(target) or "?", inspect.getsourcelines(target)[1]
    except (OSError, TypeError):
        file, line = "?", 0
    return Source(target.__module__, file, line)


@cache
def code_version(target: Callable[..., Any]) -> str:
    """Return a hash of a component's code, inherited code included, that ignores comments and docstrings."""
    digest = hashlib.blake2b(digest_size=8)
    for part in inspect.getmro(target)[:-1] if inspect.isclass(target) else (target,):
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(part)))
        except (OSError, TypeError, SyntaxError):
            digest.update(f"{part.__module__}.{part.__qualname__}".encode())
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
                node.body.pop(0)
        digest.update(ast.dump(tree).encode())
    return digest.hexdigest()


class SpecPathMarker:
    """Marks a gate parameter as the name of a spec, which the loader makes absolute."""


SpecPath = Annotated[str, SpecPathMarker()]
