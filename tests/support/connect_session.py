"""Queries in a session of Spark Connect: `python -m tests.support.connect_session` prints their answers as JSON.

A process has sessions of one kind only, so this is a process of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

import mrql
from tests.support.spark_settings import INTERPRETED

ROWS = "bag(<k: string, v: long, d: double>)"
QUERIES = {
    "select": "select (r.k, r.v + 1) from r in rows where r.v > 1",
    "groups": "select (k, sum(r.v), avg(r.d)) from r in rows group by k: r.k",
    "join": "select <k: r.k, w: s.v> from r in rows, s in rows where r.v = s.v and r.k < s.k",
    "order": "select r.v from r in rows order by r.v desc limit 2",
    "nested": "select (k, (select x.v from x in r)) from r in rows group by k: r.k",
    "value": "(count(rows), max(select r.d from r in rows))",
    "texts": "select (upper(r.k), r.v as string) from r in rows",
    "missing": "select (r.k, r.d) from r in rows where is_null(r.d)",
    "loop": "repeat x = {1} step select distinct y from a in x, y in {a, a + 1} where y < 5",
    "steps": "repeat n = 0 step n + count(rows) limit 3",
    "python": "function f(n: long): long { if n <= 0 then 1 else n * f(n - 1) }; select f(r.v) from r in rows",
    "time": 'select distinct (timestamp("2026-07-01 12:00:00") as string) from r in rows',
}
WRONG = {
    "no value": "select 1 / (r.v - 1) from r in rows",
    "overflow": "9223372036854775807 + 1",
}


def main() -> None:
    """Evaluates all queries, and prints the answers."""
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    for name, value in {"spark.sql.shuffle.partitions": "2", **INTERPRETED}.items():
        spark.conf.set(name, value)
    rows = spark.createDataFrame([("a", 1, 1.5), ("a", 2, None), ("B", 2, 0.5)], "K string, v long, d double")
    said: dict[str, Any] = {}
    for name, text in QUERIES.items():
        said[name] = answer(spark, text, rows)
    query = mrql.compile("select r.k from r in rows", rows=ROWS)
    said["arrow"] = plain(query.batch(spark, rows=pa.table({"k": ["x"], "v": [1], "d": [0.5]})).collect())
    # A given DataFrame means what it means in the session, where names are case-insensitive.
    said["as given"] = plain(query.batch(spark, rows=rows.selectExpr("k AS k", "V AS v", "d AS d")).collect())
    rows.createOrReplaceTempView("named")
    said["table"] = plain(mrql.compile('count(source(table, "named", type(<v: long>)))').batch(spark).collect())
    for name, text in WRONG.items():
        said[name] = refused(lambda text=text: answer(spark, text, rows))
    said["view"] = refused(lambda: query.view(spark))
    said["table that is not there"] = refused(lambda: mrql.compile('source(table, "nowhere")'))
    said["settings"] = [spark.conf.get("spark.sql.session.timeZone"), spark.conf.get("spark.sql.caseSensitive")]
    print(json.dumps(said))
    spark.stop()


def answer(spark: SparkSession, text: str, rows: DataFrame) -> list[Any]:
    """The answer to a query, over the rows if it reads them."""
    if "rows" not in text:
        return plain(mrql.compile(text).batch(spark).collect())
    return plain(mrql.compile(text, rows=ROWS).batch(spark, rows=rows.toDF("k", "v", "d")).collect())


def plain(rows: list[Any]) -> list[Any]:
    """Rows as JSON, sorted."""
    return json.loads(json.dumps(sorted(([*row] for row in rows), key=str)))


def refused(call: Callable[[], object]) -> str:
    """The message of the UserError that a call raises."""
    try:
        call()
    except mrql.UserError as error:
        return str(error)
    return "no error"


if __name__ == "__main__":
    main()
