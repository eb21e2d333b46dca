"""What a change looks up in the rows of a state: of those that are in blocks, only its own blocks are looked at."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from mrql.runtime.spark.expressions.layout import Layout, atoms, quote
from mrql.runtime.spark.relation.frame import Frame
from mrql.runtime.spark.relation.persisted_rows import Beside
from mrql.runtime.spark.relation.relation import Relation, RelationOp, side_by_side, union_all
from mrql.runtime.spark.state.run import Indexed

BY_ROW = (RelationOp.SELECT, RelationOp.WHERE, RelationOp.OPEN, RelationOp.UNION, RelationOp.COALESCE)
"""What computes each row by itself."""


def found(runs: Sequence[Relation], by: Sequence[str], wanted: Relation, columns: Sequence[str]) -> Relation:
    """The rows of some runs that are where `wanted` has rows, by the columns by which all of them lie.

    Those must never be null: of a join on `a <=> b`, Spark moves both sides to where `coalesce(a, …)` would be.
    """
    keys = wanted.select(*by).hint("shuffle_hash")
    narrow = [narrowed(run, by, wanted) for run in runs]
    # A semi-join puts the columns that it is by before the others; it does not where rows are gathered.
    return union_all([run.semi_join(keys, by).select(*columns) for run in side_by_side(narrow)])


def found_with_nulls(runs: Sequence[Relation], by: Sequence[str], wanted: Relation) -> Relation:
    """The same by columns that may be null: all tasks are sent what is wanted, which should be little."""
    keys = wanted.select(*(f"{name} AS {name}_wanted" for name in by)).broadcast()
    same = " AND ".join(f"{name} <=> {name}_wanted" for name in by)
    return union_all([run.join(keys, same, "left_semi") for run in side_by_side(runs)])


def narrowed(rows: Relation, by: Sequence[str], wanted: Relation) -> Relation:
    """Of some rows those that are wanted by some columns, and maybe others: of what is in blocks the blocks that there
    are wanted ones for, and all of the rest."""
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
    """Whether the columns by which something is wanted are those of the relation's parts."""
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
    """Whether rows can be read twice for little: they are kept, or come of kept ones row by row."""
    return rows.op is RelationOp.KEPT or (rows.op in BY_ROW and all(map(is_at_hand, rows.parts)))


def is_in_blocks(rows: Relation) -> bool:
    """Whether some of the rows that are read lie in blocks."""
    kept = [leaf.rows for leaf in rows.leaves if leaf.op is RelationOp.KEPT]
    each = (one for rows in kept for one in (rows.kept if isinstance(rows, Beside) else [rows]))
    return any(isinstance(one, Indexed) for one in each)


def narrowed_side(state: Frame, key: Layout, change: Frame, change_key: Layout) -> Frame:
    """The side of a join that is a state, without most of what the other side, a change, has no partner for. Each side
    has its key as expressions of one type; nothing is done where those of the state are not what it lies by."""
    if state.lies_by is None or [atom.sql for atom in atoms(key)] != [quote(name) for name in state.lies_by]:
        return state
    named = zip(atoms(change_key), state.lies_by, strict=True)
    wanted = change.df.select(*(f"{atom.sql} AS {name}" for atom, name in named))
    return attrs.evolve(state, df=narrowed(state.df, state.lies_by, wanted))
