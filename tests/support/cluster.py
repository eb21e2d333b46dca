"""A standalone Spark cluster on loopback, from the classes of PySpark: a master, and workers with one core each."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pyspark

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
YOUNG = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
PATIENCE = 120


@attrs.define
class Cluster:
    """The processes of a cluster, and their directory."""

    home: Path
    processes: list[subprocess.Popen[bytes]]
    master: str = ""

    def start(self, name: str, *args: str) -> Path:
        """Starts a master or a worker; returns the file that it logs to."""
        log = self.home / f"{len(self.processes)}.log"
        memory = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": YOUNG, "SPARK_LOCAL_IP": "127.0.0.1"}
        command = [
            str(SPARK_CLASS),
            f"org.apache.spark.deploy.{name}",
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
            *args,
        ]
        with log.open("wb") as out:
            environment = {**os.environ, **memory, "SPARK_HOME": str(SPARK_CLASS.parent.parent)}
            self.processes.append(subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=self.home))
        return log

    def executors(self) -> list[int]:
        """The executors that the workers have started, as process ids."""
        found: list[int] = []
        for worker in self.processes[1:]:
            told = subprocess.run(["pgrep", "-P", str(worker.pid), "java"], capture_output=True, text=True, check=False)
            found += map(int, told.stdout.split())
        return found

    def stop(self) -> None:
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
        for process in self.processes:
            process.wait(PATIENCE)


def said(log: Path, pattern: str) -> str:
    """The group of a pattern in a log; waits until the pattern matches."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = re.search(pattern, log.read_text())
        if found is not None:
            return found[1]
        time.sleep(0.1)
    raise AssertionError(log.read_text())


@contextmanager
def standalone(workers: int) -> Iterator[Cluster]:
    """A cluster for the duration of the block."""
    with tempfile.TemporaryDirectory(prefix="mrql-cluster-") as home:
        cluster = Cluster(Path(home), [])
        try:
            cluster.master = said(cluster.start("master.Master", "--port", "0"), r"Starting Spark master at (\S+)")
            options = ["--cores", "1", "--memory", "1g", "--work-dir", f"{home}/work", cluster.master]
            logs = [cluster.start("worker.Worker", *options) for _ in range(workers)]
            for log in logs:
                said(log, r"(Successfully registered) with master")
            yield cluster
        finally:
            cluster.stop()
