"""How large the states of a plan are, in rows and bytes, and what a batch was for each operator."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class StateSize:
    """How large a state is. `bytes` is what Spark's memory and disk hold of it; in the reference engine, what it takes
    when it is written down."""

    rows: int
    bytes: int


@attrs.frozen
class OperatorActivity:
    """What a batch was for an operator of the circuit. What an engine cannot tell apart is None: Spark computes what
    nothing is kept of, such as the rows of a join, together with what reads it."""

    rows_out: int | None = None
    """The rows that it has given, each of an insertion or of a deletion."""
    rows_in: int | None = None
    """Those that it was given by the operators that it reads."""
    state: StateSize | None = None
    """What it keeps, where it keeps something."""
    milliseconds: float | None = None
    """How long the reference engine has computed it; or how long it took to plan it for Spark, whose job computes all
    operators at once: a whole stage by what it keeps, or what is passed on."""


@attrs.frozen
class EngineMeasurements:
    """What takes an engine some time to say of its states and of the last batch."""

    states: Mapping[str, StateSize]
    """By the name of the stage; what a stream may lose again by the name of the stream."""
    operators: Mapping[str, OperatorActivity]
    """By the id of the operator, but for sources and the answer."""
