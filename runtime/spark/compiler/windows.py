"""Window functions over all rows in an order, as window functions of Spark.

As a list, all rows would be one array in one row. Here they stay rows: they are sorted once, in one partition, and a
window function computes its value for each row over a window in that order. In groups, whose lists are arrays anyway,
these functions are expressions over the array (`algebra/functions/window_functions.py`, `expressions/running.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import free_vars
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.evaluation.may_fail import may_fail
from mrql.algebra.functions import RUNNING
from mrql.algebra.functions.function import resolved
from mrql.algebra.functions.running import beside
from mrql.algebra.functions.window_functions import OFFSET_MAX_ROWS
from mrql.algebra.terms import OrderBy, Prim, Stream, Term, element_type, pair_type
from mrql.runtime.spark.compiler.evaluation_guards import placed
from mrql.runtime.spark.compiler.order import order
from mrql.runtime.spark.compiler.protocol import TermCompiler
from mrql.runtime.spark.expressions.casts import cast
from mrql.runtime.spark.expressions.layout import Atom, Layout, Struct, label, part, to_sql
from mrql.runtime.spark.expressions.literals import place
from mrql.runtime.spark.expressions.running import running_over_sql
from mrql.runtime.spark.relation.frame import Frame, as_a_bag, expanded

SO_FAR = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"


def is_over_rows(term: Term) -> bool:
    """Whether a term is a window function over ordered rows, or over the result of another one, with constant further
    arguments.

    A window of less than one row, or less than one part, is left to the function over lists.
    """
    match term:
        case Prim(function, (rows, *others)) if function.name in _BESIDE or function in RUNNING:
            numbers = [_constant(other) for other in others]
            least = 1 if function.name in _COUNTING else -OFFSET_MAX_ROWS
            fit = all(number is not None and number >= least for number in numbers)
            return fit and (isinstance(rows, OrderBy) or is_over_rows(rows))
        case _:
            return False


def over_rows(compiler: TermCompiler, term: Term) -> Frame:
    """The pairs that a window function returns, one row for each."""
    return _in_order(compiler, term).frame


def sorted_over_rows(compiler: TermCompiler, term: Term) -> Frame:
    """The pairs that a window function returns, in the order of the list."""
    ordered = _in_order(compiler, term)
    return attrs.evolve(ordered.frame, df=ordered.frame.df.order(*ordered.by))


@attrs.frozen
class _Ordered:
    """Rows with the columns by which they are ordered, each with whether it descends."""

    compiler: TermCompiler
    frame: Frame
    by: Sequence[tuple[str, bool]]

    def beside(self, made: str) -> tuple[_Ordered, str]:
        """The rows with `made` as another column, and its name."""
        name = self.compiler.fresh()
        return attrs.evolve(
            self, frame=attrs.evolve(self.frame, df=self.frame.df.select("*", f"{made} AS {name}"))
        ), name

    def window(self, frame: str = "") -> str:
        by = [f"{name} {'DESC NULLS LAST' if down else 'ASC NULLS FIRST'}" for name, down in self.by]
        return f"OVER (ORDER BY {', '.join(by)} {frame})"


def _in_order(compiler: TermCompiler, term: Term) -> _Ordered:
    match term:
        case OrderBy(source, _):
            frame = expanded(as_a_bag(compiler.bag(source)), compiler.columns)
            # As columns, by which rows stay sorted from one window to the next: equal rows keep their order.
            named = [(sql, compiler.fresh(), down) for sql, down in order(compiler, frame, term)]
            df = frame.df.select("*", *(f"{sql} AS {name}" for sql, name, _ in named))
            value = part(frame.value, label(1), pair_type(source)[1])
            by = [(name, down) for _, name, down in named]
            return _Ordered(compiler, Frame(df, value, narrowed=frame.narrowed), by)
        case Prim(function, (rows, *others)):
            ordered = _in_order(compiler, rows)
            if function in RUNNING:
                ordered, row, made = _running(ordered, term)
            else:
                ordered, row, sql = _BESIDE[function.name](ordered, *(_constant(other) for other in others))
                ordered, name = ordered.beside(sql)
                made = Atom(name, pair_type(term)[1])
            value = Struct(((label(0), row), (label(1), made)), element_type(term))
            return attrs.evolve(ordered, frame=attrs.evolve(ordered.frame, value=value))
        case _:
            raise AssertionError(f"{type(term).__name__} is no order of rows")


def _constant(term: Term) -> int | None:
    """The value of a constant integer that cannot fail, clamped to ±`OFFSET_MAX_ROWS`: no list is longer; else None."""
    if free_vars(term) or any(isinstance(part, Stream) for part in subterms(term)) or may_fail(term):
        return None
    number = evaluate(term)
    return max(min(number, OFFSET_MAX_ROWS), -OFFSET_MAX_ROWS) if isinstance(number, int) else None


# --- the value beside each row ----------------------------------------------------------------------------------------

_Made = tuple[_Ordered, Layout, str]
"""The rows with intermediate columns, the part of each that is returned, and the SQL of the value beside it."""


def _row_number(rows: _Ordered) -> _Made:
    # Spark turns a condition on `row_number` into a limit, but not one on a count.
    return rows, rows.frame.value, f"CAST(row_number() {rows.window()} AS BIGINT)"


def _neighbour(function: str) -> Callable[..., _Made]:
    def made(rows: _Ordered, by: int = 1) -> _Made:
        value = to_sql(rows.frame.value)
        return rows, rows.frame.value, f"{function}({value}, {by}) {rows.window()}"

    return made


def _rolling(rows: _Ordered, width: int) -> _Made:
    value = rows.frame.value
    # `collect_list` would skip nulls.
    whole = isinstance(value, Struct) or not value.missing
    collected = f"collect_list({to_sql(value) if whole else f'array({to_sql(value)})'})"
    window = f"{collected} {rows.window(f'ROWS BETWEEN {width - 1} PRECEDING AND CURRENT ROW')}"
    return rows, value, window if whole else f"flatten({window})"


def _ntile(rows: _Ordered, parts: int) -> _Made:
    return rows, rows.frame.value, f"CAST(ntile({parts}) {rows.window()} AS BIGINT)"


@attrs.frozen
class _Runs:
    """Rows in runs of equal keys: the columns with the number of each row, and whether a run begins or ends with it."""

    rows: _Ordered
    row: Layout
    number: str
    begins: str
    ends: str

    @staticmethod
    def of(rows: _Ordered) -> _Runs:
        (row, key), window = _halves(rows.frame.value), rows.window()
        rows, number = rows.beside(f"count(1) {rows.window(SO_FAR)}")
        found = []
        for neighbour in ("lag", "lead"):
            # In a struct, a missing key of a neighbour is told from no neighbour, which is the end of the rows.
            rows, other = rows.beside(f"{neighbour}(named_struct('k', {to_sql(key)})) {window}")
            rows, differs = rows.beside(f"NOT (named_struct('k', {to_sql(key)}) <=> {other})")
            found.append(differs)
        return _Runs(rows, row, number, *found)

    @property
    def first(self) -> str:
        """The number of the first row in a row's run."""
        return f"max(if({self.begins}, {self.number}, NULL)) {self.rows.window(SO_FAR)}"

    @property
    def last(self) -> str:
        """The number of the last row in a row's run: the least end of a run from that row on."""
        return f"min(if({self.ends}, {self.number}, NULL)) OVER (ORDER BY {self.number} DESC {SO_FAR})"

    @property
    def size(self) -> str:
        return "count(1) OVER ()"


