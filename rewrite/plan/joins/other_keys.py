"""Which inputs of a join are looked up by a key other than the one that they are stored by, and by which one.

Of a join `(S ⋈ T) ⋈ P`, T is stored by the key by which it is joined with S, and a batch of P looks it up by another
one. Where that key is some parts of T's elements, T can be stored by them too, so that the matches are looked up;
elsewhere the batch is compared with all of T.

*Requires*, for T to be stored by it too: parts of types whose equal values have equal hashes, the same types on both
sides of the join, and a test that no part is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import TypeAlias

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.catalog import item_type
from mrql.algebra.terms import (
    CMap,
    CoGroup,
    Empty,
    Get,
    If,
    Lambda,
    Let,
    Nth,
    Pattern,
    PTuple,
    PVar,
    Rec,
    Single,
    Stream,
    Term,
    Tup,
    Var,
    pair_type,
)
from mrql.algebra.types import Kind, Type
from mrql.rewrite.analysis.join_predicates import drops_null_keys
from mrql.rewrite.analysis.multilinear import occurrences
from mrql.rewrite.plan.plan import Feed

Path: TypeAlias = tuple[int | str, ...]
"""The path to a part of an element, from the outside in: numbers of parts of tuples, from 0, and names of fields."""

KEPT_BY = frozenset(Kind) - {Kind.FLOAT, Kind.DOUBLE, Kind.ANY, Kind.XML, Kind.DATA}
"""Basic types whose equal values have equal hashes; the doubles 0.0 and −0.0 have two."""


@attrs.frozen
class OtherKey:
    """A key by which the batches of one input look another one up, which is stored by a key of its own."""

    batch: str
    """The label of the input whose batches look the other one up."""
    label: str
    """The label of the other input."""
    parts: tuple[Path, ...] | None
    """The parts of the other input's elements that are the key; None where it is not to be stored by them."""


def other_keys(feed: Feed) -> Iterator[OtherKey]:
    """The keys by which batches look up inputs that are stored by another one."""
    inputs = {read.label: read.term for read in feed.rows.inputs}
    for batch in inputs:
        for term in subterms(feed.rows.for_batch(batch)):
            if isinstance(term, CoGroup):
                for side, other in ((term.left, term.right), (term.right, term.left)):
                    read = occurrences(side)
                    if len(read) == 1 and batch in occurrences(other) and not has_own_key(side):
                        tested = _is_tested(side, inputs) or _is_tested(other, inputs)
                        yield OtherKey(batch, read[0], _kept_by(side, pair_type(term)[0]) if tested else None)


def has_own_key(side: Term) -> bool:
    """Whether the pairs of a join's side, made of one input, have the key that the input is stored by.

    >>> from mrql.algebra.notation.parser import parse
    >>> S = {"S": "{(long, (long, long))}"}
    >>> def has(pairs: str) -> bool:
    ...     return has_own_key(parse(f"cMap(λ(k, (a, b)). {pairs}, S)", S))
    >>> has("if a > b then {(k, b)} else {}"), has("if a > b then {(k, b)} else {(k, a)}"), has("{(a, (k, b))}")
    (True, True, False)
    """
    (stream,) = (t for t in subterms(side) if isinstance(t, Stream) and not t.static)
    key = _key(side)
    return key is not None and key == _leaves(_step(_element(stream), 0))


def _is_tested(side: Term, inputs: Mapping[str, Term]) -> bool:
    """Whether it is tested that no part of the key of a side's pairs is missing: in the side, or in the inputs that
    have it as their key."""
    key = _key(side) or []
    own = all(part.path[0] == 0 and drops_null_keys(inputs[part.label]) for part in key)
    return drops_null_keys(side) or (bool(key) and own)


def _kept_by(side: Term, joined_by: Type) -> tuple[Path, ...] | None:
    """The parts by which the elements of a side's input can be stored, so that a join by keys of the type `joined_by`
    finds them; None if there are none."""
    key = _key(side) or []
    paths = tuple(part.path for part in key)
    known = all(isinstance(part.type, ty.Basic) and part.type.kind in KEPT_BY for part in key)
    alike = [part.type for part in key] == [part.type for part in _leaves(_Part("", (), joined_by)) or ()]
    return paths if paths and known and alike and len({*paths}) == len(paths) else None


