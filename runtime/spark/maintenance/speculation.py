"""Planning ahead: a step is planned before it is known whether it is taken, and given up if it is not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import copy
from typing import Any

import attrs


def as_now(objects: Iterable[Any]) -> Callable[[], None]:
    """What makes some objects again what they are now: each has the fields that it has, and what is in them where that
    is a list, a dict or a set.

    >>> @attrs.define
    ... class Some:
    ...     of: list[int]
    >>> some = Some([1]); go_back = as_now([some])
    >>> some.of.append(2); other = some.of; some.of = []
    >>> go_back(); some.of, other is some.of
    ([1], True)
    """
    known = [(each, field.name, getattr(each, field.name)) for each in objects for field in attrs.fields(type(each))]
    held = [(value, copy(value)) for _, _, value in known if isinstance(value, list | dict | set)]

    def go_back() -> None:
        for each, name, value in known:
            setattr(each, name, value)
        for value, content in held:
            value.clear()
            value.extend(content) if isinstance(value, list) else value.update(content)

    return go_back