def _ranked(rank: Callable[[_Runs], str]) -> Callable[[_Ordered], _Made]:
    def made(rows: _Ordered) -> _Made:
        runs = _Runs.of(rows)
        return runs.rows, runs.row, rank(runs)

    return made


def _halves(pair: Layout) -> tuple[Layout, Layout]:
    assert isinstance(pair.type, ty.TupleType)
    row, other = (part(pair, label(i), t) for i, t in enumerate(pair.type.items))
    return row, other


def _running(rows: _Ordered, term: Prim) -> tuple[_Ordered, Layout, Layout]:
    """A running aggregate: its parts are computed in a column, and the value from these."""
    found = resolved(term.function, tuple(arg.type for arg in term.args))
    assert found is not None, "a term was checked when its type was asked for"
    _, (pairs,), _ = found
    row, value = _halves(rows.frame.value)
    wide = to_sql(cast(value, value.type, beside(pairs), ""))
    parts, read = running_over_sql(term.function, pairs, wide, rows.window(SO_FAR), place(term.span))
    rows, name = rows.beside(parts)
    made = read(name)
    rows, name = rows.beside(placed(made) if may_fail(term) else made)
    return rows, row, Atom(name, pair_type(term)[1])


_BESIDE: Mapping[str, Callable[..., _Made]] = {
    "row_number": _row_number,
    "rank": _ranked(lambda runs: runs.first),
    "dense_rank": _ranked(lambda runs: f"count_if({runs.begins}) {runs.rows.window(SO_FAR)}"),
    "percent_rank": _ranked(lambda runs: f"({runs.first} - 1) / CAST(greatest({runs.size} - 1, 1) AS DOUBLE)"),
    "cume_dist": _ranked(lambda runs: f"{runs.last} / CAST({runs.size} AS DOUBLE)"),
    "ntile": _ntile,
    "lag": _neighbour("lag"),
    "lead": _neighbour("lead"),
    "rolling": _rolling,
}
_COUNTING = {"rolling", "ntile"}
"""The functions that take a number of rows or parts."""
