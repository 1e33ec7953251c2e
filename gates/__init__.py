"""Built-in pair gates and operator gates."""

from scopefe.gates import operator_gates, pair_gates, quantised

__all__ = ["operator_gates", "pair_gates", "quantised"]
