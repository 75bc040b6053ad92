"""PgBouncer in front of the database: sessions work, and shared ones are refused."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from django.conf import settings as configured
from psycopg.conninfo import conninfo_to_dict

from tests.service.conftest import Client
from tests.world.clients import person
from tests.world.service import ROLE, STOP_SECONDS, Service, free_port
from tests.world.waiting import until
from verification.backups.checks import check_addresses
from verification.db import embedded
from verification.db.startup import find_pooler

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin") or ""
pytestmark = pytest.mark.skipif(not PROGRAM, reason="needs PgBouncer")
CONFIGURATION = """
[databases]
{dbname} = host={host} port={port} user={role} {password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = 60
"""


@pytest.fixture
def pooled(service: Service, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Start a PgBouncer, and return the database's URL by way of it."""
    server = conninfo_to_dict(service.database_url)
    running = []

    def start(mode: str) -> str:
        port = free_port()
        password = f"password={server['password']}" if "password" in server else ""
        values = {"port": 5432, **server, "password": password, "role": ROLE}
        file = tmp_path / "pgbouncer.ini"
        file.write_text(CONFIGURATION.format(listen_port=port, mode=mode, **values))
        command = ["setpriv", "--pdeathsig=KILL", PROGRAM, str(file)]
        bouncer = subprocess.Popen(
            embedded.as_server_user(command) if os.geteuid() == 0 else command,
            cwd="/",
            stderr=subprocess.DEVNULL,
        )
        running.append(bouncer)
        url = f"postgresql://{ROLE}@127.0.0.1:{port}/{server['dbname']}"
        deadline = time.monotonic() + STOP_SECONDS
        while True:
            try:
                psycopg.connect(url).close()
                return url
            except psycopg.OperationalError:
                assert time.monotonic() < deadline
                assert bouncer.poll() is None
                time.sleep(0.1)

    yield start
    for bouncer in running:
        bouncer.kill()
        bouncer.wait()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_web_and_jobs_work_behind_session_pooling(
    service, pooled, settings, monkeypatch
):
    url = pooled("session")
    assert find_pooler(url) == "session"
    assert find_pooler(service.database_url) == ""
    with monkeypatch.context() as environment:
        environment.setenv("DATABASE_URL", url)
        settings.DATABASE_URL = settings.DATABASE_DIRECT_URL = url
        assert [found.id for found in list(check_addresses())] == ["deploy.W012"]
        settings.DATABASE_DIRECT_URL = service.environment["DATABASE_URL"]
        assert list(check_addresses()) == []

    with service.changed(DATABASE_URL=url):
        client = Client(service, "sandbox")
        reports = client.order(*[person()] * 5)

        until(
            lambda: all(client.status(report["id"]) == "READY" for report in reports),
            lambda: service.log()[-3000:],
        )


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_transaction_pooling_is_refused(service, pooled, settings, monkeypatch):
    url = pooled("transaction")
    monkeypatch.setenv("DATABASE_URL", url)
    assert find_pooler(url) == "transaction"
    settings.DATABASE_URL = settings.DATABASE_DIRECT_URL = url
    assert [found.id for found in list(check_addresses())] == ["deploy.E004"]

    for command in (["-m", "verification.web.server"], ["manage.py", "jobs"]):
        done = subprocess.run(
            [sys.executable, *command],
            cwd=configured.BASE_DIR,
            env=service.environment | {"DATABASE_URL": url, "PORT": str(free_port())},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        assert "set pool_mode = session" in done.stderr
