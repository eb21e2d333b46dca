"""The Python API with wrong arguments, and with queries that have no value: each gives one error message."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
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
    """A class that looks like a frame of some library, but has no rows to read."""

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
        (lambda: mrql.compile("count(s)", s="[<X: int>]"), "must be a bag, not [<X: int>] bag(<X: int>)"),
        (lambda: mrql.compile("count(s)", s="long"), "the stream `s` must be a bag"),
        (lambda: mrql.compile(QUERY, points=POINTS).trace(loop="fast"), "there is no way 'fast' for loops"),
        (lambda: mrql.compile(QUERY, points=POINTS).explanation(loop=None), "there is no way None for loops"),
        (lambda: mrql.compile(QUERY, points=POINTS).trace(epsilon="a", loop="exact"), "epsilon is a number, not"),
        (lambda: mrql.compile(QUERY, points=POINTS).trace(epsilon=True, loop="exact"), "epsilon is a number, not"),
        (lambda: mrql.compile(QUERY, points=POINTS).trace(insert_only="no"), "insert_only is True or False, not"),
        (lambda: mrql.compile(QUERY, points=POINTS).explanation(strict=1), "strict is True or False, not a value"),
        (lambda: mrql.compile(QUERY, points=POINTS).explanation(tables="points"), "tables is a list of names, not"),
        (lambda: mrql.compile(QUERY, points=POINTS).explain(tables=["rates"]), "the query has no stream `rates`"),
        (
            lambda: mrql.compile("select p.X from p in points order by p.Y", points=POINTS).explain(strict=True),
            "would be computed again from the whole state in each batch",
        ),
        (lambda: mrql.compile("1", max_steps=True), "max_steps is a number of steps, 1 or more, not True"),
        (lambda: mrql.compile(a="bag(long)"), 'mrql.compile("select x from x in S", S=df)'),
        (lambda: mrql.compile(text="count(S)", S="bag(long)"), "which comes first and has no name"),
        (lambda: mrql.compile("// nothing\n"), "<query> has no expression to answer"),
        (lambda: mrql.compile("count(S)", S="sales.rates"), 'S=mrql.table("sales.rates")'),
        (lambda: mrql.compile("count(S)", S="lake.`a b`.rates"), 'S=mrql.table("lake.`a b`.rates")'),
        (lambda: mrql.compile("count(S)", S="rates"), "did you mean `date`?; a table of the session's catalog is S="),
        (lambda: mrql.compile(QUERY, points=POINTS).view(checkpoint="s3://b/x"), "and s3://… is none"),
        (lambda: mrql.compile(QUERY, points=POINTS).view(checkpoint=Path("s3://b/x")), "and s3:/… is none"),
        (lambda: mrql.compile(QUERY, points=POINTS).view(checkpoint="file:///x"), "one of such a name begins with ./"),
        (lambda: mrql.compile(QUERY, points=POINTS).view(checkpoint="dbfs:/x"), "a checkpoint is a directory of this"),
        (lambda: mrql.compile(QUERY, points=POINTS).view(checkpoint=5), "a checkpoint is a directory, not a value of"),
        (lambda: mrql.compile(QUERY, points=POINTS).view(checkpoint=b"x"), "a checkpoint is a directory, not a value"),
        (lambda: mrql.compile(QUERY, points=POINTS).view(checkpoint=""), "a checkpoint is a directory, and has a name"),
        (lambda: mrql.compile(QUERY, points=POINTS).view(strict="no"), "strict is True or False, not"),
        (lambda: mrql.View.open("state"), "query.view(spark, checkpoint='state')"),
        (lambda: mrql.View.open(spark=None, checkpoint="state"), "query.view(spark, checkpoint='state')"),
        (lambda: mrql.table_changes("lake", None), "the session is a SparkSession, not"),
        (lambda: mrql.compile(QUERY, points=POINTS).batch("x"), "the session is a SparkSession, not"),
        (lambda: mrql.compile(QUERY, points=POINTS).view([1]), "the session is a SparkSession, not"),
    ],
)
def test_wrong_arguments(call: Callable[[], Any], said: str) -> None:
    """A wrong argument is a `UserError` that says what is expected."""
    with pytest.raises(UserError) as raised:
        call()
    assert said in f"{raised.value.message} {raised.value.hint}"


@pytest.mark.spark
def test_what_is_no_frame(spark: SparkSession) -> None:
    """Lists, frames of unknown classes, streaming DataFrames, duplicate columns and maps are refused as rows."""
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


@pytest.mark.spark
def test_streams_that_are_called_as_arguments(spark: SparkSession) -> None:
    """Streams may have the names of parameters of the API: `text`, `name` and `self`."""
    query = mrql.compile(
        "select a + b + c from a in text, b in name, c in self", text="bag(long)", name="bag(long)", self="bag(long)"
    )
    one, two, four = (spark.sql(f"SELECT {value}L AS x") for value in (1, 2, 4))
    assert query.batch(spark, text=one, name=two, self=four).collect() == [(7,)]
    with query.view(spark, name=two) as view:
        with view.batch() as batch:
            batch.apply(self=four)
        assert view.apply(text=one).collect() == [(7, 1)]


@pytest.mark.spark
def test_what_changes_of_a_table_are_asked_for_with(spark: SparkSession, tmp_path: Path) -> None:
    """A wrong argument of `table_changes` is an error that names it."""
    wrong: list[tuple[Callable[[], Any], str]] = [
        (lambda: mrql.table_changes(spark, 5), "a table is a directory, not a value of the type builtins.int"),
        (lambda: mrql.table_changes(spark, None), "a table is a directory, not None"),
        (lambda: mrql.table_changes(tmp_path, spark), "the session is a SparkSession, not"),
        (lambda: mrql.table_changes(spark, "s3://b/x"), "a table is a directory of this machine, and s3://… is none"),
        (lambda: mrql.table_changes(spark, "db.orders"), "a name in a catalog is not looked up"),
        (lambda: mrql.table_changes(spark, tmp_path), "there is no Delta table in"),
        (lambda: mrql.table_changes(spark, tmp_path, max_files=True), "max_files is a number of files, 1 or more"),
    ]
    for after in (3, "x", {}, {"table": "x"}, {"table": "x", "version": "1"}, {"table": 1, "version": 1}):
        wrong.append((lambda after=after: mrql.table_changes(spark, tmp_path, after=after), "after is the offset"))
    for call, said in wrong:
        with pytest.raises(UserError) as raised:
            call()
        assert said in f"{raised.value.message} {raised.value.hint}"


NAMES = ("a b", "a.b", "a`b", 'a"b', "select", "A", "a", "é-1", "1", "_", "a\\b", "left")


@pytest.mark.spark
def test_types_from_schemas(spark: SparkSession) -> None:
    """A DataFrame, a StructType and DDL give a stream the same type, whatever its columns are called."""
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
    """A query is refused if it reads a column whose type the language lacks, or if the schema is wrong."""
    with pytest.raises(UserError) as raised:
        mrql.compile(query, t=schema)
    assert said in raised.value.message


@pytest.mark.spark
def test_the_parts_of_columns(spark: SparkSession) -> None:
    """Structs are read by the names of their fields, arrays by their elements; a part of a wrong type is named."""

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
    """An error that Spark finds when the answer is read is a `UserError` with the query's own message."""
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
    """A plan is shown as a picture of its circuit in a notebook, and as its explanation in text."""
    plan = mrql.compile(QUERY, points=POINTS).plan
    picture = ElementTree.fromstring(plan._repr_svg_())
    drawn = "".join(picture.itertext())
    assert all(operator.id in drawn for operator in plan.circuit.operators)
    assert str(plan) == mrql.compile(QUERY, points=POINTS).explanation()


