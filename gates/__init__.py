"""Built-in pair gates and operator gates."""

from scopefe.gates import model_pairs, operator_gates, pair_gates, quantised

__all__ = ["model_pairs", "operator_gates", "pair_gates", "quantised"]
