"""The sections of the documentation that hold results, and the description of the machine."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from pathlib import Path

import duckdb
import pyspark

from bench.contender import cores, spark_session


def machine() -> str:
    """A description of the machine and the versions of the software."""
    with spark_session() as spark:
        java = spark.sql("select java_method('java.lang.System', 'getProperty', 'java.version')").collect()[0][0]
    release, _, _ = platform.release().partition("-")
    return (
        f"{cores()} cores ({_processor()}), {_memory()}, {platform.system()} {release}; "
        f"Spark {pyspark.__version__}, Java {java}, DuckDB {duckdb.__version__}, Python {platform.python_version()}"
    )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _memory() -> str:
    if not hasattr(os, "sysconf") or "SC_PHYS_PAGES" not in os.sysconf_names:
        return "memory unknown"
    return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GB"


def replace(document: Path, name: str, lines: Iterable[str]) -> None:
    """Replaces the lines between the markers of that name in a document.

    Raises: ValueError when the markers are missing.
    """
    before, _, after = _parts(document, name)
    document.write_text("\n".join([before, "", *lines, "", after]), encoding="utf-8")


def section(document: Path, name: str) -> list[str]:
    """The lines between the markers of that name in a document.

    Raises: ValueError when the markers are missing.
    """
    return _parts(document, name)[1].splitlines()


def _parts(document: Path, name: str) -> tuple[str, str, str]:
    """A document up to and with the first marker, between the markers, and from the second marker on."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, found_begin, rest = document.read_text(encoding="utf-8").partition(begin)
    inside, found_end, after = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"{document} has no lines {begin} and {end}")
    return before + begin, inside, end + after
