"""The sealed storage of uploaded files.

Django's storage `documents` holds the files, and no URL serves it. Each file has a
random name and its own key, which is sealed in the document's row. The storage alone,
or a file that lost its row in a crash, is unreadable.
"""

import logging
import os
import secrets
import tempfile
from base64 import b64decode, b64encode
from dataclasses import dataclass
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.core.files.base import ContentFile
from django.core.files.storage import Storage, storages
from django.db.models import Model
from django.http import HttpResponse

from verification.files.inspection import JPEG, PDF, PNG

logger = logging.getLogger(__name__)
NONCE_BYTES = 12
# The end of the name of a file that is not complete
PARTIAL = ".partial"
# 150 random bits. Letters only: the log filter would mask digits as ID numbers.
NAME_LETTERS = 32
EXTENSIONS = {PDF: "pdf", JPEG: "jpg", PNG: "png"}


@dataclass(frozen=True, slots=True)
class StoredFile:
    name: str
    data_key: str


class StorageUnavailable(Exception):
    """The storage did not take the file: it is full, or cannot be reached."""


class FileMissing(Exception):
    """The storage lacks the file, as after a restore of an older backup, or a part."""


def store(content: bytes) -> StoredFile:
    """Seal a file and store it on the disk. Call it outside transactions: it waits.

    Raises StorageUnavailable, and leaves no part of the file then.
    """
    name = "".join(secrets.choice(ascii_lowercase) for _ in range(NAME_LETTERS))
    key = AESGCM.generate_key(256)
    nonce = os.urandom(NONCE_BYTES)
    sealed = nonce + AESGCM(key).encrypt(nonce, content, name.encode())
    try:
        save_whole(_storage(), name, sealed)
    except Exception as e:
        # Such as "No space left on device".
        why = getattr(e, "strerror", None) or type(e).__name__
        logger.error("a document was not stored: %s", why)
        delete_file(name)
        raise StorageUnavailable from e
    return StoredFile(name, b64encode(key).decode())


class SealedDocument(Protocol):
    """The row of a file: of an application to go live, or of a correction."""

    content_type: str
    file: str
    # For the type checker: a sealed field has any type.
    data_key: Any


def read_content(document: SealedDocument) -> bytes:
    """Return the content of a stored file. Raises FileMissing, also if it is cut."""
    try:
        with _storage().open(document.file) as file:
            sealed: bytes = file.read()
    except FileNotFoundError as e:
        logger.error("document %s is missing in the storage", document.file)
        raise FileMissing from e
    key = AESGCM(b64decode(document.data_key))
    nonce, ciphertext = sealed[:NONCE_BYTES], sealed[NONCE_BYTES:]
    try:
        return key.decrypt(nonce, ciphertext, document.file.encode())
    except (InvalidTag, ValueError) as e:
        # As after a power loss, or of another row
        logger.error("document %s is damaged in the storage", document.file)
        raise FileMissing from e


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


def delete_unused(name: str, model: type[Model]) -> None:
    """Delete a file that no row names. If that fails, the file left is unreadable."""
    if not model._default_manager.filter(file=name).exists():
        delete_file(name)


def delete_file(name: str) -> None:
    try:
        _storage().delete(name)
    except Exception as e:
        logger.warning("document %s is left in the storage: %s", name, type(e).__name__)


def save_whole(storage: Storage, name: str, content: bytes) -> None:
    """Save the file as a whole, or not at all, and replace one of its name.

    Returns when the file is on the disk. A killed process leaves a file whose name ends
    with PARTIAL.
    """
    try:
        path, root = Path(storage.path(name)), Path(storage.path(""))
    except NotImplementedError:
        # Storages without paths raise this; a bucket has no halves of files.
        storage.save(name, ContentFile(content))
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, aside = tempfile.mkstemp(PARTIAL, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        sync(Path(aside))
        os.replace(aside, path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise
    # The names of the file and of new folders
    sync(*(folder for folder in path.parents if folder.is_relative_to(root)))


def sync(*paths: Path) -> None:
    """Return when these files and folders are on the disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _storage() -> Storage:
    return storages["documents"]
