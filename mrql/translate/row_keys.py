"""`key(…)` and `version(…)` of a stream: a row replaces the one with the same key, unless that has a later version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from mrql import syntax
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.row_key import RowKey
from mrql.algebra.span import Span
from mrql.translate.source_arguments import Arguments


def with_key(spec: SourceSpec, arguments: Arguments) -> SourceSpec:
    """The description of a stream with its key, if it has one.

    Raises: UserError where the rows do not have such fields, the source is static, or a version has no key.
    """
    key, version = arguments.key, arguments.version
    if key is None:
        if version is not None:
            raise UserError("a version is for a stream with a key", version.span, "add key(id), say")
        return spec
    if not spec.stream:
        raise UserError("nothing is replaced in a static source", key.span, "stream(…) makes it a stream")
    found = RowKey(
        tuple(_field_name(field, "key(id)") for field in key.fields),
        None if version is None else _field_name(version.which, "version(changed)"),
    )
    with _placed(key.span):
        found.check_fields(spec.row)
    with _placed(key.span if version is None else version.span):
        found.check_version(spec.row)
    return attrs.evolve(spec, key=found)


def _field_name(given: syntax.Expr, example: str) -> str:
    """Raises: UserError where an argument is not the name of a field."""
    if isinstance(given, syntax.Name):
        return given.name
    raise UserError("what is named here is a field of the rows", given.span, f"{example}, say")


@contextmanager
def _placed(span: Span) -> Iterator[None]:
    """Gives an error its place."""
    try:
        yield
    except UserError as error:
        raise UserError(error.message, span, error.hint) from None
