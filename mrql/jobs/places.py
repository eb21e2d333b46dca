"""Where the answers of a stream go."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from mrql.runtime.postgresql.address import Address

Place: TypeAlias = Path | Address
"""A directory, or a table of PostgreSQL."""
