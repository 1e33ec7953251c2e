"""scopefe: declare the search space of automated feature engineering, count it, search it, keep a recipe.

>>> import scopefe
>>> spec = scopefe.load_spec("quickstart")
>>> scopefe.compile(spec).pool_size  # doctest: +SKIP
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

from scopefe.errors import (
    ComponentError,
    DataError,
    RecipeError,
    RunError,
    ScopefeError,
    SpecError,
    UnknownNameError,
)

if TYPE_CHECKING:
    from scopefe.components import ANY, CAT, NUM, Keys, Lookup, Ordered, SpecPath, State
    from scopefe.data.table import Table
    from scopefe.export.checking import check_operators
    from scopefe.export.freezing import freeze
    from scopefe.export.python import to_python
    from scopefe.export.sql import to_sql
    from scopefe.recipe.explaining import explain
    from scopefe.recipe.recipe import Recipe
    from scopefe.registry import operator, operator_gate, pair_gate
    from scopefe.run.api import (
        Compiled,
        Estimate,
        Run,
        Store,
        audit_pool,
        compile,
        estimate,
        execute,
        progress,
        run_study,
    )
    from scopefe.sklearn import ScopeFE
    from scopefe.space.context import GateContext, Sample, Splits, agreement
    from scopefe.space.pairs import PairSet
    from scopefe.space.scope import Scope
    from scopefe.spec.loader import load_spec
    from scopefe.spec.models import Spec
    from scopefe.spec.study import Study, load_study

__version__ = "0.1.0"

_LAZY = {
    "ANY": "scopefe.components",
    "CAT": "scopefe.components",
    "Compiled": "scopefe.run.api",
    "Estimate": "scopefe.run.api",
    "GateContext": "scopefe.space.context",
    "Keys": "scopefe.components",
    "Lookup": "scopefe.components",
    "NUM": "scopefe.components",
    "Ordered": "scopefe.components",
    "PairSet": "scopefe.space.pairs",
    "Recipe": "scopefe.recipe.recipe",
    "Run": "scopefe.run.api",
    "Sample": "scopefe.space.context",
    "Scope": "scopefe.space.scope",
    "ScopeFE": "scopefe.sklearn",
    "Spec": "scopefe.spec.models",
    "SpecPath": "scopefe.components",
    "Splits": "scopefe.space.context",
    "State": "scopefe.components",
    "Store": "scopefe.run.api",
    "Study": "scopefe.spec.study",
    "Table": "scopefe.data.table",
    "agreement": "scopefe.space.context",
    "audit_pool": "scopefe.run.api",
    "check_operators": "scopefe.export.checking",
    "compile": "scopefe.run.api",
    "estimate": "scopefe.run.api",
    "execute": "scopefe.run.api",
    "explain": "scopefe.recipe.explaining",
    "freeze": "scopefe.export.freezing",
    "load_spec": "scopefe.spec.loader",
    "load_study": "scopefe.spec.study",
    "operator": "scopefe.registry",
    "operator_gate": "scopefe.registry",
    "pair_gate": "scopefe.registry",
    "progress": "scopefe.run.api",
    "run_study": "scopefe.run.api",
    "to_python": "scopefe.export.python",
    "to_sql": "scopefe.export.sql",
}

__all__ = [
    "ANY",
    "CAT",
    "NUM",
    "Compiled",
    "ComponentError",
    "DataError",
    "Estimate",
    "GateContext",
    "Keys",
    "Lookup",
    "Ordered",
    "PairSet",
    "Recipe",
    "RecipeError",
    "Run",
    "RunError",
    "Sample",
    "Scope",
    "ScopeFE",
    "ScopefeError",
    "Spec",
    "SpecError",
    "SpecPath",
    "Splits",
    "State",
    "Store",
    "Study",
    "Table",
    "UnknownNameError",
    "__version__",
    "agreement",
    "audit_pool",
    "check_operators",
    "compile",
    "estimate",
    "execute",
    "explain",
    "freeze",
    "load_spec",
    "load_study",
    "operator",
    "operator_gate",
    "pair_gate",
    "progress",
    "run_study",
    "to_python",
    "to_sql",
]

logging.getLogger(__name__).addHandler(logging.NullHandler())


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'scopefe' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
