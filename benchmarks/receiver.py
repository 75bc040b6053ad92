"""A TLS receiver that does almost nothing, so that the bench measures the sender.

python -m benchmarks.receiver PORT CERTIFICATE FILE

It answers 200 and keeps the connection; it never answers a path that starts with /hang.
It appends the webhook-id and the time of each request's first byte to FILE.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import sys
import time
from typing import TextIO

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
ID = re.compile(rb"\r\nwebhook-id: *([^\r]+)", re.IGNORECASE)


class Connection(asyncio.Protocol):
    def __init__(self, log: TextIO) -> None:
        self._log, self._read, self._first = log, b"", 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._first = self._first or time.time()
        self._read += data
        head, found, body = self._read.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if not found or len(body) < int(length[1] if length else 0):
            return
        if event_id := ID.search(head):
            self._log.write(f"{event_id[1].decode()} {self._first}\n")
            self._log.flush()
        self._read, self._first = b"", 0.0
        if not head.startswith(b"POST /hang"):
            self._transport.write(ANSWER)


async def main(port: int, certificate: str, file: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with open(file, "a") as log:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(
            lambda: Connection(log), "127.0.0.1", port, ssl=context, backlog=1000
        )
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
