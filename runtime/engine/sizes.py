"""How large the states of a plan are, by stage, in rows and bytes."""

from __future__ import annotations

import attrs


@attrs.frozen
class StateSize:
    """How large a state is. `bytes` is what Spark's memory and disk hold of it; in the reference engine, what it takes
    when it is written down."""

    rows: int
    bytes: int
