"""Terms that read the value of a loop, rewritten over the sources that hold that value."""

from __future__ import annotations

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import alpha_equal, match_pattern, substitute
from mrql.algebra.terms import Get, Let, Nth, Repeat, Term
from mrql.rewrite.normalize.normalize import normalize
from mrql.runtime.spark.compiler import loops
from mrql.runtime.spark.compiler.protocol import TermCompiler


def opened_term(compiler: TermCompiler, term: Term) -> Term:
    """A term that takes the value of a loop, or a part of it, rewritten over the sources that hold the value.

    A `let` of a collection that reads sources is substituted. Any other term is returned as it is.
    """
    match term:
        case Repeat():
            return loop_value(compiler, term)
        case Nth(inner, _) | Get(inner, _) if (value := opened_term(compiler, inner)) is not inner:
            return normalize(attrs.evolve(term, term=value))
        case Let(pattern, value, body) if compiler.reads(value) or isinstance(value, Repeat):
            known = opened_term(compiler, value)
            if known is not value or ty.is_collection(value.type):
                return normalize(substitute(body, match_pattern(pattern, known)))
            return term
        case _:
            return term


def loop_value(compiler: TermCompiler, term: Repeat) -> Term:
    """The value of a loop without free variables, as a term. The loop is run, unless it has been run before."""
    for known, value in compiler.loops:
        if alpha_equal(known, term):
            return value
    value, frames = loops.run(term, compiler, compiler.kept)
    compiler.sources |= frames
    compiler.names.taken |= frames.keys()
    compiler.loops.append((term, value))
    return value
