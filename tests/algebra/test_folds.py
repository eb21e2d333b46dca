"""Monoids that a query defines: they print and read back, and merge as their two terms say."""

from __future__ import annotations

import attrs
from hypothesis import given
from hypothesis import strategies as st

from mrql.algebra import types as ty
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.evaluation.merge import combine, unit, zero
from mrql.algebra.functions import TIMES
from mrql.algebra.monoids import BAG, Fold, is_commutative, is_group, is_idempotent
from mrql.algebra.notation.parser import parse
from mrql.algebra.notation.printer import show
from mrql.algebra.notation.typecheck import check, first_fault
from mrql.algebra.terms import Lambda, Lit, Prim, PTuple, PVar, Reduce, Stream, Var
from mrql.algebra.values.values import Bag
from mrql.rewrite.analysis.infer_merge import infer

X, Y = (PVar(name, ty.LONG) for name in "xy")
TIMES_LONG = Lambda(PTuple((X, Y)), Prim(TIMES, (Var("x", ty.LONG), Var("y", ty.LONG))))
PRODUCT = Fold("product", TIMES_LONG, Lit(1, ty.LONG), ty.LONG)
LONGS = ty.BagType(ty.LONG)
TERM = Reduce(PRODUCT, Stream("S", LONGS))

elements = st.none() | st.integers(-4, 4)


def test_it_prints_and_reads_back() -> None:
    """A fold prints as its name, which the reader must be given."""
    assert show(TERM) == "reduce(product, S)"
    assert parse("reduce(product, S)", {"S": LONGS}, folds={"product": PRODUCT}) == TERM
    own = Reduce(attrs.evolve(PRODUCT, name="max"), TERM.source)
    assert show(own) == "reduce(`max`, S)"
    assert parse(show(own), {"S": LONGS}, folds={"max": own.monoid}) == own


def test_its_elements_are_of_its_type() -> None:
    """Elements of another type are a fault: an int is not a long."""
    check(TERM)
    fault = first_fault(Reduce(PRODUCT, Stream("S", ty.BagType(ty.INT))))
    assert fault is not None
    assert fault.message == "the values of int are not in the carrier of product"


def test_its_laws() -> None:
    """A fold is commutative, as its author declares, but not known to be idempotent or to have an inverse."""
    assert (is_commutative(PRODUCT), is_idempotent(PRODUCT), is_group(PRODUCT)) == (True, False, False)


@given(elements, elements)
def test_it_combines(a: int | None, b: int | None) -> None:
    """A missing element counts as the zero."""
    x, y = unit(PRODUCT, a), unit(PRODUCT, b)
    assert combine(PRODUCT, x, y) == (1 if a is None else a) * (1 if b is None else b)
    assert combine(PRODUCT, zero(PRODUCT), x) == x


@given(st.lists(elements, max_size=4), st.lists(elements, max_size=4))
def test_a_reduction_is_a_homomorphism(a: list[int | None], b: list[int | None]) -> None:
    """`r(A ⊎ B) = r(A) ⊕ r(B)`, which inference finds."""
    assert infer(TERM, {"S": BAG}) == PRODUCT
    both, left, right = (evaluate(TERM, {"S": Bag(rows)}) for rows in (a + b, a, b))
    assert both == combine(PRODUCT, left, right)
