"""The definitions of a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from mrql import syntax
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import all_names
from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.algebra.stack import deep
from mrql.algebra.terms import Stream
from mrql.parser.includes import Includes
from mrql.runtime.sources.catalog import CATALOG
from mrql.runtime.sources.files import row_type
from mrql.translate.program import CompiledExpression, Program
from mrql.translate.scope import Scope
from mrql.translate.statements import ProgramTranslator

T = TypeVar("T")


class Definitions(ProgramTranslator):
    """The names of a session. Each input is one unit: where something in it is in error, nothing of it is defined.

    A name may be defined again. Later inputs refer to the new definition; a value that was made of the old one stays
    what it was, while functions and macros look their names up where they are called.
    """

    def __init__(self, base: Path, args: Sequence[str], max_steps: int, *, may_import: bool = True) -> None:
        super().__init__({}, base, args, max_steps, may_import=may_import, row_of=row_type, catalog=CATALOG)
        self.so_far = Program((), self.sources, self.stored)
        """The program of all definitions so far, to which later inputs add theirs; it has no expressions."""

    def add(self, parse: Callable[[], syntax.Script]) -> tuple[CompiledExpression, ...]:
        """Defines what a program defines, and returns its expressions.

        Raises: UserError at the first thing that is wrong.
        """
        with self._or_not_at_all():
            self.queries = []
            self.includes = Includes()  # what is included again may have changed

            def defined() -> tuple[CompiledExpression, ...]:
                self._forget_unused()
                return self.program(parse()).queries

            return _guarded(defined)

    def query(self, parse: Callable[[], syntax.Expr]) -> CompiledExpression:
        """An expression by itself.

        Raises: UserError where it is wrong.
        """

        def query() -> CompiledExpression:
            self._forget_unused()
            expr = parse()
            return CompiledExpression(Scope(self.globals).translate(expr), expr.span)

        return _guarded(query)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Takes back, at the end of the block, what was defined in it."""
        tables = self._tables()
        before = [dict(table) for table in tables]
        try:
            yield
        finally:
            _restore(tables, before)

    def statement(self, statement: syntax.Statement) -> None:
        """Processes one statement; the names that it defines replace earlier definitions."""
        if isinstance(statement, syntax.ValueDef) and isinstance(statement.expr, syntax.SourceExpr):
            # A source has the name of its definition, unless an older one is still in use under that name.
            self.globals.values.pop(statement.name, None)
            self._forget_unused()
        tables = self.globals.named
        before = [dict(table) for table in tables]
        super().statement(statement)
        new = [
            {name for name, found in table.items() if found is not old.get(name)}
            for table, old in zip(tables, before, strict=True)
        ]
        for name in set().union(*new):
            # A type and a constructor of it may have the same name.
            self._replaced(name, [table for table, names in zip(tables, new, strict=True) if name not in names])

    def fresh(self, name: str, span: Span) -> None:
        """A session may define a name again."""
        self.globals.hide(name)

    def _replaced(self, name: str, others: Sequence[dict[str, Any]]) -> None:
        """Removes a name from the `others`, the tables in which it was not defined just now."""
        for table in others:
            table.pop(name, None)
        if self.stored.get(name) is not self.globals.values.get(name):
            self.stored.pop(name, None)

    def _tables(self) -> list[dict[Any, Any]]:
        known = self.globals
        foreseen: list[dict[Any, Any]] = [known.calls, known.recursive, known.sources, known.data]
        return [*known.named, *foreseen, known.unions, self.sources, self.stored]

    @contextmanager
    def _or_not_at_all(self) -> Iterator[None]:
        tables = self._tables()
        before = [dict(table) for table in tables]
        try:
            yield
        except BaseException:  # an interrupt, too, leaves nothing half defined
            _restore(tables, before)
            raise

    def _forget_unused(self) -> None:
        """Drops the sources that nothing reads any more, and frees the names of variables that nothing uses."""
        known = self.globals
        terms = [*known.values.values(), *(query.term for query in self.queries)]
        terms += [found.fold.combine.body for found in known.aggregations.values()]
        terms += [source for read in known.sources.values() for source in read]
        used = {part.name for term in terms for part in subterms(term) if isinstance(part, Stream)}
        for name in [name for name in self.sources if name not in used]:
            del self.sources[name]
        known.names.only(name for term in terms for name in all_names(term))


def _restore(tables: Sequence[dict[Any, Any]], contents: Sequence[dict[Any, Any]]) -> None:
    for table, content in zip(tables, contents, strict=True):
        table.clear()
        table.update(content)


def _guarded(work: Callable[[], T]) -> T:
    """The result of `work`, which has room for deeply nested texts.

    Raises: UserError where even that does not suffice.
    """
    try:
        return deep(work)()
    except RecursionError:
        raise UserError("this is nested too deeply") from None
