"""How much a term may grow by a rule that copies a part of it: a function to each side of a union, or a value to each
use of its name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import occurrences
from mrql.algebra.errors import UserError
from mrql.algebra.terms import Empty, Get, Lit, Nth, Rec, Repeat, Single, Stream, Term, Tup, Union, Var

COPIED_MAX_TERMS = 5_000
"""The largest number of subterms of the copies of a function at all sides of a union; 20 times that if a stream is
read."""


def may_be_copied(body: Term, union: Union) -> bool:
    """Whether a function may be copied to each side of a union. Nested generators over constants would grow to the
    product of their lengths; if nothing reads a stream, the function can as well be evaluated for each element.

    Raises: UserError where a stream is read, and the copies would be too large.
    """
    sides = sum(1 for _ in _sides(union))
    size = sum(1 for _ in islice(subterms(body), COPIED_MAX_TERMS + 1))
    if sides * size <= COPIED_MAX_TERMS:
        return True
    if not any(isinstance(part, Stream) for term in (body, *_sides(union)) for part in subterms(term)):
        return False
    if sides * size <= 20 * COPIED_MAX_TERMS:
        return True
    message = f"this becomes too large: a union of {sides:,} parts stands before what it is joined with"
    raise UserError(message, union.span, "`store x := e;` evaluates a union once")


def _sides(term: Term) -> Iterator[Term]:
    waiting = [term]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Union):
            waiting += [part.right, part.left]
        else:
            yield part


INLINED_MAX_PARTS = 1_000
"""The largest number of subterms by which a term may grow when a value that reads a stream replaces its name."""


def inlines(name: str, value: Term, body: Term) -> bool:
    """Whether a value replaces its name. A cheap one does, and one that is used once; one that reads streams and has no
    loop does too, as the terms above it may then be kept up to date with it, unless the term grows too much: where each
    name uses the one before it twice, the size doubles with each."""
    uses = occurrences(body, name)
    if cheap(value) or uses <= 1:
        return True
    parts = tuple(subterms(value))
    if not any(isinstance(t, Stream) for t in parts) or any(isinstance(t, Repeat) for t in parts):
        return False
    return len(parts) * (uses - 1) <= INLINED_MAX_PARTS


def cheap(term: Term) -> bool:
    """Whether computing the term twice costs no more than reading it twice."""
    match term:
        case Var() | Lit() | Empty():
            return True
        case Nth(inner, _) | Get(inner, _):
            return cheap(inner)
        case Tup(items):
            return all(map(cheap, items))
        case Rec(fields):
            return all(cheap(item) for _, item in fields)
        case Single(item):
            return cheap(item)
        case _:
            return False
