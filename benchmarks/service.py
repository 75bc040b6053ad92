"""The real service, in processes of its own, with databases of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import connection

from workspaces import keys
from workspaces.create import create_workspace
from workspaces.models import Account, Client

READY_SECONDS = 60
STOP_SECONDS = 20
DATABASE = os.environ.get("BENCH_DATABASE") or "bench"
UNLIMITED = 2_000_000_000
PARK = [
    """UPDATE checks_checkresult SET next_attempt_at = NULL
    WHERE next_attempt_at IS NOT NULL""",
    "DELETE FROM jobs_job",
    "UPDATE webhooks_configuration SET enabled = false WHERE enabled",
]
POSTPAID = Account.Billing.POSTPAID


class Service:
    """Web server and job cluster run only while a bench is within `web` or `jobs`.

    With `lasting` they go on from bench to bench, which saves starts where nothing is
    measured.
    """

    def __init__(self, folder: Path, server_url: str, *, lasting: bool) -> None:
        self.folder = folder
        self.port = free_port()
        self._server_url = server_url
        self._lasting = lasting
        self._running = ExitStack()
        self._parts: dict[tuple[str, ...], psutil.Process] = {}
        self.use(DATABASE, keep=False)

    def close(self) -> None:
        self._running.close()
        self._parts.clear()

    def use(self, database: str, *, keep: bool) -> None:
        """Have this database under the service and under this process."""
        self.close()
        url = self._url(database)
        os.environ |= {"DATABASE_URL": url, "PORT": str(self.port)}
        with psycopg.connect(self._server_url, autocommit=True) as server:
            exists = "SELECT 1 FROM pg_database WHERE datname = %s"
            kept = server.execute(exists, [database]).fetchone() and keep
            if not kept:
                server.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
                server.execute(f"CREATE DATABASE {database}")
        connection.close()
        connection.settings_dict["NAME"] = database
        call_command("migrate", verbosity=0)
        call_command("setup_checks", stdout=StringIO())
        call_command("setup_schedules")

    def has(self, database: str, table: str) -> bool:
        """Whether an earlier run has left this table in this database."""
        try:
            with psycopg.connect(self._url(database)) as db:
                there = db.execute("SELECT to_regclass(%s)", [table]).fetchone()
        except psycopg.OperationalError:
            return False
        return bool(there and there[0])

    def _url(self, database: str) -> str:
        return urlsplit(self._server_url)._replace(path=f"/{database}").geturl()

    def park(self) -> None:
        """Leave alone for good what waits, so that the next bench begins idle."""
        with self.connect() as db:
            for statement in PARK:
                db.execute(statement)

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(os.environ["DATABASE_URL"], autocommit=True)

    @contextmanager
    def web(self) -> Iterator[psutil.Process]:
        """The web server on `port`, as in production."""
        with self._part("-m", "verification.web.server") as web:
            self.wait_for("/healthz")
            yield web

    @contextmanager
    def jobs(self) -> Iterator[psutil.Process]:
        """One job cluster under its supervisor, warm."""
        with self._part("manage.py", "jobs") as jobs:
            self._wait_for_beats()
            yield jobs

    @contextmanager
    def _part(self, *command: str) -> Iterator[psutil.Process]:
        if not self._lasting:
            with self.process(*command) as process:
                yield process
            return
        if command not in self._parts:
            process = self._running.enter_context(self.process(*command))
            self._parts[command] = process
        yield self._parts[command]

    @contextmanager
    def process(self, *command: str, **environment: str) -> Iterator[psutil.Process]:
        with (self.folder / "service.log").open("a") as log:
            process = psutil.Popen(
                [sys.executable, *command],
                cwd=settings.BASE_DIR,
                env=os.environ | environment,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            _end(process)

    def wait_for(self, path: str, port: int | None = None) -> None:
        """Until the server on this port answers."""
        url = f"http://127.0.0.1:{port or self.port}{path}"
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                urllib.request.urlopen(url, timeout=5)
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)

    def _wait_for_beats(self) -> None:
        """Until work has flowed for a while."""
        beats = "SELECT count(*) FROM jobs_heartbeat WHERE beat_at > %s"
        with self.connect() as db:
            started = db.execute("SELECT clock_timestamp()").fetchone()
            deadline = time.monotonic() + READY_SECONDS
            while not db.execute(beats, started).fetchone()[0]:  # type: ignore[index]
                if time.monotonic() > deadline:
                    raise TimeoutError("the job cluster does not beat")
                time.sleep(0.1)
        # What was left waiting is done by then.
        time.sleep(0 if self._lasting else 1)


def client(environment: str = "sandbox") -> tuple[Client, str]:
    """A new postpaid workspace, and a key of it that may ask as often as it likes."""
    workspace = create_workspace(
        name="Bench", owner_email="bench@example.com", billing=POSTPAID
    )
    key, text = keys.issue(workspace, environment=environment, name="bench", force=True)
    key.creates_per_minute = key.requests_per_minute = UNLIMITED
    key.save(update_fields=["creates_per_minute", "requests_per_minute"])
    account = workspace.accounts.get(environment=environment)
    return Client(workspace, account, f"key {key}"), text


def family(root: psutil.Process) -> list[psutil.Process]:
    return [root, *root.children(recursive=True)]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _end(root: psutil.Popen) -> None:
    processes = family(root) if root.is_running() else []
    root.send_signal(signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired, psutil.TimeoutExpired):
        root.wait(STOP_SECONDS)
    _, left = psutil.wait_procs(processes, 3)
    for process in left:
        process.kill()
    root.wait()
