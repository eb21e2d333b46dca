"""The identities of states: equal where states mean the same, different where they do not."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import get_args

import attrs
import pytest

from mrql.algebra import catalog
from mrql.algebra import monoids as mo
from mrql.algebra import terms as t
from mrql.algebra import types as ty
from mrql.algebra.errors import InternalError
from mrql.algebra.evaluation import python_functions
from mrql.algebra.evaluation.python_modules import written
from mrql.cli.query_files import plan_of
from mrql.jobs.loading import compile_over_files
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.runtime.checkpoint import notation
from mrql.runtime.checkpoint.identity import Identities, identities

SOURCES = """
S = stream(csv, "s", ",", type((long, long)));
T = stream(csv, "t", ",", type((long, long)));
R = source(csv, "r", ",", type((long, long)));
"""
QUERY = "select (x, sum(y)) from (x, y) in S group by x;"


def known(query: str, sources: str = SOURCES, base: Path = Path("/data")) -> Identities:
    program = compile_over_files(sources + query, base=base)
    return identities(plan_of(program, program.queries[0], LoopStrategy.AUTO), program.sources)


def stages(query: str, sources: str = SOURCES) -> list[str]:
    return list(known(query, sources).stages.values())


@pytest.mark.parametrize(
    "other",
    [
        "select (a, sum(b)) from (a, b) in S group by a;",
        "select   (x,sum(y))\nfrom (x, y) in S\ngroup by x;",
        "select (k, sum(y)) from (x, y) in S group by k: x;",
    ],
)
def test_names_and_spaces_do_not_matter(other: str) -> None:
    """The identity of a state depends neither on the names of variables nor on the layout of the query."""
    assert known(other) == known(QUERY)


@pytest.mark.parametrize(
    "other",
    [
        "select (x, sum(y) + 1) from (x, y) in S group by x;",
        "select (x, sum(y)) from (x, y) in S group by x order by x limit 3;",
        "select (x, sum(y)) from (x, y) in S group by x having sum(y) > 3;",
    ],
)
def test_what_is_made_of_a_state_does_not_change_it(other: str) -> None:
    """Another answer over the same state changes the identity of the query, but not that of the state."""
    assert stages(other) == stages(QUERY)
    assert known(other).query != known(QUERY).query


@pytest.mark.parametrize(
    "other",
    [
        "select (x, sum(y + 1)) from (x, y) in S group by x;",
        "select (x, sum(y)) from (x, y) in T group by x;",
        "select (x, sum(y)) from (x, y) in S where x > 0 group by x;",
        "select (x, avg(y)) from (x, y) in S group by x;",
        "select (x, max(y)) from (x, y) in S group by x;",
        "select (y, sum(x)) from (x, y) in S group by y;",
    ],
)
def test_another_state_is_known_by_another_hash(other: str) -> None:
    """A state has another identity if the aggregation, the rows or the key differ."""
    assert not {*stages(other)} & {*stages(QUERY)}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"s", ","', '"elsewhere", ","'),
        ('"s", ","', '"s", ";"'),
        ('stream(csv, "s", ",", type((long, long)))', 'stream(csv, "s", ",", type((long, int)))'),
        ('stream(csv, "s", ",", type((long, long)))', 'stream(csv, "s", ",", type((long, long)), tagged)'),
        ('stream(csv, "s", ",", type((long, long)))', 'stream(csv, "s", ",", type((long, long)), nullValue("-"))'),
        ('stream(csv, "s", ",", type((long, long)))', 'stream(csv, "s", ",", type((long, long)), comment("-"))'),
        ("type((long, long)));", "type((long, long)), multiline);"),
        ("type((long, long)));", 'type((long, long)), dateFormat("yyyyMMdd"));'),
    ],
)
def test_a_source_is_a_part_of_a_state(old: str, new: str) -> None:
    """A state has another identity if the files, or the options for reading them, differ."""
    assert not {*stages(QUERY, SOURCES.replace(old, new))} & {*stages(QUERY)}


SHOP = "select (r.id, count(r)) from r in R group by r.id;"


def read_from(connector: str, address: str) -> Identities:
    return known(SHOP, f'R = stream({connector}, "{address}", type(<id: long>));')


@pytest.mark.parametrize(
    ("address", "others"),
    [
        (
            "postgresql://ann@db/x?table=t&column=id",
            [
                "postgresql://ann:one@db/x?table=t&column=id",
                "postgresql://ann:other@db/x?table=t&column=id",
                "postgresql://ann@db/x?password=one&table=t&column=id",
                "postgresql://ann@db/x?table=t&passwor%64=one&column=id&sslpassword=x",
            ],
        ),
    ],
)
def test_a_password_is_no_part_of_a_state(address: str, others: list[str]) -> None:
    """A password in an address is not part of the identity, so that states remain valid if it changes."""
    assert {known.query for known in (read_from("postgresql", other) for other in others)} == {
        read_from("postgresql", address).query
    }


def test_a_log_is_known_by_its_database_and_table() -> None:
    """A log is identified by its database, table and publication, and not by the server or the user."""
    same = [
        "postgresql:///x?table=t",
        "postgresql://a:b@c:1/x?table=t",
        "postgresql://d/?dbname=x&table=t&sslmode=require",
    ]
    others = ["postgresql:///y?table=t", "postgresql:///x?table=s.t", "postgresql:///x?table=t&publication=p"]
    (one,) = {read_from("postgresql_cdc", address).query for address in same}
    assert len({one, *(read_from("postgresql_cdc", address).query for address in others)}) == 4


def test_a_function_is_known_by_its_body() -> None:
    """A recursive function, which is not written out in a term, is identified by its body and not by its name."""
    query = "select (x, sum(f(y))) from (x, y) in S group by x;"
    one, same, other = (
        stages(query, f"{SOURCES}function f(n: long): long {{ if n < 2 then 1 else n {operator} f({n}) }};")
        for operator, n in (("*", "n - 1"), ("*", "n-1"), ("+", "n - 1"))
    )
    assert one == same
    assert one != other


def test_an_imported_function_is_known_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A state has another identity if the file of an imported function has changed."""
    monkeypatch.chdir(tmp_path)
    query = 'import f(long): long from "for_a_state"; select (x, sum(f(y))) from (x, y) in S group by x;'
    one, same, other = (imported_anew(query, tmp_path, body) for body in ("n + 1", "n + 1", "n + 22"))
    assert one == same
    assert one != other


