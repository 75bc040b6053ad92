"""Inspection of uploaded files: PDF, JPEG and PNG pass, others are refused.

    file = inspect("cr12.pdf", "application/pdf", content)     # or raises Unacceptable
    logo = inspect_logo("logo.png", "image/png", content)

The extension and the declared type have to agree with the content. Pictures are redrawn
without metadata and hidden data.

A separate process reads the file (`inspector`), because a few kilobytes can unpack to
hundreds of megabytes. A machine runs each `Inspector` for one file at a time. That of
workbooks (`batches.workbooks`) delays no document, and that of newcomers no client.
"""

import fcntl
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum, auto
from pathlib import Path, PurePosixPath
from threading import BoundedSemaphore, Event, Timer

MAX_BYTES = 10 * 1024 * 1024
MAX_LOGO_BYTES = 1024 * 1024
# After the type of a logo, as the inspector's argument
AS_LOGO = ";logo"
# A picture of MAX_PIXELS needs 500 MiB, libraries included.
MEMORY_BYTES = 768 * 1024 * 1024
CPU_SECONDS = 8
# Longer than CPU_SECONDS, for a busy machine.
WALL_SECONDS = 20
MAX_OUTPUT = 32 * 1024 * 1024
WAIT_SECONDS = 3.0
ROOT = Path(__file__).parents[2]
# The inspector must not get the service's secrets from the environment.
INHERITED_ENVIRONMENT = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH")

PDF, JPEG, PNG = "application/pdf", "image/jpeg", "image/png"
SIGNATURES = {b"%PDF-": PDF, b"\xff\xd8\xff": JPEG, b"\x89PNG\r\n\x1a\n": PNG}
TYPE_BY_EXTENSION = {".pdf": PDF, ".jpg": JPEG, ".jpeg": JPEG, ".png": PNG}
# Content types of browsers that do not know the type.
UNDECLARED = {"", "application/octet-stream"}


class Fault(StrEnum):
    EMPTY = auto()
    TOO_LARGE = auto()
    # No type that the service accepts.
    UNKNOWN = auto()
    # The extension or the declared type is wrong.
    LIES = auto()
    # The signature is right and the content unreadable.
    DAMAGED = auto()
    # Unpacking needs too much memory or time.
    BOMB = auto()
    # A PDF that runs code, embeds files, or opens URLs or other files.
    ACTIVE = auto()
    ENCRYPTED = auto()
    TOO_LONG = auto()
    # The operator's virus scanner found malware.
    INFECTED = auto()


class Unacceptable(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.value)
        self.fault = fault


class Busy(Exception):
    """Other inspections run, the machine is slow, or the scanner is down."""


@dataclass(frozen=True, slots=True)
class InspectedFile:
    content_type: str
    content: bytes


def inspect(
    name: str, declared: str, content: bytes, *, is_live: bool = True
) -> InspectedFile:
    """Check a file and return what to store. Raises Unacceptable and Busy.

    `is_live` says whether the workspace is live that the file is for.
    """
    content_type = _check_type(name, declared, content, MAX_BYTES)
    clean = (DOCUMENTS if is_live else NEWCOMERS).run(content_type, content)
    # A PDF is stored unchanged, with its signatures.
    return InspectedFile(content_type, content if content_type == PDF else clean)


def inspect_logo(
    name: str, declared: str, content: bytes, *, is_live: bool = True
) -> bytes:
    """Check a PNG or JPEG, and return a small PNG. Raises Unacceptable and Busy."""
    content_type = _check_type(name, declared, content, MAX_LOGO_BYTES)
    if content_type == PDF:
        raise Unacceptable(Fault.UNKNOWN)
    return (DOCUMENTS if is_live else NEWCOMERS).run(content_type + AS_LOGO, content)


def _check_type(name: str, declared: str, content: bytes, limit: int) -> str:
    """Return the type that content, extension and declared type agree on."""
    if not content:
        raise Unacceptable(Fault.EMPTY)
    if len(content) > limit:
        raise Unacceptable(Fault.TOO_LARGE)
    content_type = _detect_type(content)
    by_name = TYPE_BY_EXTENSION.get(PurePosixPath(name).suffix.lower())
    declared = declared.partition(";")[0].strip().lower()
    if by_name != content_type or declared not in {content_type, *UNDECLARED}:
        raise Unacceptable(Fault.LIES)
    return content_type