# --- what an element is made of -----------------------------------------------------------------


@attrs.frozen
class _Part:
    """An unchanged part of an element of an input."""

    label: str
    path: Path
    type: Type


@attrs.frozen
class _Bag:
    """A bag in which all elements are alike."""

    element: _Made


_Made: TypeAlias = "_Part | dict[int | str, _Made] | _Bag | None"
"""A value made of elements: a part of one, a tuple or record of such values, a bag of them, or something else
(None)."""


def _key(side: Term) -> list[_Part] | None:
    """The parts of elements that the key of a side's pairs consists of; None where it has something else."""
    return _leaves(_step(_element(side), 0))


def _element(bag: Term, env: Mapping[str, _Made] | None = None) -> _Made:
    """What all elements of a bag have in common."""
    return reduce(_common, list(_elements(bag, env or {})) or [None])


def _common(a: _Made, b: _Made) -> _Made:
    """What two elements have in common."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return {step: _common(a[step], b[step]) for step in a}
    return a if a == b else None


def _elements(bag: Term, env: Mapping[str, _Made]) -> Iterator[_Made]:
    """What each element of a bag is made of; `env` says that of the variables."""
    match bag:
        case Stream(label, t, False):
            yield _Part(label, (), item_type(t))
        case Empty():
            return
        case Single(item):
            yield _value(item, env)
        case If(_, then, otherwise):
            yield from _elements(then, env)
            yield from _elements(otherwise, env)
        case Let(pattern, value, body):
            yield from _elements(body, {**env, **_bound(pattern, _value(value, env))})
        case CMap(Lambda(param, body), source):
            yield from _elements(body, {**env, **_bound(param, _element(source, env))})
        case CoGroup(left, right):
            a, b = _element(left, env), _element(right, env)
            yield {0: _step(a, 0), 1: {0: _Bag(_step(a, 1)), 1: _Bag(_step(b, 1))}}
        case Var(name):
            found = env.get(name)
            yield found.element if isinstance(found, _Bag) else None
        case _:
            yield None


def _value(term: Term, env: Mapping[str, _Made]) -> _Made:
    match term:
        case Var(name):
            return env.get(name)
        case Tup(items):
            return {i: _value(item, env) for i, item in enumerate(items)}
        case Rec(fields):
            return {name: _value(item, env) for name, item in fields}
        case Nth(whole, index):
            return _step(_value(whole, env), index)
        case Get(whole, name):
            return _step(_value(whole, env), name)
        case _:
            return None


def _bound(pattern: Pattern, value: _Made) -> dict[str, _Made]:
    """What the variables of a pattern are made of."""
    match pattern:
        case PVar(name):
            return {name: value}
        case PTuple(items):
            return {k: v for i, item in enumerate(items) for k, v in _bound(item, _step(value, i)).items()}
        case _:
            return {}


def _step(whole: _Made, step: int | str) -> _Made:
    match whole, step:
        case _Part(label, path, ty.TupleType(items)), int():
            return _Part(label, (*path, step), items[step])
        case _Part(label, path, ty.RecordType() as t), str():
            found = t.field(step)
            return None if found is None else _Part(label, (*path, step), found)
        case dict(), _:
            return whole.get(step)
        case _:
            return None


def _leaves(made: _Made) -> list[_Part] | None:
    """The parts that have no parts themselves; None where some part of the value is something else."""
    match made:
        case _Part(_, _, ty.TupleType(items)):
            steps: list[int | str] = [*range(len(items))]
        case _Part(_, _, ty.RecordType(fields)):
            steps = [name for name, _ in fields]
        case _Part():
            return [made]
        case dict():
            steps = [*made]
        case _:
            return None
    found = [_leaves(_step(made, step)) for step in steps]
    return None if None in found else [part for parts in found for part in parts or ()]
