"""The files of a batch are read with the plan of an earlier batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

import mrql
from mrql.algebra import types as ty
from mrql.algebra.catalog import SourceSpec
from mrql.algebra.evaluation.evaluate import evaluate
from mrql.jobs.loading import compile_over_files
from mrql.runtime.engine.answer import Answer
from mrql.runtime.sinks.sink import Passing, Several
from mrql.runtime.sources.files import read_source
from mrql.runtime.sources.formats.text import TEXT
from mrql.runtime.spark import jvm
from mrql.runtime.spark.engine import SparkEngine
from mrql.runtime.spark.io.answer import SparkRows
from mrql.runtime.spark.io.collect import collect_value
from mrql.runtime.spark.io.readers import read
from mrql.runtime.spark.relation.file_scans import Scans
from mrql.runtime.streaming.stream_loop import Options, run
from tests.support.partitions import IN_ONE
from tests.support.planning import planned

pytestmark = pytest.mark.spark

SUMS = "select (x, sum(y)) from (x, y) in S group by x"


@pytest.fixture
def read_again(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of files read each time that a plan is reused for other files."""
    found: list[int] = []
    plain = jvm.Scan.rows

    def rows(scan: jvm.Scan, files: jvm.Opened) -> Any:
        found.append(files.relation.location().rootPaths().size())
        return plain(scan, files)

    monkeypatch.setattr(jvm.Scan, "rows", rows)
    return found


def written(file: Path, batch: int, between: str = ",") -> str:
    file.write_text("".join(f"{key}{between}{batch + key}\n" for key in range(3)))
    return str(file)


def csv(spark: SparkSession, file: str, between: str = ",") -> DataFrame:
    return spark.read.schema("a long, b long").csv(file, sep=between)


def after(view: mrql.View) -> dict[int, int]:
    return dict(map(tuple, view.answer().collect()))


def test_frames_of_files_are_planned_once(spark: SparkSession, tmp_path: Path, read_again: list[int]) -> None:
    """A view that is given DataFrames of files reads later batches with an earlier plan."""
    with mrql.compile(SUMS, S="bag((long, long))").view(spark) as view:
        for batch in range(5):
            view.apply(S=csv(spark, written(tmp_path / f"{batch}.csv", batch)))
            assert after(view) == {key: sum(n + key for n in range(batch + 1)) for key in range(3)}
    assert len(read_again) >= 2


def test_files_with_other_options_are_read_by_them(spark: SparkSession, tmp_path: Path, read_again: list[int]) -> None:
    with mrql.compile(SUMS, S="bag((long, long))").view(spark) as view:
        for batch in range(8):
            between = ",;"[batch % 2]
            view.apply(S=csv(spark, written(tmp_path / f"{batch}.csv", batch, between), between))
        assert after(view) == {key: sum(n + key for n in range(8)) for key in range(3)}


def test_what_is_made_of_files_is_planned_as_it_is(spark: SparkSession, tmp_path: Path, read_again: list[int]) -> None:
    """A DataFrame that does more than read files is not read with an earlier plan."""
    with mrql.compile(SUMS, S="bag((long, long))").view(spark) as view:
        for batch in range(5):
            rows = csv(spark, written(tmp_path / f"{batch}.csv", batch))
            view.apply(S=rows.where(f"a <> {batch % 3}"))
        kept = [(key, n + key) for n in range(5) for key in range(3) if key != n % 3]
        assert after(view) == {key: sum(y for x, y in kept if x == key) for key in range(3)}
    assert read_again == []


PROGRAMS = {
    "csv": f's = stream(csv, "{{}}", ",", type((long, long))); {SUMS.replace("S", "s")};',
    "json": f's = stream(json, "{{}}", type(<x: long, y: long>)); {SUMS.replace("(x, y) in S", "<x: x, y: y> in s")};',
    "text": 's = stream(text, "{}"); select (k, count(l)) from l in s group by k: l;',
    "tagged": f's = stream(csv, "{{}}", ",", type((long, long)), tagged); {SUMS.replace("S", "s")};',
}

LINES = {"csv": "{},{}", "json": '{{"x": {}, "y": {}}}', "text": "line {} {}", "tagged": "+,{},{}"}


@pytest.mark.partitions(IN_ONE)  # else each number of runs, and of partitions, has plans of its own
@pytest.mark.parametrize("form", PROGRAMS)
def test_a_stream_plans_its_files_once(spark: SparkSession, tmp_path: Path, form: str, read_again: list[int]) -> None:
    """A stream reads its files with a reused plan, in batches of one and of two files; each answer is that over all
    files."""
    directory = tmp_path / "in"
    directory.mkdir()
    program = compile_over_files(PROGRAMS[form].format(directory), "test")
    (query,) = program.queries
    specs = dict(program.sources)
    engine = SparkEngine(planned(query.term).plan, specs, spark, query.span.source)
    answers: list[DataFrame] = []
    sink = Several((Passing(lambda answer: answers.append(_computed(answer))),))
    reports = run(engine, specs, Options(interval=0), sink)
    for batch in range(5):
        for part in range(1 + batch % 2):
            lines = [LINES[form].format(key, batch + part) for key in range(4)]
            # Files are moved in, so that Spark sees only complete ones.
            (tmp_path / "new").write_text("\n".join(lines) + "\n")
            (tmp_path / "new").rename(directory / f"{batch}-{part}")
        next(reports)
        expected = evaluate(query.term, {name: read_source(spec) for name, spec in specs.items()})
        assert collect_value(answers[-1], query.term.type) == expected
    reports.close()  # type: ignore[attr-defined]
    engine.close()
    assert len(read_again) >= 2


def _computed(answer: Answer) -> DataFrame:
    rows = answer.snapshot()
    assert isinstance(rows, SparkRows)
    frame = rows.df
    return frame.sparkSession.createDataFrame(frame.collect(), frame.schema)


def test_a_file_that_is_gone_is_missed(spark: SparkSession, tmp_path: Path) -> None:
    """A reused plan does not skip a file that does not exist, but fails."""
    spec = SourceSpec("s", True, TEXT, str(tmp_path), ty.STRING)
    (tmp_path / "there").write_text("a\nb\n")
    scans = Scans(spark, "settings of this test")
    frames = [read(spark, spec, [tmp_path / "there"]).df.table for _ in range(3)]
    assert [scans.rows(frame, None).count() for frame in frames] == [2, 2, 2]
    gone = read(spark, spec, [tmp_path / "there"]).df.table
    (tmp_path / "there").unlink()
    with pytest.raises(AnalysisException, match="PATH_NOT_FOUND"):
        scans.rows(gone, None)
