"""`repeat p = e step s limit n`: loops.

    repeat x = e step s limit n       repeat(λx. s, n, e)
    repeat (x, y) = (e, f) step (s, t)     repeat(λ(x, y). (s, t), within N, (e, f))

Without flags a loop takes n steps, or goes on until a step changes nothing. With flags it goes on while one of them is
true, and n steps at most: the flag stands beside each element of a collection, or beside a whole value,

    repeat x = e step {(v, b), …}     cMap(λ(v, _). {v}, repeat(λz. s[{v | (v, _) ∈ z}/x] while some of the flags in z,
                                                                n, {(v, true) | v ∈ e}))

and each part of a tuple may have its own. The value that goes from step to step has the least type that holds the first
value and the values of all steps: `{}` takes its type from the step, and numbers widen.

*Source*: [MRQL] §5 (repeat).
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from mrql import syntax
from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import Names
from mrql.algebra.errors import UserError
from mrql.algebra.functions import OR
from mrql.algebra.monoids import OR as ANY
from mrql.algebra.span import Span
from mrql.algebra.terms import CMap, Lambda, Let, Lit, Nth, Pattern, Prim, PVar, Reduce, Repeat, Single, Term, Tup, Var
from mrql.algebra.types import Type
from mrql.translate.coercion import coerce
from mrql.translate.patterns import take_apart
from mrql.translate.scope import Scope

WIDENED_MAX_TIMES = 20
"""The largest number of widenings of a type; one that is widened more often grows without end."""

TRUE = Lit(True, ty.BOOL)


def repeat(expr: syntax.Repeat, scope: Scope) -> Term:
    """The term of a loop.

    Raises: UserError where the pattern does not match every value, the limit is no integer, or a step does not fit what
    the loop began with.
    """
    source = scope.translate(expr.init)
    limit = None if expr.limit is None else scope.translate(expr.limit)
    if expr.limit is not None and limit is not None and not (ty.is_integral(limit.type) or limit.type == ty.NOTHING):
        raise UserError(f"the limit of a loop must be an integer, not {limit.type}", expr.limit.span)
    carried, pattern, step, flags = _typed_step(expr, source.type, scope)
    first = _fitted(source, carried, expr.init.span, "what the loop begins with")
    most = scope.globals.max_steps
    if not flags.any:
        body = _fitted(step, carried, expr.step.span, "a step")
        return Repeat(Lambda(pattern, body), first, limit, most=most, span=expr.span)
    names = scope.globals.names
    wide = flags.flagged(carried)
    state = PVar(names.fresh("z"), wide)
    z = Var(state.name, wide)
    body = Let(pattern, flags.dropped(z, names), _fitted(step, wide, expr.step.span, "a step"))
    condition = flags.some(z, names)
    assert condition is not None
    loop = Repeat(Lambda(state, body), flags.added(first, names), limit, condition, most, span=expr.span)
    r = PVar(names.fresh("r"), wide)
    return Let(r, loop, flags.dropped(Var(r.name, wide), names), span=expr.span)


def _typed_step(expr: syntax.Repeat, first: Type, scope: Scope) -> tuple[Type, Pattern, Term, Flags]:
    """The type of the value that goes from step to step, the pattern and the step for it, and the flags of the step."""
    carried = first
    for _ in range(WIDENED_MAX_TIMES):
        pattern, names = take_apart(expr.pattern, carried, scope.globals)
        step = scope.bind(names).translate(expr.step)
        read = _flags(carried, step.type, takes_apart=isinstance(expr.pattern, syntax.TuplePattern))
        if read is None:
            raise _unfit(expr, carried, step.type)
        wider, flags = read
        if wider == carried:
            return carried, pattern, step, flags
        carried = wider
    raise UserError(f"the type of what this loop carries grows with each step: {_short(carried)}", expr.span)


def _fitted(term: Term, wanted: Type, span: Span, what: str) -> Term:
    """The term widened to a type, a tuple part by part, as what a loop carries may be a tuple of collections."""
    if isinstance(term, Tup) and isinstance(wanted, ty.TupleType) and term.type != wanted:
        parts = zip(term.items, wanted.items, strict=True)
        return Tup(tuple(_fitted(item, t, item.span or span, what) for item, t in parts), span=term.span)
    return coerce(term, wanted, span, what)


def _short(t: Type) -> str:
    text = str(t)
    return text if len(text) <= 60 else text[:60] + "…"


def _unfit(expr: syntax.Repeat, carried: Type, step: Type) -> UserError:
    message = f"a step must give what the loop carries, {carried}, and not {step}"
    return UserError(message, expr.step.span, "or pairs of that and a bool, which say whether to go on")


# --- flags --------------------------------------------------------------------------------------


@attrs.frozen
class Flags:
    """Where a step has flags: nowhere, in the parts of a tuple, beside the whole value or beside each element."""

    parts: tuple[Flags, ...] = ()
    whole: bool = False
    elements: bool = False

    @property
    def any(self) -> bool:
        return self.whole or self.elements or any(part.any for part in self.parts)

    def flagged(self, t: Type) -> Type:
        """The type of a value with its flags."""
        if self.whole:
            return ty.TupleType((t, ty.BOOL))
        if self.elements:
            assert isinstance(t, ty.BagType | ty.ListType)
            return attrs.evolve(t, item=ty.TupleType((t.item, ty.BOOL)))
        if self.parts:
            assert isinstance(t, ty.TupleType)
            return ty.TupleType(tuple(part.flagged(item) for part, item in zip(self.parts, t.items, strict=True)))
        return t

    def added(self, term: Term, names: Names) -> Term:
        """A value with flags that are true."""
        if self.whole:
            return Tup((term, TRUE))
        if self.elements:
            return _mapped(term, names, lambda v: Tup((v, TRUE)))
        return self._by_part(term, names, lambda part, own: part.added(own, names))

    def dropped(self, term: Term, names: Names) -> Term:
        """A value without its flags."""
        if self.whole:
            return Nth(term, 0)
        if self.elements:
            return _mapped(term, names, lambda v: Nth(v, 0))
        return self._by_part(term, names, lambda part, own: part.dropped(own, names))

    def some(self, term: Term, names: Names) -> Term | None:
        """Whether one of the flags is true; None where there are none."""
        if self.whole:
            return Nth(term, 1)
        if self.elements:
            return Reduce(ANY, _mapped(term, names, lambda v: Nth(v, 1)))
        found = (part.some(Nth(term, i), names) for i, part in enumerate(self.parts))
        result: Term | None = None
        for condition in found:
            if condition is not None:
                result = condition if result is None else Prim(OR, (result, condition))
        return result

    def _by_part(self, term: Term, names: Names, f: Callable[[Flags, Term], Term]) -> Term:
        if not self.any:
            return term
        if isinstance(term, Tup):
            return Tup(tuple(f(part, item) for part, item in zip(self.parts, term.items, strict=True)))
        whole = PVar(names.fresh("w"), term.type)
        w = Var(whole.name, whole.type)
        return Let(whole, term, Tup(tuple(f(part, Nth(w, i)) for i, part in enumerate(self.parts))))


NONE = Flags()


def _mapped(collection: Term, names: Names, f: Callable[[Term], Term]) -> Term:
    t = collection.type
    assert isinstance(t, ty.BagType | ty.ListType)
    v = PVar(names.fresh("v"), t.item)
    return CMap(Lambda(v, Single(f(Var(v.name, v.type)))), collection)


def _flags(carried: Type, step: Type, *, takes_apart: bool) -> tuple[Type, Flags] | None:
    """The type that holds what the loop carries and what a step gives, and where the step has flags; None if there is
    none."""
    joined = ty.join_types(carried, step)
    if joined is not None:
        return joined, NONE
    match carried, step:
        case _, ty.TupleType((value, ty.BOOL)) if (joined := ty.join_types(carried, value)) is not None:
            return joined, Flags(whole=True)
        case ty.BagType(a), ty.BagType(ty.TupleType((b, ty.BOOL))) if (item := ty.join_types(a, b)) is not None:
            return ty.BagType(item), Flags(elements=True)
        case ty.TupleType(xs), ty.TupleType(ys) if takes_apart and len(xs) == len(ys):
            read = [_flags(x, y, takes_apart=False) for x, y in zip(xs, ys, strict=True)]
            found = [part for part in read if part is not None]
            if len(found) == len(read):
                return ty.TupleType(tuple(t for t, _ in found)), Flags(parts=tuple(flags for _, flags in found))
            return None
        case _:
            return None
