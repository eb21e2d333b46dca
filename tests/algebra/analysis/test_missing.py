"""The analysis of missing values is right."""

from __future__ import annotations

from hypothesis import given, settings

from mrql.algebra.analysis.missing import UNKNOWN, Known, known
from mrql.algebra.terms import Term
from mrql.algebra.values.values import Bag, Record, Value
from tests.support.strategies import STREAMS, VARIABLES, contents, environments, typed_terms, value_of


def is_so(found: Known, value: Value) -> bool:
    """Whether a value, its parts and its elements are missing only where the analysis says that they may be."""
    match value:
        case None:
            return found.missing
        case tuple():
            return all(is_so(found.part(i), part) for i, part in enumerate(value))
        case Record(fields=fields):
            return all(is_so(found.part(name), part) for name, part in fields.items())
        case list() | Bag():
            return not (found.empty and len(value)) and all(is_so(found.element, item) for item in value)
        case _:
            return True


@settings(max_examples=400, deadline=None)
@given(typed_terms(STREAMS, VARIABLES), contents(), environments(VARIABLES))
def test_what_is_known_of_a_term_is_so(term: Term, held: dict[str, Value], env: dict[str, Value]) -> None:
    """A value that is said not to be missing is not, over streams and variables with values missing anywhere."""
    assert is_so(known(term), value_of(term, held, env))


def test_the_parts_of_a_missing_tuple() -> None:
    """If a tuple may be missing, so may its parts, whatever is known of the parts of one that is not."""
    pair = Known(False, {0: Known(False)})
    assert not pair.part(0).missing
    assert (pair | UNKNOWN).part(0).missing
