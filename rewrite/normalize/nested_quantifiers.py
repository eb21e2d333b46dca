"""Quantifiers in a nested select that are linked with the select around it become joins with distinct keys.

*Equation*: for a select over Y that is nested in `{… | x ∈ X}`, where a condition asks for a witness z ∈ Z by a key of
y and x together, `w(y, x) = count({1 | z ∈ Z, l(y) = r(z), m(x) = s(z), g(z)}) > 0`:

    {e | y ∈ Y, c, w(y, x)} = {e | y ∈ Y, (k, j) ∈ K, l(y) = k, m(x) = j, c}
    K = distinct {(r(z), s(z)) | z ∈ Z, g(z)}

K has each key once, so that each y occurs as often as before. The select is then one over a join of Y and K, which an
equality links with x. The select of the y without a witness is no join, but their number is a difference:

    count({1 | y ∈ Y, c, not w(y, x)}) = count({1 | y ∈ Y, c}) − count({1 | y ∈ Y, c, w(y, x)})

So the tests `= 0` and `> 0`, of `all`, `some` and `exists`, compare two counts, of which the first is the same for all
x: a relational division, such as `not exists y: not exists z`, reads X and a join, and not Y for each x.

*Requires*: Y and Z read sources and depend on no variable; each equality of the witness is with y alone or with x
alone, and there is one of each; its other conditions are on z alone. No equality links y and x, as the select would be
unnested by that. In the difference c is on y alone. Nothing may fail, and no key may leave its range. A key with a
missing part equals nothing: it is in no join, as it has no witness. Y and Z are sources or computed from these, and so
may be empty but never missing, unlike a bag in a row.

*Source*: ours, from [NK] §3; the counts are those of [MRQL] §6.

*Does not fire* on a select that is nested three levels deep and names the outermost row in the innermost one: that is
no condition on z alone. Nor does the difference where y and x are compared in another way: then c is no condition on y
alone.
"""

from __future__ import annotations

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.distinct import distinct
from mrql.algebra.analysis.traversal import children, with_children
from mrql.algebra.analysis.variables import Names, all_names, free_vars, scopes, var_of
from mrql.algebra.evaluation.may_fail import may_fail
from mrql.algebra.functions import EQ, GT, NOT
from mrql.algebra.monoids import SUM
from mrql.algebra.terms import (
    CMap,
    Lambda,
    Lit,
    Prim,
    PVar,
    Reduce,
    Single,
    Term,
    one_or_pattern,
)
from mrql.rewrite.analysis.join_predicates import guard, key_parts, link, reads_sources
from mrql.rewrite.normalize.extract_joins import Spine, bound_by, comprehension, over_generators
from mrql.rewrite.normalize.nested_selects import may_end_in_an_error

ONE = Single(Lit(1, ty.LONG))


def join_quantifiers(term: Term) -> Term:
    """The term with the quantifiers in its nested selects as joins.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> S = {"X": "{long}", "Y": "{long}", "Z": "{(long, long)}"}
    >>> witness = "reduce(+, cMap(λ(a, b). if a = y and b = x then {1L} else {}:{long}, Z)) > 0L"
    >>> rest = f"reduce(+, cMap(λy. if not {witness} then {{1L}} else {{}}:{{long}}, Y))"
    >>> "groupBy" in show(join_quantifiers(parse(f"cMap(λx. if {rest} = 0L then {{x}} else {{}}:{{long}}, X)", S)))
    True
    """
    return _Quantifiers(Names(set(all_names(term)))).visit(term, frozenset())


@attrs.frozen
class Witness:
    """A condition that a witness exists (`is_there`), or does not: `{1 | generators, conditions}` has an element, or
    none."""

    term: CMap
    is_there: bool


def _asked(condition: Term) -> Witness | None:
    """The witness that a condition on a count asks for, if it does."""
    match condition:
        case Prim(function, (Reduce(monoid, CMap() as counted), Lit(0, _))) if monoid == SUM and function in (GT, EQ):
            return Witness(counted, function == GT)
        case Prim(function, (negated,)) if function == NOT and (witness := _asked(negated)) is not None:
            return attrs.evolve(witness, is_there=not witness.is_there)
        case _:
            return None


