"""Terms built in Python: the resulting terms, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mrql.algebra import build as b
from mrql.algebra import functions as fn
from mrql.algebra import monoids as mo
from mrql.algebra import types as ty
from mrql.algebra.build import Expr
from mrql.algebra.errors import UserError
from mrql.algebra.notation.typecheck import check
from mrql.algebra.terms import Lit, Stream, Var

S = b.stream("S", "{<A: long, B: string>}")
T = b.stream("T", "{(long, (int, double))}")
X = b.var("x", "long")


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (X + 1, "x + 1"),
        (1 + X, "1 + x"),
        (2 - X * 3, "2 - x * 3"),
        (X - 2, "x - 2"),
        (3 * X, "3 * x"),
        (X / 2 % 3, "x / 2 mod 3"),
        (6 / X, "6 / x"),
        (7 % X, "7 mod x"),
        (-X, "-x"),
        (X == 1, "x = 1"),
        (X != None, "x <> null:nothing"),  # noqa: E711  (builds a term)
        (X < 1.5, "x < 1.5"),
        (1 < X, "x > 1"),  # noqa: SIM300  (Python turns it round)
        (X >= 1, "x >= 1"),
        (X <= 1, "x <= 1"),
        ((X > 1) & ~(X == 3) | True, "x > 1 and not x = 3 or true"),
        (False | (True & (X == 1)), "false or true and x = 1"),
        (b.and_(), "true"),
        (b.and_(X == 1, X == 2, True), "x = 1 and x = 2 and true"),
        (b.or_(), "false"),
        (b.or_(X == 1, X == 2), "x = 1 or x = 2"),
        (b.not_(True), "not true"),
        (b.lit(1), "1"),
        (b.lit(1, "long"), "1L"),
        (b.lit(1, "float"), "1.0f"),
        (b.lit(2**31), "2147483648L"),
        (b.lit(True), "true"),
        (b.lit("a"), '"a"'),
        (b.null("{long}"), "null:{long}"),
        (b.tup(1, (2, "a")), '(1, (2, "a"))'),
        (b.pair(X, 1)[0], "(x, 1)#0"),
        (b.record(A=1, B=X).B, "<A: 1, B: x>.B"),
        (b.record(term=1)["term"], "<term: 1>.term"),
        (b.cast(X, "double"), "x as double"),
        (b.if_(X == 1, 2, 3.0), "if x = 1 then 2 else 3.0"),
        (b.let(X, lambda y: y + y), "let y = x in y + y"),
        (b.call("length", "abc"), 'length("abc")'),
        (b.call(fn.PLUS, 1, 2), "1 + 2"),
        (b.is_null(X), "is_null(x)"),
        (b.empty("[long]"), "[]:[long]"),
        (b.bag(1, 2, 3), "{1} ⊎ {2} ⊎ {3}"),
        (b.list_(1, 2.0), "[1, 2.0]"),
        (b.union(b.list_(1), b.list_(2)), "[1] ++ [2]"),
        (b.where(X == 1, b.single(X)), "if x = 1 then {x} else {}:{long}"),
        (b.cmap(lambda x: b.single((x.A, x.B)), S), "cMap(λx. {(x.A, x.B)}, S)"),
        (b.cmap(lambda k, v: b.single((v[1], k)), T), "cMap(λ(k, v). {(v#1, k)}, T)"),
        (b.cmap(lambda _k, v: b.single(v), T), "cMap(λ(_, v). {v}, T)"),
        (b.cmap(lambda _k, v: b.single(_k), T), "cMap(λ(k, v). {k}, T)"),
        (b.filter(lambda x: x.A > 1, S), "cMap(λx. if x.A > 1 then {x} else {}:{<A: long, B: string>}, S)"),
        (
            b.filter(lambda k, v: k > 1, T),
            "cMap(λ(k, v). if k > 1 then {(k, v)} else {}:{(long, (int, double))}, T)",
        ),
        (b.group_by(T), "groupBy(T)"),
        (b.co_group(T, T), "coGroup(T, T)"),
        (b.reduce("⇑⊎", b.single((1, b.single(2)))), "reduce(⇑⊎, {(1, {2})})"),
        (b.reduce(mo.SUM, b.bag(1, 2)), "reduce(+, {1} ⊎ {2})"),
        (b.order_by(b.single(((1, 2), 3)), "asc", "desc"), "orderBy({((1, 2), 3)}; asc, desc)"),
        (b.take(2, b.list_(1)), "take(2, [1])"),
        (b.repeat(lambda x: x, b.single(1), 3), "repeat(λx. x, 3, {1})"),
        (
            b.repeat(lambda x, n: (x, n + 1), (b.single(1), 0), while_=lambda _, m: m < 3, most=9),
            "repeat(λ(x, n). (x, n + 1) while n < 3, within 9, ({1}, 0))",
        ),
        (b.min(b.bag(1)), "reduce(min, {1})"),
        (b.max(b.bag(1)), "reduce(max, {1})"),
        (b.count(S), "reduce(+, cMap(λv. {1L}, S))"),
        (
            b.avg(b.bag(1)),
            "reduce(+, {1}) as double ÷ reduce(+, cMap(λv. if is_null(v) then {}:{long} else {1L}, {1}))",
        ),
        (
            b.avg(b.bag(1.5)),
            "reduce(+, {1.5}) ÷ reduce(+, cMap(λv. if is_null(v) then {}:{long} else {1L}, {1.5}))",
        ),
    ],
)
def test_built_terms(built: Expr, text: str) -> None:
    """Each way of building gives the term with that text, and it is well-formed."""
    assert str(built) == text
    check(built.term, {"x": ty.LONG})


def test_results_are_plain_terms() -> None:
    """`term` is the term that the constructors would make."""
    assert (X + 1).term.args[1] == Lit(1, ty.INT)  # type: ignore[union-attr]
    assert b.table("R", ty.BagType(ty.INT)).term == Stream("R", ty.BagType(ty.INT), static=True)
    assert b.expr(Var("x", ty.LONG)).term == X.term


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: X + "a", "ill-typed: + over long, string"),
        (lambda: X.A, "ill-typed: .A of a value of type long"),
        (lambda: X[0], "ill-typed: #0 of a value of type long"),
        (lambda: b.cmap(lambda a, c: b.single(a), S), "a function of 2 parameters is applied to a value of type <A:"),
        (lambda: b.cmap(lambda x: x.A, S), "ill-typed: cMap of a function that returns long"),
        (lambda: b.cmap(lambda x: b.single(x), X), "long is not a collection, in: x"),
        (lambda: b.cmap(lambda x: b.single(x.C), S), "ill-typed: .C of a value of type <A: long, B: string>"),
        (lambda: b.if_(1, 2, 3), "the condition has type int"),
        (lambda: b.reduce("++", S), "++ does not commute, and a bag has no order"),
        (lambda: b.reduce("+", S), "ill-typed: reduce(+)"),
        (lambda: b.reduce("plus", S), "there is no monoid plus"),
        (lambda: b.order_by(T, "asc"), "1 directions for a key of type long"),
        (lambda: b.order_by(T, "up"), "'up' is no direction"),
        (lambda: b.take(1, S), "which has no order"),
        (lambda: b.call("frobnicate", 1), "there is no function frobnicate"),
        (lambda: b.stream("S", "{long"), "the text ends too early"),
        (lambda: b.stream("S", "long"), "the source S has type long"),
        (lambda: b.empty("long"), "an empty collection of type long"),
        (lambda: b.lit(2**31, "int"), "is not a value of type int"),
        (lambda: b.single([1]), "[1] stands for no term"),  # type: ignore[arg-type]
    ],
)
def test_refused(build: Callable[[], Expr], message: str) -> None:
    """A term that has no type is refused where it is built."""
    with pytest.raises(UserError) as caught:
        build()
    assert message in caught.value.message


def test_a_condition_of_a_loop_does_not_capture() -> None:
    """A variable of the condition with the name of one of the loop is not captured."""
    loop = b.repeat(lambda n: n + 1, 0, while_=lambda m: m < b.var("n", "int"))
    assert repr(loop) == "repeat(λn1. n1 + 1 while n1 < n, within 10000, 0)"
