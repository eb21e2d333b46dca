"""The scalar functions on Spark against the reference, at generated arguments.

Many calls are put into one DataFrame: a row for each row of arguments, a column for each argument of each call.
"""

from __future__ import annotations

from contextlib import suppress
from math import isfinite

import pytest
from pyspark.sql import SparkSession

import mrql
from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.functions import Function
from mrql.algebra.functions.operators import OPERATORS
from mrql.algebra.functions.xml import DOCUMENTS
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.values import Bag, Record, Value, close, same
from mrql.jobs.batch import SparkBatchJob
from mrql.output.tables import show_value
from mrql.runtime.spark.expressions import xml
from mrql.runtime.spark.expressions.conditions import COMPARISONS
from mrql.runtime.spark.expressions.expressions import Expressions
from mrql.runtime.spark.expressions.from_spark import from_spark
from mrql.runtime.spark.expressions.layout import Atom, part, quote
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.session import session
from mrql.runtime.spark.session.errors import translated
from mrql.translate.compile_program import compile_program
from tests.support.function_calls import Call, calls, split
from tests.support.function_document import examples

pytestmark = pytest.mark.spark

FRACTIONS = (ty.DOUBLE, ty.FLOAT)
ROWS = 24
SEED = 2026
KINDS: dict[str, tuple[Function, ...]] = {
    **fn.LIBRARY,
    "Operators": (*(f for f in OPERATORS if f not in (fn.ONLY, fn.AND, fn.OR, fn.NOT, fn.TRACE)), *fn.DIGITS),
    "JSON values and XML elements": tuple(f for f in DOCUMENTS if f != fn.ELEMENT),
}


def on_spark(
    spark: SparkSession, asked: list[tuple[Call, list[tuple[Value, ...]]]], *, negative: bool = False
) -> list[list[Value]]:
    """The values of calls at their rows of arguments, computed in one job. With `negative`, zeros are negative ones."""
    columns: list[list[str]] = []
    types: list[tuple[str, ty.Type]] = []
    for i, (call, _) in enumerate(asked):
        free = [(j, t) for j, t in enumerate(call.types) if j not in call.constants]
        columns.append([f"a{i}_{j}" for j, _ in free])
        types += [(f"a{i}_{j}", t) for j, t in free]
    row = ty.RecordType((("n", ty.INT), *types))
    rows = []
    for n in range(max(len(rows) for _, rows in asked)):
        fields: dict[str, Value] = {"n": n, **{name: None for name, _ in types}}
        for i, (call, given) in enumerate(asked):
            if n < len(given):
                fields |= {f"a{i}_{j}": v for j, v in enumerate(given[n]) if j not in call.constants}
        rows.append(Record(fields))
    df = to_dataframe(spark, Bag(rows), ty.BagType(row))
    if negative:
        signed = {n: f"if({n} = 0, -0.0D, {n})" if t in FRACTIONS else n for n, t in row.fields}
        df = df.selectExpr(
            *(f"CAST({sql} AS {df.schema[n].dataType.simpleString()}) AS {n}" for n, sql in signed.items())
        )
    terms = [call.term(names, row) for (call, _), names in zip(asked, columns, strict=True)]
    compiler = Expressions()
    struct = f"struct({', '.join(quote(name) for name in row.names)})"
    sqls = [compiler.sql(term, {"v": Atom("v", row)}) for term in terms]
    assert part(Atom("v", row), "n", ty.INT)
    found = df.selectExpr("n", f"{struct} AS v").selectExpr("n", *(f"{sql} AS r{i}" for i, sql in enumerate(sqls)))
    by_row = {r[0]: r for r in found.collect()}
    return [
        [from_spark(by_row[n][i + 1], terms[i].type) for n in range(len(given))] for i, (_, given) in enumerate(asked)
    ]


def disagreements(spark: SparkSession, kind: str, seed: int, rows: int = ROWS) -> list[str]:
    """A message for each row of arguments at which a call has another value on Spark than in the reference."""
    wanted = [(call, split(call)[0]) for call in calls(seed, rows, KINDS[kind])]
    wanted = [(call, good) for call, good in wanted if good]
    with session.settings(spark, session.STEP_SETTINGS):
        found = on_spark(spark, [(call, [row for row, _ in good]) for call, good in wanted])
    return [
        f"{call} at {row!r}: {show_value(value)} on Spark, {show_value(expected)} in the reference"
        for (call, good), values in zip(wanted, found, strict=True)
        for (row, expected), value in zip(good, values, strict=True)
        if not close(value, expected, largest=added_up(call.function.name, row))
    ]


