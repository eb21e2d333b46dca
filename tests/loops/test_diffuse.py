"""Loops whose values are carried over from batch to batch, `--loop diffuse`.

An answer is one whole step from the value that the loop was fed, and differs from that value by no more than the
residual.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.analysis.traversal import subterms
from mrql.algebra.analysis.variables import Names, all_names
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.terms import Repeat, Term, element_type
from mrql.algebra.types import BagType
from mrql.algebra.values.values import Bag, Value, close
from mrql.algebra.values.zset import ZSet
from mrql.cli.main import main
from mrql.rewrite.loops.diffuse import diffuse
from mrql.rewrite.plan.loop_strategy import LoopStrategy
from mrql.rewrite.plan.plan import Plan
from mrql.rewrite.plan.threshold import NOTHING, Threshold
from mrql.runtime.engine.residual import Residual, divided, relative_difference
from mrql.runtime.engine.residual import distance as residual_distance
from mrql.runtime.reference.view import ReferenceView
from mrql.runtime.spark.state import compaction
from queries.loops.generate import Batch
from tests.runtime.checkpoint.streams import Stream
from tests.support.loop_files import FILES, LOOPS, kmeans, pagerank, present
from tests.support.loop_queries import edge_histories
from tests.support.moving_points import MIDDLE, POINTS, assert_goes_on
from tests.support.planning import planned

RANKS = """
repeat r = select (a, 1.0) from (a, b) in E group by a
  step select (n, 0.15 + {damping} * sum(s))
         from (n, s) in ((select (a, 0.0) from (a, b) in E) union
                         (select (b, v / count(bs))
                            from (a, v) in r, (c, bs) in (select (a, b) from (a, b) in E group by a), b in bs
                           where a = c))
        group by n
 limit {steps}