@pytest.mark.parametrize(
    ("how", "helper"),
    [
        ("import helper_of_a_state", "helper_of_a_state.py"),
        ("from helper_of_a_state import g", "helper_of_a_state.py"),
        ("from inside_a_state import helper", "inside_a_state/helper.py"),
        ("import inside_a_state.helper", "inside_a_state/__init__.py"),
        ("from inside_a_state.way import helper", "inside_a_state/helper.py"),
    ],
)
def test_an_imported_function_is_known_by_what_its_file_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, helper: str
) -> None:
    """A state has another identity if a module has changed that the file of an imported function imports, directly or
    indirectly, in a package or not, at the top or in a function."""
    monkeypatch.chdir(tmp_path)
    package = tmp_path / "inside_a_state"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "way.py").write_text("from . import helper\n")
    (package / "helper.py").write_text("")
    (tmp_path / "helper_of_a_state.py").write_text("g = 1")
    query = 'import f(long): long from "for_a_state"; select (x, sum(f(y))) from (x, y) in S group by x;'
    for body in (f"n + 1\n\n{how}", f"n + 1\n\ndef h(n):\n    {how}"):
        found = []
        for content in ("", "", "a = 2"):
            (tmp_path / helper).write_text(f"g = 0\n{content}")
            for name in [name for name in sys.modules if name.startswith(("inside_a_state", "helper_of_a_state"))]:
                del sys.modules[name]
            found.append(imported_anew(query, tmp_path, body))
        one, same, other = found
        assert one == same
        assert one != other


def test_what_an_imported_function_is_made_of(tmp_path: Path) -> None:
    """Installed packages are identified by their version, what comes with Python not at all, and a file that is no
    Python text by its bytes."""
    (tmp_path / "m.py").write_text("import json, attrs, nowhere\nfrom .. import above\n")
    told = [written(["m"], str(tmp_path))]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(metadata, "version", lambda name: f"another {name}")
        told.append(written(["m"], str(tmp_path)))
    (tmp_path / "m.py").write_bytes(b"\xff\x00")
    told.append(written(["m"], str(tmp_path)))
    assert len({*told}) == 3
    assert written(["m"], str(tmp_path)) == told[2]


