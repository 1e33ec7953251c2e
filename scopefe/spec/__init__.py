"""What a user writes: run specs, read from YAML."""

from scopefe.spec.loader import load_spec
from scopefe.spec.models import Spec

__all__ = ["Spec", "load_spec"]
