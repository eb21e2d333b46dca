"""The operators of streams, as combinators over the terms: the contents of a stream at all times are data here.

A *trace* is a bag of rows `(element, time, weight)`, the Z-set of [RZ] 2.1. A time is a whole number, that of a batch,
and in `distinct_trace` it may be a pair. A weight is a whole number, which may be negative; the weights of an element
at one time add up, and with a sum of 0 it is not there.

    >>> from mrql.algebra import build as b
    >>> b.negate(b.stream("S", "{(string, int, int)}"))
    cMap(λ(x, time, weight). {(x, time, -weight)}, S)

A time may have no rows. So a trace does not say how long its stream is; where that matters, a separate bag, the clock,
has all times.
"""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.build.expression import Expr, Operand, expr, lit, tup
from mrql.algebra.build.lambdas import Body
from mrql.algebra.build.operators import distinct, map
from mrql.algebra.build.terms import cmap, filter, group_by, if_, let, single, sum, union, where
from mrql.algebra.errors import UserError
from mrql.algebra.terms import element_type
from mrql.algebra.types import Type

# --- weights ------------------------------------------------------------------------------------


def negate(trace: Operand) -> Expr:
    """The trace with negated weights: linear.  Source: [RZ] 2.9.8.

    Raises: UserError if it is not a trace.
    """
    return map(lambda x, time, weight: (x, time, -weight), _trace(trace))


def minus(left: Operand, right: Operand) -> Expr:
    """The weights of a trace less those of another one, at each time: linear.  Source: [RZ] 2.9.14.

    Raises: UserError if one of them is not a trace.
    """
    return _netted(union(_trace(left), negate(right)))


def consolidate(trace: Operand) -> Expr:
    """`{(element, weight)}`: all changes as one, without their times.  Source: [RZ] 2.9.2.

    Raises: UserError if it is not a trace.
    """
    return _totals(map(lambda x, _time, weight: (x, weight), _trace(trace)))


# --- times --------------------------------------------------------------------------------------


def delay(trace: Operand, clock: Operand) -> Expr:
    """`z⁻¹`: at each time of the clock the contents at the time before, and nothing at 0: linear.

    Source: [DBSP] §2.1; [RZ] 2.9.9 and 2.9.10; [ST] Delays.

    Raises: UserError if it is not a trace, or the clock not a bag of whole numbers.
    """
    return _at(clock, map(lambda x, time, weight: (x, time + 1, weight), _timed(trace)))


def integrate(trace: Operand, clock: Operand) -> Expr:
    """`I`: at each time of the clock the sum up to then. The result is as large as all these sums together.

    Source: [DBSP] §2.2; [ST] Integration.

    Raises: UserError if it is not a trace, or the clock not a bag of whole numbers.
    """
    times = _clock(clock)

    def from_then_on(x: Expr, time: Expr, weight: Expr) -> Expr:
        return cmap(lambda now: where(time <= now, single((x, now, weight))), times)

    return _netted(cmap(from_then_on, _timed(trace)))


def differentiate(trace: Operand, clock: Operand) -> Expr:
    """`D`: at each time of the clock the contents less those at the time before: linear.

    Source: [DBSP] §2.2; [ST] Differentiation.

    Raises: UserError if it is not a trace, or the clock not a bag of whole numbers.
    """
    return minus(_at(clock, _timed(trace)), delay(trace, clock))


def distinct_trace(trace: Operand) -> Expr:
    """The changes at each time of the set of present elements: `distinct` of the sum so far, differentiated again.

    A time may be a pair, an epoch and an iteration in it: the sum is then up to both, and so is the difference.
    A batch recomputes its own elements, at all their times.  Source: [RZ] 2.9.11 and 2.9.18.

    Raises: UserError if it is not a trace.
    """
    checked = _trace(trace)
    time = _time_type(checked)
    if ty.is_integral(time):
        changes = _changes_in_one_direction
    elif isinstance(time, ty.TupleType) and len(time.items) == 2 and all(ty.is_integral(part) for part in time.items):
        changes = _changes_in_two_directions
    else:
        raise UserError(f"a time is a whole number or a pair of them, not {time}")
    return cmap(changes, group_by(map(lambda x, time, weight: (x, (time, weight)), checked)))


