"""Lookups of a change's keys in the rows of a state; of rows in blocks, only the blocks of these keys are read."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from mrql.runtime.spark.expressions.layout import Layout, atoms, quote
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.relation.persisted_rows import Beside
from mrql.runtime.spark.relation.relation import Relation, RelationOp, side_by_side, union_all
from mrql.runtime.spark.state.run import Indexed

BY_ROW = (RelationOp.SELECT, RelationOp.WHERE, RelationOp.OPEN, RelationOp.UNION, RelationOp.COALESCE)
"""The operations that compute each row by itself."""


def found(runs: Sequence[Relation], by: Sequence[str], wanted: Relation, columns: Sequence[str]) -> Relation:
    """The rows of some runs whose values in the columns `by` occur in `wanted`; all of them are partitioned by these
    columns.

    The columns must never be null: for a join on `a <=> b`, Spark repartitions both sides by `coalesce(a, …)`.
    """
    keys = wanted.select(*by).hint("shuffle_hash")
    narrow = [narrowed(run, by, wanted) for run in runs]
    # A semi-join puts its join columns before the others, except where rows are gathered.
    return union_all([run.semi_join(keys, by).select(*columns) for run in side_by_side(narrow)])


def found_with_nulls(runs: Sequence[Relation], by: Sequence[str], wanted: Relation) -> Relation:
    """Like `found`, by columns that may be null: `wanted` is broadcast, and should be small."""
    keys = wanted.select(*(f"{name} AS {name}_wanted" for name in by)).broadcast()
    same = " AND ".join(f"{name} <=> {name}_wanted" for name in by)
    return union_all([run.join(keys, same, "left_semi") for run in side_by_side(runs)])


def narrowed(rows: Relation, by: Sequence[str], wanted: Relation) -> Relation:
    """A superset of the rows whose values in the columns `by` occur in `wanted`: of rows in blocks only the blocks of
    these values, and all other rows."""
    if not is_at_hand(wanted):
        return rows
    match rows:
        case Relation(RelationOp.KEPT, _, _, Indexed() as indexed) if indexed.by == tuple(by):
            return indexed.found(wanted)
        case Relation(RelationOp.KEPT, _, _, Beside(kept)) if any(isinstance(each, Indexed) for each in kept):
            return union_all([narrowed(Relation.kept(each), by, wanted) for each in kept])
        case _ if _passes_on(rows, by):
            parts = tuple(narrowed(part, by, wanted) for part in rows.parts)
            return rows if parts == rows.parts else attrs.evolve(rows, parts=parts)
        case _:
            return rows


def _passes_on(rows: Relation, by: Sequence[str]) -> bool:
    """Whether the relation has the columns `by` unchanged from its parts."""
    match rows.op:
        case RelationOp.UNION | RelationOp.COALESCE | RelationOp.WHERE:
            return True
        case RelationOp.SELECT:
            return {*by} <= {*rows.arguments}
        case RelationOp.OPEN:
            return rows.gathering is not None and {*by} <= {*rows.gathering.by}
        case _:
            return False


def is_at_hand(rows: Relation) -> bool:
    """Whether rows are cheap to read twice: they are kept, or computed from kept ones row by row."""
    return rows.op is RelationOp.KEPT or (rows.op in BY_ROW and all(map(is_at_hand, rows.parts)))


def is_in_blocks(rows: Relation) -> bool:
    """Whether some of the rows that a relation reads are kept in blocks."""
    kept = [leaf.rows for leaf in rows.leaves if leaf.op is RelationOp.KEPT]
    each = (one for rows in kept for one in (rows.kept if isinstance(rows, Beside) else [rows]))
    return any(isinstance(one, Indexed) for one in each)


def narrowed_side(state: Frame, key: Layout, change: Frame, change_key: Layout) -> Frame:
    """The state side of a join, without most of the rows that have no partner in the other side, a change. The keys of
    both sides are expressions of the same types; a state that is not partitioned by its key is returned as it is."""
    if state.lies_by is None or [atom.sql for atom in atoms(key)] != [quote(name) for name in state.lies_by]:
        return state
    named = zip(atoms(change_key), state.lies_by, strict=True)
    wanted = change.df.select(*(f"{atom.sql} AS {name}" for atom, name in named))
    return attrs.evolve(state, df=narrowed(state.df, state.lies_by, wanted))
