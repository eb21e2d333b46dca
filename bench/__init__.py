"""Measurements against other ways to keep the same answer up to date: `python -m bench`."""
