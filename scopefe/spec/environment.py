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
    """Return what is told of a text with the names of its variables in place of their values."""
    for name in variables(written):
        if os.environ.get(name):
            told = told.replace(os.environ[name], f"${{{name}}}")
    return told


def hidden_words(told: str, written: str) -> str:
    """Return what is told of a query, see `hidden`: up to the first colon where a word of a value is left.

    An error may name a part of a value, such as what stands before its hyphen.
    """
    told = hidden(told, written)
    words = {word for name in variables(written) for word in re.findall(r"\w{3,}", os.environ.get(name, ""))}
    if words.isdisjoint(re.findall(r"\w{3,}", re.sub(r"\$\{\w+\}", "", told))):
        return told
    names = ", ".join(f"${{{name}}}" for name in dict.fromkeys(variables(written)))
    return f"{told.partition(':')[0]} (the rest is left out, since it may tell what {names} holds)"
