"""Compiled loops: numba's, kept on disk where there is a folder for them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_log = logging.getLogger(__name__)
_told: set[str] = set()


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
    compile = partial(numba.njit, *given, nogil=True, error_model="numpy")
    try:
        return cast(F, compile(cache=True)(function))
    except RuntimeError:
        if not _told:
            _told.add("no folder")
            _log.warning(
                "compiled code cannot be kept, so that every process compiles it again: "
                "set NUMBA_CACHE_DIR to a folder that can be written"
            )
        return cast(F, compile()(function))
