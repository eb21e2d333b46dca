"""Trusted deletions: the answers are the same, there is no ledger, and wrong deletions that can be detected are an
error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import settings as cases
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.errors import MissingRow, UserError, WrongDeletion
from mrql.algebra.values.values import Bag, Value, close, same
from mrql.algebra.values.zset import ZSet
from mrql.cli.main import main
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.reference.view import ReferenceView
from mrql.runtime.spark.engine import spark_sizes
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.state import compaction
from tests.rewrite.incremental.test_theorems import compiled
from tests.support.histories import Batch
from tests.support.incremental_cases import CONSTRUCTS, STREAMS, Construct
from tests.support.on_spark import deltas_of
from tests.support.planning import planned
from tests.support.queries import STREAMS as ANY
from tests.support.queries import histories, queries, streams_of

ALL = frozenset(STREAMS)
Change = Mapping[str, tuple[Sequence[Value], Sequence[Value]]]
"""The rows that a batch inserts into each stream, and those that it deletes."""


def plan_of(text: str, *, trusted: bool = True) -> Plan:
    return planned(mrql.compile(text, **STREAMS).term, shrinking=ALL, trusted=ALL if trusted else frozenset()).plan


def applied(view: ReferenceView, batch: Change) -> None:
    view.apply({name: ZSet.of(come) - ZSet.of(gone) for name, (come, gone) in batch.items()})


def views(text: str) -> tuple[ReferenceView, ReferenceView]:
    """Two views of a query: one that looks up deletions, and one that trusts them."""
    streams = frozenset(streams_of(text))
    _, looked_up = compiled(text, streams, frozenset())
    trusted = planned(looked_up.plan.query, shrinking=streams, trusted=streams).plan
    return ReferenceView(looked_up.plan), ReferenceView(trusted)


# --- right deletions ----------------------------------------------------------------------------


@cases(max_examples=40, deadline=None)
@given(queries(), st.data())
def test_answers_are_the_same(text: str, data: st.DataObject) -> None:
    """For any query and history of right deletions, a view that trusts them has the same answers and no ledger."""
    view, trusting = views(text)
    for batch in data.draw(histories(text, deletions=True)):
        view.apply(batch.changes())
        trusting.apply(batch.changes())
        assert same(trusting.answer(), view.answer())
    assert not {*streams_of(text)} & trusting.present.keys()


@cases(max_examples=40, deadline=None)
@given(queries(), st.data())
def test_no_right_batch_is_refused(text: str, data: st.DataObject) -> None:
    """In a history with excess deletions, a batch that is refused with trust is refused with look-ups, too."""
    view, trusting = views(text)
    for batch in data.draw(histories(text, deletions=True)):
        given_batch = doubled(batch) if data.draw(st.booleans()) else batch
        refused = refusal(lambda given_batch=given_batch: view.apply(given_batch.changes()))
        distrusted = refusal(lambda given_batch=given_batch: trusting.apply(given_batch.changes()))
        assert distrusted is not WrongDeletion or refused is MissingRow
        if refused is not None:
            return


def doubled(batch: Batch) -> Batch:
    """The batch with one excess deletion from each stream that it deletes from."""
    return Batch(batch.inserted, {name: [*rows, *rows[:1]] for name, rows in batch.deleted.items()})


def refusal(apply: Callable[[], object]) -> type[UserError] | None:
    """The class of the error with which a batch is refused; None if it is not."""
    try:
        apply()
    except UserError as error:
        return type(error)
    return None


def assert_engines_agree_on_trust(
    spark: SparkSession, text: str, history: Sequence[Batch], wrong: Sequence[bool]
) -> None:
    """Asserts that both engines refuse the same batches, some of which are `wrong`, and have the same answers before
    that."""
    query, streams = mrql.compile(text, **ANY), frozenset(ANY)
    reference = ReferenceView(planned(query.term, shrinking=streams, trusted=streams).plan)
    with query.view(spark, trusted=True) as view:
        for batch, is_wrong in zip(history, wrong, strict=False):
            chosen = doubled(batch) if is_wrong else batch
            refused = refusal(lambda chosen=chosen: reference.apply(chosen.changes()))
            assert refusal(lambda chosen=chosen: view.apply(**deltas_of(spark, chosen, ANY))) is refused
            if is_wrong or refused is not None:
                return
            assert close(collect_value(view.answer(), query.type), reference.answer())


# --- wrong deletions ----------------------------------------------------------------------------

WRONG: list[tuple[str, Change, Change, str]] = [
    (
        "select (x, sum(y)) from (x, y) in S group by x",
        {"S": ([(1, 5), (2, 6)], [])},
        {"S": ([], [(3, 5)])},
        "a row is deleted from `S` that is not there: less than nothing is left under 3 in X1",
    ),
    (
        "select (x, max(y)) from (x, y) in S group by x",
        {"S": ([(1, 5), (1, 6)], [])},
        {"S": ([], [(1, 7)])},
        "less than nothing is left under 1 in X1",
    ),
    (
        "select (x, y + 1) from (x, y) in S where y > 0",
        {"S": ([(1, 5)], [])},
        {"S": ([(1, 4)], [(1, 6)])},
        "less than nothing is left under () in X1",
    ),
    (
        "select (a, d) from (a, b) in S, (c, d) in T where b = c",
        {"S": ([(1, 5)], []), "T": ([(5, 1)], [])},
        {"T": ([], [(6, 1)])},
        "a row is deleted from `T` that is not there: less than nothing is left under 6 in X1",
    ),
    (  # the other side of the join is empty
        "select (a, d) from (a, b) in S, (c, d) in T where b = c",
        {"S": ([(1, 5)], [])},
        {"S": ([], [(1, 6)])},
        "a row is deleted from `S` that is not there: less than nothing is left under 6 in X1",
    ),
    (
        "sum(select b * d from (a, b) in S, (c, d) in T where a = c)",
        {"S": ([(1, 5)], []), "T": ([(1, 1)], [])},
        {"S": ([], [(2, 5)])},
        "less than nothing is left under 2 in X1",
    ),
    (
        "(sum(select y from (x, y) in S), count(T))",
        {"S": ([(1, 5)], [])},
        {"S": ([], [(1, 5), (1, 5)])},
        "less than nothing is left under () in X1",
    ),
    (
        "repeat x = S step select distinct z from z in "
        "(x union (select (a, d) from (a, b) in x, (c, d) in S where b = c))",
        {"S": ([(1, 2), (2, 3)], [])},
        {"S": ([], [(3, 4)])},
        "a row is deleted from `S` that is not there: less than nothing is left under",
    ),
]


WITH_MISSING_PARTS: list[tuple[str, Change, Change, str]] = [
    (
        "select z from z in S",
        {"S": ([(1, 5), (None, 4)], [])},
        {"S": ([], [(None, 6)])},
        "less than nothing is left under () in X1",
    ),
    (  # the other side is empty
        "select (a, d) from (a, b) in S, (c, d) in T",
        {"S": ([(1, 5)], [])},
        {"T": ([], [(None, 1)])},
        "a row is deleted from `T` that is not there: less than nothing is left under",
    ),
]
"""Rows that are stored by their own columns are found by these where they are null, too."""


@pytest.mark.parametrize(
    ("text", "before", "batch", "said"),
    [*WRONG, *WITH_MISSING_PARTS],
    ids=[text for text, *_ in [*WRONG, *WITH_MISSING_PARTS]],
)
def test_what_shows_is_an_error(text: str, before: Change, batch: Change, said: str) -> None:
    """A wrong deletion that can be detected is an error with its key, and leaves the states as they were; a look-up
    refuses it, too."""
    view = ReferenceView(plan_of(text))
    applied(view, before)
    answer = view.answer()
    with pytest.raises(WrongDeletion) as raised:
        applied(view, batch)
    assert said in raised.value.message
    assert same(view.answer(), answer)
    looked_up = ReferenceView(plan_of(text, trusted=False))
    applied(looked_up, before)
    with pytest.raises(MissingRow):
        applied(looked_up, batch)


def test_what_does_not_show() -> None:
    """A wrong deletion is not detected if it agrees with a row that is there in all that is stored: here the key, and
    the sum is wrong then."""
    view = ReferenceView(plan_of("select (x, sum(y)) from (x, y) in S group by x"))
    applied(view, {"S": ([(1, 5), (1, 6)], [])})
    applied(view, {"S": ([], [(1, 7)])})
    assert view.answer() == Bag([(1, 4)])


@pytest.mark.wide(keep=2)
@pytest.mark.spark
@pytest.mark.parametrize(("large", "some"), [(False, WRONG[1::3]), (True, [*WRONG[0::3], *WITH_MISSING_PARTS])])
def test_on_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, large: bool, some: Sequence[tuple[str, Change, Change, str]]
) -> None:
    """Spark has the same errors, whether a state is merged whole or looked up; right deletions still work after them,
    and there is no ledger."""
    if large:
        monkeypatch.setattr(compaction, "MERGED_WHOLE_MAX_ROWS", 0)
        monkeypatch.setattr(compaction, "LARGE_MIN_ROWS", 0)
    for text, before, batch, said in some:
        query = mrql.compile(text, **STREAMS)
        with query.view(spark, trusted=True) as view:
            view.apply(**deltas(spark, before))
            answer = collect_value(view.answer(), query.type)
            with pytest.raises(WrongDeletion) as raised:
                view.apply(**deltas(spark, batch))
            assert said in raised.value.message
            view.apply(**deltas(spark, {name: ([], come[:1]) for name, (come, _) in before.items()}))
            view.apply(**deltas(spark, {name: (come[:1], []) for name, (come, _) in before.items()}))
            assert close(collect_value(view.answer(), query.type), answer)
            assert not spark_sizes(view._view, {}).keys() & ALL


@pytest.mark.spark
def test_what_comes_and_goes_is_not_evaluated(spark: SparkSession) -> None:
    """A row that comes and goes in one batch is not evaluated, with trust either: here the query has no value for
    it."""
    query = mrql.compile("select 10 / y from (x, y) in S", **STREAMS)
    with query.view(spark, trusted=["S"]) as view:
        view.apply(**deltas(spark, {"S": ([(1, 0), (1, 5)], [(1, 0)])}))
        assert collect_value(view.answer(), query.type) == Bag([2])


def deltas(spark: SparkSession, batch: Change) -> dict[str, mrql.Delta]:
    frames = {name: [to_dataframe(spark, rows, STREAMS[name]) for rows in both] for name, both in batch.items()}
    return {name: mrql.Delta(*both) for name, both in frames.items()}


# --- explain, other commands and restarts -------------------------------------------------------


def test_explain_says_so(tmp_path: Path) -> None:
    """`explain` says whether the deletions of a stream are trusted or looked up."""
    query = tmp_path / "q.mrql"
    source = 'S = stream(csv, "S", ",", type((long, long)), deletions("gone")); T = stream(csv, "T", ",", type(long));'
    query.write_text(f"{source} select (x, sum(y)) from (x, y) in S, z in T where x = z group by x;")
    said = CliRunner().invoke(main, ["explain", "--trust-deletions", str(query)]).output
    assert "rows of S may be deleted, and deletions are trusted: nothing is kept to look them up" in said
    said = CliRunner().invoke(main, ["explain", str(query)]).output
    assert "rows of S may be deleted: they are kept" in said


def test_other_commands_plan_so(tmp_path: Path) -> None:
    """`check`, `verify` and `shell` plan with trusted deletions if asked to; those of a table with a log are always
    trusted."""
    query = tmp_path / "q.mrql"
    source = 'S = stream(csv, "S", ",", type((long, long)), deletions("gone"));'
    summed = "select (x, sum(y)) from (x, y) in S group by x"
    query.write_text(f"{source} {summed};")
    (tmp_path / "S").mkdir()
    (tmp_path / "S" / "1").write_text("1,5\n1,6\n2,7\n")

    def said(*words: str, given: str | None = None) -> str:
        engine = [] if words[0] == "check" else ["--engine", "reference"]
        done = CliRunner().invoke(main, [*words, "--data", str(tmp_path), *engine], given)
        assert done.exit_code == 0, done.output
        return done.output

    assert "bag((long, long))" in said("check", "--strict", "--trust-deletions", str(query))
    for trust, looked_up in ((["--trust-deletions"], False), ([], True)):
        verified = said("verify", *trust, str(query), "--histories", "1")
        assert ("with deletions from S: 1 histories" in verified) == looked_up
        assert ("with deletions from S, trusted: 1 histories" in verified) != looked_up
        explained = said("shell", *trust, given=f"{source}\n:explain {summed}\n")
        assert ("rows of S may be deleted: they are kept" in explained) == looked_up
    write_deltalake(str(tmp_path / "T"), pa.table({"x": [1, 1, 2], "y": [5, 6, 7]}))
    query.write_text('T = stream(delta, "T"); select (r.x, count(r)) from r in T group by r.x;')
    assert "with deletions from T, trusted: 1 histories" in said("verify", str(query), "--histories", "1")


def test_a_stream_goes_on_either_way(tmp_path: Path) -> None:
    """With a checkpoint, a ledger is dropped where deletions are trusted, and rebuilt from the files where they are
    looked up."""
    query = tmp_path / "q.mrql"
    source = 'S = stream(csv, "S", ",", type((long, long)), deletions("gone"));'
    query.write_text(f"{source} select (x, sum(y)) from (x, y) in S group by x;")
    (tmp_path / "S").mkdir()
    (tmp_path / "gone").mkdir()
    command = ["stream", str(query), "--data", str(tmp_path), "--once", "--engine", "reference"]
    command += ["--checkpoint", str(tmp_path / "state")]

    def run(number: int, *options: str, gone: str = "") -> Result:
        (tmp_path / "S" / f"{number}.csv").write_text(f"{number},1\n")
        if gone:
            (tmp_path / "gone" / f"{number}.csv").write_text(gone)
        return CliRunner().invoke(main, [*command, *options])

    assert run(1).exit_code == 0
    trusted = run(2, "--trust-deletions", gone="1,9\n")  # whatever its value, one row of the key was there
    assert trusted.exit_code == 0
    assert " 2  │ 1 " in trusted.output
    wrong = run(3, "--trust-deletions", gone="7,1\n")
    assert wrong.exit_code == 1
    assert "a row is deleted from `S` that is not there: less than nothing is left under 7 in X1" in wrong.output
    (tmp_path / "gone" / "3.csv").unlink()
    looked_up = run(4)
    assert "a row is deleted from `S` that is not there: (1, 9)" in looked_up.output


@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda construct: construct.name)
def test_sources_keep_nothing(construct: Construct) -> None:
    """With trusted deletions no source has a state in the circuit, for any construct; with look-ups each stream has
    one."""
    query = mrql.compile(construct.query, **STREAMS)
    circuit = mrql.api.DrawnPlan(query.trace(trusted=True)).circuit
    assert all(operator.kept is None for operator in circuit.operators if operator.id in ALL)
    looked_up = mrql.api.DrawnPlan(query.trace()).circuit
    assert all(looked_up.by_id[name].kept is not None for name in looked_up.plan.streams)
