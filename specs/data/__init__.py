"""Fragments that put a dataset under any variant."""
