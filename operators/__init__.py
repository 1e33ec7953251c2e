"""Built-in operators: the 23 of the paper."""

from scopefe.operators import combine, frequency, group, numeric

DEFAULT = (
    *frequency.NAMES,
    *numeric.UNARY,
    *numeric.BINARY,
    *group.NAMES,
    *combine.NAMES,
)
"""What ``default`` stands for, in the order of enumeration (that of the openfe package)."""
