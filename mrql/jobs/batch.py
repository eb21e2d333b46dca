"""Evaluates the expressions of a program once, one after the other, in either engine.

What a program stores (`store x := e`) is evaluated with the first expression that names it, and kept for the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import map_children, subterms
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.span import Span
from mrql.algebra.terms import Lit, Repeat, Stream, Term
from mrql.algebra.values.values import Value
from mrql.rewrite.pipeline import normal_form
from mrql.runtime.engine.answer import Rows
from mrql.runtime.files.quarantine import Quarantine, Reject, fail
from mrql.runtime.reference.answer import ReferenceRows
from mrql.runtime.sinks.replacing import write
from mrql.runtime.sources.arrived import static_files
from mrql.runtime.sources.catalog import must_not_be_handed_over
from mrql.runtime.sources.files import list_files, read_source
from mrql.runtime.sources.watched.directory import say_what_is_passed_over
from mrql.runtime.sources.wrong_rows import naming_files
from mrql.runtime.streaming.stream_loop import must_exist
from mrql.translate.program import CompiledExpression, Program

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from mrql.runtime.spark.relation.frame import Frame


def sources_of(program: Program, term: Term) -> dict[str, SourceSpec]:
    """The sources that a term reads, streams and static tables."""
    names = dict.fromkeys(t.name for t in subterms(term) if isinstance(t, Stream))
    return {name: program.sources[name] for name in names if name in program.sources}


class BatchJob(Protocol):
    """Evaluates the expressions of a program."""

    def answer(self, query: CompiledExpression) -> Value: ...
    def write(self, query: CompiledExpression) -> None:
        """Writes the answer of a query to its target."""

    def close(self) -> None:
        """Frees the stored values."""


class _Stores:
    """The stored values of a program, as far as they have been evaluated; `keep` evaluates one under a new name.

    A shell's program grows, and may store another value under the same name.
    """

    def __init__(self, stored: Mapping[str, Term], keep: Callable[[str, Term], Term]) -> None:
        self.stored = stored
        self.begun: list[Term] = []
        self.known: list[tuple[Term, Term]] = []
        self.keep = keep
        self.numbers = itertools.count(1)

    def used(self, term: Term) -> Term:
        """The term with stored values in place of the terms that they are the values of."""
        for name, stored in self.stored.items():
            named = any(part == stored for part in subterms(term))
            if named and stored not in self.begun and _is_worth_keeping(stored):
                self._evaluate(name, stored)
        return self._replaced(term)

    def _evaluate(self, name: str, stored: Term) -> None:
        self.begun.append(stored)
        try:
            kept = self.keep(f"{name}_{next(self.numbers)}", self.used(stored))
        except BaseException:  # an error in the data, or an interrupt: the next expression that names it tries again
            self.begun.remove(stored)
            raise
        self.known.append((stored, kept))

    def _replaced(self, term: Term) -> Term:
        for stored, kept in self.known:
            if term == stored:
                return kept
        return map_children(term, self._replaced)


def _is_worth_keeping(term: Term) -> bool:
    """Whether the value of a term can be kept as a table or a constant, and takes more than a look-up."""
    computes = not isinstance(term, Stream) and any(isinstance(part, Stream | Repeat) for part in subterms(term))
    return computes and isinstance(term.type, ty.BagType | ty.Basic)


@attrs.define
class _LookedAt:
    """The directories of streams that were looked at, so that a warning about one is given once."""

    paths: set[str] = attrs.Factory(set)

    def look(self, specs: Mapping[str, SourceSpec]) -> None:
        """Raises: UserError for a source that is not there."""
        must_not_be_handed_over(specs.values())
        must_exist(specs.values())
        for spec in specs.values():
            for part, _ in spec.directories if spec.stream else ():
                if part.path not in self.paths and not list_files(part):
                    say_what_is_passed_over(part)
                self.paths.add(part.path)


def _table(name: str, t: ty.Type) -> Stream:
    return Stream(f"stored {name}", t, static=True)  # no source of a program has such a name


class ReferenceBatchJob:
    """Evaluates in plain Python."""

    def __init__(self, program: Program, quarantine: Quarantine | None = None) -> None:
        self.program = program
        self.reject: Reject = fail if quarantine is None else quarantine.reject
        self.tables: dict[str, Any] = {}
        self.stores = _Stores(program.stored, self._keep)
        self.looked_at = _LookedAt()

    def answer(self, query: CompiledExpression) -> Value:
        return self._value(self.stores.used(query.term))

    def write(self, query: CompiledExpression) -> None:
        assert query.target is not None
        write(query.target, ReferenceRows(self.answer(query), query.type))

    def close(self) -> None:
        self.tables = {}

    def _value(self, term: Term) -> Value:
        specs = sources_of(self.program, term)
        self.looked_at.look(specs)
        with naming_files(specs):
            data = {name: read_source(spec, self.reject) for name, spec in specs.items()}
        return evaluate(normal_form(term), {**self.tables, **data})

    def _keep(self, name: str, term: Term) -> Term:
        value = self._value(term)
        if isinstance(term.type, ty.Basic):
            return Lit(value, term.type)
        table = _table(name, term.type)
        self.tables[table.name] = value
        return table


class SparkBatchJob:
    """Evaluates on Spark, which is started when it is needed; stored values are kept there until `close`."""

    def __init__(
        self, program: Program, start: Callable[[], SparkSession], quarantine: Quarantine | None = None
    ) -> None:
        from mrql.runtime.spark.compiler.loop_checkpoints import LoopCheckpoints

        self.program = program
        self.start = start
        self.quarantine = quarantine
        self.kept = LoopCheckpoints()
        self.tables: dict[str, Frame] = {}
        self.span: Span | None = None
        self.stores = _Stores(program.stored, self._keep)
        self.looked_at = _LookedAt()

    @cached_property
    def spark(self) -> SparkSession:
        return self.start()

    def answer(self, query: CompiledExpression) -> Value:
        return self._answered(query, lambda answer: answer.collect())

    def write(self, query: CompiledExpression) -> None:
        target = query.target
        assert target is not None
        self._answered(query, lambda answer: write(target, answer))

    def close(self) -> None:
        """Frees the stored values."""
        self.kept.free()

    def _answered(self, query: CompiledExpression, use: Callable[[Rows], Value]) -> Value:
        from mrql.runtime.spark.compiler.answers import evaluate as evaluate_on_spark
        from mrql.runtime.spark.compiler.loop_checkpoints import passing
        from mrql.runtime.spark.io.answer import SparkRows

        self.span = query.span
        term = self.stores.used(query.term)
        with self._over(term) as frames, passing() as kept:
            answer = evaluate_on_spark(self.spark, normal_form(term), frames, kept)
            return use(SparkRows(answer, query.type))

    @contextmanager
    def _over(self, term: Term) -> Iterator[dict[str, Frame]]:
        """The data that a term reads. In the block, errors in it have their place, and the session has the settings
        that the semantics of terms require."""
        from mrql.runtime.spark.io.readers import find_malformed, read_net
        from mrql.runtime.spark.session.errors import translated
        from mrql.runtime.spark.session.session import BATCH_SETTINGS, settings

        specs = sources_of(self.program, term)
        self.looked_at.look(specs)
        from_files = [spec for spec in specs.values() if spec.lies_in_files]
        files = [(part, static_files(part)) for spec in from_files for part, _ in spec.directories]
        source = None if self.span is None else self.span.source
        wanted = settings(self.spark, BATCH_SETTINGS)
        with wanted, translated(source, lambda: find_malformed(files)), naming_files(specs):
            yield {**self.tables, **{name: read_net(self.spark, spec, self.quarantine) for name, spec in specs.items()}}

    def _keep(self, name: str, term: Term) -> Term:
        from mrql.runtime.spark.compiler.compiler import RelationCompiler
        from mrql.runtime.spark.compiler.loops import computed_once

        with self._over(term) as frames:
            found = computed_once(name, normal_form(term), RelationCompiler(self.spark, frames), self.kept)
        if isinstance(found, Lit):
            return found
        table = _table(name, term.type)
        self.tables[table.name] = found
        return table
