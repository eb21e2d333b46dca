"""Tidy names: only names change, none is captured, and the ones that are shown are short."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrql.algebra.analysis.traversal import children, subterms
from mrql.algebra.analysis.variables import alpha_equal, free_vars, pattern_vars
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.names import RESERVED
from mrql.algebra.notation.parser import parse
from mrql.algebra.notation.printer import show
from mrql.algebra.notation.readable_names import tidy
from mrql.algebra.notation.typecheck import check
from mrql.algebra.terms import CMap, Let, Stream, Term
from mrql.algebra.values.values import same
from tests.support.strategies import NAMES, STREAMS, VARIABLES, contents, environments, typed_terms, value_of

SOURCES = {"S": "{<A: long, B: long>}", "T": "{<C: long, D: long>}", "N": "{long}"}


def tidied(text: str, *keep: str) -> str:
    return show(tidy(parse(text, SOURCES), frozenset(keep)))


@settings(max_examples=100, deadline=None)
@given(typed_terms(STREAMS, VARIABLES), st.frozensets(st.sampled_from(NAMES)))
def test_only_bound_names_change(term: Term, keep: frozenset[str]) -> None:
    """`tidy(t) =α t`: nothing is captured, whatever the names were."""
    result = tidy(term, keep)
    assert alpha_equal(result, term)
    assert result.type == term.type
    check(result, VARIABLES)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_value_is_the_same(data: st.DataObject) -> None:
    """A tidy term has the same value, as alpha-equality promises."""
    term = data.draw(typed_terms(STREAMS, VARIABLES, depth=3))
    sources, env = data.draw(contents()), data.draw(environments(VARIABLES))
    expected = value_of(term, sources, env)
    assert same(evaluate(tidy(term), sources, env), expected)


@settings(max_examples=60, deadline=None)
@given(typed_terms(STREAMS, VARIABLES))
def test_no_name_is_shadowed(term: Term) -> None:
    """A binder takes no name that is in scope, free in the term, of one of its streams, or a word of the notation."""
    result = tidy(term)
    streams = {part.name for part in subterms(result) if isinstance(part, Stream)}
    assert list(shadowed(result, free_vars(result) | streams | RESERVED)) == []


def test_a_name_that_is_hidden_twice_is_not_taken_again() -> None:
    assert tidied("cMap(λx. cMap(λx. cMap(λx. {x}, {1L}), {2L}), {3L})") == (
        "cMap(λx. cMap(λx1. cMap(λx2. {x2}, {1L}), {2L}), {3L})"
    )


def shadowed(term: Term, taken: frozenset[str]) -> Iterator[str]:
    """The names that are bound where they are taken already."""
    match term:
        case CMap(function, source):
            bound = {v.name for v in pattern_vars(function.param)}
            yield from bound & taken
            yield from shadowed(source, taken)
            yield from shadowed(function.body, taken | bound)
        case Let(pattern, value, body):
            bound = {v.name for v in pattern_vars(pattern)}
            yield from bound & taken
            yield from shadowed(value, taken)
            yield from shadowed(body, taken | bound)
        case _:
            for child in children(term):
                yield from shadowed(child, taken)


@settings(max_examples=40, deadline=None)
@given(typed_terms(STREAMS, VARIABLES))
def test_a_tidy_term_reads_back(term: Term) -> None:
    """`parse(show(tidy(t))) = tidy(t)`."""
    result = tidy(term)
    assert parse(show(result), STREAMS, VARIABLES) == result


CASES = (
    # Numbers are dropped if nothing else has the name.
    ("cMap(λx4. {x4}, N)", "cMap(λx. {x}, N)"),
    ("cMap(λx4. cMap(λx7. {x4 + x7}, N), N)", "cMap(λx. cMap(λx1. {x + x1}, N), N)"),
    # A name of a sibling is free again.
    ("cMap(λx4. {x4}, N) ⊎ cMap(λx5. {x5}, N)", "cMap(λx. {x}, N) ⊎ cMap(λx. {x}, N)"),
    # A stream's name is not taken.
    ("cMap(λN1. {N1}, N)", "cMap(λN1. {N1}, N)"),
    # The roles of [MRQL] §5.
    (
        "cMap(λ(k3, s2). {(k3, reduce(+, s2))}, groupBy(cMap(λp. {(p.A, p.B)}, S)))",
        "cMap(λ(k, s). {(k, reduce(+, s))}, groupBy(cMap(λp. {(p.A, p.B)}, S)))",
    ),
    (
        "cMap(λ(k1, (s1, s2)). cMap(λx4. cMap(λx3. {(x4, x3)}, s2), s1), "
        "coGroup(cMap(λx. {(x.B, x.A)}, S), cMap(λy. {(y.C, y.D)}, T)))",
        "cMap(λ(j, (xs, ys)). cMap(λA. cMap(λD. {(A, D)}, ys), xs), "
        "coGroup(cMap(λx. {(x.B, x.A)}, S), cMap(λy. {(y.C, y.D)}, T)))",
    ),
    # Two parts of one name are told apart.
    (
        "cMap(λ(k, s). cMap(λ(x1, x2). {x1 + x2}, s), groupBy(cMap(λp. {(p.B, (p.A, p.A))}, S)))",
        "cMap(λ(k, s). cMap(λ(A, A1). {A + A1}, s), groupBy(cMap(λp. {(p.B, (p.A, p.A))}, S)))",
    ),
    ("let v3 = 1 in v3 + 2", "let v = 1 in v + 2"),
)


@pytest.mark.parametrize(("text", "expected"), CASES)
def test_names(text: str, expected: str) -> None:
    """The names that are given; tidying a term again changes nothing."""
    assert tidied(text) == expected
    assert tidied(expected) == expected


def test_the_author_s_names_are_kept() -> None:
    """A number in a name is kept if the author has written it."""
    text = "cMap(λp1. cMap(λp2. {p1 + p2}, N), N)"
    assert tidied(text, "p1", "p2") == text
    assert tidied(text) == "cMap(λp. cMap(λp1. {p + p1}, N), N)"


def test_a_variable_shadows_a_group() -> None:
    """What is known of a group does not hold for another variable of the same name."""
    inner = "cMap(λs. cMap(λx1. {x1}, {s}), N)"
    text = f"cMap(λ(k, s). {inner}, groupBy(cMap(λp. {{(p.B, p.A)}}, S)))"
    assert "λx. {x}" in tidied(text)
