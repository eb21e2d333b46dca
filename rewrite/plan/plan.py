"""The plan that a query is compiled to: stages with a state, and an answer over the states.

A *stage* is a key, the monoids of the values stored by key (its *components*), and *feeds*: bags of rows
`(key, element)`, linear in each of their streams. Each row adds its share to the components. The state after a batch is

    state ⊗ h(Δ),    ⊗ = ⇑(⊕1 × … × ⊕n)

and beside the values it has the number of rows behind each key, the *support*: a key exists while that is not 0.

A part of the query that does not merge, below one that does, is a *derived stream*: a term over the states of earlier
stages. The change of its value in a batch is a bag of rows with weights, and so a batch of changes for the stages after
it, as the changes of the streams are for the first ones: `(Q1 ∘ Q2)^Δ = Q1^Δ ∘ Q2^Δ` ([DBSP] Prop. 3.2).

The *answer* is a term over variables that stand for the states: `q(S) = a(h(S))` ([MRQL] §2).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import free_vars
from mrql.algebra.monoids import Aggregate, BagUnion, Keyed, Monoid, ProductMonoid
from mrql.algebra.row_key import RowKey
from mrql.algebra.span import Span
from mrql.algebra.terms import Lit, Pattern, Repeat, Stream, Term, Var
from mrql.algebra.types import Type
from mrql.rewrite.analysis.multilinear import Multilinear
from mrql.rewrite.plan.loop_strategy import Chosen
from mrql.rewrite.plan.threshold import NOTHING, Threshold


class Shape(Enum):
    """The form in which the answer reads a state."""

    KEYED = "keyed"
    """A bag of `(key, value)`, one for each key with support."""
    TOTAL = "total"
    """The one value, of the key `()`; without rows, it is the zero of the monoid."""
    BAG = "bag"
    """The bag itself: the key is `()`, and the one component `⊎`."""


@attrs.frozen
class Component:
    """One value that is stored by key: `monoid` merges it, `type` is the type of its carrier.

    A sum of longs or decimals is `narrow` where its addends have half the width of the sum at most, so that no number
    of them leaves its range.
    """

    name: str
    monoid: Aggregate | BagUnion
    type: Type
    narrow: bool = False
    span: Span | None = attrs.field(default=None, eq=False, repr=False)
    """Its place in the query."""


@attrs.frozen
class Feed:
    """Rows `(key, element)` and, for each component that they feed, the share `u` of one row.

    `h` of a single row is its share, and `h(A ⊎ B) = h(A) ⊕ h(B)`: that is all that a batch needs. The terms of `units`
    are over the variables of the two patterns. A feed that `supports` counts as support of its keys.

    With a `weight`, the inputs are stored as sums: a row then stands for as many rows as its weight says. Its share of
    the components in `totals` is that of all of these: a long; the two halves of a wider sum, also for a sum of
    doubles; the magnitude, mantissas and number of some doubles; these of huge doubles, with the number of additions
    and the limbs of the others; or the first and the last digits of decimals (`algebra/functions/side_sums.py`).
    """

    rows: Multilinear
    key: Pattern
    element: Pattern
    units: tuple[tuple[int, Term], ...]
    supports: bool = True
    weight: Term | None = None
    totals: tuple[int, ...] = ()


@attrs.frozen
class Derivation:
    """The derivation of a stage, pass by pass, for `explain` and for the tests of each pass."""

    query: Term
    """The part of the query that the stage answers, in normal form."""
    lineage: Term
    """The query with its whole lineage ([MRQL] Alg. 1)."""
    annotated: Term
    """`h` with lineage, after the split ([MRQL] §9)."""
    h: Term
    """`h` without the lineage that the answer would only drop: what is stored."""
    merge: Monoid
    """`⊗`, with `[Si: ⊎, others: □] ⊢ h : ⊗` for each stream."""
    answer: Term
    """The part of the answer that reads this stage: `a`, over the stage's variable."""


