"""The full explanation of a query, as text, JSON and a picture: it is complete, true of the plan, and readable."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

import mrql
from mrql.algebra import types as ty
from mrql.algebra.analysis.variables import alpha_equal
from mrql.algebra.monoids import BAG, INVARIANT, LIST, MAX, MIN, PRODUCT, SUM, Keyed, Monoid, ProductMonoid, is_group
from mrql.algebra.notation.parser import parse, parse_type
from mrql.algebra.notation.readable_names import tidy
from mrql.algebra.terms import Stream, pair_type
from mrql.explain import explain_graph, explain_html, explain_json, explain_trace
from mrql.explain.lineage import lineage_tree
from mrql.explain.plan_facts import diminisher, facts_of, without_inverse
from mrql.explain.tables import Role, stage_tables
from mrql.jobs.loading import compile_over_files
from mrql.rewrite.passes import Trace
from mrql.rewrite.plan.circuit import circuit_of
from mrql.rewrite.plan.delta_rules import linear_stage, touched_stage
from mrql.rewrite.plan.labels import component_names
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.plan import Shape
from mrql.translate.compile_program import compile_program
from tests.support.golden_cases import TYPES, program_traces, traces
from tests.support.incremental_cases import CONSTRUCTS, PYTHON, Construct
from tests.support.incremental_cases import trace_of as trace_of_construct
from tests.support.planning import planned
from tests.support.queries import STREAMS, queries

BLANK = "\n\n"
QUERIES = Path(__file__).parent.parent.parent.parent / "queries"
RECURSIVE = {"recursion": {"factorial", "gcd", "leaves", "insert"}, "trees": {"depth"}}
"""The recursive functions in query files, by the names of the files."""


def trace_of(query: str) -> Trace:
    (compiled,) = compile_program(query, "q", TYPES).queries
    return planned(compiled.term)


def all_traces() -> dict[str, Trace]:
    from_files = {f"{name}.mrql:{i}": t for name, found in program_traces().items() for i, t in enumerate(found)}
    return {**traces(), **from_files}


each_trace = pytest.mark.parametrize("trace", all_traces().values(), ids=all_traces().keys())


def sections(text: str) -> dict[str, str]:
    """The sections of an explanation by their titles."""
    lines = text.split("\n")
    heads = [i for i, line in enumerate(lines) if line and i + 1 < len(lines) and set(lines[i + 1]) == {"─"}]
    ends = [*heads[1:], len(lines)]
    return {lines[i]: "\n".join(lines[i + 2 : end]).rstrip("\n") + "\n" for i, end in zip(heads, ends, strict=True)}


@pytest.fixture(scope="module")
def paper() -> dict[str, str]:
    """The explanation of the first query of [MRQL] §2, section by section."""
    return sections(explain_trace(traces()["paper"]))


# --- the paper's query --------------------------------------------------------------------------


def test_the_sections_of_the_paper_s_query(paper: dict[str, str]) -> None:
    """The sections are the query, the passes, the stage, the answer, and what differs from the paper."""
    assert list(paper) == [
        "The query",
        "The passes",
        "Stage X1: groups by A",
        "The answer",
        "What differs from the paper",
    ]


def test_the_query_and_its_sources(paper: dict[str, str]) -> None:
    """The first section has the text, the types of the streams, and the term, with the join still a nested cMap."""
    assert "  select (x.A, avg(y.D)) from x in S1, y in S2 where x.B = y.C group by x.A\n" in paper["The query"]
    assert "  stream  S1  {<A: long, B: long>}\n  stream  S2  {<C: long, D: long>}\n" in paper["The query"]
    assert "groupBy(cMap(λx. cMap(λy. if x.B = y.C then" in paper["The query"]


def test_the_passes_with_their_sources(paper: dict[str, str]) -> None:
    """Each pass that changed something is shown with its source; the others are named."""
    passes = paper["The passes"]
    assert "after normalize, [MRQL] §6, rule 4:\n" in passes
    assert "after joins, [MRQL] §5:\n" in passes
    assert "after columns, [CU]:\n" in passes
    assert "nothing to do for loops, bands, quantifiers, unnest, selections, guarded\n" in passes


def test_h_of_section_10(paper: dict[str, str]) -> None:
    """The paper's `h`: the sum and the count by group, over `g(xs, ys)` by join key; averages skip missing values."""
    expected = """\
  h(S1, S2) =
    cMap(
      λ(k, s). {(
        k,
        (
          reduce(+, cMap(λD. {D as double}, s)),
          reduce(+, cMap(λD. if not is_null(D) then {1L} else {}, s))
        )
      )},
      groupBy(cMap(
        λ(j, (xs, ys)). cMap(λA. cMap(λD. {(A, D)}, ys), xs),
        coGroup(
          cMap(λx. if not has_null(x.B) then {(x.B, x.A)} else {}, S1),
          cMap(λy. if not has_null(y.C) then {(y.C, y.D)} else {}, S2)
        )
      ))
    )
"""
    assert paper["Stage X1: groups by A"].startswith(expected)


