"""Generated values have in them what the properties over them are about."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import Term
from mrql.algebra.types import Type
from mrql.algebra.values.values import Value
from tests.support.strategies import ODD, contents, present, typed_terms

many = settings(
    deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate], database=None, max_examples=200
)


@pytest.mark.parametrize("t", ODD, ids=str)
def test_generated_odd_values(t: Type) -> None:
    """All odd values of a type are drawn, and tame ones far more often, so that keys meet."""
    found: Counter[str] = Counter()

    @seed(1)
    @many
    @given(st.lists(present(t), min_size=20, max_size=20))
    def generate(values: list[Value]) -> None:
        found.update(map(repr, values))

    generate()
    odd = {repr(value): found[repr(value)] for value in ODD[t]}
    assert min(odd.values()) >= 10
    assert sum(odd.values()) < found.total() / 5


def test_most_generated_terms_have_a_value() -> None:
    """Most generated terms have a value, so that properties of values are tested."""
    found: Counter[bool] = Counter()

    @seed(1)
    @settings(many, max_examples=300)
    @given(typed_terms(), contents())
    def generate(term: Term, held: dict[str, Value]) -> None:
        try:
            evaluate(term, held)
        except (UserError, TypeError):
            found[False] += 1
        else:
            found[True] += 1

    generate()
    assert found[True] > 20 * found[False]
