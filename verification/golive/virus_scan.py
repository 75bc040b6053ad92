"""Scan uploaded files with ClamAV's daemon, if the setting CLAMAV names one.

The command INSTREAM: https://docs.clamav.net/manual/Usage/Scanning.html#clamd
"""

from __future__ import annotations

import socket
import time
from contextlib import closing

from django.conf import settings

SECONDS = 15
CHUNK = 64 * 1024
# Bytes of an answer: one line that ends with a NUL.
MAX_ANSWER = 4096


class ScannerUnavailable(Exception):
    """The scanner gave no answer about the file."""


def is_infected(content: bytes) -> bool:
    """Return whether the scanner finds malware; False if no scanner is set.

    Raises ScannerUnavailable.
    """
    if not settings.CLAMAV:
        return False
    end = time.monotonic() + SECONDS
    try:
        with closing(socket.create_connection(settings.CLAMAV, SECONDS)) as daemon:
            _send(daemon, b"zINSTREAM\0", end)
            for start in range(0, len(content), CHUNK):
                piece = content[start : start + CHUNK]
                _send(daemon, len(piece).to_bytes(4) + piece, end)
            _send(daemon, bytes(4), end)
            answer = _answer(daemon, end)
    except OSError:
        raise ScannerUnavailable from None
    if answer.endswith(" FOUND"):
        return True
    if answer.endswith(" OK"):
        return False
    raise ScannerUnavailable


def _send(daemon: socket.socket, piece: bytes, end: float) -> None:
    daemon.settimeout(_remaining_seconds(end))
    daemon.sendall(piece)


def _remaining_seconds(end: float) -> float:
    remaining = end - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining


def _answer(daemon: socket.socket, end: float) -> str:
    answer = b""
    while not answer.endswith(b"\0") and len(answer) < MAX_ANSWER:
        daemon.settimeout(_remaining_seconds(end))
        piece = daemon.recv(MAX_ANSWER)
        if not piece:
            break
        answer += piece
    return answer.rstrip(b"\0").decode(errors="replace")
