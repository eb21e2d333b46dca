"""Parts that are the same in all steps of a loop are computed once, before it.

*Equation*: where c names nothing that the loop binds,

    repeat(λx. e[c], n, a)   →   let y = c in repeat(λx. e[y], n, a)

*Requires*: it is worthwhile to move c, which the caller decides.

*Source*: loop-invariant code motion, as in compilers.
"""

from __future__ import annotations

from collections.abc import Callable

from mrql.algebra.analysis.traversal import children, with_children
from mrql.algebra.analysis.variables import Names, all_names, bound_names, free_vars, scopes, step_of, with_step
from mrql.algebra.terms import Repeat, Term, Var


def invariants(loop: Repeat, names: Names, is_worthwhile: Callable[[Term], bool]) -> tuple[Repeat, dict[str, Term]]:
    """The loop with the largest invariant parts of its step replaced by variables, and the terms of these variables.

    A part is moved if it uses no variable that is bound in the loop, and `is_worthwhile` holds for it.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> loop = parse("repeat(λx. x ⊎ cMap(λy. {y + 1L}, E), 3, E)", {"E": "{long}"})
    >>> found, parts = invariants(loop, Names(), lambda part: part.type == loop.type)
    >>> show(found), {name: show(part) for name, part in parts.items()}
    ('repeat(λx. x ⊎ c, 3, E)', {'c': 'cMap(λy. {y + 1L}, E)'})
    """
    names.taken |= all_names(loop)
    parts: dict[str, Term] = {}

    def visit(term: Term, local: frozenset[str]) -> Term:
        if not free_vars(term) & local and is_worthwhile(term):
            name = next((known for known, part in parts.items() if part == term), None) or names.fresh("c")
            parts[name] = term
            return Var(name, term.type, span=term.span)
        inner = zip(children(term), scopes(term), strict=True)
        new = tuple(visit(child, local | bound) for child, bound in inner)
        return with_children(term, new)

    param = loop.function.param
    return with_step(loop, param, visit(step_of(loop), bound_names(param))), parts
