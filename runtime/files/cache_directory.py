"""The directory for caches, which keep what can be made again for the next process."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_directory() -> Path | None:
    """The directory of this package's caches for this user, by the convention of the system; None if there is none."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        # A relative path is to be ignored, says the XDG specification.
        base = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
    return Path(base, "mrql") if os.path.isabs(base) else None


def is_own(descriptor: int) -> bool:
    """Whether an open file belongs to this user: files of other users are not trusted."""
    return sys.platform == "win32" or os.fstat(descriptor).st_uid == os.geteuid()
