"""The metrics of a stream: a line of JSON for each batch, and totals as OpenMetrics text.

Both are made from the same record, so that they agree.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Any

import attrs

from mrql.algebra.errors import EngineError
from mrql.runtime.engine.residual import Residual
from mrql.runtime.engine.sizes import OperatorActivity
from mrql.runtime.streaming.report import Report

LOOPBACK = "127.0.0.1"
CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def record_of(report: Report) -> dict[str, Any]:
    """The record of a batch, as JSON."""
    measured = report.measured
    assert measured is not None
    phases = {phase.value: round(spent, 3) for phase, spent in report.milliseconds_of.items()}
    return {
        "batch": report.number,
        "time": report.ended.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "milliseconds": {**phases, "all": round(report.milliseconds, 3)},
        "files": dict(report.files_of),
        "rows_in": dict(report.rows_of),
        "malformed_rows": dict(report.malformed_of),
        "waiting_files": dict(report.waiting_of),
        "rows_out": measured.rows_out,
        "touched_keys": report.touched,
        "state": {name: {"rows": size.rows, "bytes": size.bytes} for name, size in measured.states.items()},
        "operators": {name: _activity(activity) for name, activity in measured.operators.items()},
        "checkpoint_bytes": measured.checkpoint_bytes,
        "residual": None if report.residual is None else _residual(report.residual),
    }


def _activity(activity: OperatorActivity) -> dict[str, Any]:
    """The activity of an operator in a batch; what the engine cannot attribute to it is null."""
    state, spent = activity.state, activity.milliseconds
    return {
        "rows_in": activity.rows_in,
        "rows_out": activity.rows_out,
        "state_rows": None if state is None else state.rows,
        "state_bytes": None if state is None else state.bytes,
        "milliseconds": None if spent is None else round(spent, 3),
    }


def _residual(residual: Residual) -> dict[str, Any]:
    """The residual of a batch; infinite numbers, which JSON does not have, are null."""
    change, distance = (x if math.isfinite(x) else None for x in (residual.change, residual.distance))
    return {"change": change, "elements": residual.groups, "distance": distance}


# --- a line for each batch ----------------------------------------------------------------------


class MetricsFile:
    """A file to which each batch adds a line; existing lines stay."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: IO[bytes] = path.open("a+b", buffering=0)
        self._end_the_last_line()

    def _end_the_last_line(self) -> None:
        """Ends the last line, of which a process that was killed may have left only a part."""
        if self.file.seek(0, 2) > 0:
            self.file.seek(-1, 2)
            if self.file.read(1) != b"\n":
                self.file.write(b"\n")

    def add(self, record: Mapping[str, Any]) -> None:
        """Writes a line.

        Raises: OSError, with the name of the file.
        """
        try:
            self.file.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
        except OSError as error:
            error.filename = str(self.path)
            raise

    def close(self) -> None:
        self.file.close()


# --- OpenMetrics --------------------------------------------------------------------------------


@attrs.frozen
class Family:
    """A metric of OpenMetrics: its name, type, help text, label and unit."""

    name: str
    kind: str
    help: str
    label: str | None = None
    unit: str | None = None


Samples = Mapping[str | None, float]
"""By the value of the label; by None where there is no label."""

COUNTERS: dict[Family, Callable[[Mapping[str, Any]], Samples]] = {
    Family("mrql_batches", "counter", "Batches applied by this process."): lambda r: {None: 1},
    Family("mrql_files", "counter", "Files read.", "stream"): lambda r: r["files"],
    Family("mrql_rows_in", "counter", "Rows read, without malformed ones.", "stream"): lambda r: r["rows_in"],
    Family("mrql_malformed_rows", "counter", "Malformed rows kept aside.", "stream"): lambda r: r["malformed_rows"],
    Family("mrql_rows_out", "counter", "Rows put out."): lambda r: _one(r["rows_out"]),
    Family(
        "mrql_operator_rows", "counter", "Rows that operators have given, where that is known.", "operator"
    ): lambda r: _of_operators(r, "rows_out"),
    Family(
        "mrql_operator_rows_in", "counter", "Rows that operators were given, where that is known.", "operator"
    ): lambda r: _of_operators(r, "rows_in"),
    Family("mrql_phase_seconds", "counter", "Time spent, by phase.", "phase", "seconds"): lambda r: _seconds(r),
}
"""The metrics that are added up over the batches, with their samples in a record."""

GAUGES: dict[Family, Callable[[Mapping[str, Any]], Samples]] = {
    Family("mrql_batch", "gauge", "The number of the last batch."): lambda r: _one(r["batch"]),
    Family("mrql_batch_seconds", "gauge", "How long the last batch took.", None, "seconds"): lambda r: {
        None: r["milliseconds"]["all"] / 1000
    },
    Family("mrql_touched_keys", "gauge", "Keys that the last batch touched."): lambda r: _one(r["touched_keys"]),
    Family("mrql_waiting_files", "gauge", "Files that wait to be read.", "stream"): lambda r: r["waiting_files"],
    Family("mrql_state_rows", "gauge", "Rows of the state.", "stage"): lambda r: _of_states(r, "rows"),
    Family("mrql_state_bytes", "gauge", "Bytes of the state.", "stage", "bytes"): lambda r: _of_states(r, "bytes"),
    Family("mrql_operator_state_rows", "gauge", "Rows that operators keep.", "operator"): lambda r: _of_operators(
        r, "state_rows"
    ),
    Family("mrql_checkpoint_bytes", "gauge", "Bytes of the runs of the last commit.", None, "bytes"): lambda r: _one(
        r["checkpoint_bytes"]
    ),
    Family("mrql_residual", "gauge", "By how much elements of loops may be off, as a part of one."): lambda r: _off(
        r, "change"
    ),
    Family("mrql_residual_distance", "gauge", "By how much elements of loops may be off, all together."): lambda r: (
        _off(r, "distance")
    ),
}
"""The metrics that are those of the last batch, with their samples in a record."""


