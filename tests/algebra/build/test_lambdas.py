"""Functions of Python as `λ`s: how their variables are named."""

from __future__ import annotations

from mrql.algebra import build as b
from mrql.algebra import types as ty
from mrql.algebra.build import Expr
from mrql.algebra.notation.typecheck import check

S = b.stream("S", "{<A: long, B: string>}")
X = b.var("x", "long")


def pairs_with(e: Expr) -> Expr:
    return b.cmap(lambda x: b.single((x.A, e)), S)


def test_inner_variables_do_not_capture() -> None:
    """A helper's own `x` is different from the caller's `x`."""
    built = b.cmap(lambda x: pairs_with(x.B), S)
    assert str(built) == "cMap(λx. cMap(λx1. {(x1.A, x.B)}, S), S)"
    check(built.term)


def test_free_variables_are_not_captured() -> None:
    """A parameter with the name of a free variable in the body gets another name."""
    built = b.cmap(lambda x: b.single((x.A, X)), S)
    assert str(built) == "cMap(λx1. {(x1.A, x)}, S)"
    check(built.term, {"x": ty.LONG})


def test_hidden_names_are_reused() -> None:
    """Variables of functions that do not use each other may share a name."""
    built = b.cmap(lambda x: b.cmap(lambda x: b.single(x.A), S), S)
    assert str(built) == "cMap(λx. cMap(λx. {x.A}, S), S)"


def test_building_is_repeatable() -> None:
    """The same code builds the same term, names included."""

    def build() -> Expr:
        return b.cmap(lambda x: pairs_with(b.sum(b.single(x.A))), S)

    assert build().term == build().term
