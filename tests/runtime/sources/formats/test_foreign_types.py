"""Columns of files and of DataFrames whose types are similar to those that are asked for, with values at every
level."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st
from pyarrow import orc
from pyspark.sql import SparkSession

from mrql.algebra import types as ty
from mrql.algebra.catalog import Format, SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.functions import convert
from mrql.algebra.types import Type
from mrql.algebra.values.values import Bag, Record, Value, same
from mrql.jobs.loading import compile_over_files
from mrql.runtime.engine.arrow import arrow_type, to_plain
from mrql.runtime.sources.files import read_changes, read_source
from mrql.runtime.sources.formats.orc import ORC
from mrql.runtime.sources.formats.parquet import PARQUET
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from mrql.runtime.spark.io.readers import read
from mrql.runtime.spark.io.schema import conformed
from mrql.runtime.spark.relation.frame import ColumnNames, flat
from mrql.runtime.spark.session.session import AS_WRITTEN
from mrql.runtime.spark.session.session import settings as session_settings
from tests.support.strategies import BASIC, present

Draw = Callable[[st.SearchStrategy[Any]], Any]
NAMES = ("X", "Y", "x", "y", "Z")
"""Names of fields, some of which differ only in case."""

# The types that may be asked for, by the type that is written.
WIDER: dict[Type, tuple[Type, ...]] = {
    ty.INT: (ty.INT, ty.LONG, ty.FLOAT, ty.DOUBLE),
    ty.LONG: (ty.LONG, ty.FLOAT, ty.DOUBLE),
    ty.FLOAT: (ty.FLOAT, ty.DOUBLE),
    ty.DATE: (ty.DATE, ty.TIMESTAMP),
}


# --- what is written, and what is asked for ------------------------------------------------------


@st.composite
def pairs(draw: Draw, tuples: bool, times: bool = True, fit: bool = False) -> tuple[ty.RecordType, ty.RecordType]:
    """A type of rows that is written, without tuples, and one that is asked for: it often fits, and with `fit`
    always."""
    basic = [t for t in BASIC if times or t != ty.TIMESTAMP]
    written = draw(records(st.recursive(st.sampled_from(basic), larger, max_leaves=4)))
    return written, draw(near(written, tuples, fit))


def larger(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    return records(inner) | inner.map(ty.ListType)


def records(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[ty.RecordType]:
    fields = st.lists(
        st.tuples(st.sampled_from(NAMES), inner), min_size=1, max_size=3, unique_by=lambda field: field[0]
    )
    return fields.map(lambda chosen: ty.RecordType(tuple(chosen)))


@st.composite
def near(draw: Draw, written: Type, tuples: bool, fit: bool, top: bool = True) -> Type:
    """A type that is equal or similar to another one."""
    if not top and not fit and draw(st.integers(0, 15)) == 0:
        return draw(st.sampled_from((ty.BOOL, ty.INT, ty.STRING, ty.ListType(ty.INT), ty.RecordType((("X", ty.INT),)))))
    match written:
        case ty.RecordType(fields):
            parts = [(name, draw(near(t, tuples, fit, top=False))) for name, t in fields]
            if tuples and not top and draw(st.booleans()):
                return ty.TupleType(tuple(t for _, t in parts[: 3 if fit else draw(st.sampled_from((3, 3, 3, 1)))]))
            parts = draw(st.permutations(parts))
            kept = parts[: draw(st.sampled_from((3, 3, 1)))]
            if not fit and draw(st.integers(0, 9)) == 0:
                kept[0] = (kept[0][0].swapcase(), kept[0][1])
            return ty.RecordType(tuple(dict(kept).items()))
        case ty.ListType(item):
            return draw(st.sampled_from((ty.ListType, ty.BagType)))(draw(near(item, tuples, fit, top=False)))
        case _:
            return draw(st.sampled_from(WIDER.get(written, (written,))))


def nodes(t: Type, like: Type | None = None, at: str = "") -> dict[str, object]:
    """The kind or basic type at each place in a type. The parts of a tuple have the names of the fields that it stands
    for."""
    match t:
        case ty.RecordType(fields):
            inside = dict(like.fields) if isinstance(like, ty.RecordType) else {}
            found: dict[str, object] = {at: "fields"}
            for name, item in fields:
                found |= nodes(item, inside.get(name), f"{at}.{name}")
            return found
        case ty.TupleType(items):
            named = like.fields if isinstance(like, ty.RecordType) else ()
            if len(named) != len(items):
                return {at: "other fields"}
            return nodes(ty.RecordType(tuple((n, t) for (n, _), t in zip(named, items, strict=True))), like, at)
        case ty.BagType(item) | ty.ListType(item):
            return {at: "items"} | nodes(item, like.item if isinstance(like, ty.ListType) else None, f"{at}[]")
        case _:
            return {at: t}


def may_stand_for(written: Type, wanted: Type) -> bool:
    """Whether a written type has all parts that are asked for, with types that can be read as those asked for."""
    there = nodes(written)
    return all(
        at in there and (there[at] == t or (isinstance(t, ty.Basic) and t in WIDER.get(there[at], ())))  # type: ignore[call-overload]
        for at, t in nodes(wanted, written).items()
    )


def taken_as(value: Value, wanted: Type) -> Value:
    """A value that was written, converted to the type that is asked for."""
    if value is None:
        return None
    match wanted:
        case ty.RecordType(fields):
            return Record({name: taken_as(value[name], t) for name, t in fields})
        case ty.TupleType(items):
            return tuple(taken_as(v, t) for v, t in zip(value.fields.values(), items, strict=True))
        case ty.BagType(item):
            return Bag(taken_as(v, item) for v in value)
        case ty.ListType(item):
            return [taken_as(v, item) for v in value]
        case _:
            return convert(value, wanted)


def rows_of(t: Type) -> st.SearchStrategy[list[Value]]:
    return st.lists(present(t), min_size=1, max_size=3)


# --- files ---------------------------------------------------------------------------------------


def write(file: Path, rows: list[Value], t: ty.RecordType) -> None:
    table = pa.Table.from_pylist([to_plain(row, t) for row in rows], pa.schema(arrow_type(t)))
    (pq if file.suffix == ".parquet" else orc).write_table(table, file)


def spec_of(wanted: Type, directory: Path, format: Format) -> SourceSpec:
    return SourceSpec("S", False, format, str(directory), wanted)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_files(data: st.DataObject) -> None:
    """The reference reader reads a type that fits, by the names of fields or, for tuples, by their places, and refuses
    others."""
    format = data.draw(st.sampled_from((PARQUET, ORC)))
    written, wanted = data.draw(pairs(tuples=True, times=format is PARQUET))
    rows = data.draw(rows_of(written))
    with TemporaryDirectory() as home:
        file = Path(home) / f"f.{format.name}"
        write(file, rows, written)
        spec = spec_of(wanted, Path(home), format)
        if may_stand_for(written, wanted):
            found = Bag(row for row, _ in read_changes(spec, file))
            assert same(found, Bag(taken_as(row, wanted) for row in rows))
        else:
            with pytest.raises(UserError, match=r"has (a|no) (column|part) `"):
                list(read_changes(spec, file))


@pytest.mark.spark
def test_files_on_spark(spark: SparkSession) -> None:
    """Spark reads the same rows, also from files of different types in one directory."""

    @given(st.data())
    @settings(max_examples=8, deadline=None, phases=[Phase.generate])
    def check(data: st.DataObject) -> None:
        format = data.draw(st.sampled_from((PARQUET, ORC)))
        written, wanted = data.draw(pairs(tuples=False, times=format is PARQUET, fit=True))
        # Timestamps of any year, which Arrow does not read from ORC.
        assume(format is PARQUET or ty.TIMESTAMP not in nodes(wanted).values())
        with TemporaryDirectory() as home:
            expected = []
            for number, t in enumerate((written, wanted)):
                as_list = listed(t)
                rows = data.draw(rows_of(as_list))
                write(Path(home) / f"{number}.{format.name}", rows, as_list)
                expected += [taken_as(row, wanted) for row in rows]
            with session_settings(spark, AS_WRITTEN):
                frame = flat(read(spark, spec_of(wanted, Path(home), format)), ColumnNames()).df.dataframe(spark)
                found = collect_value(frame, ty.BagType(wanted))
            assert same(found, Bag(expected)), (written, wanted)

    check()


def listed(t: Type) -> Any:
    """A type with lists instead of bags, as it is written."""
    match t:
        case ty.RecordType(fields):
            return ty.RecordType(tuple((name, listed(item)) for name, item in fields))
        case ty.BagType(item) | ty.ListType(item):
            return ty.ListType(listed(item))
        case _:
            return t


@pytest.mark.spark
def test_pairs_are_structs_or_maps(spark: SparkSession, tmp_path: Path) -> None:
    """A bag of pairs is read from a map, or from an array of structs, whatever their fields are called, in both
    engines."""
    struct = pa.struct([("b", pa.int32()), ("a", pa.string())])
    of_structs = pa.array([[{"b": 1, "a": "c"}, None], None], pa.list_(struct))
    of_a_map = pa.array([[(2, "d")], None], pa.map_(pa.int32(), pa.string()))
    for name, column in (("structs", of_structs), ("map", of_a_map)):
        pq.write_table(pa.table({"S": column}), tmp_path / f"{name}.parquet")
    program = compile_over_files('source(parquet, "*.parquet", type(<S: {(long, string)}>));', base=tmp_path)
    (spec,) = program.sources.values()
    expected = [Bag([(1, "c"), None]), None, Bag([(2, "d")]), None]
    assert same(read_source(spec), Bag(Record({"S": value}) for value in expected))
    with session_settings(spark, AS_WRITTEN):
        frame = flat(read(spark, spec), ColumnNames()).df.dataframe(spark)
        assert same(collect_value(frame, ty.BagType(spec.row)), read_source(spec))


WRONG_FILES = [
    (
        "<S: <X: long, Y: long>>",
        pa.struct([("Y", pa.int64()), ("x", pa.int64())]),
        "has a column `S` that has no field `X`",
    ),
    ("<S: [<X: int>]>", pa.list_(pa.struct([("X", pa.int64())])), "`S[].X` that is of type long, where int was"),
    ("<S: <X: long>>", pa.struct([("X", pa.map_(pa.string(), pa.int64()))]), "part `S.X` that is of type map<string"),
    ("<S: [long]>", pa.list_(pa.decimal128(10, 2)), "has a part `S[]` that is of type decimal(10, 2), where long was"),
    ("<S: [string]>", pa.list_(pa.binary()), "has a part `S[]` that is of type binary, where string was expected"),
    ("<S: binary>", pa.string(), "has a column `S` that is of type string, where binary was expected"),
    ("<S: long>", pa.time64("us"), "has a column `S` that is of type time64[us], where long was expected"),
]


@pytest.mark.parametrize(("asked", "written", "said"), WRONG_FILES)
def test_wrong_parts_of_files(tmp_path: Path, asked: str, written: pa.DataType, said: str) -> None:
    """The message names the column, and the path to the part whose type is wrong."""
    pq.write_table(pa.table({"S": pa.array([None], written)}), tmp_path / "f.parquet")
    program = compile_over_files(f'source(parquet, "f.parquet", type({asked}));', base=tmp_path)
    with pytest.raises(UserError, match=re.escape(said)):
        read_source(next(iter(program.sources.values())))


@pytest.mark.parametrize(
    ("in_memory", "row", "value"),
    [
        (pa.dictionary(pa.int8(), pa.string()), "<S: string>", "x"),
        (pa.string_view(), "<S: string>", "x"),
        (pa.large_string(), "<S: string>", "x"),
        (pa.list_(pa.int64(), 1), "<S: [long]>", [1]),
        (pa.large_list(pa.string_view()), "<S: [string]>", ["x"]),
        (pa.list_view(pa.int64()), "<S: [long]>", [1]),
    ],
)
def test_what_a_writer_had_in_memory(tmp_path: Path, in_memory: pa.DataType, row: str, value: Value) -> None:
    """How a writer held its columns in memory, which the file records, does not change the type of the rows."""
    pq.write_table(pa.table({"S": pa.array([value, None], in_memory)}), tmp_path / "f.parquet")
    spec = next(iter(compile_over_files('source(parquet, "f.parquet");', base=tmp_path).sources.values()))
    assert str(spec.row) == row
    assert read_source(spec) == Bag([Record({"S": value}), Record({"S": None})])


def test_timestamps_of_96_bits(tmp_path: Path) -> None:
    """Timestamps of 96 bits, which Spark writes by default, are read, also those beyond the range of 64-bit
    nanoseconds."""
    times = [datetime(1600, 1, 1), datetime(2024, 1, 1, 10, 0, 0, 123), None]
    table = pa.table({"S": pa.array(times, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
    spec = next(iter(compile_over_files('source(parquet, "f.parquet");', base=tmp_path).sources.values()))
    assert read_source(spec) == Bag(Record({"S": time}) for time in times)


# --- DataFrames ----------------------------------------------------------------------------------


@pytest.mark.spark
def test_frames(spark: SparkSession) -> None:
    """DataFrames are taken by the same rules; a struct may be a tuple."""

    @given(st.data())
    @settings(max_examples=30, deadline=None, phases=[Phase.generate])
    def check(data: st.DataObject) -> None:
        written, wanted = data.draw(pairs(tuples=True))
        with session_settings(spark, AS_WRITTEN):
            if not may_stand_for(written, wanted):
                with pytest.raises(UserError, match=r"(the (column|part) `.*` of S |S has no column)"):
                    conformed(to_dataframe(spark, [], ty.BagType(written)), wanted, "S")
                return
            rows = data.draw(rows_of(written))
            df = conformed(to_dataframe(spark, rows, ty.BagType(written)), wanted, "S")
            found = collect_value(df, ty.BagType(wanted))
            assert same(found, Bag(taken_as(row, wanted) for row in rows)), (written, wanted)

    check()


@pytest.mark.spark
def test_frames_that_fit_stay_as_they_are(spark: SparkSession) -> None:
    """A DataFrame with nothing to convert is used as it is."""
    row = ty.RecordType((("A", ty.LONG), ("S", ty.RecordType((("X", ty.ListType(ty.RecordType((("Y", ty.DATE),)))),)))))
    df = to_dataframe(spark, [], ty.BagType(row))
    assert conformed(df, row, "S") is df
