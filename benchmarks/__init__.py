"""Measurements against the openfe package."""
