"""Measurements of scopefe against the openfe package, plain code, and itself: ``python -m benchmarks``."""
