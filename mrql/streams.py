"""Streams of changes, and the operators of [DBSP] §2 and §3 on them, exactly.

A stream is any iterable, with one value for each batch. The values form a group: numbers, or weighted bags (`ZSet`), in
which an insertion has the weight 1 and a deletion −1.

    >>> list(integrate([3, 4, -2])), list(differentiate([3, 7, 5])), list(delay([3, 7, 5]))
    ([3, 7, 5], [3, 4, -2], [0, 3, 7])

`incremental` turns a query into one over changes, by definition: each batch costs as much as evaluating the query from
scratch. `maintained` computes the same as a view does. On Spark, a view is such a query: `View.apply` takes changes and
returns changes, `View.answer` is their integral, and `View.before` the delayed integral.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol, Self, TypeAlias, TypeVar

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import stream_names
from mrql.algebra.build import Expr
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.typecheck import first_fault
from mrql.algebra.terms import Term
from mrql.algebra.values.values import Bag, Value
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.pipeline import PlanOptions, plan_query
from mrql.runtime.reference.view import ReferenceView

__all__ = [
    "ZSet",
    "consolidate",
    "delay",
    "differentiate",
    "distinct",
    "incremental",
    "inspect",
    "integrate",
    "lift",
    "maintained",
    "query",
]


class AbelianGroup(Protocol):
    """Values that can be added and negated."""

    def __add__(self, other: Self, /) -> Self: ...
    def __neg__(self) -> Self: ...


G = TypeVar("G", bound=AbelianGroup)
H = TypeVar("H", bound=AbelianGroup)
T = TypeVar("T")
Operator: TypeAlias = Callable[..., Iterable[H]]
"""A function from streams to a stream."""


def lift(f: Callable[..., T]) -> Callable[..., Iterator[T]]:
    """`↑f`: a function applied at each time separately.  Source: [DBSP] Def. 2.3."""
    return lambda *streams: (f(*values) for values in zip(*streams, strict=True))


def delay(stream: Iterable[G]) -> Iterator[G]:
    """`z⁻¹`: at each time the previous value, and zero at first.  Source: [DBSP] §2.1."""
    before: G | None = None
    for value in stream:
        yield value + -value if before is None else before
        before = value


def integrate(stream: Iterable[G]) -> Iterator[G]:
    """`I`: the sum of all values so far.  Source: [DBSP] §2.2."""
    total: G | None = None
    for value in stream:
        total = value if total is None else total + value
        yield total


def differentiate(stream: Iterable[G]) -> Iterator[G]:
    """`D`: each value minus the one before.  Source: [DBSP] §2.2."""
    before: G | None = None
    for value in stream:
        yield value if before is None else value + -before
        before = value


def incremental(operator: Operator[H]) -> Operator[H]:
    """`Q^Δ = D ∘ Q ∘ I`, for an operator of one stream or several.  Source: [DBSP] §3."""
    return lambda *streams: differentiate(operator(*map(integrate, streams)))


# --- weighted bags ------------------------------------------------------------------------------


def distinct(rows: ZSet) -> ZSet:
    """The elements whose weight is positive, each once.  Source: [RZ] 2.9.3."""
    return ZSet.weighted((row, 1) for row, weight in rows if weight > 0)


def consolidate(trace: Iterable[ZSet]) -> ZSet:
    """The sum of all changes of a trace, without rows whose weights cancel.  Source: [RZ] 2.9.2."""
    return sum(trace, ZSet())


def inspect(callback: Callable[[T], object], stream: Iterable[T]) -> Iterator[T]:
    """The same stream; the callback is called with each value.  Source: [RZ] 2.9.6."""
    for value in stream:
        callback(value)
        yield value


# --- queries ------------------------------------------------------------------------------------


def query(built: Expr | Term) -> Callable[..., ZSet]:
    """A term whose value is a bag, as a function of its sources, which are passed as keywords.

    >>> from mrql.algebra import build as b
    >>> longer = query(b.filter(lambda x: x > 1, b.stream("S", "{int}")))
    >>> longer(S=ZSet.of([1, 2, 2])) == ZSet.of([2, 2])
    True

    Raises: ValueError if an element of a source has a negative weight: a query is over bags.
    """
    term = _bag_term(built)

    def answer(**sources: ZSet) -> ZSet:
        return ZSet.of(evaluate(term, {name: rows.bag() for name, rows in sources.items()}))

    return answer


def maintained(built: Expr | Term, batches: Iterable[Mapping[str, ZSet]], **tables: Bag) -> Iterator[ZSet]:
    """The changes of the answer for each batch of changes of the streams, computed by a view in the reference engine.

    The value of the term is a bag, and the sum of the changes is the answer. Static tables are passed as keywords.

    Raises: UserError when the query has no value for the data, or a deleted row is not there.
    """
    term = _bag_term(built)
    view = ReferenceView(plan_query(term, PlanOptions(frozenset(stream_names(term)))).plan, tables)

    def answers() -> Iterator[ZSet]:
        for batch in batches:
            view.apply(batch)
            yield ZSet.of(_bag(view.answer()))

    return differentiate(answers())


def _bag_term(built: Expr | Term) -> Term:
    term = built.term if isinstance(built, Expr) else built
    fault = first_fault(term)
    if fault is not None:
        raise UserError(fault.message, fault.term.span)
    if not isinstance(term.type, ty.BagType):
        raise UserError(f"a query over weighted bags gives a bag, not {term.type}")
    return term


def _bag(value: Value) -> Bag:
    assert isinstance(value, Bag)
    return value
