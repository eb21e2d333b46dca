"""What all tests share: one Spark session, started by the first test that needs it, and how cases are generated.

The same cases are generated in every run, so that a failure is nobody's luck. New ones are looked for with
`pytest --hypothesis-profile=explore`.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

settings.register_profile("repeatable", derandomize=True)
settings.register_profile("explore", derandomize=False)
settings.load_profile("repeatable")


def local_spark() -> SparkSession:
    """A local session with two cores and two shuffle partitions."""
    from mrql.runtime.session import local_session

    # Tests are many small jobs in a young JVM: its second compiler takes more time from them than it gives back.
    young = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    conf = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.memory": "4g",
        "spark.driver.extraJavaOptions": young,
    }
    return local_session("local[2]", conf)


@pytest.hookimpl(tryfirst=True)  # xdist reads the marks in a hook of the same name
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With several processes (`pytest -n 2 --dist loadgroup`), the tests on the shared session are for one of them."""
    if not config.pluginmanager.hasplugin("xdist"):
        return
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        on_request = "request" in fixtures and item.get_closest_marker("spark") is not None
        if "spark" in fixtures or on_request:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session that all tests share."""
    session = local_spark()
    yield session
    session.stop()
