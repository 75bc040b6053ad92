"""Documents that people upload: the scan for viruses, and the sealed storage.

Django's storage `documents` holds the files, and no URL serves it. Each file has a
random name and its own key, which is sealed in the document's row. The storage alone,
or a file that lost its row in a crash, is unreadable.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import time
from base64 import b64decode, b64encode
from contextlib import closing
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any, Protocol

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import Storage, storages
from django.db.models import Model
from django.http import HttpResponse

from verification.golive.models import Document

logger = logging.getLogger(__name__)
NONCE_BYTES = 12
# 150 random bits. Letters only: the log filter would mask digits as ID numbers.
NAME_LETTERS = 32
EXTENSIONS: dict[str, str] = {
    Document.ContentType.PDF: "pdf",
    Document.ContentType.JPEG: "jpg",
    Document.ContentType.PNG: "png",
}


@dataclass(frozen=True, slots=True)
class StoredFile:
    name: str
    data_key: str


class StorageUnavailable(Exception):
    """The storage did not take the file: it is full, or cannot be reached."""


def store(content: bytes) -> StoredFile:
    """Seal and store a file. Call it outside transactions: it uses the network.

    Raises StorageUnavailable, and leaves no part of the file then.
    """
    name = "".join(secrets.choice(ascii_lowercase) for _ in range(NAME_LETTERS))
    key = AESGCM.generate_key(256)
    nonce = os.urandom(NONCE_BYTES)
    sealed = nonce + AESGCM(key).encrypt(nonce, content, name.encode())
    try:
        saved = _storage().save(name, ContentFile(sealed))
    except Exception as e:
        # Such as "No space left on device".
        why = getattr(e, "strerror", None) or type(e).__name__
        logger.error("a document was not stored: %s", why)
        delete_file(name)
        raise StorageUnavailable from e
    if saved != name:
        # Random names do not collide, so another process is writing this name.
        raise FileExistsError(saved)
    return StoredFile(name, b64encode(key).decode())


class SealedDocument(Protocol):
    """The row of a file: of an application to go live, or of a correction."""

    content_type: str
    file: str
    # For the type checker: a sealed field has any type.
    data_key: Any


def read_content(document: SealedDocument) -> bytes:
    with _storage().open(document.file) as file:
        sealed: bytes = file.read()
    key = AESGCM(b64decode(document.data_key))
    nonce, ciphertext = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
    return key.decrypt(nonce, ciphertext, document.file.encode())


def download(document: SealedDocument, name: str) -> HttpResponse:
    """Return a download that browsers do not open here. `name` has no extension."""
    extension = EXTENSIONS[document.content_type]
    return HttpResponse(
        read_content(document),
        content_type=document.content_type,
        headers={
            "Content-Disposition": f'attachment; filename="{name}.{extension}"',
            "Content-Security-Policy": "sandbox; default-src 'none'",
        },
    )


def delete_unused(name: str, model: type[Model] = Document) -> None:
    """Delete a file that no row names. If that fails, the file left is unreadable."""
    if not model._default_manager.filter(file=name).exists():
        delete_file(name)


def delete_file(name: str) -> None:
    try:
        _storage().delete(name)
    except Exception as e:
        logger.warning("document %s is left in the storage: %s", name, type(e).__name__)


def _storage() -> Storage:
    return storages["documents"]


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
