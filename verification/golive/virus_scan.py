"""Asks ClamAV's daemon about an uploaded file, where CLAMAV names one.

The command INSTREAM: https://docs.clamav.net/manual/Usage/Scanning.html#clamd
"""

from __future__ import annotations

import socket
from contextlib import closing

from django.conf import settings

SECONDS = 15
CHUNK = 64 * 1024
# An answer is one line that ends with a NUL.
MOST_ANSWER = 4096


class ScannerAway(Exception):
    """The scanner gave no answer about the file."""


def is_infected(content: bytes) -> bool:
    """Whether the scanner knows something harmful in the file; False without a scanner.

    Raises ScannerAway.
    """
    if not settings.CLAMAV:
        return False
    host, _, port = settings.CLAMAV.rpartition(":")
    try:
        with closing(socket.create_connection((host, int(port)), SECONDS)) as daemon:
            daemon.sendall(b"zINSTREAM\0")
            for start in range(0, len(content), CHUNK):
                piece = content[start : start + CHUNK]
                daemon.sendall(len(piece).to_bytes(4) + piece)
            daemon.sendall(bytes(4))
            answer = _answer(daemon)
    except OSError:
        raise ScannerAway from None
    if answer.endswith(" FOUND"):
        return True
    if answer.endswith(" OK"):
        return False
    raise ScannerAway


def _answer(daemon: socket.socket) -> str:
    answer = b""
    while not answer.endswith(b"\0") and len(answer) < MOST_ANSWER:
        piece = daemon.recv(MOST_ANSWER)
        if not piece:
            break
        answer += piece
    return answer.rstrip(b"\0").decode(errors="replace")
