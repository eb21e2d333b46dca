"""A session: what has been defined so far, and what an input means after it. It prints nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from mrql import syntax
from mrql.algebra.terms import LOOP_MAX_STEPS
from mrql.algebra.values.values import Value
from mrql.explain import explain_summary
from mrql.jobs.batch import BatchJob, ReferenceBatchJob
from mrql.jobs.planning import plan_options
from mrql.output.tables import type_name
from mrql.parser.includes import text_of
from mrql.parser.parser import parse_expression_at, parse_program, parse_program_at
from mrql.rewrite.pipeline import plan_query
from mrql.runtime.files.quarantine import Quarantine
from mrql.shell.definitions import Definitions
from mrql.shell.statement_reader import Transcript, without_semicolon
from mrql.translate.coercion import resolve
from mrql.translate.program import CompiledExpression, Program
from mrql.translate.scope import Globals


@attrs.define
class Session:
    """A session, which is given statements one input after the other.

    Expressions are evaluated by the job that `new_job` makes for the session's program, in which later definitions
    appear.
    """

    base: Path = attrs.field(factory=Path)
    args: Sequence[str] = ()
    max_steps: int = LOOP_MAX_STEPS
    new_job: Callable[[Program], BatchJob] = ReferenceBatchJob
    quarantine: Quarantine | None = None
    may_import: bool = True
    trusted: bool = False
    """Whether deletions are trusted in plans that are explained: nothing is kept to look them up."""
    definitions: Definitions = attrs.field(init=False)
    transcript: Transcript = attrs.field(init=False, factory=lambda: Transcript("<shell>"))
    _job: BatchJob | None = attrs.field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.definitions = Definitions(self.base, self.args, self.max_steps, may_import=self.may_import)

    def define(self, text: str) -> tuple[CompiledExpression, ...]:
        """Defines what an input defines, and returns its expressions, which are still to be answered.

        Raises: UserError where something in it is wrong; then nothing of it is defined.
        """
        source, begin = self.transcript.add(text)
        return self.definitions.add(lambda: parse_program_at(source, begin))

    def load(self, path: Path) -> tuple[CompiledExpression, ...]:
        """Defines what a file defines, as one input, and returns its expressions.

        Raises: UserError where it cannot be read, or something in it is wrong.
        """
        text = text_of(path)
        return self.definitions.add(lambda: parse_program(text, str(path), included=True))

    def answer(self, query: CompiledExpression) -> Value:
        """The value of an expression.

        Raises: MrqlError where the data or the engine give none.
        """
        return self._started().answer(query)

    def write(self, query: CompiledExpression) -> None:
        """Writes the value of an expression to its target.

        Raises: MrqlError where the data or the engine give none, or it cannot be written.
        """
        self._started().write(query)

    def type_of(self, text: str, begin: int = 0) -> str:
        """The type of the expression that an input has from an offset on; of a function, its signature.

        Raises: UserError where the expression is wrong.
        """
        function = self.definitions.globals.functions.get(without_semicolon(text[begin:]).strip())
        if function is not None:
            return _signature(function, self.definitions.globals)
        with self.definitions.unchanged():
            return type_name(self._expression(text, begin).type)

    def explain(self, text: str, begin: int = 0, width: int = 100) -> str:
        """What is kept of the expression that an input has from an offset on, and what a batch costs, on one screen.

        Raises: UserError where the expression is wrong.
        """
        with self.definitions.unchanged():
            query = self._expression(text, begin)
            program = self.definitions.so_far
        return explain_summary(plan_query(query.term, plan_options(program, trusted=self.trusted)), width)

    def close(self) -> None:
        """Frees what the job of the session keeps."""
        if self._job is not None:
            self._job.close()

    def _expression(self, text: str, begin: int) -> CompiledExpression:
        source, start = self.transcript.add(without_semicolon(text))
        return self.definitions.query(lambda: parse_expression_at(source, start + begin))

    def _started(self) -> BatchJob:
        if self._job is None:
            self._job = self.new_job(self.definitions.so_far)
        return self._job


def _signature(function: syntax.FunctionDef, known: Globals) -> str:
    """`f(x: long): double`."""
    params = (f"{name}: {type_name(resolve(t, known))}" for name, t in function.params)
    return f"{function.name}({', '.join(params)}): {type_name(resolve(function.result, known))}"
