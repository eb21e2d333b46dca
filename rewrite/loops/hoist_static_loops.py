"""A loop over static tables alone is a static table: it is run once, and not in each batch.

*Equation*: with L a static table that holds the value of `repeat(f, n, e)`, where f and e read static tables alone,

    h(repeat(f, n, e), S)  =  h(L, S)

*Requires*: the loop has the type of a bag, and no free variable.

*Source*: ours.
"""

from __future__ import annotations

from collections.abc import Set

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names, alpha_equal, free_vars, stream_names, taken_names
from mrql.algebra.evaluation.may_fail import map_guarded, may_fail
from mrql.algebra.terms import Repeat, Stream, Term


def hoist_static_loops(term: Term, taken: Set[str] = frozenset()) -> tuple[Term, tuple[tuple[str, Term], ...]]:
    """The term with each loop over static tables replaced by a static table with a name that is not `taken`, and these
    loops by the names of their tables.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> sources = {"S": "{long}", "R": Stream("R", ty.BagType(ty.LONG), static=True)}
    >>> term, found = hoist_static_loops(parse("cMap(λx. {x}, S ⊎ repeat(λy. y ⊎ R, 3, R))", sources))
    >>> show(term), [(name, show(loop)) for name, loop in found]
    ('cMap(λx. {x}, S ⊎ L1)', [('L1', 'repeat(λy. y ⊎ R, 3, R)')])
    """
    names = Names({*taken_names(term), *taken})
    found: list[tuple[str, Term]] = []

    def visit(part: Term, is_guarded: bool) -> Term:
        # A loop that may fail, under a condition, is evaluated only where that holds.
        if not isinstance(part, Repeat) or not _is_static_bag(part) or (is_guarded and may_fail(part)):
            return map_guarded(part, visit, is_guarded)
        name = next((known for known, loop in found if alpha_equal(loop, part)), None)
        if name is None:
            name = names.fresh("L1")
            found.append((name, part))
        return Stream(name, part.type, static=True, span=part.span)

    return visit(term, False), tuple(found)


def _is_static_bag(loop: Repeat) -> bool:
    return isinstance(loop.type, ty.BagType) and not free_vars(loop) and not stream_names(loop)
