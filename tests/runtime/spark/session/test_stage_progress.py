"""What is said of the jobs that run."""

from __future__ import annotations

import re
import time
from threading import Thread

import pytest
from pyspark.sql import SparkSession

from mrql.runtime.spark.session.stage_progress import StageProgress

pytestmark = pytest.mark.spark


def test_what_is_said(spark: SparkSession) -> None:
    """Before a job and behind it a plan is made; in between there are its stages."""
    progress = StageProgress(spark)
    assert progress.said() == "planning"
    rows = spark.range(2, numPartitions=2).selectExpr("java_method('java.lang.Thread', 'sleep', 1500L + id) AS slept")
    job = Thread(target=rows.collect)
    job.start()
    found = set()
    while job.is_alive():
        found.add(progress.said())
        time.sleep(0.05)
    assert any(re.fullmatch("stage 1 of 1, [01] of 2 tasks", said) for said in found if said is not None), found
    assert progress.said() == "planning"
