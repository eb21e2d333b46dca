"""Plans for tests: every pass is checked after it ran."""

from __future__ import annotations

from typing import Any

from mrql.algebra.terms import Term
from mrql.rewrite.passes import Trace
from mrql.rewrite.pipeline import PlanOptions, plan_query


def planned(term: Term, **options: Any) -> Trace:
    """The trace of a query that is planned with the given options."""
    return plan_query(term, PlanOptions(**options, checked=True))
