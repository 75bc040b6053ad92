"""The real service, in its own processes and with its own databases."""

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
from django.test import Client as HttpClient
from django.test.utils import CaptureQueriesContext

from verification.jobs.processes import parent_death_hook
from workspaces import keys
from workspaces.create import create_workspace
from workspaces.models import Account, Client

READY_SECONDS = 60
STOP_SECONDS = 20
DATABASE = os.environ.get("BENCH_DATABASE") or "bench"
EMPTY = "template0"
# What new databases are copied from: one that is migrated, or an empty one
TEMPLATE = os.environ.get("BENCH_TEMPLATE") or EMPTY
UNLIMITED = 2_000_000_000
PARK = [
    """UPDATE checks_checkresult SET next_attempt_at = NULL
    WHERE next_attempt_at IS NOT NULL""",
    "DELETE FROM jobs_job",
    "UPDATE webhooks_configuration SET enabled = false WHERE enabled",
]
POSTPAID = Account.Billing.POSTPAID


class Service:
    """Runs the web server and the job cluster while a bench is within `web` or `jobs`.

    If `lasting` is set, both run until a bench needs another database or others of
    them, which saves starts, and are killed then, which saves the end of running jobs.
    If `thin` is set, very many reports are thin ones (`workspace_rows`).
    """

    def __init__(
        self, folder: Path, server_url: str, *, lasting: bool, thin: bool
    ) -> None:
        self.folder = folder
        self.thin = thin
        self.port = free_port()
        self._server_url = server_url
        self._lasting = lasting
        self._running = ExitStack()
        self._parts: dict[tuple[str, ...], psutil.Process] = {}
        self._database = ""
        # Migrated databases: `migrate` takes seconds even if it has nothing to do.
        self._migrated: set[str] = set()
        self.use(DATABASE, keep=False)

    def close(self) -> None:
        self._running.close()
        self._parts.clear()

    def use_own(self) -> None:
        """Use the database that the benches share, but for those of many reports."""
        self.use(DATABASE, keep=True)

    def use(self, database: str, *, keep: bool) -> None:
        """Use this database in the service and in this process."""
        if keep and database == self._database:
            return
        self._database = database
        self.close()
        url = self._url(database)
        os.environ |= {"DATABASE_URL": url, "PORT": str(self.port)}
        with psycopg.connect(self._server_url, autocommit=True) as server:
            exists = "SELECT 1 FROM pg_database WHERE datname = %s"
            is_new = not (keep and server.execute(exists, [database]).fetchone())
            if is_new:
                server.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)")
                server.execute(f"CREATE DATABASE {database} TEMPLATE {TEMPLATE}")
                self._migrated.discard(database)
        connection.close()
        connection.settings_dict["NAME"] = database
        if database in self._migrated:
            return
        if not is_new or TEMPLATE == EMPTY:
            call_command("migrate", verbosity=0)
        call_command("setup_checks", stdout=StringIO())
        call_command("setup_schedules")
        self._migrated.add(database)

    def has(self, database: str, table: str) -> bool:
        """Return whether the database exists and has this table."""
        try:
            with psycopg.connect(self._url(database)) as db:
                there = db.execute("SELECT to_regclass(%s)", [table]).fetchone()
        except psycopg.OperationalError:
            return False
        return bool(there and there[0])

    def _url(self, database: str) -> str:
        return urlsplit(self._server_url)._replace(path=f"/{database}").geturl()

    def park(self) -> None:
        """Remove all waiting work, so that the next bench begins idle."""
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
        """One job cluster, warm."""
        with self._part("manage.py", "jobs") as jobs:
            self._wait_for_beats()
            yield jobs

    @contextmanager
    def second_host(self) -> Iterator[None]:
        """Another web server and job cluster on this machine, warm."""
        port = free_port()
        with (
            self.process("-m", "verification.web.server", PORT=str(port)),
            self.process("manage.py", "jobs"),
        ):
            self.wait_for("/healthz", port)
            self._wait_for_beats(2)
            yield

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
                preexec_fn=parent_death_hook(),
            )
        try:
            yield process
        finally:
            _end(process, kill=self._lasting)

    def wait_for(self, path: str, port: int | None = None) -> None:
        """Wait until the server on this port answers."""
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

    def _wait_for_beats(self, clusters: int = 1) -> None:
        """Wait until so many job clusters have run their heartbeats."""
        beats = "SELECT count(*) FROM jobs_heartbeat WHERE beat_at > %s"
        with self.connect() as db:
            started = db.execute("SELECT clock_timestamp()").fetchone()
            deadline = time.monotonic() + READY_SECONDS
            while db.execute(beats, started).fetchone()[0] < clusters:  # type: ignore[index]
                if time.monotonic() > deadline:
                    raise TimeoutError("the job cluster does not beat")
                time.sleep(0.1)
        # The cluster finishes waiting work in this time.
        time.sleep(0 if self._lasting else 1)


def create_client(environment: str = "sandbox") -> tuple[Client, str]:
    """Return a new postpaid client, and the text of a key without limits."""
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


def used_memory(root: psutil.Process) -> int:
    """Return the bytes of a process and its children; shared pages count in parts."""
    return sum(process.memory_full_info().pss for process in family(root))


def count_statements(path: str, key: str, body: bytes) -> int:
    """Return the statements of one request, BEGIN and COMMIT included."""
    http = HttpClient(headers={"Authorization": f"Bearer {key}", "Host": "localhost"})
    for _ in range(2):  # The first also records the key's last use, once a minute.
        with CaptureQueriesContext(connection) as captured:
            answer = http.post(path, body, content_type="application/json")
        assert answer.status_code == 201, answer.content
    return len(captured)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def _end(root: psutil.Popen, *, kill: bool) -> None:
    processes = family(root) if root.is_running() else []
    if not kill:
        root.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired, psutil.TimeoutExpired):
            root.wait(STOP_SECONDS)
        _, processes = psutil.wait_procs(processes, 3)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    root.wait()
