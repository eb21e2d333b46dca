"""The table of faults: of the query file, of options, of data, and of the machine."""

from __future__ import annotations

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from tests.bad_input.situations import (
    Bad,
    Put,
    Setting,
    edited,
    forbidden,
    interrupted,
    interrupted_run,
    locked,
    lost,
    no_space,
    room_for,
)


def parquet(**columns: object) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), out)
    return out.getvalue().to_pybytes()


def orc_file(**columns: object) -> bytes:
    out = pa.BufferOutputStream()
    orc.write_table(pa.table(columns), out)
    return out.getvalue().to_pybytes()


LONGS = pa.array([1, 2], pa.int64())
WORDS = pa.array(["a", "b"])

CSV = """s = stream(csv, "s", ",", type((long, long)), deletions("gone"));
t = source(csv, "t", ",", type((long, string)));
select (n, sum(y), max(y)) from (x, y) in s, (k, n) in t where k = x group by n;
"""

SETTINGS: dict[str, Setting] = {
    "csv": Setting(
        CSV,
        {"s/1.csv": "1,10\n2,20\n", "t/t.csv": "1,a\n2,b\n", "gone": Put.DIRECTORY},
        {"s/2.csv": "1,5\n", "gone/2.csv": "2,20\n"},
    ),
    "tagged": Setting(
        's = stream(csv, "s", ",", type((long, long)), tagged);\nselect (x, sum(y)) from (x, y) in s group by x;\n',
        {"s/1.csv": "+,1,10\n+,2,20\n"},
        {"s/2.csv": "-,2,20\n"},
    ),
    "json": Setting(
        's = stream(json, "s", type(<A: long>));\nselect (x.A, count(x)) from x in s group by x.A;\n',
        {"s/1.json": '{"A": 1}\n{"A": 2}\n'},
        {"s/2.json": '{"A": 1}\n'},
    ),
    "text": Setting(
        's = stream(text, "s");\nselect (k, count(x)) from x in s group by k: x;\n',
        {"s/1.txt": "a\nb\n"},
        {"s/2.txt": "a\n"},
    ),
    "xml": Setting(
        's = stream(xml, "s", {"a"});\ncount(s);\n',
        {"s/1.xml": "<r><a>1</a></r>"},
        {"s/2.xml": "<r><a>1</a></r>"},
    ),
    "parquet": Setting(
        's = stream(parquet, "s", type(<A: long>));\nselect (x.A, count(x)) from x in s group by x.A;\n',
        {"s/1.parquet": parquet(A=LONGS)},
        {"s/2.parquet": parquet(A=LONGS)},
    ),
    "orc": Setting(
        's = stream(orc, "s", type(<A: long>));\nselect (x.A, count(x)) from x in s group by x.A;\n',
        {"s/1.orc": orc_file(A=LONGS)},
        {"s/2.orc": orc_file(A=LONGS)},
    ),
    "numbers": Setting(
        's = stream(csv, "s", ",", type((int, int)));\nselect (x / y, sum(x + y)) from (x, y) in s group by x / y;\n',
        {"s/1.csv": "6,2\n"},
        {"s/2.csv": "8,2\n"},
    ),
}

MANIFEST = "state/manifest-00000001.json"
QUARANTINE = ("--malformed", "quarantine", "--quarantine", "{home}/aside")

QUERY_FILES: dict[str, Bad] = {
    "query file missing": Bad(2, {"q.mrql": Put.NOTHING}),
    "query file empty": Bad(1, {"q.mrql": ""}),
    "query file not UTF-8": Bad(1, {"q.mrql": b"\xff\xfe1;\n"}),
    "query file is a directory": Bad(2, {"q.mrql": Put.DIRECTORY}),
    "query file unreadable": Bad(1, fault=forbidden("q.mrql")),
    "query with a syntax error": Bad(1, {"q.mrql": "select x frm x in s;\n"}),
    "query with a type error": Bad(1, {"q.mrql": CSV.replace("sum(y)", "sum(n)")}),
    "query with an unknown name": Bad(1, {"q.mrql": CSV.replace("max(y)", "max(z)")}),
    "query without a stream": Bad(1, {"q.mrql": "1 + 1;\n"}),
    "query with two streams": Bad(1, {"q.mrql": CSV + "count(s);\n"}),
    "query that includes what is missing": Bad(1, {"q.mrql": 'include "other.mrql";\n' + CSV}),
    "query that includes what is unreadable": Bad(
        1, {"q.mrql": 'include "t/t.csv";\n' + CSV}, fault=forbidden("t/t.csv")
    ),
    "query whose argument is missing": Bad(1, {"q.mrql": CSV.replace('"s"', "args[0]")}),
    "query that imports what is missing": Bad(1, {"q.mrql": 'import f from "nowhere";\n' + CSV}, ("--allow-import",)),
}

