"""XML literals: the text between `[xml|` and `|]`."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator

import attrs

from mrql import syntax
from mrql.algebra.errors import UserError
from mrql.algebra.span import Source, Span

_NAME = r"[^\W\d][\w.-]*(?::[^\W\d][\w.-]*)?"
_TAG = re.compile(rf"<({_NAME})\s*")
_ATTRIBUTE = re.compile(rf"({_NAME})\s*=\s*")
_QUOTED = re.compile(r"\"([^\"]*)\"|'([^']*)'")
_END = re.compile(rf"</({_NAME})\s*>")
_SKIPPED = re.compile(r"<!--.*?-->", re.DOTALL)
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
_TEXT = re.compile(r"(?:[^<{]|\{(?!\{))+")
_HOLE_PART = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|[{}]", re.DOTALL)
_SPACE = re.compile(r"\s*")


@attrs.define
class OpenElement:
    """An element whose end has not been seen yet."""

    tag: str
    attributes: tuple[tuple[str, syntax.Expr], ...]
    start: int
    children: list[syntax.Expr] = attrs.Factory(list)


class XmlReader:
    """Reads `[xml| … |]`: one element, with expressions in its `{{ }}`.

    `parse_part` parses the expression that stands between two offsets of the source.
    """

    def __init__(self, source: Source, span: Span, parse_part: Callable[[int, int], syntax.Expr]) -> None:
        self._source = source
        self._parse_part = parse_part
        self._text = source.text
        self._span = span
        self._at = self._text.index("|", span.start) + 1
        self._end = span.end - 2
        self._opened: list[OpenElement] = []
        self._root: syntax.Expr | None = None

    def read(self) -> syntax.Expr:
        kind = self._text[self._span.start + 1 : self._at - 1]
        if kind.lower() != "xml":
            raise UserError(f"`[{kind}| … |]` is not known", self._span, "[xml| <tag>{{e}}</tag> |]")
        while self._at < self._end:
            self._step()
        if self._opened:
            last = self._opened[-1]
            raise UserError(f"`<{last.tag}>` is not closed", self._between(last.start), f"</{last.tag}>")
        if self._root is None:
            raise UserError("expected an XML element", self._span, "[xml| <tag>{{e}}</tag> |]")
        return attrs.evolve(self._root, span=self._span)

    def _between(self, start: int) -> Span:
        return Span(self._source, start, min(max(self._at, start + 1), self._end))

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self._text, self._at, self._end)
        if match:
            self._at = match.end()
        return match

    def _step(self) -> None:
        start = self._at
        if self._take(_SKIPPED):
            return
        if found := self._take(_CDATA):
            self._add(syntax.StringLit(found[1], self._between(start)))
        elif found := self._take(_END):
            self._close(found[1], start)
        elif found := self._take(_TAG):
            self._open(found[1], start)
        elif self._text.startswith("{{", start):
            self._add(self._hole())
        elif found := self._take(_TEXT):
            if found[0].strip():
                self._add(syntax.StringLit(html.unescape(found[0]), self._between(start)))
        else:
            raise UserError("expected an XML tag", self._between(start), "write `&lt;` for a `<` in a text")

    def _add(self, expr: syntax.Expr) -> None:
        if self._opened:
            self._opened[-1].children.append(expr)
        elif isinstance(expr, syntax.XmlElement) and self._root is None:
            self._root = expr
        else:
            raise UserError("an XML literal is one element", expr.span, "put everything inside one tag")

    def _open(self, tag: str, start: int) -> None:
        element = OpenElement(tag, tuple(self._attributes()), start)
        self._opened.append(element)
        if self._text.startswith("/>", self._at):
            self._at += 2
            self._finish(start)
        elif self._text.startswith(">", self._at):
            self._at += 1
        else:
            raise UserError(f"expected an attribute, `>` or `/>` in the tag `{tag}`", self._between(self._at))

    def _attributes(self) -> Iterator[tuple[str, syntax.Expr]]:
        while found := self._take(_ATTRIBUTE):
            yield found[1], self._value()
            self._take(_SPACE)

    def _value(self) -> syntax.Expr:
        start = self._at
        if self._text.startswith("{{", start):
            return self._hole()
        if self._text.startswith(('"{{', "'{{"), start):
            self._at += 1
            hole = self._hole()
            if self._text[self._at] != self._text[start]:
                raise UserError("a hole must be the whole value of an attribute", self._between(start))
            self._at += 1
            return hole
        if found := self._take(_QUOTED):
            return syntax.StringLit(html.unescape(found[1] or found[2] or ""), self._between(start))
        raise UserError("expected an attribute's value in quotes", self._between(start))

    def _close(self, tag: str, start: int) -> None:
        if not self._opened or self._opened[-1].tag != tag:
            hint = f"</{self._opened[-1].tag}>" if self._opened else None
            raise UserError(f"`</{tag}>` closes nothing", self._between(start), hint)
        self._finish(self._opened[-1].start)

    def _finish(self, start: int) -> None:
        done = self._opened.pop()
        self._add(syntax.XmlElement(done.tag, done.attributes, tuple(done.children), self._between(start)))

    def _hole(self) -> syntax.Expr:
        start = self._at
        depth = 0
        for part in _HOLE_PART.finditer(self._text, start + 2, self._end):
            if part[0] == "{":
                depth += 1
            elif part[0] == "}" and depth:
                depth -= 1
            elif part[0] == "}" and self._text.startswith("}}", part.start()):
                self._at = part.start() + 2
                return self._parse_part(start + 2, part.start())
        raise UserError("`{{` is not closed", Span(self._source, start, start + 2), "{{ e }}")
