"""`mrql explain --passes`: every pass that ran is shown, with the changes that it has made."""

from __future__ import annotations

import json
from itertools import chain
from pathlib import Path

import pytest
from click.testing import CliRunner

import mrql
from mrql.algebra.analysis.traversal import map_children, subterms
from mrql.algebra.analysis.variables import alpha_equal
from mrql.algebra.terms import Term
from mrql.cli.main import main
from mrql.explain import explain_passes, passes_document
from mrql.explain.pass_changes import changed_part, changes
from mrql.rewrite.passes import Phase, Trace
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.plan import Plan, Stage
from tests.support.golden_cases import program_traces, traces
from tests.support.planning import planned

PAIRS = {"S": "{(long, long)}", "T": "{(long, long)}", "U": "{(long, long)}"}

SUMMED = "select (a, sum(b * d)) from (a, b) in S, (c, d) in T where a = c group by a"
TOTALS = "avg(select b from (a, b) in S)"
ORDERED = "select (a, f) from (a, b) in S, (c, d) in T, (e, f) in U where b = c and d = e"
CLOSURE = (
    "repeat x = S step select distinct z from z in (x union (select (a, d) from (a, b) in x, (c, d) in S where b = c))"
)
CARRIED = "repeat x = S step select (a, sum(b) / 2) from (a, b) in (x union S) group by a limit 3"


def trace_of(text: str, strategy: LoopStrategy = LoopStrategy.AUTO) -> Trace:
    return planned(mrql.compile(text, **PAIRS).term, strategy=strategy)


def all_traces() -> dict[str, Trace]:
    from_files = {f"{name}.mrql:{i}": t for name, found in program_traces().items() for i, t in enumerate(found)}
    of_loops = {"closure": trace_of(CLOSURE), "carried": trace_of(CARRIED, LoopStrategy.DIFFUSE)}
    return {**traces(), **from_files, **of_loops}


each_trace = pytest.mark.parametrize("trace", all_traces().values(), ids=all_traces().keys())


@each_trace
def test_every_pass_that_ran_is_shown_in_order(trace: Trace) -> None:
    """Each pass is shown under its phase, with its source and what it ran on; its condition is shown once."""
    text = explain_passes(trace, width=100_000)
    lines = iter(text.split("\n"))
    phase: Phase | None = None
    for run in trace.runs:
        if run.phase is not phase:
            phase = run.phase
            assert f"Phase: {phase.value}" in lines
        unchanged = "" if run.has_changed else ", which stays as it is"
        assert f"  {run.name}, {run.source}: on {run.subject}{unchanged}" in lines
    for rule in {run.name: run.rule for run in trace.runs}.values():
        assert text.count(f"    requires: {rule.requires}\n") == 1


@each_trace
def test_what_changed_is_shown(trace: Trace) -> None:
    """Changes are shown for a pass exactly if it changed something."""
    for run in trace.runs:
        assert bool(changes(run)) is run.has_changed, run.name


@each_trace
def test_a_changed_part_is_the_smallest_that_has_all_changes(trace: Trace) -> None:
    """The changed part is a subterm of the term before, and replacing it by the part after gives the term after."""
    for run in trace.runs:
        if isinstance(run.before, Plan | Stage) or isinstance(run.after, Plan | Stage) or not run.has_changed:
            continue
        before, after = changed_part(run.before, run.after)
        assert any(part is before for part in subterms(run.before))
        assert not alpha_equal(before, after)
        assert alpha_equal(put_back(run.before, before, after), run.after)


def put_back(whole: Term, part: Term, other: Term) -> Term:
    return other if whole is part else map_children(whole, lambda child: put_back(child, part, other))


@pytest.mark.parametrize(
    ("text", "name", "shown"),
    [
        (TOTALS, "share", ["stage X2:", "+ is kept in another stage", "stage X1, components:", "the answer:"]),
        (SUMMED, "partial", ["stage X1, feed 0, rows that one row stands for:", "its last 3 values are sums"]),
        (ORDERED, "order", ["stage X1, feed 0, rows for a batch of U·2:"]),
    ],
)
def test_passes_over_plans_are_shown(text: str, name: str, shown: list[str]) -> None:
    """A pass over a plan is shown with the stages and the parts of them that it changed."""
    of_pass = explain_passes(trace_of(text)).split(f"\n  {name}, ")[1].split("\n\n")[0]
    for line in shown:
        assert line in of_pass


@pytest.mark.parametrize(
    ("text", "strategy", "name"), [(CLOSURE, LoopStrategy.AUTO, "fixpoint"), (CARRIED, LoopStrategy.DIFFUSE, "diffuse")]
)
def test_the_choice_for_a_loop_is_shown(text: str, strategy: LoopStrategy, name: str) -> None:
    """The choice for a loop is shown in the phase of loops, with the reason that the plan gives."""
    trace = trace_of(text, strategy)
    of_phase = explain_passes(trace).split(f"Phase: {Phase.LOOPS.value}\n")[1].split("Phase: ")[0]
    assert f"  {name}, " in of_phase
    assert f"    chosen: {trace.plan.strategies[0].reason}\n" in of_phase


def test_no_term_is_shown_twice_as_a_whole() -> None:
    """The input of a pass is not shown if it was shown as the output of an earlier pass."""
    passes = {block.split(",")[0]: block for block in explain_passes(trace_of(SUMMED)).split("\n\n  ")[1:]}
    assert "    −\n" in passes["lineage"]
    assert "    −" not in passes["answer"], "the part of the query that the stage answers was shown before its lineage"


@each_trace
def test_the_document_says_the_same(trace: Trace) -> None:
    found = passes_document(trace)
    assert json.loads(json.dumps(found)) == found
    for shown, run in zip(found, trace.runs, strict=True):
        assert (shown["phase"], shown["name"], shown["subject"]) == (run.phase.value, run.name, run.subject)
        assert (shown["source"], shown["requires"]) == (run.source, run.rule.requires)
        assert shown["changed"] is run.has_changed
        assert len(shown["changes"]) == len(changes(run))


@pytest.mark.parametrize("width", [60, 100])
@each_trace
def test_lines_are_not_wider_than_asked_for(trace: Trace, width: int) -> None:
    """No line is wider than asked for, except those of one word or with a quoted name."""
    lines = explain_passes(trace, width).split("\n")
    assert [line for line in lines if len(line) > width and " " in line.strip() and "`" not in line] == []


def test_on_the_command_line(tmp_path: Path) -> None:
    """`--passes` replaces the usual explanation, for each expression, as text and as JSON."""
    file = tmp_path / "q.mrql"
    file.write_text('S = stream(csv, "s", ",", type((long, long)));\n' + TOTALS + ";\n1 + 2;\n")
    shown = CliRunner().invoke(main, ["explain", "--passes", str(file)], catch_exceptions=False)
    assert shown.exit_code == 0
    assert shown.output.count(f"Phase: {Phase.OPTIMIZE.value}") == 2
    assert "what a batch costs" not in shown.output
    data = CliRunner().invoke(main, ["explain", "--passes", "--json", str(file)], catch_exceptions=False)
    documents = json.loads(data.output)
    assert [document["line"] for document in documents] == [2, 3]
    assert {*chain(*documents)} == {"line", "type", "passes"}
    assert [run["name"] for run in documents[0]["passes"] if run["phase"] == Phase.OPTIMIZE.value] == [
        "share",
        "partial",
        "order",
    ]
