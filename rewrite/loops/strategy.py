"""The ways in which the loops of a query over streams are kept up to date, and the choice of one for each.

*Source*: [MRQL] §2 (Iteration), §8.2, has one way for all loops, which is approximate, as `diffuse` is. The others are
exact.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from mrql.algebra.analysis.traversal import map_children, subterms
from mrql.algebra.analysis.variables import Names, alpha_equal, free_vars, stream_names, taken_names
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.terms import Lit, Repeat, Stream, Term
from mrql.rewrite.loops.diffuse import Diffused, diffuse, diffuse_obstacle
from mrql.rewrite.loops.monotone import NotAdding
from mrql.rewrite.loops.semi_naive import Fixpoint, fixpoint
from mrql.rewrite.loops.unroll import obstacle
from mrql.rewrite.plan.loop_strategy import Chosen, LoopStrategy

AROUND = "a condition or a group in its step is a stage of its own, which reads what it has found"


@attrs.frozen
class LoopChoices:
    """A query with streams in the place of the loops that are fixpoints, or are carried over."""

    term: Term
    opened: tuple[Fixpoint | Diffused, ...]
    """Each reads those before it."""
    chosen: tuple[Chosen, ...]


def choose(term: Term, way: LoopStrategy = LoopStrategy.AUTO, around: Sequence[Repeat] = ()) -> LoopChoices:
    """The way for each loop over streams, but for those that a row, a group or another loop begins anew.

    Those in `around` are no fixpoints: what their steps find would come back to them by way of other stages.

    Raises: UserError when the way that is asked for is not there for a loop.

    >>> from mrql.algebra.notation.parser import parse
    >>> step = "cMap(λ(k, _). {k}, groupBy(cMap(λx. {(x, ())}, y) ⊎ cMap(λx. {(x + 1L, ())}, y)))"
    >>> loop = parse(f"repeat(λy. {step}, 3, E)", {"E": "{long}"})
    >>> [(chosen.way.value, chosen.reason) for chosen in choose(loop).chosen]
    [('fixpoint', 'its step only adds')]
    >>> loop = parse("repeat(λy. y ⊎ y, 3, E)", {"E": "{long}"})
    >>> [(chosen.way.value, chosen.reason) for chosen in choose(loop).chosen]
    [('recompute', 'its step is no group by, nor a select distinct')]
    """
    return _Choice(term, way, around).ways()


class _Choice:
    def __init__(self, term: Term, way: LoopStrategy, around: Sequence[Repeat]) -> None:
        self.term, self.way, self.around = term, way, around
        self.names = Names({*taken_names(term)})
        self.found: list[tuple[Repeat, Fixpoint | Diffused]] = []
        self.chosen: list[Chosen] = []

    def ways(self) -> LoopChoices:
        opened = self.visit(self.term)
        return LoopChoices(opened, tuple(found for _, found in self.found), tuple(self.chosen))

    def visit(self, part: Term) -> Term:
        part = map_children(part, self.visit)
        if not isinstance(part, Repeat) or free_vars(part) or not stream_names(part):
            return part
        part = _with_known_limit(part)
        known = next((found for loop, found in self.found if alpha_equal(loop, part)), None)
        return self.loop(part) if known is None else known.value

    def loop(self, loop: Repeat) -> Term:
        match self.way:
            case LoopStrategy.RECOMPUTE:
                return self.kept(loop, LoopStrategy.RECOMPUTE, "that was asked for")
            case LoopStrategy.EXACT:
                reason = obstacle(loop)
                if reason is not None:
                    raise _refused(loop, "step by step", reason)
                return self.kept(loop, LoopStrategy.EXACT, "that was asked for")
            case LoopStrategy.AUTO | LoopStrategy.FIXPOINT | LoopStrategy.DIFFUSE:
                return self.adding(loop)

    def adding(self, loop: Repeat) -> Term:
        try:
            if any(alpha_equal(loop, other) for other in self.around):
                raise NotAdding(AROUND)
            found = fixpoint(loop, self.names)
        except NotAdding as error:
            if self.way is LoopStrategy.FIXPOINT:
                raise _refused(loop, "as a fixpoint", str(error)) from None
            if self.way is LoopStrategy.DIFFUSE:
                return self.carried_over(loop)
            return self.kept(loop, LoopStrategy.RECOMPUTE, str(error))
        self.found.append((loop, found))
        self.chosen.append(Chosen(loop, LoopStrategy.FIXPOINT, "its step only adds"))
        return found.value

    def carried_over(self, loop: Repeat) -> Term:
        reason = diffuse_obstacle(loop)
        if reason is not None:
            raise _refused(loop, "by carrying its value over", reason)
        found = diffuse(loop, self.names)
        self.found.append((loop, found))
        self.chosen.append(Chosen(loop, LoopStrategy.DIFFUSE, "that was asked for, and its step does not only add"))
        return found.value

    def kept(self, loop: Repeat, way: LoopStrategy, reason: str) -> Term:
        if not any(alpha_equal(known.loop, loop) for known in self.chosen):
            self.chosen.append(Chosen(loop, way, reason))
        return loop


def _with_known_limit(loop: Repeat) -> Repeat:
    """The loop with its limit as a number, where no data are in it: one that is made of the arguments of the query.

    Raises: UserError when it has no value.
    """
    limit = loop.limit
    if isinstance(limit, Lit | None) or free_vars(limit) or any(isinstance(part, Stream) for part in subterms(limit)):
        return loop
    steps = evaluate(limit)
    return loop if steps is None else attrs.evolve(loop, limit=Lit(steps, limit.type, span=limit.span))


def _refused(loop: Repeat, how: str, reason: str) -> UserError:
    hint = "--loop auto takes the best way that there is for each loop"
    return UserError(f"this loop cannot be kept up to date {how}: {reason}", loop.span, hint)
