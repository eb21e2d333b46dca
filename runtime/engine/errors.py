"""What is lost with a part of Spark while the rest of it runs on; to be told apart without loading Spark."""

from __future__ import annotations

from mrql.algebra.errors import EngineError


class StatesLost(EngineError):
    """A part of the states was on an executor that is gone."""
