"""Compiled loops: numba's, kept on disk where there is a folder for them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_log = logging.getLogger(__name__)


def njit(function: F, signatures: tuple[str, ...] = ()) -> F:
    """Compile a function without the interpreter, its lock, and its errors where a number is divided by 0.

    Where neither the package's folder, nor the user's cache, nor the folder that NUMBA_CACHE_DIR names can be
    written, it is compiled again in every process, and one warning says so.

    Parameters
    ----------
    signatures
        Types of arguments to compile it for now; without any, those that it is called with.
    """
    import numba

    given = [list(signatures)] if signatures else []
    compiled = partial(numba.njit, *given, nogil=True, error_model="numpy")
    try:
        return cast(F, compiled(cache=True)(function))
    except RuntimeError:
        warn_once()
        return cast(F, compiled()(function))


@cache
def warn_once() -> None:
    """Say that compiled code is not kept, if that was not said before."""
    _log.warning(
        "compiled code cannot be kept, so that every process compiles it again: "
        "set NUMBA_CACHE_DIR to a folder that can be written"
    )
