"""The log store gets every sealed event, also one that dies in the middle."""

import json
import os
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from tests.audit_trail.test_check import events as events
from tests.audit_trail.test_check import record, superuser
from tests.upgrades.story import documents as documents
from tests.world.receiver import Authority, Received, Receiver, Script
from tests.world.receiver import authority as authority
from verification.audit_trail import export
from verification.audit_trail.export import export_events, lag
from verification.audit_trail.models import START, TrailState
from verification.audit_trail.seals import hash_of, seal_events

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("documents")]
FRAME = re.compile(rb"(\d+) (<110>1 \S+ \S+ verification - audit - )")
# Ends of the next connection to a receiver
TAKES, DIES_AT_ONCE, DIES_UNREAD, DIES_BEFORE_ITS_ANSWER, TALKS_ON = range(5)


class Syslog:
    """A syslog server that ends each connection as the next of `plan` says."""

    def __init__(self, authority: Authority) -> None:
        self.plan: list[int] = []
        self.taken: list[dict[str, Any]] = []
        self.connections = 0
        self.context = authority.context("localhost")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        # Wakes the thread from `accept`.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            try:
                plain, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            how = self.plan.pop(0) if self.plan else TAKES
            if how == DIES_AT_ONCE:
                plain.close()
                continue
            raw = plain.dup()
            try:
                connection = self.context.wrap_socket(plain, server_side=True)
            except ssl.SSLError:
                # The client refuses the certificate, or lacks one of its own. It gets
                # an alert, and no reset of a connection with unread bytes.
                with suppress(OSError):
                    while raw.recv(65536):
                        pass
                continue
            finally:
                raw.close()
            text = connection.recv(100)
            if how == DIES_UNREAD:
                os.close(connection.detach())
                continue
            while piece := connection.recv(65536):
                text += piece
            with suppress(OSError):
                while how == TALKS_ON:
                    connection.sendall(b"-")
            if how in {DIES_BEFORE_ITS_ANSWER, TALKS_ON}:
                os.close(connection.detach())
                continue
            self.taken += list(_read(text))
            connection.unwrap().close()


def _read(text: bytes) -> Iterator[dict[str, Any]]:
    while text:
        head = FRAME.match(text)
        assert head
        start, end = head.start(2), head.start(2) + int(head[1])
        yield json.loads(text[start + len(head[2]) : end])
        text = text[end:]


@pytest.fixture
def syslog(authority: Authority, settings: Any) -> Iterator[Syslog]:
    server = Syslog(authority)
    settings.AUDIT_EXPORT_URL = f"syslog+tls://localhost:{server.port}"
    settings.AUDIT_EXPORT_CA_FILE = str(authority.file)
    yield server
    server.close()


def numbers(lines: list[dict[str, Any]]) -> list[int]:
    return [line["number"] for line in lines]


def test_receiver_that_dies_three_times_loses_no_event(
    events, workspace, syslog, monkeypatch
):
    monkeypatch.setattr(export, "BATCH_SIZE", 4)
    syslog.plan = [TAKES, DIES_AT_ONCE, DIES_UNREAD, DIES_BEFORE_ITS_ANSWER]

    for _ in range(3):
        export_events()
        assert TrailState.objects.get().exported_number == 4
    assert lag()[0] == 6
    record(workspace, 2)
    seal_events()
    export_events()

    assert numbers(syslog.taken) == list(range(1, 13))
    assert syslog.connections == 6
    assert lag() == (0, 0)


def test_receiver_that_talks_on_does_not_hold_the_export(
    events, syslog, monkeypatch, caplog
):
    monkeypatch.setattr(export, "SYSLOG_SECONDS", 0.1)
    syslog.plan = [TALKS_ON]

    export_events()

    assert lag()[0] == 10
    assert "no close_notify in time" in caplog.text


def test_position_beyond_the_last_event_sends_all_again(events, syslog):
    TrailState.objects.update(exported_number=10**9)
    assert lag()[0] == 10

    export_events()

    assert numbers(syslog.taken) == list(range(1, 11))
    assert TrailState.objects.get().exported_number == 10


