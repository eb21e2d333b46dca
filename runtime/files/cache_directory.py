"""Where what can be made again is kept for the next process."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_directory() -> Path | None:
    """Where this user's caches of this package are, by the custom of the system; None where there is no such place."""
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
    """Whether an open file is this user's: what others have written is not trusted."""
    return sys.platform == "win32" or os.fstat(descriptor).st_uid == os.geteuid()
