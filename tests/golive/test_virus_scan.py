"""Documents are shown to the operator's virus scanner before they are kept."""

import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from environs import Env

from tests.golive.files import pdf, picture
from verification.golive import virus_scan
from verification.golive.inspection import Busy, Fault, Unacceptable, inspect
from verification.settings.documents import scanner_address

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
def scanner(settings: Any) -> Iterator[Any]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Daemon) as server:
        server.seen, server.answer = [], b""
        threading.Thread(target=server.serve_forever, args=[0.02]).start()
        settings.CLAMAV = server.server_address
        yield server
        server.shutdown()


def test_infected_document_is_refused(scanner: Any):
    with pytest.raises(Unacceptable) as refused:
        inspect("id.png", "image/png", picture("PNG") + EICAR)

    assert refused.value.fault == Fault.INFECTED


def test_scanner_gets_the_original_file(scanner: Any):
    sent = picture("PNG", mode="RGBA")

    assert inspect("id.png", "image/png", sent).content != sent

    assert scanner.seen == [sent]


@pytest.mark.parametrize(
    "answer", [b"INSTREAM size limit exceeded. ERROR\0", b"stream: ", b"x" * 5000]
)
def test_document_is_refused_without_an_answer(scanner: Any, answer: bytes):
    scanner.answer = answer

    with pytest.raises(Busy):
        inspect("cr12.pdf", "application/pdf", pdf())


def test_document_is_refused_while_the_scanner_is_down(settings: Any):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        settings.CLAMAV = closed.getsockname()

    with pytest.raises(Busy):
        inspect("cr12.pdf", "application/pdf", pdf())


def test_hanging_scanner_times_out(monkeypatch: Any, settings: Any):
    monkeypatch.setattr(virus_scan, "SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings.CLAMAV = silent.getsockname()
        begun = time.monotonic()

        with pytest.raises(Busy):
            inspect("cr12.pdf", "application/pdf", pdf())

        assert time.monotonic() - begun < 10


@pytest.mark.parametrize("text", ["clamav", "clamav:x", ":3310", "a/b:1", "h:99999"])
def test_invalid_scanner_address_is_refused(monkeypatch: Any, text: str):
    monkeypatch.setenv("CLAMAV", text)

    with pytest.raises(ImproperlyConfigured, match="host:port"):
        scanner_address(Env())


def test_scanner_address_may_be_ipv6(monkeypatch: Any):
    monkeypatch.setenv("CLAMAV", "[::1]:3310")

    assert scanner_address(Env()) == ("::1", 3310)
