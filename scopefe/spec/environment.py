"""Environment variables in a spec: ``${NAME}``.

Names of files and queries keep the text that was written, and are read with its variables' values: what a
variable holds, such as a password, is in no spec, report or error.
"""

from __future__ import annotations

import os
import re

from scopefe.errors import DataError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def variables(text: str) -> list[str]:
    """Return the names of the variables in a text."""
    return _VARIABLE.findall(text)


def expanded(text: str) -> str:
    """Return a text with the values of its variables.

    Raises
    ------
    DataError
        If one is not set.
    """

    def value_of(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise DataError(f"the environment variable {match[1]} is not set")
        return os.environ[match[1]]

    return _VARIABLE.sub(value_of, text)


def hidden(told: str, written: str) -> str:
    """Return what is told of a text with the names of its variables in place of their values.

    Where words of a value are left, such as those around its hyphens, the rest of a sentence is left out.
    """
    for name in variables(written):
        value = os.environ.get(name)
        if value:
            told = told.replace(value, f"${{{name}}}")
            if any(word in told for word in re.findall(r"\w{3,}", value)):
                told = f"{told.partition(':')[0]}, told with what ${{{name}}} holds"
    return told