OPTIONS: dict[str, Bad] = {
    "unknown option": Bad(2, options=("--every", "3")),
    "unknown format": Bad(2, options=("--format", "yaml")),
    "unknown engine": Bad(2, options=("--engine", "flink")),
    "unknown emission": Bad(2, options=("--emit", "all")),
    "no files a batch": Bad(2, options=("--max-files", "0")),
    "negative interval": Bad(2, options=("--interval", "-1")),
    "setting without a value": Bad(2, options=("--conf", "oops")),
    "quarantine without a directory": Bad(2, options=("--malformed", "quarantine")),
    "directory without quarantine": Bad(2, options=("--quarantine", "{home}/aside")),
    "quarantine in a file": Bad(2, {"aside": "x"}, QUARANTINE),
    "quarantine that is not empty": Bad(1, {"aside/x": "x"}, QUARANTINE, starts_over=True),
    "quarantine not writable": Bad(
        3, {"aside": Put.DIRECTORY, "s/3.csv": "x\n"}, QUARANTINE, fault=forbidden("aside", 0o500)
    ),
    "checkpoint in a file": Bad(2, {"file": "x"}, ("--checkpoint", "{home}/file")),
    "checkpoint below a file": Bad(3, {"file": "x"}, ("--checkpoint", "{home}/file/state")),
    "checkpoint in another directory": Bad(1, {"docs/a.txt": "x"}, ("--checkpoint", "{home}/docs")),
    "checkpoint not readable": Bad(3, fault=forbidden("state")),
    "checkpoint not writable": Bad(3, {"s/3.csv": "1,1\n"}, fault=forbidden("state", 0o500)),
    "checkpoint in use": Bad(1, fault=locked),
    "checkpoint of another query": Bad(1, {"q.mrql": CSV.replace("sum(y)", "min(y)")}, ("--emit", "changes")),
    "checkpoint of another engine": Bad(1, options=("--engine", "spark")),
    "checkpoint of another format": Bad(1, fault=edited(MANIFEST, b'"format": 6', b'"format": 99')),
    "manifest damaged": Bad(1, fault=edited(MANIFEST, b'"batch": 0', b'"batch": 7')),
    "manifest cut off": Bad(1, fault=edited(MANIFEST, b'"commit"', b"")),
    "run lost": Bad(1, fault=lost("state/runs/*-rows/*/*")),
    "run damaged": Bad(1, fault=edited("state/runs/*-rows/*/*", b"[", b"{")),
    "output in a file": Bad(2, {"file": "x"}, ("--output", "{home}/file")),
    "output below a file": Bad(3, {"file": "x"}, ("--output", "{home}/file/out")),
    "output not writable": Bad(3, {"s/3.csv": "1,1\n"}, fault=forbidden("out", 0o500)),
    "output of another stream": Bad(1, {"else/batch-000000/part-0.json": ""}, ("--output", "{home}/else")),
    "output not writable, no checkpoint": Bad(
        3, {"out": Put.DIRECTORY}, fault=forbidden("out", 0o500), starts_over=True
    ),
    "no checkpoint to show": Bad(2, command=("checkpoint", "show", "{home}/nowhere")),
    "checkpoint to show is none": Bad(1, {"docs/a.txt": "x"}, command=("checkpoint", "show", "{home}/docs")),
}

