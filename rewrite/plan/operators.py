"""The operators of a circuit: what each one does, what it keeps, and what a batch costs it ([DBSP] §3)."""

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
    """The changes of a stream, as they arrive; those of one that may lose rows are held against what is there of it."""
    TABLE = "table"
    """A static table."""
    FILTER_MAP = "filter-map"
    """Rows made of rows, each by itself."""
    INDEX = "index"
    """One side of a join, kept by the join's key."""
    JOIN = "join"
    AGGREGATE = "aggregate"
    """Groups or totals: what is stored by key, merged with ⊗."""
    DISTINCT = "distinct"
    """Groups with nothing but the number of their rows."""
    BAG = "bag"
    """A bag that is kept, by a key or as a whole."""
    DIFFERENTIATE = "differentiate"
    """How what is made of states has changed: a batch of changes for the operators after it ([DBSP] Prop. 3.2)."""
    DELAY = "delay"
    """What a loop had, which the next step begins with; how it differs is fed back."""
    ANSWER = "answer"


class Linearity(Enum):
    """What a change of the inputs makes of the output."""

    LINEAR = "linear"
    """`Qᐃ = Q`, [DBSP] Thm 3.3."""
    BILINEAR = "bilinear"
    """`(a ⋈ b)ᐃ = Δa ⋈ b ⊎ a' ⋈ Δb`, [DBSP] Thm 3.4; multilinear with more inputs than two."""
    NONLINEAR = "nonlinear"
    """`D ∘ Q ∘ I`."""


class Access(Flag):
    """How batches read and change what is kept."""

    ONCE = 0
    """Each batch once."""
    STEPS = auto()
    """Step by step: the steps of a loop look things up in it again and again."""
    LOOKED_UP = auto()
    """Each batch looks up some of it: what it takes away, what it joins with, the groups that it touches."""
    SPARSE = auto()
    """Each batch is likely to find and to touch little of it, as where what changes little is kept back: it would be as
    well to run the loop anew otherwise."""


@attrs.frozen
class Stored:
    """What an operator keeps: values by keys."""

    key: Type
    value: Type | None = None
    """None where there is nothing but the number of rows behind the key."""

    def __str__(self) -> str:
        by = "" if self.key == ty.UNIT else f" by {show_type(self.key)}"
        return f"{'how many there are' if self.value is None else show_type(self.value)}{by}"


@attrs.frozen
class Operator:
    """An operator of the circuit."""

    id: str
    """The same each time that the query is planned."""
    kind: OperatorKind
    inputs: tuple[str, ...]
    """The operators whose changes it is given."""
    linearity: Linearity
    rule: str
    """How its output changes."""
    works: tuple[Work, ...] = ()
    """What a batch has to do for it."""
    kept: Stored | None = None
    stage: str | None = None
    """The stage that it is a part of."""
    feed: int | None = None
    """The number of the feed in the stage, where it is a part of one."""
    input: str | None = None
    """The label of the input that it keeps."""
    component: int | None = None
    """The number of the component that it keeps."""
    access: Access = Access.ONCE
    """How batches read and change what it keeps."""
    form: DeltaForm = DeltaForm.CHANGES
    """The summands of its rule, where it joins."""
    other_keys: tuple[OtherKey, ...] = ()
    """The keys by which batches meet what it keeps, other than its own; by those that are parts of it, it is kept too
    where it is large."""

    @property
    def cost(self) -> Cost:
        """The most that it reads in a batch."""
        return most(self.works)[0]

    @property
    def reason(self) -> str | None:
        """Why that is more than the delta, where it is."""
        return most(self.works)[1]
