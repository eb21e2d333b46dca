"""Variables and their binders: substitution never captures, and names do not matter."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import bottom_up, subterms
from mrql.algebra.analysis.variables import (
    Names,
    all_names,
    alpha_equal,
    binder,
    bound_names,
    free_vars,
    match_pattern,
    occurrences,
    pattern_term,
    pattern_vars,
    rename_pattern,
    source_names,
    stream_names,
    substitute,
)
from mrql.algebra.evaluation.evaluate import bind, evaluate
from mrql.algebra.notation.parser import parse
from mrql.algebra.notation.printer import show, show_pattern
from mrql.algebra.notation.typecheck import check
from mrql.algebra.terms import CMap, Lambda, Let, PAny, Pattern, PTuple, PVar, Stream, Term, Var
from mrql.algebra.types import Type
from mrql.algebra.values.values import Value, same
from tests.support.strategies import (
    STREAMS,
    VARIABLES,
    contents,
    environments,
    patterns,
    terms,
    types,
    value_of,
    values,
)

INNER = {"y": VARIABLES["y"], "k": VARIABLES["k"], "S": ty.LONG}
"""The variables of the terms to put in: they have the names of binders and of streams."""


def read(text: str, variables: Mapping[str, Type] = VARIABLES) -> Term:
    return parse(text, STREAMS, variables)


# --- substitution -------------------------------------------------------------------------------


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_substitution_commutes_with_evaluation(data: st.DataObject) -> None:
    """`⟦t[e/x]⟧ ρ = ⟦t⟧ ρ[x ↦ ⟦e⟧ ρ]`: what capture-avoiding means."""
    t = data.draw(types(3))
    term = data.draw(terms(t, STREAMS, {**INNER, "x": ty.LONG}))
    put_in = data.draw(terms(ty.LONG, STREAMS, INNER, depth=2))
    env = data.draw(environments(INNER))
    data_sources = data.draw(contents())
    expected = value_of(term, data_sources, {**env, "x": value_of(put_in, data_sources, env)})
    result = substitute(term, {"x": put_in})
    check(result, INNER)
    assert same(evaluate(result, data_sources, env), expected)


@settings(max_examples=80, deadline=None)
@given(terms(ty.BagType(ty.LONG), STREAMS, VARIABLES), terms(ty.LONG, STREAMS, INNER, depth=2))
def test_free_variables_after_substitution(term: Term, put_in: Term) -> None:
    """`fv(t[e/x]) = fv(t) − {x} ∪ fv(e)` where `x` occurs, and else nothing happens."""
    result = substitute(term, {"x": put_in})
    if "x" in free_vars(term):
        assert free_vars(result) == (free_vars(term) - {"x"}) | free_vars(put_in)
    else:
        assert result is term


@settings(max_examples=80, deadline=None)
@given(terms(ty.BagType(ty.LONG), STREAMS, VARIABLES))
def test_names_are_those_of_all_parts(term: Term) -> None:
    """The names that are remembered for a term are those found in all its parts."""
    parts = list(subterms(term))
    bound = [found for part in parts if (found := binder(part)) is not None]
    variables = {part.name for part in parts if isinstance(part, Var)}
    assert all_names(term) == variables.union(v.name for found in bound for v in pattern_vars(found))
    assert source_names(term) == {part.name for part in parts if isinstance(part, Stream)}


@settings(max_examples=60, deadline=None)
@given(terms(ty.BagType(ty.LONG), STREAMS, VARIABLES))
def test_substituting_a_variable_for_itself(term: Term) -> None:
    """`t[x/x]` is `t`, up to the names of bound variables."""
    assert alpha_equal(substitute(term, {"x": Var("x", ty.LONG)}), term)


@pytest.mark.parametrize(
    ("text", "put_in", "expected"),
    [
        ("x + 1L", "2L", "2L + 1L"),
        ("cMap(λx. {x}, k)", "2L", "cMap(λx. {x}, k)"),
        ("cMap(λz. {(x, z)}, k)", "z0", "cMap(λz. {(z0, z)}, k)"),
        ("cMap(λz0. {(x, z0)}, k)", "z0", "cMap(λz1. {(z0, z1)}, k)"),
        ("cMap(λz0. cMap(λz1. {(x, z0, z1)}, k), k)", "z0", "cMap(λz2. cMap(λz1. {(z0, z2, z1)}, k), k)"),
        ("let z0 = x in (x, z0)", "z0", "let z1 = z0 in (z0, z1)"),
        ("let (z0, w) = (x, 1) in (x, z0, w)", "z0", "let (z1, w) = (z0, 1) in (z0, z1, w)"),
        ("cMap(λx. {x}, {x})", "2L", "cMap(λx. {x}, {2L})"),
        ("let x = x in x", "2L", "let x = 2L in x"),
        ("cMap(λz0. {z0}, k)", "z0", "cMap(λz0. {z0}, k)"),
    ],
)
def test_substitution(text: str, put_in: str, expected: str) -> None:
    """Examples: hidden variables stay, capturing binders are renamed and no others."""
    e = read(put_in, {"z0": ty.LONG})
    assert show(substitute(read(text), {"x": e})) == expected


def test_substitution_is_simultaneous() -> None:
    """`(x, z)[z/x, x/z]` exchanges the two."""
    x, z = Var("x", ty.LONG), Var("z", ty.LONG)
    term = read("(x, z)", {"x": ty.LONG, "z": ty.LONG})
    assert show(substitute(term, {"x": z, "z": x})) == "(z, x)"


def test_nothing_to_substitute() -> None:
    """Without an occurrence the same object comes back."""
    term = read("cMap(λx. {x}, k)")
    assert substitute(term, {}) is term
    assert substitute(term, {"x": read("2L"), "unused": read("1")}) is term


# --- names --------------------------------------------------------------------------------------


def _renamed(term: Term, names: Names) -> Term:
    """The term with a new name for every bound variable."""

    def rule(t: Term) -> Term:
        match t:
            case CMap(Lambda(param, body), source):
                new, renaming = _fresh(param, names)
                return CMap(Lambda(new, substitute(body, renaming)), source)
            case Let(pattern, value, body):
                new, renaming = _fresh(pattern, names)
                return Let(new, value, substitute(body, renaming))
            case _:
                return t

    return bottom_up(term, rule)


def _fresh(pattern: Pattern, names: Names) -> tuple[Pattern, dict[str, Term]]:
    new = {v.name: Var(names.fresh("fresh"), v.type) for v in pattern_vars(pattern)}
    return rename_pattern(pattern, {old: v.name for old, v in new.items()}), dict(new)


@settings(max_examples=80, deadline=None)
@given(terms(ty.BagType(ty.LONG), STREAMS, VARIABLES), st.data())
def test_bound_names_do_not_matter(term: Term, data: st.DataObject) -> None:
    """Renaming bound variables gives an alpha-equal term with the same free variables and the same value."""
    renamed = _renamed(term, Names(set(all_names(term))))
    check(renamed, VARIABLES)
    assert alpha_equal(term, renamed)
    assert free_vars(term) == free_vars(renamed)
    env, sources = data.draw(environments(VARIABLES)), data.draw(contents())
    expected = value_of(term, sources, env)
    assert same(evaluate(renamed, sources, env), expected)


@pytest.mark.parametrize(
    ("a", "b", "equal"),
    [
        ("cMap(λa. {a}, k)", "cMap(λb. {b}, k)", True),
        ("cMap(λa. {x}, k)", "cMap(λx. {x}, k)", False),
        ("let (a, b) = y in (a, b)", "let (b, a) = y in (b, a)", True),
        ("let (a, b) = y in (a, b)", "let (b, a) = y in (a, b)", False),
        ("let (a, _) = y in a", "let (a, b) = y in a", False),
        ("cMap(λa. cMap(λb. {a}, k), k)", "cMap(λa. cMap(λa. {a}, k), k)", False),
        ("cMap(λa. cMap(λb. {b}, k), k)", "cMap(λa. cMap(λa. {a}, k), k)", True),
        ("x", "x", True),
        ("x", "x + 0", False),
        ("let a = 1 in a", "let a = 1L in a", False),
    ],
)
def test_alpha_equality(a: str, b: str, equal: bool) -> None:
    """Only names of bound variables may differ, and only consistently."""
    assert alpha_equal(read(a), read(b)) is equal


@pytest.mark.parametrize(
    ("text", "free", "names"),
    [
        ("x", {"x"}, {"x"}),
        ("cMap(λa. {(a, x)}, k)", {"x", "k"}, {"a", "x", "k"}),
        ("cMap(λx. {x}, {x})", {"x"}, {"x"}),
        ("let (a, _) = y in a", {"y"}, {"a", "y"}),
        ("let x = 1 in x", set(), {"x"}),
        ("S", set(), set()),
    ],
)
def test_free_and_all_names(text: str, free: set[str], names: set[str]) -> None:
    """A binder binds in its body, not in the collection or value; streams are not variables."""
    assert free_vars(read(text)) == free
    assert all_names(read(text)) == names


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1", 0),
        ("x + x", 2),
        ("cMap(λa. {x}, k)", 2),
        ("cMap(λa. cMap(λb. {x}, k), {x})", 5),
        ("cMap(λx. {x}, {x})", 1),
        ("let a = x in (a, x)", 2),
        ("let x = x in x", 1),
    ],
)
def test_occurrences(text: str, count: int) -> None:
    """An occurrence under a λ counts twice, since it may be evaluated many times."""
    assert occurrences(read(text), "x") == count


def test_fresh_names() -> None:
    """A new name is like the old one, never taken, and the same supply gives the same names again."""
    names = Names({"x", "y2"})
    assert [names.fresh("x") for _ in range(3)] == ["x1", "x2", "x3"]
    assert [names.fresh("y2"), names.fresh("z")] == ["y1", "z"]
    assert [names.fresh("7"), names.fresh("7")] == ["7", "x4"]


# --- patterns -----------------------------------------------------------------------------------


def test_patterns() -> None:
    """The variables of a pattern, left to right, and renamed."""
    pattern = PTuple((PVar("a", ty.LONG), PTuple((PAny(ty.INT), PVar("b", ty.INT)))))
    assert [v.name for v in pattern_vars(pattern)] == ["a", "b"]
    assert bound_names(pattern) == {"a", "b"}
    assert show_pattern(rename_pattern(pattern, {"b": "c"}), pattern.type) == "(a, (_, c))"


def test_matching_a_pattern() -> None:
    """A tuple is taken apart where it is written out, other terms are projected."""
    pattern = PTuple((PVar("a", ty.LONG), PTuple((PVar("b", ty.INT), PAny(ty.STRING)))))
    found = match_pattern(pattern, read("(x, y)"))
    assert {name: show(e) for name, e in found.items()} == {"a": "x", "b": "y#0"}


@settings(max_examples=60, deadline=None)
@given(types(4).flatmap(lambda t: st.tuples(st.just(t), patterns(t), values(t))))
def test_a_pattern_as_a_term(case: tuple[Type, Pattern, Value]) -> None:
    """`pattern_term` gives a pattern of the same type, and a term with the same parts as the value that it met: a
    missing tuple that is taken apart is rebuilt as a tuple of missing parts."""
    t, pattern, value = case
    new, term = pattern_term(pattern, Names(set(bound_names(pattern))))
    assert new.type == pattern.type == t
    assert term.type == t
    assert bound_names(pattern) <= bound_names(new)
    again = bind(new, evaluate(term, {}, bind(new, value)))
    assert all(same(again[name], part) for name, part in bind(new, value).items())


@settings(max_examples=60, deadline=None)
@given(types(4).flatmap(lambda t: st.tuples(patterns(t), terms(t, {}, {}, depth=1))))
def test_matching_is_let(case: tuple[Pattern, Term]) -> None:
    """`match_pattern(p, e)` binds what `let p = e` binds."""
    pattern, term = case
    value = value_of(term, {})
    found = {name: evaluate(e) for name, e in match_pattern(pattern, term).items()}
    expected = bind(pattern, value)
    assert found.keys() == expected.keys()
    assert all(same(found[name], expected[name]) for name in found)


@given(terms(ty.BagType(ty.LONG)))
def test_streams_are_named_in_the_order_of_the_text(term: Term) -> None:
    """Each stream is named once, without the tables; a second call, and an equal term, give the same names."""
    read = [part.name for part in subterms(term) if isinstance(part, Stream) and not part.static]
    for _ in range(2):
        assert stream_names(term) == tuple(dict.fromkeys(read))
    assert stream_names(parse(show(term), STREAMS)) == stream_names(term)
