"""Replays a history: after each batch, the incremental answer is compared to an evaluation from scratch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import TypeAlias

import attrs

from mrql.algebra.errors import EngineError, UserError
from mrql.algebra.evaluation.evaluate_measured import evaluate_measured
from mrql.algebra.row_key import RowKey
from mrql.algebra.terms import Term
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Value
from mrql.algebra.values.zset import ZSet
from mrql.rewrite.pipeline import normal_form
from mrql.verify.engines import Incremental, as_rows
from mrql.verify.histories import Batch, Data, History, KeyOf, Move, RowPlace, held, keys_of, last_moves
from mrql.verify.rounding import Rounding


class FailureKind(Enum):
    """What went wrong."""

    ANSWER = "the answer"
    CHANGES = "the changes of the answer"
    ERROR = "an error"


@attrs.frozen
class Failure:
    """How the incremental evaluation differs from the one from scratch after a batch.

    `batch` counts from 1; at 0 nothing has arrived. Of changes, `expected` and `got` are bags of `(row, weight)`; of an
    error, `got` is its message.
    """

    kind: FailureKind
    batch: int
    expected: Value
    got: Value
    near: Callable[[Value, Value], bool] = attrs.field(eq=False)
    """Whether values are the same up to rounding."""


@attrs.frozen
class NoValue:
    """There is nothing to compare: the query has no value for the rows that are present after a batch, or a view
    reports an error that is allowed then."""

    batch: int
    reason: str


Outcome: TypeAlias = Failure | NoValue | None


@attrs.define
class Oracle:
    """The query as it is written, evaluated from scratch with the reference evaluator.

    What no value depends on need not be computed (docs/language.md): where the query as it is written has no value, its
    normal form may have one.
    """

    term: Term
    data: Data
    tables: Mapping[str, Bag]
    rounding: Rounding
    """The rounding before the first batch."""
    keyed: Mapping[str, RowKey] = attrs.Factory(dict)
    """The streams whose rows replace each other."""
    known: dict[frozenset[RowPlace], tuple[Value, float] | UserError] = attrs.Factory(dict)
    refusable: set[frozenset[RowPlace]] = attrs.Factory(set)
    """The rows over which the query as it is written has no value."""

    def answer(self, present: frozenset[RowPlace]) -> tuple[Value, float]:
        """The answer over some of the rows, in which sums are measured, and the largest scale of a sum.

        Raises: UserError when there is none.
        """
        if present not in self.known:
            rows = {name: Bag(self._rows(name, present)) for name in self.data}
            self.known[present] = self._evaluated(present, {**self.tables, **rows})
        found = self.known[present]
        if isinstance(found, UserError):
            raise found
        return found

    def _evaluated(self, present: frozenset[RowPlace], contents: Mapping[str, Bag]) -> tuple[Value, float] | UserError:
        try:
            return evaluate_measured(self.term, contents)
        except UserError as as_written:
            self.refusable.add(present)
            try:
                return evaluate_measured(normal_form(self.term), contents)
            except UserError:
                return as_written

    def everything(self) -> Value:
        """The answer over all of the data.

        Raises: UserError when there is none, with the place in the query.
        """
        every = tuple(Move(RowPlace(name, n), 1) for name, rows in self.data.items() for n in range(len(rows)))
        return self.answer(self.held([every]))[0]

    def held(self, batches: Iterable[Batch]) -> frozenset[RowPlace]:
        """The rows that are present after some batches."""
        return held(batches, self.key_of)

    @property
    def key_of(self) -> KeyOf:
        """The keys of the rows that replace each other."""
        return keys_of(self.data, self.keyed)

    @property
    def has_value(self) -> bool:
        """Whether there is an answer over all of the data."""
        try:
            self.everything()
        except UserError:
            return False
        return True

    def _rows(self, name: str, present: frozenset[RowPlace]) -> list[Value]:
        return [row for number, row in enumerate(self.data[name]) if RowPlace(name, number) in present]


def replay(history: History, oracle: Oracle, start: Callable[[], Incremental]) -> Outcome:
    """Replays a history in a view of its own, up to the first batch that goes wrong.

    Raises: EngineError when Spark fails by itself.
    """
    try:
        view = start()
    except EngineError:
        raise
    except Exception as error:
        return _fault(0, oracle, frozenset(), error)
    try:
        return _Replay(oracle, view).run(history)
    finally:
        view.close()


class _Replay:
    def __init__(self, oracle: Oracle, view: Incremental) -> None:
        self.oracle = oracle
        self.view = view
        self.rounding = attrs.evolve(oracle.rounding)
        self.answer: Value = None

    def run(self, history: History) -> Outcome:
        for number in range(len(history) + 1):
            outcome = self.step(number, history)
            if outcome is not None:
                return outcome
        return None

    def step(self, number: int, history: History) -> Outcome:
        """Checks the answer after a batch, counted from 1; for 0, that over no data."""
        present = self.oracle.held(history[:number])
        try:
            expected, scale = self.oracle.answer(present)
        except UserError as error:
            return NoValue(number, error.message)
        self.rounding.seen(scale)
        before = self.answer
        try:
            changes = self.view.apply(*self.rows(history[number - 1])) if number else None
            self.answer = self.view.answer()
        except EngineError:
            raise
        except Exception as error:
            if self.rounding.excuses(error):
                return NoValue(number, error.message)
            return _fault(number, self.oracle, present, error)
        if not self.rounding.close(self.answer, expected):
            return Failure(FailureKind.ANSWER, number, expected, self.answer, self.rounding.close)
        if changes is not None and not self.follows(rows_before := as_rows(before, self.type), changes):
            wanted = as_rows(self.answer, self.type) - rows_before
            return Failure(FailureKind.CHANGES, number, Bag(wanted), Bag(changes), self.rounding.close)
        return None

    @property
    def type(self) -> Type:
        return self.oracle.term.type

    def rows(self, batch: Batch) -> tuple[dict[str, list[Value]], dict[str, list[Value]]]:
        """What a batch inserts and what it deletes."""
        rows: dict[int, dict[str, list[Value]]] = {1: {}, -1: {}}
        for move in last_moves(batch, self.oracle.key_of):
            row = self.oracle.data[move.row.stream][move.row.number]
            rows[move.weight].setdefault(move.row.stream, []).append(row)
        return rows[1], rows[-1]

    def follows(self, before: ZSet, changes: ZSet) -> bool:
        """Whether the old answer and its changes make the new answer; deleted rows are matched up to rounding."""
        after = as_rows(self.answer, self.type)
        return self.rounding.close(before.bag() + changes.positive(), after.bag() + changes.negative())


def _fault(number: int, oracle: Oracle, present: frozenset[RowPlace], error: Exception) -> Outcome:
    """The outcome of an error in a view: a failure only where the query has a value, also as it is written."""
    try:
        expected, _ = oracle.answer(present)
    except UserError as reason:
        return NoValue(number, reason.message)
    if isinstance(error, UserError) and present in oracle.refusable:
        return NoValue(number, error.message)
    message = error.message if isinstance(error, UserError) else f"{type(error).__name__}: {error}"
    return Failure(FailureKind.ERROR, number, expected, message, oracle.rounding.close)
