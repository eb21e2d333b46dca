"""The operators of a circuit: what each one does, what it stores, and what a batch costs ([DBSP] §3)."""

from __future__ import annotations

from enum import Enum, Flag, auto

import attrs

from mrql.algebra import types as ty
from mrql.algebra.notation.type_printer import show_type
from mrql.algebra.types import Type
from mrql.rewrite.analysis.multilinear import DeltaForm
from mrql.rewrite.plan.cost import Cost, Work, most
from mrql.rewrite.plan.joins.other_keys import OtherKey


class OperatorKind(Enum):
    """What an operator does."""

    SOURCE = "source"
    """The changes of a stream, as they arrive; deletions are checked against its current rows, unless they are
    trusted."""
    TABLE = "table"
    """A static table."""
    FILTER_MAP = "filter-map"
    """Rows computed from rows, each by itself."""
    INDEX = "index"
    """One side of a join, stored by the join's key."""
    JOIN = "join"
    AGGREGATE = "aggregate"
    """Groups or totals: what is stored by key, merged with ⊗."""
    DISTINCT = "distinct"
    """Groups with nothing but the number of their rows."""
    BAG = "bag"
    """A bag that is stored, by a key or as a whole."""
    DIFFERENTIATE = "differentiate"
    """The change of a term over states: a batch of changes for the operators after it ([DBSP] Prop. 3.2)."""
    DELAY = "delay"
    """The previous value of a loop, which the next step begins with; the difference from it is fed back."""
    ANSWER = "answer"


class Linearity(Enum):
    """How the output changes with the inputs."""

    LINEAR = "linear"
    """`Qᐃ = Q`, [DBSP] Thm 3.3."""
    BILINEAR = "bilinear"
    """`(a ⋈ b)ᐃ = Δa ⋈ b ⊎ a' ⋈ Δb`, [DBSP] Thm 3.4; multilinear with more inputs than two."""
    NONLINEAR = "nonlinear"
    """`D ∘ Q ∘ I`."""


class Access(Flag):
    """How batches read and change a state."""

    ONCE = 0
    """Once in each batch."""
    STEPS = auto()
    """Step by step: the steps of a loop look rows up in it repeatedly."""
    LOOKED_UP = auto()
    """Each batch looks up some of it: deleted rows, join partners, or the groups that it touches."""
    SPARSE = auto()
    """Each batch is likely to read and change little of it, as where small changes are held back: otherwise it would be
    as good to run the loop again."""


@attrs.frozen
class Stored:
    """The state of an operator: values by key."""

    key: Type
    value: Type | None = None
    """None where only the number of rows behind the key is stored."""

    def __str__(self) -> str:
        by = "" if self.key == ty.UNIT else f" by {show_type(self.key)}"
        return f"{'how many there are' if self.value is None else show_type(self.value)}{by}"


@attrs.frozen
class Operator:
    """An operator of the circuit."""

    id: str
    """Stable across plannings of the same query."""
    kind: OperatorKind
    inputs: tuple[str, ...]
    """The ids of the operators whose changes it reads."""
    linearity: Linearity
    rule: str
    """How its output changes."""
    works: tuple[Work, ...] = ()
    """The work of a batch for it."""
    kept: Stored | None = None
    stage: str | None = None
    """The name of the stage that it is a part of."""
    feed: int | None = None
    """The number of the feed in the stage, where it is a part of one."""
    input: str | None = None
    """The label of the input that it stores."""
    component: int | None = None
    """The number of the component that it stores."""
    access: Access = Access.ONCE
    """How batches read and change its state."""
    form: DeltaForm = DeltaForm.CHANGES
    """The form of its delta rule, where it is a join."""
    other_keys: tuple[OtherKey, ...] = ()
    """The keys, other than its own, by which batches look it up; where it is large, it is also stored by those of them
    that are parts of its elements."""

    @property
    def cost(self) -> Cost:
        """The most that it reads in a batch."""
        return most(self.works)[0]

    @property
    def reason(self) -> str | None:
        """The reason for that cost, if one is given."""
        return most(self.works)[1]