def test_the_merge_of_section_10(paper: dict[str, str]) -> None:
    """The stage has `⊗`, its judgement for each stream, and its diminisher."""
    expected = """\
  ⊗ = ⇑(+ × +)
    [S1: ⊎, S2: □] ⊢ h : ⇑(+ × +)
    [S1: □, S2: ⊎] ⊢ h : ⇑(+ × +)

  ⊗̃ = ⇓(− × −) ([MRQL] Def. 6)"""
    assert expected in paper["Stage X1: groups by A"]


def test_the_answer_of_section_10(paper: dict[str, str]) -> None:
    """The answer is the paper's `a`: the kMap that divides."""
    assert "\n  a(X1) = cMap(λ(k, (s, c)). {(k, s ÷ c)}, X1)\n" in paper["Stage X1: groups by A"]
    assert paper["The answer"].startswith("  a(X1), as above\n")


def test_what_is_stored_for_the_paper_s_query(paper: dict[str, str]) -> None:
    """The groups with their support, and the used columns of both sides by join key."""
    expected = """\
  what is stored
    X1     by A: long  n: support, s: double (+), c: long (+), touched
    X1.S1  by B: long  A: long, n: support
    X1.S2  by C: long  n: support, Σ high(y.D): long (+), Σ low(y.D): long (+), count y.D: long (+)
"""
    assert expected in paper["Stage X1: groups by A"]


def test_what_a_batch_of_the_paper_s_query_costs(paper: dict[str, str]) -> None:
    """What costs more than the delta has a reason; the changes of the answer cost the touched keys."""
    stage = paper["Stage X1: groups by A"]
    assert "    ΔS1 ⋈ S2 ⊎ S1' ⋈ ΔS2  → s, c, support\n" in stage
    assert "  what a batch costs: the touched keys\n" in stage
    assert "    the join S1 ⋈ S2: reads the touched keys, moves the delta\n      the partners of" in stage
    assert "    the groups of X1: reads and moves the delta\n" in stage
    assert "  how it changes with a batch costs the touched keys:\n" in paper["The answer"]


def test_what_differs_for_the_paper_s_query(paper: dict[str, str]) -> None:
    """The differences are pruned lineage, joins of any kind, support, and missing values."""
    differs = paper["What differs from the paper"]
    titles = [line for line in differs.split("\n") if line.startswith("  ") and not line.startswith("   ")]
    assert titles == ["  Lineage is pruned.", "  Any join.", "  Support, not values.", "  Missing values."]


def test_the_paper_s_own_form(paper: dict[str, str]) -> None:
    """The paper's form has `θ = (k, (j, ((), ())))`, an `h` that propagates it, and `a` over `reduce(⇑⊗, T(x))`."""
    differs = " ".join(paper["What differs from the paper"].split())
    assert "θ = (k, (j, ((), ())))" in differs
    assert "θ : (long, (long, ((), ())))" in differs
    assert "cMap(λ(θx, A). cMap(λ(θy, D). {((A, (j, (θx, θy))), D)}, ys), xs)" in differs
    expected = "cMap(λ(k, (s, c)). {(k, s ÷ c)}, reduce(⇑(+ × +), cMap(λ((k, θ), a). {(k, a)}, X1)))"
    assert expected in differs


# --- each kind of stage -------------------------------------------------------------------------


def test_a_total() -> None:
    """One row without a key: a batch costs the delta."""
    text = explain_trace(trace_of("sum(select p.Y from p in P)"))
    assert "Stage X1: a total\n" in text
    assert "  ⊗ = +\n    [P: ⊎] ⊢ h : +\n" in text
    assert "    X1    n: rows, X1: double (+), touched\n" in text
    assert "  what a batch costs: the delta\n" in text


