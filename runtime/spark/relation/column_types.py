"""The types of Spark's columns in SQL."""

from __future__ import annotations

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from mrql.runtime.spark.expressions.layout import quote


def type_sql(t: DataType) -> str:
    """A type as SQL has it after `CAST(… AS`. `simpleString` does not quote the names of fields.

    >>> from pyspark.sql.types import LongType
    >>> print(type_sql(ArrayType(StructType().add("a-b", LongType()))))
    ARRAY<STRUCT<`a-b`: bigint>>
    """
    match t:
        case StructType():
            return f"STRUCT<{', '.join(f'{quote(field.name)}: {type_sql(field.dataType)}' for field in t)}>"
        case ArrayType():
            return f"ARRAY<{type_sql(t.elementType)}>"
        case MapType():
            return f"MAP<{type_sql(t.keyType)}, {type_sql(t.valueType)}>"
        case _:
            return t.simpleString()
