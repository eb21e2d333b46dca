"""Keeps the parse tables of a grammar from one process to the next.

Computing them takes longer than everything else before a query is parsed, so they are stored in the user's cache
directory. Nothing depends on the file: if it is missing, damaged, someone else's or made from another grammar, the
tables are computed, and if it cannot be written, they are computed the next time, too.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import sys
import tempfile
from pathlib import Path

import lark
from lark import Lark
from lark.lark import PostLex

from mrql.runtime.files.cache_directory import cache_directory, is_own


def cached_parser(name: str, grammar: str, postlex: PostLex, **options: object) -> Lark:
    """The LALR parser of a grammar, from the cache if it is there; `name` distinguishes the grammars of the cache."""
    directory = cache_directory()
    path = directory / f"{name}-{sys.implementation.cache_tag}.tables" if directory else None
    kind = f"{type(postlex).__module__}.{type(postlex).__qualname__}"
    key = "\0".join((lark.__version__, sys.version, kind, repr(options), grammar)).encode()
    tables = _load(path, key) if path else None
    if tables is not None:
        return Lark.load(io.BytesIO(tables))
    parser = Lark(grammar, parser="lalr", postlex=postlex, **options)
    if path:
        _save(path, key, parser)
    return parser


def _load(path: Path, key: bytes) -> bytes | None:
    """The stored tables, if the file is complete and this user's own: it is unpickled, and has to be trusted."""
    try:
        with path.open("rb") as file:
            if not is_own(file.fileno()):
                return None
            digest, tables = file.read(hashlib.sha256().digest_size), file.read()
    except OSError:
        return None
    return tables if digest == _digest(key, tables) else None


def _save(path: Path, key: bytes, parser: Lark) -> None:
    # A read-only directory or a full disk must not keep a query from being parsed.
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
            buffer = io.BytesIO()
            parser.save(buffer)
            tables = buffer.getvalue()
            # Moved into place as a whole: another process sees the old file or the new one.
            whole = Path(scratch, path.name)
            whole.write_bytes(_digest(key, tables) + tables)
            whole.replace(path)


def _digest(key: bytes, tables: bytes) -> bytes:
    return hashlib.sha256(key + tables).digest()