DATA: dict[str, Bad] = {
    "table missing": Bad(1, {"t": Put.NOTHING}),
    "table's file new": Bad(1, {"t/u.csv": "3,c\n"}),
    "table missing, no checkpoint": Bad(1, {"t": Put.NOTHING}, starts_over=True),
    "stream's directory missing": Bad(1, {"s": Put.NOTHING}, starts_over=True),
    "stream's directory is gone": Bad(1, {"s": Put.NOTHING}),
    "stream's directory is a file": Bad(1, {"s": "1,1\n"}),
    "stream of one file, no checkpoint": Bad(0, {"s": "1,1\n"}, starts_over=True),
    "stream's directory unreadable": Bad(1, fault=forbidden("s")),
    "stream's file unreadable": Bad(1, {"s/3.csv": "1,1\n"}, fault=forbidden("s/3.csv")),
    "table's file unreadable, no checkpoint": Bad(1, fault=forbidden("t/t.csv"), starts_over=True),
    "json unreadable": Bad(1, {"s/3.json": "{}\n"}, setting="json", fault=forbidden("s/3.json")),
    "text unreadable": Bad(1, {"s/3.txt": "{}\n"}, setting="text", fault=forbidden("s/3.txt")),
    "xml unreadable": Bad(1, {"s/3.xml": "<a/>\n"}, setting="xml", fault=forbidden("s/3.xml")),
    "parquet unreadable": Bad(1, {"s/3.parquet": parquet(A=LONGS)}, setting="parquet", fault=forbidden("s/3.parquet")),
    "orc unreadable": Bad(1, {"s/3.orc": orc_file(A=LONGS)}, setting="orc", fault=forbidden("s/3.orc")),
    "gz unreadable": Bad(1, {"s/3.csv.gz": gzip.compress(b"1,1\n")}, fault=forbidden("s/3.csv.gz")),
    "csv with too few fields": Bad(1, {"s/3.csv": "1,1\n2\n"}),
    "csv with a wrong value": Bad(1, {"s/3.csv": "1,x\n"}),
    "csv not UTF-8": Bad(1, {"s/3.csv": b"1,\xff\n"}),
    "csv kept aside": Bad(0, {"s/3.csv": "1,1\n1,x\n2\n"}, QUARANTINE),
    "csv of blanks": Bad(0, {"s/3.csv": "\n  \n"}),
    "csv of nothing": Bad(0, {"s/3.csv": ""}),
    "wrong tag": Bad(1, {"s/3.csv": "+,1,1\n*,1,1\n"}, setting="tagged", spark=True),
    "wrong tag kept aside": Bad(0, {"s/3.csv": "+,1,1\n*,1,1\n"}, QUARANTINE, setting="tagged"),
    "deletion of what is not there": Bad(1, {"gone/3.csv": "7,7\n"}),
    "deletion of more than is there": Bad(1, {"s/3.csv": "-,1,10\n-,1,10\n-,1,10\n"}, setting="tagged", spark=True),
    "json cut off": Bad(1, {"s/3.json": '{"A": 1}\n{"A": '}, setting="json"),
    "json that is no object": Bad(1, {"s/3.json": "[1, 2]\n"}, setting="json"),
    "json with a wrong value": Bad(1, {"s/3.json": '{"A": "1"}\n'}, setting="json"),
    "json kept aside": Bad(0, {"s/3.json": '{"A": 1}\n{"A": \n7\n'}, QUARANTINE, setting="json"),
    "text not UTF-8": Bad(1, {"s/3.txt": b"a\n\xe4\n"}, setting="text"),
    "gzip cut off": Bad(1, {"s/3.csv.gz": gzip.compress(b"1,1\n" * 500, mtime=0)[:-12]}),
    "gzip of something else": Bad(1, {"s/3.csv.gz": "1,1\n"}),
    "zstd cut off": Bad(1, {"s/3.csv.zst": pa.compress(b"1,1\n" * 500, "zstd", asbytes=True)[:-2]}),
    "zstd of something else": Bad(1, {"s/3.csv.zst": "1,1\n"}),
    "packed in a way that is not read": Bad(1, {"s/3.csv.lz4": "1,1\n"}),
    "xml not well-formed": Bad(1, {"s/3.xml": "<r>\n<a>1</b></r>"}, setting="xml"),
    "xml of nothing": Bad(1, {"s/3.xml": ""}, setting="xml"),
    "parquet with another type": Bad(1, {"s/3.parquet": parquet(A=WORDS)}, setting="parquet"),
    "parquet without the column": Bad(1, {"s/3.parquet": parquet(B=LONGS)}, setting="parquet"),
    "parquet cut off": Bad(1, {"s/3.parquet": parquet(A=LONGS)[:-20]}, setting="parquet", spark=True),
    "parquet damaged inside": Bad(
        1, {"s/3.parquet": b"PAR1" + b"\0" * 60 + parquet(A=LONGS)[64:]}, setting="parquet", spark=True
    ),
    "parquet of nothing": Bad(1, {"s/3.parquet": b""}, setting="parquet"),
    "orc with another type": Bad(1, {"s/3.orc": orc_file(A=WORDS)}, setting="orc"),
    "orc cut off": Bad(1, {"s/3.orc": orc_file(A=LONGS)[:-20]}, setting="orc"),
    "file changed": Bad(1, {"s/1.csv": "1,10\n2,21\n"}),
    "file gone": Bad(1, {"s/1.csv": Put.NOTHING, "s/3.csv": "1,1\n"}),
}

MACHINE: dict[str, Bad] = {
    "no room for the answer": Bad(3, {"s/3.csv": "1,1\n"}, fault=no_space("out")),
    "no room for a state": Bad(3, {"s/3.csv": "1,1\n"}, fault=no_space("runs")),
    "no room for the manifest": Bad(3, {"s/3.csv": "1,1\n"}, fault=no_space("manifest")),
    "no room for malformed rows": Bad(3, {"s/3.csv": "x\n"}, QUARANTINE, fault=no_space("aside")),
    "no room, no checkpoint": Bad(3, fault=no_space("out"), starts_over=True),
    "no room for malformed rows, no checkpoint": Bad(
        3, {"s/3.csv": "x\n"}, QUARANTINE, fault=room_for(80), starts_over=True
    ),
    "files may not be so large": Bad(3, {"s/3.csv": "1,1\n"}, fault=room_for(64)),
    "files may not be so large, no checkpoint": Bad(3, fault=room_for(16), starts_over=True),
    "division by zero": Bad(1, {"s/3.csv": "1,0\n"}, setting="numbers", spark=True),
    "overflow": Bad(1, {"s/3.csv": "2147483647,1\n"}, setting="numbers"),
    "run interrupted": Bad(130, command=("run", "{home}/q.mrql"), fault=interrupted_run),
    "interrupted twice": Bad(130, {"s/3.csv": "1,1\n"}, fault=interrupted),
}

CASES: dict[str, Bad] = {**QUERY_FILES, **OPTIONS, **DATA, **MACHINE}
