"""Expressions are tested in a session that compiles them to code."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession


@pytest.fixture
def spark(compiled_spark: SparkSession) -> SparkSession:
    return compiled_spark