@pytest.mark.spark
def test_a_column_that_is_called_as_that_of_changes(spark: SparkSession) -> None:
    """Rows and answers may have a column `weight`; the changes, with two such columns, cannot be read."""
    query = mrql.compile("select <weight: 2 * p.weight> from p in points", points="bag(<weight: long>)")
    with query.view(spark) as view:
        changes = view.apply(points=spark.sql("SELECT 1L AS weight UNION ALL SELECT 3L"))
        for look in (lambda: changes.columns, changes.collect, changes.count):
            with pytest.raises(UserError, match="this answer has a column `weight`, and so have its changes"):
                look()
        view.apply(points=mrql.Delta(delete=spark.sql("SELECT 1L AS weight")))
        assert view.answer().collect() == [(6,)]
        assert view.answer().columns == ["weight"]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("head", "columns"),
    [
        ("(k, avg(p.b))", ["_1", "_2"]),
        ("k, avg(p.b)", ["k", "_2"]),
        ("k, mean: avg(p.b)", ["k", "mean"]),
        ("`the key`: k, p.a, avg(p.b)", ["the key", "a", "_3"]),
    ],
)
def test_the_columns_of_an_answer(spark: SparkSession, head: str, columns: list[str]) -> None:
    """The columns of a tuple are `_1`, `_2`, …; several expressions keep their names, or else have `_n` too."""
    query = mrql.compile(f"select {head} from p in points group by k: p.a", points="bag(<a: long, b: double>)")
    points = spark.sql("SELECT 1L AS a, 2.0D AS b")
    assert query.batch(spark, points=points).columns == columns
    with query.view(spark) as view:
        assert view.apply(points=points).columns == [*columns, "weight"]
        assert view.answer().columns == columns
        assert view.answer().collect() == [(1, 2.0) if len(columns) == 2 else (1, 1, 2.0)]
