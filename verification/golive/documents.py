"""Where documents are kept: sealed, in Django's storage `documents`, and never served.

Each file has a random name and a key of its own, which is sealed in the row that names
it. So a file without a row, as a crash between the two leaves it, is nothing but noise,
and what holds the storage alone can read none of them.
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
# 150 random bits. Digits would be taken out of logs, as numbers of people are.
NAME_LETTERS = 32
EXTENSIONS = {PDF: "pdf", JPEG: "jpg", PNG: "png"}


@dataclass(frozen=True, slots=True)
class StoredFile:
    name: str
    data_key: str


def store(content: bytes) -> StoredFile:
    """Call it outside of transactions: the storage may be far away."""
    name = "".join(secrets.choice(ascii_lowercase) for _ in range(NAME_LETTERS))
    key = AESGCM.generate_key(256)
    nonce = os.urandom(NONCE_BYTES)
    sealed = nonce + AESGCM(key).encrypt(nonce, content, name.encode())
    saved = _storage().save(name, ContentFile(sealed))
    if saved != name:
        # Such a name is never there already; who has them twice reads the wrong.
        raise FileExistsError(saved)
    return StoredFile(name, b64encode(key).decode())


def read_content(document: Document) -> bytes:
    with _storage().open(document.file) as file:
        sealed: bytes = file.read()
    key = AESGCM(b64decode(document.data_key))
    nonce, ciphertext = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
    return key.decrypt(nonce, ciphertext, document.file.encode())


def download(document: Document, name: str) -> HttpResponse:
    """A file to be kept, which no browser opens in our place; `name` has no ending."""
    ending = EXTENSIONS[document.content_type]
    return HttpResponse(
        read_content(document),
        content_type=document.content_type,
        headers={
            "Content-Disposition": f'attachment; filename="{name}.{ending}"',
            "Content-Security-Policy": "sandbox; default-src 'none'",
        },
    )


def delete_unused(name: str) -> None:
    """Unless a row names it. What stays because the storage is away is unreadable."""
    if Document.objects.filter(file=name).exists():
        return
    try:
        _storage().delete(name)
    except Exception as e:
        logger.warning("document %s is left in the storage: %s", name, type(e).__name__)


def _storage() -> Storage:
    return storages["documents"]
