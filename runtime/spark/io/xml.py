"""Elements of XML, read by Spark: the text of a file is split into tokens, and those of a row are written as data.

The files are well formed (`runtime.sources.formats.xml`), without entities and defaults of their own, so that each
token can be written by itself: a start tag begins a `Node`, an end tag ends it, and anything between two tags is a
text. Spark's own reader of XML would lose the order of children with different tags, and of the texts between them.

A file is cut at the end tags of rows, and read in pieces, by several tasks. One in which a row is inside another one,
or in which a comment has such a tag, is read as a whole (`SourceSpec.whole`).
"""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

import attrs
from pyspark.sql import DataFrame, SparkSession

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.functions.sql_text import text_sql
from mrql.runtime.sources.formats.xml import is_cut_by_rows
from mrql.runtime.spark.expressions.canonical_order import Fresh, let
from mrql.runtime.spark.expressions.xml import BLANKS, NODE_END, attribute_json, node_start, text_json
from mrql.runtime.spark.io.file_reader import file_reader
from mrql.runtime.spark.io.spark_format import ParsedRows, SparkFormat

CDATA = r"<!\[CDATA\[(?s:.*?)\]\]>"
ASIDE = r"<!--(?s:.*?)-->|<\?(?s:.*?)\?>"
PIECE = rf"[^<]++|{CDATA}|{ASIDE}"
"""A piece of a text: characters, a CDATA section, or a comment or a processing instruction, which is no text."""
MARKUP = r"""<[^>\["']*+(?:(?:"[^"]*+"|'[^']*+')[^>\["']*+)*+[>\[]"""
"""A tag, or a declaration, which ends early where the declarations inside it begin."""
TOKEN = rf"(?:{PIECE})++|{MARKUP}"
ATTRIBUTE = r"""[^\s=<>"'/]+\s*=\s*(?:"[^"]*"|'[^']*')"""
REFERENCE = r"&[^;]*+;|[^&]++"


def read_xml(spark: SparkSession, spec: SourceSpec, paths: list[str], apart: bool) -> ParsedRows:
    whole: DataFrame | None = None
    for tag in spec.tags:
        rows = _rows(spark, spec, paths, tag)
        whole = rows if whole is None else whole.union(rows)
    assert whole is not None
    return ParsedRows(whole, ["value"])


def resolved_spec(spec: SourceSpec, file: Path) -> SourceSpec:
    """The source for one file, with `whole` set where it cannot be read in pieces."""
    return attrs.evolve(spec, whole=not is_cut_by_rows(spec, file))


def _rows(spark: SparkSession, spec: SourceSpec, paths: list[str], tag: str) -> DataFrame:
    """The elements with a tag, as data."""
    fresh = _names()
    end = f"</{tag}>"
    if spec.whole:
        texts, text = file_reader(spark).text(paths, wholetext=True), "value"
    else:
        texts, text = file_reader(spark).text(paths, lineSep=end), f"concat(value, {text_sql(end)})"
    lines = rf"regexp_replace({text}, {text_sql(chr(13) + '?' + chr(10) + '|' + chr(13))}, {text_sql(chr(10))})"
    tokens = texts.selectExpr(f"regexp_extract_all({lines}, {text_sql(TOKEN)}, 0) AS tokens")
    rows = tokens.selectExpr(f"explode({_cut(fresh, tag)}) AS row")
    return rows.selectExpr(f"{_written(fresh, 'row')} AS value")


def _names() -> Fresh:
    numbers = count(1)
    return lambda base="x": f"{base}{next(numbers)}"


# --- rows ---------------------------------------------------------------------------------------


