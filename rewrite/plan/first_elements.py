"""The first elements of an order, which are followed from batch to batch without all the others.

A prefix P of what is ordered is kept: all elements that come before a bound b. Where each key of a state X makes one
element, the batch touches the keys K; where the elements are linear in a bag X, it changes that by ΔX:

    P' = {e ∈ P | key(e) ∉ K} ⊎ {e ∈ f(X'|K) | e < b}        P' = P ⊎ {e ∈ f(ΔX) | e < b}

is again all that comes before b, and its first n elements are those of the order. Where it has not so many any more, P
and b are taken from the whole again.

*Source*: [MRQL] Def. 4 (the kMap), [DBSP] Thm 3.3 (what is linear).
"""

from __future__ import annotations

import attrs

from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.terms import CMap, Empty, If, Lambda, Let, Lit, OrderBy, Repeat, Single, Take, Term, Var
from mrql.rewrite.plan.delta_rules import DeltaRules, Rule, delta_rules
from mrql.rewrite.plan.plan import Stage

FIRST_MAX_COUNT = 10_000
"""No more than so many elements are followed."""


@attrs.frozen(eq=False)
class FirstElements:
    """The first elements of what is made of one state: of each of its keys one, or linear in its bag."""

    count: int
    ordered: OrderBy
    rules: DeltaRules
    """How what is ordered follows the state."""
    stage: Stage
    """The state."""

    @property
    def is_by_key(self) -> bool:
        """Whether each key makes one element at most."""
        return self.rules.of_all.rule is Rule.KEYS


def first_elements(answer: Term, stages: tuple[Stage, ...]) -> FirstElements | None:
    """The first elements that an answer is; None where it is something else, or has to be made of the whole.

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
    """Whether each row of a state makes one element at most, in one way: what the row is of can be told beside it.

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
