"""The summary of `mrql explain`, on one screen: what a batch costs, and what is kept."""

from __future__ import annotations

import itertools
import sys
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given, settings

import mrql
from mrql.api.arguments import Loop
from mrql.explain import explain_html, explain_summary, explain_trace
from mrql.explain.plan_facts import facts_of
from mrql.explain.tables import Role
from mrql.output.terminal import page_width
from mrql.rewrite.passes import Trace
from mrql.rewrite.plan.circuit import circuit_of
from mrql.rewrite.plan.cost import Cost
from mrql.translate.compile_program import compile_program
from tests.support.golden_cases import program_traces, traces
from tests.support.incremental_cases import CONSTRUCTS, STREAMS, Construct
from tests.support.planning import planned
from tests.support.queries import STREAMS as GENERATED_STREAMS
from tests.support.queries import queries
from tests.tpch.cases import NAMES, case

WIDTHS = pytest.mark.parametrize("width", [100, 80])
EACH_CONSTRUCT = pytest.mark.parametrize("construct", CONSTRUCTS, ids=[each.name for each in CONSTRUCTS])


def section(trace: Trace, title: str, width: int = 100) -> list[str]:
    """The lines under a heading, up to an empty one."""
    lines = explain_summary(trace, width).split("\n")
    start = lines.index(title) + 2
    assert set(lines[start - 1]) == {"─"}
    return [*itertools.takewhile(bool, lines[start:])]


def said(trace: Trace, title: str = "What a batch costs", width: int = 100) -> dict[str, str]:
    """The text after each name in a section."""
    found: dict[str, str] = {}
    for line in section(trace, title, width):
        name = line.split()[0] if line[2] != " " else [*found][-1]
        rest = line[2:].removeprefix(name)
        found[name] = f"{found.get(name, '')} {' '.join(rest.split())}".strip()
    return found


def compiled(text: str) -> Trace:
    return mrql.compile(text, **STREAMS).trace()


@EACH_CONSTRUCT
@WIDTHS
def test_it_says_what_the_circuit_does(construct: Construct, width: int) -> None:
    """Each stage, each derived stream and the answer has the largest cost of its operators, with the reason if that is
    more than the delta."""
    trace = compiled(construct.query)
    plan, circuit, found = trace.plan, circuit_of(trace.plan), said(trace, width=width)
    wanted = {stage.name: circuit.works(stage.name) for stage in plan.stages}
    wanted |= {derived.name: (circuit.change(derived.name),) for derived in plan.derived}
    wanted |= {"answer": (circuit.change("answer"),)}
    assert {name for name in found if "fed back" not in found[name]} == wanted.keys()
    for name, works in wanted.items():
        most = Cost.largest(work.reads for work in works)
        assert most.value in found[name], name
        for work in works if most is not Cost.DELTA else ():
            assert work.reads is not most or (work.brief and work.brief in found[name]), name


@EACH_CONSTRUCT
def test_each_state_is_there(construct: Construct) -> None:
    """All tables of all stages are listed, each with its keys and its columns."""
    trace = compiled(construct.query)
    tables = [table for stage in facts_of(trace).stages for table in stage.tables]
    found = said(trace, "What is kept") if tables else {}
    assert found.keys() == {table.name for table in tables}
    for table in tables:
        keys = [column.name for column in table.keys]
        assert not keys or f"by {', '.join(keys)}" in found[table.name]
        values = [c.name for c in table.columns if c.role in (Role.COMPONENT, Role.ELEMENT)]
        assert all(value in found[table.name] for value in values)


def every_trace() -> dict[str, Trace]:
    """The traces of the golden files, of the query files, and of TPC-H."""
    files = {f"{name}:{i}": trace for name, found in program_traces().items() for i, trace in enumerate(found)}
    return {**traces(), **files, **{name: case(name).query.trace() for name in NAMES}}


@WIDTHS
@pytest.mark.parametrize("trace", every_trace().values(), ids=every_trace().keys())
def test_it_is_one_screen(trace: Trace, width: int) -> None:
    """The summary has at most 40 lines, none of which is too long or ends with a space, also for TPC-H."""
    lines = explain_summary(trace, width).rstrip("\n").split("\n")
    assert len(lines) <= 40
    assert all(len(line) <= width for line in lines)
    assert [line for line in lines if line != line.rstrip()] == []


@WIDTHS
@pytest.mark.parametrize("name", ["q08", "q21"])
def test_each_part_has_one_line(name: str, width: int) -> None:
    trace = case(name).query.trace()
    parts = len(trace.plan.stages) + len(trace.plan.derived) + 1
    assert len(section(trace, "What a batch costs", width)) == parts
    assert len(explain_summary(trace, width).split("\n")) <= 32


@settings(max_examples=25, deadline=None)
@given(queries())
def test_every_query_is_explained(text: str) -> None:
    trace = planned(compile_program(text, "q", GENERATED_STREAMS).queries[-1].term)
    assert "answer" in said(trace, width=80)
    assert max(map(len, explain_summary(trace, 80).split("\n"))) <= 80


