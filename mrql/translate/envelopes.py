"""`changes(…)` of a stream: its rows arrive as changes in an envelope."""

from __future__ import annotations

import attrs

from mrql.algebra import types as ty
from mrql.algebra.catalog import Catalog, SourceSpec
from mrql.algebra.errors import UserError
from mrql.translate.source_arguments import Arguments


def with_changes(spec: SourceSpec, arguments: Arguments, catalog: Catalog) -> SourceSpec:
    """The description of a stream with the envelope of its rows, if it has one.

    Raises: UserError where the envelope is unknown, the rows cannot be in one, or can be only with a key.
    """
    written = arguments.changes
    if written is None:
        return spec
    if written.envelope not in catalog.envelopes:
        hint = f"there are {', '.join(catalog.envelopes)}"
        raise UserError(f"nothing is known of changes that are written as `{written.envelope}`", written.span, hint)
    if not spec.stream:
        raise UserError("a static source does not change", written.span, "stream(…) makes it a stream")
    other = arguments.deletions or arguments.tagged
    if other is not None:
        raise UserError("changes say themselves which rows they take away", other.span, "leave it out")
    if arguments.row is None or not isinstance(spec.row, ty.RecordType):
        hint = "type(<id: long>), say"
        raise UserError("the rows that changes are of need a type, that of a record", written.span, hint)
    if spec.no_new_columns:
        hint = "leave `failOnNewColumns` out"
        raise UserError("changes have fields of their own, beside those of the rows", written.span, hint)
    envelope = catalog.envelopes[written.envelope]
    if envelope.needs_key and arguments.key is None:
        message = f"changes that are written as `{written.envelope}` do not have the row that they take away"
        raise UserError(message, written.span, "add key(id), say: then the key says which it is")
    outside = next((name for name in spec.row.names if name in envelope.metadata), None)
    if outside is not None and arguments.key is None:
        message = f"`{outside}` is another one in each change, so that no row is ever found again"
        raise UserError(message, arguments.row.span, "add key(id), say, or leave the field out")
    return attrs.evolve(spec, changes=envelope, tagged=True)
