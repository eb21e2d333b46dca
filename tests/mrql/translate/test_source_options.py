"""Options of sources, in any case, and hints for their names in Spark's and other readers."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.algebra.terms import Term
from mrql.runtime.sources.catalog import CATALOG
from mrql.translate.compile_program import compile_program
from mrql.translate.other_names import FORMATS_HERE, OPTIONS_HERE


def spec_of(arguments: str, before: str = "") -> SourceSpec:
    """The source of a query that reads one file with some options."""
    text = f'{before} count(source(csv, "f.csv", ",", type(<a: string, d: date>), {arguments}));'
    (spec,) = compile_program(text, base=Path("/data"), catalog=CATALOG).sources.values()
    return spec


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("multiLine", "multiline"),
        ("HEADER", "header"),
        ("Header, allowmissingcolumns", "header, allowMissingColumns"),
        ('dateformat("dd.MM.yyyy")', 'dateFormat("dd.MM.yyyy")'),
        ('nullvalue("NA", "-")', 'nullValue("NA", "-")'),
        ('QUOTE("\'")', 'quote("\'")'),
    ],
)
def test_an_option_in_other_letters(written: str, meant: str) -> None:
    """The case of an option's name does not matter; an option that is given twice is an error."""
    assert spec_of(written) == spec_of(meant)
    with pytest.raises(UserError, match="is given twice"):
        spec_of(f"{meant}, {written}")


def test_what_the_query_calls_so_is_no_option() -> None:
    """A name that the query has defined is not an option."""
    with pytest.raises(UserError, match="one argument too many"):
        spec_of("Header", before='Header = "x";')
    with pytest.raises(UserError, match="one argument too many"):
        spec_of("Quote(1)", before='macro Quote(x) { "x" };')
    with pytest.raises(UserError, match="a path or delimiter must be a string"):
        spec_of("names", before="names = {1};")


@pytest.mark.parametrize("form", ["{}", "{}(true)", '{}("x")', "{} = true"])
@pytest.mark.parametrize("name", OPTIONS_HERE)
def test_an_option_that_is_called_otherwise(name: str, form: str) -> None:
    """An option of other readers is an error with a hint what to write here, in any form and case."""
    for written in (name, name.upper()):
        with pytest.raises(UserError) as caught:
            spec_of(form.format(written))
        assert caught.value.message == f"a source has no option `{written}`"
        assert caught.value.hint == OPTIONS_HERE[name]


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ('sep=";"', 'here it is the text behind the path: `source(csv, "file.csv", ";")`'),
        ("inferSchema", "there is none here: types are found where no `type(…)` is given"),
        (
            'encoding("latin1")',
            "there is none here: text is UTF-8; convert other files, as by `iconv -f latin1 -t utf-8`",
        ),
        (
            'mode("PERMISSIVE")',
            "here it is `--malformed quarantine --quarantine DIR`, which keeps malformed rows aside;"
            " else the first one is an error",
        ),
    ],
)
def test_what_is_said_of_it(written: str, hint: str) -> None:
    """Some of these hints in full."""
    with pytest.raises(UserError) as caught:
        spec_of(written)
    assert caught.value.hint == hint


def error_of(text: str) -> tuple[str, str | None]:
    """The message and the hint of a query's error."""
    with pytest.raises(UserError) as caught:
        compile_program(text, base=Path("/data"), catalog=CATALOG)
    return caught.value.message, caught.value.hint


TEXT = 'count(source(csv, "f.csv", type(<a: string>), {}));'


@pytest.mark.parametrize("written", ["rowsPerFile", "rowsPerFile(3)", "rowsPerFile = 3"])
@pytest.mark.parametrize(
    ("source", "taken", "never"),
    [
        ('source(csv, "f.csv", {})', "a csv source takes type(<id: long, name: string>), header, ", "tagged"),
        ('stream(csv, "f.csv", {})', "a csv stream takes type(<id: long, name: string>), deletions(", "truncate"),
        (
            'source(json, "f.json", {})',
            "a json source takes type(<id: long, name: string>), failOnNewColumns, ",
            "header",
        ),
        ('source(parquet, "f", {})', "a parquet source takes type(<id: long, name: string>), allow", "sample"),
        ('source(xml, "f", {{"t"}}, {})', "an xml source takes xpath(a/b)", "type"),
        ('stream(socket, "h:1", {})', "a socket stream takes type(<id: long, name: string>), key(id)", "header"),
    ],
)
def test_an_option_that_nobody_knows(source: str, taken: str, never: str, written: str) -> None:
    """An unknown option is an error in any form, and the hint lists only what the format takes."""
    message, hint = error_of(f"count({source.format(written).replace('{{', '{').replace('}}', '}')});")
    assert message == "a source has no option `rowsPerFile`"
    assert hint is not None
    assert hint.startswith(taken)
    assert never not in hint


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("deletions", '`deletions` is written `deletions("removed")`'),
        ('deletions = "x"', '`deletions` is written `deletions("removed")`'),
        ("tagged(true)", "`tagged` stands by itself, without a value"),
        ("header=true", "`header` stands by itself, without a value"),
        ("Key", "`key` is written `key(id)`"),
    ],
)
def test_an_argument_that_is_written_otherwise(written: str, message: str) -> None:
    """An existing option in a wrong form is an error that shows the right form."""
    assert error_of(TEXT.format(written)) == (message, None)