"""
STREAMS = {"E": "bag((long, long))"}
SHRINKING = frozenset({"E", "edges", "points"})


def diffused(term: Term, threshold: Threshold = NOTHING) -> Plan:
    plan = planned(term, shrinking=SHRINKING, strategy=LoopStrategy.DIFFUSE, threshold=threshold).plan
    assert [chosen.strategy for chosen in plan.strategies] == [LoopStrategy.DIFFUSE]
    return plan


def step_from(term: Term, fed: ZSet, sources: dict[str, Bag]) -> Value:
    """One whole step of the loop in a query, from the value that it was fed."""
    (loop,) = (part for part in subterms(term) if isinstance(part, Repeat))
    (part,) = diffuse(loop, Names(set(all_names(term)))).parts
    return evaluate(part.value, {**sources, part.fed.name: fed.bag()})


def check_residual(view: ReferenceView, term: Term, sources: dict[str, Bag]) -> None:
    """Asserts that the answer is one step from the value that was fed, and differs from that by the residual."""
    (loop,) = view.plan.feedbacks
    (part,) = loop.parts
    fed = view.present.get(part.fed.name, ZSet())
    answer = view.answer()
    assert close(answer, step_from(term, fed, sources))
    assert isinstance(answer, Bag)
    _, residual = divided(ZSet.of(answer) - fed, element_type(part.fed), NOTHING)
    assert residual.change == pytest.approx(view.residual.change, abs=1e-12)
    assert residual.distance == pytest.approx(view.residual.distance, abs=1e-9)


# --- the query files ----------------------------------------------------------------------------


DIFFUSED = (
    ("pagerank", NOTHING),
    ("pagerank", Threshold(0.01)),
    ("pagerank", Threshold(absolute=0.1)),
    ("kmeans", NOTHING),
    ("kmeans", Threshold(0.05)),
)


@pytest.mark.wide(keep=2)
@pytest.mark.parametrize(("name", "threshold"), DIFFUSED, ids=str)
def test_query_files(name: str, threshold: Threshold, tmp_path: Path) -> None:
    """Each answer of a query file is within its residual, over the first rows and four batches; in `make soak` there
    are ten."""
    assert_within_residuals(tmp_path, name, threshold, FILES[name].history(4))


def assert_within_residuals(home: Path, name: str, threshold: Threshold, batches: list[Batch]) -> None:
    """Asserts that over batches with deletions each answer is within its residual, and that within the threshold."""
    file = FILES[name]
    program = file.program(home, steps=100)
    (query,) = program.queries
    ((stream, _),) = program.sources.items()
    view = ReferenceView(diffused(query.term, threshold))
    for number, batch in enumerate(batches):
        view.apply({stream: ZSet.of(file.bag(batch.inserted)) - ZSet.of(file.bag(batch.deleted))})
        rows = present(batches[: number + 1])
        check_residual(view, query.term, {stream: file.bag(rows)})
        if threshold.absolute:
            assert view.residual.distance <= threshold.absolute * view.residual.groups, f"batch {number}"
        else:
            assert view.residual.change <= max(threshold.relative, 1e-4), f"batch {number}"
        if name == "pagerank":
            expected = pagerank(rows, 200)
            off, all_of_it = distance(view.answer(), expected), sum(dict(expected.items).values())  # type: ignore[arg-type]
            assert off <= CONTRACTION * view.residual.distance + 1e-9
            assert off / all_of_it <= CONTRACTION * view.residual.change + 1e-9


CONTRACTION = 0.85 / (1 - 0.85)
"""The sum of the factors 0.85, 0.85², … by which further steps with a damping of 0.85 reduce a distance."""


def distance(found: Value, expected: Bag) -> float:
    """The sum of the absolute differences of the ranks."""
    assert isinstance(found, Bag)
    one, other = dict(found.items), dict(expected.items)  # type: ignore[arg-type]
    assert one.keys() == other.keys()
    return sum(abs(one[page] - other[page]) for page in one)


def test_the_first_batch_takes_the_steps_of_the_loop(tmp_path: Path) -> None:
    """Without a threshold the first answer is that of the loop itself, from the same start and after as many steps."""
    file = FILES["pagerank"]
    program = file.program(tmp_path, steps=7)
    (query,) = program.queries
    view = ReferenceView(diffused(query.term))
    (batch, *_) = file.history(1)
    view.apply({"edges": ZSet.of(batch.inserted)})
    assert close(view.answer(), pagerank(batch.inserted, 7))


def test_flags_are_not_carried_over(tmp_path: Path) -> None:
    """The flag beside a centre is not carried over: the loop goes on while a centre moves."""
    file = FILES["kmeans"]
    program = file.program(tmp_path)
    (query,) = program.queries
    plan = diffused(query.term)
    (part,) = plan.feedbacks[0].parts
    assert str(part.fed.type) == "{<X: double, Y: double>}"
    view = ReferenceView(plan)
    rows = present(file.history(0))
    view.apply({"points": ZSet.of(file.bag(rows))})
    assert close(view.answer(), kmeans(rows))


def test_a_loop_that_has_nothing_begins_anew(tmp_path: Path) -> None:
    """A loop whose value has become empty, as all points are gone, begins anew."""
    file = FILES["kmeans"]
    program = file.program(tmp_path)
    (query,) = program.queries
    view = ReferenceView(diffused(query.term))
    rows = file.bag(present(file.history(0)))
    for _ in range(2):
        view.apply({"points": ZSet.of(rows)})
        first = view.answer()
        view.apply({"points": -ZSet.of(rows)})
        assert view.answer() == Bag([])
        view.apply({"points": ZSet.of(rows)})
        assert close(view.answer(), first)
        view.apply({"points": -ZSet.of(rows)})


@pytest.mark.spark
@pytest.mark.parametrize("stepwise", [0, compaction.STEPS_MERGED_WHOLE_MAX_ROWS])
def test_a_loop_that_has_nothing_begins_anew_on_spark(
    spark: SparkSession, tmp_path: Path, stepwise: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if what was taken away lies beside what had been there."""
    monkeypatch.setattr(compaction, "STEPS_MERGED_WHOLE_MAX_ROWS", stepwise)
    file = FILES["kmeans"]
    program = file.program(tmp_path)
    (query,), ((stream, spec),) = program.queries, program.sources.items()
    rows = ZSet.of(file.bag(present(file.history(0))))
    assert_as_in_the_reference(spark, query.term, {stream: BagType(spec.row)}, [rows, -rows, rows], NOTHING)


