"""Generators `p in e` after `from`, `some` and `all`, each of which sees the variables of those before it.

    {z | p ∈ e1, q ∈ e2, c, z ∈ e}  =  cMap(λp. cMap(λq. if c then e else {}, e2), e1)

A constant or a name that occurs twice in a pattern is a condition like any other.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.functions import AND
from mrql.algebra.terms import CMap, Empty, If, Lambda, Pattern, Prim, Term, element_type
from mrql.translate.json_values import as_collection
from mrql.translate.patterns import Match, match_pattern
from mrql.translate.scope import Scope


@attrs.frozen
class From:
    """Translated generators: patterns with their sources, the bindings and conditions, and the scope behind them."""

    generators: tuple[tuple[Pattern, Term], ...]
    match: Match
    scope: Scope


def translate_generators(generators: tuple[syntax.Generator, ...], scope: Scope, word: str = "from") -> From:
    """Generators with patterns of the algebra; `word` is the keyword before them, for error messages.

    Raises: UserError where a source is no collection, or its elements do not have the form of the pattern.
    """
    match = Match()
    translated = []
    for generator in generators:
        source = as_collection(scope.bind(match.bindings).translate(generator.source))
        if not ty.is_collection(source.type):
            raise UserError(f"`{word}` takes a collection, not {source.type}", generator.source.span)
        pattern = match_pattern(generator.pattern, element_type(source), scope.globals, match)
        translated.append((pattern, source))
    return From(tuple(translated), match, scope.bind(match.bindings))


def nest(generators: tuple[tuple[Pattern, Term], ...], body: Term) -> Term:
    """`{z | p ∈ e1, q ∈ e2, z ∈ body}`."""
    for pattern, source in reversed(generators):
        body = CMap(Lambda(pattern, body), source)
    return body


def guard(conditions: Iterable[Term], then: Term) -> Term:
    """`if c and … then e else {}`."""
    joined: Term | None = None
    for condition in conditions:
        joined = condition if joined is None else Prim(AND, (joined, condition), span=condition.span)
    return then if joined is None else If(joined, then, Empty(then.type), span=joined.span)
