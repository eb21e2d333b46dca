"""Texts with places where they may be broken, laid out to fit a width (Wadler, *A prettier printer*)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, assert_never

import attrs


@attrs.frozen
class Line:
    """A place where the text may be broken; `flat` stands there when it is not."""

    flat: str = " "


@attrs.frozen
class Nest:
    """Breaks inside are indented by one step more."""

    doc: Doc


@attrs.frozen
class Group:
    """All breaks that are directly inside are taken, or none."""

    doc: Doc


Doc: TypeAlias = str | Line | Nest | Group | tuple["Doc", ...]
_Stack: TypeAlias = list[tuple[int, bool, Doc]]
_STEP = 2


def render(doc: Doc, width: int, indent: int) -> str:
    """The text of a layout: a group stays on its line when it fits, as in Wadler's *A prettier printer*."""
    out: list[str] = []
    column = indent
    stack: _Stack = [(indent, False, doc)]
    while stack:
        margin, flat, current = stack.pop()
        match current:
            case str():
                out.append(current)
                column += len(current)
            case Line(text) if flat:
                out.append(text)
                column += len(text)
            case Line():
                out.append("\n" + " " * margin)
                column = margin
            case Nest(inner):
                stack.append((margin + _STEP, flat, inner))
            case Group(inner):
                stack.append((margin, flat or _fits(width - column, inner, stack), inner))
            case tuple():
                stack.extend((margin, flat, part) for part in reversed(current))
            case _:
                assert_never(current)
    return "".join(out)


def _fits(room: int, doc: Doc, rest: _Stack) -> bool:
    """Whether `doc` on one line, with what follows up to the next break, takes at most `room` characters."""
    todo: list[tuple[bool, Doc]] = [(True, doc)]
    following = len(rest)
    while room >= 0:
        if not todo:
            if following == 0:
                return True
            following -= 1
            _, flat, current = rest[following]
        else:
            flat, current = todo.pop()
        match current:
            case str():
                room -= len(current)
            case Line(text):
                if not flat:
                    return True
                room -= len(text)
            case Nest(inner) | Group(inner):
                todo.append((flat, inner))
            case tuple():
                todo.extend((flat, part) for part in reversed(current))
            case _:
                assert_never(current)
    return False


def _joined(items: Sequence[Doc]) -> Doc:
    """`a, b, c`, broken after the commas."""
    parts: list[Doc] = []
    for item in items:
        parts += [",", Line(), item] if parts else [item]
    return tuple(parts)


def block(opening: str, items: Sequence[Doc], closing: str) -> Doc:
    """Items between brackets, on lines of their own when they do not fit."""
    if not items:
        return opening + closing
    return Group((opening, Nest((Line(""), _joined(items))), Line(""), closing))


def filled(opening: str, items: Sequence[Doc], closing: str) -> Doc:
    """Items between brackets, as many to a line as fit."""
    parts: list[Doc] = []
    for item in items:
        parts += [",", Group((Line(), item))] if parts else [item]
    return (opening, Nest(tuple(parts)), closing)
