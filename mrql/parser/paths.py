"""The paths in a query."""

from __future__ import annotations

from pathlib import Path

from mrql.algebra.errors import UserError
from mrql.algebra.span import Span
from mrql.algebra.values.file_names import scheme_of


def path_in(base: Path, text: str, span: Span) -> Path:
    """A path in a query, relative to the directory `base`.

    Raises: UserError for a null character, and for an address or a leading `~` where there is no file of that name.
    """
    if "\0" in text:
        raise UserError("no path has the character \\u0000 in it", span)
    path = base / text
    scheme, slashes = scheme_of(text) or ("", "")
    if slashes.startswith("//") and not path.exists():
        hint = "write its path alone, as /data/file.csv" if scheme.lower() == "file" else "copy it, or mount it, first"
        raise UserError(f"a path names a file of this machine, and `{scheme}://` none", span, hint)
    if text.startswith("~") and not path.exists():
        raise UserError("`~` stands for no directory in a path", span, "write all of it, or begin it with `args[0]`")
    return path
