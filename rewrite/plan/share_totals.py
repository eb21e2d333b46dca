"""Totals over the same rows share one state, and read a batch once.

*Equation*: for totals of one source, with `ui` the share of one row in the i-th,

    (reduce(⊕1, {z | x ∈ S, z ∈ e1(x)}), …, reduce(⊕n, {z | x ∈ S, z ∈ en(x)}))  merges with  ⊕1 × … × ⊕n,

and its change is computed from one pass over ΔS: `ui(x) = reduce(⊕i, ei(x))`. So an average, which is a sum and a
count, reads each row once.

*Requires*: feeds with the same rows; in a feed with a single input, all that is done to a row is part of its share.
*Source*: ours ([MRQL] §5: the product of monoids is a monoid).
"""

from __future__ import annotations

import attrs

from mrql.algebra.analysis.variables import Names, all_names, alpha_equal, pattern_term, pattern_vars, substitute
from mrql.algebra.monoids import ProductMonoid
from mrql.algebra.terms import CMap, Lambda, Nth, PAny, PTuple, PVar, Reduce, Single, Stream, Term, Tup, Var, pair_type
from mrql.algebra.types import UNIT
from mrql.rewrite.analysis.multilinear import Multilinear
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.plan.plan import Derivation, Feed, Feedbacks, Plan, Shape, Stage


def share_totals(plan: Plan) -> Plan:
    """The plan with its totals over the same rows in one stage.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.rewrite.pipeline import plan_query
    >>> runs = plan_query(parse("(reduce(+, S), reduce(max, S))", {"S": "{long}"})).runs
    >>> (derived,) = (run.after for run in runs if run.rule.name == "derive")
    >>> [stage.merge for stage in share_totals(derived).stages][0]
    ProductMonoid(items=(Aggregate(op=<Op.SUM: '+'>), Aggregate(op=<Op.MAX: 'max'>)))
    """
    groups: list[list[Stage]] = []
    for stage in plan.stages:
        wide = _over_whole_rows(stage) if stage.shape is Shape.TOTAL else stage
        for group in groups:
            if wide.shape is Shape.TOTAL and _same_rows(group[0], wide):
                group.append(wide)
                break
        else:
            groups.append([wide])
    moved: dict[str, Term] = {}
    stages = []
    for group in groups:
        stage = group[0] if len(group) == 1 else _together(group)
        if len(group) > 1:
            moved |= {old.name: Nth(stage.var, i) for i, old in enumerate(group)}
        stages.append(stage)
    stages = [stage if stage.name in moved else _reading(stage, moved) for stage in stages]
    derived = tuple(attrs.evolve(d, term=normalize(substitute(d.term, moved))) for d in plan.derived)
    feedbacks = tuple(_moved(loop, moved) for loop in plan.feedbacks)
    answer = normalize(substitute(plan.answer, moved))
    return attrs.evolve(plan, stages=tuple(stages), derived=derived, feedbacks=feedbacks, answer=answer)


def _moved(loop: Feedbacks, moved: dict[str, Term]) -> Feedbacks:
    """A loop whose terms read the totals in the stages that they share."""

    def there(term: Term) -> Term:
        return normalize(substitute(term, moved))

    parts = (attrs.evolve(part, value=there(part.value), start=there(part.start)) for part in loop.parts)
    return attrs.evolve(loop, parts=tuple(parts))


def _reading(stage: Stage, moved: dict[str, Term]) -> Stage:
    """A stage whose part of the answer reads the totals in the stages that they share."""
    answer = substitute(stage.derivation.answer, moved)
    if answer is stage.derivation.answer:
        return stage
    return attrs.evolve(stage, derivation=attrs.evolve(stage.derivation, answer=normalize(answer)))


def _same_rows(a: Stage, b: Stage) -> bool:
    return (
        a.shape is Shape.TOTAL
        and len(a.feeds) == len(b.feeds)
        and all(alpha_equal(x.rows.body, y.rows.body) and x.rows.inputs == y.rows.inputs for x, y in _pairs(a, b))
    )


def _pairs(a: Stage, b: Stage) -> list[tuple[Feed, Feed]]:
    return list(zip(a.feeds, b.feeds, strict=True))


def _over_whole_rows(stage: Stage) -> Stage:
    """A total whose feeds have the rows of their inputs unchanged, with all that is done to a row in its share."""
    return attrs.evolve(stage, feeds=tuple(_over_whole_row(feed) for feed in stage.feeds))


def _over_whole_row(feed: Feed) -> Feed:
    labels = [read.label for read in feed.rows.inputs]
    match feed.rows.body, feed.units:
        case CMap(Lambda(param, body), Stream(name) as source), ((0, Reduce(monoid, _)),) if labels == [name]:
            names = Names(set(all_names(feed.rows.body)))
            pattern, row = pattern_term(param, names)
            pairs = CMap(Lambda(pattern, Single(Tup((Tup(()), row)))), source)
            element = PVar(names.fresh("x"), pair_type(body)[1])
            values = CMap(Lambda(PTuple((PAny(UNIT), element)), Single(Var(element.name, element.type))), body)
            unit = normalize(Reduce(monoid, values))
            return attrs.evolve(
                feed, rows=Multilinear(normalize(pairs), feed.rows.inputs), element=pattern, units=((0, unit),)
            )
        case _:
            return feed


def _together(group: list[Stage]) -> Stage:
    """One stage with the components of several."""
    first = group[0]
    components = tuple(component for stage in group for component in stage.components)
    feeds = []
    for same in zip(*(stage.feeds for stage in group), strict=True):
        base = same[0]
        units = tuple((i, _renamed(feed, base)) for i, feed in enumerate(same))
        feeds.append(attrs.evolve(base, units=units))
    derivations = [stage.derivation for stage in group]
    derivation = Derivation(
        query=Tup(tuple(d.query for d in derivations)),
        lineage=Tup(tuple(d.lineage for d in derivations)),
        annotated=Tup(tuple(d.annotated for d in derivations)),
        h=Tup(tuple(d.h for d in derivations)),
        merge=ProductMonoid(tuple(d.merge for d in derivations)),
        answer=Var(first.name, Tup(tuple(d.answer for d in derivations)).type),
    )
    return attrs.evolve(first, components=components, feeds=tuple(feeds), derivation=derivation)


def _renamed(feed: Feed, base: Feed) -> Term:
    """A feed's share over the variables of another one with the same rows."""
    pairs = zip(pattern_vars(feed.element), pattern_vars(base.element), strict=True)
    return substitute(feed.units[0][1], {old.name: Var(new.name, new.type) for old, new in pairs})