def test_line_has_the_address_and_proves_its_hash(events, syslog):
    export_events()

    first = syslog.taken[0]
    assert first["address"] == "192.0.2.7"
    assert first["id"] == str(events[0].pk)
    previous = START
    for line in syslog.taken:
        assert line.pop("previousHash") == previous.hex()
        sealed, _ = line.pop("hash"), line.pop("address")
        previous = hash_of(previous, line)
        assert previous.hex() == sealed


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE backoffice_auditevent SET address = 'no sealed value' WHERE id = %s",
        "UPDATE backoffice_auditevent SET address = (SELECT address FROM "
        "backoffice_auditevent ORDER BY id DESC LIMIT 1) WHERE id = %s",
    ],
)
def test_changed_address_does_not_hold_up_the_events_behind_it(
    events, syslog, statement
):
    with superuser() as cursor:
        cursor.execute(statement, [events[0].pk])

    export_events()

    assert syslog.taken[0]["address"] is None
    assert numbers(syslog.taken) == list(range(1, 11))


def test_receiver_with_a_certificate_of_another_authority_gets_nothing(
    events, syslog, settings
):
    settings.AUDIT_EXPORT_CA_FILE = ""
    export_events()

    assert syslog.taken == []
    assert lag()[0] == 10


def test_receiver_knows_the_service_by_its_certificate(
    events, syslog, authority, settings, tmp_path
):
    authority.demand_certificates(syslog.context)
    export_events()
    assert lag()[0] == 10

    own = authority.write_client_certificate(tmp_path / "own.pem")
    settings.AUDIT_EXPORT_CERTIFICATE_FILE = str(own)
    export_events()

    assert numbers(syslog.taken) == list(range(1, 11))


def test_store_over_https_knows_the_service_by_its_certificate(
    events, authority, settings, tmp_path
):
    settings.AUDIT_EXPORT_CA_FILE = str(authority.file)
    context = authority.context("localhost")
    authority.demand_certificates(context)
    own = authority.write_client_certificate(tmp_path / "own.pem")
    with Receiver(context) as store:
        settings.AUDIT_EXPORT_URL = store.url("/audit", "localhost")
        for certificate, waiting in [("", 10), (str(own), 0)]:
            settings.AUDIT_EXPORT_CERTIFICATE_FILE = certificate
            export_events()
            assert lag()[0] == waiting


def test_store_over_https_that_takes_nothing_is_logged_with_the_cause(
    events, settings, authority, caplog
):
    with Receiver(authority.context("localhost")) as store:
        settings.AUDIT_EXPORT_URL = store.url("/audit", "localhost")
        export_events()
        settings.AUDIT_EXPORT_CA_FILE = str(authority.file)
        store.scripts["/audit"] = Script(cut_after=0)
        export_events()
    export_events()

    assert lag()[0] == 10
    assert [line.split(": ")[1] for line in caplog.messages if "not taken" in line] == [
        "SSLCertVerificationError",
        "RemoteDisconnected",
        "ConnectionRefusedError",
    ]


def test_store_over_https_takes_a_batch_by_its_status(events, settings, authority):
    settings.AUDIT_EXPORT_TOKEN = "secret"
    settings.AUDIT_EXPORT_CA_FILE = str(authority.file)
    with Receiver(authority.context("localhost")) as store:
        settings.AUDIT_EXPORT_URL = store.url("/audit", "localhost")
        for status, waiting in [(503, 10), (302, 10), (200, 0)]:
            store.scripts["/audit"] = Script(status=status)
            export_events()
            assert lag()[0] == waiting

    last = store.received[-1]
    assert last.headers["authorization"] == "Bearer secret"
    lines = [json.loads(line) for line in last.body.splitlines()]
    assert numbers(lines) == list(range(1, 11))


def test_store_that_takes_small_bodies_alone_gets_small_batches(
    events, settings, authority, caplog
):
    def script(request: Received) -> Script:
        return Script(status=413 if len(request.body.splitlines()) > most else 200)

    settings.AUDIT_EXPORT_CA_FILE = str(authority.file)
    with Receiver(authority.context("localhost")) as store:
        settings.AUDIT_EXPORT_URL = store.url("/audit", "localhost")
        store.scripts["/audit"] = script
        most = 0
        export_events()
        assert lag()[0] == 10
        assert "audit events were not taken: status 413" in caplog.messages

        most = 3
        store.received.clear()
        export_events()
        assert lag()[0] == 0

    sizes = [len(request.body.splitlines()) for request in store.received]
    assert sizes == [10, 5, 2, 2, 2, 2, 2]
