"""No process of ours outlives the one that started it, however that one ended."""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

# A machine is slow when each processor has to serve more processes than these.
SERVED_AT_ONCE = 3
# A process is waited for at most so many times longer than on a machine at rest.
MOST_SLOWNESS = 10
# A watcher that is later than this was not given a processor itself.
LONGEST_ROUND_SECONDS = 1

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

_libc = ctypes.CDLL(None) if sys.platform == "linux" else None


def die_with_parent(parent: int) -> None:
    """Have this process killed when `parent`, which has just forked it, ends."""
    if _libc is None:
        return
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def dying_with_us() -> Callable[[], None]:
    """A `preexec_fn` for what this process starts."""
    parent = os.getpid()
    return lambda: die_with_parent(parent)


def bind_children() -> None:
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


def give_back_memory() -> None:
    """What was freed, much of which glibc keeps after hundreds of threads."""
    if trim := getattr(_libc, "malloc_trim", None):
        trim(0)


class FairClock:
    """Seconds of a machine that is not slow, to judge what others do in time.

    It is read several times a second, and is slower than time while many processes wait
    for a processor.
    """

    def __init__(self) -> None:
        self._read_at = time.monotonic()
        self._seconds = 0.0

    def now(self) -> float:
        before, self._read_at = self._read_at, time.monotonic()
        passed = min(self._read_at - before, LONGEST_ROUND_SECONDS)
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
    return min(max(each / SERVED_AT_ONCE, 1.0), MOST_SLOWNESS)


def kill_group(leader: int) -> None:
    """Return when no child of ours is left in the group; see `adopt_orphans`."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-leader, 0)
