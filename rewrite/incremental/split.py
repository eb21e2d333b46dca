"""Splitting a function of groups into what merges and what does not.

*Equation*: with `e1, …, en` the largest subterms of e that are homomorphisms of the groups,

    cMap(λ(θ, v). {(θ', e)}, X)
      = cMap(λ(θ', (x1, …, xn)). {(θ', f(x1, …, xn))}, cMap(λ(θ, v). {(θ', (e1, …, en))}, X))

The outer cMap keeps the lineage: it is a kMap, and part of the answer. We generalise it to a function that may return
any bag, so that a `having` or a nested select over the group is split in the same way.

A part that e evaluates only under a condition, or only for the elements of another group, is computed for all groups.
If it is an aggregation whose elements may leave their range, its parts are those of `guarded_aggregates.py`; f fails
where e does.

*Requires*: a candidate names no variable bound in e, and no stream; it merges with `⊎` or a monoid on basic values in
each group that it uses, the others invariant. A term that may fail, and that e evaluates only under a condition, is no
candidate: each `ei` is computed for all groups.

*Source*: [MRQL] §9.
"""

from __future__ import annotations

import attrs

from mrql.algebra.analysis.traversal import children, subterms, with_children
from mrql.algebra.analysis.variables import Names, alpha_equal, free_vars, scopes
from mrql.algebra.evaluation.may_fail import fails_in_spite_of_guards, guards
from mrql.algebra.monoids import BAG, SUM, Aggregate, BagUnion, Monoid, is_group
from mrql.algebra.terms import CMap, Empty, If, Lambda, Lit, Reduce, Single, Stream, Term, Var
from mrql.rewrite.analysis.guarded_aggregates import AttemptedAggregate, attempted, computes_out_of_range
from mrql.rewrite.analysis.infer_merge import infer


@attrs.frozen
class Part:
    """A largest homomorphic subterm: the variable that stands for it, the term, and its monoid."""

    name: str
    term: Term
    monoid: Aggregate | BagUnion

    @property
    def var(self) -> Var:
        return Var(self.name, self.term.type)


def split(
    function: Term, groups: frozenset[str], names: Names, *, one_group: bool = False, shrinks: bool = False
) -> tuple[tuple[Part, ...], Term]:
    """The parts `e1, …, en` of a function of `groups`, and `f` over their variables.

    With `one_group`, a part may use only one of the groups. Where the groups may lose elements (`shrinks`), a part
    merges with a monoid that has inverses; for a minimum, the part is the bag of the values.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> from mrql.algebra.types import BagType, DOUBLE
    >>> f = parse("{reduce(+, s) ÷ reduce(+, cMap(λv. {1L}, s))}", {}, {"s": BagType(DOUBLE)})
    >>> parts, rest = split(f, frozenset({"s"}), Names())
    >>> [show(part.term) for part in parts], show(rest)
    (['reduce(+, s)', 'reduce(+, cMap(λv. {1L}, s))'], '{s ÷ c}')
    """
    splitter = _Splitter(groups, names, one_group, shrinks)
    rest = splitter.visit(function, frozenset(), False)
    return tuple(splitter.parts), rest


class _Splitter:
    def __init__(self, groups: frozenset[str], names: Names, one_group: bool, shrinks: bool) -> None:
        self.groups = groups
        self.shrinks = shrinks
        self.most = 1 if one_group else len(groups)
        self.names = names
        self.parts: list[Part] = []

    def visit(self, term: Term, local: frozenset[str], is_guarded: bool) -> Term:
        """The term over the parts; a guarded term is evaluated only under a condition, or for the elements of a bag
        that may be empty."""
        monoid = None if is_guarded and fails_in_spite_of_guards(term) else self.merges(term, local)
        if monoid is not None:
            if not (is_guarded and computes_out_of_range(term)):
                return self.part(term, monoid).var
            if (attempt := attempted(term)) is not None:
                return self.where_asked(attempt, monoid)
        places = zip(children(term), scopes(term), guards(term), strict=True)
        inside = term.function.body if isinstance(term, CMap) else None
        visited = (
            self.visit(child, local | bound, is_guarded or bool(under) or child is inside)
            for child, bound, under in places
        )
        return with_children(term, tuple(visited))

    def where_asked(self, attempt: AttemptedAggregate, monoid: Aggregate | BagUnion) -> Term:
        """An aggregation over its parts, whose overflow is an error where it is evaluated, not where the parts are
        kept."""
        total = self.part(attempt.total, monoid).var
        missing = None if attempt.missing is None else self.part(attempt.missing, SUM).var
        return attempt.where_asked(total, missing)

    def merges(self, term: Term, local: frozenset[str]) -> Aggregate | BagUnion | None:
        """The one monoid with which the term merges in each group that it uses, or None."""
        used = free_vars(term) & self.groups
        if (
            not 0 < len(used) <= self.most
            or free_vars(term) & local
            or any(isinstance(t, Stream) for t in subterms(term))
        ):
            return None
        judged = {infer(term, {group: BAG}) for group in used}
        monoid = judged.pop() if len(judged) == 1 else None
        if not isinstance(monoid, Aggregate | BagUnion) or (self.shrinks and not is_group(monoid)):
            return None
        return monoid

    def part(self, term: Term, monoid: Aggregate | BagUnion) -> Part:
        """The part for a term; terms that differ only in bound names share one."""
        for known in self.parts:
            if alpha_equal(known.term, term):
                return known
        new = Part(self.names.fresh(_base_name(term, monoid)), term, monoid)
        self.parts.append(new)
        return new


def _base_name(term: Term, monoid: Monoid) -> str:
    match monoid:
        case BagUnion():
            return "vs"
        case Aggregate() if monoid == SUM:
            return "c" if is_count(term) else "s"
        case Aggregate(op):
            return op.name.lower()
        case _:
            return "v"


def is_count(term: Term) -> bool:
    """Whether the term counts elements of a group: `reduce(+, cMap(λv. {1}, s))`, also under a condition."""
    match term:
        case Reduce(monoid, CMap(Lambda(_, body), Var())):
            counted = body.then if isinstance(body, If) and isinstance(body.otherwise, Empty) else body
            return monoid == SUM and isinstance(counted, Single) and isinstance(counted.item, Lit)
        case _:
            return False
