"""The cases of the golden files, and how the files are made from them.

`tests/golden/<pass>/<case>.txt` shows what a pass did to a query, `tests/golden/queries/<file>.txt` the whole
explanation of a file in `queries/`. They are written by `python -m tests.regenerate`, and read by `test_golden.py` and
by people.

A file is a list of sections, each a title at the margin and a text that is indented. A section named in `TERMS` holds a
term that `parse` reads back.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import attrs

from mrql.algebra import types as ty
from mrql.algebra.analysis.traversal import map_children
from mrql.algebra.analysis.variables import alpha_equal
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.notation.printer import pretty
from mrql.algebra.notation.readable_names import tidy
from mrql.algebra.terms import Stream, Term
from mrql.explain import explain_trace
from mrql.explain.lineage import lineage_tree
from mrql.explain.plan_facts import diminisher, without_inverse
from mrql.jobs.loading import compile_over_files
from mrql.rewrite.passes import PassRun, Trace
from mrql.rewrite.plan.labels import component_names
from mrql.rewrite.plan.plan import Stage
from mrql.translate.compile_program import compile_program
from mrql.translate.program import Program
from tests.support.planning import planned

ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
QUERIES = ROOT / "queries"

TYPES: dict[str, ty.Type] = {
    name: parse_type(t)
    for name, t in {
        "S1": "{<A: long, B: long>}",
        "S2": "{<C: long, D: long>}",
        "P": "{<X: long, Y: double, T: {<U: int, V: string>}>}",
        "R": "{<A: long, name: string>}",
    }.items()
}
"""The streams that the cases are over."""


@attrs.frozen
class Case:
    """A query, and what it shows; `static` are the sources that no batch changes."""

    name: str
    shows: str
    query: str
    static: frozenset[str] = frozenset()


CASES: tuple[Case, ...] = (
    Case(
        "paper",
        "the first query of [MRQL] §2 and §10: a join, a group-by and an average",
        "select (x.A, avg(y.D)) from x in S1, y in S2 where x.B = y.C group by x.A",
    ),
    Case(
        "correlated",
        "a nested select that is correlated by an equality becomes a coGroup ([MRQL] §6)",
        "select x from x in S1 where x.B > sum(select y.C from y in S2 where x.A = y.D)",
    ),
    Case(
        "dependent",
        "a nested select that looks up what is in a range of the outer row is a coGroup with a join ([NK] §3)",
        "select (x.A, sum(select y.D from h in x.B - 2..x.A, y in S2 where y.C = h)) from x in S1",
    ),
    Case(
        "band",
        "a window over an order becomes an equality of bins",
        "select (x.A, count(select y from y in S2 where y.C <= x.A and y.C > x.A - 10)) from x in S1",
    ),
    Case(
        "division",
        "a quantifier in another one, linked with the outer row, is a join with the keys that have a witness",
        "select x.B from x in S1 where all y in S2: some z in R: z.A = y.C and z.A = x.A",
    ),
    Case(
        "existing",
        "what is asked of the rows of a nested select, and of the rows around it, is asked before they are joined",
        "select x.A from x in S1 where x.B > 0 and exists(select y from y in S2 where y.C = x.A and y.D > 3)",
    ),
    Case(
        "two_nested",
        "two nested selects that are correlated with the same element by different keys",
        "select (x.A, count(select y from y in S2 where y.C = x.B), sum(select y.D from y in S2 where y.C = x.A)) "
        "from x in S1",
    ),
    Case(
        "uncorrelated",
        "a nested select that is the same for all elements is a value of its own",
        "select x.A from x in S1 where x.B > avg(select y.D from y in S2)",
    ),
    Case(
        "guarded",
        "a sum whose addends may leave their range is an error where it is asked for: there may be no element",
        "select x.A from x in S1 where x.B > sum(select y.C * y.D from y in S2)",
    ),
    Case(
        "loop",
        "the step of a loop is a query of its own: a join with what the loop carries becomes a coGroup",
        "select (k, count(v)) from (k, v) in (repeat x = (select (x.A, x.B) from x in S1) "
        "step (select (a, y.D) from (a, b) in x, y in S2 where b = y.C) limit 3) group by k",
    ),
    Case(
        "self_join",
        "three inputs, two of them occurrences of one stream",
        "select (x.A, z.A) from x in S1, y in S2, z in S1 where x.B = y.C and y.D = z.A",
    ),
    Case(
        "inequality",
        "a join without an equality is a join on the key ()",
        "select (x.A, y.C) from x in S1, y in S2 where x.A < y.C",
    ),
    Case(
        "having",
        "the function of a group is split: a count, an extreme that has no inverse, and the group itself",
        "select (k, max(p.Y), p) from p in P group by k: p.X having count(p) > 2",
    ),
    Case(
        "having_total",
        "totals over another stream in the function of a group have a state of their own, which the answer reads",
        "select (k, count(x)) from x in S1 group by k: x.A having count(x) >= avg(select y.D from y in S2)",
    ),
    Case(
        "groups_of_groups",
        "the outer key is a value of the inner group: the second stage reads how the groups of the first one change",
        "select (c, count(k)) from (k, c) in (select (k, count(p)) from p in P group by k: p.X) group by c",
    ),
    Case(
        "nested_data",
        "a generator over a part of an element is no join, and its elements are grouped without being built",
        "select <k: k, n: count(t), most: max(p.Y + t.U)> from p in P, t in p.T where t.U > 1 group by k: t.V",
    ),
    Case("distinct", "nothing but keys is stored", "select distinct p.X from p in P"),
    Case("top", "an ordered answer over a bag", "select (p.X, p.Y) from p in P order by p.Y desc, p.X limit 3"),
    Case("total", "totals over the same rows share a state", "avg(select p.Y from p in P where p.X > 1)"),
    Case(
        "union",
        "a cMap over a union is a union of cMaps, and each side feeds the same groups",
        "select (k, sum(v)) from (k, v) in ((select (x.A, x.B) from x in S1) union (select (y.C, y.D) from y in S2)) "
        "group by k",
    ),
    Case(
        "static_table",
        "a source that no batch changes: only the stream is judged",
        "select (r.name, count(x)) from x in S1, r in R where x.A = r.A group by r.name",
        frozenset({"R"}),
    ),
)


@cache
def traces() -> Mapping[str, Trace]:
    """The trace of each case, with every pass checked."""
    return {case.name: planned(compiled(case)) for case in CASES}


def compiled(case: Case) -> Term:
    """The query of a case in the algebra."""
    (query,) = compile_program(case.query, case.name, TYPES).queries
    return _with_static(query.term, case.static)


def _with_static(term: Term, names: frozenset[str]) -> Term:
    if isinstance(term, Stream):
        return attrs.evolve(term, static=term.name in names)
    return map_children(term, lambda child: _with_static(child, names))


@cache
def programs() -> Mapping[str, Program]:
    """The files in `queries/` by their names."""
    files = sorted(QUERIES.glob("*.mrql"))
    return {file.stem: compile_over_files(file.read_text(encoding="utf-8"), f"queries/{file.name}") for file in files}


@cache
def program_traces() -> Mapping[str, tuple[Trace, ...]]:
    """The trace of each query of each file in `queries/`."""
    return {name: tuple(planned(query.term) for query in program.queries) for name, program in programs().items()}


# --- the files ----------------------------------------------------------------------------------

TERMS = (
    "before",
    "after",
    "query",
    "with lineage",
    "h with lineage",
    "h",
    "answer of the stage",
    "passed on",
    "answer",
)
"""The titles of sections that hold a term, after the name of a stage where they belong to one."""

Section = tuple[str, str]


@cache
def golden_files() -> dict[Path, str]:
    """The expected text of every golden file, by its path under `tests/golden`."""
    files = {}
    for case in CASES:
        for name, sections in _sections(traces()[case.name]):
            files[Path(name) / f"{case.name}.txt"] = _file(case, sections)
    for name, of_file in program_traces().items():
        files[Path("queries") / f"{name}.txt"] = "\n".join(map(explain_trace, of_file))
    return files


def _file(case: Case, sections: list[Section]) -> str:
    header = [("case", case.shows), ("text", case.query)]
    return "\n".join(f"{title}\n{textwrap.indent(text, '  ')}\n" for title, text in (*header, *sections))


def _sections(trace: Trace) -> Iterator[tuple[str, list[Section]]]:
    """The sections for each pass; of the passes over terms, those that changed nothing have none."""
    for step in trace.steps:
        if not alpha_equal(step.before, step.after):
            yield step.name, _step(step)
    stages = trace.plan.stages
    yield "lineage", [section for stage in stages for section in _lineage(stage)]
    yield "split", [section for stage in stages for section in _split(stage)]
    yield "prune", [section for stage in stages for section in _prune(stage)]
    passed = [(f"{derived.name}: passed on", text(derived.term)) for derived in trace.plan.derived]
    answers = [section for stage in stages for section in _answer(stage)]
    yield "answer", [*answers, *passed, ("answer", text(trace.plan.answer))]
    yield "diminish", [section for stage in stages for section in _diminish(stage)]


def _step(step: PassRun) -> list[Section]:
    return [("before", text(step.before)), ("after", text(step.after))]


def _lineage(stage: Stage) -> Iterator[Section]:
    yield f"{stage.name}: query", text(stage.derivation.query)
    yield f"{stage.name}: θ", lineage_tree(tidy(stage.derivation.query)).text
    yield f"{stage.name}: with lineage", text(stage.derivation.lineage)


def _split(stage: Stage) -> Iterator[Section]:
    components = zip(component_names(stage), stage.components, strict=True)
    shown = [f"{name}: {component.type}, by {component.monoid}" for name, component in components]
    yield f"{stage.name}: with lineage", text(stage.derivation.lineage)
    yield f"{stage.name}: components", "\n".join(shown) or "none"
    yield f"{stage.name}: h with lineage", text(stage.derivation.annotated)


def _prune(stage: Stage) -> Iterator[Section]:
    yield f"{stage.name}: h with lineage", text(stage.derivation.annotated)
    yield f"{stage.name}: h", text(stage.derivation.h)


def _answer(stage: Stage) -> Iterator[Section]:
    yield f"{stage.name}: h", text(stage.derivation.h)
    yield f"{stage.name}: answer of the stage", text(stage.derivation.answer)


def _diminish(stage: Stage) -> Iterator[Section]:
    yield f"{stage.name}: ⊗", str(stage.merge)
    missing = without_inverse(stage.merge)
    yield f"{stage.name}: ⊗̃", diminisher(stage.merge) or f"none: {', '.join(missing)}"


def text(term: Term) -> str:
    """A term as the golden files hold it: over several lines, with all that is needed to read it back."""
    return pretty(tidy(term), width=98)


def terms_in(golden: str) -> list[tuple[str, str]]:
    """The sections of a file that hold terms: their titles and the text of the term."""
    found = re.findall(r"^(\S.*)\n((?:  .*\n|\n)+)", golden, flags=re.MULTILINE)
    return [(title, textwrap.dedent(body)) for title, body in found if title.split(": ")[-1] in TERMS]
