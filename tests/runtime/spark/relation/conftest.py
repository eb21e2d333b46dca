"""Plans that are used again are those of a program, which Spark compiles."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def spark(compiled_spark: SparkSession) -> SparkSession:
    return compiled_spark