def imported_anew(query: str, directory: Path, body: str) -> dict[str, str]:
    """The identities of the stages, as in a new process, for a function with the given body."""
    (directory / "for_a_state.py").write_text(f"def f(n: int) -> int:\n    return {body}\n")
    sys.modules.pop("for_a_state", None)
    for remembered in (python_functions._loaded, python_functions._written):
        remembered.cache_clear()
    return dict(known(query).stages)


def test_a_state_does_not_depend_on_its_place() -> None:
    """The identities of the states of a pair of queries do not depend on the order of the pair."""
    groups = "(select (n, count(k)) from (k, n) in (select (x, count(y)) from (x, y) in S group by x) group by n)"
    total = "sum(select a * b from (a, b) in T)"
    one, other = stages(f"({groups}, {total});"), stages(f"({total}, {groups});")
    assert one != other
    assert sorted(one) == sorted(other)
    assert len({*one}) == 3


def test_a_stage_above_is_known_by_those_below() -> None:
    """A state computed from another state has another identity if that state differs."""
    text = "select (n, count(k)) from (k, n) in (select (x, {}(y)) from (x, y) in S group by x) group by n;"
    counts, sums = stages(text.format("count")), stages(text.format("sum"))
    assert not {*counts} & {*sums}


def test_states_that_are_the_same_are_told_apart() -> None:
    """Equal states in one query have different identities."""
    for text in (f"(({QUERY[:-1]}), ({QUERY[:-1]}));", "(count(S), count(S), count(T));"):
        assert len({*stages(text)}) == len(stages(text))


def test_a_hash_stays_the_same() -> None:
    """The hash of a state, which includes the format of states, is fixed: with another one a running stream would read
    all its data again."""
    assert known(QUERY).stages == {"X1": "cf4fb9078a686664"}


def test_a_fixpoint_is_known_by_its_loop() -> None:
    """A loop is identified by its start, its step and its limit, and not by its names or by queries beside it."""
    step = "select distinct z from z in (x union (select (a, d) from (a, b) in x, (c, d) in {} where b = c))"
    text = f"repeat x = S step {step}"
    reached = text.format("S")
    assert stages(f"{reached};") == stages(reached.replace("x", "y").replace("z", "w") + ";")
    assert {*stages(f"(({reached}), count(T));")} > {*stages(f"{reached};")}
    others = [text.format("T"), reached.replace("x = S", "x = T"), f"{reached} limit 2", f"{reached} limit 3"]
    known = [{*stages(f"{other};")} for other in [reached, *others]]
    assert all(not a & b for n, a in enumerate(known) for b in known[:n])


CHAINED = """
a = repeat x = (select (n, 1.0) from (n, m) in S)
      step select (n, 0.15 + DAMPING * sum(s)) from (n, s) in ((select (n, 0.0) from (n, m) in S) union
           (select (b, v / 4) from (p, v) in x, (c, b) in T where p = c)) group by n limit 20;
repeat y = (select (n, 1.0) from (n, v) in a)
      step select (n, 0.1 + 0.5 * sum(w)) from (n, w) in ((select (n, 0.0) from (n, v) in a) union
           (select (b, u * v / 10) from (p, u) in y, (q, v) in a, (c, b) in T where p = q and p = c))
      group by n limit 20;
"""


def test_a_loop_is_known_by_those_that_it_reads() -> None:
    """What a loop has carried over is not gone on with if a loop that it reads is another one."""

    def ledgers(damping: str) -> Mapping[str, str]:
        program = compile_over_files(SOURCES + CHAINED.replace("DAMPING", damping), base=Path("/data"))
        plan = plan_of(program, program.queries[-1], LoopStrategy.DIFFUSE)
        assert len(plan.feedbacks) == 2
        return identities(plan, program.sources).ledgers

    one, other = ledgers("0.85"), ledgers("0.5")
    assert one.keys() == other.keys()
    assert not {*one.values()} & {*other.values()}


