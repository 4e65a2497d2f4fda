"""Loads `tests/tiers.py`, which splits the suite into a fast and a full tier."""

pytest_plugins = ["tiers"]