def test_totals_over_the_same_rows() -> None:
    """Totals over the same rows are one stage, whose merge is a product."""
    text = explain_trace(trace_of("(sum(select p.Y from p in P), max(select p.Y from p in P))"))
    assert "Stage X1: totals\n" in text
    assert "  ⊗ = (+ × max)\n    [P: ⊎] ⊢ h : (+ × max)\n" in text
    assert "  no ⊗̃: max has no inverse, so that a deletion cannot be merged\n" in text


def test_a_bag() -> None:
    """A bag is stored as its rows with their weights, and the answer changes as the bag does."""
    text = explain_trace(trace_of("select (p.X, t.V) from p in P, t in p.T where t.U > 3"))
    assert "Stage X1: a bag\n" in text
    assert "  ⊗̃ = − ([MRQL] Def. 6)" in text
    assert "    X1    X: long, V: string, weight\n" in text
    assert "the bag X1: reads and moves the delta\n" in text
    assert "how it changes with a batch costs the delta:\n    what the batch adds to X1" in text


def test_a_co_group_that_uses_a_side_whole() -> None:
    """Each stream is judged by itself, and feeds its own component."""
    text = explain_trace(traces()["correlated"])
    assert "    [S1: ⊎, S2: □] ⊢ h : ⇑(□ × ⊎)\n    [S1: □, S2: ⊎] ⊢ h : ⇑(+ × □)\n" in text
    assert "    ΔS1  → vs, support\n    ΔS2  → s" in text
    assert "    X1.vs  by A: long  A: long, B: long, weight\n" in text
    assert "  A side of a join without partners stays.\n" in text


def test_keys_alone() -> None:
    """`distinct` stores only keys and their support."""
    text = explain_trace(traces()["distinct"])
    assert "    X1  by X: long  n: support, touched\n" in text
    assert "nothing but keys is stored" in text


def test_a_product() -> None:
    """A join without an equality is shown as a product, with the reason of its cost."""
    text = explain_trace(traces()["inequality"])
    assert "ΔS1 × S2 ⊎ S1' × ΔS2" in text
    assert "no equality links the sides: each new row meets all rows of the other side" in text


def test_a_join_of_three() -> None:
    """A join of three inputs looks up the touched keys, and joins none of its inputs anew."""
    text = " ".join(explain_trace(traces()["self_join"]).split())
    assert "the join S1·0 ⋈ S2 ⋈ S1·2: reads the touched keys, moves the delta" in text
    assert "anew" not in text


def test_a_join_that_is_made_again() -> None:
    """Beside a product, the joins keep their order: a batch of the third input meets the join of the first two."""
    query = mrql.compile(
        "select (x.A, z.A, w.C) from x in S1, y in S2, z in S1, w in S2 where x.B = y.C and y.D = z.A",
        S1="bag(<A: long, B: long>)",
        S2="bag(<C: long, D: long>)",
    )
    text = " ".join(query.explanation().split())
    assert "a batch of S1·2 joins S1·0 and S2·1 anew" in text
    assert "reads and moves the whole state" in text


def test_the_sides_of_a_union() -> None:
    """The sides of a union are judged together: a union with a side that does not change is no homomorphism."""
    text = explain_trace(traces()["union"])
    assert "    [S1: ⊎, S2: ⊎] ⊢ h : ⇑+\n" in text
    assert "n(S1): support, n(S2): support" in text


def test_two_joins_feed_one_state() -> None:
    """Two joins that feed one state each keep their own inputs, also of the same stream."""
    join = "select (x.{}, y.{}) from x in S1, y in S2 where x.{} = y.{}"
    sides = join.format("A", "D", "B", "C"), join.format("B", "C", "A", "D")
    trace = trace_of(f"select (k, sum(v)) from (k, v) in (({sides[0]}) union ({sides[1]})) group by k")
    (stage,) = trace.plan.stages
    names = [table.name for table in stage_tables(stage)]
    assert names == ["X1", "X1.1.S1", "X1.1.S2", "X1.2.S1", "X1.2.S2"]


def test_a_static_table() -> None:
    """A static table is joined with, but has no judgement."""
    text = explain_trace(traces()["static_table"])
    assert "  table   R   {<A: long, name: string>}\n" in text
    assert "    [S1: ⊎] ⊢ h : ⇑+\n" in text
    assert "    ΔS1 ⋈ R  → c, support\n" in text


def test_no_inverse() -> None:
    """If a merge has no inverse, the explanation names the part that has none."""
    text = explain_trace(traces()["having"])
    assert "  ⊗ = ⇑(+ × max × ⊎)\n" in text
    assert "  no ⊗̃: max has no inverse, so that a deletion cannot be merged\n" in text


