"""Errors of an engine that has lost a part of its states; they can be caught without importing Spark."""

from __future__ import annotations

from mrql.algebra.errors import EngineError


class StatesLost(EngineError):
    """A part of the states was on an executor that is lost."""