def test_what_it_says_of_a_join() -> None:
    query = "select (a, count(p)) from (a, b) in S, p in P where b = p.K group by a"
    assert said(compiled(query)) == {
        "X1": "groups by a: c (+); 2 joined the touched keys partners by key",
        "answer": "made from X1 the touched keys key by key",
    }
    assert said(compiled(query), "What is kept") == {"X1": "by a c (+)", "X1.S": "by b a", "X1.P": "by K how many rows"}


def test_a_batch_that_meets_an_input_by_another_key() -> None:
    found = said(compiled("select (a, p.V) from (a, b) in S, (c, d) in T, p in P where b = c and d = p.K"))
    assert found["X1"].endswith("the touched keys partners by key, in T by another")


RANKS = """
repeat ranks = select (n, 1.0) from n in (select distinct a from (a, b) in S)
  step select (b, 0.15 + 0.85 * sum(r)) from (a, r) in ranks, (c, b) in S where a = c group by b
  limit 5
"""


@WIDTHS
@pytest.mark.parametrize("strategy", ["exact", "diffuse", "recompute"])
def test_a_loop_says_its_way(strategy: Loop, width: int) -> None:
    """The strategy of a loop is named, and for `diffuse` also what is fed back to it."""
    trace = mrql.compile(RANKS, **STREAMS).trace(loop=strategy)
    text = " ".join(explain_summary(trace, width).split())
    assert f"(--loop {strategy})" in text
    for line in section(trace, "What a batch costs", width):
        assert line.split()[0] in {"X1", "X2", "X3", "X4", "X5", "X6", "D1", "D2", "D3", "D4", "D5", "C", "answer"}
    back = "what differs from C by more than 0.001 of its size is fed back to it, in at most 5 steps a batch"
    assert (back in text) == (strategy == "diffuse")
    assert (said(trace, width=width).get("C") == "what the loop had, fed back to it") == (strategy == "diffuse")


def test_what_is_cut_is_said_below() -> None:
    """A long list of aggregations does not push the cost off the screen."""
    sums = ", ".join(f"sum(b + {i})" for i in range(20))
    trace = compiled(f"select (a, {sums}) from (a, b) in S group by a")
    (stage, _) = section(trace, "What a batch costs", 80)
    assert "…" in stage
    assert stage.endswith("the delta")
    assert said(trace, "What is kept", 80)["X1"].count("(+)") == 20


def test_what_it_reads_and_what_may_be_deleted() -> None:
    text = " ".join(explain_summary(case("q21").query.trace()).split())
    assert "reads the streams lineitem, orders and supplier, and the table nation" in text
    assert "rows of lineitem, orders and supplier may be deleted: they are kept" in text


def test_what_it_leaves_out_is_in_the_derivation() -> None:
    """The query's text, the types of its inputs and the full reasons are in the derivation, not in the summary."""
    trace = case("q21").query.trace()
    (short, long) = explain_summary(trace), " ".join(explain_trace(trace).split())
    reason = trace.circuit.change("answer").reason
    assert reason is not None
    for text in ("<n_nationkey: long, n_name: string>", 'n.n_name = "SAUDI ARABIA"', reason):
        assert text not in " ".join(short.split())
        assert text in long


def test_a_notebook_has_all_of_it() -> None:
    """The HTML for a notebook has what is kept, with types, and the full reasons."""
    query = case("q21").query
    html = explain_html(query.trace(), query.type)
    for text in ("{&lt;n_nationkey: long, n_name: string&gt;}", "SAUDI ARABIA", "c: long (+)", "supplier by s_suppkey"):
        assert text in html
    assert str(query.trace().circuit.change("answer").reason) in html


class Terminal(StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [100, 80, 60])
def test_the_page_is_as_wide_as_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is as wide as the terminal, up to 100 columns, which is its width without a terminal."""
    assert page_width() == 100
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", str(columns))
    assert page_width() == columns
    monkeypatch.setenv("COLUMNS", "180")
    assert page_width() == 100


@pytest.mark.parametrize("width", [1, 20, 60])
def test_a_narrow_page(width: int) -> None:
    """The page has sixty columns if the terminal has fewer."""
    lines = explain_summary(case("q08").query.trace(), width).split("\n")
    assert 50 < max(map(len, lines)) <= 60


def test_the_two_other_pages_exclude_each_other(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from mrql.cli.main import main

    (tmp_path / "q.mrql").write_text("count({1, 2});")
    run = CliRunner().invoke(main, ["explain", "--derivation", "--passes", str(tmp_path / "q.mrql")])
    assert run.exit_code == 2
    assert "ask for one of them" in run.stderr
    for option, shown in (("--derivation", "The passes"), ("--passes", "Phase: prepare"), (None, "What a batch costs")):
        run = CliRunner().invoke(main, ["explain", *([option] if option else []), str(tmp_path / "q.mrql")])
        assert run.exit_code == 0
        assert shown in run.stdout, option
