"""The Python interface: compile, estimate and execute."""

from scopefe.run.compiling import Compiled, compile
from scopefe.run.estimating import Estimate, estimate
from scopefe.run.executing import Run, execute
from scopefe.run.store import Store

__all__ = ["Compiled", "Estimate", "Run", "Store", "compile", "estimate", "execute"]
