"""How a term over states changes with a batch: its delta rule, which the engines and `explain` look up.

Where the answer, or a derived stream, is a kMap over one state, a batch changes it only at the keys that it touches:
`touched_stage`. Where it is linear in a state that is a bag, it changes by its value over the bag's change:
`linear_stage`. And where such a bag stays and another state changes that is read beside it, the results of each element
of the bag, before and after, are compared: `row_by_row`. Of an answer that is the first elements of an order, these can
be maintained without the others: `first_elements`.

*Source*: [MRQL] Def. 4 (the kMap), [DBSP] Thm 3.4 (what is linear).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import Enum

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import free_vars
from mrql.algebra.evaluation.recursive_functions import calls_python
from mrql.algebra.terms import (
    CMap,
    Empty,
    If,
    Lambda,
    Let,
    Lit,
    OrderBy,
    Pattern,
    PTuple,
    PVar,
    Rec,
    Repeat,
    Single,
    Take,
    Term,
    Tup,
    Var,
)
from mrql.rewrite.analysis.infer_merge import is_linear
from mrql.rewrite.plan.plan import Shape, Stage


class Rule(Enum):
    """How a change of states changes the value of a term over them."""

    CHANGE = "its value over the change of the bag that it is linear in"
    KEYS = "its values at the touched keys, before and after"
    ELEMENTS = "what each element of a bag gives, compared with what it gave, where it lies"
    WHOLE = "its values before and after, compared whole"


@attrs.frozen
class DeltaRule:
    """A rule, and the stage whose bag, keys or elements it is about; None where values are compared whole."""

    rule: Rule
    stage: Stage | None = None


WHOLE = DeltaRule(Rule.WHOLE)


@attrs.frozen(eq=False)
class DeltaRules:
    """The delta rules of a term over states, by which of the states a batch has changed.

    The rules are found once, when the circuit is made, and looked up in each batch.
    """

    term: Term
    reads: frozenset[str]
    """The names of the stages that the term is over."""
    alone: Mapping[str, DeltaRule]
    """For each of them, the rule where it alone has changed."""
    by_element: Stage | None
    """The bag whose elements are compared where another state has changed beside it."""
    one_by_key: Stage | None
    """The one stage that the term is over, if the term has at most one element for each of its keys."""
    tells_apart: bool
    """Whether different elements give different results, where elements are compared."""
    first: FirstElements | None = None
    """The first elements of an order, for an answer that consists of these, if they can be maintained without the
    others."""

    def of(self, changed: Collection[str]) -> DeltaRule:
        """The rule where these stages have changed; stages that the term is not over are ignored."""
        if self.by_element is not None and self.reads & {*changed} - {self.by_element.name}:
            return DeltaRule(Rule.ELEMENTS, self.by_element)
        return self.of_values(changed)

    def of_values(self, changed: Collection[str]) -> DeltaRule:
        """The rule where elements are not compared one by one, as where there was nothing before."""
        read = self.reads & {*changed}
        return self.alone[next(iter(read))] if len(read) == 1 else WHOLE

    @property
    def of_all(self) -> DeltaRule:
        """The rule where every stage that the term is over may have changed."""
        return self.of(self.reads)


def delta_rules(term: Term, stages: tuple[Stage, ...]) -> DeltaRules:
    """The rules of a term."""
    read = tuple(stage for stage in stages if stage.name in free_vars(term))
    keyed = touched_stage(term, stages)
    return DeltaRules(
        term,
        frozenset(stage.name for stage in read),
        {stage.name: _alone(term, stage) for stage in read},
        row_by_row(term, stages),
        keyed if keyed is not None and gives_one(term, keyed.name) else None,
        isinstance(term, CMap) and tells_apart(term),
    )


def _alone(term: Term, stage: Stage) -> DeltaRule:
    """The rule where this stage has changed, and no other that the term is over."""
    if linear_stage(term, (stage,)) is not None:
        return DeltaRule(Rule.CHANGE, stage)
    if touched_stage(term, (stage,)) is not None:
        return DeltaRule(Rule.KEYS, stage)
    return WHOLE


def is_by_key(answer: Term, state: str) -> bool:
    """Whether an answer is the union of its values for each key of a state by itself.

    >>> from mrql.algebra.notation.parser import parse
    >>> X = {"X": ty.BagType(ty.TupleType((ty.LONG, ty.LONG)))}
    >>> is_by_key(parse("cMap(λ(k, s). if s > 2L then {k} else {}:{long}, X)", {}, X), "X")
    True
    >>> is_by_key(parse("groupBy(X)", {}, X), "X")
    False
    """
    match answer:
        case Var(name, _):
            return name == state
        case CMap(_, source):
            inner = any(isinstance(t, Var) and t.name == state for t in subterms(answer.function.body))
            return not inner and is_by_key(source, state)
        case _:
            return False


def touched_stage(term: Term, stages: tuple[Stage, ...]) -> Stage | None:
    """The stage whose touched keys alone determine a change of a term; None where more does."""
    match [stage for stage in stages if stage.name in free_vars(term)]:
        case [stage] if stage.shape is Shape.KEYED and is_by_key(term, stage.name):
            return stage
        case _:
            return None


def gives_one(answer: Term, state: str) -> bool:
    """Whether an answer that is by key has at most one element for each key of a state.

    >>> from mrql.algebra.notation.parser import parse
    >>> X = {"X": ty.BagType(ty.TupleType((ty.LONG, ty.LONG)))}
    >>> gives_one(parse("cMap(λ(k, s). if s > 2L then {k} else {}:{long}, X)", {}, X), "X")
    True
    >>> gives_one(parse("cMap(λ(k, s). {k} ⊎ {s}, X)", {}, X), "X")
    False
    """
    match answer:
        case Var(name, _):
            return name == state
        case Single() | Empty():
            return True
        case If(_, then, otherwise):
            return gives_one(then, state) and gives_one(otherwise, state)
        case Let(_, _, body):
            return gives_one(body, state)
        case CMap(function, source):
            return gives_one(function.body, state) and gives_one(source, state)
        case _:
            return False


def linear_stage(term: Term, stages: tuple[Stage, ...]) -> Stage | None:
    """The one bag that a term is over, and linear in: the change of the bag alone then determines that of the term."""
    match [stage for stage in stages if stage.name in free_vars(term)]:
        case [stage] if stage.shape is Shape.BAG and isinstance(term.type, ty.BagType) and is_linear(term, stage.name):
            return stage
        case _:
            return None


def row_by_row(term: Term, stages: tuple[Stage, ...]) -> Stage | None:
    """The bag whose elements each give at most one element of a term, which reads other states beside it.

    *Equation*: with f(X, C) = cMap(λp. g(p, C), X), linear in X,

        f(X ⊎ ΔX, C') − f(X, C) = ⊎ {g(p, C') − g(p, C) | p ∈ X} ⊎ f(ΔX, C')

    so that an element whose result stays the same is no part of the change, and rows are compared in place. *Source*:
    [DBSP] Thm 3.4, where only one of the arguments is linear. *Requires*: g(p, C) is an expression of Spark, as no
    Python function must be called for rows that a condition excludes.
    """
    named = {stage.name: stage for stage in stages}
    match term:
        case CMap(Lambda(_, body), Var(name)) if name in named and named[name].shape is Shape.BAG:
            read = free_vars(body) & named.keys()
            fits = only_element(body) is not None and name not in read and bool(read) and not calls_python(body)
            return named[name] if fits else None
        case _:
            return None


def only_element(body: Term) -> Term | None:
    """The one element of a body, which may be under conditions; None where the body is not of that form.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> show(only_element(parse("if true then {1L} else {}:{long}")))
    '1L'
    """
    match body:
        case Single(item):
            return item
        case If(_, then, Empty()):
            return only_element(then)
        case _:
            return None


def tells_apart(term: CMap) -> bool:
    """Whether different elements of a bag give different results, since each result contains its element.

    >>> from mrql.algebra.notation.parser import parse
    >>> X = {"X": ty.BagType(ty.TupleType((ty.LONG, ty.LONG)))}
    >>> tells_apart(parse("cMap(λ(x, y). if x > 2L then {(y, (1L, x))} else {}, X)", {}, X))
    True
    >>> tells_apart(parse("cMap(λ(x, y). {x}, X)", {}, X)), tells_apart(parse("cMap(λ(x, _). {x}, X)", {}, X))
    (False, False)
    """
    item = only_element(term.function.body)
    return item is not None and _is_told(term.function.param, {*_parts(item)})


def _is_told(param: Pattern, parts: set[Term]) -> bool:
    match param:
        case PTuple(items):
            return all(_is_told(item, parts) for item in items)
        case PVar(name, t):
            return Var(name, t) in parts
        case _:
            return False


def _parts(item: Term) -> Iterator[Term]:
    """The parts of a tuple or a record, and of those in it."""
    match item:
        case Tup(items):
            yield from (part for each in items for part in _parts(each))
        case Rec(fields):
            yield from (part for _, each in fields for part in _parts(each))
        case _:
            yield item


# --- the first elements of an order -------------------------------------------------------------

FIRST_MAX_COUNT = 10_000
"""The largest number of first elements that are maintained."""


@attrs.frozen(eq=False)
class FirstElements:
    """The first elements of an ordered term over one state, maintained from batch to batch without the others.

    A prefix P of the order is kept: all elements that come before a bound b. A batch touches the keys K, where each key
    of the state X gives one element at most; or it changes X by ΔX, where the elements are linear in a bag X:

        P' = {e ∈ P | key(e) ∉ K} ⊎ {e ∈ f(X'|K) | e < b}        P' = P ⊎ {e ∈ f(ΔX) | e < b}

    is again all that comes before b, and its first elements are those of the order. Where it has too few of them, P and
    b are computed from the whole again.
    """

    count: int
    ordered: OrderBy
    rules: DeltaRules
    """The delta rules of the ordered term."""
    stage: Stage
    """The stage of the state."""

    @property
    def is_by_key(self) -> bool:
        """Whether each key gives at most one element."""
        return self.rules.of_all.rule is Rule.KEYS


def first_elements(answer: Term, stages: tuple[Stage, ...]) -> FirstElements | None:
    """The first elements that an answer consists of; None where it is another term, or must be computed from the whole.

    >>> from mrql.algebra.notation.parser import parse
    >>> first_elements(parse("take(2L, orderBy({((1L,), 1L)}; asc))"), ()) is None
    True
    """
    match answer:
        case Take(Lit(int() as count), OrderBy(source) as ordered) if count <= FIRST_MAX_COUNT:
            rules = delta_rules(source, stages)
            found = rules.of_all
            if found.stage is None or any(isinstance(t, Repeat) for t in subterms(source)):
                return None
            follows = found.rule is Rule.CHANGE or (found.rule is Rule.KEYS and _is_one_row(source, found.stage.name))
            return FirstElements(max(count, 0), ordered, rules, found.stage) if follows else None
        case _:
            return None


def _is_one_row(source: Term, state: str) -> bool:
    """Whether each row of a state gives at most one element, by one head, so that the key of the row can be kept beside
    it.

    >>> from mrql.algebra import types as ty
    >>> from mrql.algebra.notation.parser import parse
    >>> X = {"X": ty.BagType(ty.TupleType((ty.LONG, ty.LONG)))}
    >>> texts = "cMap(λ(k, s). if s > 2L then {k} else {}, X)", "cMap(λ(k, s). if s > 2L then {k} else {s}, X)"
    >>> [_is_one_row(parse(text, {}, X), "X") for text in texts]
    [True, False]
    """
    match source:
        case Var(name, _):
            return name == state
        case CMap(Lambda(_, body), inner):
            return _has_one_form(body) and _is_one_row(inner, state)
        case _:
            return False


def _has_one_form(body: Term) -> bool:
    match body:
        case If(_, then, Empty()):
            return _has_one_form(then)
        case Let(_, _, inner):
            return _has_one_form(inner)
        case _:
            return isinstance(body, Single)
