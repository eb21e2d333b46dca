"""Files of up to a megabyte that are hard to read: deep, wide, long, or not of the kind that their name says.

A query over any of them has a value or one error, in bounded time and memory.
"""

from __future__ import annotations

import bz2
import gzip
import resource
import subprocess
import sys
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from random import Random

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from pyarrow import orc

MEGABYTE = 1_000_000


@attrs.frozen
class LargeFile:
    """A file, and the sources in the language by which it is read."""

    name: str
    content: Callable[[], bytes] = attrs.field(repr=False)
    sources: tuple[str, ...]


def _csv(row: str = "(string, string)", options: str = "") -> str:
    return f'source(csv, "{{}}", ",", type({row}){options})'


def _json(row: str | None = None) -> str:
    return 'source(json, "{}")' if row is None else f'source(json, "{{}}", type({row}))'


CSV = (_csv(), _csv("(string, string)", ", multiline"), _csv("<a: string>", ", header"))
JSON = (_json(), _json("any"), _json("<a: any>"), _json("<a: [string]>"))
XML = ('source(xml, "{}", {{"a"}})', 'source(xml, "{}", {{"b", "a1"}})')
TEXT = ('source(text, "{}")',)
FRACTIONS = (_csv("double"), _csv("float"))
PARQUET, ORC = ('source(parquet, "{}")',), ('source(orc, "{}")',)


