"""Loops on Spark: each step is compiled over what the step before it gave, and computed before the next one.

What a loop carries is a frame for each variable of its pattern: the rows of a bag, or one row with any other value. A
step's rows are kept as a local checkpoint, which cuts the plan; what the step before it left is freed. The parts of a
step that do not depend on the loop are computed once.

Whether a step has changed nothing is asked of Spark by comparing the two bags, where their numbers of rows do not tell
already. With a limit that is asked after the steps 1, 2, 4, 8, … only: further steps change nothing either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Protocol

import attrs
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from mrql.algebra import types as ty
from mrql.algebra.binders import Names, match_pattern, substitute
from mrql.algebra.evaluate import endless
from mrql.algebra.terms import Cast, Lit, Nth, Pattern, PTuple, PVar, Reduce, Repeat, Stream, Term, Tup, Var
from mrql.algebra.types import Type
from mrql.algebra.values import Value
from mrql.rewrite.loops import carried, invariants
from mrql.runtime import jvm
from mrql.runtime.collect import from_spark
from mrql.runtime.expressions import Expressions, canonical
from mrql.runtime.frames import Columns, Frame, flat, netted, union
from mrql.runtime.layout import to_sql

PARTITIONS = 4
"""What a loop carries lies in at most so many partitions for each core: a union has those of all its parts."""

BROADCAST = 10_000
"""So few rows are sent to wherever they are joined. Spark is told, since it knows no size of what a step has left."""


class Kept:
    """Checkpoints that something is made from."""

    def __init__(self) -> None:
        self.checkpoints: list[DataFrame] = []

    def free(self) -> None:
        """Frees them: what is made from them can no longer be read."""
        for df in self.checkpoints:
            jvm.free(df)
        self.checkpoints = []

    def take(self, other: Kept) -> None:
        self.checkpoints += other.checkpoints
        other.checkpoints = []


@contextmanager
def passing() -> Iterator[Kept]:
    """Checkpoints that are freed at the end of the block, unless they are taken from it."""
    kept = Kept()
    try:
        yield kept
    finally:
        kept.free()


class Compiler(Protocol):
    """What compiles terms over sources."""

    columns: Columns
    names: Names

    def reads(self, term: Term) -> bool: ...
    def rows(self, term: Term, more: Mapping[str, Frame], kept: Kept) -> Frame:
        """The rows of a bag, or the one row of another value, over more sources; `kept` are the loops in the term."""


@attrs.frozen
class Held:
    """A variable of a loop, and the source in its place; a list is held as a tuple of one part, as it is one value."""

    variable: PVar
    source: Var

    @staticmethod
    def of(variable: PVar, names: Names) -> Held:
        t = variable.type
        return Held(variable, Var(names.fresh(variable.name), ty.TupleType((t,)) if _is_list(t) else t))

    @property
    def value(self) -> Term:
        return Nth(self.source, 0) if _is_list(self.variable.type) else self.source

    def holding(self, term: Term) -> Term:
        """The term of what is held, where the variable is to have the value of a term."""
        t = self.variable.type
        fitted = term if term.type == t else Cast(term, t)
        return Tup((fitted,)) if _is_list(t) else fitted

    @property
    def row(self) -> Type:
        t = self.source.type
        return t.item if isinstance(t, ty.BagType) else t


@attrs.frozen
class Computed:
    """The rows of what a variable has, and their number."""

    frame: Frame
    rows: int


State = Mapping[str, Computed]


def run(term: Repeat, compiler: Compiler, kept: Kept) -> tuple[Term, dict[str, Frame]]:
    """The value of a loop, as a term over new sources; these lie in checkpoints that `kept` is given.

    Raises: UserError when a loop without a limit does not end.
    """
    with passing() as constant:
        loop, sources = _without_invariants(term, compiler, constant)
        return _Loop(loop, compiler, sources).run(kept)


def _without_invariants(term: Repeat, compiler: Compiler, kept: Kept) -> tuple[Repeat, dict[str, Frame]]:
    """The loop with what is the same in all steps computed: numbers as constants, all else as sources."""

    def worthwhile(part: Term) -> bool:
        bulk = ty.is_collection(part.type) or isinstance(part, Reduce)
        return isinstance(part, Stream) or (bulk and compiler.reads(part) and not isinstance(part, Var))

    loop, parts = invariants(term, compiler.names, worthwhile)
    sources: dict[str, Frame] = {}
    values: dict[str, Term] = {}
    for name, part in parts.items():
        with passing() as inner:
            if isinstance(part.type, ty.Basic):
                values[name] = Lit(single(compiler.rows(part, {}, inner), part.type), part.type)
                continue
            held = Held.of(PVar(name, part.type), compiler.names)
            frame = compiler.rows(held.holding(part), {}, inner)
            sources[held.source.name] = _computed(frame, compiler.columns, kept).frame
            values[name] = held.value
    return _substituted(loop, values), sources


def _substituted(loop: Repeat, values: Mapping[str, Term]) -> Repeat:
    found = substitute(loop, values)
    assert isinstance(found, Repeat)
    return found


class _Loop:
    """A loop over the sources of a compiler, and the parts of its step that are computed already."""

    def __init__(self, term: Repeat, compiler: Compiler, sources: dict[str, Frame]) -> None:
        self.term = term
        self.compiler = compiler
        self.sources = sources
        variables, self.pattern = carried(term.function.param, compiler.names)
        self.held = [Held.of(variable, compiler.names) for variable in variables]
        inside: dict[str, Term] = {held.variable.name: held.value for held in self.held}
        self.step = substitute(term.function.body, inside)
        self.condition = None if term.condition is None else substitute(term.condition, inside)

    def run(self, kept: Kept) -> tuple[Term, dict[str, Frame]]:
        """The value after the last step."""
        limit = self.limit()
        with passing() as current:
            state = self.computed(self.term.source, {}, current)
            for n in count():
                if n == limit:
                    break
                if limit is None and n == self.term.most:
                    raise endless(self.term)
                with passing() as following:
                    after = self.computed(self.step, state, following)
                    ended = self.has_ended(state, after, n + 1, limit)
                    state = after
                    current.free()
                    current.take(following)
                if ended:
                    break
            kept.take(current)
        frames = {name: variable.frame for name, variable in state.items()}
        return _value(self.pattern, iter(self.held)), frames

    def limit(self) -> int | None:
        if self.term.limit is None:
            return None
        with passing() as kept:
            found = single(self.rows(self.term.limit, {}, kept), self.term.limit.type)
        return max(found or 0, 0)

    def rows(self, term: Term, state: State, kept: Kept) -> Frame:
        frames = {name: variable.frame for name, variable in state.items()}
        return self.compiler.rows(term, {**self.sources, **frames}, kept)

    def computed(self, term: Term, state: State, kept: Kept) -> dict[str, Computed]:
        """What the loop carries, where that is the value of a term."""
        parts = match_pattern(self.pattern, term)
        found = {}
        with passing() as inner:
            for held in self.held:
                frame = self.rows(held.holding(parts[held.variable.name]), state, inner)
                found[held.source.name] = _computed(frame, self.compiler.columns, kept)
        return found

    def has_ended(self, before: State, after: State, steps: int, limit: int | None) -> bool:
        if self.condition is not None:
            with passing() as kept:
                return not single(self.rows(self.condition, after, kept), ty.BOOL)
        if limit is not None and steps & (steps - 1):
            return False
        return not any(self.differs(held, before, after) for held in self.held)

    def differs(self, held: Held, before: State, after: State) -> bool:
        sides = [state[held.source.name] for state in (before, after)]
        if all(side.frame.weight is None for side in sides) and sides[0].rows != sides[1].rows:
            return True
        signed = []
        for side, sign in zip(sides, (-1, 1), strict=True):
            value = canonical(Expressions(), side.frame.value)
            signed.append(attrs.evolve(side.frame, value=value, weight=f"({sign}L * {side.frame.weight or '1L'})"))
        columns = self.compiler.columns
        return not netted(union(signed, held.row, columns), columns).df.isEmpty()


def _computed(frame: Frame, columns: Columns, kept: Kept) -> Computed:
    own = flat(frame, columns)
    df = jvm.local_checkpoint(own.df, small=False)
    kept.checkpoints.append(df)
    rows = jvm.compute(df)
    most = PARTITIONS * df.sparkSession.sparkContext.defaultParallelism
    read = jvm.without_estimates(df)
    if jvm.partitions(df) > most:
        read = read.coalesce(most)
    if rows <= BROADCAST:
        read = F.broadcast(read)
    return Computed(Frame(read, own.value, own.weight), rows)


def single(frame: Frame, t: Type) -> Value:
    """The value of the one row."""
    (row,) = frame.df.selectExpr(f"{to_sql(frame.value)} AS value").collect()
    return from_spark(row[0], t)


def _value(pattern: Pattern, held: Iterator[Held]) -> Term:
    """The term that has the value which a loop carries."""
    match pattern:
        case PTuple(items):
            return Tup(tuple(_value(item, held) for item in items))
        case _:
            return next(held).value


def _is_list(t: Type) -> bool:
    return isinstance(t, ty.ListType)
