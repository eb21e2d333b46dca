"""The columns that are in the paths of files (`runtime.sources.partitions`), as expressions over those paths.

So one plan reads all files of a batch, and those of the next, since it contains no path. The values have been checked
against their types before, without Spark.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.functions.sql_text import text_sql
from mrql.algebra.types import Type
from mrql.runtime.sources.partitions import MISSING, Apart
from mrql.runtime.spark.expressions.file_texts import is_read_as_text, value_of
from mrql.runtime.spark.expressions.layout import label, quote, sql_type

PATH = "_metadata.file_path"


def completed(rows: DataFrame, spec: SourceSpec, parts: Apart, others: list[str]) -> DataFrame:
    """The rows of files with the columns of their paths, in the order of the row type, followed by the `others`."""
    if not parts.columns:
        return rows
    assert isinstance(spec.row, ty.RecordType)
    assert isinstance(parts.own.row, ty.RecordType)
    from_path, own = dict(parts.columns), {name: label(i) for i, name in enumerate(parts.own.row.names)}
    columns = [
        f"{own[name] if name in own else _value(parts.names, name, from_path[name])} AS {label(i)}"
        for i, name in enumerate(spec.row.names)
    ]
    return rows.selectExpr(*columns, *map(quote, others))


def _value(names: tuple[str, ...], name: str, t: Type) -> str:
    # Spark writes the path as a URI; decoded, it has the name on disk, whose own escapes are decoded after that.
    from_the_end = len(names) - names.index(name) + 1
    directory = f"element_at(split({PATH}, '/'), -{from_the_end})"
    written = f"regexp_extract({_decoded(directory)}, '(?s)^[^=]*=(.*)$', 1)"
    unescaped = _decoded(f"regexp_replace({written}, '%(?![0-9A-Fa-f]{{2}})', '%25')")
    return f"if({written} = {text_sql(MISSING)}, NULL, {_typed(unescaped, t)})"


def _decoded(text: str) -> str:
    """A text in which `%` and two digits stand for a byte, decoded; `+` stands for itself."""
    return f"if(contains({text}, '%'), url_decode(replace({text}, '+', '%2B')), {text})"


def _typed(text: str, t: Type) -> str:
    if t == ty.STRING:
        return text
    if t == ty.BOOL:
        return f"lower({text}) = 'true'"
    if is_read_as_text(t):
        return value_of(text, t)
    return f"CAST({text} AS {sql_type(t)})"
