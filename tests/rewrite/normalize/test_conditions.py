"""Conditions: a part that alternatives share becomes a condition of its own, and an equality in it a join key."""

from __future__ import annotations

from itertools import product

import pytest

import mrql
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse
from mrql.algebra.notation.printer import show
from mrql.algebra.terms import Term
from mrql.algebra.types import BOOL, LONG
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.plan.labels import joins_on_nothing
from tests.support.incremental_cases import STREAMS

VARIABLES = dict.fromkeys("abcd", BOOL)


def parsed(text: str) -> Term:
    return parse(text, {}, VARIABLES)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("if 1L / 0L = c then {b} else {b}", "{b}"),
        ("if if a then b else b then {c} else {d}", "if b then {c} else {d}"),
        ("if a then {b} else {c}", "if a then {b} else {c}"),
    ],
)
def test_alternatives_that_are_one(written: str, expected: str) -> None:
    """A condition that the value does not depend on is not computed, so it cannot fail; Spark omits it, too."""
    assert show(normalize(parse(written, {}, {**VARIABLES, "c": LONG} if "1L" in written else VARIABLES))) == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("(a and b) or (a and c)", "a and (b or c)"),
        ("(b and a) or (c and a)", "a and (b or c)"),
        ("a or (a and c)", "a"),
        ("(a and b) or (b and a)", "a and b"),
        ("((a and b) or (a and c)) or (d and a)", "a and (b or c or d)"),
        ("(a and b) or (c and d)", "a and b or c and d"),
        ("a or b", "a or b"),
    ],
)
def test_what_alternatives_share(written: str, expected: str) -> None:
    """The shared condition comes first, and the value is the same, even if operands are missing."""
    before, after = parsed(written), normalize(parsed(written))
    assert show(after) == show(parsed(expected))
    for values in product((True, False, None), repeat=len(VARIABLES)):
        env = dict(zip(VARIABLES, values, strict=True))
        assert evaluate(before, {}, env) is evaluate(after, {}, env), env


def test_an_equality_in_each_alternative_is_a_join_key() -> None:
    """TPC-H query 19: `(k = l and …) or (k = l and …)` is not a product."""
    query = "select (a, d) from (a, b) in S, (c, d) in T where (b = c and a > 1) or (b = c and d > 1)"
    (stage,) = mrql.compile(query, **STREAMS).trace().plan.stages
    assert [joins_on_nothing(feed) for feed in stage.feeds] == [False]


def test_an_equality_in_one_alternative_is_none() -> None:
    """If one alternative lacks the equality, rows with unequal keys may be joined."""
    query = "select (a, d) from (a, b) in S, (c, d) in T where (b = c and a > 1) or d > 1"
    (stage,) = mrql.compile(query, **STREAMS).trace().plan.stages
    assert [joins_on_nothing(feed) for feed in stage.feeds] == [True]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("is_null(x + y)", "is_null(x) or is_null(y)"),
        ("is_null(x - 1L)", "is_null(x)"),
        ("is_null(- (x * y))", "is_null(x) or is_null(y)"),
        ("is_null((x + y) * z)", "is_null(x) or is_null(y) or is_null(z)"),
        ("is_null(1L + 2L)", "false"),
        ("is_null(10L / x)", "is_null(10L / x)"),
    ],
)
def test_what_is_computed_is_missing_where_an_operand_is(written: str, expected: str) -> None:
    """A number that is only tested for being missing is not computed, and so cannot overflow."""
    numbers = dict.fromkeys("xyz", LONG)
    before = parse(written, {}, numbers)
    after = normalize(before)
    assert show(after) == show(parse(expected, {}, numbers))
    for values in product((2, 0, -3, None), repeat=len(numbers)):
        env = dict(zip(numbers, values, strict=True))
        if "/" not in written or env["x"] != 0:
            assert evaluate(before, {}, env) is evaluate(after, {}, env), env
