"""Every pass that ran, in order and by phase: under which condition it holds, and what it changed."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from mrql.algebra.notation.printer import show
from mrql.algebra.notation.readable_names import tidy
from mrql.explain.page import Page
from mrql.explain.pass_changes import Change, Shown, changes
from mrql.explain.plan_facts import author_names
from mrql.rewrite.passes import PassRun, Subject, Trace


def render_passes(trace: Trace, width: int) -> str:
    """The passes as text, at most `width` columns wide where possible."""
    page = _Passes(width, author_names(trace))
    for phase, runs in groupby(trace.runs, lambda run: run.phase):
        page.heading(f"Phase: {phase.value}")
        for run in runs:
            page.run(run)
    return page.text()


def passes_document(trace: Trace) -> list[dict[str, Any]]:
    """The passes as plain data; terms are text that reads back, over the names that the plan has."""
    keep = author_names(trace)
    return [_document(run, keep) for run in trace.runs]


class _Passes(Page):
    """A page that gives the condition of each pass once, and shows each term once."""

    def __init__(self, width: int, keep: frozenset[str]) -> None:
        super().__init__(width)
        self.keep = keep
        self.told: set[str] = set()
        self.seen: list[Shown] = []

    def run(self, run: PassRun[Subject]) -> None:
        found = changes(run)
        self.gap()
        self.line(f"{run.name}, {run.source}: on {run.subject}{'' if found else ', which stays as it is'}")
        if run.name not in self.told:
            self.line(f"requires: {run.rule.requires}", level=2)
            self.told.add(run.name)
        if run.reason:
            self.line(f"chosen: {run.reason}", level=2)
        for change in found:
            self.change(change)

    def change(self, change: Change) -> None:
        level = 2
        if change.where:
            self.line(f"{change.where}:", level)
            level = 3
        for label, shown in (("−", change.before), ("+", change.after)):
            if isinstance(shown, str):
                self.line(f"{label} {shown}", level)
            elif shown is not None and not any(shown is other for other in self.seen):
                self.term(label, tidy(shown, self.keep), level)
                self.seen.append(shown)


def _document(run: PassRun[Subject], keep: frozenset[str]) -> dict[str, Any]:
    found = changes(run)
    return {
        "phase": run.phase.value,
        "name": run.name,
        "source": run.source,
        "requires": run.rule.requires,
        "subject": run.subject,
        "reason": run.reason or None,
        "changed": bool(found),
        "changes": [
            {"where": c.where or None, "before": _text(c.before, keep), "after": _text(c.after, keep)} for c in found
        ],
    }


def _text(shown: Shown, keep: frozenset[str]) -> str | None:
    return shown if isinstance(shown, str) or shown is None else show(tidy(shown, keep))
