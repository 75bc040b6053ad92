"""Forked processes: they never outlive their parent."""

import ctypes
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import ForkProcess
from typing import cast

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
M_ARENA_MAX = -8

STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM}

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent(parent: int) -> None:
    """Let the kernel kill this process when `parent` ends, which has forked it."""
    if _libc is None:
        return
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def parent_death_hook() -> Callable[[], None]:
    """Return a `preexec_fn` for programs that this process starts."""
    parent = os.getpid()
    return lambda: die_with_parent(parent)


def fork(name: str, work: Callable[..., object], *arguments: object) -> ForkProcess:
    """Run `work` in a forked process that dies with this one.

    The fork leads a session, so it does not get this process's signals, and killing its
    group kills all of it. Call this while the process has one thread and no open
    connection.
    """
    context = multiprocessing.get_context("fork")
    process = context.Process(
        target=_run_as_leader, args=(os.getpid(), name, work, *arguments), name=name
    )
    # A signal that arrives earlier would run this process's handlers.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return process


def _run_as_leader(
    parent: int, name: str, work: Callable[..., object], *arguments: object
) -> None:
    die_with_parent(parent)
    os.setsid()
    for sign in STOP_SIGNALS:
        signal.signal(sign, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    if _libc is not None:
        _libc.prctl(PR_SET_NAME, name.encode())
    work(*arguments)


def kill_group(leader: ForkProcess) -> None:
    """Kill the process's group, and return when none of our children is left in it."""
    pid = cast("int", leader.pid)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    # It may not lead a group yet.
    leader.kill()
    leader.join()
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-pid, 0)


def bind_children_to_parent() -> None:
    """Make every process that this one forks, and its descendants, die with it."""
    forking = os.getpid()

    def remember() -> None:
        nonlocal forking
        forking = os.getpid()

    os.register_at_fork(
        before=remember, after_in_child=lambda: die_with_parent(forking)
    )


def limit_arenas(most: int) -> None:
    """Limit glibc to this many arenas, unless MALLOC_ARENA_MAX is set."""
    if "MALLOC_ARENA_MAX" not in os.environ and hasattr(_libc, "mallopt"):
        _libc.mallopt(M_ARENA_MAX, most)  # type: ignore[union-attr]


def trim_memory() -> None:
    """Return freed memory to the system.

    After hundreds of threads glibc keeps much of it.
    """
    if trim := getattr(_libc, "malloc_trim", None):
        trim(0)
