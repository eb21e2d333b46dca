"""The one screen that `mrql explain` begins with: what is kept, and what a batch costs."""

from __future__ import annotations

from pathlib import Path

import pytest

import mrql
from mrql.explain import explain_summary
from mrql.rewrite.passes import Trace
from mrql.rewrite.plan.circuit import circuit_of
from tests.support.incremental_cases import CONSTRUCTS, STREAMS, Construct
from tests.tpch.cases import NAMES, case


def said(trace: Trace) -> dict[str, str]:
    """What is said of each stage, of what is passed on, and of the answer."""
    text = explain_summary(trace).split("──\n")[-1].split("\n\n")[0]
    found: dict[str, str] = {}
    for line in text.split("\n"):
        name, rest = line[:10].strip(), line[10:].strip()
        last = name or [*found][-1]
        found[last] = f"{found.get(last, '')} {rest}".strip()
    return found


@pytest.mark.parametrize("construct", CONSTRUCTS, ids=[each.name for each in CONSTRUCTS])
def test_it_says_what_the_circuit_does(construct: Construct) -> None:
    """Each stage, each derived stream and the answer has the cost that its operators have."""
    trace = mrql.compile(construct.query, **STREAMS).trace()
    plan, circuit, found = trace.plan, circuit_of(trace.plan), said(trace)
    wanted = {stage.name: circuit.cost(stage.name)[0].value for stage in plan.stages}
    wanted |= {derived.name: circuit.change(derived.name).reads.value for derived in plan.derived}
    wanted |= {"answer": circuit.change("answer").reads.value}
    assert {name for name in found if "fed back" not in found[name]} == wanted.keys()
    for name, cost in wanted.items():
        assert f"a batch costs {cost}" in found[name], name


@pytest.mark.parametrize("name", NAMES)
def test_it_is_one_screen(name: str) -> None:
    """Also of the queries of TPC-H, without a line that is too long."""
    lines = explain_summary(case(name).query.trace()).split("\n")
    assert len(lines) <= 60
    assert all(len(line) <= 100 for line in lines)


def test_what_it_says_of_a_join() -> None:
    query = "select (a, count(p)) from (a, b) in S, p in P where b = p.K group by a"
    assert said(mrql.compile(query, **STREAMS).trace()) == {
        "X1": "groups by a: c: long (+) joins S by b and P by K a batch costs the touched keys: the partners of a "
        "batch's rows are found by key, by going over what is kept where it lies",
        "answer": "made from X1 a batch costs the touched keys: each key of X1 has its own answer; those of the "
        "touched keys, before and after, are compared",
    }


def test_the_two_other_pages_exclude_each_other(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from mrql.cli.main import main

    (tmp_path / "q.mrql").write_text("count({1, 2});")
    run = CliRunner().invoke(main, ["explain", "--derivation", "--passes", str(tmp_path / "q.mrql")])
    assert run.exit_code == 2
    assert "ask for one of them" in run.stderr
    for option, shown in (("--derivation", "The passes"), ("--passes", "Phase: prepare"), (None, "What is kept")):
        run = CliRunner().invoke(main, ["explain", *([option] if option else []), str(tmp_path / "q.mrql")])
        assert run.exit_code == 0
        assert shown in run.stdout, option