# --- generated histories ------------------------------------------------------------------------

THRESHOLDS = (NOTHING, Threshold(0.01), Threshold(0.5), Threshold(absolute=0.1), Threshold(0.01, 0.2))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from((0.0, 0.3, 0.85)), st.sampled_from((1, 2, 25)), st.sampled_from(THRESHOLDS), edge_histories())
def test_any_history(damping: float, steps: int, threshold: Threshold, history: list[dict[str, ZSet]]) -> None:
    """Over histories in which pages come, vanish and return, each answer differs from the value that was fed by its
    residual."""
    term = mrql.compile(RANKS.format(damping=damping, steps=steps), **STREAMS).term
    view = ReferenceView(diffused(term, threshold))
    held = ZSet()
    for batch in history:
        change = batch.get("E", ZSet())
        held = held + change
        view.apply({"E": change})
        check_residual(view, term, {"E": held.bag()})


def test_a_batch_that_fails_changes_nothing() -> None:
    """After a batch that fails, the answer and the value that the loop was fed are as before."""
    text = RANKS.format(damping=0.5, steps=10).replace("0.15 +", "1 / (if n = 9 then 0 else 1) +")
    view = ReferenceView(diffused(mrql.compile(text, **STREAMS).term))
    view.apply({"E": ZSet.of([(1, 2), (2, 3)])})
    before, fed = view.answer(), dict(view.present)
    with pytest.raises(UserError, match="division by zero"):
        view.apply({"E": ZSet.of([(3, 9), (9, 1)])})
    assert view.answer() == before
    assert view.present == fed


def test_a_loop_that_does_not_come_to_rest() -> None:
    """A loop without a limit that does not come to rest is an error; here each step doubles the values."""
    text = "repeat r = select (a, 1.0) from (a, b) in E step select (a, 2 * v) from (a, v) in r"
    term = mrql.compile(text, max_steps=50, **STREAMS).term
    view = ReferenceView(diffused(term))
    with pytest.raises(UserError, match="after 50 steps it still changes"):
        view.apply({"E": ZSet.of([(1, 2)])})


# --- how far rows are from each other -----------------------------------------------------------

ROW = parse_type("(long, double)")


def test_what_matters() -> None:
    """A row that has hardly changed is withheld, but not one that is new or gone, or a group with more elements than
    before."""
    pending = ZSet.of([(1, 1.0), (2, 2.0), (3, 1.0), (4, 1.0), (4, 1.5)]) - ZSet.of([(1, 1.001), (2, 1.0), (4, 1.0001)])
    due, residual = divided(pending, ROW, Threshold(0.01))
    assert due == pending - (ZSet.of([(1, 1.0)]) - ZSet.of([(1, 1.001)]))
    assert residual == Residual(math.inf, 4, math.inf)
    alike = ZSet.of([(1, 1.0), (1, 5.0)]) - ZSet.of([(1, 5.1), (1, 1.0)])
    assert divided(alike, ROW, NOTHING)[1] == Residual(pytest.approx(0.1 / 5.1), 1, pytest.approx(0.1))
    assert divided(ZSet(), ROW, NOTHING) == (ZSet(), Residual())


@pytest.mark.parametrize(
    ("threshold", "matter"),
    [
        (NOTHING, {1, 2, 3}),
        (Threshold(0.01), {1, 3}),
        (Threshold(absolute=0.5), {2, 3}),
        (Threshold(0.01, 0.5), {3}),
        (Threshold(0.01, 2000), set[int]()),
    ],
)
def test_what_matters_by_its_size_and_by_itself(threshold: Threshold, matter: set[int]) -> None:
    """A difference is withheld if it is within the relative threshold, or within the absolute one."""
    pending = ZSet.of([(1, 0.1), (2, 1001.0), (3, 3000.0)]) - ZSet.of([(1, 0.2), (2, 1000.0), (3, 2000.0)])
    due, residual = divided(pending, ROW, threshold)
    assert {row[0] for row, _ in due} == matter  # type: ignore[index]
    assert residual == Residual(0.5, 3, pytest.approx(1001.1))


