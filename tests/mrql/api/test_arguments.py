"""The Python interface, given what it does not take, and queries that have no value: one message each, no trace."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any
from xml.etree import ElementTree

import pytest
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra.errors import UserError
from mrql.runtime.spark.expressions.layout import quote

QUERY = "select (k, sum(p.Y)) from p in points group by k: p.X"
POINTS = "bag(<X: long, Y: double>)"


class Frame:
    """What is called as a frame of some library, and gives its rows to nobody."""

    columns = ("X", "Y")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: mrql.compile(5), "a query is a text, not a value of the type builtins.int"),
        (lambda: mrql.compile(None), "a query is a text, not None"),
        (lambda: mrql.compile("1", 7), "the name of a query is a text"),
        (lambda: mrql.compile("1", max_steps=0), "max_steps is a number of steps, 1 or more, not 0"),
        (lambda: mrql.compile("1", max_steps="x"), "max_steps is a number of steps"),
        (
            lambda: mrql.compile("count(s)", s=5),
            "the type of the stream `s` is a text, a type, a StructType or a DataFrame, not",
        ),
        (lambda: mrql.compile("count(s)", s=[1]), '`mrql.compile(…, s="bag(<X: long>)")`, or s="X BIGINT"'),
        (
            lambda: mrql.compile("count(s)", s=None),
            "the type of the stream `s` is a text, a type, a StructType or a DataFrame, not None",
        ),
        (lambda: mrql.compile("count(s)", s="long"), "the stream `s` must be a bag"),
        (lambda: mrql.compile(QUERY, points=POINTS).trace(loop="fast"), "there is no way 'fast' for loops"),
        (lambda: mrql.compile(QUERY, points=POINTS).explanation(loop=None), "there is no way None for loops"),
        (lambda: mrql.compile(QUERY, points=POINTS).trace(epsilon="a", loop="exact"), "epsilon is a number, not"),
        (lambda: mrql.compile(QUERY, points=POINTS).batch("x"), "the session is a SparkSession, not"),
        (lambda: mrql.compile(QUERY, points=POINTS).view([1]), "the session is a SparkSession, not"),
    ],
)
def test_wrong_arguments(call: Callable[[], Any], said: str) -> None:
    """Whatever is given where something else is wanted."""
    with pytest.raises(UserError) as raised:
        call()
    assert said in f"{raised.value.message} {raised.value.hint}"


@pytest.mark.spark
def test_what_is_no_frame(spark: SparkSession) -> None:
    """Rows as a list, of an unknown library, and those that are still to come; columns that are there twice; maps."""
    query = mrql.compile(QUERY, points=POINTS)
    coming = spark.readStream.format("rate").load().selectExpr("value AS X", "1D AS Y")
    twice = spark.sql("SELECT 1L AS X, 2L AS X, 1D AS Y")
    mapped = spark.sql("SELECT map('a', 1L) AS X, 1D AS Y")
    wrong: list[tuple[Any, str]] = [
        (
            [(1, 2.0)],
            "`points` is a DataFrame of Spark or pandas or a table of Arrow, not a value of the type builtins.list",
        ),
        (Frame(), "not a value of the type tests.mrql.api.test_arguments.Frame"),
        (None, "`points`"),
        (coming, "`points` is a DataFrame that is still to come"),
        (twice, "`points` has the column `X` twice"),
        (mapped, "the column `X` of `points` is of type map<string,bigint>, where long was expected"),
    ]
    with query.view(spark) as view:
        for df, said in wrong:
            calls: list[Callable[[Any], object]] = [
                lambda df: query.batch(spark, points=df),
                lambda df: view.apply(points=df),
                lambda df: query.view(spark, points=df),
            ]
            if df is not None:
                calls += [
                    lambda df: view.apply(points=mrql.Delta(df)),
                    lambda df: view.apply(points=mrql.Delta(None, df)),
                ]
            for call in calls:
                with pytest.raises(UserError) as raised:
                    call(df)
                assert said in raised.value.message


NAMES = ("a b", "a.b", "a`b", 'a"b', "select", "A", "a", "é-1", "1", "_", "a\\b", "left")


@pytest.mark.spark
def test_types_from_schemas(spark: SparkSession) -> None:
    """A DataFrame, a StructType and DDL say the same of a stream, whatever its columns are called."""
    columns = ", ".join(f"{i}L AS {quote(name)}" for i, name in enumerate(NAMES))
    df = spark.sql(
        f"SELECT {columns}, named_struct('x', 1, 'b', INTERVAL '1' DAY) AS s, INTERVAL '1' DAY AS gone, 1.5BD AS d,"
        "map('a', 1) AS m"
    )
    ddl = ", ".join(f"{quote(name)} BIGINT" for name in NAMES) + ", s STRUCT<x: INT, b: INTERVAL DAY>"
    ddl += ", d DECIMAL(2, 1), m MAP<STRING, INT>"
    found = mrql.compile("t", t=df)
    assert found.type == mrql.compile("t", t=df.schema).type == mrql.compile("t", t=ddl).type
    rows = found.batch(spark, t=df).collect()
    assert [tuple(row) for row in rows] == [(*range(len(NAMES)), (1,), Decimal("1.5"), [("a", 1)])]
    assert mrql.compile('select r.m["a"] + 1 from r in t', t=df).batch(spark, t=df).collect()[0][0] == 2
    assert mrql.compile("select r.s.x from r in t", t=df).batch(spark, t=df).collect()[0][0] == 1


@pytest.mark.spark
@pytest.mark.parametrize(
    ("query", "schema", "said"),
    [
        ("select r.b from r in t", "a INT, b INTERVAL DAY", "the field `b` is of type interval day, which the"),
        (
            "select b from <b: b> in t",
            "a INT, b MAP<INT, INTERVAL DAY>",
            "the field `b` is of type map<int,interval day>, which the",
        ),
        ("select r.a.c from r in t", "a STRUCT<b: INT, c: INTERVAL DAY>", "the field `c` is of type interval day"),
        ("count(t)", "a INTERVAL DAY", "`t` has no column of a type that the language has, but `a` interval day"),
        ("count(t)", "a INT, a INT", "`t` has the column `a` twice"),
        ("count(t)", "a INTT", "the type of the stream `t` is none that Spark can read: "),
    ],
)
def test_columns_that_the_language_has_no_type_for(spark: SparkSession, query: str, schema: str, said: str) -> None:
    """They refuse the queries that read them."""
    with pytest.raises(UserError) as raised:
        mrql.compile(query, t=schema)
    assert said in raised.value.message


@pytest.mark.spark
def test_the_parts_of_columns(spark: SparkSession) -> None:
    """Structs are read by the names of their fields, arrays by their elements; what does not fit is named."""

    def read(stream: str, query: str, column: str) -> Any:
        df = spark.sql(f"SELECT {column} AS C").alias("C")
        return mrql.compile(query, s=f"bag(<C: {stream}>)").batch(spark, s=df).collect()[0][0]

    right: list[tuple[str, str, str, object]] = [
        ("<X: long, Y: long>", "select x.C.X from x in s", "named_struct('Y', 2L, 'X', 1L)", 1),
        ("<X: long, Y: long>", "select x.C.X from x in s", "named_struct('y', 3, 'Y', 2, 'X', 1)", 1),
        ("<X: double>", "select x.C.X from x in s", "named_struct('Y', map('a', 1), 'X', 1L)", 1.0),
        (
            "(long, (long, string))",
            "select x.C#1#1 from x in s",
            "named_struct('b', 1, 'a', named_struct('c', 2, 'd', 'x'))",
            "x",
        ),
        ("[<X: long>]", "select sum(select y.X from y in x.C) from x in s", "array(named_struct('Z', 1L, 'X', 5))", 5),
        ("[any]", "select x.C[0] as long from x in s", "array(parse_json(' 7 '))", 7),
        ("[any]", 'select x.C[0] = "a" from x in s', """array(' "a"')""", True),
        (
            "[timestamp]",
            "select x.C[0] as string from x in s",
            "array(TIMESTAMP'2026-01-01 00:00:00 UTC')",
            "2026-01-01 00:00:00",
        ),
        ("decimal(12, 2)", "select x.C from x in s", "CAST('1.5' AS DECIMAL(3, 1))", Decimal("1.50")),
        ("[long]", "select count(x.C) from x in s", "CAST(array(3, NULL) AS ARRAY<DECIMAL(20, 0)>)", 2),
    ]
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        for stream, query, column, expected in right:
            assert read(stream, query, column) == expected, (stream, column)
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    wrong = [
        ("any", "map('a', 1L)", "the column `C` of `s` is of type map<string,bigint>, where any was expected"),
        ("[any]", "array(map('a', 1L))", "the part `C[]` of `s` is of type map<string,bigint>, where any was expected"),
        ("<X: any>", "named_struct('X', X'00')", "the part `C.X` of `s` is of type binary, where any was expected"),
        ("any", "named_struct('X', 1)", "the column `C` of `s` is of type <X: int>, where any was expected"),
        ("<X: [any]>", "named_struct('X', array(1.5))", "the part `C.X[]` of `s` is of type decimal(2,1), where any"),
        ("(any, long)", "named_struct('X', INTERVAL '1' DAY, 'Y', 1)", "the part `C.X` of `s` is of type interval day"),
        ("[int]", "array(1.5D)", "the part `C[]` of `s` is of type double, where int was expected"),
        ("decimal(12, 2)", "1.505", "the column `C` of `s` is of type decimal(4,3), where decimal(12, 2) was expected"),
        ("[long]", "array(1.5)", "the part `C[]` of `s` is of type decimal(2,1), where long was expected"),
        ("<X: long, Y: long>", "named_struct('x', 1, 'Y', 2)", "`C` of `s` has no field `X`; its fields: x, Y"),
        ("[<X: long>]", "array(named_struct('Y', 1))", "the part `C[]` of `s` has no field `X`; its fields: Y"),
        ("<X: long>", "named_struct('X', 1, 'X', 2)", "the column `C` of `s` has the field `X` twice"),
        ("(long, long)", "named_struct('X', 1)", "the column `C` of `s` is of type <X: int>, where (long, long) was"),
    ]  # fmt: skip
    for stream, column, said in wrong:
        with pytest.raises(UserError) as raised:
            read(stream, "count(s)", column)
        assert said in raised.value.message
    with pytest.raises(UserError, match="integer overflow"):
        read("long", "select x.C from x in s", "CAST('9223372036854775808' AS DECIMAL(20, 0))")


@pytest.mark.spark
def test_a_query_without_a_value(spark: SparkSession) -> None:
    """What Spark finds when the answer is read is told as what it is."""
    rows = spark.sql("SELECT 0L AS X")
    answers = [
        (mrql.compile("1 / 0").batch(spark), "division by zero"),
        (mrql.compile("select 1 / p.X from p in ps", ps="bag(<X: long>)").batch(spark, ps=rows), "division by zero"),
        (mrql.compile("9223372036854775807 + 1").batch(spark), "integer overflow"),
        (mrql.compile('"x" as int').batch(spark), '"x" is not a value of type int'),
    ]
    reads: list[Callable[[DataFrame], object]]
    reads = [
        lambda df: df.collect(),
        lambda df: df.first(),
        lambda df: df.take(1),
        lambda df: df.show(),
        lambda df: df.toArrow(),
        lambda df: list(df.toLocalIterator()),
    ]
    for df, said in answers:
        for read in reads if said.startswith("division") else reads[:1]:
            with pytest.raises(UserError, match=said):
                read(df)
    assert mrql.compile("6 / 2").batch(spark).collect()[0][0] == 3


def test_a_plan_draws_itself() -> None:
    """In a notebook as a picture, printed as text; its operators are those that a batch goes through."""
    plan = mrql.compile(QUERY, points=POINTS).plan
    picture = ElementTree.fromstring(plan._repr_svg_())
    drawn = "".join(picture.itertext())
    assert all(operator.id in drawn for operator in plan.circuit.operators)
    assert str(plan) == mrql.compile(QUERY, points=POINTS).explanation()


@pytest.mark.spark
def test_a_column_that_is_called_as_that_of_changes(spark: SparkSession) -> None:
    """It may come in and go out; the changes, which then had two of that name, are an error."""
    query = mrql.compile("select <weight: 2 * p.weight> from p in points", points="bag(<weight: long>)")
    with query.view(spark) as view:
        changes = view.apply(points=spark.sql("SELECT 1L AS weight UNION ALL SELECT 3L"))
        for look in (lambda: changes.columns, changes.collect, changes.count):
            with pytest.raises(UserError, match="this answer has a column `weight`, and so have its changes"):
                look()
        view.apply(points=mrql.Delta(delete=spark.sql("SELECT 1L AS weight")))
        assert view.answer().collect() == [(6,)]
        assert view.answer().columns == ["weight"]
