"""Files of this machine as Spark is to take them: each path is one file, whatever characters its name has.

Hadoop takes what stands before a colon for a scheme, and a path with one of `*?[]{}\\` for a pattern. A path with the
scheme `file` is taken as it stands, but for patterns; Spark's own switch for those reads each file several times. So
what would be a pattern is read through a symbolic link with a plain name, and so is a name that Java has no text for,
one that Hadoop's checksums cannot be called after, and one that Spark leaves out.
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
    """Symbolic links of one session to files, which go with its process."""

    encoding: str
    """How Java writes the names of files."""
    directory: TemporaryDirectory[str] = attrs.Factory(lambda: TemporaryDirectory(prefix="mrql-links-"))
    known: dict[tuple[Path, int], str] = attrs.Factory(dict)

    def to(self, target: Path, kept: int = 0) -> str:
        """A link to a file or directory; the `kept` directories that it lies in are called as those of the target.

        Its own name says how it is compressed, and in which partition of a table the rows are.
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
    """A path for Spark's readers that names this file alone. The names of the `kept` directories that it lies in stay.

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
    """Where a file is that `path_to_read` gave the path of: it, or a link to it."""
    return Path(path.removeprefix("file:"))


def _plain(path: Path) -> str:
    """A name for a link to a file, with what Spark reads in the name of that."""
    if _is_literal(Path(path.name)) and path.name.isascii():
        return path.name
    return f"file{path.suffix if _SUFFIX.fullmatch(path.suffix) else ''}"


def _is_literal(path: Path) -> bool:
    """Whether Hadoop takes a path for one file, and Spark does not leave it out."""
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
    """An absolute path. Hadoop takes `a/..` for nothing, where `a` may be a link to elsewhere."""
    absolute = path.absolute()
    return absolute.parent.resolve() / absolute.name if ".." in absolute.parts else absolute


def path_of(uri: str) -> str:
    """What `path_to_read` gave for a file, of what Spark calls the file that it has read."""
    return "file:/" + unquote(uri).removeprefix("file:").lstrip("/")
