"""Paths of local files for Spark: each path names one file, whatever characters its name has.

Hadoop takes the text before a colon for a scheme, and a path with one of `*?[]{}\\` for a pattern. A path with the
scheme `file` is taken literally, except for patterns; Spark's own switch against those reads each file several times.
So a path that looks like a pattern is read through a symbolic link with a plain name, and so is one whose name Java
cannot represent, Hadoop cannot name a checksum file after, or Spark leaves out.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote_from_bytes, unquote
from weakref import WeakKeyDictionary

import attrs
from pyspark import SparkContext
from pyspark.sql import SparkSession

from mrql.algebra.errors import EngineError, UserError
from mrql.runtime.spark.session.cluster import is_cluster

_PATTERN = re.compile(r"[*?\[\]{}\\]")
_SUFFIX = re.compile(r"(?:\.[A-Za-z0-9]+)?")


@attrs.define
class _Links:
    """The symbolic links to files of one session, removed when its process ends."""

    encoding: str
    """The encoding in which Java writes the names of files."""
    directory: TemporaryDirectory[str] = attrs.Factory(lambda: TemporaryDirectory(prefix="mrql-links-"))
    known: dict[tuple[Path, int], str] = attrs.Factory(dict)

    def to(self, target: Path, kept: int = 0) -> str:
        """A link to a file or directory; the `kept` directories above it have the names of those above the target.

        Its own name still says how it is compressed, and in which partition of a table the rows are.
        """
        link = self.known.get((target, kept))
        if link is None:
            if _PATTERN.search(self.directory.name):
                raise EngineError(f"Spark takes {self.directory.name} for a pattern", "set TMPDIR to another directory")
            above = target.parent.parts[len(target.parent.parts) - kept :]
            names = [quote_from_bytes(os.fsencode(name), safe="=%+,@ ") for name in above]
            path = Path(self.directory.name, str(len(self.known)), *names, _plain(target))
            path.parent.mkdir(parents=True)
            path.symlink_to(target)
            link = self.known[target, kept] = str(path)
        return link

    def has_text_for(self, path: Path) -> bool:
        """Whether Java can name a path."""
        try:
            os.fsencode(path).decode().encode(self.encoding)
        except (UnicodeError, LookupError):
            return False
        return True


_LINKS: WeakKeyDictionary[SparkContext, _Links] = WeakKeyDictionary()


def _links(spark: SparkSession) -> _Links:
    context = spark.sparkContext
    if context not in _LINKS:
        _LINKS[context] = _Links(context._gateway.jvm.System.getProperty("sun.jnu.encoding"))  # type: ignore[union-attr]
    return _LINKS[context]


def path_to_read(spark: SparkSession, file: Path, kept: int = 0) -> str:
    """A path for Spark's readers that names this file alone. The names of the `kept` directories above it stay.

    Raises: UserError where the file is to be read on other machines, and cannot be named there.
    """
    links, place = _links(spark), _without_steps_up(file)
    if _is_literal(place) and links.has_text_for(place):
        return f"file:{place}"
    if is_cluster(spark.sparkContext.master):
        hint = "call it otherwise: it would be read through a link, which other machines do not have"
        raise UserError(f"{file} has a name that Spark cannot read on a cluster", hint=hint)
    return f"file:{links.to(place, kept)}"


def place_of(path: str) -> Path:
    """The file that a path of `path_to_read` names: the file itself, or a link to it."""
    return Path(path.removeprefix("file:"))


def _plain(path: Path) -> str:
    """A name for a link to a file, with the parts of the file's name that Spark interprets."""
    if _is_literal(Path(path.name)) and path.name.isascii():
        return path.name
    return f"file{path.suffix if _SUFFIX.fullmatch(path.suffix) else ''}"


def _is_literal(path: Path) -> bool:
    """Whether Hadoop takes a path for one file, and Spark does not leave that out."""
    return not _PATTERN.search(str(path)) and ":" not in path.name and not path.name.endswith("._COPYING_")


def path_to_write(spark: SparkSession, directory: Path) -> str:
    """A path for Spark's writers that names this directory alone.

    Raises: UserError where Java has no text for it.
    """
    place = _without_steps_up(directory)
    if _links(spark).has_text_for(place):
        return f"file:{place}"
    raise UserError(f"{directory} has a name that is not UTF-8, and Spark cannot write there")


def _without_steps_up(path: Path) -> Path:
    """An absolute path without `..`: Hadoop drops `a/..`, although `a` may be a link to elsewhere."""
    absolute = path.absolute()
    return absolute.parent.resolve() / absolute.name if ".." in absolute.parts else absolute


def path_of(uri: str) -> str:
    """The path that `path_to_read` gave for a file, from the URI by which Spark names the file that it has read."""
    return "file:/" + unquote(uri).removeprefix("file:").lstrip("/")
