"""What an uploaded file is, by its content: a PDF, a JPEG or a PNG, or refused.

    found = inspect("cr12.pdf", "application/pdf", content)     # or raises Unacceptable

Name and declared type must agree with the content. What comes out is what is kept:
pictures are drawn anew, which leaves behind where and by whom they were taken, and
anything hidden behind them.

A process of its own reads the file (`inspector`), as a file of a few kilobytes may need
hundreds of megabytes and half a minute. The machine looks into one file at a time.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum, auto
from pathlib import Path, PurePosixPath
from threading import BoundedSemaphore, Event, Timer

MAX_BYTES = 10 * 1024 * 1024
# A picture of MOST_PIXELS needs 500 MiB, libraries included.
MEMORY_BYTES = 768 * 1024 * 1024
CPU_SECONDS = 8
# On a busy machine a process gets its CPU seconds later.
WALL_SECONDS = 20
MAX_OUTPUT = 32 * 1024 * 1024
WAIT_SECONDS = 3.0
# All processes of the service on this machine can lock this file; nothing is written.
LOCK_FILE = Path(__file__)
# The inspector knows no secret of the service.
INHERITED_ENVIRONMENT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")

PDF, JPEG, PNG = "application/pdf", "image/jpeg", "image/png"
SIGNATURES = {b"%PDF-": PDF, b"\xff\xd8\xff": JPEG, b"\x89PNG\r\n\x1a\n": PNG}
TYPE_BY_EXTENSION = {".pdf": PDF, ".jpg": JPEG, ".jpeg": JPEG, ".png": PNG}
# What browsers say where they do not know.
UNDECLARED = {"", "application/octet-stream"}
# Threads of this process that look into a file or wait to: the others serve requests.
_slots = BoundedSemaphore(2)


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
    # The operator's scanner knows something harmful in it.
    INFECTED = auto()


class Unacceptable(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


class Busy(Exception):
    """Other files are looked into, the machine is too slow, or the scanner is away."""


@dataclass(frozen=True, slots=True)
class InspectedFile:
    content_type: str
    content: bytes


def inspect(name: str, declared: str, content: bytes) -> InspectedFile:
    """Raises Unacceptable and Busy."""
    if not content:
        raise Unacceptable(Fault.EMPTY)
    if len(content) > MAX_BYTES:
        raise Unacceptable(Fault.TOO_LARGE)
    found = _detect_type(content)
    by_name = TYPE_BY_EXTENSION.get(PurePosixPath(name).suffix.lower())
    declared = declared.partition(";")[0].strip().lower()
    if by_name != found or declared not in {found, *UNDECLARED}:
        raise Unacceptable(Fault.LIES)
    with _inspection_slot():
        with machine_lock():
            kept = _run_inspector(found, content)
        _refuse_infected(content)
    return InspectedFile(found, kept)


def _refuse_infected(content: bytes) -> None:
    # Imported here: the inspector has no settings.
    from verification.golive.virus_scan import ScannerUnavailable, is_infected

    try:
        if is_infected(content):
            raise Unacceptable(Fault.INFECTED)
    except ScannerUnavailable:
        raise Busy from None


@contextmanager
def _inspection_slot() -> Iterator[None]:
    """Be one of the threads that look into files. Raises Busy if there are enough."""
    if not _slots.acquire(blocking=False):
        raise Busy
    try:
        yield
    finally:
        _slots.release()


@contextmanager
def machine_lock() -> Iterator[None]:
    """Hold this machine's turn to look into a file. Raises Busy after WAIT_SECONDS.

    A lock on a file needs no database, and ends with its process.
    """
    with LOCK_FILE.open("rb") as lock:
        deadline = time.monotonic() + WAIT_SECONDS
        while not _try_lock(lock.fileno()):
            if time.monotonic() > deadline:
                raise Busy
            time.sleep(0.05)
        yield


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _run_inspector(found: str, content: bytes) -> bytes:
    is_late = Event()
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "verification.golive.inspector", found],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # What libraries tell of a file may quote it.
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[2],
        env={n: os.environ[n] for n in INHERITED_ENVIRONMENT if n in os.environ},
    ) as inspector:
        limit = Timer(WALL_SECONDS, _kill_late, [inspector, is_late])
        limit.start()
        try:
            told, kept = _exchange(inspector, content)
            inspector.wait()
        finally:
            limit.cancel()
            inspector.kill()
    if is_late.is_set():
        raise Busy
    _check_exit_code(inspector.returncode)
    if told:
        raise Unacceptable(Fault(told))
    # PDFs are kept byte by byte.
    return content if found == PDF else kept


def _kill_late(inspector: subprocess.Popen[bytes], is_late: Event) -> None:
    is_late.set()
    inspector.kill()


def _exchange(inspector: subprocess.Popen[bytes], content: bytes) -> tuple[str, bytes]:
    """Send the file; the fault, or an empty one, and the content that is kept."""
    assert inspector.stdin  # noqa: S101
    assert inspector.stdout  # noqa: S101
    # It reads all before it answers, unless it ends early.
    with suppress(BrokenPipeError), inspector.stdin as file:
        file.write(content)
    told, _, kept = inspector.stdout.read(MAX_OUTPUT + 1).partition(b"\n")
    if len(told) + len(kept) >= MAX_OUTPUT:
        raise Unacceptable(Fault.BOMB)
    return told.decode(), kept


def _check_exit_code(code: int) -> None:
    """Raise Unacceptable if a limit or the file itself ended the inspector."""
    # A second limit, and the kernel short of memory, end it by SIGKILL.
    if code in {-signal.SIGXCPU, -signal.SIGKILL}:
        raise Unacceptable(Fault.BOMB)
    if code < 0:
        raise Unacceptable(Fault.DAMAGED)
    if code:
        raise RuntimeError(f"the inspector of documents ended with {code}")


def _detect_type(content: bytes) -> str:
    for signature, content_type in SIGNATURES.items():
        if content.startswith(signature):
            return content_type
    raise Unacceptable(Fault.UNKNOWN)
