"""The strategies for keeping loops over streams up to date, and the choice of one for each loop.

*Source*: [MRQL] §2 (Iteration), §8.2, has one strategy for all loops, which is approximate, as `diffuse` is. The others
are exact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import Names, alpha_equal, free_vars, step_of, stream_names, taken_names
from mrql.algebra.errors import InternalError, UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.evaluation.may_fail import map_guarded, may_fail
from mrql.algebra.terms import Lit, Repeat, Stream, Term
from mrql.rewrite.loops.diffuse import Diffused
from mrql.rewrite.loops.semi_naive import Fixpoint
from mrql.rewrite.loops.unroll import obstacle
from mrql.rewrite.passes import AnyPass, Phase, Steps
from mrql.rewrite.plan.loop_strategy import Chosen, LoopStrategy, Unfit

GUARDED = "it may fail, and is evaluated under a condition only"
AROUND = "a condition or a group in its step is a stage of its own, which reads what it has found"


@attrs.frozen
class LoopChoices:
    """A query in which streams replace the loops that are fixpoints, or are carried over."""

    term: Term
    opened: tuple[Fixpoint | Diffused, ...]
    """The replaced loops; each may read those before it."""
    chosen: tuple[Chosen, ...]


def choose(
    term: Term,
    rules: Mapping[LoopStrategy, AnyPass],
    steps: Steps,
    strategy: LoopStrategy,
    around: Sequence[Repeat] = (),
) -> LoopChoices:
    """The strategy for each loop over streams, except those that depend on a row, a group or another loop: the first of
    the `rules` that the requested `strategy` allows, and that is applicable.

    Those in `around` cannot be fixpoints: what their steps find would come back to them through other stages.

    Raises: UserError when the requested strategy is not possible for a loop.

    >>> from mrql.algebra.notation.parser import parse
    >>> from mrql.rewrite.pipeline import LOOPS
    >>> step = "cMap(λ(k, _). {k}, groupBy(cMap(λx. {(x, ())}, y) ⊎ cMap(λx. {(x + 1L, ())}, y)))"
    >>> loop = parse(f"repeat(λy. {step}, 3, E)", {"E": "{long}"})
    >>> auto = LoopStrategy.AUTO
    >>> [(chosen.strategy.value, chosen.reason) for chosen in choose(loop, LOOPS, Steps(), auto).chosen]
    [('fixpoint', 'its step only adds')]
    >>> loop = parse("repeat(λy. y ⊎ y, 3, E)", {"E": "{long}"})
    >>> [(chosen.strategy.value, chosen.reason) for chosen in choose(loop, LOOPS, Steps(), auto).chosen]
    [('recompute', 'its step is no group by, nor a select distinct')]
    """
    choice = _Choice(rules, steps, strategy, around, Names({*taken_names(term)}))
    opened = choice.visit(term, False)
    return LoopChoices(opened, tuple(found for _, found in choice.found), tuple(choice.chosen))


_ALLOWED = {
    LoopStrategy.AUTO: (LoopStrategy.FIXPOINT, LoopStrategy.RECOMPUTE),
    LoopStrategy.DIFFUSE: (LoopStrategy.FIXPOINT, LoopStrategy.DIFFUSE),
    **{strategy: (strategy,) for strategy in (LoopStrategy.FIXPOINT, LoopStrategy.EXACT, LoopStrategy.RECOMPUTE)},
}
"""The strategies that a loop may take, by the requested one; the order of the rules says which comes first."""

_HOW = {
    LoopStrategy.FIXPOINT: "as a fixpoint",
    LoopStrategy.DIFFUSE: "by carrying its value over",
    LoopStrategy.EXACT: "step by step",
}


@attrs.define
class _Choice:
    """Chooses a strategy for each loop of a term."""

    rules: Mapping[LoopStrategy, AnyPass]
    steps: Steps
    strategy: LoopStrategy
    around: Sequence[Repeat]
    names: Names
    found: list[tuple[Repeat, Fixpoint | Diffused]] = attrs.Factory(list)
    chosen: list[Chosen] = attrs.Factory(list)

    def visit(self, part: Term, is_guarded: bool) -> Term:
        """The term with its loops replaced; a loop that `is_guarded` is evaluated under a condition only."""
        part = map_guarded(part, self.visit, is_guarded)
        if not isinstance(part, Repeat) or free_vars(part) or not stream_names(part):
            return part
        part = _with_known_limit(part)
        known = next((found for loop, found in self.found if alpha_equal(loop, part)), None)
        if known is not None:
            return known.value
        return self.loop(part, [GUARDED] if is_guarded and _step_may_fail(part) else [])

    def loop(self, loop: Repeat, unfit: list[str]) -> Term:
        """The term that replaces a loop, by the first strategy that is allowed and applicable. If there is a reason
        why it is `unfit` for all, it is recomputed."""
        possible = (LoopStrategy.RECOMPUTE,) if unfit else tuple(self.rules)
        for strategy in (strategy for strategy in possible if strategy in _ALLOWED[self.strategy]):
            try:
                return self.taken(strategy, loop, unfit)
            except Unfit as error:
                unfit.append(str(error))
        raise _refused(loop, _HOW[self.strategy], unfit[-1])

    def taken(self, strategy: LoopStrategy, loop: Repeat, unfit: Sequence[str]) -> Term:
        """The loop under one strategy; `unfit` has the reasons why others were not applicable.

        Raises: Unfit, with the reason, when this one is not applicable either.
        """
        rule = self.rules[strategy]
        match strategy:
            case LoopStrategy.FIXPOINT:
                if any(alpha_equal(loop, other) for other in self.around):
                    raise Unfit(AROUND)
                return self.opened(strategy, loop, rule.run(loop, self.names), "its step only adds")
            case LoopStrategy.DIFFUSE:
                found = rule.run(loop, self.names)
                return self.opened(strategy, loop, found, "that was asked for, and its step does not only add")
            case LoopStrategy.EXACT:
                reason = obstacle(loop)
                if reason is not None:
                    raise Unfit(reason)
                return self.kept(strategy, loop, loop, "that was asked for")  # `derive` runs it
            case LoopStrategy.RECOMPUTE:
                return self.kept(strategy, loop, rule.run(loop), unfit[-1] if unfit else "that was asked for")
            case LoopStrategy.AUTO:
                raise InternalError("loops", "`auto` is no way by itself")

    def opened(self, strategy: LoopStrategy, loop: Repeat, found: Fixpoint | Diffused, reason: str) -> Term:
        """Records a loop that streams replace, and returns the term in its place."""
        self.found.append((loop, found))
        self.note(strategy, loop, found.value, reason)
        return found.value

    def kept(self, strategy: LoopStrategy, loop: Repeat, value: Term, reason: str) -> Term:
        """Records a loop that stays in the query, and returns its term."""
        if not any(alpha_equal(known.loop, loop) for known in self.chosen):
            self.note(strategy, loop, value, reason)
        return value

    def note(self, strategy: LoopStrategy, loop: Repeat, value: Term, reason: str) -> None:
        rule = self.rules[strategy]
        self.steps.check(rule, value, loop.type)
        self.steps.note(Phase.LOOPS, rule, loop, value, "a loop", reason)
        self.chosen.append(Chosen(loop, strategy, reason))


def _step_may_fail(loop: Repeat) -> bool:
    """Whether a loop may fail before it has taken too many steps."""
    return may_fail(loop.source) or may_fail(step_of(loop))


def _with_known_limit(loop: Repeat) -> Repeat:
    """The loop with its limit as a number, where it depends on no data, but is computed from arguments of the query.

    Raises: UserError when the limit cannot be evaluated.
    """
    limit = loop.limit
    if isinstance(limit, Lit | None) or free_vars(limit) or any(isinstance(part, Stream) for part in subterms(limit)):
        return loop
    steps = evaluate(limit)
    return loop if steps is None else attrs.evolve(loop, limit=Lit(steps, limit.type, span=limit.span))


def _refused(loop: Repeat, how: str, reason: str) -> UserError:
    hint = "--loop auto takes the best way that there is for each loop"
    return UserError(f"this loop cannot be kept up to date {how}: {reason}", loop.span, hint)
