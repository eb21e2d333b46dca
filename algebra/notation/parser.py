"""Reads the notation that `show` writes.  The grammar is `term.lark`.

A term's text is not complete: the caller provides the streams, and the types of free variables. A bare name is the
innermost variable of that name, else a free variable, else a stream; `stream S` is always the stream.

Beyond what `show` writes the reader takes `{a, b}` for `{a} ⊎ {b}`, `{}`, `[]` and `null` without a type (that of
`nothing`), `\\` for `λ`, and any white space.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from mrql.algebra import functions as fn
from mrql.algebra import monoids
from mrql.algebra.errors import UserError
from mrql.algebra.functions import Function
from mrql.algebra.monoids import Monoid
from mrql.algebra.notation.term_reader import Scope, TermReader
from mrql.algebra.notation.trees import tree_of
from mrql.algebra.notation.typecheck import first_fault
from mrql.algebra.span import Source
from mrql.algebra.terms import Stream, Term
from mrql.algebra.types import Type

Streams: TypeAlias = Mapping[str, Type | Stream | str]


def parse(
    text: str,
    streams: Streams | None = None,
    variables: Scope | None = None,
    functions: Mapping[str, Function] = fn.FUNCTIONS,
    folds: Mapping[str, monoids.Fold] | None = None,
) -> Term:
    """The term that `text` stands for; it is well formed (`check`).

    `streams` says what each data source is (a term, or its type, also written as text), `variables` gives the types of
    the free variables, `folds` the monoids that a query has defined.

    >>> print(parse("{x + 1}", variables={"x": parse_type("long")}).type)
    {long}

    Raises: UserError with the place in the text.
    """
    source = Source("<term>", text)
    tree = tree_of(source, "term")
    known = {name: parse_type(t) if isinstance(t, str) else t for name, t in (streams or {}).items()}
    term = TermReader(source, known, functions, folds or {}).term(tree, variables or {})
    fault = first_fault(term, variables)
    if fault is not None:
        raise UserError(fault.message, fault.term.span)
    return term


def parse_type(text: str) -> Type:
    """The type that `text` stands for.

    >>> print(parse_type("{<A: long, B: (int, [string])>}"))
    {<A: long, B: (int, [string])>}

    Raises: UserError with the place in the text.
    """
    source = Source("<type>", text)
    return TermReader(source, {}, {}).type(tree_of(source, "type"))


def parse_monoid(text: str) -> Monoid:
    """The monoid that `text` stands for.

    >>> print(parse_monoid("⇑(+ × ⊎)"))
    ⇑(+ × ⊎)

    Raises: UserError with the place in the text.
    """
    source = Source("<monoid>", text)
    return TermReader(source, {}, {}).monoid(tree_of(source, "monoid"))