def added_up(function: str, row: tuple[Value, ...]) -> float:
    """The total size of the addends of a running sum or average, at least 1: what is left of a sum that cancels is as
    inexact as its addends. For other functions it is 1."""
    if function not in ("running_sum", "running_avg"):
        return 1.0
    pairs = row[0] if isinstance(row[0], list) else []
    numbers = (pair[1] for pair in pairs if isinstance(pair, tuple))
    return max(1.0, sum(abs(n) for n in numbers if isinstance(n, float) and isfinite(n)))


@pytest.mark.parametrize("function", ["running_sum", "running_avg"])
def test_running_sums_that_cancel(spark: SparkSession, function: str) -> None:
    """A running sum in which numbers of 10¹⁶ cancel is off by a few ones; in the reference it is exact."""
    numbers = [661441.25, 4503599627370497.0, -9007199254740991.0, 4503599627370497.0, 2.5]
    rows = Bag(enumerate(numbers))
    query = mrql.compile(f"{function}(select r from r in S order by r#0)", S="bag((long, double))")
    expected = evaluate(query.term, {"S": rows})
    found = collect_value(query.batch(spark, S=to_dataframe(spark, rows, parse_type("{(long, double)}"))), query.type)
    assert close(found, expected, largest=added_up(function, (list(rows),)))
    assert not close(found, expected, largest=1e-9 * added_up(function, (list(rows),)))


@pytest.mark.parametrize("kind", KINDS)
def test_values(spark: SparkSession, kind: str) -> None:
    """Each function has the same value in both engines."""
    assert disagreements(spark, kind, SEED) == []


def test_examples(spark: SparkSession) -> None:
    """Each example of `docs/functions.md` has on Spark the value that stands beside it."""
    wanted = list(examples())
    values = evaluate(compile_program(f"({', '.join(value for _, value in wanted)})").queries[0].term)
    program = compile_program(f"({', '.join(call for call, _ in wanted)})")
    found = SparkBatchJob(program, lambda: spark).answer(program.queries[0])
    wrong = [
        f"{call} is {show_value(value)}, not {text}"
        for (call, text), value, expected in zip(wanted, found, values, strict=True)
        if not same(value, expected)
    ]
    assert wrong == []


def test_no_function_tells_the_zeros_apart(spark: SparkSession) -> None:
    """−0.0 equals 0.0: every function has the same value, and the same text, for both."""
    functions = [f for kind in KINDS.values() for f in kind if f not in DOCUMENTS]
    asked = [(call, of_zeros(split(call)[0])) for call in calls(SEED, 60, functions) if {*call.types} & {*FRACTIONS}]
    asked = [(call, rows) for call, rows in asked if rows]
    assert len({call.function.name for call, _ in asked}) >= 40
    with session.settings(spark, session.STEP_SETTINGS):
        both = [on_spark(spark, asked, negative=negative) for negative in (False, True)]
    for (call, rows), *values in zip(asked, *both, strict=True):
        for row, positive, negative in zip(rows, *values, strict=True):
            assert same(positive, negative), f"{call} at {row}: {positive} of 0.0, and {negative} of −0.0"


def of_zeros(good: list[tuple[tuple[Value, ...], Value]]) -> list[tuple[Value, ...]]:
    return [row for row, _ in good if any(isinstance(x, float) and x == 0 for x in row)]


def test_text_of_zeros(spark: SparkSession) -> None:
    """−0.0 is written as 0.0 in casts, documents and answers, as double and as float, by itself and nested."""
    text = """
    select (x as string, f as string, x as any, [x] as any, <A: x>, [x, f], 1.0 / x, 1.0 / f, atan2(0.0, x), x + x, {x},
        max([x, 0.0]) as string) from (x, f) in rows
    """
    query = mrql.compile(text, rows=ty.BagType(ty.TupleType((ty.DOUBLE, ty.FLOAT))))
    frame = spark.sql("SELECT -0.0D x, CAST(-0.0D AS FLOAT) f")
    expected = show_value(evaluate(query.term, {"rows": Bag([(0.0, 0.0)])}))
    assert show_value(evaluate(query.term, {"rows": Bag([(-0.0, -0.0)])})) == expected
    found = collect_value(query.batch(spark, rows=frame), query.type)
    assert repr(next(iter(found))).count("-0.0") == 0
    assert show_value(found) == expected


