"""The errors of an evaluation, with the place in the query and a hint."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.errors import OF_INTS, EvaluationError, IntegerOverflow, UserError
from mrql.algebra.span import Span
from mrql.algebra.terms import Prim, Repeat, Term
from mrql.algebra.types import INT

T = TypeVar("T")


def with_place(term: Term, compute: Callable[[], T]) -> T:
    """The result of a computation for a term.

    Raises: UserError with the place of the term if the computation fails.
    """
    try:
        return compute()
    except EvaluationError as error:
        hint = OF_INTS if isinstance(error, IntegerOverflow) and _is_of_ints(term) else error.hint
        raise UserError(str(error), term.span, hint) from error.__cause__  # the exception of a Python callable


def place_of(term: Term) -> Span | None:
    """The place of a term; if a rewrite has made it, that of its first part with a place."""
    return next((part.span for part in subterms(term) if part.span is not None), None)


def _is_of_ints(term: Term) -> bool:
    return isinstance(term, Prim) and all(arg.type == INT for arg in term.args)


def endless(term: Repeat) -> UserError:
    """The error for a loop without a limit that has not ended after its `most` steps."""
    after = f"after {term.most:,} step{'' if term.most == 1 else 's'}"
    unless = "its condition is still true" if term.condition is not None else "it still changes"
    message = f"this loop does not end: {after} {unless}"
    return UserError(message, term.span, "`limit` ends it; `--max-steps N` gives it more steps")