class Inspector:
    """A process with limits that reads one file at a time on this machine."""

    def __init__(self, module: str, locked: str = "") -> None:
        # It calls `answer_within_limits`.
        self.module = module
        # At most two threads of this process inspect a file or wait for that.
        self._slots = BoundedSemaphore(2)
        # Every process on this machine can lock this file. Nothing writes to it.
        path = (locked or module).replace(".", "/")
        self.lock_file = (ROOT / path).with_suffix(".py")

    def run(self, kind: str, content: bytes) -> bytes:
        """Return what the process makes of the file. Raises Unacceptable and Busy."""
        if not self._slots.acquire(blocking=False):
            raise Busy
        try:
            with self.machine_lock():
                made = _run(self.module, kind, content)
            refuse_infected(content)
            return made
        finally:
            self._slots.release()

    @contextmanager
    def machine_lock(self) -> Iterator[None]:
        """Hold the lock of the machine. Raises Busy after WAIT_SECONDS.

        A file lock needs no database, and ends with its process.
        """
        with self.lock_file.open("rb") as lock:
            deadline = time.monotonic() + WAIT_SECONDS
            while not _try_lock(lock.fileno()):
                if time.monotonic() > deadline:
                    raise Busy
                time.sleep(0.05)
            yield


DOCUMENTS = Inspector("verification.files.inspector")
# Anybody can open a workspace and keep these busy, so one file waits for the other.
LOCK_OF_NEWCOMERS = "verification.files.uploads"
NEWCOMERS = Inspector(DOCUMENTS.module, LOCK_OF_NEWCOMERS)


def refuse_infected(content: bytes) -> None:
    """Raise Unacceptable if the scanner finds malware, and Busy if it is down."""
    # Each inspector imports this module, and would load Django's settings with it.
    from verification.files.scanner import ScannerUnavailable, is_infected

    try:
        if is_infected(content):
            raise Unacceptable(Fault.INFECTED)
    except ScannerUnavailable:
        raise Busy from None


def _try_lock(file: int) -> bool:
    with suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _run(module: str, kind: str, content: bytes) -> bytes:
    is_late = Event()
    with subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", module, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # Errors of libraries may quote the file.
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env={n: os.environ[n] for n in INHERITED_ENVIRONMENT if n in os.environ},
    ) as inspector:
        limit = Timer(WALL_SECONDS, _kill_late, [inspector, is_late])
        limit.start()
        try:
            fault, made = _exchange(inspector, content)
            inspector.wait()
        finally:
            limit.cancel()
            inspector.kill()
    if is_late.is_set():
        raise Busy
    _check_exit_code(inspector.returncode)
    if fault:
        raise Unacceptable(Fault(fault))
    return made


def _kill_late(inspector: subprocess.Popen[bytes], is_late: Event) -> None:
    is_late.set()
    inspector.kill()


def _exchange(inspector: subprocess.Popen[bytes], content: bytes) -> tuple[str, bytes]:
    """Send the file. Returns the fault, or an empty text, and the answer."""
    assert inspector.stdin  # noqa: S101
    assert inspector.stdout  # noqa: S101
    # The inspector reads the whole file before it answers, or ends early.
    with suppress(BrokenPipeError), inspector.stdin as file:
        file.write(content)
    fault, _, made = inspector.stdout.read(MAX_OUTPUT + 1).partition(b"\n")
    if len(fault) + len(made) >= MAX_OUTPUT:
        raise Unacceptable(Fault.BOMB)
    return fault.decode(), made


def answer_within_limits(
    read: Callable[[str, bytes], bytes], cpu_seconds: int = CPU_SECONDS
) -> None:
    """Be the process that reads one file, from standard input.

    Writes a line with the Fault, or an empty line, and then what `read` returns.
    """
    _limit_process(cpu_seconds)
    try:
        fault, made = "", read(sys.argv[1], sys.stdin.buffer.read())
    except Unacceptable as e:
        fault, made = e.fault, b""
    except MemoryError:
        fault, made = Fault.BOMB, b""
    sys.stdout.buffer.write(fault.encode() + b"\n" + made)


def _limit_process(cpu_seconds: int) -> None:
    for what, soft, hard in (
        (resource.RLIMIT_AS, MEMORY_BYTES, MEMORY_BYTES),
        (resource.RLIMIT_CPU, cpu_seconds, cpu_seconds + 1),
        # The process writes no file and no core dump, and starts no process.
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_NPROC, 0, 0),
    ):
        # Other systems, such as macOS, have no such limit on memory.
        if what != resource.RLIMIT_AS or sys.platform == "linux":
            resource.setrlimit(what, (soft, hard))


def _check_exit_code(code: int) -> None:
    """Raise Unacceptable if a limit or the file itself ended the inspector."""
    # The hard CPU limit and a kernel without memory send SIGKILL.
    if code in {-signal.SIGXCPU, -signal.SIGKILL}:
        raise Unacceptable(Fault.BOMB)
    if code < 0:
        raise Unacceptable(Fault.DAMAGED)
    if code:
        raise RuntimeError(f"the inspector of files ended with {code}")


def _detect_type(content: bytes) -> str:
    for signature, content_type in SIGNATURES.items():
        if content.startswith(signature):
            return content_type
    raise Unacceptable(Fault.UNKNOWN)
