"""What all tests share: one Spark session, started by the first test that needs it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local session with two cores and two shuffle partitions."""
    from mrql.runtime.session import local_session

    session = local_session("local[2]", {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "4g"})
    yield session
    session.stop()
