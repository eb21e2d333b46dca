"""What a query is compiled to: stages with a state, and an answer over the states.

A *stage* is a key, the monoids of what is stored by key (its *components*), and *feeds*: bags of rows `(key,
element)`, linear in each of their streams, from which the components are computed, a row's share at a time. The state
after a batch is

    state ⊗ h(Δ),    ⊗ = ⇑(⊕1 × … × ⊕n)

and beside the values it counts the rows behind each key, the *support*, which says when a key is there at all.

A part of the query that does not merge and has something else above it is a *derived stream*: a term over states that
stand before it. How a batch changes its value is a bag of rows with weights, and so a batch of changes for the
stages after it, as the changes of the streams are for the first ones: `(Q1 ∘ Q2)^Δ = Q1^Δ ∘ Q2^Δ` ([DBSP] Prop. 3.2).

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
    """What a state looks like to the answer."""

    KEYED = "keyed"
    """A bag of `(key, value)`, one for each key with support."""
    TOTAL = "total"
    """The one value of the key `()`, which is there also when nothing is: the zero."""
    BAG = "bag"
    """The bag itself: the key is `()`, and the one component `⊎`."""


@attrs.frozen
class Component:
    """One value that is stored by key: `monoid` merges it, `type` is the type of its carrier.

    A sum of longs is `narrow` where no addend is larger than an int, and so no sum of them can leave the range of a
    long on the way to one that does not.
    """

    name: str
    monoid: Aggregate | BagUnion
    type: Type
    narrow: bool = False
    span: Span | None = attrs.field(default=None, eq=False, repr=False)
    """Where it stands in the query."""


@attrs.frozen
class Feed:
    """Rows `(key, element)` and, for each component that they feed, the share `u` of one row.

    `h` of a single row is its share, and `h(A ⊎ B) = h(A) ⊕ h(B)`: that is all that a batch needs. The terms of
    `units` are over the variables of the two patterns. A feed that `supports` brings its keys into being.

    With a `weight`, the inputs are kept as sums: a row then stands for as many as its weight says. Its share of the
    components in `totals` is that of all of them: a long, the two halves of a wider sum, also for a sum of doubles, the
    magnitude, the mantissas and the number of some doubles, these, how often they are added and their limbs, or the
    first and the last digits of decimals (`algebra/functions/side_sums.py`).
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
    """How a stage came about, pass by pass, for `explain` and for the tests of each step."""

    query: Term
    """The part of the query that the stage answers, in normal form."""
    lineage: Term
    """The same with all lineage ([MRQL] Alg. 1)."""
    annotated: Term
    """`h` with lineage, after the split ([MRQL] §9)."""
    h: Term
    """`h` with the lineage pruned that the answer would only drop: what is stored."""
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
        """The type of what is stored by key: the component itself where there is one, else their tuple."""
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
    """The loop that a stream stands for whose own stage reads it (`rewrite/loops/semi_naive.py`)."""
    threshold: Threshold = NOTHING
    """What changes by no more than this is kept back (`rewrite/loops/unroll.py`)."""

    @property
    def stream(self) -> Stream:
        return Stream(self.name, self.term.type)

    @property
    def reads(self) -> frozenset[str]:
        """The stages whose states it is made from."""
        return free_vars(self.term)


@attrs.frozen
class Feedback:
    """A bag that a loop carries from batch to batch: how `value` differs from what the stream `fed` has had so far is
    fed back to it (`rewrite/loops/diffuse.py`)."""

    fed: Stream
    value: Term
    """Over the variables of stages and static tables, and so is `start`, which the bag begins with."""
    start: Term

    @property
    def start_reads(self) -> frozenset[str]:
        """The stages whose states it begins with."""
        return free_vars(self.start)


