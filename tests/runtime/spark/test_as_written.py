"""Text that looks like a Spark variable in a query, a name or a path is literal, whatever the session says."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import mrql
from mrql.algebra import types as ty
from mrql.runtime.engine.answer import Output
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.sources.formats.csv import CSV
from mrql.runtime.sources.formats.json import JSON
from mrql.runtime.sources.formats.parquet import PARQUET
from mrql.runtime.spark.expressions.literals import literal_sql
from mrql.runtime.spark.io.answer import SparkRows
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.session.session import start_settings

VARIABLES = ("${env:HOME}", "${system:user.name}", "${spark.app.name}", "x${spark:spark.app.id}y", "$${env:HOME}}")
"""Each of them is replaced in the text of a statement where `spark.sql.variable.substitute` is on."""


def test_a_string_begins_no_variable() -> None:
    """The SQL of a string constant has no `$`, and so no `${`."""
    assert all("$" not in literal_sql(variable, ty.STRING) for variable in VARIABLES)


def test_a_session_of_our_own_substitutes_nothing() -> None:
    """A session that mrql starts substitutes no variables, even if that is requested."""
    assert start_settings(None, {"spark.sql.variable.substitute": "true"})["spark.sql.variable.substitute"] == "false"


@pytest.mark.spark
def test_constants_and_names(spark: SparkSession, tmp_path: Path) -> None:
    """In a session that substitutes variables, constants, names of fields and columns, and paths are still literal."""
    session = spark.newSession()
    session.conf.set("spark.sql.variable.substitute", "true")
    assert session.sql("SELECT '${env:HOME}'").first() != ("${env:HOME}",)
    name = "${env:HOME}"
    record = ty.RecordType(((name, ty.STRING), ("n", ty.LONG), ("d", ty.DOUBLE)))
    rows = session.range(2).select(F.lit("a").alias(name), "id", F.lit(1).alias("d")).withColumnRenamed("id", "n")
    wanted = ", ".join(f'"{variable}"' for variable in VARIABLES)
    query = mrql.compile(f"select (x, ({wanted}), [{wanted}]) from x in rows", rows=ty.BagType(record))
    expected = {("a", n, VARIABLES, VARIABLES) for n in (0, 1)}

    def found(answer: object) -> object:
        return {(x[name], x["n"], texts, tuple(listed)) for x, texts, listed in collect_value(answer, query.type)}  # type: ignore[arg-type]

    assert found(query.batch(session, rows=rows)) == expected
    with query.view(session) as view:
        view.apply(rows=rows)
        assert found(view.answer()) == expected
        view.apply(rows=mrql.Delta(delete=rows.where("n = 0")))
        assert found(view.answer()) == {row for row in expected if row[1] == 1}
    for format in (JSON, CSV, PARQUET):
        directory = tmp_path / "${env:HOME}" / format.name
        bag = ty.BagType(record)
        SparkRows(rows, bag).write(Output(bag, False, format), directory, DurableFiles())
        assert sum(len(part.read_bytes()) for part in directory.glob("part-*")), format
    assert session.conf.get("spark.sql.variable.substitute") == "true"
