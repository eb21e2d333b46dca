"""The properties on Spark that `make test` checks with a fixed seed, each time the same cases, here with other
seeds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

import attrs
from hypothesis import seed
from pyspark.sql import SparkSession

from tests.runtime.spark import test_cases, test_decimals, test_interrupted, test_sums
from tests.runtime.spark.compiler import test_loops
from tests.runtime.spark.io import test_formats, test_partitions, test_paths

MODULES = (
    test_cases,
    test_decimals,
    test_interrupted,
    test_sums,
    test_loops,
    test_formats,
    test_partitions,
    test_paths,
)


def _properties() -> list[Callable[..., None]]:
    named = [of for module in MODULES for of in vars(module).items()]
    return [test for name, test in named if name.startswith("test_") and getattr(test, "is_hypothesis_test", False)]


PROPERTIES = _properties()


@attrs.frozen
class Directories:
    """Makes directories, as pytest's `tmp_path_factory` does."""

    base: Path

    def mktemp(self, name: str) -> Path:
        return Path(mkdtemp(prefix=name, dir=self.base))


def hold(test: Callable[..., None], number: int, spark: SparkSession) -> None:
    """Checks a property with as many cases as `make test`, drawn with the seed `number`."""
    with TemporaryDirectory() as home:
        known = {"spark": spark, "tmp_path_factory": Directories(Path(home))}
        seed(number)(test)(**{name: known[name] for name in inspect.signature(test).parameters})
