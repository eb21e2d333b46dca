"""Spark's classes as Java has loaded them once, kept for the next process.

A third of what a short query takes is that Java finds, reads and links some twenty thousand classes of Spark. A Java of
version 13 and later can write those that a process has loaded into an archive when it ends, which others map into
their memory (JEP 350, dynamic class-data sharing). The first process writes one, after the command has ended; those
after it start in two thirds of the time. An archive that does not fit (another Java, other jars) is not used by Java
itself, and those of other options are other files.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import attrs
import pyspark

from mrql.runtime.files.cache_directory import cache_directory, is_own

SWITCH = "MRQL_CLASS_ARCHIVE"
"""The variable of the environment that turns this `off`, or names a directory."""

KEPT_MAX_ARCHIVES = 4
"""So many are kept, of some 160 MB each: the ones that were used last."""

ABANDONED_SECONDS = 3600.0
"""What is not finished after so long never will be: its process was killed."""

_OPTIONS = "spark.driver.defaultJavaOptions"
_QUIET = "-XX:+IgnoreUnrecognizedVMOptions -Xlog:disable -Xlog:all=warning:stderr"
"""An archive that does not fit is no news; a Java that knows none of this starts without."""


def with_class_archive(conf: Mapping[str, str]) -> Mapping[str, str]:
    """The settings that a Spark is started with, and among them those for its classes, if there is a place for them."""
    directory = _directory()
    if directory is None:
        return conf
    with suppress(OSError):
        archive = Archive(directory, _key(conf))
        return {**conf, _OPTIONS: f"{_QUIET} {archive.option()} {conf.get(_OPTIONS, '')}".rstrip()}
    return conf


@attrs.frozen
class Archive:
    """The archive of processes that are started alike."""

    directory: Path
    key: str

    @property
    def path(self) -> Path:
        return self.directory / f"{self.key}.jsa"

    def option(self) -> str:
        """What Java is to do: to use the archive if there is one, else to write one when it ends."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._take_over()
        if self.path.exists() and _is_whole(self.path):
            os.utime(self.path)
            return f'"-XX:SharedArchiveFile={self.path}"'
        self._make_room()
        return f'"-XX:ArchiveClassesAtExit={self.directory / f"{self.key}.{os.getpid()}.new"}"'

    def _take_over(self) -> None:
        """What other processes have written is there from now on, if it is whole."""
        for new in self.directory.glob("*.new"):
            if _is_whole(new):
                new.replace(self.directory / f"{new.name.split('.')[0]}.jsa")
            elif time.time() - new.stat().st_mtime > ABANDONED_SECONDS:
                new.unlink(missing_ok=True)

    def _make_room(self) -> None:
        old = sorted(self.directory.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
        for path in old[KEPT_MAX_ARCHIVES - 1 :]:
            path.unlink(missing_ok=True)


def _is_whole(archive: Path) -> bool:
    """Whether an archive is this user's, and ends: Java writes its beginning last."""
    with archive.open("rb") as file:
        return is_own(file.fileno()) and any(file.read(4))


def _directory() -> Path | None:
    """Where archives are kept; None where none are wanted, or none can be made."""
    wanted = os.environ.get(SWITCH, "")
    if wanted.lower() in ("off", "0", "no", "false") or pyspark.SparkContext._gateway is not None or _has_directories():
        return None
    if wanted:
        return Path(wanted).absolute()
    cache = cache_directory()
    return None if cache is None else cache / "classes"


def _has_directories() -> bool:
    """Whether Spark looks for classes in directories too: of these Java makes no archive, unless they are empty."""
    named = [os.environ.get(name) for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")]
    if not named[0]:
        named[0] = os.path.join(_spark_home(), "conf")
    return any(name and os.path.isdir(name) and os.listdir(name) for name in named)


def _spark_home() -> str:
    return os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)


def _key(conf: Mapping[str, str]) -> str:
    """What tells processes apart that cannot share an archive: their Java, their jars, and how Java is started."""
    digest = hashlib.sha256()
    for part in _parts(conf):
        digest.update(f"{len(part)}:{part}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


def _parts(conf: Mapping[str, str]) -> Iterator[str]:
    home = os.environ.get("JAVA_HOME")
    java = Path(home) / "bin" / "java" if home else Path(shutil.which("java") or "java")
    about = java.resolve().stat()
    yield f"{java.resolve()} {about.st_size} {about.st_mtime_ns}"
    yield f"{_spark_home()} {pyspark.__version__}"
    yield from (f"{key}={conf[key]}" for key in sorted(conf) if "JavaOptions" in key or key == "spark.driver.memory")
    yield from (os.environ.get(name, "") for name in ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "PYSPARK_SUBMIT_ARGS"))
