"""A query that is kept up to date prints no traces.

*Equation*: `trace(e) → e`.

A trace prints a whole value, but a batch computes only what changes.
"""

from __future__ import annotations

from typing import TypeGuard

from mrql.algebra.analysis.traversal import bottom_up, subterms
from mrql.algebra.functions import TRACE
from mrql.algebra.terms import Prim, Term


def drop_traces(term: Term) -> Term:
    """The term without its traces.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> show(drop_traces(parse("trace(1) + 2")))
    '1 + 2'
    """
    return bottom_up(term, _identity) if any(map(is_trace, subterms(term))) else term


def is_trace(term: Term) -> TypeGuard[Prim]:
    return isinstance(term, Prim) and term.function == TRACE


def _identity(term: Term) -> Term:
    return term.args[0] if is_trace(term) else term
