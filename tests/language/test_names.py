"""The names of fields make no difference: odd names, keywords, and names that differ in case alone."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import SparkSession

import mrql
from mrql.algebra import types as ty
from mrql.algebra.catalog import Column, SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.algebra.notation.parser import parse
from mrql.algebra.notation.printer import show
from mrql.algebra.values.json_text import quoted
from mrql.algebra.values.values import Bag, Record, close, same
from mrql.algebra.values.zset import ZSet
from mrql.runtime.reference.view import ReferenceView
from mrql.runtime.sources.files import read_changes
from mrql.runtime.sources.formats.csv import CSV
from mrql.runtime.sources.formats.json import JSON
from mrql.runtime.sources.formats.parquet import PARQUET
from mrql.runtime.spark.expressions.json_variant import member
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.io.readers import read
from mrql.runtime.spark.session.session import AS_WRITTEN
from mrql.runtime.spark.session.session import settings as session_settings
from tests.support.names import CONTENTS, FIELDS, NAMES, QUERIES, STREAMS, names, renamed, renamed_value

SETTINGS = settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
OTHERS = [dict(zip(FIELDS, NAMES[i:], strict=False)) for i in range(0, len(NAMES) - len(FIELDS), len(FIELDS))]
CASES = {"F0": "a", "F1": "A", "F2": "b", "F3": "B", "F4": "á"}


def query(text: str, to: dict[str, str]) -> mrql.Query:
    plain = mrql.compile(text, **STREAMS)
    program = attrs.evolve(plain.query, term=renamed(plain.term, to))
    return attrs.evolve(plain, query=program, streams={name: renamed(t, to) for name, t in STREAMS.items()})


def contents(to: dict[str, str]) -> dict[str, Bag]:
    return {name: renamed_value(rows, to) for name, rows in CONTENTS.items()}


@pytest.mark.parametrize("text", QUERIES)
@SETTINGS
@given(chosen=names(len(FIELDS)))
def test_names_make_no_difference(text: str, chosen: list[str]) -> None:
    """A renamed query has the renamed answer, evaluated once and as a view; its notation reads back."""
    to = dict(zip(FIELDS, chosen, strict=True))
    odd, rows = query(text, to), contents(to)
    found = evaluate(odd.term, rows)
    if "any" not in text:
        assert same(found, renamed_value(evaluate(mrql.compile(text, **STREAMS).term, CONTENTS), to))
    view = ReferenceView(odd.trace().plan)
    view.apply({name: ZSet.of(rows[name]) for name in view.plan.streams})
    assert close(view.answer(), found)
    assert parse(show(odd.term), odd.streams) == odd.term


@pytest.mark.wide
@pytest.mark.spark
def test_names_make_no_difference_on_spark(spark: SparkSession) -> None:
    """A third of all names, five in each query; and all queries with names that differ in case alone.

    Every other query is also evaluated without a view.
    """
    cases = [(QUERIES[i % len(QUERIES)], to) for i, to in enumerate(OTHERS[::3])]
    # Several queries in one view, which takes little more time for a batch than a single one.
    cases += [(f"({', '.join(f'({text})' for text in QUERIES[i::4])})", CASES) for i in range(4)]
    for number, (text, to) in enumerate(cases):
        odd, rows = query(text, to), contents(to)
        expected, read_by = evaluate(odd.term, rows), odd.trace().plan.streams
        frames = {name: to_dataframe(spark, rows[name], odd.streams[name]) for name in read_by}
        if number % 2 or to is CASES:
            assert close(collect_value(odd.batch(spark, **frames), odd.term.type), expected), (text, to)
        with odd.view(spark) as view:
            view.apply(**frames)
            assert close(collect_value(view.answer(), odd.term.type), expected), (text, to)
            view.apply(**{name: mrql.Delta(delete=df) for name, df in frames.items()})
    assert spark.conf.get("spark.sql.caseSensitive") is not None


def file_of(spec: SourceSpec, rows: list[Record], directory: Path) -> Path:
    """A file of a format with some rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = directory / f"rows.{spec.format.name}"
    if spec.format is PARQUET:
        pq.write_table(pa.Table.from_pylist([row.fields for row in rows]), file)
    elif spec.format is JSON:
        lines = ["{" + ",".join(f"{quoted(n)}:{json.dumps(v)}" for n, v in row.fields.items()) + "}" for row in rows]
        file.write_text("\n".join(lines), "utf-8")
    else:
        header = ",".join('"' + name.replace('"', '""') + '"' for name in rows[0].fields)
        body = "\n".join(",".join(map(str, row.fields.values())) for row in rows)
        file.write_text(f"{header}\n{body}\n", "utf-8")
    return file


