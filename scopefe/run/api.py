"""The Python interface: compile and execute."""

from scopefe.run.compiling import Compiled, compile
from scopefe.run.executing import Run, execute
from scopefe.run.store import Store

__all__ = ["Compiled", "Run", "Store", "compile", "execute"]