def test_several_stages() -> None:
    """Each stage has a section, and so has the derived stream that the first passes on to the second."""
    text = explain_trace(traces()["two_nested"])
    titles = [title for title in sections(text) if title.startswith(("Stage", "Stream"))]
    assert titles == ["Stage X1: groups by B", "Stream D1: what is passed on", "Stage X2: groups by C"]
    assert "  ΔD1, its rows after a batch (+1) and before it (−1), costs the touched keys:\n" in text
    assert "  A stage of its own, not a part of the answer (X2).\n" in text


def test_an_answer_over_several_states() -> None:
    """A total beside another query's groups: the answer is put together from both."""
    text = explain_trace(traces()["having_total"])
    assert "the answer is put together from X2 and X1;" in " ".join(text.split())


def test_a_stage_that_reads_another() -> None:
    """A total inside the function of a group is a stage of its own, and the answer is over both."""
    text = explain_trace(traces()["having_total"])
    assert "  a(X1, X2) = cMap(λ(k, c). if c >= X2#0 ÷ X2#1 then {(k, c)} else {}, X1)\n" in text


def test_a_query_that_reads_no_stream() -> None:
    """A query that reads no stream has no stages, and its answer does not change."""
    text = explain_trace(trace_of("1 + 2"))
    assert "Stage" not in text
    assert "no stream is read: the answer does not change" in text


def test_a_term_without_a_text() -> None:
    """A query that was built as a term has no text to show."""
    text = explain_trace(planned(tidy(parse("cMap(λx. {x}, groupBy(S))", {"S": "{(long, long)}"}))))
    assert "The query\n─────────\n" in text


# --- the text -----------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [100, 80])
@each_trace
def test_the_text_keeps_its_width(trace: Trace, width: int) -> None:
    """No line is longer than asked for or ends with a space, and no two empty lines follow each other."""
    text = explain_trace(trace, width)
    assert max(map(len, text.split("\n"))) <= width
    assert [line for line in text.split("\n") if line != line.rstrip()] == []
    assert "\n\n\n" not in text
    assert text.endswith("\n")


@each_trace
def test_the_names_of_the_supply_are_not_shown(trace: Trace) -> None:
    """The terms that are shown, with readable names, are those of the plan up to bound names."""
    shown = facts_of(trace)
    for stage in shown.stages:
        assert alpha_equal(stage.h, stage.stage.derivation.h)
        assert alpha_equal(stage.answer, stage.stage.derivation.answer)
    assert alpha_equal(shown.answer, trace.plan.answer)


@each_trace
def test_explaining_is_quick(trace: Trace) -> None:
    """Explaining takes less than a second of computing."""

    def seconds() -> float:
        start = time.process_time()
        explain_trace(trace)
        return time.process_time() - start

    assert min(seconds() for _ in range(3)) < 1


RANKS = """
repeat ranks = select (n, 1.0) from n in (select distinct a from (a, b) in S)
  step select (b, 0.15 + 0.85 * sum(r)) from (a, r) in ranks, (c, b) in S where a = c group by b
  limit 3
"""


@pytest.mark.parametrize("read", [RANKS, f"select (n, count(r)) from (n, r) in ({RANKS}) group by n"])
@pytest.mark.parametrize("strategy", [strategy for strategy in LoopStrategy if strategy is not LoopStrategy.FIXPOINT])
def test_each_way_of_a_loop_is_explained(strategy: LoopStrategy, read: str) -> None:
    """Each strategy of a loop is explained in all forms, whether the loop is the answer or another stage reads it."""
    query = mrql.compile(read, S="{(long, long)}")
    trace = planned(query.term, strategy=strategy)
    text = explain_trace(trace)
    assert all(f"Stream {derived.name}: " in text for derived in trace.plan.derived)
    assert list(faults(explain_json(trace), SCHEMA)) == []
    assert "answer" in explain_html(trace, query.type)
    test_boxes_lie_apart_and_inside(trace)


