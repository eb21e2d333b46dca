"""Benchmarks against other ways of keeping the same answer up to date: `python -m bench`."""
