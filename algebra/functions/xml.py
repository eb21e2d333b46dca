"""Functions that take JSON values and XML elements apart, and functions that make elements.

Functions of an element, except `tag`, also apply to a list of elements, and skip the missing ones.
"""

from __future__ import annotations

from mrql.algebra.functions.function import Function, Implementation, version
from mrql.algebra.values import json_values, xml_elements
from mrql.algebra.values.values import Value


def _elements(value: Value) -> list[Value]:
    found = value if isinstance(value, list) else [value]
    return [element for element in found if element is not None]


def _flat(of_one: Implementation) -> Implementation:
    def apply(elements: Value, *more: Value) -> list[Value]:
        return [value for element in _elements(elements) for value in of_one(element, *more)]

    return apply


def _attribute_of_each(elements: Value, name: str) -> list[Value]:
    values = (xml_elements.attribute(element, name) for element in _elements(elements))
    return [value for value in values if value is not None]


def _text_of_all(elements: Value) -> str:
    return " ".join(text for element in _elements(elements) if (text := xml_elements.text(element)))


MEMBER = Function(
    "member",
    (version("any, string -> any", json_values.member, None),),
    "a JSON value and a name",
    "what an object has under a key",
    constants=(1,),
)
CHILDREN = Function(
    "children",
    (
        version("XML, string -> [XML]", _flat(xml_elements.children), None),
        version("[XML], string -> [XML]", _flat(xml_elements.children), None),
    ),
    "elements and a tag",
    "their children with this tag",
    constants=(1,),
)
ALL_CHILDREN = Function(
    "all_children",
    (
        version("XML -> [XML]", _flat(xml_elements.all_children), None),
        version("[XML] -> [XML]", _flat(xml_elements.all_children), None),
    ),
    "elements",
    "their children",
)
ATTRIBUTE = Function(
    "attribute",
    (
        version("XML, string -> string", xml_elements.attribute, None),
        version("[XML], string -> [string]", _attribute_of_each, None),
    ),
    "elements and a name",
    "the value of their attribute",
    constants=(1,),
)
ATTRIBUTES = Function(
    "attributes",
    (
        version("XML -> [string]", _flat(xml_elements.attributes), None),
        version("[XML] -> [string]", _flat(xml_elements.attributes), None),
    ),
    "elements",
    "the values of all their attributes",
)
TEXT_NODE = Function(
    "text_node",
    (version("string -> XML", xml_elements.text_node, None),),
    "a string",
    "a piece of text as a part of an element",
)
ELEMENT = Function(
    "element",
    (version("string, [string], [string], [XML] -> XML", xml_elements.element, None),),
    "a tag, the names and the values of attributes, and parts",
    "the element",
)
TEXT = Function(
    "text",
    (version("XML -> string", xml_elements.text, None), version("[XML] -> string", _text_of_all, None)),
    "an XML element, or a list of them",
    "the text that stands in it, without that of its children; pieces with a blank between them",
    (("text([xml| <a>x<b>y</b>z</a> |])", '"x z"'), ("text([xml| <a/> |])", '""')),
)
TAG = Function(
    "tag",
    (version("XML -> string", xml_elements.tag, None),),
    "an XML element",
    "its name",
    (("tag([xml| <a>x</a> |])", '"a"'),),
)
DOCUMENTS: tuple[Function, ...] = (MEMBER, CHILDREN, ALL_CHILDREN, ATTRIBUTE, ATTRIBUTES, TEXT_NODE, ELEMENT)
"""The functions behind paths and literals, compiled by `runtime.spark.expressions.json_variant` and `xml` beside it."""
ELEMENTS: tuple[Function, ...] = (TEXT, TAG)
