"""DataFrames as rows of a type of the language: each column, and each part of one, converted as the type says."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    DecimalType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VarcharType,
    VariantType,
)

from mrql.algebra import functions as fn
from mrql.algebra import types as ty
from mrql.algebra.errors import UserError
from mrql.algebra.functions.function import fails
from mrql.algebra.functions.time_parsing import nanosecond_sql, utc_fields
from mrql.algebra.types import Type
from mrql.runtime.engine.row_format import row_columns
from mrql.runtime.sources.formats.foreign_types import (
    Fields,
    Foreign,
    ForeignAtom,
    Pairs,
    Sequence,
    misfit,
    own_type,
    twice,
)
from mrql.runtime.spark.expressions import json_variant
from mrql.runtime.spark.expressions.canonical_order import Fresh
from mrql.runtime.spark.expressions.casts import numbered
from mrql.runtime.spark.expressions.layout import label, labels, quote, record_sql, sql_type


def conformed(
    df: DataFrame,
    row: Type,
    what: str,
    *,
    missing_columns: bool = False,
    nanoseconds: bool = False,
    enumerations: bool = False,
) -> DataFrame:
    """A DataFrame's columns in the order and the types of a row: by name for records, else by position. With
    `missing_columns`, absent columns, and absent fields inside columns, have missing values; with `nanoseconds`, a long
    may be a timestamp, in nanoseconds since 1970; with `enumerations`, a string may be its bytes.

    Raises: UserError when a column or a part of one is missing, there twice, or of a type that does not widen to the
        wanted one.
    """
    places = _places(df, row, what, missing_columns=missing_columns)
    # Generated names: a name of a column, followed by that of a field, could be taken for a table and its column.
    renamed = [label(i) for i, _ in enumerate(df.columns)]
    made = []
    for (name, wanted), place in zip(row_columns(row), places, strict=True):
        if place is None:
            made.append(f"CAST(NULL AS {sql_type(wanted)})")
            continue
        have = df.schema.fields[place].dataType
        found = foreign(have, nanoseconds=nanoseconds, enumerations=enumerations)
        wrong = misfit(found, wanted, name, may_lack_fields=missing_columns)
        if wrong is not None:
            raise UserError(f"the {wrong} of {what} {wrong.wrong}")
        made.append(_made(quote(renamed[place]), have, wanted, numbered("j")))
    as_it_is = made == [quote(name) for name in renamed] and len({name.lower() for name in df.columns}) == len(renamed)
    if as_it_is:
        return df
    columns = zip(made, row_columns(row), strict=True)
    return df.toDF(*renamed).selectExpr(*(f"{sql} AS {quote(name)}" for sql, (name, _) in columns))


def _places(df: DataFrame, row: Type, what: str, *, missing_columns: bool) -> list[int | None]:
    """The positions of the columns of a row in a DataFrame; None for those that are missing."""
    wanted = row_columns(row)
    if not isinstance(row, ty.RecordType):
        if len(df.columns) != len(wanted):
            raise UserError(f"{what} has {len(df.columns)} columns, where {len(wanted)} were expected")
        return [*range(len(wanted))]
    missing = [name for name, _ in wanted if name not in df.columns]
    if missing and not missing_columns:
        raise UserError(f"{what} has no column `{missing[0]}`", hint=f"its columns: {', '.join(df.columns)}")
    twice = [name for name, _ in wanted if df.columns.count(name) > 1]
    if twice:
        raise UserError(f"{what} has the column `{twice[0]}` twice", hint=f"its columns: {', '.join(df.columns)}")
    return [df.columns.index(name) if name in df.columns else None for name, _ in wanted]


_SINGLE: Mapping[str, tuple[Type, ...]] = {
    "void": (ty.NOTHING,),
    "boolean": (ty.BOOL, ty.TupleType(()), ty.RecordType(())),
    "tinyint": (ty.INT,),
    "smallint": (ty.INT,),
    "int": (ty.INT,),
    "bigint": (ty.LONG,),
    "float": (ty.FLOAT,),
    "double": (ty.DOUBLE,),
    "string": (ty.STRING, ty.ANY, ty.XML),
    "variant": (ty.ANY,),
    "binary": (ty.BYTES,),
    "date": (ty.DATE,),
    "timestamp": (ty.TIMESTAMP,),
    "timestamp_ntz": (ty.TIMESTAMP,),
}
"""For each type of Spark the types of the language that it can be read as. A string is JSON where that is `any`."""


def foreign(t: DataType, *, nanoseconds: bool = False, enumerations: bool = False) -> Foreign:
    """A type of Spark, to be compared with one of the language. With `nanoseconds`, a long may be a timestamp; with
    `enumerations`, a string may be bytes, as in Arrow."""
    of_part = partial(foreign, nanoseconds=nanoseconds, enumerations=enumerations)
    match t:
        case ArrayType():
            return Sequence(of_part(t.elementType))
        case MapType():
            return Pairs(of_part(t.keyType), of_part(t.valueType))
        case StructType():
            return Fields(tuple((field.name, of_part(field.dataType)) for field in t.fields))
        case LongType() if nanoseconds:
            return ForeignAtom("bigint", (ty.LONG, ty.TIMESTAMP))
        case StringType() if enumerations:
            return ForeignAtom("string", (*_SINGLE["string"], ty.BYTES))
        case CharType() | VarcharType():
            return ForeignAtom(t.simpleString(), _SINGLE["string"])
        case DecimalType():
            exact = ty.DecimalType(t.precision, t.scale) if 0 <= t.scale <= t.precision else ty.DecimalType(38)
            return ForeignAtom(t.simpleString(), (exact, ty.FLOAT) if t.scale else (exact, ty.INT))
        case _:
            return ForeignAtom(t.simpleString(), _SINGLE.get(t.simpleString(), ()))


def row_of_schema(schema: StructType, what: str) -> ty.RecordType:
    """The type of the rows of DataFrames with a schema. Columns of types that the language does not have are left out.

    Raises: UserError where a column is there twice, or none is of a type of the language.
    """
    if wrong := twice(schema.names):
        raise UserError(f"{what} has the column `{wrong}` twice", hint=f"its columns: {', '.join(schema.names)}")
    row = own_type(foreign(schema))
    if not isinstance(row, ty.RecordType) or not row.fields:
        found = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in schema.fields)
        raise UserError(f"{what} has no column of a type that the language has, but {found or 'none at all'}")
    return row


def schema_of_ddl(text: str, what: str, spark: SparkSession) -> StructType:
    """A schema in DDL, `id BIGINT, at TIMESTAMP`, as Spark reads it, which needs a session.

    Raises: UserError where the text is no schema.
    """
    assert spark is not None
    try:
        found = StructType.fromDDL(text)
    except PySparkException as error:
        said = (error.getMessage() or "").strip().split("\n")[0]
        raise UserError(f"the type of {what} is none that Spark can read: {said}", hint=_TYPES) from None
    assert isinstance(found, StructType)
    return found


_TYPES = '"id BIGINT, at TIMESTAMP", say, or "bag(<id: long, at: timestamp>)"'


def _made(sql: str, have: DataType, wanted: Type, fresh: Fresh) -> str:
    """A column, or a part of one, as the wanted type; the same expression where it has that type already."""
    match wanted, have:
        case _, NullType():
            return f"CAST(NULL AS {sql_type(wanted)})"
        case ty.ANY, _:
            return json_variant.canonical_text(sql if isinstance(have, VariantType) else f"parse_json({sql})", fresh)
        case ((ty.BagType(item) | ty.ListType(item)), ArrayType()):
            x = fresh("e")
            made = _made(x, have.elementType, item, fresh)
            return sql if made == x else f"transform({sql}, {x} -> {made})"
        case ty.BagType(item), MapType():
            entry = StructType([StructField("key", have.keyType), StructField("value", have.valueType)])
            return _made(f"map_entries({sql})", ArrayType(entry), wanted, fresh)
        case ((ty.TupleType(()) | ty.RecordType(())), _):
            return f"if({sql} IS NULL, NULL, true)"
        case ((ty.TupleType() | ty.RecordType()), StructType()):
            return _struct(sql, have, wanted, fresh)
        case _:
            return _single(sql, have, wanted)


def _struct(sql: str, have: StructType, wanted: ty.TupleType | ty.RecordType, fresh: Fresh) -> str:
    called = [name for name, _ in labels(wanted)]
    names = have.names if isinstance(wanted, ty.TupleType) else called
    parts = [f"{sql}.{quote(name)}" for name in names]
    made = [
        _made(part, have[name].dataType, t, fresh) if name in have.names else f"CAST(NULL AS {sql_type(t)})"
        for part, name, (_, t) in zip(parts, names, labels(wanted), strict=True)
    ]
    if made == parts and have.names == called:
        return sql
    return f"if({sql} IS NULL, NULL, {record_sql(zip(called, made, strict=True))})"


def _single(sql: str, have: DataType, wanted: Type) -> str:
    found, as_wanted = have.simpleString(), sql_type(wanted)
    if found == as_wanted.lower():
        return sql
    if found == "timestamp":
        return utc_fields(sql)
    if found == "bigint" and wanted == ty.TIMESTAMP:
        return nanosecond_sql(sql)
    if isinstance(have, DecimalType) and isinstance(wanted, ty.Basic) and ty.is_integral(wanted):
        low, high = fn.INT_RANGES[wanted]
        wrong = fails("", "integer overflow")
        return f"if({sql} IS NULL OR {sql} BETWEEN {low} AND {high}, CAST({sql} AS {as_wanted}), {wrong})"
    return f"CAST({sql} AS {as_wanted})"