def test_a_name_where_the_path_stands_is_no_option() -> None:
    """A name in the place of a path is an unknown name, and not an unknown option."""
    assert error_of("count(source(csv, somewhere, type(long)));")[0] == "unknown name `somewhere`"
    assert error_of('count(source(csv, "f", concat(a), type(long)));')[0] == "unknown name `a`"


SEVERAL = 'several files are a pattern: `"in/{a,b}.csv"`, or one source for each, joined by `union`'


@pytest.mark.parametrize(
    ("path", "message", "hint"),
    [
        ('"s3://bucket/a.csv"', "a path names a file of this machine, and `s3://` none", "copy it, or mount it, first"),
        (
            '"HTTP://host/a.csv"',
            "a path names a file of this machine, and `HTTP://` none",
            "copy it, or mount it, first",
        ),
        (
            '"file:///data/a.csv"',
            "a path names a file of this machine, and `file://` none",
            "write its path alone, as /data/file.csv",
        ),
        ('"~/a.csv"', "`~` stands for no directory in a path", "write all of it, or begin it with `args[0]`"),
        ('["a.csv", "b.csv"]', "a path or delimiter must be a string", SEVERAL),
        ('"a.csv", {"b.csv", "c.csv"}', "a csv source has no tags", f"they are for xml; {SEVERAL}"),
    ],
)
def test_a_path_that_is_none(path: str, message: str, hint: str) -> None:
    """A path that is not a file of this machine, or is several, is an error with a hint."""
    assert error_of(f"count(source(csv, {path}, type(<a: long>)));") == (message, hint)


@pytest.mark.parametrize("name", FORMATS_HERE)
def test_a_format_that_is_called_otherwise(name: str) -> None:
    """A format's name from elsewhere is an error with a hint what to write here."""
    message, hint = error_of(f'count(source({name}, "f"));')
    assert (message, hint) == (f"unknown format `{name}`", FORMATS_HERE[name])


ROW = "type(<id: long, at: long, d: date>)"
SOURCES = {
    "csv": f'(csv, "f", ",", {ROW}{{}})',
    "line": f'(line, "f", ",", {ROW}{{}})',
    "json": f'(json, "f", {ROW}{{}})',
    "parquet": f'(parquet, "f", {ROW}{{}})',
    "orc": f'(orc, "f", {ROW}{{}})',
    "xml": '(xml, "f", {{"book"}}{})',
    "delta": f'(delta, "f", {ROW}{{}})',
    "iceberg": f'(iceberg, "f", {ROW}{{}})',
    "socket": '(socket, "localhost:9999"{})',
    "postgresql": f'(postgresql, "localhost/db?table=t&column=id", {ROW}{{}})',
    "postgresql_cdc": f'(postgresql_cdc, "localhost/db?table=t", {ROW}{{}})',
    "spark": f'(spark, "f", {ROW}{{}})',
    "table": f'(table, "f", {ROW}{{}})',
}
KINDS = {
    "source": [name for name in SOURCES if name not in ("socket", "postgresql", "postgresql_cdc", "spark")],
    "stream": [name for name in SOURCES if name != "table"],
}
ARGUMENTS = (
    "header",
    "multiline",
    "tagged",
    'deletions("gone")',
    "key(id)",
    "key(id), version(at)",
    "version(1)",
    "changes(debezium)",
    'dateFormat("yyyy", d)',
    'dateFormat("yyyy")',
    'nullValue("NA")',
    "allowMissingColumns",
    "failOnNewColumns",
    "truncateTimestamps",
    "sample(10)",
    '{"author"}',
    "xpath(title)",
)


@pytest.mark.parametrize("argument", ARGUMENTS)
@pytest.mark.parametrize(("kind", "source"), [(kind, source) for kind, names in KINDS.items() for source in names])
def test_an_argument_has_an_effect_or_is_refused(source: str, kind: str, argument: str) -> None:
    """No argument of a source is silently ignored."""

    def compiled(more: str) -> tuple[list[SourceSpec], Term]:
        program = compile_program(f"x = {kind}{SOURCES[source].format(more)}; count(x);", catalog=CATALOG)
        return [*program.sources.values()], program.queries[0].term

    plain = compiled("")
    try:
        given = compiled(f", {argument}")
    except UserError:
        return
    assert given != plain
