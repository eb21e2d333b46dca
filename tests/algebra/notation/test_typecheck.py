"""The checker: what it accepts, and what it says about each kind of fault."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from mrql.algebra import functions as fn
from mrql.algebra import monoids as mo
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.errors import InternalError
from mrql.algebra.notation.parser import parse, parse_type
from mrql.algebra.notation.typecheck import casts_to, check, first_fault, flows_into, in_carrier
from mrql.algebra.terms import (
    Cast,
    CMap,
    Empty,
    Get,
    GroupBy,
    If,
    Lambda,
    Let,
    ListOf,
    Lit,
    Nth,
    OrderBy,
    PAny,
    Pattern,
    Prim,
    PTuple,
    PVar,
    Rec,
    Reduce,
    Single,
    Stream,
    Take,
    Term,
    Tup,
    Union,
    Var,
)
from tests.support.strategies import VARIABLES, typed_terms

ONE = Lit(1, ty.INT)
TRUE = Lit(True, ty.BOOL)
PAIRS = Stream("R", ty.BagType(ty.TupleType((ty.LONG, ty.STRING))))
LONGS = Stream("N", ty.BagType(ty.LONG))


def var(name: str, t: ty.Type = ty.LONG) -> Var:
    return Var(name, t)


def over(param: Pattern, body: Term, source: Term = PAIRS) -> Term:
    return CMap(Lambda(param, body), source)


@settings(max_examples=60, deadline=None)
@given(typed_terms(variables=VARIABLES, depth=2))
def test_subterms_of_good_terms_have_types(term: Term) -> None:
    """A term that passes has a type at every node."""
    check(term, VARIABLES)
    assert all(part.type is not None for part in subterms(term))


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (var("x"), "x is not bound, in: x"),
        (
            over(PVar("x", PAIRS.type), ONE),
            "the pattern x of type {(long, string)} meets a value of type (long, string)",
        ),
        (over(PTuple((PVar("k", ty.INT), PAny(ty.STRING))), Single(ONE)), "the pattern (k, _) of type (int, string)"),
        (over(PTuple((PAny(ty.LONG),)), Single(ONE)), "the pattern (_,) of type (long)"),
        (over(PTuple((PVar("k", ty.LONG), PVar("k", ty.STRING))), Single(ONE)), "(k, k) binds k twice"),
        (over(PVar("x", ty.LONG), Single(var("x", ty.INT)), LONGS), "x has type int, and its binder long, in: x"),
        (over(PVar("x", ty.LONG), var("x"), LONGS), "ill-typed: cMap of a function that returns long"),
        (over(PVar("x", ty.LONG), Single(ONE), ONE), "cMap over int, which is not a collection"),
        (Let(PVar("x", ty.LONG), ONE, var("x")), "the pattern x of type long meets a value of type int"),
        (Let(PVar("x", ty.INT), ONE, Tup((var("x", ty.INT), var("y")))), "y is not bound"),
        (Tup((Let(PVar("x", ty.INT), ONE, ONE), var("x", ty.INT))), "x is not bound"),
        (Lit(1.5, ty.LONG), "the literal 1.5 is not a value of type long"),
        (Lit(True, ty.INT), "the literal True is not a value of type int"),
        (Lit(2**31, ty.INT), "is not a value of type int"),
        (Lit(1, ty.DOUBLE), "the literal 1 is not a value of type double"),
        (Lit(0.1, ty.FLOAT), "the literal 0.1 is not a value of type float"),
        (Lit((), ty.UNIT), "the literal () is not a value of type ()"),
        (Rec((("A", ONE), ("A", TRUE))), "two fields A"),
        (Nth(Tup((ONE,)), 1), "ill-typed: #1 of a value of type (int)"),
        (Get(Rec(()), "A"), "ill-typed: .A of a value of type <>"),
        (Prim(fn.PLUS, (ONE, TRUE)), "ill-typed: + over int, bool"),
        (Prim(fn.PLUS, (ONE,)), "ill-typed: + over int"),
        (Cast(Tup((ONE,)), ty.LONG), "(int) cannot be cast to long"),
        (If(ONE, ONE, ONE), "the condition has type int"),
        (If(TRUE, ONE, TRUE), "ill-typed: if with branches of types int and bool"),
        (Empty(ty.LONG), "an empty collection of type long"),
        (ListOf(()), "a list of no elements"),
        (Union(Single(ONE), ListOf((ONE,))), "ill-typed: the union of {int} and [int]"),
        (Stream("S", ty.LONG), "the source S has type long"),
        (Tup((LONGS, Stream("N", ty.BagType(ty.INT)))), "the source N is {long} in one place and {int} in another"),
        (
            Tup((LONGS, Stream("N", LONGS.type, True))),
            "the source N is {long} in one place and static {long} in another",
        ),
        (GroupBy(LONGS), "ill-typed: long is not a pair"),
        (Reduce(mo.LIST, LONGS), "++ does not commute, and a bag has no order"),
        (Reduce(mo.ProductMonoid((mo.SUM, mo.LIST)), PAIRS), "(+ × ++) does not commute"),
        (Reduce(mo.Keyed(mo.LIST), Single(Tup((ONE, ListOf((ONE,)))))), "⇑++ does not commute"),
        (Reduce(mo.SUM, PAIRS), "ill-typed: reduce(+) of a collection of (long, string)"),
        (Reduce(mo.Keyed(mo.BAG), PAIRS), "the values of (long, string) are not in the carrier of ⇑⊎"),
        (Reduce(mo.Keyed(mo.SUM), Single(Tup((ONE, ONE)))), "the values of (int, int) are not in the carrier of ⇑+"),
        (OrderBy(PAIRS, (True,)), "1 directions for a key of type long"),
        (OrderBy(Single(Tup((Tup((ONE, ONE)), ONE))), (True,)), "1 directions for a key of type (int, int)"),
        (Take(TRUE, ListOf((ONE,))), "the count has type bool"),
        (Take(ONE, LONGS), "the first elements of a {long}, which has no order"),
    ],
)
def test_faults(term: Term, message: str) -> None:
    """Each fault is found and named, with the subterm."""
    with pytest.raises(InternalError) as caught:
        check(term)
    assert message in str(caught.value)
    assert str(caught.value).startswith("internal error in check: ")


@pytest.mark.parametrize(
    "term",
    [
        over(PVar("x", ty.LONG), Single(var("x")), Empty(ty.BagType(ty.NOTHING))),
        over(PTuple((PVar("x", ty.LONG), PAny(ty.INT))), Single(var("x")), Empty(ty.BagType(ty.NOTHING))),
        Let(PVar("x", ty.BagType(ty.LONG)), Empty(ty.BagType(ty.NOTHING)), var("x", ty.BagType(ty.LONG))),
        If(Lit(None, ty.NOTHING), ONE, Lit(None, ty.NOTHING)),
        Reduce(mo.LIST, ListOf((ONE,))),
        Reduce(mo.Keyed(mo.LIST), ListOf((Tup((ONE, ListOf((ONE,)))),))),
        Reduce(mo.Keyed(mo.Keyed(mo.SUM)), Single(Tup((ONE, Single(Tup((ONE, Lit(1, ty.LONG)))))))),
        OrderBy(Single(Tup((Tup(()), ONE))), ()),
        Tup((PAIRS, PAIRS)),
    ],
)
def test_no_faults(term: Term) -> None:
    """`nothing` flows into any type, and order-keeping reductions range over lists."""
    check(term)


def test_free_variables_are_declared() -> None:
    """A free variable is bound by the caller, with its type."""
    check(var("x"), {"x": ty.LONG})
    with pytest.raises(InternalError, match="x has type long, and its binder int"):
        check(var("x"), {"x": ty.INT})


def test_what_was_right_with_other_variables_may_be_wrong() -> None:
    """Terms that are well-formed are remembered together with the variables that they were checked with."""
    term = Prim(fn.PLUS, (Var("x", ty.LONG), Lit(1, ty.LONG)))
    assert first_fault(term, {"x": ty.LONG}) is None
    assert first_fault(term, {"x": ty.STRING}) is not None
    assert first_fault(term) is not None
    assert first_fault(term, {"x": ty.LONG, "y": ty.INT}) is None


def test_inner_binders_win() -> None:
    """A bound variable hides a free one of the same name and another type."""
    check(over(PVar("x", ty.LONG), Single(var("x")), LONGS), {"x": ty.STRING})


def test_the_innermost_fault_is_named() -> None:
    """The message shows the smallest subterm that is wrong, not the query around it."""
    inner = Prim(fn.PLUS, (ONE, TRUE))
    fault = first_fault(GroupBy(Single(Tup((ONE, inner)))))
    assert fault is not None
    assert fault.term is inner


def test_long_terms_are_shortened() -> None:
    """A message does not print a page of a term."""
    wrong = Reduce(mo.LIST, Single(Lit("a" * 1000, ty.STRING)))
    with pytest.raises(InternalError) as caught:
        check(wrong)
    assert len(str(caught.value)) < 500
    assert str(caught.value).endswith("…")


@pytest.mark.parametrize(
    ("value", "place", "flows"),
    [
        ("nothing", "{long}", True),
        ("{nothing}", "{(long, int)}", True),
        ("(nothing, [nothing])", "(long, [int])", True),
        ("<A: nothing>", "<A: int>", True),
        ("<A: int>", "<B: int>", False),
        ("{nothing}", "[long]", False),
        ("int", "long", False),
        ("(int, int)", "(int)", False),
        ("long", "nothing", False),
    ],
)
def test_flows_into(value: str, place: str, flows: bool) -> None:
    """Without a conversion, only `nothing` changes its type."""
    assert flows_into(parse_type(value), parse_type(place)) is flows


@pytest.mark.parametrize(
    ("value", "target", "casts"),
    [
        ("int", "string", True),
        ("string", "double", True),
        ("(int, string)", "(long, long)", True),
        ("<A: int>", "<A: double>", True),
        ("<A: int>", "<B: double>", False),
        ("[int]", "{long}", True),
        ("{int}", "[int]", False),
        ("int", "(int)", False),
        ("nothing", "[int]", True),
    ],
)
def test_casts_to(value: str, target: str, casts: bool) -> None:
    """A cast goes part by part, and never makes up an order."""
    assert casts_to(parse_type(value), parse_type(target)) is casts


@pytest.mark.parametrize(
    ("t", "m", "inside"),
    [
        ("double", mo.SUM, True),
        ("float", mo.SUM, False),
        ("string", mo.MIN, True),
        ("bool", mo.OR, True),
        ("long", mo.OR, False),
        ("[int]", mo.LIST, True),
        ("{int}", mo.LIST, False),
        ("(long, {int})", mo.ProductMonoid((mo.SUM, mo.BAG)), True),
        ("(long)", mo.ProductMonoid((mo.SUM, mo.BAG)), False),
        ("{(int, long)}", mo.Keyed(mo.SUM), True),
        ("{(int, string)}", mo.Keyed(mo.SUM), False),
        ("{nothing}", mo.Keyed(mo.SUM), True),
        ("string", mo.INVARIANT, True),
    ],
)
def test_in_carrier(t: str, m: mo.Monoid, inside: bool) -> None:
    """The types whose values a monoid combines as they are: those of sums are long and double."""
    assert in_carrier(parse_type(t), m) is inside


def test_reading_checks() -> None:
    """Whatever the reader returns is well formed."""
    check(parse("cMap(λ(k, v). {(v, k)}, R)", {"R": PAIRS}))
