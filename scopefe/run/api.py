"""The Python interface: compile, estimate, execute, audit and study."""

from scopefe.run.auditing import audit_pool
from scopefe.run.bars import progress
from scopefe.run.compiling import Compiled, compile
from scopefe.run.estimating import Estimate, estimate
from scopefe.run.executing import Run, execute
from scopefe.run.store import Store
from scopefe.run.studying import run_study

__all__ = [
    "Compiled",
    "Estimate",
    "Run",
    "Store",
    "audit_pool",
    "compile",
    "estimate",
    "execute",
    "progress",
    "run_study",
]
