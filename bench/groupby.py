"""The groupBy query of [MRQL] §13: an initial million rows, then batches of 40,000, into 10,000 keys."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import isclose
from pathlib import Path

import mrql
from bench.contender import (
    PASSES,
    Answer,
    Clock,
    Contender,
    Job,
    Result,
    alone,
    collected,
    consume,
    read_csv,
    spark_session,
)
from bench.data import Scale, write_files
from bench.rivals import RIVALS, SPARK, SPARK_FILES, STREAMING

OURS = "mrql"
QUERY = "select (x, avg(y)) from (x, y) in points group by x"

SCATTER = 1.05
"""Two medians of the same thing differ by this much from one run to the next."""


class WrongAnswer(Exception):
    """A contender's answer is not that of the others."""


def view(job: Job) -> Result:
    """From the file of a batch to the complete new answer."""
    query = mrql.compile(QUERY, points="bag((long, long))")
    with spark_session() as spark:
        for _ in range(PASSES):
            clock = Clock()
            with query.view(spark, insert_only=True) as points:
                for batch, file in enumerate(job.files):
                    with clock.time(batch):
                        points.apply(points=mrql.Delta(insert=read_csv(spark, [file])))
                        consume(points.answer())
                answer = collected(points.answer())
    return Result(answer, clock.milliseconds)


CONTENDERS = (Contender("the whole answer", OURS, view), *RIVALS)

Results = dict[Contender, Result]


def measure(scale: Scale, directory: Path, rounds: int, report: Callable[[str], None]) -> Results:
    """Runs every contender once a round, each in a process of its own, over the same files.

    Raises: WrongAnswer when the answers after the last batch are not the same.
    """
    report(f"writing {scale.batches + 1} files, {scale.rows(scale.batches):,} rows")
    files = tuple(write_files(directory / "files", scale))
    results: Results = {}
    for number in range(1, rounds + 1):
        for contender in CONTENDERS:
            report(f"round {number} of {rounds}: {contender.group}, {contender.name}")
            with tempfile.TemporaryDirectory(dir=directory) as scratch:
                result: Result = alone(contender.run, Job(files, scale, Path(scratch)))
            _check(contender, result.answer, results.setdefault(contender, Result(result.answer)).answer)
            _check(contender, result.answer, results[CONTENDERS[0]].answer)
            results[contender].add(result)
    return results


def _check(contender: Contender, answer: Answer, expected: Answer) -> None:
    different = answer.keys() ^ expected.keys() or {
        key for key, value in expected.items() if not isclose(answer[key], value, rel_tol=1e-9)
    }
    if different:
        some = ", ".join(
            f"{key}: {answer.get(key)} where {expected.get(key)} was expected" for key in sorted(different)[:3]
        )
        raise WrongAnswer(f"{contender.group}, {contender.name}: {len(different)} keys differ ({some})")


def best(results: Results, group: str, window: range) -> float:
    """The fastest of a group."""
    return min(result.median(window) for contender, result in results.items() if contender.group == group)


@dataclass(frozen=True)
class Target:
    """Something that was promised, and what came of it."""

    promise: str
    ratio: float
    limit: float

    @property
    def holds(self) -> bool:
        return self.ratio <= self.limit


def targets(results: Results, scale: Scale) -> Iterator[Target]:
    """What mrql is held to, each at the window that is worse for it."""

    def against(rival: Callable[[range], float]) -> float:
        return max(best(results, OURS, window) / rival(window) for window in (scale.early, scale.late))

    early, late = scale.middle(scale.early), scale.middle(scale.late)
    growth = best(results, OURS, scale.late) / best(results, OURS, scale.early)
    yield Target(
        f"at most 0.6 of the time of {STREAMING}", against(lambda window: best(results, STREAMING, window)), 0.6
    )
    yield Target(f"at most 0.2 of the time of {SPARK} from the files", against(results[SPARK_FILES].median), 0.2)
    yield Target(f"batch {late} no slower than batch {early} (but for a scatter of 5 %)", growth, SCATTER)


def failed(results: Iterable[Target]) -> bool:
    """Whether a promise was not kept."""
    return any(not target.holds for target in results)
