"""The Java that Spark runs on: whether there is one, and why Spark did not start on it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mrql.algebra.errors import EngineError

OLDEST_VERSION = 17
"""The oldest version that Spark runs on."""

INSTALL = f"install Java {OLDEST_VERSION} or newer (on Debian: apt-get install openjdk-{OLDEST_VERSION}-jre-headless)"

_SAYS_NOTHING = ("Error: Could not create the Java Virtual Machine.", "Error: A fatal exception has occurred.", "\tat ")
"""The beginnings of lines that follow the one saying why Java has ended."""


def require_java() -> None:
    """Checks that there is a Java to run Spark on.

    Raises: EngineError, saying what to do, if none is found.
    """
    home = os.environ.get("JAVA_HOME")
    if home and not (Path(home) / "bin" / "java").is_file():
        # Spark looks there and nowhere else.
        raise EngineError(f"JAVA_HOME is {home}, and there is no {home}/bin/java", "set it to a Java, or unset it")
    if not home and shutil.which("java") is None:
        raise EngineError("no Java was found, and Spark needs one", f"{INSTALL}, or use --engine reference")


def not_started(error: Exception, said: Iterable[str]) -> EngineError:
    """Why Spark did not start, from the error and the lines that Java wrote meanwhile."""
    java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if os.environ.get("JAVA_HOME") else "java"
    version = version_of(java)
    if version is not None and version < OLDEST_VERSION:
        return EngineError(f"Spark needs Java {OLDEST_VERSION} or newer, and {java} is version {version}", INSTALL)
    first = str(error).strip().split("\n")[0]
    telling = [line for line in said if line.strip() and not line.startswith(_SAYS_NOTHING)]
    return EngineError(f"Spark did not start: {first}", telling[-1].strip() if telling else None)


def version_of(java: str) -> int | None:
    """The major version of a Java, 8 for 1.8; None if it does not report one."""
    with suppress(OSError, subprocess.SubprocessError):
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
        found = re.search(r'version "(?:1\.)?(\d+)', said)
        return None if found is None else int(found[1])
    return None
