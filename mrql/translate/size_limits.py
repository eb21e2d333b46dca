"""How large what names stand for may become.

A macro, a function and a definition are put in wherever they are named. Where each names the one before it twice,
twenty lines are a million parts: that is said, with the name, before it is built.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from mrql.algebra.analysis.traversal import children
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.algebra.terms import Term

EXPANDED_MAX_PARTS = 50_000
"""How many parts a statement may have besides those that are written."""
COPIED_MAX_PARTS = 20_000
"""How many parts of a statement's term may stand in it because a definition is named more than once."""
CALLS_MAX_LEVELS = 500
"""How many calls of functions may be in each other."""
HINT = "`store x := e;` evaluates what it names once; a `let` names a value in an expression"


@attrs.define
class SizeBudget:
    """How many parts of expressions of a statement have been gone through."""

    left: int = EXPANDED_MAX_PARTS
    called: int = 0
    """How many calls of functions are in each other."""

    def begin(self, span: Span) -> None:
        """A statement begins, which has as many parts as characters at most."""
        self.left = EXPANDED_MAX_PARTS + span.end - span.start

    def spend(self, span: Span) -> None:
        """One more part.

        Raises: UserError where there are too many.
        """
        self.left -= 1
        if self.left < 0:
            message = f"functions and macros make too much of this: more than {EXPANDED_MAX_PARTS:,} parts"
            raise UserError(message, span, HINT)

    @contextmanager
    def call(self, span: Span) -> Iterator[None]:
        """A function is called, and what it calls is followed.

        Raises: UserError where there are too many calls in each other.
        """
        if self.called == CALLS_MAX_LEVELS:
            message = f"more than {CALLS_MAX_LEVELS:,} calls of functions are in each other"
            raise UserError(message, span, "a function that is handed to itself never ends")
        self.called += 1
        try:
            yield
        finally:
            self.called -= 1


@attrs.define
class TermSizes:
    """How large the terms of a program are. A part is looked at once, in however many statements it stands."""

    known: dict[int, Size] = attrs.Factory(dict)
    """By identity: equal parts in two places are two."""

    def check_copies(self, term: Term, name: str | None, span: Span) -> None:
        """A term that shares parts is as large as if it had each of them apart, since it is rewritten so.

        Raises: UserError where it has too many.
        """
        size = self.of(term)
        if size.parts - size.distinct > COPIED_MAX_PARTS:
            # Seldom: what is counted here is not counted again for the terms that have this one in them.
            size.distinct = _distinct(term)
        if size.parts - size.distinct > COPIED_MAX_PARTS:
            what = "this" if name is None else f"`{name}`"
            copied = f"definitions that it names stand in it in more than {COPIED_MAX_PARTS:,} parts"
            raise UserError(f"{what} becomes too large: {copied}", span, HINT)

    def of(self, term: Term) -> Size:
        """The size of a term; what is new in it is counted."""
        known = self.known
        new: set[int] = set()
        before = 0
        waiting = [term]
        while waiting:
            part = waiting.pop()
            if id(part) in known:
                continue
            inside = children(part)
            if open_ := [child for child in inside if id(child) not in known]:
                waiting += (part, *open_)
                continue
            new.add(id(part))
            sizes = [known[id(child)] for child in inside]
            before = max([before, *(known[id(child)].distinct for child in inside if id(child) not in new)])
            distinct = 1 + max((size.distinct for size in sizes), default=0)
            known[id(part)] = Size(part, 1 + sum(size.parts for size in sizes), distinct)
        whole = known[id(term)]
        # What was known before and what is new have no part in common.
        whole.distinct = max(whole.distinct, len(new) + before)
        return whole


@attrs.define
class Size:
    """How large a part of a program is."""

    term: Term = attrs.field(repr=False)
    """It is kept, so that no other one comes to its address."""
    parts: int
    """With each part as often as it stands in it."""
    distinct: int
    """With each part once: at least so many."""


def _distinct(term: Term) -> int:
    seen: set[int] = set()
    waiting = [term]
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            seen.add(id(part))
            waiting += children(part)
    return len(seen)
