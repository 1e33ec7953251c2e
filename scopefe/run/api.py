"""The Python interface: compile and execute."""

from scopefe.run.compiling import Compiled, compile
from scopefe.run.executing import Run, execute

__all__ = ["Compiled", "Run", "compile", "execute"]
