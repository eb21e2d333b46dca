"""A loop with a known number of steps, unrolled: each step is a part of the query that is kept up to date by itself.

*Equation*:

    repeat(λx. s, n, e)  =  let x = e in let x = s in … let x = s in x        with n steps

In a plan each value of x but the last is a derived stream, whose changes the next step reads. So a batch of changes
goes through the steps 1 … n, and each keeps the state that it needs.

With a threshold, changes of a value of at most that size are held back from the next step until it has changed by more.
So each step reads, to within the threshold, the result of the step before.

*Requires*: a limit that is a constant and no condition, since with a condition the number of steps depends on the data;
and that the loop carries bags, or a tuple of bags.

*Source*: [DBSP] §6 (a loop as a circuit with a delay, unrolled), Prop. 3.2.
"""

from __future__ import annotations

from collections.abc import Callable

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import substitute
from mrql.algebra.terms import Let, Lit, Nth, Pattern, PTuple, PVar, Repeat, Term, Tup
from mrql.rewrite.normalize.normalize import normalize

UNROLLED_MAX_STEPS = 100
"""The largest number of steps that are kept up to date one by one, as each has a state."""


def obstacle(loop: Repeat) -> str | None:
    """Why a loop cannot be unrolled, if it cannot.

    >>> from mrql.algebra.notation.parser import parse
    >>> sources = {"E": "{long}"}
    >>> obstacle(parse("repeat(λx. x ⊎ E, 3, E)", sources))
    >>> obstacle(parse("repeat(λx. x ⊎ E, 300, E)", sources))
    'it takes more than 100 steps'
    """
    match loop.limit:
        case None:
            return "it has no limit"
        case Lit(int() as steps) if steps > UNROLLED_MAX_STEPS:
            return f"it takes more than {UNROLLED_MAX_STEPS} steps"
        case Lit(int()):
            pass
        case _:
            return "its limit depends on the data"
    if loop.condition is not None:
        return "the data say when it ends"
    if not carries_bags(loop.function.param):
        return "it carries more than bags"
    return None


def unroll(loop: Repeat, passed_on: Callable[[Term], Term]) -> Term:
    """The value of a loop after its last step; `passed_on` gives the term that the next step reads for a value.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> loop = parse("repeat(λx. cMap(λy. {y + 1L}, x), 2, E)", {"E": "{long}"})
    >>> show(unroll(loop, lambda value: value))
    'cMap(λy1. {y1 + 1L + 1L}, E)'
    """
    assert isinstance(loop.limit, Lit)
    assert isinstance(loop.limit.value, int)
    value = loop.source
    for _ in range(loop.limit.value):
        carried = _bound(loop.function.param, value, passed_on)
        value = normalize(substitute(loop.function.body, carried))
    return value


def carries_bags(param: Pattern) -> bool:
    """Whether a loop carries a bag, or a tuple of bags."""
    match param:
        case PTuple(items):
            return all(map(carries_bags, items))
        case _:
            return isinstance(param.type, ty.BagType)


def _bound(param: Pattern, value: Term, passed_on: Callable[[Term], Term]) -> dict[str, Term]:
    """The terms for the variables of a pattern."""
    match param:
        case PVar(name, _):
            return {name: passed_on(value)}
        case PTuple(items):
            parts = [_bound(item, part(value, i), passed_on) for i, item in enumerate(items)]
            return {name: term for bound in parts for name, term in bound.items()}
        case _:
            return {}


def part(value: Term, index: int) -> Term:
    """The part of a tuple at an index, without what only the others need."""
    match value:
        case Tup(items):
            return items[index]
        case Let(pattern, bound, body):
            return normalize(Let(pattern, bound, part(body, index)))
        case _:
            return Nth(value, index)
