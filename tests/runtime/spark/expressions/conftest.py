"""Expressions are tested as the code that Spark makes of them."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def spark(compiled_spark: SparkSession) -> SparkSession:
    return compiled_spark