def filled(pattern: str, size: int = MEGABYTE) -> bytes:
    """A pattern, repeated up to a size."""
    encoded = pattern.encode()
    return encoded * (size // len(encoded))


def nested(opening: str, inner: str, closing: str, size: int = MEGABYTE) -> bytes:
    """Nested brackets around an inner text."""
    levels = (size - len(inner)) // len(opening + closing)
    return (opening * levels + inner + closing * levels).encode()


def many(make: Callable[[int], str], size: int = MEGABYTE) -> str:
    """Numbered parts, up to a size."""
    parts, length = [], 0
    while length < size:
        parts.append(make(len(parts)))
        length += len(parts[-1])
    return "".join(parts[:-1])


def columnar(write: Callable[[pa.Table, BytesIO], object], table: pa.Table) -> bytes:
    out = BytesIO()
    write(table, out)
    return out.getvalue()


def _wide(count: int) -> pa.Table:
    return pa.table({f"c{n}": pa.array([n]) for n in range(count)})


def _deep(levels: int) -> pa.Table:
    value, t = [1], pa.int64()
    for _ in range(levels):
        value, t = [value], pa.list_(t)
    return pa.table({"a": pa.array(value, t)})


def _alike(rows: int) -> pa.Table:
    return pa.table({"a": pa.array(["x" * 100], pa.string()).take(pa.array([0] * rows))})


SHAPES: dict[str, LargeFile] = {
    "csv, quotes": LargeFile("f.csv", lambda: filled('"'), CSV),
    "csv, an open quote": LargeFile("f.csv", lambda: b'"' + filled("x\n"), CSV),
    "csv, open quotes": LargeFile("f.csv", lambda: filled('"x\n'), CSV),
    "csv, quotes in one field": LargeFile("f.csv", lambda: b'a,"' + filled('""') + b'"\n', CSV),
    "csv, text behind quotes": LargeFile("f.csv", lambda: filled('"a"b'), CSV),
    "csv, fields": LargeFile("f.csv", lambda: filled(","), CSV),
    "csv, columns": LargeFile("f.csv", lambda: ("a" + many(lambda n: f",c{n}") + "\n1\n").encode(), CSV),
    "csv, one column twice": LargeFile("f.csv", lambda: filled("a,"), CSV),
    "csv, blanks": LargeFile("f.csv", lambda: filled(" "), CSV),
    "csv, empty lines": LargeFile("f.csv", lambda: filled("\n"), CSV),
    "csv, short records": LargeFile("f.csv", lambda: filled("a,b\n"), CSV),
    "csv, a long number": LargeFile("f.csv", lambda: filled("1"), (_csv("int"), _csv("long"), *FRACTIONS)),
    "csv, a long fraction": LargeFile("f.csv", lambda: b"0." + filled("1"), FRACTIONS),
    "csv, a long exponent": LargeFile("f.csv", lambda: b"1e" + filled("9"), FRACTIONS),
    "csv, a long hexadecimal number": LargeFile("f.csv", lambda: b"0x1." + filled("f") + b"p1", FRACTIONS),
    "csv, a long date": LargeFile("f.csv", lambda: filled("2026-"), (_csv("date"), _csv("timestamp"))),
    "csv, NUL": LargeFile("f.csv", lambda: filled("\0"), CSV),
    "csv, no UTF-8": LargeFile("f.csv", lambda: b"\xff" * MEGABYTE, CSV),
    "json, lists in lists": LargeFile("f.json", lambda: nested("[", "1", "]"), JSON),
    "json, open lists": LargeFile("f.json", lambda: filled("["), JSON),
    "json, objects in objects": LargeFile("f.json", lambda: nested('{"a":', "1", "}"), JSON),
    "json, deep rows": LargeFile("f.json", lambda: filled('{"a":' * 900 + "1" + "}" * 900 + "\n"), JSON),
    "json, a wide list": LargeFile("f.json", lambda: b'{"a":[' + filled("1,") + b"1]}\n", JSON),
    "json, a list of empty lists": LargeFile("f.json", lambda: b'{"a":[' + filled("[],") + b"1]}\n", JSON),
    "json, a wide object": LargeFile(
        "f.json", lambda: ("{" + many(lambda n: f'"k{n}":{n},') + '"z":1}\n').encode(), JSON
    ),
    "json, an object with a key again": LargeFile("f.json", lambda: b"{" + filled('"a":1,') + b'"a":1}\n', JSON),
    "json, rows with other keys": LargeFile("f.json", lambda: many(lambda n: f'{{"k{n}":{n}}}\n').encode(), JSON),
    "json, a long text": LargeFile("f.json", lambda: b'{"a":"' + filled("x") + b'"}\n', JSON),
    "json, escapes": LargeFile("f.json", lambda: b'{"a":"' + filled("\\u00e9") + b'"}\n', JSON),
    "json, a long number": LargeFile("f.json", lambda: b'{"a":' + filled("1") + b"}\n", JSON),
    "json, a long exponent": LargeFile("f.json", lambda: b'{"a":1e' + filled("9") + b"}\n", JSON),
    "json, short rows": LargeFile("f.json", lambda: filled("{}\n"), JSON),
    "json, numbers": LargeFile("f.json", lambda: filled("1\n"), JSON),
    "xml, elements in elements": LargeFile("f.xml", lambda: nested("<a>", "x", "</a>"), XML),
    "xml, open elements": LargeFile("f.xml", lambda: filled("<a>"), XML),
    "xml, children": LargeFile("f.xml", lambda: b"<a>" + filled("<b/>") + b"</a>", XML),
    "xml, other children": LargeFile("f.xml", lambda: ("<a>" + many(lambda n: f"<c{n}/>") + "</a>").encode(), XML),
    "xml, attributes": LargeFile("f.xml", lambda: ("<a" + many(lambda n: f' k{n}=""') + "/>").encode(), XML),
    "xml, an attribute again": LargeFile("f.xml", lambda: b"<a" + filled(' k=""') + b"/>", XML),
    "xml, a long text": LargeFile("f.xml", lambda: b"<a>" + filled("x") + b"</a>", XML),
    "xml, texts between children": LargeFile("f.xml", lambda: b"<a>" + filled("x<b/>") + b"</a>", XML),
    "xml, characters by number": LargeFile("f.xml", lambda: b"<a>" + filled("&#65;") + b"</a>", XML),
    "xml, entities of entities": LargeFile(
        "f.xml",
        lambda: (
            '<!DOCTYPE a [<!ENTITY e0 "xxxxxxxxxx">'
            + "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 10))
            + "]><a>&e9;</a>"
        ).encode(),
        XML,
    ),
    "xml, a long comment": LargeFile("f.xml", lambda: b"<a><!--" + filled("x") + b"--></a>", XML),
    "xml, a long name": LargeFile("f.xml", lambda: b"<" + filled("x") + b"/>", XML),
    "text, a long line": LargeFile("f.txt", lambda: filled("x"), TEXT),
    "text, empty lines": LargeFile("f.txt", lambda: filled("\n"), TEXT),
    "text, packed": LargeFile("f.txt.gz", lambda: gzip.compress(filled("x", 900 * MEGABYTE)), TEXT),
    "text, lines that are packed": LargeFile(
        "f.txt.gz", lambda: gzip.compress(filled("x" * 99 + "\n", 30 * MEGABYTE)), TEXT
    ),
    "text, packed by bzip2": LargeFile("f.txt.bz2", lambda: bz2.compress(filled("x", 900 * MEGABYTE)), TEXT),
    "csv, packed": LargeFile("f.csv.gz", lambda: gzip.compress(filled("a" * 99 + ",b\n", 20 * MEGABYTE)), CSV),
    "json, packed": LargeFile("f.json.gz", lambda: gzip.compress(filled("[", 600 * MEGABYTE)), JSON),
    "xml, packed": LargeFile("f.xml.gz", lambda: gzip.compress(b"<a>" + filled("x", 10 * MEGABYTE)), XML),
    "text, no gzip": LargeFile("f.txt.gz", lambda: Random(7).randbytes(MEGABYTE), TEXT),
    "text, gzip that is cut off": LargeFile("f.txt.gz", lambda: gzip.compress(filled("xy\n"))[:-20], TEXT),
    "parquet, columns": LargeFile("f.parquet", lambda: columnar(pq.write_table, _wide(2000)), PARQUET),
    "parquet, lists in lists": LargeFile("f.parquet", lambda: columnar(pq.write_table, _deep(90)), PARQUET),
    "parquet, one value often": LargeFile(
        "f.parquet", lambda: columnar(pq.write_table, _alike(MEGABYTE // 5)), PARQUET
    ),
    "parquet, noise": LargeFile("f.parquet", lambda: b"PAR1" + Random(7).randbytes(MEGABYTE) + b"PAR1", PARQUET),
    "orc, columns": LargeFile("f.orc", lambda: columnar(orc.write_table, _wide(2000)), ORC),
    "orc, one value often": LargeFile("f.orc", lambda: columnar(orc.write_table, _alike(MEGABYTE // 125)), ORC),
    "orc, noise": LargeFile("f.orc", lambda: b"ORC" + Random(7).randbytes(MEGABYTE), ORC),
}
"""Files that are hard to read in one way, by name."""

OPENED = ("[", '{"a":', "<a>", '"', "(", "{", "<a k='")
PARTS = (
    *OPENED,
    *("]", "}", "</a>", ",", "\n", "\r", "\0", " ", "1", "e9", "-", ".", "x", "\\", "\\u00e9", "é", "\ufeff"),
    *("<!--", "<![CDATA[", "&#65;"),
)


@st.composite
def files(draw: st.DrawFn) -> LargeFile:
    """A file of some parts, each of which is repeated."""
    parts = draw(
        st.lists(st.lists(st.sampled_from(PARTS), min_size=1, max_size=4).map("".join), min_size=1, max_size=4)
    )
    size = MEGABYTE // len(parts)
    content = b"".join(filled(part, draw(st.sampled_from((20, size)))) for part in parts)
    name, sources = draw(st.sampled_from((("f.csv", CSV), ("f.json", JSON), ("f.xml", XML), ("f.txt", TEXT))))
    return LargeFile(name, lambda: content, sources)


SECONDS, BYTES = 10, 2**30
"""The limits of `mrql run` for a file: seconds of processor time, and bytes of memory."""


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))


def assert_bounded(file: LargeFile, source: str, base: Path) -> None:
    """A query over a file has a value or one error, in bounded time and memory."""
    (base / file.name).write_bytes(file.content())
    (base / "q.mrql").write_text(f"count({source.format(file.name)});")
    command = [sys.executable, "-m", "mrql", "run", "--engine", "reference", "--data", str(base), str(base / "q.mrql")]
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    ran = subprocess.run(command, capture_output=True, text=True, preexec_fn=_limited, check=False, timeout=300)
    took = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began
    assert took < SECONDS, f"{source}: {took:.1f} s"
    assert "Traceback" not in ran.stderr, f"{source}: {ran.stderr}"
    assert len(ran.stderr) < 3000, f"{source}: {ran.stderr}"
    assert ran.returncode == (1 if ran.stderr else 0), f"{source}: {ran.returncode}, {ran.stderr}"
