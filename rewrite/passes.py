"""What a pass is, how passes are run, what is known of each one that ran, and the trace that they leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cached_property
from typing import Any, Generic, ParamSpec, TypeAlias, TypeGuard, TypeVar

import attrs

from mrql.algebra.analysis.variables import alpha_equal
from mrql.algebra.errors import InternalError
from mrql.algebra.notation.typecheck import check
from mrql.algebra.terms import Term
from mrql.algebra.types import Type
from mrql.rewrite.plan.check_plan import check_plan
from mrql.rewrite.plan.circuit import Circuit, circuit_of
from mrql.rewrite.plan.plan import Plan, Stage

P = ParamSpec("P")
R = TypeVar("R")

Subject: TypeAlias = Term | Plan | Stage
"""What passes are given, and give."""

S = TypeVar("S", bound=Subject, covariant=True)

QUERY, PLAN = "the query", "the plan"
"""What a pass ran on where it is neither a loop nor a stage."""


class Phase(Enum):
    """The phases by which a query becomes its plan, in their order."""

    PREPARE = "prepare"
    LOOPS = "choose how loops are kept up to date"
    NORMALIZE = "normalize"
    INCREMENTALIZE = "incrementalize"
    OPTIMIZE = "optimize the plan"


@attrs.frozen
class Pass(Generic[P, R]):
    """A rewrite that keeps the value and the type of what it is given."""

    name: str
    run: Callable[P, R]
    source: str
    requires: str
    """What has to hold where it fires: its side condition."""


TermPass: TypeAlias = Pass[[Term], Term]
PlanPass: TypeAlias = Pass[[Plan], Plan]
AnyPass: TypeAlias = Pass[..., Any]


@attrs.frozen
class PassRun(Generic[S]):
    """One pass as it ran: on what, and what that was before and after."""

    phase: Phase
    rule: AnyPass
    before: S
    after: S
    subject: str = QUERY
    """The query, a loop, a stage or the plan."""
    reason: str = ""
    """Why this one of several was taken, if that was a choice."""

    @property
    def name(self) -> str:
        return self.rule.name

    @property
    def source(self) -> str:
        return self.rule.source

    @property
    def has_changed(self) -> bool:
        """Whether it did more than to choose other names."""
        before: Subject = self.before
        after: Subject = self.after
        if isinstance(before, Plan | Stage) or isinstance(after, Plan | Stage):
            return before != after
        return not alpha_equal(before, after)


@attrs.define
class Steps:
    """Runs passes: what each gives is looked at, if that is asked for, and noted."""

    checked: bool = False
    """Whether each pass is followed by a check: a term is to be well-scoped, well-typed and of the type that it had, a
    plan as `check_plan` says."""
    runs: list[PassRun[Subject]] = attrs.Factory(list)

    def run(self, phase: Phase, rule: TermPass, term: Term, subject: str = QUERY) -> Term:
        """What a pass over a term gives.

        Raises: InternalError, naming the pass, when it breaks a term that is checked.
        """
        after = rule.run(term)
        self.check(rule, after, term.type)
        self.note(phase, rule, term, after, subject)
        return after

    def run_plan(self, rule: PlanPass, plan: Plan) -> Plan:
        """The same of a pass over plans."""
        after = rule.run(plan)
        self.check_plan(rule, after)
        self.note(Phase.OPTIMIZE, rule, plan, after, PLAN)
        return after

    def note(
        self, phase: Phase, rule: AnyPass, before: Subject, after: Subject, subject: str = QUERY, reason: str = ""
    ) -> None:
        """Notes a pass that has run."""
        self.runs.append(PassRun(phase, rule, before, after, subject, reason))

    def check(
        self, rule: AnyPass, after: Term, wanted: Type | None = None, variables: Mapping[str, Type] | None = None
    ) -> None:
        """Looks at the term that a pass gave, if that is asked for: it has these free variables at most, and the type
        that is wanted, if one is.

        Raises: InternalError, naming the pass, when there is something wrong with it.
        """
        if not self.checked:
            return
        try:
            check(after, variables)
        except InternalError as error:
            raise InternalError(rule.name, str(error)) from error
        if wanted is not None and after.type != wanted:
            raise InternalError(rule.name, f"the type changed from {wanted} to {after.type}")

    def check_plan(self, rule: AnyPass, plan: Plan) -> None:
        """The same of a plan."""
        if self.checked:
            check_plan(rule.name, plan)


@attrs.frozen(slots=False)
class Trace:
    """How a query became its plan: each pass that ran, in order."""

    runs: tuple[PassRun[Subject], ...]
    plan: Plan

    @cached_property
    def circuit(self) -> Circuit:
        """How a batch goes through the plan."""
        return circuit_of(self.plan)

    @property
    def steps(self) -> tuple[PassRun[Term], ...]:
        """How the query, apart from its loops that are opened, came into normal form."""
        return tuple(run for run in self.runs if _is_step(run))

    @property
    def normal_form(self) -> Term:
        """What the last of these steps gave."""
        return self.steps[-1].after


def _is_step(run: PassRun[Subject]) -> TypeGuard[PassRun[Term]]:
    return run.phase is Phase.NORMALIZE and run.subject == QUERY
