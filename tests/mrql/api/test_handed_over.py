"""Inputs that a program passes to a query by their names: streams, and tables of its session's catalog."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import mrql
from mrql.algebra.errors import UserError
from mrql.cli.main import main
from mrql.jobs.loading import compile_over_files

ORDERS = 'orders = stream(spark, "orders", type(<customer: string, currency: string, price: double>));'
RATES = 'rates = source(table, "rates", type(<currency: string, rate: double>));'
JOIN = "select (o.customer, sum(o.price * r.rate)) from o in orders, r in rates where o.currency = r.currency"
QUERY = f"{ORDERS}\n{RATES}\n{JOIN} group by o.customer;"
ROW = "bag(<customer: string, currency: string, price: double>)"


def test_a_text_says_what_it_is_handed() -> None:
    """A query's text has the types of its inputs; a stream of the program is one stream, whatever the text calls it."""
    query = mrql.compile(QUERY)
    assert {name: str(t) for name, t in query.streams.items()} == {
        "orders": "{<customer: string, currency: string, price: double>}",
        "rates": "{<currency: string, rate: double>}",
    }
    assert query.tables == {"rates": "rates"}
    assert "table   rates" in query.explanation()
    twice = mrql.compile('a = stream(spark, "s", type(long)); b = stream(spark, "s", type(long)); a union b')
    assert [*twice.streams] == ["s"]


def test_a_type_that_the_program_gives() -> None:
    for text in (
        'count(stream(spark, "orders"))',
        'orders = stream(spark, "orders"); count(orders)',
        'mine = stream(spark, "orders"); count(mine) + count(orders)',
        f"{ORDERS} count(orders)",
    ):
        assert [*mrql.compile(text, orders=ROW).streams] == ["orders"]


@pytest.mark.parametrize(
    ("compile", "said"),
    [
        (lambda: mrql.compile('stream(spark, "s")'), "the type of the rows is not given"),
        (lambda: mrql.compile('stream(spark, "s")'), "`mrql.compile(…, s=df)`"),
        (lambda: compile_over_files('stream(spark, "s")'), "a program may hand it over with the name"),
        (lambda: mrql.compile('stream(spark, "a b", type(long))'), '"a b" cannot be the name of an argument'),
        (lambda: mrql.compile('stream(spark, "a", "b", type(long))'), "`spark` takes one name, and a type"),
        (lambda: mrql.compile('stream(spark, "a", type(long), tagged)'), "`spark` takes one name, and a type"),
        (lambda: mrql.compile('source(spark, "a", type(long))'), "what is read with `spark` is a stream"),
        (lambda: mrql.compile('stream(table, "a", type(long))'), "what is read with `table` is a static source"),
        (lambda: mrql.compile(f"{ORDERS} orders", orders="bag(long)"), "in the text, and is given as {long}"),
        (
            lambda: mrql.compile('a = stream(spark, "s", type(long)); b = stream(spark, "s", type(int)); count(b)'),
            "the stream `s` is {int} here, and was {long} before",
        ),
        (lambda: mrql.compile('source(csv, "x", ",", type(long))'), "names its streams and reads nothing"),
        (
            lambda: mrql.compile('stream(csv, "x", ",")'),
            '`x = stream(spark, "x", type(<id: long>))`, say; `spark.read`',
        ),
        (
            lambda: mrql.compile('orders = stream(delta, "lake/orders"); orders'),
            '`orders = stream(spark, "orders", type(<id: long>))`, say; `view.follow(orders=mrql.delta_table(…))`',
        ),
        (
            lambda: mrql.compile('stream(iceberg, "db.orders")'),
            "and there is no directory db.orders",
        ),
        (
            lambda: mrql.compile('o = stream(postgresql_cdc, "postgresql://u@h/db?table=o&slot=s&publication=p"); o'),
            "`view.follow(o=mrql.postgresql_cdc(…))` follows it",
        ),
        (
            lambda: compile_over_files('s = source(csv, "x", ",", type(long)); stream(spark, "s", type(long))'),
            "the source `s` is something else already",
        ),
        (lambda: mrql.compile("orders = 1; orders", orders="bag(long)"), "`orders` is defined already"),
        (lambda: mrql.compile("select x from x in S; sum(S);", S="bag(long)"), "one expression, and this is another"),
        (lambda: mrql.table(3), "a table has a text for a name"),  # type: ignore[arg-type]
    ],
)
def test_what_is_wrong_with_it(compile: Callable[[], Any], said: str) -> None:
    with pytest.raises(UserError) as raised:
        compile()
    assert said in str(raised.value)


def test_commands_check_and_explain_such_a_file_and_read_none(tmp_path: Path) -> None:
    file, table = tmp_path / "q.mrql", tmp_path / "t.mrql"
    file.write_text(f"{ORDERS} count(orders);")
    table.write_text(f"{RATES} count(rates);")
    asked = {
        name: CliRunner().invoke(main, [name, str(file)]) for name in ("check", "explain", "run", "stream", "verify")
    }
    assert {name for name, result in asked.items() if result.exit_code == 0} == {"check", "explain"}
    for name in ("run", "stream", "verify"):
        assert "a program has to hand over the stream `orders`; a command cannot read it" in asked[name].output
        assert "q.mrql:1:10" in asked[name].output
    assert "the table `rates` of a session" in CliRunner().invoke(main, ["run", str(table)]).output


@pytest.mark.spark
def test_it_is_handed_over(spark: SparkSession, tmp_path: Path) -> None:
    """A stream is followed or applied under its name; a table is read by its name in the catalog."""
    spark.sql("SELECT * FROM VALUES ('EUR', 2D) AS t(currency, rate)").createOrReplaceTempView("rates")
    (tmp_path / "1.csv").write_text("ann,EUR,1\n")
    schema = "customer string, currency string, price double"
    orders = spark.createDataFrame([("bob", "EUR", 3.0)], schema)
    by_name = mrql.compile(f"{JOIN} group by o.customer", orders=ROW, rates=mrql.table("rates"))
    untyped = mrql.compile(f'{ORDERS} rates = source(table, "rates"); {JOIN} group by o.customer')
    assert "table   rates" in by_name.explanation()
    try:
        for query in (mrql.compile(QUERY), by_name, untyped):
            assert query.batch(spark, orders=orders).collect() == [("bob", 6.0)]
        with untyped.view(spark) as view:
            following = view.follow(
                orders=spark.readStream.schema(schema).csv(str(tmp_path)), trigger={"availableNow": True}
            )
            following.awaitTermination()
            assert view.apply(orders=orders).collect() == [("bob", 6.0, 1)]
            assert sorted(view.answer().collect()) == [("ann", 2.0), ("bob", 6.0)]
            with pytest.raises(UserError, match="`rates` is a static table"):
                view.apply(rates=spark.table("rates"))
    finally:
        spark.catalog.dropTempView("rates")
    with pytest.raises(UserError, match="the session has no table `rates`"):
        by_name.batch(spark, orders=orders)
    # A table that is passed is not looked up in the catalog.
    given = spark.createDataFrame([("EUR", 3.0)], "currency string, rate double")
    assert by_name.batch(spark, orders=orders, rates=given).collect() == [("bob", 9.0)]
    with untyped.view(spark, rates=given) as view:
        assert view.apply(orders=orders).collect() == [("bob", 9.0, 1)]
