"""The operator's virus scanner: ClamAV's daemon, if the setting CLAMAV names it."""

import socket
import time
from contextlib import closing

from django.conf import settings

SCAN_SECONDS = 15
SCAN_CHUNK_BYTES = 64 * 1024
# Bytes of an answer: one line that ends with a NUL.
MAX_SCAN_ANSWER_BYTES = 4096


class ScannerUnavailable(Exception):
    """The scanner gave no answer about the file."""


def is_infected(content: bytes) -> bool:
    """Return whether ClamAV finds malware; False if the setting CLAMAV is empty.

    Sends its daemon the command INSTREAM. Raises ScannerUnavailable.
    https://docs.clamav.net/manual/Usage/Scanning.html#clamd
    """
    if not settings.CLAMAV:
        return False
    end = time.monotonic() + SCAN_SECONDS
    try:
        with closing(socket.create_connection(settings.CLAMAV, SCAN_SECONDS)) as daemon:
            _send_to_scanner(daemon, b"zINSTREAM\0", end)
            for start in range(0, len(content), SCAN_CHUNK_BYTES):
                piece = content[start : start + SCAN_CHUNK_BYTES]
                _send_to_scanner(daemon, len(piece).to_bytes(4) + piece, end)
            _send_to_scanner(daemon, bytes(4), end)
            answer = _read_scan_answer(daemon, end)
    except OSError:
        raise ScannerUnavailable from None
    if answer.endswith(" FOUND"):
        return True
    if answer.endswith(" OK"):
        return False
    raise ScannerUnavailable


def _send_to_scanner(daemon: socket.socket, piece: bytes, end: float) -> None:
    daemon.settimeout(_remaining_seconds(end))
    daemon.sendall(piece)


def _remaining_seconds(end: float) -> float:
    remaining = end - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining


def _read_scan_answer(daemon: socket.socket, end: float) -> str:
    answer = b""
    while not answer.endswith(b"\0") and len(answer) < MAX_SCAN_ANSWER_BYTES:
        daemon.settimeout(_remaining_seconds(end))
        piece = daemon.recv(MAX_SCAN_ANSWER_BYTES)
        if not piece:
            break
        answer += piece
    return answer.rstrip(b"\0").decode(errors="replace")
