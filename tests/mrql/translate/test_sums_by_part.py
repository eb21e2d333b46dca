"""User-defined aggregations with an inverse: which are kept as sums, and that the inverse changes no answer."""

from __future__ import annotations

import random

import pytest

from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.monoids import Fold
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.terms import Reduce
from mrql.algebra.values.value_text import show_value
from mrql.algebra.values.values import Bag, same
from mrql.translate.compile_program import compile_program

STREAMS = {"S": parse_type("{(long, long, long)}")}
SUMS = {
    "a number": (r"\(x, y). x + y", "0", r"\(a, b). a * b", r"\x. -x", "long"),
    "the other way round": (r"\(x, y). y + x", "0.0", r"\(a, b). a * 0.5", r"\x. 0 - x", "double"),
    "a tuple": (
        r"\((a, b), (c, d)). (a + c, b + d)",
        "(0, 0)",
        r"\(a, b). (1, a - b)",
        r"\(a, b). (-a, -b)",
        "(long, double)",
    ),
    "a record": (
        r"\(p, q). <n: p.n + q.n, s: (p.s#0 + q.s#0, q.s#1 + p.s#1)>",
        "<n: 0, s: (0, 0)>",
        r"\(a, b). let c = a + b in <n: 1, s: (c, c * b)>",
        r"\p. <n: -p.n, s: (-p.s#0, -p.s#1)>",
        "<n: long, s: (long, double)>",
    ),
    "records taken apart": (
        r"\(<n: a>, <n: b>). <n: a + b>",
        "<n: 0>",
        r"\(a, b). <n: if a > b then a else b>",
        r"\<n: a>. <n: -a>".replace(r"\<n: a>", r"\(<n: a>)"),
        "<n: long>",
    ),
}
OTHERS = {
    "a sum and a product": (
        r"\(x, y). x + y + x * y",
        "0",
        r"\(a, b). 0",
        r"\x. if x = -1 then 0 else -x / (1 + x)",
        "double",
    ),
    "whether they differ": (r"\(x, y). x <> y", "false", r"\(a, b). a > b", r"\x. x", "bool"),
    "integers of 32 bits": (r"\(x, y). x + y", "0", r"\(a, b). 1", r"\x. -x", "int"),
    "around the clock": (r"\(x, y). (x + y) mod 12", "0", r"\(a, b). a mod 12", r"\x. -x", "long"),
}


def asked(parts: tuple[str, ...], *, inverse: bool) -> str:
    combine, zero, unit, back, t = parts
    given = [combine, zero, unit, *([back] if inverse else [])]
    return f"aggregation f({', '.join(given)}): {t}; select (k, f((a, b))) from (k, a, b) in S group by k"


@pytest.mark.parametrize(("parts", "kept"), [(p, True) for p in SUMS.values()] + [(p, False) for p in OTHERS.values()])
def test_what_is_kept_as_sums(parts: tuple[str, ...], kept: bool) -> None:
    """An aggregation is kept as sums if it adds numbers part by part and its inverse negates each; others are not."""
    term = compile_program(asked(parts, inverse=True), streams=STREAMS).queries[0].term
    assert kept != any(isinstance(part, Reduce) and isinstance(part.monoid, Fold) for part in subterms(term))


@pytest.mark.parametrize("parts", [*SUMS.values(), *OTHERS.values()], ids=[*SUMS, *OTHERS])
def test_the_inverse_changes_no_answer(parts: tuple[str, ...]) -> None:
    """An aggregation has the same value with and without its inverse, also over missing numbers."""
    draw = random.Random(2026)
    numbers = (None, 0, 1, -1, 2, 3, 5)
    for _ in range(20):
        rows = Bag((draw.choice((1, 2)), draw.choice(numbers), draw.choice(numbers)) for _ in range(draw.randint(0, 6)))
        with_inverse, without = (
            evaluate(compile_program(asked(parts, inverse=found), streams=STREAMS).queries[0].term, {"S": rows})
            for found in (True, False)
        )
        assert same(with_inverse, without), f"{show_value(with_inverse)}, not {show_value(without)}"
