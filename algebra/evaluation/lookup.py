"""`m[key]` in a term: `if is_null(key) then null else only(…)`. The error of a failed lookup names the key.

The key occurs in the condition only: as an argument of `only` it would be a part of a state, and of its name. So an
error does not name a key that cannot be missing, such as a count, if a pass has removed the condition.
"""

from __future__ import annotations

from mrql.algebra import types as ty
from mrql.algebra.functions import FUNCTIONS, IS_NULL, ONLY
from mrql.algebra.terms import Cast, If, Lit, Prim, Term


def key_in_words(term: If) -> Term | None:
    """A term for the key of a lookup as text, much as the language writes it; None if the term is not a lookup, or its
    key is not atomic."""
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
