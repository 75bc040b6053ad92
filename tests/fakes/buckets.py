"""A fake of Amazon S3 over a real socket, with the calls that stored files need.

def test_something(bucket):
    settings.STORAGES = {"documents": ... "endpoint_url": bucket.url}
    bucket.objects            # path -> bytes
"""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class FakeBucket:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        # The bucket refuses deletions.
        self.keeps_all = False
        self.headers: list[dict[str, str]] = []
        handler = type("HandlerOfThis", (Handler,), {"bucket": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "FakeBucket":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bucket: FakeBucket

    def do_PUT(self) -> None:
        body = self._body()
        self.bucket.headers.append({k.lower(): v for k, v in self.headers.items()})
        self.bucket.objects[self._path] = body
        self._answer(200)

    def do_GET(self) -> None:
        found = self.bucket.objects.get(self._path)
        self._answer(404 if found is None else 200, found or b"")

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        if self.bucket.keeps_all:
            self._answer(403)
            return
        self.bucket.objects.pop(self._path, None)
        self._answer(204)

    @property
    def _path(self) -> str:
        return self.path.partition("?")[0]

    def _body(self) -> bytes:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if "aws-chunked" not in self.headers.get("Content-Encoding", ""):
            return body
        # size in hex, line end, that many bytes, line end; zero ends it.
        content = b""
        while body:
            size, _, body = body.partition(b"\r\n")
            length = int(size.partition(b";")[0], 16)
            if not length:
                break
            content, body = content + body[:length], body[length + 2 :]
        return content

    def _answer(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"x"')
        self.send_header("Last-Modified", "Sat, 21 Nov 2026 10:00:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Keep the log out of the test's output."""


@pytest.fixture
def bucket() -> Iterator[FakeBucket]:
    with FakeBucket() as fake:
        yield fake
