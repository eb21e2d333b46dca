"""How a query becomes what is kept up to date: every step from its text to its stages, and what a batch costs.

The same facts in three forms: text for people, JSON for programs, a picture.
"""

from __future__ import annotations

from mrql.explain_facts import facts_of
from mrql.explain_text import render_text
from mrql.rewrite.passes import Trace


def explain_trace(trace: Trace, width: int = 100) -> str:
    """The explanation as text, at most `width` columns wide."""
    return render_text(facts_of(trace), width)
