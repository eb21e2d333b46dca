"""The arguments that say how a query is to be kept up to date: of a view, and of what explains one."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import TypedDict, get_args

from mrql.algebra.errors import UserError
from mrql.algebra.types import Type
from mrql.api.arguments import Keys, Loop, Trusted, keyed_streams, kind_of, must_be_a_choice, trusted_streams
from mrql.rewrite.pipeline import PlanOptions
from mrql.rewrite.plan.loop_strategy import KEEPING_BACK, LoopStrategy
from mrql.rewrite.plan.threshold import Threshold


class PlanArguments(TypedDict, total=False):
    """What `Query.trace` and what explains a query take, as `Query.view` does; all of it by name."""

    insert_only: bool
    """Nothing is ever deleted."""
    loop: Loop
    """The way in which loops over streams are kept up to date."""
    epsilon: float | None
    """What changes by no more, relative to its size, is kept back from the next step of a loop."""
    abs_epsilon: float | None
    """And so is what changes by no more than this."""
    trusted: Trusted
    """The streams whose deletions are not looked up, or whether none are; if nothing is said, those of tables with
    versions and of logs."""
    keys: Keys | None
    """By stream, the fields by which its rows replace each other."""


class ExplainArguments(PlanArguments, total=False):
    """What `Query.explanation` and `Query.explain` take, too."""

    strict: bool
    """What would compute a part of the query again from a whole state in each batch is refused."""
    tables: Collection[str]
    """The streams that are static tables, which a view is given as DataFrames."""


def must_be_streams(tables: object, streams: Collection[str]) -> frozenset[str]:
    """The names of static tables, each that of a stream.

    Raises: UserError where they are no collection of names, or one is no stream of the query.
    """
    if isinstance(tables, str) or not isinstance(tables, Collection):
        raise UserError(f"tables is a list of names, not {kind_of(tables)}", hint='tables=["rates"]')
    for name in tables:
        if name not in streams:
            hint = f"its streams are {', '.join(streams)}" if streams else "it reads none"
            raise UserError(f"the query has no stream `{name}`", hint=hint)
    return frozenset(tables)


def view_options(
    streams: Mapping[str, Type],
    tables: Collection[str] = (),
    consistent: Collection[str] = (),
    *,
    insert_only: bool = False,
    loop: Loop = "auto",
    epsilon: float | None = None,
    abs_epsilon: float | None = None,
    trusted: Trusted = None,
    keys: Keys | None = None,
) -> PlanOptions:
    """What `PlanArguments` mean for a query over some streams, of which some are static `tables`, and some are
    `consistent`: what goes of these was there.

    Raises: UserError where one is not of its kind, names what is not there, or does not go with another.
    """
    must_be_a_choice("insert_only", insert_only)
    keyed = keyed_streams(keys, streams, tables)
    strategy, threshold = _loops(loop, epsilon, abs_epsilon)
    if trusted is None:
        trusted = () if insert_only else {*consistent} - {*tables} - keyed.keys()
    names = trusted_streams(trusted, streams)
    if insert_only and names:
        raise UserError("a view that only takes insertions has no deletions to trust", hint="leave one of them out")
    if insert_only and keyed:
        message = f"rows of `{min(keyed)}` replace others, and a view that only takes insertions has none that go"
        raise UserError(message, hint="leave one of them out")
    trusting = sorted(names & keyed.keys()) if not isinstance(trusted, bool) else []
    if trusting:
        raise UserError(f"`{trusting[0]}` has a key: there are no deletions to trust", hint="leave one of them out")
    return PlanOptions(frozenset() if insert_only else frozenset(streams), strategy, threshold, names, keyed)


def _loops(loop: Loop, epsilon: float | None, abs_epsilon: float | None) -> tuple[LoopStrategy, Threshold | None]:
    """How loops are kept up to date, and what of them is kept back."""
    if loop not in get_args(Loop):
        raise UserError(f"there is no way {loop!r} for loops", hint=f"one of {', '.join(get_args(Loop))}")
    strategy = LoopStrategy(loop)
    for name, value in (("epsilon", epsilon), ("abs_epsilon", abs_epsilon)):
        if value is not None and (not isinstance(value, int | float) or isinstance(value, bool)):
            raise UserError(f"{name} is a number, not {kind_of(value)}")
        if value is not None and (not 0 <= value < math.inf or strategy not in KEEPING_BACK):
            raise UserError(f"{name} is a finite number, 0 or more, for loop='diffuse' or loop='exact'")
    return strategy, Threshold.of(epsilon, abs_epsilon)
