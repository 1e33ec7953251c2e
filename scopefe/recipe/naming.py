"""Names of new columns: identifiers that learners, databases, files and queries take as they are."""

from __future__ import annotations

import hashlib
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from scopefe.space.expression import Apply, Expression, key_of

LONGEST = 63
"""Bytes of a name that PostgreSQL keeps."""
HASH = 6
WORDS = {"+": "plus", "-": "minus", "*": "times", "/": "over"}


def column_names(expressions: Sequence[Expression], taken: Iterable[str]) -> list[str]:
    """Return a name for the values of each expression, such as ``length_over_diameter``.

    Names are ASCII letters, digits and underscores, at most 63, and do not start with a digit. They differ
    from each other and from `taken` by more than case. Where several expressions would have one name, or the
    name is taken or too long, it ends in a hash of the expression's key.

    Parameters
    ----------
    taken
        Names of other columns.
    """
    plain = [_plain_name(e) for e in expressions]
    alike = Counter(name.lower() for name in plain)
    used = {name.casefold() for name in taken}
    unfit = used | {name for name, count in alike.items() if count > 1 or len(name) > LONGEST}
    used |= alike.keys()
    names = []
    for expression, name in zip(expressions, plain, strict=True):
        if name.lower() in unfit:
            name = next(n for n in _hashed(name, key_of(expression)) if n.lower() not in used)
            used.add(name.lower())
        names.append(name)
    return names


def _plain_name(expression: Expression) -> str:
    name = _spelled(expression)
    return f"x{name}" if name[0].isdigit() else name


def _spelled(expression: Expression) -> str:
    """Return an expression as words joined by underscores."""
    if not isinstance(expression, Apply):
        return _identifier(expression.name)
    arguments = [_spelled(a) for a in expression.arguments]
    if expression.operator in WORDS:
        return f"_{WORDS[expression.operator]}_".join(arguments)
    return "_".join([_identifier(expression.operator), *arguments])


def _identifier(text: str) -> str:
    """Return letters without their accents, and one underscore for whatever else does not fit."""
    letters = (c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return re.sub(r"[^0-9A-Za-z]+", "_", "".join(letters)).strip("_") or "x"


def _hashed(name: str, key: str) -> Iterator[str]:
    """Yield the name with hashes of the key, cut to what fits."""
    start = name[: LONGEST - HASH - 1].rstrip("_")
    for number in itertools.count():
        salt = str(number) if number else ""
        digest = hashlib.blake2b((key + salt).encode("utf-8", "surrogatepass"), digest_size=HASH // 2)
        yield f"{start}_{digest.hexdigest()}"
