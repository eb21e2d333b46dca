"""Window functions of lists: numbers, ranks, neighbours, and running aggregates.

Each takes a list of rows, and returns the list of the rows, each paired with the result for it. Functions that need a
value of each row take pairs of a row and the value. On Spark a list is an array, and each function is an expression
over it of `n` or `n log n` steps: none appends to an array, which would take `n²`. Ranks only need the places where the
runs of equal keys begin, as equal keys are adjacent. Running aggregates are in `runtime/spark/expressions/running.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import attrs

from mrql.algebra.errors import EvaluationError
from mrql.algebra.functions.function import Function, fails, version
from mrql.algebra.functions.running import RUNNING
from mrql.algebra.functions.sql_text import begins_sql, let_sql
from mrql.algebra.values.values import Value, canonical, parts_of_pair

# --- in Python --------------------------------------------------------------------------------------------------------


def _row_number(rows: list[Value]) -> list[Value]:
    return [(row, i) for i, row in enumerate(rows, 1)]


def _lag(rows: list[Value], by: int = 1) -> list[Value]:
    return [(row, rows[i - by] if 0 <= i - by < len(rows) else None) for i, row in enumerate(rows)]


def _lead(rows: list[Value], by: int = 1) -> list[Value]:
    return _lag(rows, -by)


def _rolling(rows: list[Value], width: int) -> list[Value]:
    return [(row, rows[max(i + 1 - width, 0) : i + 1] if width > 0 else []) for i, row in enumerate(rows)]


def _ntile(rows: list[Value], parts: int) -> list[Value]:
    if parts < 1:
        raise EvaluationError(NO_PARTS)
    size, larger = divmod(len(rows), parts)
    bound = larger * (size + 1)
    return [(row, i // (size + 1) + 1 if i < bound else larger + (i - bound) // size + 1) for i, row in enumerate(rows)]


@attrs.frozen
class Peers:
    """Adjacent rows with the same key: the place of the first one, the place behind the last one, the number of this
    group from 1 on, and the number of all rows."""

    first: int
    end: int
    number: int
    rows: int


def _ranked(rank: Callable[[Peers], Value]) -> Callable[[list[Value]], list[Value]]:
    """A function that pairs each row with its rank, which is the same for all peers."""

    def value(pairs: list[Value]) -> list[Value]:
        rows = [parts_of_pair(pair) for pair in pairs]
        ranks = ((peers, rank(peers)) for peers in _peers([key for _, key in rows]))
        return [(row, made) for peers, made in ranks for row, _ in rows[peers.first : peers.end]]

    return value


def _peers(keys: Sequence[Value]) -> Iterator[Peers]:
    known = [canonical(key) for key in keys]
    firsts = [i for i, key in enumerate(known) if i == 0 or key != known[i - 1]]
    for number, (first, end) in enumerate(pairwise([*firsts, len(keys)]), 1):
        yield Peers(first, end, number, len(keys))


# --- in SQL -----------------------------------------------------------------------------------------------------------

_XS, _P, _I, _J, _S, _N, _E = (f"{name}__v_0" for name in ("rows", "row", "i", "j", "first", "n", "end"))
"""Variables of lambdas, whose bodies refer to nothing else."""

NO_PARTS = "rows are parted in 1 or more"
OFFSET_MAX_ROWS = 2**31 - 1
"""No two elements of a list are further apart."""


def _pair(first: str, second: str) -> str:
    return f"named_struct('_1', {first}, '_2', {second})"


def _beside(second: str) -> str:
    """The rows, each paired with an expression of its place."""
    return f"transform({_XS}, ({_P}, {_I}) -> {_pair(_P, second)})"


def _row_number_sql(rows: str, at: str) -> str:
    return f"transform({rows}, ({_P}, {_I}) -> {_pair(_P, f'CAST({_I} AS BIGINT) + 1L')})"


def _neighbour_sql(sign: str) -> Callable[..., str]:
    def sql(rows: str, *more: str) -> str:
        by = more[0] if len(more) > 1 else "1L"
        place = f"CAST({_I} AS BIGINT) {sign} greatest(least({_N}, {OFFSET_MAX_ROWS}L), -{OFFSET_MAX_ROWS}L)"
        there = f"{place} >= 0L AND {place} < size({_XS})"
        found = _beside(f"if({there}, get({_XS}, CAST({place} AS INT)), NULL)")
        return let_sql(_XS, rows, let_sql(_N, by, f"if({_N} IS NULL, NULL, {found})"))

    return sql


def _rolling_sql(rows: str, width: str, at: str) -> str:
    first = f"greatest({_I} + 1 - CAST(least({_N}, {OFFSET_MAX_ROWS}L) AS INT), 0)"
    window = f"transform(sequence({first}, {_I}), {_J} -> get({_XS}, {_J}))"
    none = f"filter(array(get({_XS}, 0)), {_J} -> false)"
    found = _beside(f"if({_N} > 0L, {window}, {none})")
    return let_sql(_XS, rows, let_sql(_N, width, f"if({_N} IS NULL, NULL, {found})"))


def _ntile_sql(rows: str, parts: str, at: str) -> str:
    size, larger, i = f"(size({_XS}) div {_N})", f"(size({_XS}) % {_N})", f"CAST({_I} AS BIGINT)"
    bound = f"({larger} * ({size} + 1L))"
    part = f"if({i} < {bound}, {i} div ({size} + 1L), {larger} + ({i} - {bound}) div {size}) + 1L"
    missing, none = f"{_XS} IS NULL OR {_N} IS NULL", f"WHEN {_N} < 1L THEN {fails(at, NO_PARTS)}"
    made = f"CASE WHEN {missing} THEN NULL {none} ELSE {_beside(part)} END"
    return let_sql(_XS, rows, let_sql(_N, parts, made))


def _rank_sql(rank: str) -> Callable[..., str]:
    """A rank, as an expression of the first place, the end and the number of a run."""

    def sql(pairs: str, at: str) -> str:
        firsts = f"filter(transform({_XS}, ({_P}, {_I}) -> {_I}), {_I} -> {begins_sql(_XS, _I, '._2')})"
        row = _pair(f"get({_XS}, {_I})._1", rank)
        run = f"transform(sequence({_S}, {_E} - 1), {_I} -> {row})"
        bounded = let_sql(_E, f"coalesce(get({_N}, {_J} + 1), size({_XS}))", run)
        return let_sql(_XS, pairs, let_sql(_N, firsts, f"flatten(transform({_N}, ({_S}, {_J}) -> {bounded}))"))

    return sql


# --- the table --------------------------------------------------------------------------------------------------------


_KEYED = "a list of pairs of a row and its key"

WINDOW_FUNCTIONS: tuple[Function, ...] = (
    Function(
        "row_number",
        (version("[t] -> [(t, long)]", _row_number, _row_number_sql),),
        "a list",
        "each row beside its number, from 1 on",
        (('row_number(["b", "a"])', '[("b", 1), ("a", 2)]'),),
    ),
    Function(
        "rank",
        (
            version(
                "[(t, o)] -> [(t, long)]",
                _ranked(lambda peers: peers.first + 1),
                _rank_sql(f"CAST({_S} AS BIGINT) + 1L"),
            ),
        ),
        _KEYED,
        "each row beside the number of the first one that stands with it and has the same key",
        (('rank([("a", 7), ("b", 7), ("c", 9)])', '[("a", 1), ("b", 1), ("c", 3)]'),),
    ),
    Function(
        "dense_rank",
        (
            version(
                "[(t, o)] -> [(t, long)]", _ranked(lambda peers: peers.number), _rank_sql(f"CAST({_J} AS BIGINT) + 1L")
            ),
        ),
        _KEYED,
        "each row beside the number of its key, among the keys that differ from the one before",
        (('dense_rank([("a", 7), ("b", 7), ("c", 9)])', '[("a", 1), ("b", 1), ("c", 2)]'),),
    ),
    Function(
        "percent_rank",
        (
            version(
                "[(t, o)] -> [(t, double)]",
                _ranked(lambda peers: peers.first / max(peers.rows - 1, 1)),
                _rank_sql(f"CAST({_S} AS DOUBLE) / greatest(size({_XS}) - 1, 1)"),
            ),
        ),
        _KEYED,
        "each row beside the part of the other rows that have a key before its own",
        (('percent_rank([("a", 7), ("b", 7), ("c", 9)])', '[("a", 0.0), ("b", 0.0), ("c", 1.0)]'),),
    ),
    Function(
        "cume_dist",
        (
            version(
                "[(t, o)] -> [(t, double)]",
                _ranked(lambda peers: peers.end / peers.rows),
                _rank_sql(f"CAST({_E} AS DOUBLE) / size({_XS})"),
            ),
        ),
        _KEYED,
        "each row beside the part of the rows up to the last one with its key",
        (('cume_dist([("a", 7), ("b", 9)])', '[("a", 0.5), ("b", 1.0)]'),),
    ),
    Function(
        "ntile",
        (version("[t], long -> [(t, long)]", _ntile, _ntile_sql),),
        "a list and how many parts there are",
        "each row beside the number of its part, from 1 on, of so many of one size; the first ones may have one more",
        (('ntile(["a", "b", "c"], 2)', '[("a", 1), ("b", 1), ("c", 2)]'),),
    ),
    Function(
        "lag",
        (
            version("[t] -> [(t, t)]", _lag, _neighbour_sql("-")),
            version("[t], long -> [(t, t)]", _lag, _neighbour_sql("-")),
        ),
        "a list, perhaps with how many rows there are between",
        "each row beside the one before it, or so many before; missing where there is none",
        (("lag([7, 8, 9])", "[(7, null), (8, 7), (9, 8)]"), ("lag([7, 8, 9], 2)", "[(7, null), (8, null), (9, 7)]")),
    ),
    Function(
        "lead",
        (
            version("[t] -> [(t, t)]", _lead, _neighbour_sql("+")),
            version("[t], long -> [(t, t)]", _lead, _neighbour_sql("+")),
        ),
        "a list, perhaps with how many rows there are between",
        "each row beside the one behind it, or so many behind; missing where there is none",
        (("lead([7, 8])", "[(7, 8), (8, null)]"),),
    ),
    Function(
        "rolling",
        (version("[t], long -> [(t, [t])]", _rolling, _rolling_sql),),
        "a list and how many rows a window has",
        "each row beside the list of so many rows that end with it, or as many as there are",
        (("rolling([7, 8, 9], 2)", "[(7, [7]), (8, [7, 8]), (9, [8, 9])]"),),
    ),
    *RUNNING,
)
