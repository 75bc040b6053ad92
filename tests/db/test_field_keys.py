"""A process that lacks a key of the database gets no connection, and says which."""

import io
import subprocess
import sys
from base64 import b64encode
from contextlib import closing
from typing import Any

import pytest
import requests
from django.conf import settings as configured
from django.core.management import call_command
from django.db import connection
from django.test import Client

from tests.configuration.test_refusals_to_start import database_url, refusal
from tests.web.test_health import wait_until_it_answers
from tests.world.service import free_port
from verification.backoffice.models import KeyProbe, ensure_probe
from verification.db.encryption import key_id_of
from verification.db.startup import DatabaseRefused

pytestmark = pytest.mark.django_db(transaction=True)
OURS, NEW = b"f" * 32, b"n" * 32


@pytest.fixture
def keys(settings: Any) -> Any:
    """Give this process other FIELD_KEYS, as a restart does."""
    ensure_probe()

    def set_keys(*ring: tuple[str, bytes]) -> None:
        settings.FIELD_KEYS = list(ring)

    return set_keys


def connect() -> None:
    with closing(connection.copy()) as other:
        other.ensure_connection()


def test_process_with_another_key_gets_no_connection(keys: Any):
    keys(("k1", NEW))

    with pytest.raises(DatabaseRefused, match="another key as k1"):
        connect()


def test_process_without_the_key_is_told_its_id(keys: Any):
    keys(("k2", NEW))

    with pytest.raises(DatabaseRefused, match="FIELD_KEYS lacks the key k1"):
        connect()


def test_new_key_beside_the_former_one_is_accepted(keys: Any):
    for ring in [("k1", OURS), ("k2", NEW)], [("k2", NEW), ("k1", OURS)]:
        keys(*ring)
        connect()


def test_reencrypt_moves_the_probe_so_that_the_former_key_can_go(keys: Any):
    keys(("k2", NEW), ("k1", OURS))

    call_command("reencrypt", stdout=io.StringIO())

    with connection.cursor() as cursor:
        cursor.execute("SELECT value FROM backoffice_keyprobe")
        assert key_id_of(bytes(cursor.fetchone()[0])) == "k2"
    keys(("k2", NEW))
    connect()
    keys(("k1", OURS))
    with pytest.raises(DatabaseRefused, match="lacks the key k2"):
        connect()


def test_migrate_writes_the_probe_once():
    KeyProbe.objects.all().delete()

    call_command("migrate", verbosity=0)
    ensure_probe()

    assert KeyProbe.objects.get().value == "probe"


def test_readyz_says_that_the_keys_are_refused(keys: Any, client: Client):
    keys(("k1", NEW))
    connection.close()

    answer = client.get("/readyz")

    assert (answer.status_code, answer.json()["database"]) == (503, "refuses the keys")


@pytest.mark.slow
def test_web_server_with_other_keys_says_so_and_lets_proxies_leave_it_out(
    keys: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
):
    name = connection.settings_dict["NAME"]
    monkeypatch.setenv("DATABASE_URL", database_url("postgres", name))
    monkeypatch.setenv("FIELD_KEYS", f"k7:{b64encode(NEW).decode()}")
    monkeypatch.setenv("LOOKUP_KEY", b64encode(configured.LOOKUP_KEY[-1]).decode())
    monkeypatch.setenv("PORT", str(port := free_port()))
    monkeypatch.setenv("DEBUG", "True")
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "verification.settings")
    command = [sys.executable, "-m", "verification.web.server"]
    url, log = f"http://127.0.0.1:{port}", tmp_path / "log"

    with (
        log.open("w") as output,
        subprocess.Popen(command, cwd=configured.BASE_DIR, stderr=output) as server,
    ):
        try:
            assert wait_until_it_answers(f"{url}/healthz", 503)
            health = requests.get(f"{url}/healthz", timeout=9)
            ready = requests.get(f"{url}/readyz", timeout=9)
            page = requests.get(f"{url}/c/{'a' * 32}", timeout=9)
        finally:
            server.terminate()

    assert health.json()["status"] == "refuses the keys"
    assert (ready.status_code, ready.json()["database"]) == (503, "refuses the keys")
    assert page.status_code == 503
    assert log.read_text().count('"message":"FIELD_KEYS lacks the key k1') == 1


@pytest.mark.slow
def test_command_with_another_key_is_refused_in_one_sentence(keys: Any, tmp_path: Any):
    told = refusal(
        "audit_ledger",
        DATABASE_URL=database_url("postgres", connection.settings_dict["NAME"]),
        DATA_DIR=str(tmp_path),
        FIELD_KEYS=f"k7:{b64encode(NEW).decode()}",
        LOOKUP_KEY=b64encode(configured.LOOKUP_KEY[-1]).decode(),
    )

    assert told.startswith("FIELD_KEYS lacks the key k1, which the values")
