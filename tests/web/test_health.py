import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
from django.conf import settings
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client

import verification
from tests.api.test_problems import unreachable_database as unreachable_database
from tests.world.relay import Relay
from tests.world.service import free_port
from tests.world.waiting import until
from verification.db import startup
from verification.settings.connections import count_processors
from verification.web import gateway, health


@pytest.fixture(autouse=True)
def forget_applied_migrations() -> Iterator[None]:
    health._is_migrated = False
    yield
    health._is_migrated = False


def record_heartbeat(seconds_ago: float) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO jobs_heartbeat (cluster, beat_at)"
            " VALUES ('test', now() - make_interval(secs => %s))",
            [seconds_ago],
        )


def get_readyz(client: Client) -> tuple[int, dict[str, Any]]:
    response = client.get("/readyz")
    return response.status_code, response.json()


def test_healthz_answers_without_the_database(client: Client) -> None:
    response = client.get("/healthz")

    assert response.status_code == 200
    assert response.json() == {"status": "ok", "version": verification.__version__}
    assert "no-store" in response["Cache-Control"]


def test_healthz_of_a_stopping_web_server_is_503(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = gateway.SharedFlag()
    monkeypatch.setattr(gateway, "stopping", flag)
    flag.set()

    response = client.get("/healthz")

    assert response.status_code == 503
    assert response.json()["status"] == "stopping"


@pytest.mark.parametrize("host", ["web1:8000", "10.42.0.7:8000", "[fd00::7]:8000"])
def test_only_probes_are_answered_by_any_host_name(
    db: None, client: Client, settings: Any, host: str
) -> None:
    settings.ALLOWED_HOSTS = ["reports.example.com"]
    record_heartbeat(0)

    def get(path: str) -> int:
        return client.get(path, headers={"Host": host}).status_code

    assert {get(p) for p in ("/livez", "/healthz", "/readyz")} == {200}
    others = ("/", "/metrics", "/healthz/", "/api/v1/reports", "/console/")
    assert {get(p) for p in others} == {400}


def test_web_server_that_drains_or_has_wrong_keys_is_alive(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = gateway.SharedFlag()
    flag.set()
    monkeypatch.setattr(gateway, "stopping", flag)
    monkeypatch.setattr(gateway, "keys_refused", flag)

    assert client.get("/livez").status_code == 200


@pytest.mark.django_db
def test_readyz_states_the_age_of_the_heartbeat(client: Client) -> None:
    record_heartbeat(2.5)

    status, body = get_readyz(client)

    assert status == 200
    assert 2 < body.pop("jobHeartbeatAgeSeconds") < 5
    assert body == {
        "status": "ready",
        "database": "ok",
        "migrations": "ok",
        "jobs": "ok",
        "paymentsInDoubt": 0,
        "refundsWaiting": 0,
        "checkoutsNotOpened": 0,
        "subjectRequestsOverdue": 0,
    }


@pytest.mark.django_db
def test_service_is_not_ready_without_a_heartbeat(client: Client) -> None:
    status, body = get_readyz(client)

    assert (status, body["status"], body["jobs"]) == (503, "not ready", "no heartbeat")
    assert body["jobHeartbeatAgeSeconds"] is None


@pytest.mark.django_db
def test_service_is_not_ready_when_the_heartbeat_is_old(client: Client) -> None:
    record_heartbeat(60)

    status, body = get_readyz(client)

    assert (status, body["jobs"]) == (503, "heartbeat too old")
    assert body["jobHeartbeatAgeSeconds"] >= 60


@pytest.mark.django_db
def test_service_is_not_ready_when_migrations_are_missing(client: Client) -> None:
    record_heartbeat(0)
    applied = MigrationRecorder.Migration.objects.filter(app="jobs")
    count = applied.count()
    applied.delete()

    status, body = get_readyz(client)

    assert (status, body["migrations"]) == (503, f"{count} not applied")


@pytest.mark.django_db
def test_applied_migrations_are_found_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(startup, "MigrationExecutor")

    assert startup.count_unapplied_migrations() == 0


@pytest.mark.django_db
def test_connection_is_unusable_when_the_server_ended_it() -> None:
    other = connection.copy()
    other.connect()
    assert other.is_usable()

    with connection.cursor() as cursor:
        ended = "SELECT pg_terminate_backend(%s, 5000)"
        cursor.execute(ended, [other.connection.info.backend_pid])

    assert not other.is_usable()
    other.close()


@pytest.mark.django_db(transaction=True)
def test_service_is_not_ready_without_a_database(
    client: Client, unreachable_database: None
) -> None:
    status, body = get_readyz(client)

    assert (status, body["database"]) == (503, "away")


@pytest.mark.django_db
def test_service_is_not_ready_on_a_database_that_takes_no_writes(client: Client):
    record_heartbeat(0)
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")

    status, body = get_readyz(client)

    assert (status, body["database"]) == (503, "read only")


class FullServer(socketserver.StreamRequestHandler):
    """Refuses a session as PostgreSQL does that cannot write the session's file."""

    def handle(self) -> None:
        self.rfile.read(int.from_bytes(self.rfile.read(4)) - 4)
        text = "could not write init file: No space left on device"
        fields = f"SFATAL\0VFATAL\0C53100\0M{text}\0\0".encode()
        self.wfile.write(b"E" + (len(fields) + 4).to_bytes(4) + fields)


@pytest.mark.django_db(transaction=True)
def test_readyz_names_the_full_disk_of_a_server_that_refuses_sessions(
    client: Client, unreachable_database: None
) -> None:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), FullServer) as server:
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        where = connection.settings_dict
        where["PORT"] = str(server.server_address[1])
        plain = {"sslmode": "disable", "gssencmode": "disable"}
        where["OPTIONS"] = where["OPTIONS"] | plain
        status, body = get_readyz(client)
        server.shutdown()

    assert (status, body["database"]) == (503, "disk full")


