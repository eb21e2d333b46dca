"""`m[key]` in a term: `if is_null(key) then null else only(…)`. An error says under which key there is nothing.

The key stands in the condition alone: as an argument of `only` it would be a part of what a state is, and of its name.
So one of which a pass has found that it is there, and has left the condition out, is not named: a count, say.
"""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.functions import FUNCTIONS, IS_NULL, ONLY
from mrql.algebra.terms import Cast, If, Lit, Prim, Term


def key_in_words(term: If) -> Term | None:
    """The key of a lookup, as text, about as the language writes it; None where a term is no lookup, or the key of one
    is not atomic."""
    match term:
        case If(Prim(test, (key,)), Lit(None), Prim(function, (_,))) if (test, function) == (IS_NULL, ONLY):
            return _in_words(key)
        case _:
            return None


def _in_words(key: Term) -> Term | None:
    match key.type:
        case ty.STRING:
            return _joined(Lit('the key "', ty.STRING), key, Lit('"', ty.STRING))
        case ty.BYTES:
            digits = Prim(FUNCTIONS["hex"], (key,))
            return _joined(Lit('the key unhex("', ty.STRING), digits, Lit('")', ty.STRING))
        case ty.Basic() as t if not ty.is_document(t):
            return _joined(Lit("the key ", ty.STRING), Cast(key, ty.STRING))
        case _:
            return None


def _joined(*texts: Term) -> Term:
    return Prim(FUNCTIONS["concat"], texts)
