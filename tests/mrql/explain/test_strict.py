"""`--strict` refuses a query if a batch would recompute a part of it from a whole state, and no other query."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import mrql
from mrql.algebra.errors import UserError
from mrql.cli.main import main
from mrql.explain import explain_json, require_incremental
from tests.support.incremental_cases import CONSTRUCTS, STREAMS, Construct, plan_of, trace_of

WHOLE = "the whole state"
LIMITED = """
S = stream(csv, "missing", ",", type((long, long)));
select (x, y)
from (x, y) in S
order by y desc limit 3;
"""


@pytest.mark.parametrize("construct", CONSTRUCTS, ids=lambda construct: construct.name)
def test_what_recomputes_is_what_explain_says(construct: Construct) -> None:
    """A query is refused exactly if changes of its answer or a derived stream cost the whole state in `explain`."""
    document = explain_json(trace_of(construct))
    changes = [*document["derived"], document["answer"]]
    reasons = [change["reason"] for change in changes if change["cost"] == WHOLE]
    if not reasons:
        require_incremental(plan_of(construct))
        return
    with pytest.raises(UserError) as caught:
        require_incremental(plan_of(construct))
    assert reasons[0] in caught.value.message
    assert caught.value.span is not None


def test_some_are_refused_and_some_are_not() -> None:
    """Some of the constructs are refused, and some are not."""
    refused = set()
    for construct in CONSTRUCTS:
        try:
            require_incremental(plan_of(construct))
        except UserError:
            refused.add(construct.name)
    assert {"order and limit", "extremes of all", "groups of what passes a total"} <= refused
    assert not refused & {"join", "having", "group-by over a group-by", "totals", "distinct"}


@pytest.mark.parametrize(
    ("query", "part", "place"),
    [
        ("select (x, y) from (x, y) in S order by y limit 2", "the answer", None),
        (
            "select (a, count(b)) from (a, b) in S where b > avg(select d from (c, d) in T) group by a",
            "the stream D1, which X4 reads,",
            "b > avg(select d from (c, d) in T)",
        ),
    ],
)
def test_the_part_and_the_place(query: str, part: str, place: str | None) -> None:
    """The error names the part of the plan, and its span is the text that the part came from."""
    with pytest.raises(UserError) as caught:
        mrql.compile(query, **STREAMS).view(strict=True)
    assert caught.value.message.startswith(f"{part} would be computed again from the whole state in each batch: ")
    assert caught.value.span is not None
    assert caught.value.span.text == place or (place is None and query.startswith(caught.value.span.text))


def test_a_strict_view_depends_on_deletions() -> None:
    """A maximum is accepted if rows are only inserted, and refused with deletions, when all rows are searched again."""
    query = mrql.compile("max(select y from (x, y) in S)", **STREAMS)
    require_incremental(query.trace(insert_only=True).plan)
    with pytest.raises(UserError, match="the answer would be computed again"):
        query.view(strict=True)


@pytest.mark.parametrize(
    "command",
    [
        ("check",),
        ("explain",),
        ("explain", "--json"),
        ("stream", "--once", "--engine", "reference"),
        ("stream", "--once", "--engine", "reference", "--emit", "changes"),
    ],
    ids=" ".join,
)
def test_the_commands(tmp_path: Path, command: tuple[str, ...]) -> None:
    """Each command refuses before it reads any data, whatever its output would be."""
    file = tmp_path / "q.mrql"
    file.write_text(LIMITED)
    done = CliRunner().invoke(main, [*command, "--strict", str(file)])
    assert done.exit_code == 1
    assert done.stdout == ""
    assert f"{file}:3:1: error: the answer would be computed again from the whole state in each batch" in done.stderr
    assert "a limit is over all of X1, not over a key of it" in done.stderr


def test_a_query_that_is_not_refused(tmp_path: Path) -> None:
    """A query that is not refused has the same output with and without `--strict`."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a.csv").write_text("1,2\n1,3\n")
    file = tmp_path / "q.mrql"
    file.write_text('S = stream(csv, "s", ",", type((long, long)));\nselect (x, max(y)) from (x, y) in S group by x;\n')
    for command in (["check"], ["explain"], ["stream", "--once", "--engine", "reference"]):
        args = [*command, "--data", str(tmp_path), str(file)]
        plain, strict = (CliRunner().invoke(main, [*args, *option]) for option in ([], ["--strict"]))
        assert (strict.exit_code, strict.stdout) == (0, plain.stdout)
