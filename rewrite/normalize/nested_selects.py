"""Nested selects: their place in the enclosing term, and their value once they are joined with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from mrql.algebra.analysis.integer_ranges import may_overflow
from mrql.algebra.analysis.traversal import children
from mrql.algebra.analysis.variables import alpha_equal, scopes
from mrql.algebra.evaluation.may_fail import Guard, guarded, guards, may_fail
from mrql.algebra.terms import CMap, Lambda, Lit, Pattern, PVar, Term, Var
from mrql.rewrite.analysis.join_predicates import apart, guard, reads_sources


@attrs.frozen
class Nested:
    """A nested comprehension `{h | q ∈ Y, conditions}` and its place: the path of child positions.

    `local` are the variables bound on that path, `under` the conditions under which it is evaluated.
    """

    path: tuple[int, ...]
    term: CMap
    local: frozenset[str]
    under: tuple[Guard, ...]

    @property
    def is_known_outside(self) -> bool:
        """Whether the conditions that it is evaluated under are known for all outer elements."""
        # A variable bound on the path may be that of a collection, which may be empty.
        return not self.local and not any(reads_sources(guard.condition) for guard in self.under)

    def outside(self, key: Term, own: tuple[Term, ...]) -> Term | None:
        """A key as it is computed for all outer elements: where it may end in an error, under the conditions that the
        select is evaluated under, and its `own`. None if it may fail, and those are not known there."""
        under = (*self.under, *(Guard(condition, True) for condition in own))
        if not may_end_in_an_error(key):
            return key
        if self.is_known_outside:
            return guarded(key, under, Lit(None, key.type))
        return None if may_fail(key) else key

    def inside(self, key: Term) -> Term | None:
        """A key as it is computed for all elements of Y; None if it may fail, and a condition that reads a source
        guards it."""
        return None if may_fail(key) and any(reads_sources(guard.condition) for guard in self.under) else key


@attrs.frozen
class Correlated:
    """A nested comprehension that an equality links with the outer variables.

    `left` is the key of an outer element, `right` has the elements of the nested select by key. `matches` is its value
    over the matching elements, the bag `ys`: the head, where the conditions in `rest` hold.
    """

    path: tuple[int, ...]
    left: Term
    rest: tuple[Term, ...]
    element: Term
    right: Term
    pattern: Pattern
    head: Term

    def matches(self, ys: PVar) -> Term:
        return CMap(Lambda(self.pattern, guard(self.rest, self.head)), Var(ys.name, ys.type))

    def shares_join(self, other: Correlated) -> bool:
        """Whether the same elements match in both."""
        return self.left == other.left and alpha_equal(self.right, other.right)


def may_end_in_an_error(term: Term) -> bool:
    """Whether a term may fail or leave its range. Overflows count here, as testing a condition first gives up no
    join."""
    return may_fail(term) or may_overflow(term)


def for_all_of(conditions: tuple[Term, ...], side: frozenset[str]) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """The conditions on one side alone that can be evaluated for all of its elements without error, and the others."""
    own = [condition for condition in apart(conditions, side)[0] if not may_end_in_an_error(condition)]
    return tuple(own), tuple(condition for condition in conditions if condition not in own)


def nested_selects(
    term: Term,
    is_wanted: Callable[[CMap], bool],
    path: tuple[int, ...] = (),
    local: frozenset[str] = frozenset(),
    under: tuple[Guard, ...] = (),
) -> Iterator[Nested]:
    """The comprehensions in a term that read a source and for which `is_wanted` holds, outermost first."""
    if not reads_sources(term):
        return
    if isinstance(term, CMap) and is_wanted(term):
        yield Nested(path, term, local, under)
    for i, (child, bound, own) in enumerate(zip(children(term), scopes(term), guards(term), strict=True)):
        yield from nested_selects(child, is_wanted, (*path, i), local | bound, (*under, *own))
