"""What an uploaded file is, by its content: a PDF, a JPEG or a PNG, or refused.

    found = inspect("cr12.pdf", "application/pdf", content)     # or raises Unacceptable

Name and declared type must agree with the content. What comes out is what is kept:
pictures are drawn anew, which leaves behind where and by whom they were taken, and
anything hidden behind them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, auto
from pathlib import PurePosixPath
from threading import Lock

MOST_BYTES = 10 * 1024 * 1024

PDF, JPEG, PNG = "application/pdf", "image/jpeg", "image/png"
SIGNATURES = {b"%PDF-": PDF, b"\xff\xd8\xff": JPEG, b"\x89PNG\r\n\x1a\n": PNG}
ENDINGS = {".pdf": PDF, ".jpg": JPEG, ".jpeg": JPEG, ".png": PNG}
# What browsers say where they do not know.
UNDECLARED = {"", "application/octet-stream"}
# A file of a few kilobytes may be hundreds of megabytes while it is looked into, so a
# process looks into one at a time, however many are sent together.
ONE_AT_A_TIME = Lock()


class Fault(StrEnum):
    EMPTY = auto()
    TOO_LARGE = auto()
    # Nothing that is taken.
    UNKNOWN = auto()
    # Another thing than its name or its declared type says.
    LIES = auto()
    # It begins as one of them, and cannot be read.
    DAMAGED = auto()
    # Small, and huge once it is opened.
    BOMB = auto()
    # A PDF that runs something, carries files, or calls elsewhere.
    ACTIVE = auto()
    ENCRYPTED = auto()
    TOO_LONG = auto()


class Unacceptable(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Inspected:
    content_type: str
    content: bytes


def inspect(name: str, declared: str, content: bytes) -> Inspected:
    """Raises Unacceptable."""
    if not content:
        raise Unacceptable(Fault.EMPTY)
    if len(content) > MOST_BYTES:
        raise Unacceptable(Fault.TOO_LARGE)
    found = _by_signature(content)
    by_name = ENDINGS.get(PurePosixPath(name).suffix.lower())
    declared = declared.partition(";")[0].strip().lower()
    if by_name != found or declared not in {found, *UNDECLARED}:
        raise Unacceptable(Fault.LIES)
    with ONE_AT_A_TIME:
        return Inspected(found, _looked_into(found, content))


def _looked_into(found: str, content: bytes) -> bytes:
    # Imported where they are needed: most processes never look into a file.
    from verification.golive.pdfs import harmless
    from verification.golive.pictures import drawn_anew

    if found == PDF:
        return harmless(content)
    return drawn_anew(content, "JPEG" if found == JPEG else "PNG")


def _by_signature(content: bytes) -> str:
    for signature, content_type in SIGNATURES.items():
        if content.startswith(signature):
            return content_type
    raise Unacceptable(Fault.UNKNOWN)
