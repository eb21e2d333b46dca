"""Queries for which an equation does not hold without its side condition: they keep their values in all passes."""

from __future__ import annotations

import attrs
import pytest

import mrql
from mrql.algebra import build as b
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse
from mrql.algebra.terms import Term
from mrql.algebra.values.values import Bag, Value, close
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.pipeline import normal_form
from mrql.runtime.reference.view import ReferenceView
from tests.support.planning import planned

PAIRS, KEYED = "bag((long, long))", "bag(((long, long), long))"


@attrs.frozen
class Case:
    """A query, the rows of its streams, and its value."""

    text: str
    types: dict[str, str]
    rows: dict[str, list[Value]]
    value: Value


CASES = {
    "the key of a group, taken apart": Case(
        "select (a, b, count(select d from w in v, (c, d) in T where c = w)) from (t, v) in S group by (a, b): t",
        {"S": KEYED, "T": PAIRS},
        {"S": [(None, 1), ((None, None), 2)], "T": [(1, 10)]},
        Bag([(None, None, 1), (None, None, 0)]),
    ),
    "a number of a range that is a long": Case(
        "select n * 1000000 from (a, b) in S, n in a - 2..a, (c, d) in T where n = c",
        {"S": PAIRS, "T": "bag((int, long))"},
        {"S": [(5000, 0)], "T": [(5000, 1)]},
        Bag([5_000_000_000]),
    ),
    "a product that a condition of each alternative keeps in its range": Case(
        "select x from (x, y) in S where (x < 10 and x * x > 50) or (x < 20 and x * x > 50)",
        {"S": PAIRS},
        {"S": [(8, 0), (10_000_000_000, 0)]},
        Bag([8]),
    ),
    "a loop that may be missing": Case(
        "let x = (if count(S) > 5 then (repeat y = {1} step (select v + 1 from v in y) limit 2) else null) "
        "in (is_null(x), (select z from z in x))",
        {"S": PAIRS},
        {"S": []},
        (True, Bag()),
    ),
    "a pair of a loop that may be missing": Case(
        "let r = (if count(S) > 5 then (repeat (x, n) = ({1}, 0) step (x, n + 1) limit 2) else null) in is_null(r)",
        {"S": PAIRS},
        {"S": []},
        True,
    ),
    "a loop that only a condition keeps from failing": Case(
        "if (all (a, b) in S: b <> 0) then (repeat x = S step select distinct z "
        "from z in (x union (select (a, 6 / b) from (a, b) in x)) limit 1) else {}",
        {"S": PAIRS},
        {"S": [(1, 0)]},
        Bag(),
    ),
    "a loop over constants that only a condition keeps from failing": Case(
        "if count(S) > 100 then (repeat x = {0} step (select 10 / v from v in x) limit 1) else {}",
        {"S": PAIRS},
        {"S": []},
        Bag(),
    ),
}


def assert_kept(term: Term, rows: dict[str, list[Value]], value: Value) -> None:
    """In normal form and as a plan, the term has its value."""
    held = {name: Bag(some) for name, some in rows.items()}
    assert close(evaluate(term, held), value)
    assert close(evaluate(normal_form(term, checked=True), held), value)
    view = ReferenceView(planned(term).plan)
    view.apply({name: ZSet.of(some) for name, some in rows.items()})
    assert close(view.answer(), value)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_queries(case: Case) -> None:
    assert_kept(mrql.compile(case.text, **case.types).term, case.rows, case.value)


def test_conditions_of_a_join_in_another_order() -> None:
    """Conditions over several inputs are evaluated in the order of the query, whichever input has a batch."""
    text = "select (a, f) from (a, b) in S, (c, d) in T, (e, f) in P where a = c and d = e and b < d and b * f > 5"
    view = ReferenceView(planned(mrql.compile(text, S=PAIRS, T=PAIRS, P=PAIRS).term).plan)
    view.apply({"S": ZSet.of([(1, 2**62)]), "T": ZSet.of([(1, 1)])})
    view.apply({"P": ZSet.of([(1, 4)])})
    assert view.answer() == Bag()


def test_a_let_that_binds_names_of_its_value() -> None:
    """The names of a `let` are bound in its body, and in no part of its value."""
    S = b.stream("S", "{(long, long)}")
    term = b.map(lambda x, y: b.let((x + y, x - y), lambda x, y: x * x + y * y), S).term
    assert_kept(term, {"S": [(5, 3)]}, Bag([68]))


def test_a_key_of_another_type_on_one_side() -> None:
    """The function of a coGroup gets the key in the type of both sides, whichever side has it."""
    function = "λ(k, (xs, ys)). {(k as string, reduce(+, xs), reduce(+, ys))}"
    term = parse(f"cMap({function}, coGroup(S, T))", {"S": "{(int, long)}", "T": "{(double, long)}"})
    assert_kept(term, {"S": [(3, 1)], "T": [(2.5, 2)]}, Bag([("3.0", 1, 0), ("2.5", 0, 2)]))