@given(st.floats(), st.floats())
def test_relative_difference(a: float, b: float) -> None:
    found = relative_difference(a, b)
    assert found == relative_difference(b, a)
    assert found >= 0
    assert (found == 0) == (a == b or (math.isnan(a) and math.isnan(b)) or abs(a - b) / max(abs(a), abs(b)) == 0)


@given(st.floats(), st.floats())
def test_difference(a: float, b: float) -> None:
    found = residual_distance(a, b)
    assert found == residual_distance(b, a)
    assert found >= 0
    assert (found == 0) == (a == b or (math.isnan(a) and math.isnan(b)))


# --- Spark --------------------------------------------------------------------------------------


@pytest.mark.wide(keep=4)
@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "stepwise", "threshold"),
    [
        ("pagerank", compaction.STEPS_MERGED_WHOLE_MAX_ROWS, Threshold(0.02)),
        ("pagerank", -1, Threshold(0.02)),
        ("pagerank", -1, Threshold(absolute=0.05)),
        ("kmeans", -1, Threshold(0.02)),
    ],
    ids=str,
)
def test_on_spark(
    spark: SparkSession,
    tmp_path: Path,
    name: str,
    stepwise: int,
    threshold: Threshold,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On Spark, answers and residuals are right whether a step compares all groups or only those that it has
    changed."""
    monkeypatch.setattr(compaction, "STEPS_MERGED_WHOLE_MAX_ROWS", stepwise)
    file = FILES[name]
    program = file.program(tmp_path, steps=3)
    (query,) = program.queries
    ((stream, spec),) = program.sources.items()
    history = [ZSet.of(file.bag(b.inserted)) - ZSet.of(file.bag(b.deleted)) for b in file.history(1)]
    assert_as_in_the_reference(spark, query.term, {stream: BagType(spec.row)}, history, threshold)


APART = """
repeat r = select (n, 1.0) from n in N
  step select (n, 0.15 + 0.85 * sum(s))
         from (n, s) in ((select (n, 0.0) from n in N) union
                         (select (b, v / 4) from (a, v) in r, (c, b) in E where a = c))
        group by n
 limit 20
"""


@pytest.mark.spark
@pytest.mark.parametrize("text", [APART, f"select (count(p), sum(v)) from (p, v) in ({APART}) group by k: p > 0"])
def test_streams_that_begin_one_after_the_other_on_spark(spark: SparkSession, text: str) -> None:
    """A step that finds nothing to join hides nothing of the batch that it is a step of: the loop's value, its changes
    and what stands above it are right."""
    from mrql.runtime.spark.io.collect import collect_value

    query = mrql.compile(text, N="bag(long)", E="bag((long, long))")
    reference = ReferenceView(planned(query.term, shrinking=frozenset("NE"), strategy=LoopStrategy.DIFFUSE).plan)
    columns = {"N": "n long", "E": "a long, b long"}
    batches: list[tuple[str, list[tuple[int, ...]]]] = [("N", [(1,), (2,), (3,)]), ("E", [(1, 2), (2, 3)])]
    batches += [("N", [(4,)]), ("E", [(3, 4)])]
    with query.view(spark, loop="diffuse") as view:
        added = ZSet()
        for stream, rows in batches:
            changes = view.apply(**{stream: spark.createDataFrame(rows, columns[stream])})
            added += ZSet.weighted((tuple(row)[:-1], row["weight"]) for row in changes.collect())
            reference.apply({stream: ZSet.of([row if len(row) > 1 else row[0] for row in rows])})
            found = collect_value(view.answer(), query.type)
            assert close(found, reference.answer())
            assert close(added.bag(), found)


@pytest.mark.spark
def test_the_residual_after_a_batch_that_failed_on_spark(spark: SparkSession) -> None:
    """A batch that fails within the loop leaves nothing that the residual would be read from."""
    step = "select (b, 0.5 * v * (6 mod (b - 9))) from (a, v) in r, (c, b) in E where a = c"
    start = "select (a, 1.0) from (a, b) in E group by a"
    query = mrql.compile(f"repeat r = {start} step {step} limit 3", **STREAMS)
    with query.view(spark, loop="diffuse") as view:
        view.apply(E=spark.createDataFrame([(1, 2), (2, 3)], "a long, b long"))
        residual, answer = view.residual, view.answer().collect()
        with pytest.raises(UserError):
            view.apply(E=spark.createDataFrame([(3, 9), (9, 1)], "a long, b long"))
        assert view.residual == residual
        assert view.answer().collect() == answer


LINKED = """
repeat r = {start}
  step select (b, 0.5 * sum(v)) from (a, v) in r, (c, b) in E where a = c group by b
 limit {steps}
"""
"""A loop whose step has nothing for a page without a link to it."""


@pytest.mark.wide
@pytest.mark.spark
@pytest.mark.parametrize(
    ("start", "steps"),
    [
        ("select (a, 1.0) from (a, b) in E group by a", 3),
        ("select (a, 1.0) from (a, b) in E", 3),
        ("select (a, b / 2) from (a, b) in E", 3),
        ("select (a, b / 2) from (a, b) in E", 1),
    ],
    ids=["one element", "equal elements", "several elements", "several elements, one step"],
)
def test_what_a_batch_begins_with_on_spark(
    spark: SparkSession, start: str, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new page is fed at the start of a batch, and deleted again if the step has nothing for it, or has one element
    for several."""
    monkeypatch.setattr(compaction, "STEPS_MERGED_WHOLE_MAX_ROWS", -1)
    term = mrql.compile(LINKED.format(start=start, steps=steps), **STREAMS).term
    edges = {"E": BagType(parse_type("(long, long)"))}
    history = [
        ZSet.of(Bag([(1, 2), (1, 4), (2, 3)])),
        ZSet.of(Bag([(7, 1), (7, 5)])),
        ZSet.of(Bag([(8, 9)])) - ZSet.of(Bag([(1, 2)])),
    ]
    assert_as_in_the_reference(spark, term, edges, history, NOTHING)


def assert_as_in_the_reference(
    spark: SparkSession, term: Term, streams: dict[str, BagType], history: Sequence[ZSet], threshold: Threshold
) -> None:
    """Asserts that answers, their changes and residuals are those of the reference engine, and that no RDDs stay
    behind."""
    from mrql.runtime.spark import jvm
    from mrql.runtime.spark.io.collect import collect_value
    from mrql.runtime.spark.io.create_dataframe import to_dataframe
    from mrql.runtime.spark.relation.frame import changes, from_dataframe
    from mrql.runtime.spark.view import SparkView
    from tests.runtime.spark.test_equivalence import as_rows

    ((stream, t),) = streams.items()
    plan = diffused(term, threshold)
    reference, left = ReferenceView(plan), jvm.persistent_rdds(spark)
    view = SparkView(plan, spark)
    before = view.answer()
    assert collect_value(before, term.type) == Bag([])
    for number, change in enumerate(history, 1):
        sides = [from_dataframe(to_dataframe(spark, s, t), t.item) for s in (change.positive(), change.negative())]
        old = as_rows(collect_value(view.answer(), term.type), term.type)
        if number == len(history):
            view.advance({stream: changes(sides[0], sides[1], view.columns)})
            view.rollback()
            view.complete()
            residual = view.residual.change
            assert residual == pytest.approx(reference.residual.change, abs=1e-9), "of a batch that fails"
        changed = view.apply({stream: changes(sides[0], sides[1], view.columns)}).collect()
        reference.apply({stream: change})
        found = collect_value(view.answer(), term.type)
        assert close(found, reference.answer())
        new = as_rows(found, term.type)
        assert sum(abs(row["weight"]) for row in changed) == sum(abs(weight) for _, weight in new - old)
        assert view.residual.change == pytest.approx(reference.residual.change, abs=1e-9)
        assert view.residual.distance == pytest.approx(reference.residual.distance, abs=1e-9)
    view.close()
    assert jvm.persistent_rdds(spark) <= left


@pytest.mark.wide
@pytest.mark.spark
def test_a_stream_on_spark_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """A stream that is restarted for each batch has the answers of one that is not: the loop's value is in the
    checkpoint."""

    stream = Stream(tmp_path, MIDDLE, engine="spark", spark=spark, strategy=LoopStrategy.DIFFUSE, max_files=None)
    assert_goes_on(stream, POINTS)


# --- commands -----------------------------------------------------------------------------------


def stream_of(tmp_path: Path, *options: str) -> list[dict[str, object]]:
    """The records of the metrics of a stream over PageRank's edges."""
    command = ["stream", str(LOOPS / "pagerank.mrql"), "--engine", "reference", "--data", str(tmp_path), "--once"]
    command += ["--max-files", "1", "--loop", "diffuse", "--metrics", str(tmp_path / "metrics"), *options]
    found = CliRunner().invoke(main, command)
    assert found.exit_code == 0, found.output
    return [json.loads(line) for line in (tmp_path / "metrics").read_text().splitlines()]


def test_a_stream_says_how_far_it_may_be_off(tmp_path: Path) -> None:
    """The record of each batch has the residual; a restarted stream goes on with the value of its loop."""
    file = FILES["pagerank"]
    file.fill(tmp_path, file.history(4))
    kept = ("--checkpoint", str(tmp_path / "c"), "--output", str(tmp_path / "out"))
    late = [batch.rename(tmp_path / batch.name) for batch in sorted((tmp_path / "edges").iterdir())[3:]]
    for record in stream_of(tmp_path, *kept):
        residual = record["residual"]
        assert isinstance(residual, dict)
        assert 0 <= residual["change"] <= 0.85**20
    for batch in late:
        batch.rename(tmp_path / "edges" / batch.name)
    stream_of(tmp_path, *kept)
    stream_of(tmp_path, "--output", str(tmp_path / "alone"))
    last = sorted((tmp_path / "out").iterdir())[-1].name
    rows = [rows_of(tmp_path / name / last) for name in ("out", "alone")]
    assert len(rows[0]) == len(rows[1]) > 0
    for one, other in zip(*rows, strict=True):
        assert one == pytest.approx(other)


def rows_of(batch: Path) -> list[object]:
    """The rows of the answer of a batch."""
    (file,) = batch.glob("part-*")
    return sorted(map(json.loads, file.read_text().splitlines()), key=repr)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--epsilon", "0.1"], "only --loop diffuse and --loop exact have a threshold"),
        (["--loop", "diffuse", "--epsilon", "-1"], "-1.0 is not in the range x>=0"),
        (["--abs-epsilon", "0.1"], "only --loop diffuse and --loop exact have a threshold"),
        (["--loop", "exact", "--abs-epsilon", "nan"], "nan is no finite number"),
        (["--loop", "exact", "--epsilon", "inf"], "inf is no finite number"),
    ],
)
def test_wrong_thresholds(options: list[str], message: str) -> None:
    found = CliRunner().invoke(main, ["explain", str(LOOPS / "pagerank.mrql"), *options])
    assert found.exit_code == 2
    assert message in found.output


HALVED = "repeat r = select (a, 1.0) from (a, b) in E step select (a, v / 2) from (a, v) in r"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("repeat x = count(E) step x / 2 limit 3", "it carries more than bags"),
        (
            "repeat r = select (a, 1.0) from (a, b) in E step select (a, v / 2) from (a, v) in r limit count(E)",
            "its limit",
        ),
        (
            "repeat r = select (a, 1.0) from (a, b) in E step select (a, v / 2) from (a, v) in r limit 0",
            "it takes no step",
        ),
    ],
)
def test_what_cannot_be_carried_over(text: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        planned(mrql.compile(text, **STREAMS).term, strategy=LoopStrategy.DIFFUSE)


def test_what_only_adds_is_a_fixpoint() -> None:
    """A loop that only adds is kept up to date as a fixpoint, which is exact: carried over, it would keep deleted
    rows."""
    text = "repeat x = E step select distinct z from z in (x union (select (b, a) from (a, b) in x))"
    plan = planned(mrql.compile(text, **STREAMS).term, strategy=LoopStrategy.DIFFUSE).plan
    assert [chosen.strategy for chosen in plan.strategies] == [LoopStrategy.FIXPOINT]