def _cut(fresh: Fresh, tag: str) -> str:
    """The tokens of each element with a tag that is not inside another element with that tag."""
    t, i, m, r = fresh("t"), fresh("i"), fresh("m"), fresh("r")
    marked = f"transform(tokens, ({t}, {i}) -> named_struct('k', {_row_kind(t, tag)}, 'i', {i}))"
    marks = f"filter({marked}, {m} -> {m}.k IS NOT NULL)"
    places = let(
        fresh, marks, lambda found: f"if({_is_nested(fresh, found)}, {_fold(fresh, found)}, {_zip(fresh, found)})"
    )
    return f"transform({places}, {r} -> slice(tokens, {r}.a + 1, {r}.b - {r}.a + 1))"


def _row_kind(token: str, tag: str) -> str:
    """`o` for the start tag of a row, `c` for its end tag, `s` for an empty-element tag, else null."""
    name = re.escape(tag)
    start, end = text_sql(rf"\A<{name}[\s/>]"), text_sql(rf"\A</{name}\s*>")
    return (
        f"CASE WHEN {token} RLIKE {start} THEN if(endswith({token}, '/>'), 's', 'o') "
        f"WHEN {token} RLIKE {end} THEN 'c' END"
    )


def _is_nested(fresh: Fresh, marks: str) -> str:
    a, b, both = fresh("a"), fresh("b"), fresh("both")
    shifted = f"slice({marks}, 2, greatest(size({marks}) - 1, 0))"
    return f"exists(zip_with({marks}, {shifted}, ({a}, {b}) -> {a}.k = 'o' AND {b}.k <> 'c'), {both} -> {both})"


def _zip(fresh: Fresh, marks: str) -> str:
    """The places where rows begin and end, if none is inside another one; behind the last there may be one more end."""

    def those(left_out: str) -> str:
        m = fresh("m")
        return f"filter({marks}, {m} -> {m}.k <> '{left_out}')"

    a, b, r = fresh("a"), fresh("b"), fresh("r")
    pairs = f"zip_with({those('c')}, {those('o')}, ({a}, {b}) -> named_struct('a', {a}.i, 'b', {b}.i))"
    return f"filter({pairs}, {r} -> {r}.a IS NOT NULL)"


def _fold(fresh: Fresh, marks: str) -> str:
    """The places where the outermost rows begin and end."""
    s, m, e = fresh("s"), fresh("m"), fresh("e")
    none = "CAST(array() AS ARRAY<STRUCT<a: INT, b: INT>>)"
    begin = f"named_struct('depth', 0, 'at', 0, 'rows', {none})"

    def state(depth: str, at: str, rows: str) -> str:
        return f"named_struct('depth', {depth}, 'at', {at}, 'rows', {rows})"

    def with_row(first: str, depth: int) -> str:
        row = f"named_struct('a', {first}, 'b', {m}.i)"
        return f"if({s}.depth = {depth}, array_append({s}.rows, {row}), {s}.rows)"

    step = (
        f"CASE {m}.k WHEN 'o' THEN {state(f'{s}.depth + 1', f'if({s}.depth = 0, {m}.i, {s}.at)', f'{s}.rows')} "
        f"WHEN 's' THEN {state(f'{s}.depth', f'{s}.at', with_row(f'{m}.i', 0))} "
        f"ELSE {state(f'{s}.depth - 1', f'{s}.at', with_row(f'{s}.at', 1))} END"
    )
    return f"aggregate({marks}, {begin}, ({s}, {m}) -> {step}, {e} -> {e}.rows)"


# --- elements as data ---------------------------------------------------------------------------


def _written(fresh: Fresh, tokens: str) -> str:
    """The text of a `Node` from the tokens of an element, with a comma before each child but the first."""
    t, k = fresh("t"), fresh("k")
    parts = f"filter(transform({tokens}, {t} -> {_part(fresh, t)}), {k} -> {k}.text IS NOT NULL)"

    def joined(p: str) -> str:
        x, i = fresh("x"), fresh("i")
        first = f"{i} = 0 OR {x}.kind = 'c' OR get({p}, {i} - 1).kind = 'o'"
        return f"array_join(transform({p}, ({x}, {i}) -> concat(if({first}, '', ','), {x}.text)), '')"

    return let(fresh, parts, joined)


