"""XML: the elements with certain tags are the rows, wherever in a file they stand.

An element inside another one with the same tag belongs to that one, and is not a row of its own. A file is well formed
or malformed as a whole: what follows a fault cannot be trusted. A document's own entities are refused, declared or not,
and so are defaults of attributes, and a text with a comment or an instruction in it: Spark's reader sees each element
by itself, without the declarations, and would keep only the first piece of such a text.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from mmap import mmap
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import Always, SourceSpec
from mrql.algebra.values.data import Element
from mrql.algebra.values.values import Value
from mrql.algebra.values.xml_elements import BLANKS, node_json, text_json
from mrql.runtime.files.compression import mapped, opened
from mrql.runtime.files.quarantine import Malformed, Reject
from mrql.runtime.sources.formats.file_format import FileFormat, once


def read_xml(spec: SourceSpec, file: Path, reject: Reject) -> Iterator[Value]:
    """The elements of a file that are rows, those of the first tag first; none of a file that is malformed."""
    rows = _Rows(spec.tags)
    fault = _parse(file, rows)
    if fault is not None:
        reject(fault)
        return
    for tag in spec.tags:
        yield from rows.found[tag]


def check_xml(spec: SourceSpec, file: Path) -> Malformed | None:
    """What is wrong with a file, if anything."""
    return _parse(file, None)


def count_elements(spec: SourceSpec, file: Path) -> int:
    """The number of rows in a file."""
    counter = _Rows(spec.tags, values=False)
    return 1 if _parse(file, counter) is not None else sum(counter.number.values())


def is_cut_by_rows(spec: SourceSpec, file: Path) -> bool:
    """Whether a well-formed file can be cut where rows end: each end tag of the rows is written without blanks and ends
    a row, and none is in a comment or the like."""
    with mapped(file) as text:
        return all(_is_cut_by(tag, text) for tag in spec.tags)


def _is_cut_by(tag: str, text: bytes | mmap) -> bool:
    name, end = re.escape(tag).encode(), f"</{tag}>".encode()
    start = rb"<%b(?=[\s/>])[^>\"']*+(?:(?:\"[^\"]*+\"|'[^']*+')[^>\"']*+)*+>" % name
    aside = rb"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>"
    is_open = False
    for token in re.finditer(b"|".join((aside, start, rb"</%b\s*>" % name)), text, re.DOTALL):
        found = token[0]
        if found[1:2] in b"!?":
            if end in found:
                return False
        elif found[1:2] == b"/":
            if found != end:
                return False
            is_open = False
        elif is_open:
            return False
        else:
            is_open = not found.endswith(b"/>")
    return True


class Refused(Exception):
    """The document contains something that is not read."""


NESTED_MAX_ELEMENTS = 330
"""The most elements inside each other: as JSON, each is three levels, whose number is limited
(`functions.recursive_data.DATA_MAX_LEVELS`)."""
INTERRUPTED = "a comment or an instruction inside a text, which is not read"


def _parse(file: Path, rows: _Rows | None) -> Malformed | None:
    if (fault := _in_utf16(file)) is not None:
        return fault
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.ordered_attributes = True
    parser.EntityDeclHandler = _refuse
    parser.SkippedEntityHandler = _refuse_unknown
    parser.AttlistDeclHandler = _refuse_attributes
    (rows or _Rows((), values=False)).attach(parser)
    parser.XmlDeclHandler = _refuse_encoding
    parser.StartDoctypeDeclHandler = lambda *_: _look_at_tags(parser)
    with opened(file) as stream:
        try:
            parser.ParseFile(stream)
        except expat.ExpatError as error:
            reason = f"not well-formed XML: {expat.errors.messages[error.code]}"
            return Malformed(file, error.lineno, reason, _line(file, error.lineno))
        except (Refused, LookupError, ValueError) as refused:
            # The last two are raised for an unknown encoding, or one with several bytes per character.
            line = parser.CurrentLineNumber
            return Malformed(file, line, str(refused), _line(file, line))
    return None


ENCODINGS = ("UTF-8", "US-ASCII", "ASCII")


def _refuse_encoding(version: str, encoding: str | None, _: int) -> None:
    if encoding is not None and encoding.upper() not in ENCODINGS:
        raise Refused(_encoded(encoding))


def _encoded(encoding: str) -> str:
    return f"the file is written in {encoding}, and only UTF-8 is read"


def _in_utf16(file: Path) -> Malformed | None:
    with opened(file) as stream:
        beginning = stream.read(4)
    is_found = beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in beginning
    return Malformed(file, 1, _encoded("UTF-16"), _line(file, 1)) if is_found else None


def _refuse(*_: object) -> None:
    raise Refused("an entity is declared, which is not read")


def _refuse_unknown(name: str, _: bool) -> None:
    raise Refused(f"the entity `{name}` is not declared here, and no other file is read")


def _refuse_attributes(element: str, name: str, kind: str, default: str | None, _: bool) -> None:
    if default is not None:
        raise Refused(f"the attribute `{name}` of `{element}` has a default, which is not read")
    if kind != "CDATA":
        # The blanks in such an attribute differ from those in the file.
        raise Refused(f"the attribute `{name}` of `{element}` is of type {kind}, which is not read")


_REFERENCE = re.compile(rb"&(?!(?:lt|gt|amp|apos|quot|#[0-9]+|#x[0-9a-fA-F]+);)")


def _look_at_tags(parser: expat.XMLParserType) -> None:
    """Refuses entities in attributes from here on: where declarations may be in another file, expat drops such entities
    silently."""
    start: Any = parser.StartElementHandler

    def looking(tag: str, attributes: Any) -> None:
        context = parser.GetInputContext()
        # Other encodings have null bytes between the characters.
        if attributes and context is not None and _REFERENCE.search(_start_tag(context.replace(b"\0", b""))):
            raise Refused("an entity in an attribute, which is not declared here")
        start(tag, attributes)

    parser.StartElementHandler = looking


def _start_tag(context: bytes) -> bytes:
    """The tag at the beginning of a text; a `>` in quotes does not end it."""
    found = _TAG.match(context)
    return b"" if found is None else found[0]


_TAG = re.compile(rb"<(?:[^>\"']|\"[^\"]*\"|'[^']*')*>")


def _line(file: Path, number: int) -> str:
    with opened(file) as stream:
        return _nth(stream, number).decode("utf-8", errors="replace").rstrip("\r\n")


def _nth(stream: IO[bytes], number: int) -> bytes:
    return next((line for n, line in enumerate(stream, start=1) if n == number), b"")


@attrs.define
class _Element:
    """An open element, as far as it has been seen."""

    tag: str
    attributes: list[tuple[str, str]]
    children: list[str] = attrs.Factory(list)
    """Its children, as texts in JSON."""
    pieces: list[str] = attrs.Factory(list)
    """The pieces of the current text seen so far."""

    def end_text(self) -> None:
        """Adds the text to the children, unless it is blank."""
        text = "".join(self.pieces)
        if text.strip(BLANKS):
            self.children.append(text_json(text))
        self.pieces = []

    def json(self) -> str:
        self.end_text()
        return node_json(self.tag, self.attributes, self.children)


@attrs.define
class _Rows:
    """Collects the elements with some tags while a file is parsed."""

    tags: tuple[str, ...]
    values: bool = True
    found: dict[str, list[Element]] = attrs.Factory(dict)
    number: dict[str, int] = attrs.Factory(dict)
    opened: list[_Element] = attrs.Factory(list)
    inside: dict[str, int] = attrs.Factory(dict)
    """The number of open elements with each tag."""
    piece: bool = False
    """Whether the last thing seen was a text, or something that interrupts one."""
    interrupted: bool = False
    depth: int = 0

    def attach(self, parser: expat.XMLParserType) -> None:
        self.found = {tag: [] for tag in self.tags}
        self.number = dict.fromkeys(self.tags, 0)
        self.inside = dict.fromkeys(self.tags, 0)
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.CharacterDataHandler = self.text
        parser.CommentHandler = self.interrupt
        parser.ProcessingInstructionHandler = self.interrupt

    def start(self, tag: str, attributes: list[str]) -> None:
        self.piece = self.interrupted = False
        self.depth += 1
        if self.depth > NESTED_MAX_ELEMENTS:
            raise Refused(f"nested too deeply: more than {NESTED_MAX_ELEMENTS} elements inside each other")
        if tag in self.inside:
            self.inside[tag] += 1
        if any(self.inside.values()):
            if self.opened:
                self.opened[-1].end_text()
            self.opened.append(_Element(tag, [*zip(attributes[::2], attributes[1::2], strict=True)]))

    def end(self, tag: str) -> None:
        self.piece = self.interrupted = False
        self.depth -= 1
        if not self.opened:
            return
        element = self.opened.pop().json() if self.values else ""
        if self.opened and self.values:
            self.opened[-1].children.append(element)
        if tag in self.inside:
            self.inside[tag] -= 1
            if self.inside[tag] == 0:
                self.number[tag] += 1
                if self.values:
                    self.found[tag].append(Element(element))

    def text(self, data: str) -> None:
        if data.strip(BLANKS):
            if self.interrupted:
                raise Refused(INTERRUPTED)
            self.piece = True
        if self.opened and self.values:
            self.opened[-1].pieces.append(data)

    def interrupt(self, *_: object) -> None:
        """Handles a comment or an instruction. Before calling this, expat passes on the text that it has buffered."""
        self.interrupted = self.piece


XML = FileFormat(
    "xml",
    Always(ty.XML, "XML elements"),
    takes=frozenset({"tags", "xpath"}),
    read=once(read_xml),
    check=check_xml,
    count=count_elements,
)
