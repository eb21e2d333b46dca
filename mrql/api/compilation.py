"""Compiles the text of a program, or a term, to a query over DataFrames."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.build import Expr
from mrql.algebra.catalog import SourceSpec, item_type
from mrql.algebra.errors import UserError
from mrql.algebra.notation.printer import show
from mrql.algebra.notation.typecheck import first_fault
from mrql.algebra.span import Source, Span
from mrql.algebra.terms import LOOP_MAX_STEPS, Stream, Term
from mrql.algebra.types import ListType, Type
from mrql.api.arguments import kind_of, session_of
from mrql.api.frames import CatalogTable, Rows, is_in_python
from mrql.api.query import Query, with_static
from mrql.api.sources import CALLED, FollowedSource
from mrql.runtime.sources.catalog import CATALOG
from mrql.translate.compile_program import compile_program, compile_type
from mrql.translate.program import CompiledExpression

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def compile(
    text: str | Expr | Term = "",
    name: str = "<query>",
    /,
    *,
    max_steps: int = LOOP_MAX_STEPS,
    **streams: str | Type | StructType | CatalogTable | FollowedSource | Rows,
) -> Query:
    """Compiles a query: the text of a program with one expression, or a term built with `mrql.algebra.build`.

    Each keyword names a stream and gives the type of its bag, as text (`"bag(<X: long>)"`) or as a type. Instead, it
    may give the schema of the rows: a StructType, DDL (`"X BIGINT, Y DOUBLE"`, for which Spark is started), or a
    DataFrame of Spark or pandas or a table of Arrow, of which only the schema is used. `mrql.table` stands for a static
    table of the session's catalog. A source for a view to follow, such as `mrql.delta_table`, gives its own type. The
    text may also declare a stream, `stream(spark, "name", type(…))`, or a table, `source(table, "name")`. A term names
    its streams itself. A loop in the text that has no limit may take `max_steps` steps. Errors call the text `name`;
    if that is a path, files that the text includes or imports are looked for beside it.

    Raises: UserError when the text is wrong, with the place, or when the term is wrong; EngineError when Spark cannot
        be started to read DDL, or a source cannot be reached for the type of its rows.
    """
    if isinstance(text, Expr | Term):
        return _of_term(text.term if isinstance(text, Expr) else text, name, streams)
    if not isinstance(text, str):
        raise UserError(f"a query is a text, not {kind_of(text)}")
    if not text:
        raise UserError("a query is a text, which comes first and has no name", hint=_FOR_EXAMPLE)
    if not isinstance(name, str):
        raise UserError(f"the name of a query is a text, not {kind_of(name)}")
    if not isinstance(max_steps, int) or isinstance(max_steps, bool) or max_steps < 1:
        raise UserError(f"max_steps is a number of steps, 1 or more, not {max_steps!r}")
    types = {stream: _bag_type(stream, t) for stream, t in streams.items()}
    tables = {stream: t.name for stream, t in streams.items() if isinstance(t, CatalogTable)}
    program = compile_program(
        text, name, types, max_steps=max_steps, catalog=CATALOG, row_of=lambda spec: _row_handed_over(spec, types)
    )
    if not program.queries:
        raise UserError(f"{name} has no expression to answer", hint=_FOR_EXAMPLE)
    query, *others = program.queries
    if others:
        hint = "name what another one uses, `big = select …;`, or compile each by itself"
        raise UserError("a compiled query is one expression, and this is another one", others[0].span, hint)
    if query.target is not None:
        raise UserError("a query over DataFrames writes no files", query.target.span)
    for source, spec in program.sources.items():
        _must_be_handed_over(spec)
        if types.setdefault(source, spec.type) != spec.type:
            message = f"the stream `{source}` is {spec.type} in the text, and is given as {types[source]}"
            raise UserError(message, spec.span, "one of them is enough")
        if not spec.stream:
            tables[source] = spec.path
    consistent = frozenset(stream for stream, t in streams.items() if isinstance(t, FollowedSource))
    return Query(attrs.evolve(query, term=with_static(query.term, frozenset(tables))), types, tables, consistent)


_FOR_EXAMPLE = 'mrql.compile("select x from x in S", S=df)'


def _must_be_handed_over(spec: SourceSpec) -> None:
    """Raises: UserError for a source that a program does not hand over: a command would read it."""
    if not spec.format.handed_over:
        raise UserError("a query over DataFrames names its streams and reads nothing", spec.span, _instead(spec))


def _instead(spec: SourceSpec) -> str:
    """A hint: what to write instead of a source that a command would read."""
    name = "orders" if spec.name == spec.adapter else spec.name
    if not spec.stream:
        return f'`source(table, "{name}")`, say'
    declared = f'`{name} = stream(spark, "{name}", type(<id: long>))`, say'
    if spec.adapter in CALLED:
        lacking = f", and there is no directory {spec.path}" if spec.versioned and not Path(spec.path).is_dir() else ""
        return f"{declared}; `view.follow({name}={CALLED[spec.adapter]}(…))` follows it{lacking}"
    if spec.adapter is not None:
        return f"{declared}, and a program gives a view its changes; `mrql stream` reads it by itself"
    return f"{declared}; `spark.read` or `spark.readStream` has what to give it"


def _row_handed_over(spec: SourceSpec, types: Mapping[str, Type]) -> Type:
    """The type of the rows of a source that the program hands over and whose text gives no type.

    Raises: UserError if the program does not give the type either.
    """
    _must_be_handed_over(spec)
    if not spec.stream:
        return _row_of_table(spec.path)
    if spec.name not in types:
        hint = f"add type(<id: long>), say, or `mrql.compile(…, {spec.name}=df)`"
        raise UserError("the type of the rows is not given", spec.span, hint)
    return item_type(types[spec.name])


def _row_of_table(name: str) -> Type:
    """The type of the rows of a table of the session's catalog.

    Raises: UserError if there is no table of that name.
    """
    from mrql.runtime.spark.io.schema import row_of_schema
    from mrql.runtime.spark.session.catalog import table_of

    return row_of_schema(table_of(session_of(None), name).schema, f"the table `{name}`")


def _of_term(term: Term, name: str, streams: Mapping[str, object]) -> Query:
    if streams:
        raise UserError("a term names its streams itself", hint=f"leave out {', '.join(streams)}")
    fault = first_fault(term)
    if fault is not None:
        raise UserError(fault.message, fault.term.span)
    text = show(term)
    read = {part.name: part.type for part in subterms(term) if isinstance(part, Stream)}
    return Query(CompiledExpression(term, Span(Source(name, text), 0, len(text))), read)


def _bag_type(stream: str, t: str | Type | StructType | CatalogTable | FollowedSource | Rows) -> Type:
    if isinstance(t, FollowedSource):
        return ty.BagType(t.row_type())
    if isinstance(t, CatalogTable):
        return ty.BagType(_row_of_table(t.name))
    if isinstance(t, str) and _DDL.match(t):
        return _bag_of_schema(stream, t)
    if not isinstance(t, str | Type):
        return _bag_of_schema(stream, t)
    resolved = _type_of_text(stream, t) if isinstance(t, str) else t
    if not isinstance(resolved, ty.BagType):
        row = resolved.item if isinstance(resolved, ListType) else resolved
        raise UserError(f"the stream `{stream}` must be a bag, not {resolved}", hint=f"bag({row})")
    return resolved


def _type_of_text(stream: str, text: str) -> Type:
    """The type that a text denotes.

    Raises: UserError if it denotes none; for a text that may be the name of a table, the hint mentions `mrql.table`.
    """
    try:
        return compile_type(text, f"<type of {stream}>")
    except UserError as error:
        if _TABLE.fullmatch(text) is None:
            raise
        hint = f'a table of the session\'s catalog is {stream}=mrql.table("{text}")'
        if error.hint is not None:
            hint = f"{error.hint}; {hint}"
        raise UserError(error.message, error.span, hint) from None


_TABLE = re.compile(r"(?:`(?:[^`]|``)+`|\w+)(?:\.(?:`(?:[^`]|``)+`|\w+))*")
"""The name of a table, which may be qualified by catalog and schema."""
_DDL = re.compile(r"\s*(?:struct\s*<|(?:`(?:[^`]|``)+`|\w+)(?:\s*:\s*|\s+)\w)", re.IGNORECASE)
"""The start of a schema in DDL, `struct<` or a name and a type: no type of the language starts like this."""


def _bag_of_schema(stream: str, t: object) -> ty.BagType:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from mrql.runtime.spark.io.arrow_frames import spark_schema
    from mrql.runtime.spark.io.schema import row_of_schema, schema_of_ddl

    match t:
        case str():
            schema = schema_of_ddl(t, f"the stream `{stream}`", session_of(None))
        case StructType():
            schema = t
        case DataFrame():
            schema = t.schema
        case _ if is_in_python(t):
            schema = spark_schema(t, f"`{stream}`")
        case _:
            what = "a text, a type, a StructType or a DataFrame"
            hint = f'`mrql.compile(…, {stream}="bag(<X: long>)")`, or {stream}="X BIGINT"'
            raise UserError(f"the type of the stream `{stream}` is {what}, not {kind_of(t)}", hint=hint)
    return ty.BagType(row_of_schema(schema, f"`{stream}`"))
