"""What a cluster's processes tell its supervisor, a byte each.

No process of ours outlives the one that started it, however that one ended.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import cast

WORK_DONE = b"f"  # an acknowledgement came through
SENTINEL_ALIVE = b"g"  # the sentinel goes round
ALL_BUSY = b"b"  # so it does, and every worker is in a job that may still take its time


# A machine is slow when each processor has to serve more processes than these.
PROCESSES_PER_CPU = 3
# A process is waited for at most so many times longer than on a machine at rest.
MAX_SLOWNESS = 10
# A watcher that is later than this was not given a processor itself.
MAX_ROUND_SECONDS = 1

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
M_ARENA_MAX = -8

STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM}

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent(parent: int) -> None:
    """Have this process killed when `parent`, which has just forked it, ends."""
    if _libc is None:
        return
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def parent_death_hook() -> Callable[[], None]:
    """A `preexec_fn` for what this process starts."""
    parent = os.getpid()
    return lambda: die_with_parent(parent)


def fork(name: str, work: Callable[..., object], *arguments: object) -> ForkProcess:
    """Run `work` in a process that has all that this one has loaded, and dies with it.

    It leads a session: signals for us are not for it, and killing its group kills all
    of it. This process has one thread, and no connection that both would use.
    """
    context = multiprocessing.get_context("fork")
    process = context.Process(
        target=_run_as_leader, args=(os.getpid(), name, work, *arguments), name=name
    )
    # One that came before it is ready would be for what this process does then.
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


def has_ended(process: ForkProcess) -> bool:
    """Without reaping it, so that its number keeps naming its group."""
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, cast("int", process.pid), flags) is not None


def kill_group(leader: ForkProcess) -> None:
    """Return when no child of ours is left in its group; see `adopt_orphans`."""
    pid = cast("int", leader.pid)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    # It may not lead one yet.
    leader.kill()
    leader.join()
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-pid, 0)


def bind_children_to_parent() -> None:
    """Have every process that this one forks, and its descendants, die with it."""
    forking = os.getpid()

    def remember() -> None:
        nonlocal forking
        forking = os.getpid()

    os.register_at_fork(
        before=remember, after_in_child=lambda: die_with_parent(forking)
    )


def adopt_orphans() -> None:
    """Become the parent of descendants that lose theirs, so that we can await them."""
    if _libc is not None:
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)


def limit_arenas(most: int) -> None:
    """Have threads share so many of glibc's arenas, unless MALLOC_ARENA_MAX is set."""
    if "MALLOC_ARENA_MAX" not in os.environ and hasattr(_libc, "mallopt"):
        _libc.mallopt(M_ARENA_MAX, most)  # type: ignore[union-attr]


def trim_memory() -> None:
    """What was freed, much of which glibc keeps after hundreds of threads."""
    if trim := getattr(_libc, "malloc_trim", None):
        trim(0)


class LoadAdjustedClock:
    """Seconds of a machine that is not slow, to judge what others do in time.

    It is read several times a second, and is slower than time while many processes wait
    for a processor.
    """

    def __init__(self) -> None:
        self._read_at = time.monotonic()
        self._seconds = 0.0

    def now(self) -> float:
        before, self._read_at = self._read_at, time.monotonic()
        passed = min(self._read_at - before, MAX_ROUND_SECONDS)
        self._seconds += passed / slowness()
        return self._seconds


def slowness() -> float:
    """How many times longer than usual a process waits for a processor now, from 1."""
    try:
        # 0.20 0.18 0.12 1/80 11206: one of 80 runs or waits for a processor.
        running = Path("/proc/loadavg").read_text().split()[3].partition("/")[0]
    except OSError:
        return 1.0
    each = int(running) / (os.cpu_count() or 1)
    return min(max(each / PROCESSES_PER_CPU, 1.0), MAX_SLOWNESS)
