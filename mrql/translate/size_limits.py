"""Limits on the size of what names stand for.

A macro, a function and a definition are expanded wherever they are named. If each names the one before it twice, twenty
lines become a million parts: that is an error, which says the name, before it is built.
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
"""The largest number of parts of a statement besides those that are written."""
COPIED_MAX_PARTS = 20_000
"""The largest number of parts of a statement's term that are copies, because a definition is named more than once."""
CALLS_MAX_LEVELS = 500
"""The largest depth of function calls that are nested in each other."""
HINT = "`store x := e;` evaluates what it names once; a `let` names a value in an expression"


@attrs.define
class SizeBudget:
    """How many more parts of expressions of a statement may be gone through, and how deep calls are nested."""

    left: int = EXPANDED_MAX_PARTS
    called: int = 0
    """The depth of function calls that are nested in each other."""

    def begin(self, span: Span) -> None:
        """Begins a statement, which is written with at most as many parts as characters."""
        self.left = EXPANDED_MAX_PARTS + span.end - span.start

    def spend(self, span: Span) -> None:
        """Counts one more part.

        Raises: UserError where there are too many.
        """
        self.left -= 1
        if self.left < 0:
            message = f"functions and macros make too much of this: more than {EXPANDED_MAX_PARTS:,} parts"
            raise UserError(message, span, HINT)

    @contextmanager
    def call(self, span: Span) -> Iterator[None]:
        """Counts a function call, as long as the function is expanded.

        Raises: UserError where too many calls are nested in each other.
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
    """The sizes of the terms of a program. A part is measured once, however many statements contain it."""

    known: dict[int, Size] = attrs.Factory(dict)
    """The sizes by the identities of terms: two equal terms are two parts, unless they are one object."""

    def check_copies(self, term: Term, name: str | None, span: Span) -> None:
        """Checks the size of a term, in which a shared part counts at each occurrence, since each is rewritten.

        Raises: UserError where there are too many copies.
        """
        size = self.of(term)
        if size.parts - size.distinct > COPIED_MAX_PARTS:
            # Seldom: the count is kept, and is the lower bound for terms that contain this one.
            size.distinct = _distinct(term)
        if size.parts - size.distinct > COPIED_MAX_PARTS:
            what = "this" if name is None else f"`{name}`"
            copied = f"definitions that it names stand in it in more than {COPIED_MAX_PARTS:,} parts"
            raise UserError(f"{what} becomes too large: {copied}", span, HINT)

    def of(self, term: Term) -> Size:
        """The size of a term; only the parts that are new are visited."""
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
    """The size of a term."""

    term: Term = attrs.field(repr=False)
    """The term, kept so that no other one gets its `id`."""
    parts: int
    """The number of parts, each counted at every occurrence."""
    distinct: int
    """A lower bound for the number of parts, each counted once."""


def _distinct(term: Term) -> int:
    seen: set[int] = set()
    waiting = [term]
    while waiting:
        part = waiting.pop()
        if id(part) not in seen:
            seen.add(id(part))
            waiting += children(part)
    return len(seen)
