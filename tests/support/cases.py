"""Queries with their values, in text files: `tests/language/*.case`.

A file begins with the streams that its queries may read, and their rows; then come the cases. Each entry begins with a
sign for its kind, and continues in indented lines:

    # a remark
    stream S: {(long, long)} = {(1, 2), (3, null)}

    > select x from (x, y) in S
    = {1, 3}
    : bag(long)

    > 1 in 2
    ! 1:1 `in` takes a collection on its right, not int
    ? a hint

`>` is a program, of which the last expression counts. `=` is its value, written in the language; `:` its type, which
may be left out. `!` is the error instead, with line and column, word for word; `?` is its hint, if any, and `+` the
program that follows the hint, which has a value. An error that depends on the data is one of both engines.

Every case is run in the reference evaluator and on Spark; one that reads streams, also incrementally.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path

import attrs

from mrql.algebra import types as ty
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.functions import convert
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.types import Type
from mrql.algebra.values.data import Data, Element
from mrql.algebra.values.values import Bag, Document, Value
from mrql.runtime.sources.catalog import CATALOG
from mrql.translate.compile_program import compile_program
from mrql.translate.program import CompiledExpression

DIRECTORY = Path(__file__).parent.parent / "language"
CLASSES = {ty.Kind.ANY: Document, ty.Kind.XML: Element, ty.Kind.DATA: Data}
"""The class of each kind of document: each is shown, ordered and stored in its own way."""
SIGNS = {">": "query", "=": "value", ":": "type", "!": "error", "?": "hint", "+": "instead"}


@attrs.frozen
class Case:
    """A program with its value, or with its error."""

    file: str
    line: int
    query: str
    streams: Mapping[str, Type]
    data: Mapping[str, Bag]
    value: str | None = None
    type: str | None = None
    error: str | None = None
    hint: str | None = None
    instead: str | None = None

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line}"

    @cached_property
    def compiled(self) -> CompiledExpression:
        """The last expression of the program, compiled once for all tests of a process.

        Raises: UserError if the program has an error.
        """
        return compile_program(self.query, "query", self.streams, catalog=CATALOG).queries[-1]

    def mended(self) -> CompiledExpression:
        """The program that follows the hint."""
        assert self.instead is not None
        return compile_program(self.instead, "query", self.streams, catalog=CATALOG).queries[-1]

    def expected(self, t: Type) -> Value:
        """The expected value, as a value of a type."""
        assert self.value is not None
        return literal(self.value, t)

    @property
    def reads(self) -> tuple[str, ...]:
        """The streams that the program names."""
        return tuple(name for name in self.streams if re.search(rf"\b{name}\b", self.query))


@cache
def literal(text: str, t: Type) -> Value:
    """A value of a type, written as an expression of the language."""
    return convert(evaluate(compile_program(text, text).queries[-1].term), t)


def documents(value: Value, t: Type) -> Iterator[tuple[Document, ty.Basic]]:
    """The documents in a value of a type, each with its own type."""
    match t:
        case _ if value is None:
            return
        case ty.TupleType(items):
            parts = zip(value, items, strict=True)
        case ty.RecordType(fields):
            parts = ((value[name], item) for name, item in fields)
        case ty.BagType(item) | ty.ListType(item):
            parts = ((part, item) for part in value)
        case ty.Basic(ty.Kind.ANY | ty.Kind.XML | ty.Kind.DATA):
            yield value, t
            return
        case _:
            return
    for part, item in parts:
        yield from documents(part, item)


@cache
def cases() -> tuple[Case, ...]:
    """The cases of all files, in their order."""
    return tuple(case for path in sorted(DIRECTORY.glob("*.case")) for case in cases_of(path))


def cases_of(path: Path) -> Iterator[Case]:
    """The cases of one file.

    Raises: ValueError at a line that does not belong in one.
    """
    streams: dict[str, Type] = {}
    data: dict[str, Bag] = {}
    case: dict[str, str] = {}
    start = 0
    for number, sign, text in [*_entries(path), (0, ">", "")]:
        if sign == "stream":
            name, t, rows = re.fullmatch(r"(\w+):(.*?)\s=\s(.*)", text, re.DOTALL).groups()  # type: ignore[union-attr]
            streams[name] = parse_type(t.strip())
            data[name] = literal(rows, streams[name])
            continue
        if sign == ">" and case:
            if not case.keys() & {"value", "error"}:
                raise ValueError(f"{path}:{start}: a case without an outcome")
            yield Case(path.stem, start, streams=dict(streams), data=dict(data), **case)  # type: ignore[arg-type]
            case = {}
        if sign == ">":
            start = number
        case[SIGNS[sign]] = text


def _entries(path: Path) -> Iterator[tuple[int, str, str]]:
    """The entries of a file: the number of their first line, their sign and their text."""
    number, sign, lines = 0, "", [""]
    for n, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line.startswith("  ") and sign:
            lines.append(line[2:])
            continue
        if sign:
            yield number, sign, "\n".join(lines)
        sign = ""
        if line and not line.startswith("#"):
            sign, _, text = line.partition(" ")
            if sign not in {*SIGNS, "stream"}:
                raise ValueError(f"{path}:{n}: {line!r} begins with none of {', '.join(SIGNS)} and `stream`")
            number, lines = n, [text]
    if sign:
        yield number, sign, "\n".join(lines)
