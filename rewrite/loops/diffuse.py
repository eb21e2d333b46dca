"""A loop whose value is carried over from batch to batch: a change is propagated through the steps while it matters.

*Equation*: for  repeat(λx. f(x, S), n, g(S))  with f = a ∘ h, and a stream C in the place of x,

    T = h(C, S),     value = a(T) = f(C, S)

are stages and an answer like any others. A batch ΔS is merged into T; then, step by step, the difference between the
value and C is fed back,

    C ← C ⊎ Δ,     T ← T ⊗ (the change of h(C, S) for Δ),     Δ = the part of  f(C, S) − C  that matters,

until no difference matters, or n steps are taken. An element that differs from the one it replaces by no more than a
threshold does not matter: it is held back until it does. The rest of `f(C, S) − C` is the *residual*: the value is one
whole step from C, and C differs from it by no more than the residual.

C begins with g(S); elements that are added to g(S) later are added to C where it has none like them.

*Requires*: the step leads to the same value, or close to it, whatever it begins with, as a contraction does; a step
that keeps its input would also keep what has been deleted. The loop carries bags.

*Source*: [MRQL] §2 (Iteration), §8.2 Def. 5 (diffusion). There T ⊗̂ h(ΔX, ΔS) is merged with T once more at the end, so
that the old T counts twice, and points once assigned to a centroid stay with it; here T is h(C, S) at all times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names, alpha_equal, match_pattern, substitute, var_of
from mrql.algebra.monoids import OR
from mrql.algebra.terms import CMap, Lambda, Lit, Nth, Pattern, PTuple, PVar, Reduce, Repeat, Single, Stream, Term, Tup
from mrql.rewrite.loops.rewrite_steps import carried
from mrql.rewrite.loops.unroll import carries_bags
from mrql.rewrite.normalize.normalize import normalize
from mrql.rewrite.plan.loop_strategy import Unfit


@attrs.frozen
class CarriedBag:
    """A bag that a loop carries from batch to batch."""

    fed: Stream
    """C: the stream that the step reads."""
    value: Term
    """f(C, S)."""
    start: Term
    """g(S)."""
    read: Stream
    """The stream that replaces the value in the query."""


@attrs.frozen
class Diffused:
    """A loop as its step over streams that hold its previous value."""

    loop: Repeat
    parts: tuple[CarriedBag, ...]
    """One for each bag that the loop carries."""
    value: Term
    """The term that replaces the loop in the query."""

    @property
    def name(self) -> str:
        """The names of the streams that the step reads."""
        return ", ".join(part.fed.name for part in self.parts)

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(term for part in self.parts for term in (part.value, part.start))

    def with_terms(self, run: Callable[[Term], Term]) -> Diffused:
        """The same loop with `run` applied to its terms."""
        parts = (attrs.evolve(part, value=run(part.value), start=run(part.start)) for part in self.parts)
        return attrs.evolve(self, parts=tuple(parts))


def diffuse_obstacle(loop: Repeat) -> str | None:
    """Why the value of a loop cannot be carried over, if it cannot.

    >>> from mrql.algebra.notation.parser import parse
    >>> diffuse_obstacle(parse("repeat(λx. x ⊎ E, 3, E)", {"E": "{long}"}))
    >>> diffuse_obstacle(parse("repeat(λx. x + reduce(+, E), 3, 0L)", {"E": "{long}"}))
    'it carries more than bags'
    >>> diffuse_obstacle(parse("repeat(λx. x while reduce(+, cMap(λv. {1L}, x)) < 9L, 3, E)", {"E": "{(long, bool)}"}))
    'the data say when it ends'
    """
    if not carries_bags(loop.function.param):
        return "it carries more than bags"
    if loop.condition is not None and not _has_flags(loop):
        return "the data say when it ends"
    if not isinstance(loop.limit, Lit | None):
        return "its limit depends on the data"
    if loop.limit is not None and not (isinstance(loop.limit.value, int) and loop.limit.value > 0):
        return "it takes no step"
    return None


def diffuse(loop: Repeat, names: Names) -> Diffused:
    """The loop as its step over streams that replace the bags it carries.

    Raises: Unfit when its value cannot be carried over.

    Flags beside the elements, which say whether the loop continues, are not carried over: it continues while elements
    change by enough.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.algebra.notation.printer import show
    >>> loop = parse("repeat(λx. cMap(λy. {0.5 * y}, x) ⊎ E, 20, E)", {"E": "{double}"})
    >>> found = diffuse(loop, Names())
    >>> show(found.value), show(found.parts[0].value)
    ('V', 'cMap(λy. {0.5 * y}, C) ⊎ E')
    """
    reason = diffuse_obstacle(loop)
    if reason is not None:
        raise Unfit(reason)
    flagged = loop.condition is not None
    variables, pattern = carried(loop.function.param, names)
    fed = {v.name: Stream(names.fresh("C"), _elements(v, flagged=flagged)) for v in variables}
    inside = {v.name: _with_flags(fed[v.name], names) if flagged else fed[v.name] for v in variables}
    after = match_pattern(pattern, substitute(loop.function.body, inside))
    before = match_pattern(pattern, loop.source)
    parts = []
    for v in variables:
        value, start = (_without_flags(side[v.name], names) if flagged else side[v.name] for side in (after, before))
        read = Stream(names.fresh("V"), fed[v.name].type)
        parts.append(CarriedBag(fed[v.name], normalize(value), normalize(start), read))
    reads = [_with_flags(part.read, names) if flagged else part.read for part in parts]
    return Diffused(loop, tuple(parts), _made(pattern, iter(reads)))


def _has_flags(loop: Repeat) -> bool:
    """Whether the loop carries one bag of pairs (element, flag), and goes on while one of the flags is true."""
    match loop.function.param, loop.condition:
        case PVar(_, ty.BagType(ty.TupleType((_, ty.BOOL)) as pair)) as z, Reduce() as condition:
            v = PVar("v", pair)
            return alpha_equal(condition, Reduce(OR, CMap(Lambda(v, Single(Nth(var_of(v), 1))), var_of(z))))
        case _:
            return False


def _elements(v: PVar, *, flagged: bool) -> ty.Type:
    if not flagged:
        return v.type
    assert isinstance(v.type, ty.BagType)
    assert isinstance(v.type.item, ty.TupleType)
    return ty.BagType(v.type.item.items[0])


def _with_flags(bag: Stream, names: Names) -> Term:
    assert isinstance(bag.type, ty.BagType)
    x = PVar(names.fresh("x"), bag.type.item)
    return CMap(Lambda(x, Single(Tup((var_of(x), Lit(True, ty.BOOL))))), bag)


def _without_flags(bag: Term, names: Names) -> Term:
    assert isinstance(bag.type, ty.BagType)
    x = PVar(names.fresh("x"), bag.type.item)
    return CMap(Lambda(x, Single(Nth(var_of(x), 0))), bag)


def _made(pattern: Pattern, parts: Iterator[Term]) -> Term:
    """The term with the shape of a pattern, over the given parts."""
    match pattern:
        case PTuple(items):
            return Tup(tuple(_made(item, parts) for item in items))
        case _:
            return next(parts)
