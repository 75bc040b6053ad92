"""A fake of Amazon S3 over a real socket, with the calls that stored files need.

def test_something(bucket):
    settings.STORAGES = {"documents": ... "endpoint_url": bucket.url}
    bucket.objects            # path -> bytes
"""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from xml.sax.saxutils import escape

import pytest
from django.test import override_settings

from verification.settings import STORAGES
from verification.settings.connections import document_storage


class FakeBucket:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        # The bucket refuses deletions.
        self.keeps_all = False
        # The bucket refuses every request, as after its credentials have ended.
        self.refuses_all = False
        self.headers: list[dict[str, str]] = []
        handler = type("HandlerOfThis", (Handler,), {"bucket": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "FakeBucket":
        threading.Thread(
            target=self._server.serve_forever, args=[0.01], daemon=True
        ).start()
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
        query = parse_qs(urlsplit(self.path).query, keep_blank_values=True)
        if "delimiter" in query:
            self._list(query["prefix"][0])
            return
        found = self.bucket.objects.get(self._path)
        self._answer(404 if found is None else 200, found or b"")

    do_HEAD = do_GET

    def do_DELETE(self) -> None:
        if self.bucket.keeps_all:
            self._answer(403)
            return
        self.bucket.objects.pop(self._path, None)
        self._answer(204)

    def _list(self, prefix: str) -> None:
        """Answer the objects right under a prefix, and the folders."""
        names = [
            path.removeprefix(f"{self._path}/")
            for path in sorted(self.bucket.objects)
            if path.startswith(f"{self._path}/{prefix}")
        ]
        rests = {name: name.removeprefix(prefix).partition("/") for name in names}
        files = [name for name, (_, slash, _) in rests.items() if not slash]
        folders = sorted({f"{prefix}{n}/" for n, slash, _ in rests.values() if slash})
        parts = [f"<Contents><Key>{escape(name)}</Key></Contents>" for name in files]
        parts += [
            f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>"
            for name in folders
        ]
        text = (
            f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
            f"<IsTruncated>false</IsTruncated>{''.join(parts)}</ListBucketResult>"
        )
        self._answer(200, text.encode())

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
        if self.bucket.refuses_all:
            status, body = 403, b""
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


@pytest.fixture
def in_bucket(
    bucket: FakeBucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[FakeBucket]:
    """Configure the storage of documents by environment variables."""
    for name, value in {
        "DOCUMENTS_BUCKET": "kyb",
        "DOCUMENTS_S3_URL": bucket.url,
        "DOCUMENTS_S3_REGION": "af-south-1",
        "DOCUMENTS_S3_ADDRESSING": "path",
        "DOCUMENTS_S3_ACCESS_KEY": "AKIATEST",
        "DOCUMENTS_S3_SECRET_KEY": "of no worth",
    }.items():
        monkeypatch.setenv(name, value)
    kept = {**STORAGES, "documents": document_storage(tmp_path)}
    with override_settings(STORAGES=kept):
        yield bucket
