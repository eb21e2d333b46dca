"""Longer runs of generated cases: `python -m tests.soak`, and what they look for."""
