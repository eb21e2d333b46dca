"""A real PostgreSQL for tests: on loopback, with its data in a directory of its own, which is removed with it."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import attrs
import psycopg

MISSING = "PostgreSQL's server is needed (on Debian or Ubuntu: apt-get install postgresql)"
USER, PASSWORD = "ann", "secret"


def binaries() -> Path | None:
    """The directory of the server's programs: those of the newest package of Debian, or those on the path."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda name: int(name.split("/")[4]))
    named = found[-1] if found else shutil.which("initdb")
    return None if named is None else Path(named).resolve().parent


def _as_somebody() -> list[str]:
    """The beginning of a command that makes it run as another user than root, which the server refuses."""
    if os.getuid() != 0:
        return []
    owner = _somebody()
    return ["setpriv", f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]


def _somebody() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


@attrs.define
class Server:
    """A running server, with a database `db` of the user `ann`, who needs a password."""

    home: Path
    port: int
    process: subprocess.Popen[bytes]

    @staticmethod
    def start() -> Server:
        """Starts a server, and returns when it answers."""
        home = Path(tempfile.mkdtemp(prefix="mrql-postgresql-"))
        if os.getuid() == 0:
            os.chown(home, _somebody().pw_uid, _somebody().pw_gid)
        programs, made = binaries(), home / "data"
        assert programs is not None
        secret = home / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        options = ["-U", USER, "--pwfile", str(secret), "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "-N"]
        command = [*_as_somebody(), str(programs / "initdb"), "-D", str(made), *options]
        subprocess.run(command, check=True, capture_output=True, cwd=home)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = Server(home, port, _process(home, port))
        with psycopg.connect(server.conninfo("postgres"), autocommit=True) as connection:
            connection.execute("CREATE DATABASE db")
        return server

    def conninfo(self, database: str = "db") -> str:
        """The connection string for libpq."""
        return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def address(self, table: str, **options: str) -> str:
        """The address of a table for `--output`."""
        return "&".join([f"{self.conninfo()}?table={table}", *(f"{key}={value}" for key, value in options.items())])

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables for libpq."""
        found = {"PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGDATABASE": "db"}
        return {**found, "PGUSER": USER, "PGPASSWORD": PASSWORD}

    def connect(self) -> psycopg.Connection:
        """A connection that commits each statement."""
        return psycopg.connect(self.conninfo(), autocommit=True)

    def rows(self, table: str) -> list[tuple[object, ...]]:
        """The rows of a table, sorted."""
        with self.connect() as connection:
            found = connection.execute(f"SELECT * FROM {table}".encode()).fetchall()
        return sorted(found, key=repr)

    def restart(self, **settings: str) -> None:
        """Restarts the server, with other settings than usual if some are given."""
        self._end()
        self.process = _process(self.home, self.port, settings)

    def crash(self) -> None:
        """Kills the server with all of its processes, and starts it again: it recovers the commits from its log."""
        pid = self.process.pid
        others = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        self.process.kill()  # first, so that it does not see the others die and restart by itself
        self.process.wait(30)
        for other in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(other, signal.SIGKILL)
        self.process = _process(self.home, self.port)

    def stop(self) -> None:
        """Stops the server, and removes its data."""
        self._end()
        shutil.rmtree(self.home)

    def _end(self) -> None:
        self.process.send_signal(signal.SIGINT)  # does not wait for connections
        self.process.wait(30)


def _process(home: Path, port: int, others: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    programs = binaries()
    assert programs is not None
    settings = {
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": str(home),
        "fsync": "off",
        "wal_level": "logical",
        "max_replication_slots": "20",
        "max_wal_senders": "20",
        **(others or {}),
    }
    options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    command = [*_as_somebody(), str(programs / "postgres"), "-D", str(home / "data"), "-p", str(port), *options]
    with (home / "log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=home)
    ready = [str(programs / "pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-t", "1", "-q"]
    for _ in range(300):
        if subprocess.run(ready, check=False).returncode == 0:
            return process
        assert process.poll() is None, (home / "log").read_text()
    raise AssertionError("the server does not answer")
