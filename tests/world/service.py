"""The running service: web server and job cluster, as in an installation.

`service` (session-scoped; `tests/conftest.py` offers it everywhere) starts both on a
free port with a database of their own, migrated and seeded. Tests talk to it over HTTP
at `service.url`, prepare it with `service.manage("create_workspace", ...)`, kill and
start its two parts, and read its log with `service.log()`. All tests share one service:
a test that stops a part starts it again.

The service trusts receivers on `localhost` whose certificate is of `service.authority`.

`service.connect()` is a psycopg connection to its database as the owner of the tables;
web server and jobs connect as a role without tables. Django's `connection` in the test
process leads to another database.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest
from django.conf import settings
from psycopg import sql

from tests.world.commands import run_command
from tests.world.database import create_database, database_url
from tests.world.receiver import Authority
from tests.world.waiting import until
from verification.jobs.processes import parent_death_hook

NAME = settings.DATABASES["default"]["TEST"]["NAME"].removeprefix("test_")
# Each worker of pytest-xdist has its own service.
DATABASE = f"live_{NAME}_{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}"
# The role of web server and jobs, which owns no table.
ROLE = f"{DATABASE}_served"
# Tests that use the service; `tests/conftest.py` gives them to three workers.
SERVED = (
    "tests/browser/",
    "tests/clients/test_other_languages.py",
    "tests/docs/test_installation_page.py",
    "tests/docs/test_monitoring_page.py",
    "tests/docs/test_quickstart_page.py",
    "tests/docs/test_readme.py",
    "tests/docs/test_reports_page.py",
    "tests/docs/test_webhooks_page.py",
    "tests/jobs/test_cluster.py",
    "tests/service/",
)
# These of them kill or stop its parts, or start them with other settings. They take as
# long as the rest.
RESTARTING = (
    "tests/jobs/test_cluster.py",
    "tests/service/test_database_away.py",
    "tests/service/test_erasure_kills.py",
    "tests/service/test_kills.py",
    "tests/service/test_metrics.py",
    "tests/service/test_monitoring.py",
    "tests/service/test_paid_calls.py",
    "tests/service/test_pgbouncer.py",
    "tests/service/test_proxies.py",
    "tests/service/test_skip_kills.py",
    "tests/service/test_slow_clients.py",
    "tests/service/test_tracing.py",
)
# Tests that start or restore all that they need, once for a file.
OWN_PROGRAMS = {
    "tests/jobs/test_run.py",
    "tests/service/test_clock_steps.py",
    "tests/service/test_many_machines.py",
    "tests/service/test_recovery.py",
    "tests/upgrades/test_upgrades.py",
}
READY_SECONDS = 180
STOP_SECONDS = 90


class Service:
    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = folder / "service.log"
        self.authority = Authority(folder / "ca.pem")
        self.environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.world.service_settings",
            "DATABASE_URL": _role_url(),
            "DATA_DIR": str(folder),
            "PORT": str(self.port),
            "BASE_URL": self.url,
            # The checks of a killed worker are due again soon.
            "CHECK_LEASE_SECONDS": "5",
            "JOB_WORKERS": "2",
            "WEBHOOK_DEV_HOSTS": "localhost",
            "WEBHOOK_CA_FILE": str(self.authority.file),
        }
        self._web: subprocess.Popen[bytes] | None = None
        self._jobs: subprocess.Popen[bytes] | None = None

    def set_environment(self, **variables: str) -> None:
        """Set variables for parts that are started later, in a new dictionary."""
        self.environment = self.environment | variables

    @contextmanager
    def changed(
        self, *, web: bool = True, jobs: bool = True, **variables: str
    ) -> Iterator[None]:
        """Run web server and jobs with these variables too, and then as before.

        A part that reads none of them need not start again.
        """
        before = self.environment
        try:
            self._restart(before | variables, web, jobs)
            yield
        finally:
            self._restart(before, web, jobs)

    def _restart(self, environment: dict[str, str], web: bool, jobs: bool) -> None:
        if web:
            self.stop_web()
        if jobs:
            self.stop_jobs()
        self.environment = environment
        if web:
            self._launch_web()
        if jobs:
            self.start_jobs()
        if web:
            self.start_web()

    def manage(self, *arguments: str) -> str:
        """Run a management command on this service; return its output."""
        # As the owner of the tables.
        owner = self.environment | {"DATABASE_URL": self.database_url}
        done = run_command(owner, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def database_url(self) -> str:
        """The database's URL for the owner of its tables."""
        return database_url(DATABASE)

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.database_url, autocommit=True)

    def log(self) -> str:
        """Return the log of web server and jobs."""
        return self._log.read_text()

    def start(self) -> None:
        """Start both parts at once unless they run, and wait for them."""
        self._launch_web()
        self.start_jobs()
        self.start_web()

    def start_web(self) -> None:
        """Start the web server unless it runs, and wait until it answers."""
        self._launch_web()
        self._wait_for("/healthz")

    def _launch_web(self) -> None:
        self._web = self._running(self._web, "-m", "verification.web.server")

    def start_jobs(self) -> None:
        """Start the job cluster unless it runs, and wait for its beat."""
        with self.connect() as connection:
            (since,) = connection.execute("SELECT now()").fetchone() or ()
            cluster = self.environment.get("JOB_CLUSTER", "") + "%"
            self._jobs = self._running(self._jobs, "manage.py", "jobs")
            beat = "SELECT 1 FROM jobs_heartbeat WHERE beat_at > %s AND cluster LIKE %s"
            until(
                lambda: connection.execute(beat, [since, cluster]).fetchone(),
                lambda: self.log()[-5000:],
            )

    def kill_web(self) -> None:
        """Kill all processes of the web server."""
        self._web = end_family(self._web, kill=True)

    def kill_jobs(self) -> None:
        """Kill the job cluster and its workers."""
        self._jobs = end_family(self._jobs, kill=True)

    def stop_web(self) -> None:
        """Stop the web server as an operator does."""
        # Forget it first: if it ends with an error, one test fails and not all later.
        stopped, self._web = self._web, None
        end_family(stopped, kill=False)

    def stop_jobs(self) -> None:
        """Stop the job cluster as an operator does: running jobs end first."""
        stopped, self._jobs = self._jobs, None
        end_family(stopped, kill=False)

    def processes(self) -> list[psutil.Process]:
        """Return all running processes of the service."""
        return _family(self._web) + _family(self._jobs)

    def jobs_processes(self) -> list[psutil.Process]:
        """Return the job cluster and its workers."""
        return _family(self._jobs)

    def everything(self) -> list[psutil.Process]:
        """Return all processes with our environment, also orphans."""
        ours = self.environment["BASE_URL"]
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get("BASE_URL") == ours:
                    found.append(process)
        return found

    def command(self, *arguments: str) -> list[str]:
        """Return the command that starts a part."""
        return [sys.executable, *arguments]

    def _running(
        self, process: subprocess.Popen[bytes] | None, *command: str
    ) -> subprocess.Popen[bytes]:
        if process is not None and process.poll() is None:
            return process
        with self._log.open("a") as log:
            return subprocess.Popen(
                self.command(*command),
                cwd=settings.BASE_DIR,
                env=self.environment,
                stdout=log,
                stderr=log,
                # The processes end with the test run.
                preexec_fn=parent_death_hook(),
            )

    def _wait_for(self, path: str) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(self.url + path, timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise AssertionError(f"{path} does not answer 200\n{self.log()[-5000:]}")


def free_port() -> int:
    """Return a port that no program has, and that the system gives to none.

    Its own choice, port 0, comes from the range of outgoing connections, of which one
    may take it before the program starts.
    """
    range_of_the_system = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
    first = int(range_of_the_system.split()[0])
    # Each test seeds the other generator, so all processes would choose alike.
    generator = random.SystemRandom()
    while True:
        port = generator.randrange(10_000, first)
        with socket.socket() as s, suppress(OSError):
            s.bind(("127.0.0.1", port))
            return port


def is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def _family(root: subprocess.Popen[bytes] | None) -> list[psutil.Process]:
    if root is None or root.poll() is not None:
        return []
    process = psutil.Process(root.pid)
    return [p for p in (process, *process.children(recursive=True)) if is_alive(p)]


def end_family(root: subprocess.Popen[bytes] | None, *, kill: bool) -> None:
    if root is None:
        return
    family = _family(root)
    for process in family if kill else family[:1]:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
    code = root.wait(STOP_SECONDS)
    assert kill or code == 0, f"exit code {code}"
    until(
        lambda: not any(is_alive(process) for process in family),
        lambda: f"left over: {[process for process in family if is_alive(process)]}",
    )


def _role_url() -> str:
    url = urlsplit(database_url(DATABASE))
    _, _, host = url.netloc.rpartition("@")
    password = f":{url.password}" if url.password else ""
    return url._replace(netloc=f"{ROLE}{password}@{host}").geturl()


def _make_database() -> None:
    create_database(DATABASE)
    password = sql.Literal(urlsplit(database_url(DATABASE)).password or "")
    with psycopg.connect(database_url(DATABASE), autocommit=True) as connection:
        connection.execute(f"DROP ROLE IF EXISTS {ROLE}")
        connection.execute(
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(
                sql.Identifier(ROLE), password
            )
        )


@pytest.fixture(scope="session")
def service(
    database_server: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    asking = os.environ["PYTEST_CURRENT_TEST"]
    assert asking.startswith(SERVED), f"SERVED lacks {asking}"
    _make_database()
    service = Service(tmp_path_factory.mktemp("live"))
    service.manage("grant_rights", ROLE)
    service.manage("setup_checks")
    service.manage("setup_schedules")
    try:
        service.start()
        yield service
    finally:
        service.stop_web()
        service.stop_jobs()
