"""Walking over terms and rebuilding them."""

from __future__ import annotations

import typing

import attrs
from hypothesis import given, settings

from mrql.algebra import functions as fn
from mrql.algebra import terms as te
from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import bottom_up, children, map_children, size, subterms, top_down, with_children
from mrql.algebra.errors import UserError
from mrql.algebra.notation.parser import parse
from mrql.algebra.notation.printer import show
from mrql.algebra.span import Source, Span
from mrql.algebra.terms import Lit, Prim, Term
from tests.support.strategies import STREAMS, VARIABLES, typed_terms

EXAMPLES = (
    "x",
    "1",
    "(1, x)",
    "<A: 1, B: x>",
    "(1, x)#1",
    "<A: x>.A",
    "x + 1",
    "x as double",
    "if x = 1 then x else 2",
    "let y = x in y",
    "{}",
    "{x}",
    "[x, 1]",
    "{x} ⊎ {1}",
    "S",
    "cMap(λy. {x}, S)",
    "groupBy(R)",
    "coGroup(R, T)",
    "reduce(+, {x})",
    "orderBy({((x, 1), 2)}; asc, desc)",
    "take(1, [x])",
    "repeat(λy. y + 1 while y < 10, 3, x)",
)


def example(text: str) -> Term:
    return parse(text, STREAMS, VARIABLES)


def test_examples_have_every_node() -> None:
    """The examples have every kind of term."""
    assert {type(example(text)) for text in EXAMPLES} == set(typing.get_args(Term))


def test_children_are_all_the_terms_in_a_node() -> None:
    """Whatever field of a node holds a term, `children` lists it."""
    for text in EXAMPLES:
        term = example(text)
        found = [part for field in attrs.fields(type(term)) for part in _terms_in(getattr(term, field.name))]
        assert sorted(map(show, children(term))) == sorted(map(show, found))


def _terms_in(value: object) -> list[Term]:
    if isinstance(value, Term):
        return [value]
    if isinstance(value, te.Lambda):
        return [value.body]
    if isinstance(value, tuple):
        return [term for part in value for term in _terms_in(part)]
    return []


def test_a_node_is_its_kind_and_its_children() -> None:
    """`with_children(t, children(t)) == t`, and the place is kept."""
    for text in EXAMPLES:
        term = example(text)
        again = with_children(term, children(term))
        assert again == term
        assert again.span == term.span


def test_with_children_puts_each_in_its_place() -> None:
    """The children come back in the order in which they were given."""
    for text in EXAMPLES:
        term = example(text)
        marks = tuple(Lit(i, ty.LONG) for i in range(len(children(term))))
        assert children(with_children(term, marks)) == marks


@settings(max_examples=60, deadline=None)
@given(typed_terms(variables=VARIABLES))
def test_nothing_changes_nothing(term: Term) -> None:
    """A rule that returns what it gets makes every traversal return the same object."""
    assert map_children(term, lambda child: child) is term
    assert bottom_up(term, lambda t: t) is term
    assert top_down(term, lambda t: t) is term


@settings(max_examples=60, deadline=None)
@given(typed_terms(variables=VARIABLES))
def test_size_counts_subterms(term: Term) -> None:
    """`size` is the number of subterms, and the term is the first of them."""
    assert size(term) == len(list(subterms(term)))
    assert next(subterms(term)) is term


@settings(max_examples=40, deadline=None)
@given(typed_terms(variables=VARIABLES))
def test_every_node_is_visited_once(term: Term) -> None:
    """Both directions visit the same nodes, one with the children first, the other with the node first."""
    up: list[int] = []
    down: list[int] = []

    def seen(by: list[int], t: Term) -> Term:
        by.append(id(t))
        return t

    bottom_up(term, lambda t: seen(up, t))
    top_down(term, lambda t: seen(down, t))
    assert sorted(up) == sorted(down) == sorted(map(id, subterms(term)))
    assert up[-1] == down[0] == id(term)


def _plus_to_times(term: Term) -> Term:
    if isinstance(term, Prim) and term.function == fn.PLUS:
        return attrs.evolve(term, function=fn.TIMES)
    return term


def _sum_of_literals(term: Term) -> Term:
    match term:
        case Prim(fn.PLUS, (Lit(a, ty.INT), Lit(b, ty.INT))):
            return Lit(a + b, ty.INT)
        case _:
            return term


def test_bottom_up_sees_new_children() -> None:
    """Children first: folding constants takes one pass."""
    assert show(bottom_up(example("{1 + 2 + 3}"), _sum_of_literals)) == "{6}"
    assert show(top_down(example("{1 + 2 + 3}"), _sum_of_literals)) == "{3 + 3}"


def test_top_down_goes_on_in_what_it_made() -> None:
    """The node first: its new children are visited too."""
    assert show(top_down(example("{1 + 2 + 3}"), _plus_to_times)) == "{1 * 2 * 3}"


def test_unchanged_parts_are_shared() -> None:
    """A change at one place leaves the other subterms the same objects, and the spans as they were."""
    term = example("(1 + 2, cMap(λy. {x}, S))")
    changed = bottom_up(term, _sum_of_literals)
    assert show(changed) == "(3, cMap(λy. {x}, S))"
    assert children(changed)[1] is children(term)[1]
    assert changed.span == term.span


def test_spans_do_not_count() -> None:
    """Terms from different places are equal when they are written the same."""
    assert example("1 + 2") == example("  1 +   2")
    assert hash(example("1 + 2")) == hash(example("  1 +   2"))


def test_a_span_knows_its_line() -> None:
    """Lines and columns count from 1; an error shows the line with a caret under the place."""
    source = Source("query", "ab\n  cd ef\n")
    span = Span(source, 5, 7)
    assert (span.line, span.column, span.text, str(span)) == (2, 3, "cd", "query:2:3")
    assert span.to(Span(source, 8, 10)).text == "cd ef"
    assert UserError("no cd", span, "write ab").render() == (
        "query:2:3: error: no cd\n 2 |   cd ef\n   |   ^^\n   = hint: write ab"
    )
    assert str(UserError("no place")) == "error: no place"
