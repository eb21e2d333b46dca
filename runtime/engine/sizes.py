"""The sizes of the states of a plan, in rows and bytes, and the activity of each operator in a batch."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen
class StateSize:
    """The size of a state. `bytes` is what Spark holds of it in memory and on disk; in the reference engine, the size
    of its text as written to a checkpoint."""

    rows: int
    bytes: int


@attrs.frozen
class OperatorActivity:
    """What an operator of the circuit did in a batch. What an engine cannot attribute to it is None: Spark computes
    rows that are not kept, such as those of a join, together with the operators that read them."""

    rows_out: int | None = None
    """The number of rows that it put out, insertions and deletions."""
    rows_in: int | None = None
    """The number of rows that it received from the operators that it reads."""
    state: StateSize | None = None
    """The size of its state, if it keeps one."""
    milliseconds: float | None = None
    """The time that the reference engine took to compute it. On Spark, whose job computes all operators at once, the
    time to plan it: of a whole stage, at the operator of its name, or of a derived stream."""


@attrs.frozen
class EngineMeasurements:
    """Measurements of the states and of the last batch that take an engine some time."""

    states: Mapping[str, StateSize]
    """By the name of the stage, or of the stream whose rows are kept."""
    operators: Mapping[str, OperatorActivity]
    """By the id of the operator, without `rows_in`, and without the rows of sources and the answer."""