@attrs.frozen
class Stage:
    """A state and how each batch changes it."""

    name: str
    shape: Shape
    key_type: Type
    components: tuple[Component, ...]
    feeds: tuple[Feed, ...]
    derivation: Derivation

    @property
    def value_type(self) -> Type:
        """The type of the value stored by key: that of the one component, else the tuple of them."""
        types = tuple(component.type for component in self.components)
        return types[0] if len(types) == 1 else ty.TupleType(types)

    @property
    def var(self) -> Var:
        """The variable that stands for the state in the answer."""
        match self.shape:
            case Shape.KEYED:
                return Var(self.name, ty.BagType(ty.TupleType((self.key_type, self.value_type))))
            case Shape.TOTAL | Shape.BAG:
                return Var(self.name, self.value_type)

    @property
    def merge(self) -> Monoid:
        return self.derivation.merge

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams whose batches change this state; some may be derived from other states."""
        return tuple(dict.fromkeys(i.stream for feed in self.feeds for i in feed.rows.inputs))


@attrs.frozen
class DerivedStream:
    """A bag that stages read as a stream: `term` is over the variables of stages before them and static tables."""

    name: str
    term: Term
    loop: Repeat | None = None
    """The loop that the stream stands for, if the stage that it is made from reads it
    (`rewrite/loops/semi_naive.py`)."""
    threshold: Threshold = NOTHING
    """Changes of at most this size are held back (`rewrite/loops/unroll.py`)."""

    @property
    def stream(self) -> Stream:
        return Stream(self.name, self.term.type)

    @property
    def reads(self) -> frozenset[str]:
        """The names of the stages that `term` reads."""
        return free_vars(self.term)


@attrs.frozen
class Feedback:
    """A bag that a loop carries from batch to batch: the difference between `value` and the contents of the stream
    `fed` is fed back to that stream (`rewrite/loops/diffuse.py`)."""

    fed: Stream
    value: Term
    """A term over the variables of stages and static tables, as is `start`, which the bag begins with."""
    start: Term

    @property
    def start_reads(self) -> frozenset[str]:
        """The names of the stages that `start` reads."""
        return free_vars(self.start)


@attrs.frozen
class Feedbacks:
    """The bags that one loop carries."""

    loop: Repeat
    parts: tuple[Feedback, ...]
    threshold: Threshold = NOTHING
    """Differences of at most this size are held back."""

    @property
    def steps(self) -> int:
        """The largest number of steps of a batch."""
        limit = self.loop.limit
        return limit.value if isinstance(limit, Lit) and isinstance(limit.value, int) else self.loop.most

    @property
    def reads(self) -> frozenset[str]:
        """The names of the stages that the values and the starts of the bags read."""
        return self.starts.union(*(free_vars(part.value) for part in self.parts))

    @property
    def starts(self) -> frozenset[str]:
        """The names of the stages that the starts of the bags read."""
        return frozenset[str]().union(*(part.start_reads for part in self.parts))


@attrs.frozen
class Plan:
    """A compiled query: `answer` is a term over the stages' variables and static tables, without streams.

    The stages are in the order in which a batch goes through them.
    """

    query: Term
    stages: tuple[Stage, ...]
    answer: Term
    derived: tuple[DerivedStream, ...] = ()
    shrinking: frozenset[str] = frozenset()
    """The streams that may have deletions."""
    trusted: frozenset[str] = frozenset()
    """Those of them for which it is not checked that a deleted row is there."""
    keyed: Mapping[str, RowKey] = attrs.Factory(dict)
    """Those of them in which a row replaces the one with its key."""
    loops: tuple[tuple[str, Term], ...] = ()
    """The names of static tables that are loops over those of the query, with these loops."""
    feedbacks: tuple[Feedbacks, ...] = ()
    """The loops whose values are carried over; each may read those before it."""
    strategies: tuple[Chosen, ...] = ()
    """The strategies of its loops over streams."""

    def may_lose(self, stream: str) -> bool:
        """Whether a stream may have deletions; one that is derived from states may, as these change."""
        return stream in self.shrinking or stream not in self.streams

    @property
    def looked_up(self) -> frozenset[str]:
        """The streams whose current rows are stored, to check that each deleted row is there."""
        return self.shrinking - self.trusted - self.keyed.keys()

    @property
    def noted(self) -> frozenset[str]:
        """The streams whose current rows are stored: to check deletions, or to find the row of each key."""
        return self.looked_up | self.keyed.keys()

    @property
    def thresholded(self) -> tuple[DerivedStream, ...]:
        """The derived streams whose small changes are held back."""
        return tuple(derived for derived in self.derived if derived.threshold.is_given)

    @property
    def has_residual(self) -> bool:
        """Whether its answer may be off by the changes that are held back."""
        return bool(self.feedbacks or self.thresholded)

    @property
    def streams(self) -> dict[str, Type]:
        """The streams that the query reads, with the types of their bags."""
        return {t.name: t.type for t in subterms(self.query) if isinstance(t, Stream) and not t.static}

    def derived_for(self, stage: Stage) -> tuple[DerivedStream, ...]:
        """The derived streams that a stage reads, except the one that is made from it."""
        return tuple(d for d in self.derived if d.name in stage.streams and stage.name not in d.reads)

    def is_shared(self, derived: DerivedStream) -> bool:
        """Whether a derived stream is read in more than one place."""
        reads = (read.stream for stage in self.stages for feed in stage.feeds for read in feed.rows.inputs)
        return sum(name == derived.name for name in reads) > 1

    def recursion_of(self, stage: Stage) -> DerivedStream | None:
        """The derived stream that is made from a stage and that the stage reads, if any."""
        return next((d for d in self.derived if d.name in stage.streams and stage.name in d.reads), None)

    def goes_around(self, derived: DerivedStream) -> bool:
        """Whether a derived stream comes back, through other stages, to a stage that it is made from."""
        readers = {stage.name for stage in self.stages if derived.name in stage.streams}
        return bool(self.below(derived.reads) & readers - derived.reads)

    def below(self, names: frozenset[str]) -> frozenset[str]:
        """These stages, by name, and all stages that they depend on through derived streams."""
        found, left = set(names), [stage for stage in self.stages if stage.name in names]
        while left:
            for derived in self.derived_for(left.pop()):
                left += [stage for stage in self.stages if stage.name in derived.reads - found]
                found |= derived.reads
        return frozenset(found)

    def inside(self, feedbacks: Feedbacks) -> frozenset[str]:
        """The names of the stages that change with a loop's bags, and that the bags depend on."""
        fed = {part.fed.name for part in feedbacks.parts}
        inside: set[str] = set()
        for stage in self.stages:
            passed_on = any(derived.reads & inside for derived in self.derived_for(stage))
            if passed_on or fed & set(stage.streams):
                inside.add(stage.name)
        return self.below(feedbacks.reads) & inside

    @property
    def tables(self) -> dict[str, Type]:
        """The static tables that the query reads."""
        return {t.name: t.type for t in subterms(self.query) if isinstance(t, Stream) and t.static}


def product(monoids: tuple[Monoid, ...]) -> Monoid:
    """`⊕1 × … × ⊕n`, and `⊕` itself where there is one."""
    return monoids[0] if len(monoids) == 1 else ProductMonoid(monoids)


def by_key(monoids: tuple[Monoid, ...]) -> Monoid:
    """`⇑(⊕1 × … × ⊕n)`."""
    return Keyed(product(monoids))