@attrs.frozen
class Feedbacks:
    """The bags that one loop carries."""

    loop: Repeat
    parts: tuple[Feedback, ...]
    threshold: Threshold = NOTHING
    """What differs by no more than this is kept back."""

    @property
    def steps(self) -> int:
        """How many steps a batch takes at most."""
        limit = self.loop.limit
        return limit.value if isinstance(limit, Lit) and isinstance(limit.value, int) else self.loop.most

    @property
    def reads(self) -> frozenset[str]:
        """The stages whose states the bags are made from."""
        return self.starts.union(*(free_vars(part.value) for part in self.parts))

    @property
    def starts(self) -> frozenset[str]:
        """The stages whose states the loop begins with."""
        return frozenset[str]().union(*(part.start_reads for part in self.parts))


@attrs.frozen
class Plan:
    """A compiled query: `answer` is a term over the stages' variables and static tables, without streams.

    The stages stand in the order in which a batch goes through them.
    """

    query: Term
    stages: tuple[Stage, ...]
    answer: Term
    derived: tuple[DerivedStream, ...] = ()
    shrinking: frozenset[str] = frozenset()
    """The streams that may lose rows again."""
    trusted: frozenset[str] = frozenset()
    """Those of them of which nobody looks up whether a row that goes is there."""
    keyed: Mapping[str, RowKey] = attrs.Factory(dict)
    """Those of them of which a row replaces the one with its key."""
    loops: tuple[tuple[str, Term], ...] = ()
    """Static tables that are loops over those of the query, by their names."""
    feedbacks: tuple[Feedbacks, ...] = ()
    """The loops whose values are carried over; each reads those before it."""
    strategies: tuple[Chosen, ...] = ()
    """How its loops over streams are kept up to date."""

    def may_lose(self, stream: str) -> bool:
        """Whether rows of a stream may go again: what is derived of states changes as these do, to and fro."""
        return stream in self.shrinking or stream not in self.streams

    @property
    def looked_up(self) -> frozenset[str]:
        """The streams of which it is kept which rows are there, so that one that goes is looked up."""
        return self.shrinking - self.trusted - self.keyed.keys()

    @property
    def noted(self) -> frozenset[str]:
        """The streams of which it is kept what there is: the rows that are looked up, or those of each key."""
        return self.looked_up | self.keyed.keys()

    @property
    def thresholded(self) -> tuple[DerivedStream, ...]:
        """The streams of which small changes are kept back."""
        return tuple(derived for derived in self.derived if derived.threshold.is_given)

    @property
    def has_residual(self) -> bool:
        """Whether its answer may be off, by what is kept back."""
        return bool(self.feedbacks or self.thresholded)

    @property
    def streams(self) -> dict[str, Type]:
        """The streams that the query reads, with the types of their bags."""
        return {t.name: t.type for t in subterms(self.query) if isinstance(t, Stream) and not t.static}

    def derived_for(self, stage: Stage) -> tuple[DerivedStream, ...]:
        """The derived streams that a stage reads, but for the one that is made from it."""
        return tuple(d for d in self.derived if d.name in stage.streams and stage.name not in d.reads)

    def is_shared(self, derived: DerivedStream) -> bool:
        """Whether a derived stream is read in more than one place."""
        reads = (read.stream for stage in self.stages for feed in stage.feeds for read in feed.rows.inputs)
        return sum(name == derived.name for name in reads) > 1

    def recursion_of(self, stage: Stage) -> DerivedStream | None:
        """The stream that is made from a stage and that the stage reads."""
        return next((d for d in self.derived if d.name in stage.streams and stage.name in d.reads), None)

    def goes_around(self, derived: DerivedStream) -> bool:
        """Whether a stream that is made from a stage comes back to it by way of other stages."""
        readers = {stage.name for stage in self.stages if derived.name in stage.streams}
        return bool(self.below(derived.reads) & readers - derived.reads)

    def below(self, names: frozenset[str]) -> frozenset[str]:
        """Some stages, by name, and all that they are made from by way of derived streams."""
        found, left = set(names), [stage for stage in self.stages if stage.name in names]
        while left:
            for derived in self.derived_for(left.pop()):
                left += [stage for stage in self.stages if stage.name in derived.reads - found]
                found |= derived.reads
        return frozenset(found)

    def inside(self, feedbacks: Feedbacks) -> frozenset[str]:
        """The stages, by name, that change when a loop's bags do, and that these are made from."""
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