@pytest.mark.spark
def test_names_in_files(spark: SparkSession, tmp_path: Path) -> None:
    """Both engines read the same rows, whatever the names of the columns of a file."""
    plain = [name for name in NAMES if not any(c in name for c in "\r\n")]
    for number, chosen in enumerate((plain[::2], plain[1::2])):
        row = ty.RecordType(tuple((name, ty.LONG) for name in chosen))
        rows = [Record({name: 100 * i + n for n, name in enumerate(chosen)}) for i in range(3)]
        for format in (CSV, JSON, PARQUET):
            directory = tmp_path / f"{format.name}{number}"
            directory.mkdir()
            columns = tuple(Column(name, ty.LONG) for name in chosen)
            spec = SourceSpec("S", False, format, str(directory), row, columns=columns, header=format is CSV)
            file = file_of(spec, rows, directory)
            assert [value for value, _ in read_changes(spec, file)] == rows
            with session_settings(spark, AS_WRITTEN):
                frame = read(spark, spec, [file])
                found = frame.df.dataframe(spark)
                assert sorted(tuple(each) for each in found.collect()) == [tuple(each.fields.values()) for each in rows]


@pytest.mark.spark
def test_members_that_no_path_leads_to(spark: SparkSession) -> None:
    """A member of a JSON value is found by its name, whatever that is."""
    odd = [*NAMES, ""]
    text = "{" + ",".join(f"{quoted(name)}:{i}" for i, name in enumerate(odd)) + "}"
    df = spark.createDataFrame([(text,)], "t string").selectExpr("parse_json(t) AS v")
    with session_settings(spark, AS_WRITTEN):
        (found,) = df.selectExpr(*(f"to_json({member('v', name)}) AS c{i}" for i, name in enumerate(odd))).collect()
    assert [int(value) for value in found] == list(range(len(odd)))


@pytest.mark.spark
def test_the_parts_of_a_struct_are_named(spark: SparkSession) -> None:
    """The fields of structs in a DataFrame are read by name, not by position; a missing field is an error."""
    wanted = "bag(<R: <a: long, A: long>>)"
    right = spark.createDataFrame([((1, 2),)], "R struct<a: bigint, A: bigint>")
    assert [
        tuple(row)
        for row in mrql.compile("select (x.R.a, x.R.A) from x in S", S=wanted).batch(spark, S=right).collect()
    ] == [(1, 2)]
    swapped = spark.createDataFrame([((2, 1),)], "R struct<A: bigint, a: bigint>")
    assert mrql.compile("select x.R.a from x in S", S=wanted).batch(spark, S=swapped).collect()[0][0] == 1
    wrong = spark.createDataFrame([((1, 2),)], "R struct<a: bigint, b: bigint>")
    with pytest.raises(UserError, match="the column `R` of `S` has no field `A`; its fields: a, b"):
        mrql.compile("select x.R.a from x in S", S=wanted).batch(spark, S=wrong)
    amount = spark.createDataFrame([(1,)], "A int").selectExpr("CAST(1.5 AS DECIMAL(10, 2)) AS A")
    with pytest.raises(UserError, match="decimal"):
        mrql.compile("select x.A from x in S", S="bag(<A: long>)").batch(spark, S=amount)