class _Quantifiers:
    def __init__(self, names: Names) -> None:
        self.names = names

    def visit(self, term: Term, outer: frozenset[str]) -> Term:
        """Rewrites a term, inner selects first; `outer` are the variables around it."""
        parts = zip(children(term), scopes(term), strict=True)
        term = with_children(term, tuple(self.visit(child, outer | bound) for child, bound in parts))
        match term:
            case CMap() if outer and (joined := self.with_witnesses(term, outer)) is not None:
                return joined
            case Prim(function, (Reduce(monoid, CMap() as counted), Lit(0, _))) if (
                outer and monoid == SUM and function in (GT, EQ)
            ):
                return self.difference(term, counted, outer) or term
            case _:
                return term

    def with_witnesses(self, select: CMap, outer: frozenset[str]) -> Term | None:
        """`{e | y ∈ Y, c, w(y, x)}` as a join."""
        spine = self.closed(select, outer)
        if spine is None:
            return None
        for condition in spine.conditions:
            witness = _asked(condition)
            if witness is not None and witness.is_there:
                others = tuple(c for c in spine.conditions if c is not condition)
                keys = self.keys(witness.term, spine, outer)
                if keys is not None:
                    joined = CMap(keys.function(guard(others, spine.head)), keys.source, span=select.span)
                    return over_generators(spine.generators, joined)
        return None

    def difference(self, asked: Prim, counted: CMap, outer: frozenset[str]) -> Term | None:
        """`count({1 | y ∈ Y, c, not w(y, x)})` compared with 0, as the comparison of two counts."""
        spine = self.closed(counted, outer)
        if spine is None or spine.head != ONE:
            return None
        for condition in spine.conditions:
            witness = _asked(condition)
            others = tuple(c for c in spine.conditions if c is not condition)
            if witness is None or witness.is_there or any(free_vars(c) & outer for c in others):
                continue
            keys = self.keys(witness.term, spine, outer)
            if keys is not None:
                every = over_generators(spine.generators, guard(others, ONE))
                with_one = over_generators(spine.generators, CMap(keys.function(guard(others, ONE)), keys.source))
                return attrs.evolve(asked, args=(Reduce(SUM, every), Reduce(SUM, with_one)))
        return None

    def closed(self, select: CMap, outer: frozenset[str]) -> Spine | None:
        """The select as a spine, if it is over sources, no equality links it with outer variables, and nothing in it
        may fail."""
        spine = comprehension(select, self.names, outer | free_vars(select))
        bound = bound_by(spine.generators)
        over_sources = all(not free_vars(g.source) & outer and not may_fail(g.source) for g in spine.generators)
        if not over_sources or not reads_sources(spine.generators[0].source) or any(map(may_fail, spine.conditions)):
            return None
        return None if link(spine.conditions, outer, bound).on_keys else spine

    def keys(self, witness: CMap, around: Spine, outer: frozenset[str]) -> _Keys | None:
        """The keys that have a witness, and the key of y and x that is compared with them; None where *Requires* does
        not hold."""
        known = outer | bound_by(around.generators)
        spine = comprehension(witness, self.names, known | free_vars(witness))
        if spine.head != ONE or any(map(may_end_in_an_error, spine.conditions)):
            return None
        if any(free_vars(g.source) & known or may_fail(g.source) for g in spine.generators):
            return None
        keys = link(spine.conditions, known, bound_by(spine.generators))
        if not keys.on_keys or any(free_vars(c) & known for c in keys.rest):
            return None
        wanted = key_parts(keys.left)
        of_x = [part for part in wanted if free_vars(part) <= outer]
        of_y = [part for part in wanted if not free_vars(part) & outer]
        if not (of_x and of_y) or len(of_x) + len(of_y) < len(wanted):
            return None
        found = over_generators(spine.generators, guard(keys.rest, Single(keys.right)))
        variables = tuple(PVar(self.names.fresh("w"), part.type) for part in wanted)
        return _Keys(wanted, variables, distinct(found, self.names))


@attrs.frozen
class _Keys:
    """`wanted` are the parts of the key of y and x, `variables` bind those of a key with a witness, in `source`."""

    wanted: tuple[Term, ...]
    variables: tuple[PVar, ...]
    source: Term

    def function(self, then: Term) -> Lambda:
        equal = (Prim(EQ, (part, var_of(v))) for part, v in zip(self.wanted, self.variables, strict=True))
        return Lambda(one_or_pattern(self.variables), guard(equal, then))
