"""A mail server that accepts or refuses messages, over a real socket.

def test_something(mail_server):
    mail_server.refuses["amina@example.com"] = 550
    ...  # send a mail
    assert mail_server.messages[0]["Subject"] == "Hello"
"""

import email
import email.policy
import socketserver
import threading
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Any

import pytest


class MailServer:
    def __init__(self) -> None:
        # Address -> code of the answer to RCPT.
        self.refuses: dict[str, int] = {}
        # What that answer says before the address.
        self.reason = "of"
        # Code of the answer to the end of DATA.
        self.data_code = 250
        self.messages: list[EmailMessage] = []
        self.connections = 0

    def __enter__(self) -> "MailServer":
        handler = type("Handler", (_Handler,), {"mail_server": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.02])
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


class _Handler(socketserver.StreamRequestHandler):
    mail_server: MailServer

    def handle(self) -> None:
        self.mail_server.connections += 1
        self._say(220, "ready")
        while line := self.rfile.readline():
            command = line.decode().strip()
            match command[:4].upper():
                case "QUIT":
                    self._say(221, "bye")
                    return
                case "RCPT":
                    address = command.partition("<")[2].partition(">")[0]
                    code = self.mail_server.refuses.get(address, 250)
                    self._say(code, f"{self.mail_server.reason} {address}")
                case "DATA":
                    self._data()
                case _:
                    self._say(250, "ok")

    def _data(self) -> None:
        self._say(354, "go on")
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b"."))
        if self.mail_server.data_code == 250:
            whole: Any = email.message_from_bytes(
                b"".join(lines), policy=email.policy.default
            )
            self.mail_server.messages.append(whole)
        self._say(self.mail_server.data_code, "done")

    def _say(self, code: int, text: str) -> None:
        self.wfile.write(f"{code} {text}\r\n".encode())


@pytest.fixture
def mail_server(settings: Any) -> Iterator[MailServer]:
    """Configure the service for this server."""
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST = "127.0.0.1"
    with MailServer() as server:
        settings.EMAIL_PORT = server.port
        yield server
