"""Short names for the parts of a stage: its components, its inputs, its feeds."""

from __future__ import annotations

from collections.abc import Sequence

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import Names
from mrql.algebra.monoids import Aggregate
from mrql.algebra.notation.readable_names import base_name
from mrql.algebra.terms import CoGroup, Stream, pair_type
from mrql.rewrite.analysis.multilinear import stream_of
from mrql.rewrite.plan.plan import Feed, Shape, Stage


def component_names(stage: Stage) -> tuple[str, ...]:
    """Short names for the components of a stage, in their order.

    A total or a bag has the name of its stage, and one of several totals that of its monoid.
    """
    names = Names()
    if stage.shape is Shape.KEYED:
        return tuple(names.fresh(base_name(component.name)) for component in stage.components)
    if len(stage.components) == 1:
        return (stage.name,)
    return tuple(
        names.fresh(c.monoid.op.name.lower() if isinstance(c.monoid, Aggregate) else "bag") for c in stage.components
    )


def occurrence_names(labels: tuple[str, ...]) -> dict[str, str]:
    """The occurrences of streams by their labels: the stream's own name where it occurs once, else the label.

    >>> occurrence_names(("S·0", "T·1", "S·2"))
    {'S·0': 'S·0', 'T·1': 'T', 'S·2': 'S·2'}
    """
    streams = [stream_of(label) for label in labels]
    return {label: s if streams.count(s) == 1 else label for label, s in zip(labels, streams, strict=True)}


def input_names(feed: Feed) -> tuple[str, ...]:
    """The inputs of a feed, by `occurrence_names`."""
    return tuple(occurrence_names(tuple(read.label for read in feed.rows.inputs)).values())


def feed_name(feed: Feed) -> str:
    """What a feed reads: `S`, `S ⋈ T`; where it joins with static tables, those too.

    Two sides without an equality between them are a product, `S × T`.
    """
    return sign(feed).join([*input_names(feed), *joined_tables(feed)]) or "constants"


def joined_tables(feed: Feed) -> tuple[str, ...]:
    """The static tables that the rows of a feed are joined with, each once; without inputs, those that the feed
    reads."""
    if feed.rows.inputs and not any(isinstance(t, CoGroup) for t in subterms(feed.rows.body)):
        return ()
    return tuple(dict.fromkeys(t.name for t in subterms(feed.rows.body) if isinstance(t, Stream) and t.static))


def sign(feed: Feed) -> str:
    """The sign between the inputs of a feed."""
    return " × " if joins_on_nothing(feed) else " ⋈ "


def joins_on_nothing(feed: Feed) -> bool:
    """Whether a join of the feed has no equality: each row of one side meets all rows of the other."""
    return any(isinstance(t, CoGroup) and pair_type(t)[0] == ty.UNIT for t in subterms(feed.rows.body))


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
