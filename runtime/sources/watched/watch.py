"""The sources that streams are read from, and the next batch from all of them together."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop
from typing import TypeAlias

from mrql.algebra.catalog import SourceSpec
from mrql.runtime.sources.arrived import Part
from mrql.runtime.sources.file_archive import Copies
from mrql.runtime.sources.source import Portion, latest_of, open_adapter, open_table
from mrql.runtime.sources.watched.adapted import Adapted
from mrql.runtime.sources.watched.directory import Directory
from mrql.runtime.sources.watched.versions import Versions

Watched: TypeAlias = Directory | Adapted | Versions
"""One of the sources that a stream is read from."""


def watch(specs: Iterable[SourceSpec], copies: Copies | None = None) -> list[Watched]:
    """The sources that some streams are read from, at their beginning."""
    return [watched for spec in specs for watched in watched_of(spec, copies)]


def watched_of(spec: SourceSpec, copies: Copies | None = None) -> list[Watched]:
    """The sources of a stream: a directory and any one of deletions, an adapter, or the versions of a table."""
    if spec.versioned:
        return [Versions(spec, open_table(spec))]
    if spec.adapter is not None:
        return [Adapted(spec, open_adapter(spec))]
    return [Directory(part, weight, copies=copies) for part, weight in spec.directories]


def next_batch(watched: Sequence[Watched], max_files: int | None, max_rows: int | None = None) -> dict[str, list[Part]]:
    """The new parts of all streams: at most `max_files` files, the oldest first and, of equal age, insertions first;
    versions of about `max_files` files from each table with a log; about `max_rows` rows from each adapter."""
    directories = [one for one in watched if isinstance(one, Directory)]
    batch: dict[str, list[Part]] = {}
    taken = 0
    for directory, file in _oldest_first(directories):
        if taken == max_files:
            break
        if parts := directory.take(file):
            batch.setdefault(directory.spec.name, []).extend(parts)
            taken += 1
    for name, new in _adapted([one for one in watched if isinstance(one, Adapted)], max_rows):
        batch.setdefault(name, []).append(new)
    for table in watched:
        if isinstance(table, Versions) and (files := table.next(max_files)):
            batch.setdefault(table.spec.name, []).extend(files)
    return batch


def _adapted(adapted: Sequence[Adapted], most: int | None) -> Iterator[tuple[str, Portion]]:
    """The new portions of adapters. What was already found for a batch that is put together again is not read again."""
    known = {one.spec.name: found for one in adapted if (found := one.known) is not None}
    asked = [one for one in adapted if one.spec.name not in known]
    ends = latest_of([(one.adapter, one.offset) for one in asked], most)
    new = {one.spec.name: one.upto(end) for one, end in zip(asked, ends, strict=True)}
    for one in adapted:
        name = one.spec.name
        rows = known[name].rows if name in known else new[name]
        one.is_again = False
        if rows is not None:
            yield name, rows


def _oldest_first(directories: Sequence[Directory]) -> Iterator[tuple[Directory, str]]:
    """The new and changed files of some directories, the oldest first. There may be far more than a batch takes."""
    found = [
        (age, -directory.weight, file.split(os.sep), directory.spec.name, i)
        for i, directory in enumerate(directories)
        for file, age in directory.look().items()
    ]
    heapify(found)
    while found:
        _, _, parts, _, i = heappop(found)
        yield directories[i], os.sep.join(parts)
