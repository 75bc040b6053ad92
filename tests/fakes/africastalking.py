"""A fake of Africa's Talking's SMS gateway, over a real socket.

def test_something(sms_gateway):
    sms_gateway.codes["+254711000111"] = 406
    ...  # send a message
    assert sms_gateway.sent == [("+254711000111", "the text")]

https://developers.africastalking.com/docs/sms/sending/bulk
"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import pytest

USERNAME, KEY = "acacia", "atsk_of_no_worth"
SENT = 101
STATUS = {100: "Processed", 101: "Sent", 102: "Queued"}


class SmsGateway:
    def __init__(self) -> None:
        # Number -> status code of its recipient.
        self.codes: dict[str, int] = {}
        # The HTTP status and body of every answer, if set.
        self.broken: tuple[int, str] | None = None
        # It takes messages and closes the connection without an answer.
        self.is_silent = False
        # The URL to which every answer redirects, if set.
        self.leads_to = ""
        # How the ids of messages begin
        self.ids = "ATXid"
        # (number, text) of each accepted message.
        self.sent: list[tuple[str, str]] = []
        self.requests: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []

    def __enter__(self) -> "SmsGateway":
        handler = type("Handler", (_Handler,), {"gateway": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.02])
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, path: str, key: str | None, form: dict[str, str]) -> Any:
        """Return the HTTP status and the body: a text, or a value for JSON."""
        self.requests.append(form)
        if self.broken:
            return self.broken
        if path != "/version1/messaging":
            return 404, "Not found"
        if (key, form["username"]) != (KEY, USERNAME):
            return 401, "The supplied authentication is invalid"
        return 201, {"SMSMessageData": self._accept(form)}

    def _accept(self, form: dict[str, str]) -> dict[str, Any]:
        if form.get("from") == "UNKNOWN":
            return {"Message": "InvalidSenderId", "Recipients": []}
        number = form["to"]
        code = self.codes.get(number, SENT)
        if code in STATUS:
            self.sent.append((number, form["message"]))
        recipient = {
            "statusCode": code,
            "number": number,
            "status": STATUS.get(code, "Failed"),
            "cost": "KES 0.8000",
            "messageId": f"{self.ids}_{len(self.sent)}" if code in STATUS else "None",
        }
        return {
            "Message": "Sent to 1/1 Total Cost: KES 0.8000",
            "Recipients": [recipient],
        }


class _Handler(BaseHTTPRequestHandler):
    gateway: SmsGateway

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        self.gateway.headers.append(dict(self.headers))
        status, answer = self.gateway.answer(
            self.path, self.headers.get("apiKey"), form
        )
        if self.gateway.is_silent:
            return
        text = answer if isinstance(answer, str) else json.dumps(answer)
        kind = "text/plain" if isinstance(answer, str) else "application/json"
        self.send_response(307 if self.gateway.leads_to else status)
        if self.gateway.leads_to:
            self.send_header("Location", self.gateway.leads_to)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def sms_gateway(settings: Any) -> Iterator[SmsGateway]:
    """Configure the service for this gateway."""
    settings.AFRICASTALKING_USERNAME, settings.AFRICASTALKING_API_KEY = USERNAME, KEY
    with SmsGateway() as gateway:
        settings.SMS_URL = gateway.url
        yield gateway
