"""The arguments that determine how a query is kept up to date, for views and for explanations."""

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
    """The keyword arguments shared by `Query.view`, `Query.trace`, `Query.explanation` and `Query.explain`."""

    insert_only: bool
    """Nothing is ever deleted."""
    loop: Loop
    """The strategy by which loops over streams are kept up to date."""
    epsilon: float | None
    """Changes of at most this, relative to the size of a value, are held back from the next step of a loop."""
    abs_epsilon: float | None
    """Changes of at most this, in absolute terms, are held back, too."""
    trusted: Trusted
    """The streams whose deletions are not looked up: names, True for all, or False for none. By default, those that are
    tables with versions or logs."""
    keys: Keys | None
    """The keys by which rows replace each other, by stream."""


class ExplainArguments(PlanArguments, total=False):
    """The further arguments of `Query.explanation` and `Query.explain`."""

    strict: bool
    """Whether to refuse a query of which each batch would compute a part again from a whole state."""
    tables: Collection[str]
    """The names of the streams that are static tables, which a view is given as DataFrames."""


def must_be_streams(tables: object, streams: Collection[str]) -> frozenset[str]:
    """The names of static tables, after checking that each is a stream of the query.

    Raises: UserError if they are not a collection of names, or one is not a stream of the query.
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
    """The options for planning a query over some streams, from `PlanArguments`. Some of the streams are static
    `tables`, and some are `consistent`: each row that these delete is there.

    Raises: UserError if an argument is invalid, names an unknown stream, or excludes another argument.
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
    """The strategy for loops, and the threshold up to which changes are held back."""
    if loop not in get_args(Loop):
        raise UserError(f"there is no way {loop!r} for loops", hint=f"one of {', '.join(get_args(Loop))}")
    strategy = LoopStrategy(loop)
    for name, value in (("epsilon", epsilon), ("abs_epsilon", abs_epsilon)):
        if value is not None and (not isinstance(value, int | float) or isinstance(value, bool)):
            raise UserError(f"{name} is a number, not {kind_of(value)}")
        if value is not None and (not 0 <= value < math.inf or strategy not in KEEPING_BACK):
            raise UserError(f"{name} is a finite number, 0 or more, for loop='diffuse' or loop='exact'")
    return strategy, Threshold.of(epsilon, abs_epsilon)