def test_explaining_loads_no_spark() -> None:
    """Explaining a query does not import pyspark."""
    program = (
        "import sys; from mrql.explain import explain_trace; "
        "from mrql.translate.compile_program import compile_program; "
        "from mrql.rewrite.pipeline import plan_query; print(len(explain_trace(plan_query("
        "compile_program('1 + 2').queries[0].term)))); assert 'pyspark' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# --- what is said is true -----------------------------------------------------------------------


@each_trace
def test_the_lineage_tree_has_the_type_of_the_lineage(trace: Trace) -> None:
    """The type of the `θ` that is shown is that in the annotated term."""
    for stage in trace.plan.stages:
        annotated = explained = stage.derivation.annotated
        if stage.shape is Shape.TOTAL and len(stage.components) > 1:
            explained = annotated.items[0]  # type: ignore[union-attr]
        assert lineage_tree(stage.derivation.query).type == pair_type(explained)[0]


@each_trace
def test_the_tables_hold_the_components(trace: Trace) -> None:
    """Each component is a column of the groups or a table of its own, and each feed has a count."""
    for stage in trace.plan.stages:
        tables = stage_tables(stage)
        groups = [table for table in tables if table.role is Role.GROUPS]
        columns = {c.name for table in groups for c in table.columns if c.role is Role.COMPONENT}
        bags = {table.of for table in tables if table.role is Role.BAG}
        assert columns | bags == set(component_names(stage))
        counts = [c for table in groups for c in table.columns if c.role in (Role.SUPPORT, Role.ROWS)]
        assert len(counts) == (0 if stage.shape is Shape.BAG else len(stage.feeds))
        inputs = [table for table in tables if table.role is Role.INPUT]
        assert len(inputs) == sum(len(f.rows.inputs) for f in stage.feeds if len(f.rows.inputs) > 1)


@each_trace
def test_the_names_of_columns_are_distinct(trace: Trace) -> None:
    """Names are distinct among the keys of a table and among its other columns; no column is a tuple or a record."""
    for stage in trace.plan.stages:
        for table in stage_tables(stage):
            keys = [column.name for column in table.keys]
            others = [column.name for column in table.columns if column.role is not Role.KEY]
            assert len(set(keys)) == len(keys)
            assert len(set(others)) == len(others)
            assert not any(isinstance(column.type, ty.TupleType | ty.RecordType) for column in table.columns)


MERGES: tuple[tuple[Monoid, str | None], ...] = (
    (SUM, "−"),
    (BAG, "−"),
    (INVARIANT, "□"),
    (Keyed(ProductMonoid((INVARIANT, BAG, SUM))), "⇓(□ × − × −)"),
    (Keyed(Keyed(BAG)), "⇓⇓−"),
    (MAX, None),
    (LIST, None),
    (Keyed(ProductMonoid((SUM, MIN, PRODUCT, MIN))), None),
)


@pytest.mark.parametrize(("monoid", "expected"), MERGES, ids=lambda value: str(value))
def test_definition_6(monoid: Monoid, expected: str | None) -> None:
    """The diminisher in the paper's notation, for groups and only for them."""
    assert diminisher(monoid) == expected
    assert (expected is not None) is is_group(monoid)
    assert (without_inverse(monoid) == ()) is is_group(monoid)


def test_what_has_no_inverse_is_named_once() -> None:
    """The parts without an inverse are named once each, in their order."""
    assert without_inverse(Keyed(ProductMonoid((SUM, MIN, PRODUCT, MIN)))) == ("min", "*")


BY_KEY = {
    *("paper", "correlated", "having", "distinct", "nested_data", "union", "static_table"),
    *("groups_of_groups", "two_nested", "dependent", "band", "loop", "existing"),
}
"""The cases whose answer is made key by key from one state."""

BY_ELEMENT = {"self_join", "inequality"}
"""The cases whose answer is a bag that is kept."""


@pytest.mark.parametrize("name", traces())
def test_answers_by_key(name: str) -> None:
    """The changes of an answer cost the touched keys where it is made key by key from one state."""
    trace = traces()[name]
    cost = explain_json(trace)["answer"]["cost"]
    plan = trace.plan
    assert (touched_stage(plan.answer, plan.stages) is not None) is (name in BY_KEY)
    assert (linear_stage(plan.answer, plan.stages) is not None) is (name in BY_ELEMENT)
    known = dict.fromkeys(BY_KEY | {"total"}, "the touched keys") | dict.fromkeys(BY_ELEMENT, "the delta")
    assert cost == known.get(name, "the whole state")


# --- JSON ---------------------------------------------------------------------------------------

TEXT, FLAG, MAYBE, NUMBER = (str,), (bool,), (str, type(None)), (int, float)
THRESHOLD = {"epsilon": NUMBER, "abs_epsilon": NUMBER}
COLUMN = {"name": TEXT, "role": TEXT, "type": TEXT, "merge": MAYBE}
SCHEMA: dict[str, Any] = {
    "query": {"text": MAYBE, "place": MAYBE, "term": TEXT},
    "sources": [{"name": TEXT, "type": TEXT, "static": FLAG, "shrinks": FLAG, "trusted": FLAG}],
    "passes": [{"name": TEXT, "source": TEXT, "changed": FLAG, "term": MAYBE}],
    "stages": [
        {
            "name": TEXT,
            "shape": TEXT,
            "key": {"type": TEXT, "columns": [COLUMN]},
            "components": [{"name": TEXT, "monoid": TEXT, "type": TEXT}],
            "streams": [TEXT],
            "feeds": [
                {
                    "inputs": [{"name": TEXT, "stream": TEXT, "term": TEXT}],
                    "rows": TEXT,
                    "row": TEXT,
                    "shares": [{"component": TEXT, "term": TEXT}],
                    "supports": FLAG,
                    "delta": TEXT,
                }
            ],
            "stored": [{"table": TEXT, "holds": TEXT, "of": MAYBE, "columns": [COLUMN]}],
            "h": TEXT,
            "merge": TEXT,
            "judgements": [TEXT],
            "diminisher": MAYBE,
            "without_inverse": [TEXT],
            "answer": TEXT,
            "lineage": {"tree": TEXT, "type": TEXT, "dropped": [TEXT], "h": TEXT, "answer": TEXT},
            "cost": TEXT,
            "reason": MAYBE,
            "work": [{"what": TEXT, "reads": TEXT, "moves": TEXT, "reason": MAYBE}],
            "differences": [{"title": TEXT, "text": TEXT}],
        }
    ],
    "loops": [{"name": TEXT, "type": TEXT, "term": TEXT}],
    "strategies": [{"place": MAYBE, "strategy": TEXT, "reason": TEXT}],
    "derived": [{"name": TEXT, "type": TEXT, "term": TEXT, **THRESHOLD, "cost": TEXT, "reason": TEXT}],
    "carried": [{"name": TEXT, "value": TEXT, "start": TEXT, **THRESHOLD, "steps": NUMBER}],
    "operators": [
        {
            "id": TEXT,
            "kind": TEXT,
            "inputs": [TEXT],
            "linearity": TEXT,
            "delta": TEXT,
            "keeps": MAYBE,
            "cost": TEXT,
            "reason": MAYBE,
            "stage": MAYBE,
        }
    ],
    "python": [{"function": TEXT, "reason": TEXT}],
    "answer": {"term": TEXT, "cost": TEXT, "reason": TEXT},
}
"""The keys of a document and the types of its values; a list stands for lists of its one element."""


def faults(value: Any, schema: Any, path: str = "$") -> Iterator[str]:
    """The places where a value does not match the schema."""
    if isinstance(schema, dict):
        if not isinstance(value, dict) or list(value) != list(schema):
            yield f"{path}: {value!r}"
            return
        for key, inner in schema.items():
            yield from faults(value[key], inner, f"{path}.{key}")
    elif isinstance(schema, list):
        if not isinstance(value, list):
            yield f"{path}: {value!r}"
            return
        for i, item in enumerate(value):
            yield from faults(item, schema[0], f"{path}[{i}]")
    elif not isinstance(value, schema):
        yield f"{path}: {value!r}"


@each_trace
def test_the_json_schema(trace: Trace) -> None:
    """Every document matches the schema, and is the same after being written as JSON and read."""
    document = explain_json(trace)
    assert list(faults(document, SCHEMA)) == []
    assert json.loads(json.dumps(document)) == document


@each_trace
def test_the_terms_in_json_read_back(trace: Trace) -> None:
    """The terms in the document parse back to those of the plan, up to bound names."""
    document = explain_json(trace)
    sources = {s["name"]: Stream(s["name"], parse_type(s["type"]), s["static"]) for s in document["sources"]}
    sources |= {d["name"]: Stream(d["name"], parse_type(d["type"])) for d in document["derived"]}
    variables = {stage.name: stage.var.type for stage in trace.plan.stages}
    assert alpha_equal(parse(document["query"]["term"], sources), trace.plan.query)
    assert alpha_equal(parse(document["answer"]["term"], sources, variables), trace.plan.answer)
    for shown, step in zip(document["passes"], trace.steps, strict=True):
        if shown["changed"]:
            assert alpha_equal(parse(shown["term"], sources), step.after)
    for shown, derived in zip(document["derived"], trace.plan.derived, strict=True):
        assert alpha_equal(parse(shown["term"], sources, variables), derived.term)
    for shown, stage in zip(document["stages"], trace.plan.stages, strict=True):
        derivation = stage.derivation
        assert alpha_equal(parse(shown["h"], sources), derivation.h)
        assert alpha_equal(parse(shown["answer"], sources, variables), derivation.answer)
        parse(shown["lineage"]["h"], sources)
        parse(shown["lineage"]["answer"], sources, {**variables, stage.name: derivation.annotated.type})


@each_trace
def test_the_feeds_in_json_read_back(trace: Trace) -> None:
    """The rows of a feed parse back over its inputs, and its shares over its rows, with the types of the plan."""
    tables = {t.name: t for t in _static(trace)}
    for shown, stage in zip(explain_json(trace)["stages"], trace.plan.stages, strict=True):
        for feed, actual in zip(shown["feeds"], stage.feeds, strict=True):
            inputs = {i["name"]: read.term.type for i, read in zip(feed["inputs"], actual.rows.inputs, strict=True)}
            rows = parse(feed["rows"], {**inputs, **tables})
            assert rows.type == actual.rows.body.type
            for share, (i, unit) in zip(feed["shares"], actual.units, strict=True):
                applied = parse(f"cMap(λ{feed['row']}. {{{share['term']}}}, rows)", {"rows": rows.type})
                assert applied.type == ty.BagType(unit.type)
                assert share["component"] == shown["components"][i]["name"]


def _static(trace: Trace) -> list[Stream]:
    return [Stream(name, t, static=True) for name, t in trace.plan.tables.items()]


def test_the_document_of_the_paper_s_query() -> None:
    """The document of the paper's query has its stage's shape, merge, streams, tables, lineage and cost."""
    (stage,) = explain_json(traces()["paper"])["stages"]
    assert stage["shape"] == "keyed"
    assert stage["merge"] == "⇑(+ × +)"
    assert stage["diminisher"] == "⇓(− × −)"
    assert stage["streams"] == ["S1", "S2"]
    assert [c["name"] for c in stage["components"]] == ["s", "c"]
    assert [(t["table"], t["holds"], t["of"]) for t in stage["stored"]] == [
        ("X1", "groups", None),
        ("X1.S1", "input", "S1"),
        ("X1.S2", "input", "S2"),
    ]
    assert stage["lineage"]["tree"] == "(k, (j, ((), ())))"
    assert stage["lineage"]["dropped"] == ["j"]
    assert stage["cost"] == "the touched keys"
    assert stage["reason"] is not None


@settings(max_examples=25, deadline=None)
@given(queries())
def test_every_query_is_explained(text: str) -> None:
    """Every query has an explanation, whose document matches the schema and the plan."""
    trace = planned(compile_program(text, "q", STREAMS).queries[-1].term)
    assert sections(explain_trace(trace))["The query"]
    assert list(faults(explain_json(trace), SCHEMA)) == []
    test_the_terms_in_json_read_back(trace)
    test_the_lineage_tree_has_the_type_of_the_lineage(trace)
    test_boxes_lie_apart_and_inside(trace)


# --- the picture --------------------------------------------------------------------------------

SVG = "{http://www.w3.org/2000/svg}"


def boxes(svg: ElementTree.Element) -> list[tuple[float, float, float, float]]:
    """The boxes of a picture, without its background: left, top, right, bottom."""
    rects = [rect for rect in svg.iter(f"{SVG}rect") if rect.get("class")]
    corners = [tuple(float(rect.get(a, "")) for a in ("x", "y", "width", "height")) for rect in rects]
    return [(x, y, x + width, y + height) for x, y, width, height in corners]


@each_trace
def test_the_picture_is_well_formed(trace: Trace) -> None:
    """The picture is XML with a box for each operator of the circuit, and is the same each time."""
    text = explain_graph(trace)
    svg = ElementTree.fromstring(text)
    kinds = [rect.get("class") for rect in svg.iter(f"{SVG}rect") if rect.get("class")]
    plan, operators = trace.plan, circuit_of(trace.plan).operators
    assert len(kinds) == len(operators)
    counted = Counter(kinds) - Counter(operator=len(operators))
    tables = len(plan.tables) + len(plan.loops)
    assert counted == Counter(source=len(plan.streams), table=tables, stage=len(plan.stages), answer=1)
    assert explain_graph(trace) == text


@each_trace
def test_boxes_lie_apart_and_inside(trace: Trace) -> None:
    """No box overlaps another or the edge, and text stays in its box."""
    svg = ElementTree.fromstring(explain_graph(trace))
    found = boxes(svg)
    width, height = float(svg.get("width", "")), float(svg.get("height", ""))
    assert all(left >= 0 and top >= 0 and right <= width and bottom <= height for left, top, right, bottom in found)
    for a, b in combinations(found, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    for text in svg.iter(f"{SVG}text"):
        x, y = float(text.get("x", "")), float(text.get("y", ""))
        end = x + 7.25 * len(text.text or "")
        assert any(left < x and end < right and top < y < bottom for left, top, right, bottom in found)


@each_trace
def test_nothing_is_cut_without_a_tooltip(trace: Trace) -> None:
    """A box has a title with the whole text exactly if it cuts a line or leaves lines out."""
    svg = ElementTree.fromstring(explain_graph(trace))
    for box in svg.iter(f"{SVG}g"):
        lines = [text.text or "" for text in box.iter(f"{SVG}text")]
        assert len(lines) <= 16
        assert all(len(line) <= 60 for line in lines)
        whole = box.findtext(f"{SVG}title")
        if any(line.endswith("…") or line.startswith("… and ") for line in lines):
            assert whole is not None
            assert [line for line in whole.split("\n") if line not in lines]
        else:
            assert whole is None


def test_a_long_answer_and_a_long_type_are_cut() -> None:
    """A long answer and a long type are both cut, so that the test above covers boxes of both kinds."""
    columns = ", ".join(f"column_{i}: long" for i in range(9))
    averages = ", ".join(f"sum(s.column_{i}) / (1 + count(s.column_{i}))" for i in range(9))
    text = f"select (k, {averages}) from s in S group by k: s.column_0"
    trace = planned(compile_program(text, "q", {"S": parse_type(f"{{<{columns}>}}")}).queries[-1].term)
    test_nothing_is_cut_without_a_tooltip(trace)
    said = explain_graph(trace)
    assert "… and " in said
    assert f"<title>stream S\n{{&lt;{columns}&gt;}}</title>" in said


def test_the_picture_of_the_paper_s_query() -> None:
    """Two sources are kept by key and joined; the join goes to the stage, and the stage to the answer."""
    svg = ElementTree.fromstring(explain_graph(traces()["paper"]))
    arrows = [path for path in svg.iter(f"{SVG}path") if path.get("marker-end")]
    assert len(arrows) == 6
    lines = [text.text for text in svg.iter(f"{SVG}text")]
    for line in (
        "X1.S1: index",
        "X1.join: join",
        "Δ = ΔS1 ⋈ S2 ⊎ S1' ⋈ ΔS2",
        "a batch costs the touched keys",
        "X1: groups by A",
        "key long",
        "⊗ = ⇑(+ × +)",
        "s: double, merged by +",
        "its changes cost the touched keys",
    ):
        assert line in lines


def test_names_are_escaped_in_the_picture() -> None:
    """The `<` and `>` of types are escaped in the picture."""
    assert "{&lt;A: long, B: long&gt;}" in explain_graph(traces()["paper"])


@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda construct: construct.name)
def test_rows_that_pass_through_python(construct: Construct) -> None:
    """No rows pass through Python, except through recursive and imported functions, which the explanation names."""
    trace = trace_of_construct(construct)
    found = [function.called for function in facts_of(trace).python]
    assert found == PYTHON.get(construct.name, [])
    line = "  Rows that pass through Python: none"
    assert (line in explain_trace(trace).split("\n")) == (not found)
    assert all(f"    `{name}`  it " in explain_trace(trace) for name in found)


@pytest.mark.parametrize("file", sorted(QUERIES.rglob("*.mrql")), ids=lambda file: file.stem)
def test_no_rows_of_query_files_pass_through_python(file: Path) -> None:
    """The files of `queries/` compile to Catalyst as a whole, except for their recursive functions."""
    program = compile_over_files(file.read_text(encoding="utf-8"), str(file))
    found = {function.called for query in program.queries for function in facts_of(planned(query.term)).python}
    assert found == RECURSIVE.get(file.stem, set())


def test_constants_pass_no_rows_through_python() -> None:
    """A recursive function of constants is evaluated once, before any rows, and no rows pass through it."""
    gcd = "function gcd(a: long, b: long): long { if b > 0 then gcd(b, a mod b) else a }; "
    assert (
        facts_of(
            trace_of(gcd + "select (s.C, gcd(12, 18)) from s in S2 where s.C > sum(select gcd(x, 2) from x in 1..4)")
        ).python
        == ()
    )
