"""Names from SQL, Spark or Python, and what a hint suggests instead of them."""

from __future__ import annotations

import re

import pytest

from mrql.parser.parser import parse_type
from mrql.translate.builtin_aggregates import AGGREGATIONS
from mrql.translate.coercion import BASIC, SYNONYMS
from mrql.translate.collection_functions import DERIVED
from mrql.translate.library import LIBRARY
from mrql.translate.other_names import HERE, NAMES_HERE, TYPES_HERE

KNOWN = {*AGGREGATIONS, *DERIVED, *LIBRARY, "distinct", "trace", "source"}


@pytest.mark.parametrize("name", HERE)
def test_what_is_advised_is_there(name: str) -> None:
    """A name from elsewhere is not one of the language, and its hint calls only functions that are."""
    assert name not in KNOWN
    text = re.sub(r"\baggregation \w+|\bas \w+", "", HERE[name])
    assert set(re.findall(r"(\w+)\(", text)) <= KNOWN


@pytest.mark.parametrize("name", NAMES_HERE)
def test_what_is_advised_of_a_value_is_there(name: str) -> None:
    """The hint for the name of a value from elsewhere calls only known functions."""
    assert set(re.findall(r"(\w+)\(", NAMES_HERE[name])) <= KNOWN


@pytest.mark.parametrize("name", TYPES_HERE)
def test_what_is_advised_of_a_type_is_there(name: str) -> None:
    """A type name from elsewhere is not one of the language, and its hint names only types that parse."""
    assert name not in {**BASIC, **SYNONYMS}
    advised = [text for text in re.findall("`([^`]+)`", TYPES_HERE[name]) if not text.startswith("m[")]
    assert advised
    for text in advised:
        parse_type(text)
