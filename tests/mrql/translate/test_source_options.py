"""The options of sources by the names that they have for the readers of Spark and of others, in any case."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrql.algebra.catalog import SourceSpec
from mrql.algebra.errors import UserError
from mrql.runtime.sources.catalog import CATALOG
from mrql.translate.compile_program import compile_program
from mrql.translate.other_names import OPTIONS_HERE


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
    """It is the same option, and given twice it is an error."""
    assert spec_of(written) == spec_of(meant)
    with pytest.raises(UserError, match="is given twice"):
        spec_of(f"{meant}, {written}")


def test_what_the_query_calls_so_is_no_option() -> None:
    """A name that a query gives to something else is that."""
    with pytest.raises(UserError, match="one argument too many"):
        spec_of("Header", before='Header = "x";')
    with pytest.raises(UserError, match="one argument too many"):
        spec_of("Quote(1)", before='macro Quote(x) { "x" };')
    with pytest.raises(UserError, match="a path or delimiter must be a string"):
        spec_of("names", before="names = {1};")


@pytest.mark.parametrize("form", ["{}", "{}(true)", '{}("x")', "{} = true"])
@pytest.mark.parametrize("name", OPTIONS_HERE)
def test_an_option_that_is_called_otherwise(name: str, form: str) -> None:
    """What other readers call so is told what to write here, however it is written."""
    for written in (name, name.upper()):
        with pytest.raises(UserError) as caught:
            spec_of(form.format(written))
        assert caught.value.message == f"a source has no option `{written}`"
        assert caught.value.hint == OPTIONS_HERE[name]


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ('sep=";"', 'here it is the text behind the path: `source(csv, "file.csv", ";")`'),
        ("inferSchema", "here it is nothing: types are found where no `type(…)` is given"),
        (
            'encoding("latin1")',
            "here it is nothing: text is UTF-8; convert other files, as by `iconv -f latin1 -t utf-8`",
        ),
        (
            'mode("PERMISSIVE")',
            "here it is `--malformed quarantine --quarantine DIR`, which keeps malformed rows aside;"
            " else the first one is an error",
        ),
    ],
)
def test_what_is_said_of_it(written: str, hint: str) -> None:
    """The hints, as people read them."""
    with pytest.raises(UserError) as caught:
        spec_of(written)
    assert caught.value.hint == hint
