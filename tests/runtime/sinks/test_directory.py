"""Answers in directories: the formats of their files, and several directories at once."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path
from random import Random
from unittest.mock import patch

import attrs
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from mrql.algebra.errors import UserError
from mrql.algebra.notation.parser import parse_type
from mrql.algebra.values.values import Bag, Record, Value
from mrql.cli.main import main
from mrql.jobs.batch import ReferenceBatchJob
from mrql.jobs.loading import compile_over_files
from mrql.jobs.stream import run_stream
from mrql.runtime.checkpoint.commits import Commits
from mrql.runtime.checkpoint.manifest import Manifest
from mrql.runtime.engine.answer import AnswerFormat, Output, changes_of
from mrql.runtime.files.durable import DurableFiles
from mrql.runtime.files.lock import Lock
from mrql.runtime.reference.answer import ReferenceRows
from mrql.runtime.sinks.directory import DirectoryPlace
from mrql.runtime.sinks.files import write_output
from mrql.runtime.sources.formats.csv import CSV
from mrql.runtime.sources.formats.json import JSON
from mrql.runtime.sources.formats.parquet import PARQUET
from mrql.runtime.spark.io.answer import SparkRows
from mrql.runtime.spark.io.create_dataframe import to_dataframe
from tests.runtime.checkpoint.streams import GROUPS, Stream, batch_answer, fill

ROWS = Bag(
    [
        Record({"k": 1, "s": 'a,"b"', "x": 0.5, "b": bytes(range(256)), "m": Decimal("-1.50"), "w": Decimal("9" * 38)}),
        Record({"k": 2, "s": "", "x": None, "b": b"", "m": Decimal("0.00"), "w": Decimal(-1)}),
        Record({"k": 3, "s": "", "x": None, "b": None, "m": None, "w": None}),
    ]
)
ROW = "<k: long, s: string, x: double, b: binary, m: decimal(12, 2), w: decimal(38, 0)>"
TYPE = parse_type(f"{{{ROW}}}")
READ = {
    CSV: f'source(csv, "{{0}}/part-*", ",", type({ROW}))',
    JSON: f'source(json, "{{0}}/part-*", type({ROW}))',
    PARQUET: 'source(parquet, "{0}/part-*")',
}


def read(directory: Path, format: AnswerFormat) -> Value:
    """The rows that a query reads from a batch."""
    program = compile_over_files(f"select r from r in {READ[format].format(directory)};")
    return ReferenceBatchJob(program).answer(program.queries[0])


@pytest.mark.parametrize("format", list(READ), ids=str)
def test_what_is_written_is_read_back(tmp_path: Path, format: AnswerFormat) -> None:
    """The files of the reference engine are read back as the same rows, in each format."""
    write_output(Output(TYPE, False, format), ReferenceRows(ROWS, TYPE), tmp_path / "b", DurableFiles())
    assert read(tmp_path / "b", format) == ROWS


@pytest.mark.spark
def test_what_spark_writes_is_read_back(tmp_path: Path, spark: SparkSession) -> None:
    """The files of Spark are read back as the same rows, in each format."""
    for format in READ:
        rows = SparkRows(to_dataframe(spark, ROWS, TYPE), TYPE)
        write_output(Output(TYPE, False, format), rows, tmp_path / format.name, DurableFiles())
        assert read(tmp_path / format.name, format) == ROWS


def test_changes_have_a_weight(tmp_path: Path) -> None:
    """Changes have their weight as the last column."""
    output = Output(parse_type("{(long, string)}"), True, CSV)
    changes = ReferenceRows(Bag([((1, "a"), 2), ((None, "b"), -1)]), changes_of(output.type))
    write_output(output, changes, tmp_path / "b", DurableFiles())
    assert (tmp_path / "b" / "part-00000.csv").read_text() == '1,"a",2\n,"b",-1\n'


def test_a_column_that_is_called_as_the_weight(tmp_path: Path) -> None:
    """An answer with a column `weight`, in any case of its letters, cannot be written as changes, but as snapshots."""
    fill(tmp_path, 1, Random(1))
    (tmp_path / "q.mrql").write_text(GROUPS.replace("(x, sum(y), max(y))", "<x: x, Weight: sum(y)>"))
    command = ["stream", str(tmp_path / "q.mrql"), "--data", str(tmp_path), "--engine", "reference", "--once"]
    command += ["--output", str(tmp_path / "out")]
    result = CliRunner().invoke(main, [*command, "--emit", "changes"])
    assert result.exit_code == 1
    assert "this answer has a column `weight`, and so have its changes: how often a row came or went" in result.stderr
    assert "hint: call it otherwise, or put out snapshots" in result.stderr
    assert CliRunner().invoke(main, command).exit_code == 0


def test_nested_values_have_no_csv(tmp_path: Path) -> None:
    """An answer with nested values as CSV is an error before anything is read."""
    fill(tmp_path, 1, Random(1))
    (tmp_path / "q.mrql").write_text(GROUPS.replace("sum(y)", "[y]"))
    command = ["stream", str(tmp_path / "q.mrql"), "--data", str(tmp_path), "--engine", "reference", "--once"]
    result = CliRunner().invoke(main, [*command, "--output", str(tmp_path / "out"), "--output-format", "csv"])
    assert result.exit_code == 1
    assert "a row of a csv file holds atomic values, and one of this answer is of type" in result.stderr
    assert "hint: --output-format json takes values of all types" in result.stderr


def test_two_directories(tmp_path: Path) -> None:
    """Both directories have all batches, also after a restart; one that is named later has those from then on."""
    fill(tmp_path, 3, Random(1))
    stream = Stream(tmp_path)
    both = attrs.evolve(stream.job, outputs=(DirectoryPlace(tmp_path / "out"), DirectoryPlace(tmp_path / "copy")))
    run_stream(both)
    fill(tmp_path, 1, Random(2), start=3)
    third = attrs.evolve(stream.job, outputs=(*both.outputs, DirectoryPlace(tmp_path / "late")))
    run_stream(third)
    assert stream.answers() == attrs.evolve(stream, output="copy").answers()
    assert list(stream.answers()) == [f"batch-{n:06d}" for n in range(4)]
    assert attrs.evolve(stream, output="late").answers() == {"batch-000003": batch_answer(stream)}
    shown = CliRunner().invoke(main, ["checkpoint", "show", str(stream.checkpoint), "--format", "json"])
    assert json.loads(shown.output)["outputs"] == [str(tmp_path / name) for name in ("out", "copy", "late")]


def test_batches_beyond_the_millionth(tmp_path: Path) -> None:
    """Batches are ordered by their numbers: as texts `batch-1000000` comes before `batch-999999`."""
    fill(tmp_path, 4, Random(1))
    stream = Stream(tmp_path)
    with patch.object(Commits, "next_batch", property(lambda self: _later(self.store.manifest))):
        late = [file.rename(file.with_name(f".{file.name}")) for file in tmp_path.glob("*/0003.csv")]
        stream.run()
        assert [path.name for path in sorted(stream.out.iterdir())] == ["batch-1000000", "batch-999998", "batch-999999"]
        for file in late:
            file.rename(file.with_name(file.name[1:]))
        stream.run()
    assert (stream.out / "batch-1000001").is_dir()
    (stream.out / "batch-1000002").mkdir()
    with pytest.raises(UserError, match="batch-1000002 is there already, and the checkpoint is at batch 1000001"):
        stream.run()


def _later(manifest: Manifest | None) -> int:
    return 999_998 if manifest is None else manifest.batch + 1


@pytest.mark.parametrize("name", [None, "checkpoint"])
def test_a_second_stream_into_one_directory(tmp_path: Path, name: str | None) -> None:
    """A second stream into a directory is refused before it has written or removed anything, and told the process that
    has it."""
    fill(tmp_path, 3, Random(1))
    stream = Stream(tmp_path)
    stream.run()
    job = attrs.evolve(stream.job, checkpoint=None if name is None else tmp_path / name)
    held = Lock.of_directory(stream.out, "--output")
    aside = stream.out / ".batch-000007"
    aside.mkdir()
    with pytest.raises(UserError, match=f"{stream.out} is in use by process {os.getpid()}"):
        run_stream(job)
    assert aside.exists()
    held.close()
    stream.run()
    assert not aside.exists()
