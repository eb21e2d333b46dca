"""An archive of Spark's classes as Java has loaded them, kept for later processes.

A third of the time of a short query goes into finding, reading and linking some twenty thousand classes of Spark. Java
13 and later can write the classes that a process has loaded to an archive when the process ends, and other processes
map it into their memory (JEP 350, dynamic class-data sharing). The first process writes one, after the command has
ended; later ones start in two thirds of the time. An archive that does not fit (another Java, other jars) is ignored by
Java itself, and other options use other files.
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
"""The environment variable that turns this `off`, or names a directory."""

KEPT_MAX_ARCHIVES = 4
"""The number of archives that are kept, of some 160 MB each: the most recently used ones."""

ABANDONED_SECONDS = 3600.0
"""An archive that is not finished after this many seconds never will be: its process was killed."""

_OPTIONS = "spark.driver.defaultJavaOptions"
_QUIET = "-XX:+IgnoreUnrecognizedVMOptions -Xlog:disable -Xlog:all=warning:stderr"
"""An archive that does not fit is not reported; a Java that does not know these options starts without them."""


def with_class_archive(conf: Mapping[str, str]) -> Mapping[str, str]:
    """The settings to start Spark with, including those for its class archive, if there is a directory for it."""
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
        """The option for Java: to use the archive if there is one, else to write one when it ends."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._take_over()
        if self.path.exists() and _is_whole(self.path):
            os.utime(self.path)
            return f'"-XX:SharedArchiveFile={self.path}"'
        self._make_room()
        return f'"-XX:ArchiveClassesAtExit={self.directory / f"{self.key}.{os.getpid()}.new"}"'

    def _take_over(self) -> None:
        """Puts archives that other processes have written in place, if they are whole; removes abandoned ones."""
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
    """Whether an archive is this user's, and complete: Java writes its beginning last."""
    with archive.open("rb") as file:
        return is_own(file.fileno()) and any(file.read(4))


def _directory() -> Path | None:
    """The directory of the archives; None if none are wanted, or none can be made."""
    wanted = os.environ.get(SWITCH, "")
    if wanted.lower() in ("off", "0", "no", "false") or pyspark.SparkContext._gateway is not None or _has_directories():
        return None
    if wanted:
        return Path(wanted).absolute()
    cache = cache_directory()
    return None if cache is None else cache / "classes"


def _has_directories() -> bool:
    """Whether Spark also looks for classes in directories that are not empty: of these Java makes no archive."""
    named = [os.environ.get(name) for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")]
    if not named[0]:
        named[0] = os.path.join(_spark_home(), "conf")
    return any(name and os.path.isdir(name) and os.listdir(name) for name in named)


def _spark_home() -> str:
    return os.environ.get("SPARK_HOME") or os.path.dirname(pyspark.__file__)


def _key(conf: Mapping[str, str]) -> str:
    """A hash that differs for processes that cannot share an archive: of their Java, their jars, and how Java is
    started."""
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
