"""Storage of documents, which only the service can read.

Documents are shown to the operator's virus scanner before they are kept.
"""

import os
import socket
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from tests.fakes.buckets import bucket as bucket
from tests.fakes.buckets import in_bucket as in_bucket
from tests.files.samples import pdf, picture
from tests.golive.applications import draft
from verification.files import scanner, storage
from verification.files.inspection import (
    Busy,
    Fault,
    Unacceptable,
    inspect,
    refuse_infected,
)
from verification.files.storage import (
    PARTIAL,
    FileMissing,
    delete_unused,
    read_content,
    store,
)
from verification.golive.models import Document
from verification.settings.connections import scanner_address


def document(stored) -> Document:
    return Document(file=stored.name, data_key=stored.data_key)


def test_bucket_holds_only_sealed_files(in_bucket, db):
    stored = store(pdf())

    ((path, sealed),) = in_bucket.objects.items()
    assert path == f"/kyb/{stored.name}"
    assert b"%PDF" not in sealed
    assert in_bucket.headers[0]["x-amz-acl"] == "private"
    assert read_content(document(stored)) == pdf()
    delete_unused(stored.name, Document)
    assert in_bucket.objects == {}


def test_failed_deletion_does_not_stop_the_member(in_bucket, db, caplog):
    stored = store(pdf())
    in_bucket.keeps_all = True

    delete_unused(stored.name, Document)

    assert f"document {stored.name} is left in the storage" in caplog.text


def test_file_stays_while_a_row_names_it(owner):
    found = draft(owner.member).documents.get(kind="CR12")

    delete_unused(found.file, Document)

    assert read_content(found) == pdf()


def test_swapped_file_cannot_be_read(owner):
    one, two = draft(owner.member).documents.order_by("id")[:2]
    one.file = two.file

    with pytest.raises(FileMissing):
        read_content(one)


@pytest.mark.parametrize("length", [0, 5, 100])
def test_file_that_a_power_loss_has_cut_is_missing(tmp_path, length):
    found = document(store(pdf()))
    os.truncate(tmp_path / "documents" / found.file, length)

    with pytest.raises(FileMissing):
        read_content(found)


def test_stored_file_is_on_the_disk(monkeypatch):
    synced: list[Path] = []
    monkeypatch.setattr(storage, "sync", lambda *paths: synced.extend(paths))

    store(pdf())

    assert [path.suffix for path in synced] == [PARTIAL, ""]


def test_same_file_is_sealed_differently_each_time(db):
    one, two = store(pdf()), store(pdf())

    assert one.name != two.name
    assert one.data_key != two.data_key


# https://www.eicar.org/download-anti-malware-testfile/
EICAR = rb"X5O!P%@AP[4\PZX54(P^)7CC)7}$EICAR-STANDARD-ANTIVIRUS-TEST-FILE!$H+H*"


class Daemon(socketserver.StreamRequestHandler):
    """A daemon that speaks INSTREAM like clamd and knows one signature."""

    server: Any

    def handle(self) -> None:
        assert self.rfile.read(10) == b"zINSTREAM\0"
        content = b""
        while size := int.from_bytes(self.rfile.read(4)):
            content += self.rfile.read(size)
        self.server.seen.append(content)
        answer = b"Eicar-Signature FOUND" if EICAR in content else b"OK"
        self.wfile.write(self.server.answer or b"stream: " + answer + b"\0")


@pytest.fixture
def clamav(settings: Any) -> Iterator[Any]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Daemon) as server:
        server.seen, server.answer = [], b""
        threading.Thread(target=server.serve_forever, args=[0.005]).start()
        settings.CLAMAV = server.server_address
        yield server
        server.shutdown()


def test_infected_document_is_refused(clamav: Any):
    with pytest.raises(Unacceptable) as refused:
        inspect("id.png", "image/png", picture("PNG") + EICAR)

    assert refused.value.fault == Fault.INFECTED


def test_scanner_gets_the_original_file(clamav: Any):
    sent = picture("PNG", mode="RGBA")

    assert inspect("id.png", "image/png", sent).content != sent

    assert clamav.seen == [sent]


@pytest.mark.parametrize(
    "answer", [b"INSTREAM size limit exceeded. ERROR\0", b"stream: ", b"x" * 5000]
)
def test_document_is_refused_without_an_answer(clamav: Any, answer: bytes):
    clamav.answer = answer

    with pytest.raises(Busy):
        refuse_infected(pdf())


def test_document_is_refused_while_the_scanner_is_down(settings: Any):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        settings.CLAMAV = closed.getsockname()

    with pytest.raises(Busy):
        refuse_infected(pdf())


def test_hanging_scanner_times_out(monkeypatch: Any, settings: Any):
    monkeypatch.setattr(scanner, "SCAN_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.CLAMAV = silent.getsockname()

        with pytest.raises(Busy):
            refuse_infected(pdf())


@pytest.mark.parametrize("text", ["clamav", "clamav:x", ":3310", "a/b:1", "h:99999"])
def test_invalid_scanner_address_is_refused(monkeypatch: Any, text: str):
    monkeypatch.setenv("CLAMAV", text)

    with pytest.raises(ImproperlyConfigured, match="host:port"):
        scanner_address()


def test_scanner_address_may_be_ipv6(monkeypatch: Any):
    monkeypatch.setenv("CLAMAV", "[::1]:3310")

    assert scanner_address() == ("::1", 3310)
