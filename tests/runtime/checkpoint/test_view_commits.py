"""What a view restores from a checkpoint when it is opened again, with the states of the reference engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner

import mrql
from mrql.algebra.errors import UserError
from mrql.algebra.values.values import Bag, Value
from mrql.algebra.values.zset import ZSet
from mrql.api.query import with_static
from mrql.cli.main import main
from mrql.rewrite.pipeline import PlanOptions, plan_query
from mrql.runtime.checkpoint.restore import restored
from mrql.runtime.checkpoint.store import Store, manifest_files
from mrql.runtime.checkpoint.view_commits import ViewCommits
from mrql.runtime.reference.checkpoint import ReferenceStates
from mrql.runtime.reference.view import ReferenceView

TYPES = {"S": "bag((long, long))", "T": "bag((long, long))"}
SUMS = "select (x, sum(y)) from (x, y) in S group by x"
TOTALS = "(sum(select y from (x, y) in S), sum(select y from (x, y) in T))"


@attrs.define
class Opened:
    """A view in the reference semantics with a checkpoint."""

    commits: ViewCommits
    view: ReferenceView
    states: ReferenceStates

    @staticmethod
    def at(
        root: Path,
        text: str,
        *,
        insert_only: bool = False,
        trusted: bool = False,
        tables: Mapping[str, str] | None = None,
    ) -> Opened:
        query, tables = mrql.compile(text, **TYPES), tables or {}
        shrinking = frozenset() if insert_only else frozenset(TYPES)
        options = PlanOptions(shrinking, trusted=shrinking if trusted else frozenset())
        plan = plan_query(with_static(query.term, frozenset(tables)), options).plan
        store = Store.open(root)
        try:
            commits = ViewCommits(store, plan, tables, {}, "reference")
            found = commits.restored()
        except UserError:
            store.close()
            raise
        view = ReferenceView(plan, {name: Bag() for name in tables}, start=found is None)
        states = ReferenceStates(view, commits.identities)
        if found is not None:
            states.load(found)
            view.resume(found.states, {})
        return Opened(commits, view, states)

    def apply(self, offset: Any = None, **rows: list[Value]) -> None:
        self.view.apply({name: ZSet.of(values) for name, values in rows.items()})
        self.commits.commit(self.states, rows.keys(), {} if offset is None else dict.fromkeys(rows, offset))

    def close(self) -> Value:
        self.commits.close()
        return self.view.answer()


def test_it_goes_on(tmp_path: Path) -> None:
    """A view goes on with its states, the number of its next batch, and the offset of each stream."""
    one = Opened.at(tmp_path, TOTALS)
    assert (one.commits.next_batch, one.commits.offsets) == (0, {})
    one.apply(0, S=[(1, 5)])
    one.apply("a", T=[(1, 7)])
    one.apply(S=[(2, 1)])
    one.close()
    other = Opened.at(tmp_path, TOTALS)
    assert (other.commits.next_batch, other.commits.offsets) == (3, {"S": 0, "T": "a"})
    assert other.close() == (6, 7)


def test_states_that_mean_the_same_are_kept(tmp_path: Path) -> None:
    """States that mean the same are kept for another answer or other names, and for an additional stream without rows
    yet."""
    one = Opened.at(tmp_path, SUMS)
    one.apply(S=[(1, 5), (2, 4)])
    one.close()
    other = Opened.at(tmp_path, "select (a, sum(b) + 1) from (a, b) in S group by a")
    assert other.close() == Bag([(1, 6), (2, 5)])
    more = Opened.at(tmp_path, f"(count(T), {SUMS})")
    more.apply(T=[(1, 1)])
    more.close()
    less = Opened.at(tmp_path, SUMS)
    less.apply(S=[(1, 1)])
    less.close()
    with pytest.raises(UserError) as raised:  # T was not read meanwhile, but has had rows
        Opened.at(tmp_path, f"(count(T), {SUMS})")
    assert "would have to be built from rows of T that are gone" in raised.value.message


def test_what_cannot_be_built(tmp_path: Path) -> None:
    """A state over rows that were given before, or a ledger where deletions are new, cannot be built: the error names
    the part."""
    one = Opened.at(tmp_path, SUMS, insert_only=True)
    one.apply(S=[(1, 5)])
    one.close()
    with pytest.raises(UserError) as raised:
        Opened.at(tmp_path, "select (x, max(y)) from (x, y) in S group by x", insert_only=True)
    assert "X1, the state of max by key, would have to be built from rows of S that are gone" in raised.value.message
    assert raised.value.span is not None
    with pytest.raises(UserError, match="deletions would be looked up in rows of S that are gone"):
        Opened.at(tmp_path, SUMS)
    assert Opened.at(tmp_path, SUMS, insert_only=True).close() == Bag([(1, 5)])


def test_what_is_looked_up_may_be_trusted(tmp_path: Path) -> None:
    """A ledger is dropped if deletions are trusted, and is not needed if a stream only grows; but it cannot be built
    afterwards."""
    one = Opened.at(tmp_path, SUMS)
    one.apply(S=[(1, 5)])
    one.close()
    trusting = Opened.at(tmp_path, SUMS, trusted=True)
    trusting.apply(S=[(2, 5)])
    trusting.close()
    with pytest.raises(UserError, match="deletions would be looked up in rows of S that are gone"):
        Opened.at(tmp_path, SUMS)
    assert Opened.at(tmp_path, SUMS, insert_only=True).close() == Bag([(1, 5), (2, 5)])
    assert Opened.at(tmp_path, SUMS, trusted=True).close() == Bag([(1, 5), (2, 5)])


def test_static_tables_must_be_the_same(tmp_path: Path) -> None:
    """A static table must have the same digest of rows, and must not become a stream, nor a stream a static table."""
    text = "select (x, d) from (x, y) in S, (c, d) in T where y = c"
    with pytest.raises(UserError, match="the table `T` has other rows than when the checkpoint was written"):
        committed(tmp_path / "one", text, {"T": "2 rows, a"}, again={"T": "2 rows, b"})
    with pytest.raises(UserError, match="`T` was a static table when the checkpoint was written, and is a stream now"):
        committed(tmp_path / "two", text, {"T": "2 rows, a"}, again={})
    with pytest.raises(UserError, match="`T` was a stream when the checkpoint was written, and is a static table now"):
        committed(tmp_path / "three", text, {}, again={"T": "2 rows, a"})
    committed(tmp_path / "four", text, {"T": "2 rows, a"}, again={"T": "2 rows, a"})


def committed(root: Path, text: str, tables: Mapping[str, str], again: Mapping[str, str]) -> None:
    """Writes a checkpoint of one batch, and opens it again with other tables."""
    one = Opened.at(root, text, tables=tables)
    one.apply(S=[(1, 5)]) if tables else one.apply(S=[(1, 5)], T=[(5, 1)])
    one.commits.close()
    Opened.at(root, text, tables=again).commits.close()


def test_views_and_streams_are_told_apart(tmp_path: Path) -> None:
    """A view is refused the checkpoint of a stream, and a stream that of a view."""
    one = Opened.at(tmp_path / "view", SUMS)
    one.apply(7, S=[(1, 5)])
    manifest = one.commits.store.manifest
    assert manifest is not None
    one.close()
    with pytest.raises(UserError, match="is the checkpoint of a view in Python, not of `mrql stream`"):
        restored(manifest, tmp_path / "view", one.commits.plan, {}, one.commits.identities, "reference")
    query = tmp_path / "q.mrql"
    query.write_text('S = stream(csv, "S", ",", type((long, long))); select (x, sum(y)) from (x, y) in S group by x;')
    (tmp_path / "S").mkdir()
    stream = ["stream", str(query), "--data", str(tmp_path), "--once", "--engine", "reference", "--checkpoint"]
    assert CliRunner().invoke(main, [*stream, str(tmp_path / "stream")]).exit_code == 0
    with pytest.raises(UserError, match="is the checkpoint of `mrql stream`, not of a view"):
        Opened.at(tmp_path / "stream", SUMS)


def test_it_is_in_use_once(tmp_path: Path) -> None:
    """A checkpoint in use is refused to another view, which is told the process that has it."""
    one = Opened.at(tmp_path, SUMS)
    with pytest.raises(UserError, match="is in use by process"):
        Opened.at(tmp_path, SUMS)
    one.close()
    Opened.at(tmp_path, SUMS).close()


def test_the_commands_know_it(tmp_path: Path) -> None:
    """`checkpoint show` prints the offset of each stream; `verify` finds damage, and so does opening the view."""
    one = Opened.at(tmp_path, f"(T, {SUMS})", tables={"T": "2 rows, 9965050a3e83eb31"})
    one.apply({"topic": 4}, S=[(1, 5)])
    one.apply({"topic": 5}, S=[(2, 5)])
    one.close()
    shown = CliRunner().invoke(main, ["checkpoint", "show", str(tmp_path)])
    assert '  S: stream, fed by a program, up to {"topic": 5}\n' in shown.output
    assert "  T: table, a DataFrame, 2 rows, 9965050a3e83eb31\n" in shown.output
    assert CliRunner().invoke(main, ["checkpoint", "compact", str(tmp_path)]).exit_code == 0
    assert CliRunner().invoke(main, ["checkpoint", "verify", str(tmp_path)]).exit_code == 0
    newest = manifest_files(tmp_path)[0]
    newest.write_bytes(newest.read_bytes().replace(b'"batch": 1', b'"batch": 2'))
    assert CliRunner().invoke(main, ["checkpoint", "verify", str(tmp_path)]).exit_code == 1
    with pytest.raises(UserError, match="is damaged: what is in it has another SHA-256"):
        Opened.at(tmp_path, f"(T, {SUMS})", tables={"T": "2 rows, 9965050a3e83eb31"})
