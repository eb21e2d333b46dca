"""How large what names stand for may become.

A macro, a function and a definition are put in wherever they are named. Where each names the one before it twice,
twenty lines are a million parts: that is said, with the name, before it is built.
"""

from __future__ import annotations

import attrs

from mrql.algebra.analysis.traversal import children
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.algebra.terms import Term

MOST_PARTS = 50_000
"""How many parts a statement may have besides those that are written."""
MOST_COPIES = 20_000
"""How many parts of a statement's term may stand in it because a definition is named more than once."""
HINT = "`store x := e;` evaluates what it names once; a `let` names a value in an expression"


@attrs.define
class SizeBudget:
    """How many parts of expressions of a statement have been gone through."""

    left: int = MOST_PARTS

    def begin(self, span: Span) -> None:
        """A statement begins, which has as many parts as characters at most."""
        self.left = MOST_PARTS + span.end - span.start

    def spend(self, span: Span) -> None:
        """One more part.

        Raises: UserError where there are too many.
        """
        self.left -= 1
        if self.left < 0:
            message = f"functions and macros make too much of this: more than {MOST_PARTS:,} parts"
            raise UserError(message, span, HINT)


def check_copies(term: Term, name: str | None, span: Span) -> None:
    """A term that shares parts is as large as if it had each of them apart, since it is rewritten so.

    Raises: UserError where it has too many.
    """
    sizes: dict[int, int] = {}
    waiting = [term]
    while waiting:
        part = waiting[-1]
        inside = children(part)
        open_ = [child for child in inside if id(child) not in sizes]
        if open_:
            waiting += open_
            continue
        waiting.pop()
        sizes[id(part)] = 1 + sum(sizes[id(child)] for child in inside)
    if sizes[id(term)] - len(sizes) > MOST_COPIES:
        what = "this" if name is None else f"`{name}`"
        message = f"{what} becomes too large: definitions that it names stand in it in more than {MOST_COPIES:,} parts"
        raise UserError(message, span, HINT)
