"""Every error scopefe raises on purpose; each class owns its wording and its exit code."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Mark:
    """A place in a spec: a file, or an override, with a 1-based line and column."""

    source: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        if self.line is None:
            return self.source
        return f"{self.source}:{self.line}:{self.column}"


def first_line(error: Exception) -> str:
    """Return the first line of what an error says, or its type if it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class ScopefeError(Exception):
    """Base of every deliberate error: one line that says what is wrong, where, and what to do."""

    exit_code = 1


class SpecError(ScopefeError):
    """A spec says something that cannot be carried out.

    Parameters
    ----------
    message
        What is wrong and what to do, in one line.
    mark
        Where it stands.
    """

    exit_code = 2

    def __init__(self, message: str, mark: Mark | None = None) -> None:
        self.mark = mark
        super().__init__(f"{mark}: {message}" if mark else message)


class ComponentError(ScopefeError):
    """A component is unknown, declared wrongly, or its module does not load."""

    exit_code = 2


class UnknownNameError(ComponentError):
    """A name that is not registered; carries the closest one that is."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name = kind, name
        super().__init__(f"unknown {kind} {name!r}{suggestion(name, known)}")


class DataError(ScopefeError):
    """The data cannot be read or cannot be used as the spec asks."""

    exit_code = 3


class RunError(ScopefeError):
    """A run could not be finished."""

    exit_code = 1


class RecipeError(ScopefeError):
    """A recipe cannot be read, or does not fit the table it is applied to."""

    exit_code = 3


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"``, or a list of what is known when nothing is close.

    Parameters
    ----------
    name
        The name that was not found.
    known
        The names that exist.
    """
    names = list(dict.fromkeys(str(k) for k in known))
    close = difflib.get_close_matches(str(name), names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean {close[0]!r}?"
    if not names:
        return ""
    shown = ", ".join(sorted(names)[:30])
    return f"; known: {shown}{', …' if len(names) > 30 else ''}"