def _changes_in_one_direction(x: Expr, history: Expr) -> Expr:
    def at(now: Expr) -> Expr:
        change = _is_there(history, lambda t: t <= now) - _is_there(history, lambda t: t < now)
        return _weighted(x, now, change)

    return cmap(at, distinct(map(lambda time, _weight: time, history)))


def _changes_in_two_directions(x: Expr, history: Expr) -> Expr:
    epochs = distinct(map(lambda time, _weight: time[0], history))
    iterations = distinct(map(lambda time, _weight: time[1], history))

    def at(epoch: Expr, iteration: Expr) -> Expr:
        new = _is_there(history, lambda t: (t[0] <= epoch) & (t[1] <= iteration))
        new -= _is_there(history, lambda t: (t[0] <= epoch) & (t[1] < iteration))
        old = _is_there(history, lambda t: (t[0] < epoch) & (t[1] <= iteration))
        old -= _is_there(history, lambda t: (t[0] < epoch) & (t[1] < iteration))
        return _weighted(x, tup(epoch, iteration), new - old)

    return cmap(lambda epoch: cmap(lambda iteration: at(epoch, iteration), iterations), epochs)


# --- inside -------------------------------------------------------------------------------------


def _is_there(history: Expr, counts: Body) -> Expr:
    """1 if the weights at the times for which `counts` holds add up to more than 0, else 0."""
    weights = map(lambda _time, weight: weight, filter(lambda row: counts(row[0]), history))
    return if_(sum(weights) > 0, lit(1, ty.LONG), lit(0, ty.LONG))


def _weighted(x: Operand, time: Operand, weight: Expr) -> Expr:
    """A row, if its weight is not 0."""
    return let(weight, lambda w: where(w != 0, single((x, time, w))))


def _at(clock: Operand, trace: Expr) -> Expr:
    """The rows at the times of the clock."""
    times = _clock(clock)

    def then(x: Expr, time: Expr, weight: Expr) -> Expr:
        return cmap(lambda now: where(now == time, single((x, now, weight))), times)

    return cmap(then, trace)


def _netted(trace: Expr) -> Expr:
    """A trace with one row for each element and time, if its weight is not 0."""
    totals = _totals(map(lambda x, time, weight: ((x, time), weight), trace))
    return map(lambda at, weight: (at[0], at[1], weight), totals)


def _totals(weighted: Expr) -> Expr:
    """Each element with the sum of its weights, if that is not 0."""

    def total(x: Expr, weights: Expr) -> Expr:
        return let(sum(weights), lambda weight: where(weight != 0, single((x, weight))))

    return cmap(total, group_by(weighted))


def _clock(clock: Operand) -> Expr:
    """The times of a clock, each once."""
    bag_of_times = expr(clock)
    if not (isinstance(bag_of_times.type, ty.BagType) and ty.is_integral(element_type(bag_of_times.term))):
        raise UserError(
            f"a clock is a bag of whole numbers, not {bag_of_times.type}", hint='b.stream("clock", "{int}")'
        )
    return distinct(bag_of_times)


def _timed(trace: Operand) -> Expr:
    """A trace whose times are whole numbers, so that each has a next one."""
    checked = _trace(trace)
    if not ty.is_integral(_time_type(checked)):
        raise UserError(f"a time is a whole number, not {_time_type(checked)}")
    return checked


def _trace(trace: Operand) -> Expr:
    rows = expr(trace)
    row = element_type(rows.term) if isinstance(rows.type, ty.BagType) else None
    if not (isinstance(row, ty.TupleType) and len(row.items) == 3 and ty.is_integral(row.items[2])):
        raise UserError(
            f"a trace is a bag of rows (element, time, weight) with whole numbers as weights, not {rows.type}",
            hint='b.stream("S", "{(string, int, int)}")',
        )
    return rows


def _time_type(trace: Expr) -> Type:
    row = element_type(trace.term)
    assert isinstance(row, ty.TupleType)
    return row.items[1]
