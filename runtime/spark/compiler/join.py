"""A coGroup whose sides are joined element by element, as an inner join of Spark."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import substitute
from mrql.algebra.terms import (
    CMap,
    CoGroup,
    PTuple,
    PVar,
    Single,
    Term,
    Var,
    pair_type,
)
from mrql.algebra.types import Type
from mrql.rewrite.analysis.join_predicates import drops_null_keys
from mrql.rewrite.normalize.group_functions import function_parts
from mrql.rewrite.normalize.normalize import normalize
from mrql.runtime.spark.compiler.group_by import keyed_alike
from mrql.runtime.spark.compiler.protocol import Keep, TermCompiler
from mrql.runtime.spark.expressions.layout import Layout, Struct, atoms, bind, part, quote, unquote
from mrql.runtime.spark.relation.frame import Frame, Side, flat
from mrql.runtime.spark.relation.relation import Relation
from mrql.runtime.spark.state.lookup import is_at_hand, is_in_blocks, narrowed_side


def joined(compiler: TermCompiler, term: CMap) -> Frame:
    """`cMap(λ(k, (xs, ys)). e, coGroup(c, d))` where e is linear in both sides: an inner join on the key."""
    key, groups, body = function_parts(term)
    source = term.source
    assert isinstance(source, CoGroup)
    assert isinstance(groups, PTuple)
    key_type = pair_type(source)[0]
    frames = [compiler.bag(side) for side in (source.left, source.right)]
    in_place = all(_joined_where_it_lies(frame, key_type) for frame in frames)
    plain = drops_null_keys(source.left) or drops_null_keys(source.right)
    if in_place:
        frames = _narrowed(compiler, frames, key_type, plain=plain)
    sides = [_side(compiler, frame, key_type) for frame in frames]
    left, right = (side.frame for side in sides)
    keyed = keyed_alike(compiler, (left, right), key_type, plain=plain)
    (left_key, left_value), (right_key, right_value) = keyed
    df = _join(left, right, _equal(left_key, right_key, plain=plain), in_place=in_place)
    for side in sides:
        df = side.opened(df)
    x, y = compiler.names.fresh("x"), compiler.names.fresh("y")
    xs, ys = (group.name for group in groups.items if isinstance(group, PVar))
    elements: dict[str, Term] = {xs: Single(Var(x, left_value.type)), ys: Single(Var(y, right_value.type))}
    by_element = normalize(substitute(body, elements))
    env = {**bind(key, left_key), x: left_value, y: right_value}
    weight, changes = left.times(right.weight), left.changes or right.changes
    retracts = left.retracts or right.retracts
    frame = Frame(df, Struct((), ty.UNIT), weight, changes, narrowed=True, retracts=retracts)
    return compiler.over(by_element, frame, env)


def _side(compiler: TermCompiler, frame: Frame, key_type: Type) -> Side:
    """A side of a join by the key of its pairs. Rows that are gathered by that key are opened after the join."""
    gathering = frame.df.gathering
    by_key = gathering is not None and _is_joined_by(frame, key_type, gathering.by)
    return Side.of(frame, compiler.columns, opens_later=by_key)


def _narrowed(compiler: TermCompiler, frames: list[Frame], key_type: Type, *, plain: bool) -> list[Frame]:
    """The sides of a join in place: of a state, only the rows in which a change may find partners."""
    change = next((frame for frame in frames if frame.changes), None)
    if change is None:
        return frames
    searched = any(frame.lies_by is not None and is_in_blocks(frame.df) for frame in frames)
    if compiler.keep is not None and searched and not is_at_hand(change.df):
        # A change that is itself computed, as by a join, is read twice: its keys for the lookup, then its rows.
        kept = _kept(compiler.keep, flat(change, compiler.columns), key_type)
        frames, change = [kept if frame is change else frame for frame in frames], kept
    keys = [key for key, _ in keyed_alike(compiler, frames, key_type, plain=plain)]
    wanted = keys[frames.index(change)]
    return [narrowed_side(frame, key, change, wanted) for frame, key in zip(frames, keys, strict=True)]


def _kept(keep: Keep, change: Frame, key_type: Type) -> Frame:
    """A change whose pairs have a column for each part, partitioned by their key and kept."""
    by = [unquote(atom) for atom in atoms(part(change.value, "_1", key_type))]
    return attrs.evolve(change, df=keep(change.df, by))


def _joined_where_it_lies(side: Frame, key_type: Type) -> bool:
    """Whether a side is partitioned by the key of the join, or its rows may be moved."""
    return side.lies_by is None or _is_joined_by(side, key_type, side.lies_by)


def _is_joined_by(side: Frame, key_type: Type, columns: Sequence[str]) -> bool:
    """Whether the key of a side's pairs consists of exactly these columns."""
    key = part(side.value, "_1", key_type)
    return [atom.sql for atom in atoms(key)] == [quote(name) for name in columns]


def _equal(left: Layout, right: Layout, *, plain: bool) -> str:
    """The condition that two keys are equal, missing parts too; `plain` says that one side has none of these."""
    pairs = zip(atoms(left), atoms(right), strict=True)
    return " AND ".join(f"{a.sql} {'=' if plain or not (a.missing and b.missing) else '<=>'} {b.sql}" for a, b in pairs)


def _join(left: Frame, right: Frame, condition: str, *, in_place: bool) -> Relation:
    """An inner join; the hash table is built from the batch's side, since that is small.

    Where the other side is not partitioned by the key of the join, the batch is broadcast. A small table that stays the
    same is broadcast instead, once for all batches, unless both sides are in one partition anyway.
    """
    a, b = left.df, right.df
    in_one = a.in_one and b.in_one
    in_place = in_place or in_one
    if right.changes and a.is_sent_to_all and not in_one:
        a = a.broadcast()
    elif left.changes and b.is_sent_to_all and not in_one:
        b = b.broadcast()
    elif not condition:
        a, b = (a.broadcast(), b) if left.changes else (a, b.broadcast() if right.changes else b)
    elif left.changes:
        a = a.hint("shuffle_hash") if in_place else a.broadcast()
    elif right.changes:
        b = b.hint("shuffle_hash") if in_place else b.broadcast()
    return a.join(b, condition) if condition else a.cross(b)
