"""Results remembered for terms change nothing, and save repeated work."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

import mrql
from mrql.algebra.analysis.variables import Remembered
from mrql.algebra.terms import Term
from mrql.rewrite.normalize import copies
from mrql.rewrite.normalize import normalize as rules
from mrql.rewrite.normalize import prune_columns as columns
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.normalize.prune_columns import prune_columns
from mrql.rewrite.pipeline import normal_form
from tests.support.queries import STREAMS
from tests.support.strategies import typed_terms


@settings(max_examples=80, deadline=None)
@given(typed_terms())
def test_the_same_again(term: Term) -> None:
    """A normal form is the same with and without remembered results."""
    found = prune_columns(normalize(term))
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((rules, "_SIMPLE"), (copies, "_MADE_ANEW"), (columns, "_PRUNED")):
            patch.setattr(module, name, Remembered[bool]())
        assert prune_columns(normalize(term)) == found


def test_a_normal_form_is_not_looked_through_again(monkeypatch: pytest.MonkeyPatch) -> None:
    term = normal_form(mrql.compile("select (x.A, sum(x.B)) from x in X group by x.A", **STREAMS).term)

    def asked(part: Term) -> Term:
        raise AssertionError(part)

    monkeypatch.setattr(rules, "_simplify", asked)
    monkeypatch.setattr(columns, "_prune", asked)
    assert prune_columns(normalize(term)) is term
