"""The definition of a pass, how passes are run and checked, the record of each run, and the trace of all runs."""

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
"""The inputs and results of passes."""

S = TypeVar("S", bound=Subject, covariant=True)

QUERY, PLAN = "the query", "the plan"
"""The subjects of pass runs that are neither a loop nor a stage."""


class Phase(Enum):
    """The phases of compiling a query to a plan, in order."""

    PREPARE = "prepare"
    LOOPS = "choose how loops are kept up to date"
    NORMALIZE = "normalize"
    INCREMENTALIZE = "incrementalize"
    OPTIMIZE = "optimize the plan"


@attrs.frozen
class Pass(Generic[P, R]):
    """A rewrite of a term or a plan, with its source and its side condition."""

    name: str
    run: Callable[P, R]
    source: str
    requires: str
    """The side condition: what must hold where the pass fires."""


TermPass: TypeAlias = Pass[[Term], Term]
PlanPass: TypeAlias = Pass[[Plan], Plan]
AnyPass: TypeAlias = Pass[..., Any]


@attrs.frozen
class PassRun(Generic[S]):
    """One run of a pass: its subject, before and after."""

    phase: Phase
    rule: AnyPass
    before: S
    after: S
    subject: str = QUERY
    """The query, a loop, a stage or the plan."""
    reason: str = ""
    """Why this pass was chosen among several, if there was a choice."""

    @property
    def name(self) -> str:
        return self.rule.name

    @property
    def source(self) -> str:
        return self.rule.source

    @property
    def has_changed(self) -> bool:
        """Whether the pass changed more than the names of bound variables."""
        before: Subject = self.before
        after: Subject = self.after
        if isinstance(before, Plan | Stage) or isinstance(after, Plan | Stage):
            return before != after
        return not alpha_equal(before, after)


@attrs.define
class Steps:
    """Runs passes, checks their results if asked to, and records each run."""

    checked: bool = False
    """Whether each pass is followed by a check: a term must be well-scoped, well-typed and of the same type as before,
    a plan as `check_plan` says."""
    runs: list[PassRun[Subject]] = attrs.Factory(list)

    def run(self, phase: Phase, rule: TermPass, term: Term, subject: str = QUERY) -> Term:
        """The result of a pass over a term, checked and recorded.

        Raises: InternalError, naming the pass, when the result fails the check.
        """
        after = rule.run(term)
        self.check(rule, after, term.type)
        self.note(phase, rule, term, after, subject)
        return after

    def run_plan(self, rule: PlanPass, plan: Plan) -> Plan:
        """The result of a pass over a plan, checked and recorded."""
        after = rule.run(plan)
        self.check_plan(rule, after)
        self.note(Phase.OPTIMIZE, rule, plan, after, PLAN)
        return after

    def note(
        self, phase: Phase, rule: AnyPass, before: Subject, after: Subject, subject: str = QUERY, reason: str = ""
    ) -> None:
        """Records a run of a pass."""
        self.runs.append(PassRun(phase, rule, before, after, subject, reason))

    def check(
        self, rule: AnyPass, after: Term, wanted: Type | None = None, variables: Mapping[str, Type] | None = None
    ) -> None:
        """Checks the term that a pass returned, if asked to: that its free variables are among `variables`, and its
        type is `wanted`, if given.

        Raises: InternalError, naming the pass, when the check fails.
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
        """Checks the plan that a pass returned, if asked to."""
        if self.checked:
            check_plan(rule.name, plan)


@attrs.frozen(slots=False)
class Trace:
    """The compilation of a query: each run of a pass, in order, and the plan."""

    runs: tuple[PassRun[Subject], ...]
    plan: Plan

    @cached_property
    def circuit(self) -> Circuit:
        """The operators of the plan, each with its delta rule."""
        return circuit_of(self.plan)

    @property
    def steps(self) -> tuple[PassRun[Term], ...]:
        """The runs that brought the query, apart from its opened loops, into normal form."""
        return tuple(run for run in self.runs if _is_step(run))

    @property
    def normal_form(self) -> Term:
        """The query in normal form: the result of the last of `steps`."""
        return self.steps[-1].after


def _is_step(run: PassRun[Subject]) -> TypeGuard[PassRun[Term]]:
    return run.phase is Phase.NORMALIZE and run.subject == QUERY