def _part(fresh: Fresh, token: str) -> str:
    """The text that is written for a token, null for blanks, and whether the token opens or closes a node."""

    def written(text: str) -> str:
        return f"if(trim(BOTH {BLANKS} FROM {text}) = '', NULL, {text_json(text)})"

    is_whole = f"endswith({token}, '/>')"
    is_text = f"NOT startswith({token}, '<') OR {token} RLIKE '^<[!?]'"
    kind = f"CASE WHEN {token} RLIKE '^</' THEN 'c' WHEN NOT ({is_text} OR {is_whole}) THEN 'o' END"
    start = f"concat({_start(fresh, token)}, if({is_whole}, {NODE_END}, ''))"
    shown = (
        f"CASE WHEN {token} RLIKE '^</' THEN {NODE_END} "
        f"WHEN {is_text} THEN {let(fresh, _text(fresh, token), written)} ELSE {start} END"
    )
    return f"named_struct('kind', {kind}, 'text', {shown})"


def _start(fresh: Fresh, token: str) -> str:
    """A start tag as the beginning of a `Node`."""
    a, b = fresh("a"), fresh("b")
    name = text_sql(r"\A([^\s=]+)")
    value = text_sql(r"(?s)\A[^=]*=\s*.(.*).\z")
    blank = "' \\n\\t'"
    found = f"regexp_extract_all({token}, {text_sql(ATTRIBUTE)}, 0)"
    read = _unescaped(fresh, f"translate(regexp_extract({a}, {value}, 1), {blank}, '   ')")
    pairs = f"transform({found}, {a} -> named_struct('n', regexp_extract({a}, {name}, 1), 'v', {read}))"
    attributes = f"transform(sort_array({pairs}), {b} -> {attribute_json(f'{b}.n', f'{b}.v')})"
    tag = text_sql(r"\A<([^\s/>]+)")
    return node_start(f"regexp_extract({token}, {tag}, 1)", attributes)


def _text(fresh: Fresh, token: str) -> str:
    """The characters of a text between two tags."""
    p = fresh("p")
    section = f"substring({p}, 10, length({p}) - 12)"
    read = (
        f"CASE WHEN startswith({p}, '<![CDATA[') THEN {section} WHEN startswith({p}, '<') THEN '' "
        f"ELSE {_unescaped(fresh, p)} END"
    )
    return f"array_join(transform(regexp_extract_all({token}, {text_sql(PIECE)}, 0), {p} -> {read}), '')"


def _unescaped(fresh: Fresh, text: str) -> str:
    """A text with its references replaced by the characters that they stand for."""
    p = fresh("r")
    decimal = f"hex(CAST(substring({p}, 3, length({p}) - 3) AS BIGINT))"
    digits = f"if(startswith({p}, '&#x'), substring({p}, 4, length({p}) - 4), {decimal})"
    # A byte order mark stands before the character: Java drops the first one that it sees.
    character = f"decode(unhex(concat('0000FEFF', right(concat('00000000', {digits}), 8))), 'UTF-32')"
    named = " ".join(
        f"WHEN '&{name};' THEN {text_sql(sign)}"
        for name, sign in (("lt", "<"), ("gt", ">"), ("amp", "&"), ("apos", "'"), ("quot", '"'))
    )
    read = f"CASE {p} {named} ELSE if(startswith({p}, '&'), {character}, {p}) END"

    def replaced(whole: str) -> str:
        pieces = f"regexp_extract_all({whole}, {text_sql(REFERENCE)}, 0)"
        return f"if(contains({whole}, '&'), array_join(transform({pieces}, {p} -> {read}), ''), {whole})"

    return let(fresh, text, replaced)


XML = SparkFormat(read=read_xml, columns=lambda spec: ["value"], resolved=resolved_spec)