@pytest.mark.parametrize("rows", ["[]", "[null]", "[(null, null)]", "[(x, null)]", "[[]]"])
def test_lists_without_a_type(spark: SparkSession, rows: str) -> None:
    """Each list or window function has the reference's value for lists whose element type is not fully known."""
    made = []
    for function in (*fn.LIBRARY["Lists"], *fn.LIBRARY["Window functions"]):
        for more in ("", ", 2", ", null", f", {rows}", ', "-"'):
            call = f"{function.name}({rows}{more})"
            with suppress(UserError):
                mrql.compile(f"select {call} from x in S", S="bag(int)")
                made.append(call)
    query = mrql.compile(f"select ({', '.join(made)}) from x in S", S="bag(int)")
    expected = evaluate(query.term, {"S": Bag([1])})
    frame = to_dataframe(spark, Bag([1]), query.streams["S"])
    assert same(collect_value(query.batch(spark, S=frame), query.type), expected)
    assert len(made) > 10


def test_every_function_has_a_catalyst_form() -> None:
    """Every function has a form in the table, except those that are compiled separately (comparisons, functions of
    tuples, bags and documents, the parts of decimals, running functions, and rounding to digits) and `trace`, which has
    none."""
    without = {f.name for f in fn.FUNCTIONS.values() if any(version.sql is None for version in f.versions)}
    by_themselves = {"round", *(f.name for f in (*fn.RUNNING, *fn.DIGITS))}
    assert without == {*COMPARISONS, "has_null", "member", "trace", *xml.FUNCTIONS, *by_themselves}


def _failing(function: Function) -> list[tuple[Call, tuple[Value, ...], str]]:
    """An example of each error that a function can raise."""
    found: dict[str, tuple[Call, tuple[Value, ...], str]] = {}
    for call in calls(SEED, ROWS, [function]):
        for row, message in split(call)[1]:
            if "\n" not in message:  # of a message of several lines, Spark's error has the first
                found.setdefault(message.split('"')[-1], (call, row, message))
    return list(found.values())


FAILING = [failing for kind in KINDS for function in KINDS[kind] for failing in _failing(function)]


@pytest.mark.parametrize("failing", FAILING, ids=lambda failing: f"{failing[0].function.name}: {failing[2]}")
def test_errors(spark: SparkSession, failing: tuple[Call, tuple[Value, ...], str]) -> None:
    """A call that has no value in the reference is the same error on Spark."""
    from mrql.algebra.errors import UserError

    call, row, message = failing
    with (
        session.settings(spark, session.STEP_SETTINGS),
        pytest.raises(UserError) as caught,
        translated(None),
    ):
        on_spark(spark, [(call, [row])])
    assert caught.value.message == message


BLANK = " \t\n\x0b\x0c\r"
WRITTEN = {
    "bool": "TRUE",
    "int": "12",
    "long": "-12",
    "double": "1.5",
    "float": "2.5",
    "date": "2026-01-31",
    "timestamp": "2026-01-31 10:20",
}


def test_blanks_around_texts(spark: SparkSession) -> None:
    """Casts of strings to every type ignore the six blanks at both ends, and no other characters."""
    rows = Bag([(f"{blank}{blank}", 1) for blank in BLANK])
    selected = ", ".join(f'(s + "{text}" + s) as {t} = "{text}" as {t}' for t, text in WRITTEN.items())
    selected += ', (((s + "true" + s) as any) as bool)'
    query = mrql.compile(f"select ({selected}) from (s, n) in rows", rows=ty.BagType(ty.TupleType((ty.STRING, ty.INT))))
    expected = Bag([(True,) * (len(WRITTEN) + 1)] * len(BLANK))
    assert evaluate(query.term, {"rows": rows}) == expected
    frame = to_dataframe(spark, rows, ty.BagType(ty.TupleType((ty.STRING, ty.INT))))
    assert collect_value(query.batch(spark, rows=frame), query.type) == expected
    for t, text in WRITTEN.items():
        query = mrql.compile(
            f"select (s as {t}) from (s, n) in rows", rows=ty.BagType(ty.TupleType((ty.STRING, ty.INT)))
        )
        odd = Bag([(f"\x1c{text}", 1)])
        with pytest.raises(UserError, match="is not a value of type"):
            evaluate(query.term, {"rows": odd})
        frame = to_dataframe(spark, odd, ty.BagType(ty.TupleType((ty.STRING, ty.INT))))
        with pytest.raises(UserError, match="is not a value of type"), translated(query.query.span.source):
            query.batch(spark, rows=frame).collect()
