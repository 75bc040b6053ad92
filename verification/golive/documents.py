"""Sealed files of documents, in Django's storage `documents`, which no URL serves.

Each file has a random name and its own key, which is sealed in the document's row. The
storage alone, or a file that lost its row in a crash, is unreadable.
"""

from __future__ import annotations

import logging
import os
import secrets
from base64 import b64decode, b64encode
from dataclasses import dataclass
from string import ascii_lowercase

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.core.files.base import ContentFile
from django.core.files.storage import Storage, storages
from django.http import HttpResponse

from verification.golive.inspection import JPEG, PDF, PNG
from verification.golive.models import Document

logger = logging.getLogger(__name__)
NONCE_BYTES = 12
# 150 random bits. Letters only: the log filter would mask digits as ID numbers.
NAME_LETTERS = 32
EXTENSIONS = {PDF: "pdf", JPEG: "jpg", PNG: "png"}


@dataclass(frozen=True, slots=True)
class StoredFile:
    name: str
    data_key: str


def store(content: bytes) -> StoredFile:
    """Seal and store a file. Call it outside transactions: it uses the network."""
    name = "".join(secrets.choice(ascii_lowercase) for _ in range(NAME_LETTERS))
    key = AESGCM.generate_key(256)
    nonce = os.urandom(NONCE_BYTES)
    sealed = nonce + AESGCM(key).encrypt(nonce, content, name.encode())
    saved = _storage().save(name, ContentFile(sealed))
    if saved != name:
        # Random names do not collide, so another process is writing this name.
        raise FileExistsError(saved)
    return StoredFile(name, b64encode(key).decode())


def read_content(document: Document) -> bytes:
    with _storage().open(document.file) as file:
        sealed: bytes = file.read()
    key = AESGCM(b64decode(document.data_key))
    nonce, ciphertext = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
    return key.decrypt(nonce, ciphertext, document.file.encode())


def download(document: Document, name: str) -> HttpResponse:
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


def delete_unused(name: str) -> None:
    """Delete a file that no row names. If that fails, the file left is unreadable."""
    if Document.objects.filter(file=name).exists():
        return
    try:
        _storage().delete(name)
    except Exception as e:
        logger.warning("document %s is left in the storage: %s", name, type(e).__name__)


def _storage() -> Storage:
    return storages["documents"]
