"""Compressed files that are truncated."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mrql.algebra.errors import UserError
from mrql.runtime.files.compression import must_be_whole

FRAME = st.one_of(
    st.binary(max_size=300).map(lambda data: pa.compress(data, "zstd", asbytes=True)),
    st.integers(0, 300_000).map(lambda n: pa.compress(b"ab" * n, "zstd", asbytes=True)),
    st.just(b"\x55\x2a\x4d\x18\x03\x00\x00\x00abc"),
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(FRAME, max_size=3), st.integers(0, 2**20))
def test_frames_that_are_cut_off(tmp_path: Path, frames: list[bytes], place: int) -> None:
    """A file of whole frames is whole, and one that ends inside of a frame is not."""
    whole, file = b"".join(frames), tmp_path / "f.zst"
    file.write_bytes(whole)
    must_be_whole(file)
    cut = place % (len(whole) + 1)
    file.write_bytes(whole[:cut])
    if cut in {sum(map(len, frames[:count])) for count in range(len(frames) + 1)}:
        must_be_whole(file)
    else:
        with pytest.raises(UserError, match="is not a whole"):
            must_be_whole(file)


def test_what_is_no_frame(tmp_path: Path) -> None:
    """A file without frames, and a file of another kind, are no error here."""
    (tmp_path / "f.zst").write_bytes(b"no frame")
    (tmp_path / "f.txt").write_bytes(b"\x28")
    must_be_whole(tmp_path / "f.zst")
    must_be_whole(tmp_path / "f.txt")
