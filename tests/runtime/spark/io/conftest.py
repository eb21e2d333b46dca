"""Readers of files and JSON are tested compiled: they are large, and take longer to interpret than to compile."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def spark(compiled_spark: SparkSession) -> SparkSession:
    return compiled_spark