@pytest.mark.django_db
def test_second_readyz_costs_seven_statements(
    client: Client, django_assert_num_queries: Any
) -> None:
    record_heartbeat(0)
    get_readyz(client)

    with django_assert_num_queries(7):
        get_readyz(client)


@pytest.fixture
def serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], AbstractContextManager[str]]:
    """Start a web server with this database, and return its address."""

    @contextmanager
    def start(database_url: str) -> Iterator[str]:
        monkeypatch.setenv("DATABASE_URL", database_url)
        monkeypatch.setenv("LOG_LEVEL", "WARNING")
        monkeypatch.setenv("PORT", str(port := free_port()))
        command = [sys.executable, "-m", "verification.web.server"]
        with (
            (tmp_path / "log").open("w") as output,
            subprocess.Popen(
                command, cwd=settings.BASE_DIR, stdout=output, stderr=output
            ) as server,
        ):
            try:
                assert wait_until_it_answers(f"http://127.0.0.1:{port}/healthz")
                yield f"http://127.0.0.1:{port}"
            finally:
                server.terminate()
        assert server.returncode == 0

    return start


@pytest.mark.parametrize(
    ("limit", "processors"),
    [("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("5000 10000", 1)],
)
def test_processors_are_those_of_the_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, processors: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    file = tmp_path / "cpu.max"
    without = count_processors(file)
    file.write_text(f"{limit}\n")

    assert (without, count_processors(file)) == (8, processors)


@pytest.mark.parametrize("processors", [1, 2])
@pytest.mark.slow
def test_web_server_starts_without_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Any, processors: int
) -> None:
    # Python imports this file first.
    machine = f"import os; os.cpu_count = lambda: {processors}"
    (tmp_path / "sitecustomize.py").write_text(machine)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with serve("postgresql://127.0.0.1:1/away"):
        written = (tmp_path / "log").read_text()

    assert written == ""


@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
def test_readyz_answers_within_three_seconds_when_the_network_is_cut(
    monkeypatch: pytest.MonkeyPatch, serve: Any
) -> None:
    monkeypatch.setenv("WEB_WORKERS", "1")
    name, folder = connection.settings_dict["NAME"], connection.settings_dict["HOST"]

    def ask() -> str:
        # A busy machine answers later, but ten times as late is no answer.
        answer = requests.get(f"{url}/readyz", timeout=30)
        assert answer.status_code == 503
        return str(answer.json()["database"])

    with Relay(folder) as relay:
        address = f"postgresql://postgres@127.0.0.1:{relay.port}/{name}"
        with serve(address) as url:
            until(lambda: ask() == "ok")
            before = relay.connections
            relay.cut()
            answers = [ask() for _ in range(3)]
            # The first query hangs, and the others begin none.
            connected = relay.connections - before
            relay.mend()
            until(lambda: ask() == "ok")

    assert answers == ["does not answer"] * 3
    assert connected == 0


def wait_until_it_answers(url: str, status: int = 200) -> bool:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        try:
            return requests.get(url, timeout=5).status_code == status
        except requests.RequestException:
            time.sleep(0.1)
    return False