# --- identities that never change -------------------------------------------------------------------------------------

WRITTEN = """
S = stream(csv, "s", ",", type((long, long)), deletions("gone"));
T = source(csv, "t", ";", header, type(<x: date, y: timestamp, z: double>));
J = stream(json, "j", type(<id: long, tags: bag(string), at: any>));
P = stream(postgresql, "postgresql://me@host/db?table=t&column=id", type(<id: long, name: string>));
L = stream(socket, "host:1");
data Tree = Leaf: long | Node: (Tree, Tree);
aggregation least(\\(a, b). if a < b then a else b, 0): long;
function f(n: long): long { if n < 2 then 1 else n * f(n - 1) };
"""
FIRST = [
    (
        "select (x, sum(y), max(y)) from (x, y) in S group by x;",
        "a1f4cf4c0f6aece5 16b89be5989d7d7e e379fdb44842e1ad",
    ),
    (
        'select (t.x, avg(t.z)) from (x, y) in S, t in T where t.z = y and t.x > date("2024-02-29") group by t.x;',
        "df58e4f037c3cc5c e4dd2384021e76fd e379fdb44842e1ad",
    ),
    (
        'select (j.id, count(w), some(w = "é")) from j in J, w in j.tags where j.at <> (null as any) group by j.id;',
        "9e7d7d32f53e0041 5759ce451a581b08",
    ),
    (
        "select distinct y from (x, y) in S where y not in (select p.id from p in P);",
        "80a0d7a980788db5 e6701f53fc1c3c4c 6f9e7616ba6d6370 e379fdb44842e1ad",
    ),
    (
        "(count(L), least(select y from (x, y) in S), sum(select f(x) * 1.5 from (x, y) in S));",
        "34e647b18ac4d047 4a2cdeb2a2433857 444c67878205d460 fee9a3c012cb1425 e379fdb44842e1ad",
    ),
    (
        "select (t, count(x)) from (x, y) in S group by t: Leaf(y);",
        "747a253e5d8aeef9 73cdfe18a13ae4f9 e379fdb44842e1ad",
    ),
    (
        "select x from (x, y) in S order by y desc limit 3;",
        "8a5be7f5f1eafaa6 3a832d413b690554 e379fdb44842e1ad",
    ),
    (
        "repeat w = S step select distinct e from e in (w union (select (a, d) from (a, b) in w, (b, d) in S));",
        "07b128b1ac3e4391 393b4d741f87adbd 337b0a1cab68b919 e379fdb44842e1ad",
    ),
    (
        "repeat (x, n) = (0.5, 0) step (x / 2 + count(S), n + 1) limit 3;",
        "9aba0303a2506f72 dc562e6ec6768a90 e379fdb44842e1ad",
    ),
]
"""Queries over all kinds of sources and operators, and the identities that they had when this was written."""


@pytest.mark.parametrize(("query", "first"), FIRST)
def test_what_states_were_known_by_at_first(query: str, first: str) -> None:
    """The identities of queries, states and ledgers are fixed, so that existing checkpoints can be continued."""
    found = known(query, WRITTEN)
    assert " ".join([found.query, *found.stages.values(), *found.ledgers.values()]) == first


def test_each_class_that_a_digest_is_made_of_is_written() -> None:
    """`notation` has each class that a digest is made of, with all fields in its `repr`; a new field is to be added
    there, and left out where it is unused."""
    unions = (t.Term, t.Pattern, mo.Monoid, ty.Type)
    classes = {kind for union in unions for kind in get_args(union)} | {t.Lambda, catalog.Column}
    assert classes <= notation.CLASSES.keys()
    for kind, named in notation.CLASSES.items():
        says = {field.name for field in attrs.fields(kind) if field.repr}
        assert set(named.fields.values()) == says, kind
    fields = {field.name for field in attrs.fields(catalog.SourceSpec) if field.repr} - {"texts"}
    fields |= {f"texts.{field.name}" for field in attrs.fields(catalog.TextOptions)}
    assert {attribute for attribute, _ in notation.SOURCE.values()} == fields


def test_what_has_no_notation_is_a_fault() -> None:
    with pytest.raises(InternalError, match="nothing says how a object is written"):
        notation.written(object())
