"""JSON documents, taken apart."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrql.algebra.values.json_text import NotJson, elements

VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('a"\\\n]},[ ', max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
)


@given(st.lists(VALUE, max_size=4) | st.dictionaries(st.just("a"), VALUE), st.sampled_from([None, 0, 2]))
def test_a_document(value: object, indent: int | None) -> None:
    """The elements of an array, or the object, each with its text."""
    text = f" \n{json.dumps(value, indent=indent)}\r\n"
    found = elements(text)
    assert [element for _, _, element in found] == (value if isinstance(value, list) else [value])
    assert all(json.loads(text[start:end]) == element for start, end, element in found)


@given(st.text('[]{}:,1" ', max_size=8))
def test_what_is_a_document(text: str) -> None:
    """A document is an array or an object among blanks, or blanks alone; other texts are refused."""
    try:
        is_one = isinstance(json.loads(text), list | dict) if text.strip() else True
    except ValueError:
        is_one = False
    if is_one:
        elements(text)
    else:
        with pytest.raises(NotJson) as raised:
            elements(text)
        assert 0 <= raised.value.at <= len(text)


@pytest.mark.parametrize(("levels", "is_read"), [(999, True), (1000, False), (100_000, False)])
def test_what_is_nested(levels: int, is_read: bool) -> None:
    """A document may have 999 levels of arrays or objects."""
    for text in ("[" * levels + "]" * levels, '{"a":' * levels + "1" + "}" * levels):
        if is_read:
            elements(text)
        else:
            with pytest.raises(NotJson, match="nested too deeply"):
                elements(text)
