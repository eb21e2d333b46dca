"""`mrql verify`: it reports what was verified, finds faults, and shows a smallest history of each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

import attrs
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

import mrql
from mrql.algebra.errors import TooFewDigits, UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.evaluation.evaluate_measured import evaluate_measured
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.row_key import RowKey
from mrql.algebra.values.values import Bag, Record, Value
from mrql.algebra.values.zset import ZSet
from mrql.cli.main import main
from mrql.cli.query_files import load
from mrql.rewrite.plan.plan import Plan
from mrql.runtime.sources.files import read_arrived
from mrql.translate.builtin_aggregates import AGGREGATIONS
from mrql.translate.collection_functions import DERIVED
from mrql.verify.edge_values import EdgeValues, replaced
from mrql.verify.engines import ReferenceIncremental, Rows, Start
from mrql.verify.histories import History, Move, RowPlace, deal, held, keys_of, last_moves
from mrql.verify.replay import FailureKind
from mrql.verify.report import render
from mrql.verify.rounding import Rounding
from mrql.verify.shrink import shrink
from mrql.verify.verifier import Sampler, Scenario, Verified, VerifyOptions, scenarios, verify
from tests.support.planning import planned

GROUPED = """
S = stream(csv, "s", ",", type((long, long)));
select (k, sum(y), max(y)) from (k, y) in S group by k;
"""
JOINED = """
S = stream(csv, "s", ",", type((long, long)));
T = source(csv, "t", ",", type((long, string)));
select (n, sum(y)) from (k, y) in S, (j, n) in T where j = k group by n;
"""


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["verify", "--engine", "reference", *map(str, args)])


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A directory with a stream and a table."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a.csv").write_text("1,5\n1,0\n2,7\n,4\n1,5\n")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.csv").write_text("1,one\n2,two\n")
    (tmp_path / "q.mrql").write_text(GROUPED)
    return tmp_path


# --- the command ------------------------------------------------------------------------------------------------------


def test_what_was_verified_is_said(home: Path) -> None:
    """The report has the seed, the number of rows used, the deletions, and the numbers of histories and batches."""
    done = run(home / "q.mrql", "--data", home, "--seed", "7", "--histories", "2", "--batches", "4")
    assert (done.exit_code, done.stdout.splitlines()) == (
        0,
        [
            "seed 7",
            f"{home}/q.mrql:3: bag((long, long, long))",
            "  S: all 5 rows",
            "  with insertions alone, as no deletions are declared: 2 histories, 8 batches: "
            "all answers and changes are right (answers of up to 3 rows)",
            "  with deletions from S: 2 histories, 8 batches: "
            "all answers and changes are right (answers of up to 3 rows)",
        ],
    )


AGGREGATED = r"""
S = stream(csv, "s", ",", type((long, long)));
aggregation moments(\(a, b). (a#0 + b#0, a#1 + b#1), (0, 0), \y. (1, y * 1000000000.5), \a. (-a#0, -a#1)):
  (long, double);
aggregation clock(\(a, b). (a + b) mod 12, 0, \y. y mod 12, \a. (12 - a) mod 12): long;
macro big(y) { 1000000000 + y * 0.25 };
select (k, count(y), sum(y), avg(y), min(y), max(y), all(y > 1), some(y > 5), exists(y)) from (k, y) in S group by k;
select (k, variance(big(y)), variance_pop(y), stddev(big(y)), stddev_pop(y), median(y), percentile(y, 0.3), mode(y))
from (k, y) in S group by k;
select (g, covar(k, big(y)), covar_pop(k, y), corr(k, y), min_by(y, k), max_by(k, y))
from (k, y) in S group by g: y mod 2;
select (k, count_distinct(y), collect(y + 1), string_agg(y as string, ","), histogram(y), histogram(y, 5),
        size(y), sort(y))
from (k, y) in S group by k;
select (k, moments(y), clock(y)) from (k, y) in S group by k;
(median(select y from (k, y) in S), stddev(select big(y) from (k, y) in S), corr(S),
 histogram((select y from (k, y) in S), 5));
"""


def test_every_aggregation_is_right_in_all_histories(home: Path) -> None:
    """All aggregations are right, with and without deletions, also over large offsets, where sums of squares fail."""
    called = set(re.findall(r"(\w+)\(", AGGREGATED))
    assert {*AGGREGATIONS, *DERIVED} <= called
    verify_aggregations(home, "reference")


@pytest.mark.spark
@pytest.mark.wide
def test_every_aggregation_is_right_on_spark(home: Path, spark: object) -> None:
    verify_aggregations(home, "spark")


def verify_aggregations(home: Path, engine: str) -> None:
    (home / "q.mrql").write_text(AGGREGATED)
    tried = ["--seed", "3", "--histories", "3", "--batches", "4", "--engine", engine]
    done = CliRunner().invoke(main, ["verify", str(home / "q.mrql"), "--data", str(home), *tried])
    assert done.exit_code == 0, done.stdout
    assert done.stdout.count("all answers and changes are right") == 12


def test_the_seed_is_random_and_printed(home: Path) -> None:
    """Without `--seed`, the seed is random, and is printed so that the run can be repeated."""
    first, second = (run(home / "q.mrql", "--data", home, "--histories", "1").stdout.splitlines()[0] for _ in "12")
    assert first.startswith("seed ")
    assert first != second


def test_static_tables_and_samples(home: Path) -> None:
    """If a source has more rows than `--rows`, a sample is used, and the report says so."""
    (home / "q.mrql").write_text(JOINED)
    done = run(home / "q.mrql", "--data", home, "--rows", "3")
    assert done.exit_code == 0, done.output
    assert "  S: 3 of 5 rows\n" in done.stdout
    assert "  T: all 2 rows\n" in done.stdout
    assert "each history has its own sample" in done.stdout


def test_declared_deletions_are_netted(home: Path) -> None:
    """Declared deletions are subtracted from the data, and only the plan with them is verified."""
    (home / "removed").mkdir()
    (home / "removed" / "a.csv").write_text("1,5\n2,7\n")
    (home / "q.mrql").write_text(
        'S = stream(csv, "s", ",", type((long, long)), deletions("removed"));\n'
        "select (k, max(y)) from (k, y) in S group by k;\n"
    )
    done = run(home / "q.mrql", "--data", home)
    assert done.exit_code == 0, done.output
    assert "  S: all 3 rows\n" in done.stdout
    assert "insertions alone" not in done.stdout
    (home / "removed" / "b.csv").write_text("9,9\n")
    wrong = run(home / "q.mrql", "--data", home)
    assert wrong.exit_code == 1
    assert "a row is deleted from `S` that is not there: (9, 9)" in wrong.stderr


def test_the_json_document(home: Path) -> None:
    """One line of JSON for each expression that reads a stream."""
    done = run(home / "q.mrql", "--data", home, "--seed", "7", "--histories", "1", "--format", "json")
    (line,) = done.stdout.splitlines()
    document = json.loads(line)
    assert document["seed"] == 7
    assert document["rows"] == {"S": {"used": 5, "of": 5}}
    assert [scenario["deletions"] for scenario in document["verified"]] == [[], ["S"]]
    assert [scenario["failure"] for scenario in document["verified"]] == [None, None]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda home: (home / "q.mrql").write_text("1 + 1;\n"), "has no expression that reads a stream"),
        (lambda home: (home / "s").rename(home / "gone"), "q.mrql:2:5: error: no such file or directory:"),
        (lambda home: (home / "s" / "b.csv").write_text("1,x\n"), 's/b.csv:1:1: error: malformed row: "x" is not a'),
        (
            lambda home: (home / "q.mrql").write_text(GROUPED.replace("sum(y)", "sum(y / (y - 7))")),
            "q.mrql:3:16: error: division by zero",
        ),
    ],
)
def test_wrong_input(home: Path, change: Callable[[Path], object], message: str) -> None:
    """An error in the query or its data has the message that it has in the other commands."""
    change(home)
    done = run(home / "q.mrql", "--data", home)
    assert done.exit_code == 1
    assert message in done.stderr


def test_an_error_of_what_nothing_depends_on_is_none(home: Path) -> None:
    """A division by zero in elements that are only counted is neither an error nor a wrong answer."""
    (home / "q.mrql").write_text('count(select 1 / y from (k, y) in stream(csv, "s", ",", type((long, long))));')
    done = run(home / "q.mrql", "--data", home, "--seed", "7", "--histories", "2", "--batches", "4")
    assert done.exit_code == 0, done.output
    assert "8 batches: all answers and changes are right" in done.stdout


def test_a_part_of_the_data_without_a_value(home: Path) -> None:
    """Where the query has no value for the rows there, a history ends early, and the report says so."""
    (home / "q.mrql").write_text('S = stream(csv, "s", ",", type((long, long)));\n100 / count(S);\n')
    done = run(home / "q.mrql", "--data", home)
    assert done.exit_code == 0
    assert "ended early: the query has no value for the rows there (division by zero)" in done.stdout


# --- faults -----------------------------------------------------------------------------------------------------------

ROWS = {"S": [(1, 5), (1, 0), (2, 7), (2, 7), (3, 1), (None, 4)], "T": [(5, 1), (5, 2), (7, 3), (0, 4)]}
TYPES = {"S": "bag((long, long))", "T": "bag((long, long))"}


def verified(text: str, start: Start, *, insertions: bool = False, seed: int = 1) -> tuple[Verified, list[str]]:
    """The result of verifying a query in a scenario, and the lines of its report."""
    query = mrql.compile(text, **TYPES)
    (alone, every) = scenarios(query.term, frozenset())
    data = {name: ROWS[name] for name in query.trace().plan.streams}
    scenario = alone if insertions else every
    found = verify(query.term, Sampler(data, 100), scenario, VerifyOptions(seed, 20, 6, 100), start)
    return found, [line.strip() for line in render(found, query.type)]


class ForgetsDeletions(ReferenceIncremental):
    """An engine that ignores deletions of rows with the key 2."""

    def apply(self, inserted: Rows, deleted: Rows) -> ZSet:
        return super().apply(inserted, {name: [row for row in rows if row[0] != 2] for name, rows in deleted.items()})


@pytest.mark.parametrize("seed", range(5))
def test_a_forgotten_deletion(seed: int) -> None:
    """The smallest history of an ignored deletion is one row of the key, inserted and deleted in one batch."""
    found, lines = verified("select (k, sum(y)) from (k, y) in S group by k", ForgetsDeletions, seed=seed)
    assert found.counterexample is not None
    assert found.counterexample.minimal
    at = next(n for n, line in enumerate(lines) if line.startswith("A smallest history"))
    assert lines[at + 2 :] == [
        "batch 1",
        "S  + (2, 7)",
        "S  − (2, 7)",
        "",
        "the data then",
        "no rows",
        "",
        "the answer, expected",
        "no rows",
        "the answer, got",
        "! (2, 7)",
    ]


class LosesPartners(ReferenceIncremental):
    """An engine that adds up `h(ΔS, ΔT)` of each batch, without pairs of rows from different batches."""

    def __init__(self, plan: Plan, tables: Mapping[str, Bag]) -> None:
        super().__init__(plan, tables)
        self.query = plan.query
        self.streams = plan.streams
        self.rows = Bag()

    def apply(self, inserted: Rows, deleted: Rows) -> ZSet:
        new = evaluate(self.query, {name: Bag(inserted.get(name, ())) for name in self.streams})
        self.rows += new
        return ZSet.of(new)

    def answer(self) -> Value:
        return self.rows


def test_lost_partners() -> None:
    """The smallest history of lost partners is two rows that join, in two batches, in either order of the streams."""
    found, lines = verified("select (k, z) from (k, y) in S, (x, z) in T where x = y", LosesPartners, insertions=True)
    assert found.counterexample is not None
    assert [len(batch) for batch in found.counterexample.history] == [1, 1]
    assert {move.row.stream for batch in found.counterexample.history for move in batch} == {"S", "T"}
    assert found.counterexample.failure.kind is FailureKind.ANSWER
    assert len([line for line in lines if line.startswith("!")]) == 1


class KeepsSilent(ReferenceIncremental):
    """An engine that leaves out deletions from the changes of its answer."""

    def apply(self, inserted: Rows, deleted: Rows) -> ZSet:
        return ZSet.of(super().apply(inserted, deleted).positive())


def test_wrong_changes() -> None:
    """Wrong changes are found, even if the answer is right."""
    found, lines = verified("max(select y from (k, y) in S)", KeepsSilent, insertions=True)
    assert found.counterexample is not None
    assert found.counterexample.failure.kind is FailureKind.CHANGES
    assert [len(batch) for batch in found.counterexample.history] == [1]
    at = lines.index("the changes of the answer, expected")
    (row,) = (line.split(") ")[-1] for line in lines if line.startswith("S  +"))
    maximum = row.strip("S +()").split(", ")[1]
    assert set(lines[at + 1 : at + 3]) == {f"+ {maximum}", "− null"}
    assert lines[at + 3 :] == ["the changes of the answer, got", f"+ {maximum}"]


class Fails(ReferenceIncremental):
    """An engine that fails at an inserted row with a missing key."""

    def apply(self, inserted: Rows, deleted: Rows) -> ZSet:
        if any(row[0] is None for row in inserted.get("S", ())):
            raise KeyError("none")
        return super().apply(inserted, deleted)


def test_a_view_that_fails() -> None:
    """An exception in the engine is found, and shown with its history."""
    found, lines = verified("count(S)", Fails)
    assert found.counterexample is not None
    assert "S  + (null, 4)" in lines
    assert lines[-2:] == ["got an error", "KeyError: 'none'"]
    assert sum(map(len, found.counterexample.history)) == 1


def test_a_fault_before_any_data() -> None:
    """The answer before any data is compared, too."""

    class Wrong(ReferenceIncremental):
        def answer(self) -> Value:
            return super().answer() + 1

    found, lines = verified("count(S)", Wrong)
    assert found.counterexample is not None
    assert found.counterexample.history == ()
    assert "no data has arrived" in lines


def test_a_wrong_answer_ends_the_command(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong answer ends the command with exit code 1, and the JSON document has its history."""
    monkeypatch.setattr("mrql.cli.verify.ReferenceIncremental", ForgetsDeletions)
    done = run(home / "q.mrql", "--data", home, "--seed", "3", "--histories", "20")
    assert done.exit_code == 1
    assert "S  − (2, 7)" in done.stdout
    document = json.loads(
        run(home / "q.mrql", "--data", home, "--seed", "3", "--histories", "20", "--format", "json").stdout
    )
    failure = document["verified"][-1]["failure"]
    assert failure["history"] == [
        [{"stream": "S", "weight": 1, "row": [2, 7]}, {"stream": "S", "weight": -1, "row": [2, 7]}]
    ]
    assert (failure["expected"], failure["got"]) == ([], [[2, 7, 7]])


def test_waiting_may_be_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interrupt while a history is made smaller, the smallest one so far is shown."""

    def interrupted(history: History, fails: Callable[[History], int | None]) -> History:
        fails(history)
        raise KeyboardInterrupt

    monkeypatch.setattr("mrql.verify.verifier.shrink", interrupted)
    found, lines = verified("select (k, sum(y)) from (k, y) in S group by k", ForgetsDeletions)
    assert found.counterexample is not None
    assert not found.counterexample.minimal
    assert any(line.startswith("A history, not yet the smallest,") for line in lines)


# --- its parts --------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32), st.integers(1, 8), st.lists(st.integers(0, 3), max_size=12))
def test_histories(seed: int, batches: int, keys: list[int]) -> None:
    """Each row is inserted, then perhaps deleted and inserted again in turn, and is present at the end."""
    data = {"S": [(k, n) for n, k in enumerate(keys)], "T": [(k,) for k in keys]}
    history = deal(data, batches, frozenset({"S"}), Random(seed))
    assert len(history) == batches
    assert held(history) == {RowPlace(name, n) for name, rows in data.items() for n in range(len(rows))}
    moves: dict[RowPlace, list[int]] = {}
    for batch in history:
        for move in batch:
            moves.setdefault(move.row, []).append(move.weight)
    for row, weights in moves.items():
        assert weights == [1, -1] * (len(weights) // 2) + [1]
        assert row.stream == "S" or weights == [1]


def test_histories_have_everything_in_them() -> None:
    """Some batches are empty, some rows are deleted in the batch that inserts them, and some keys vanish and return."""
    data = {"S": [(k % 3, k) for k in range(9)]}
    histories = [deal(data, 6, frozenset({"S"}), Random(seed)) for seed in range(30)]
    assert any(batch == () for history in histories for batch in history)
    assert any(len({move.row for move in batch}) < len(batch) for history in histories for batch in history)

    def keys(history: History, after: int) -> set[Value]:
        return {data["S"][place.number][0] for place in held(history[:after])}

    def returns(history: History) -> bool:
        return any(
            k in keys(history, a) - keys(history, b) for b in range(len(history)) for a in range(b) for k in range(3)
        )

    assert any(map(returns, histories))


@pytest.mark.parametrize("batches", [6, 7, 8])
def test_histories_in_which_all_is_emptied(batches: int) -> None:
    """All rows are present, then those with small numbers and at times some others, then the small ones alone, then
    none, and then the small ones again; a stream without deletions keeps its rows."""
    data = {"S": [(1, 1e20), (1, 0.5), (2, -2e20), (2, 1.5)], "T": [(1, 2.0)]}
    some = False
    for seed in range(10):
        history = deal(data, batches, frozenset({"S"}), Random(seed), emptied=True)
        assert len(history) == batches
        there = [held(history[:n]) for n in range(batches + 1)]
        table = RowPlace("T", 0)
        small = {table, RowPlace("S", 1), RowPlace("S", 3)}
        (at,) = [n for n in range(1, batches - 4) if len(there[n]) == 5 and there[n + 3] == {table}]
        assert small <= there[at + 1]
        assert (there[at + 2], there[at + 4]) == (small, small)
        some |= small < there[at + 1] < there[at]
    assert some


@given(st.integers(0, 2**32), st.sets(st.integers(0, 7), min_size=1, max_size=3), st.booleans())
def test_shrunk_histories_are_minimal(seed: int, needed: set[int], gone: bool) -> None:
    """If a fault needs some rows to be present (or deleted), its smallest history has only those rows, in one batch."""
    data = {"S": [(n,) for n in range(8)], "T": [(n,) for n in range(8)]}
    history = deal(data, 6, frozenset({"S"}), Random(seed))

    def fails(history: History) -> int | None:
        for n in range(1, len(history) + 1):
            came = {move.row for batch in history[:n] for move in batch if move.row.stream == "S"}
            present = held(history[:n])
            if all(RowPlace("S", row) in (came - present if gone else present) for row in needed):
                return n
        return None

    if fails(history) is None:
        return
    (batch,) = shrink(history, fails)
    expected = {Move(RowPlace("S", row), weight) for row in needed for weight in ((1, -1) if gone else (1,))}
    assert set(batch) == expected
    assert len(batch) == len(expected)


def test_samples_have_rows_that_join() -> None:
    """A small sample of two large streams has rows that join, even if each row has few partners."""
    random = Random(1)
    left = [(n, random.randrange(10**6)) for n in range(2_000)]
    right = [(b, f"r{b}") for _, b in left]
    random.shuffle(right)
    sample = Sampler({"left": left, "right": right}, 20).draw(Random(2))
    assert {name: len(rows) for name, rows in sample.items()} == {"left": 20, "right": 20}
    assert len({b for _, b in sample["left"]} & {c for c, _ in sample["right"]}) >= 5
    assert all(len(set(rows)) == 20 for rows in sample.values())


def test_sums_are_within_the_sizes_of_their_own_addends() -> None:
    """The tolerance of a sum depends on its current addends, not on earlier rows or other groups."""
    term = mrql.compile("select (k, sum(y) / 2) from (k, y) in S group by k", S="bag((long, double))").term
    rounding = Rounding.of(planned(term).plan)

    def close_to(*rows: Value) -> list[bool]:
        """Whether the last sum may be off by 1e-4, by 1 and by 1e5."""
        answer, size = evaluate_measured(term, {"S": Bag(rows)})
        rounding.seen(size)
        *others, (key, last) = sorted(answer)
        return [rounding.close(Bag([*others, (key, float(last) + off)]), answer) for off in (1e-4, 1.0, 1e5)]

    assert close_to((1, 1e12), (2, 4.0)) == [False, False, False]
    assert close_to((1, 1.0), (2, 1e12), (2, -1e12)) == [True, True, False]
    assert close_to((2, 4.0)) == [False, False, False]
    assert close_to((1, 1e20), (2, 4.0)) == [False, False, False]
    assert close_to((1, 3.0), (2, 4.0)) == [False, False, False]
    rounding.seen(evaluate_measured(term, {"S": Bag()})[1])
    assert close_to((2, 4.0)) == [False, False, False]


def test_sums_that_cancel() -> None:
    """The rounding error that a deleted large addend leaves in a sum is tolerated, and a larger error is not."""
    rows = {"S": [(1, 1e9), (1, 0.1), (1, -1e9 + 0.3), (2, 1e9), (2, 0.7)]}
    query = mrql.compile("select (k, sum(y)) from (k, y) in S group by k", S="bag((long, double))")
    every = Scenario(frozenset({"S"}), "all")
    assert (
        verify(query.term, Sampler(rows, 9), every, VerifyOptions(1, 20, 6, 9), ReferenceIncremental).counterexample
        is None
    )

    class Off(ReferenceIncremental):
        def answer(self) -> Value:
            return Bag((k, None if total is None else total + 2.0) for k, total in super().answer())

    assert verify(query.term, Sampler(rows, 9), every, VerifyOptions(1, 1, 6, 9), Off).counterexample is not None


@pytest.mark.spark
def test_on_spark(home: Path, spark: object) -> None:
    """The engine on Spark is verified against the reference evaluator, also with a static table."""
    (home / "q.mrql").write_text(JOINED)
    args = ["verify", str(home / "q.mrql"), "--data", str(home), "--histories", "1", "--batches", "2", "--seed", "1"]
    done = CliRunner().invoke(main, args)
    assert done.exit_code == 0, done.output
    assert "with deletions from S: 1 histories, 2 batches: all answers and changes are right" in done.stdout


# --- what is drawn, and what is excused -------------------------------------------------------------------------------


def test_too_few_digits_are_an_excuse_only_where_huge_numbers_were() -> None:
    """`TooFewDigits` is excused once huge numbers were in a sum, until all sums are empty; other errors never are."""
    error = TooFewDigits()
    rounding = Rounding(by_sides=False)
    for scale, expected in ((1e20, False), (1e30, True), (1.0, True), (0.0, False)):
        rounding.seen(scale)
        assert rounding.excuses(error) is expected
        assert not rounding.excuses(UserError("division by zero"))


@pytest.mark.parametrize(
    ("t", "value"),
    [
        ("(long, string)", (1, "a")),
        ("<A: long>", Record({"A": 1})),
        ("{long}", Bag([1])),
        ("[(long, long)]", [(1, 2)]),
    ],
)
def test_parts_of_rows_are_missing_as_a_whole(t: str, value: Value) -> None:
    """With `EdgeValues.ENDS`, some tuples, records, bags and lists in rows are missing, but no whole row is."""
    types = {"S": parse_type(f"{{(long, {t})}}")}
    rows: dict[str, list[Value]] = {"S": [(1, value)] * 20}
    drawn = [replaced(rows, types, EdgeValues.ENDS, Random(seed))["S"] for seed in range(40)]
    assert all(any(row[1] is None for row in rows) and any(row[1] is not None for row in rows) for rows in drawn)
    assert all(row is not None for rows in drawn for row in rows)
    for edges in (EdgeValues.OWN, EdgeValues.NEAR, EdgeValues.SCATTERED):
        assert replaced(rows, types, edges, Random(1)) == rows


# --- rows that replace each other ---------------------------------------------------------------

UPSERTS = """
S = stream(json, "s", type(<id: long, k: string, v: long, at: long>), key(id), version(at));
select (k, sum(s.v), max(s.v)) from s in S group by k: s.k;
"""


def upserted(home: Path) -> Path:
    """Writes a query over a stream with a key, and its data, and returns the query file."""
    (home / "s").mkdir()
    rows = ({"id": n % 5, "k": f"k{n % 3}", "v": n * n, "at": n} for n in range(20))
    (home / "s" / "1.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (home / "q.mrql").write_text(UPSERTS)
    return home / "q.mrql"


def test_rows_that_replace_others_are_verified(tmp_path: Path) -> None:
    """Rows that replace others are verified with all rows that have arrived, including those that were replaced."""
    arguments = ["verify", str(upserted(tmp_path)), "--engine", "reference", "--seed", "1", "--histories", "4"]
    done = CliRunner().invoke(main, [*arguments, "--data", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert "and rows of S that replace others by key" in done.output
    assert "20" in done.output


def test_a_row_that_is_not_replaced_is_found(tmp_path: Path) -> None:
    """An engine that ignores the key of a stream is found, by a history of three moves at most."""
    program = load(upserted(tmp_path), tmp_path)
    (query,) = program.queries
    key = RowKey(("id",))

    def start(plan: Plan, tables: Mapping[str, Bag]) -> ReferenceIncremental:
        return ReferenceIncremental(attrs.evolve(plan, keyed={}), tables)

    sampler = Sampler({"S": [*read_arrived(program.sources["S"])]}, 20)
    (scenario,) = scenarios(query.term, frozenset({"S"}), {"S": key})
    found = verify(query.term, sampler, scenario, VerifyOptions(1, 4, 6, 20), start)
    assert found.counterexample is not None
    assert len([move for batch in found.counterexample.history for move in batch]) <= 3
    assert [*render(found, query.type)]


def test_of_each_key_the_last_row_is_there() -> None:
    """Of the moves of one key, the last one counts, within a batch and over several."""
    data = {"S": [(1, "a"), (1, "b"), (2, "c")], "T": [(1,)]}
    a, b, c, t = *(RowPlace("S", n) for n in range(3)), RowPlace("T", 0)
    key_of = keys_of(data, {"S": RowKey(("_1",))})
    first, second = (Move(a, 1), Move(b, 1), Move(t, 1)), (Move(a, -1), Move(c, 1), Move(c, -1))
    assert held([first], key_of) == {b, t}
    assert held([first, second], key_of) == {t}
    assert last_moves(first, key_of) == [Move(b, 1), Move(t, 1)]
    assert last_moves(second, key_of) == [Move(a, -1), Move(c, -1)]
