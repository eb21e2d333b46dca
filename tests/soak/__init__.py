"""Longer runs of generated cases: `python -m tests.soak`, and the properties that they check."""
