"""The check that a query is kept up to date by changes alone: no part is recomputed from a whole state.

Only what is computed from the states is checked: the derived streams and the changes of the answer. What a batch merges
into a state is not, and neither is a snapshot of the answer, which reads the whole state in any case.
"""

from __future__ import annotations

from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import free_vars
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.algebra.terms import Term
from mrql.rewrite.plan.circuit import circuit_of
from mrql.rewrite.plan.cost import Cost, Work
from mrql.rewrite.plan.labels import listed
from mrql.rewrite.plan.plan import Plan


def require_incremental(plan: Plan) -> None:
    """Refuses a plan with a part whose change costs the whole state.

    Raises: UserError, which names the first such part, the reason that `explain` gives, and the place if it is known.
    """
    circuit = circuit_of(plan)
    for derived in plan.derived:
        readers = [stage.name for stage in plan.stages if derived in plan.derived_for(stage)]
        part = f"the stream {derived.name}, which {listed(readers)} reads,"
        _require(part, derived.term, circuit.change(derived.name), plan)
    _require("the answer", plan.answer, circuit.change("answer"), plan)


def _require(part: str, term: Term, found: Work, plan: Plan) -> None:
    if found.reads is Cost.STATE:
        raise UserError(
            f"{part} would be computed again from the whole state in each batch: {found.reason}",
            _place(term, plan),
            "only a strict run refuses that; `mrql explain` shows the parts of a query and what each costs",
        )


def _place(term: Term, plan: Plan) -> Span | None:
    """The outermost part of a term that reads a state and has a place; else that of the query."""
    states = {stage.name for stage in plan.stages}
    places = (inner.span for inner in subterms(term) if states & free_vars(inner))
    return next((place for place in places if place is not None), plan.query.span)