def _one(number: float | None) -> Samples:
    return {} if number is None else {None: number}


def _off(record: Mapping[str, Any], measure: str) -> Samples:
    residual = record["residual"]
    return {} if residual is None else {None: math.inf if residual[measure] is None else residual[measure]}


def _seconds(record: Mapping[str, Any]) -> Samples:
    return {name: spent / 1000 for name, spent in record["milliseconds"].items() if name != "all"}


def _of_states(record: Mapping[str, Any], what: str) -> Samples:
    return {name: size[what] for name, size in record["state"].items()}


def _of_operators(record: Mapping[str, Any], what: str) -> Samples:
    return {name: found[what] for name, found in record["operators"].items() if found[what] is not None}


@attrs.define
class Totals:
    """The metrics so far. One thread adds to them, others read them."""

    samples: dict[Family, dict[str | None, float]] = attrs.Factory(
        lambda: {family: {None: 0} if family.name == "mrql_batches" else {} for family in (*COUNTERS, *GAUGES)}
    )
    lock: threading.Lock = attrs.Factory(threading.Lock)

    def add(self, record: Mapping[str, Any]) -> None:
        """Adds a batch."""
        with self.lock:
            for family, read in COUNTERS.items():
                known = self.samples[family]
                for label, number in read(record).items():
                    known[label] = known.get(label, 0) + number
            for family, read in GAUGES.items():
                self.samples[family] = dict(read(record))

    def text(self) -> str:
        """All metrics as OpenMetrics text."""
        with self.lock:
            lines = [line for family, samples in self.samples.items() for line in _lines(family, samples)]
        return "".join(f"{line}\n" for line in [*lines, "# EOF"])


def _lines(family: Family, samples: Samples) -> Iterator[str]:
    yield f"# TYPE {family.name} {family.kind}"
    if family.unit is not None:
        yield f"# UNIT {family.name} {family.unit}"
    yield f"# HELP {family.name} {family.help}"
    suffix = "_total" if family.kind == "counter" else ""
    for label, number in samples.items():
        labels = "" if label is None else f'{{{family.label}="{_escaped(label)}"}}'
        yield f"{family.name}{suffix}{labels} {_number(number)}"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(number: float) -> str:
    """A number as text; a float is rounded to six decimals."""
    if isinstance(number, int):
        return str(number)
    return "+Inf" if math.isinf(number) else f"{number:.6f}"


# --- the endpoint -------------------------------------------------------------------------------


class Endpoint:
    """Serves totals on the loopback address, at `/metrics`, from a thread of its own."""

    def __init__(self, totals: Totals, port: int) -> None:
        """Listens on a port; on a free one where that is 0.

        Raises: EngineError where the port cannot be had.
        """

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.partition("?")[0] != "/metrics":
                    self.send_error(404, "only /metrics is here")
                    return
                body = totals.text().encode()
                self.send_response(200)
                self.send_header("Content-Type", CONTENT_TYPE)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Requests are not logged."""

        try:
            self.server = ThreadingHTTPServer((LOOPBACK, port), Handler)
        except OSError as error:
            hint = "name another --metrics-port; 0 takes one that is free"
            raise EngineError(f"nothing can listen on {LOOPBACK}:{port}: {error.strerror}", hint) from None
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, name="mrql-metrics", daemon=True)
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.server.server_port}/metrics"

    def close(self) -> None:
        """Stops serving."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@attrs.frozen
class Metrics:
    """Where the metrics of a stream go."""

    file: MetricsFile | None = None
    totals: Totals | None = None
    endpoint: Endpoint | None = None

    @staticmethod
    def opened(path: Path | None, port: int | None) -> Metrics:
        """Opens what is asked for.

        Raises: OSError for the file, EngineError for the port.
        """
        totals = None if port is None else Totals()
        endpoint = None if port is None or totals is None else Endpoint(totals, port)
        try:
            return Metrics(None if path is None else MetricsFile(path), totals, endpoint)
        except BaseException:
            if endpoint is not None:
                endpoint.close()
            raise

    @property
    def wanted(self) -> bool:
        return self.file is not None or self.totals is not None

    def add(self, report: Report) -> None:
        """Adds a batch."""
        if not self.wanted:
            return
        record = record_of(report)
        if self.totals is not None:
            self.totals.add(record)
        if self.file is not None:
            self.file.add(record)

    def close(self) -> None:
        for part in (self.file, self.endpoint):
            if part is not None:
                part.close()
