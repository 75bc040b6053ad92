"""Forked processes: they never outlive their parent, and signal their supervisor."""

import ctypes
import mmap
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import cast

# Signs that a cluster's processes send to its supervisor, a byte each.
WORK_DONE = b"f"  # an acknowledgement came through
SENTINEL_ALIVE = b"g"  # the sentinel goes round
# So it does, and every worker is in a job that may still take its time, or a beat has
# come to a worker and waits for the database.
ALL_BUSY = b"b"


# A machine is slow when more processes than this wait for each processor.
PROCESSES_PER_CPU = 3
# On a slow machine the time limits grow at most by this factor.
MAX_SLOWNESS = 10
# The kernel counts a wait at its end; a longer one is counted up to this.
MAX_WAIT_SECONDS = 2
# A watcher that is later than this had no processor itself.
MAX_ROUND_SECONDS = 1

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
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


def has_ended(process: ForkProcess) -> bool:
    """Return whether the process has ended, without reaping it.

    Its id still names its group then.
    """
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, cast("int", process.pid), flags) is not None


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


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, to be able to wait for them."""
    if _libc is not None:
        _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)


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


class LoadAdjustedClock:
    """A clock that slows down with the machine, for time limits of other processes.

    It runs slower than real time while many processes wait for a processor, and stands
    while the watched process or one of its descendants waits for one, which also
    happens where a container has used up its share of an idle machine. A process that
    hangs or is stopped does not wait, so the clock runs on. Read it several times a
    second.
    """

    def __init__(self) -> None:
        self._read_at = time.monotonic()
        self._seconds = 0.0
        self._watched: int | None = None
        # The nanoseconds that each watched process has waited in its life.
        self._waits: dict[int, int] = {}
        self._waited = 0.0

    def watch(self, pid: int | None) -> None:
        self._watched = pid

    def now(self) -> float:
        before, self._read_at = self._read_at, time.monotonic()
        passed = min(self._read_at - before, MAX_ROUND_SECONDS)
        self._waited = min(self._waited + self._longest_wait(), MAX_WAIT_SECONDS)
        waited = min(self._waited, passed)
        self._waited -= waited
        counted = min(passed / slowness(), passed - waited)
        self._seconds += max(counted, passed / MAX_SLOWNESS)
        return self._seconds

    def _longest_wait(self) -> float:
        """Return the longest wait of a watched process since the last call."""
        before = self._waits
        self._waits = {} if self._watched is None else dict(_waits(self._watched))
        waits = [at - before.get(pid, at) for pid, at in self._waits.items()]
        return max(waits, default=0) / 1e9


def _waits(pid: int) -> Iterator[tuple[int, int]]:
    """Yield a process and its descendants, with the nanoseconds each has waited."""
    try:
        # 73718646 1051916339 48: it ran, it waited for a processor, and how often.
        waited = Path(f"/proc/{pid}/schedstat").read_text().split()[1]
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, IndexError):
        # It has ended, or the kernel does not tell.
        return
    yield pid, int(waited)
    for child in children:
        yield from _waits(int(child))


def slowness() -> float:
    """Return how many times longer processes wait for a processor now; at least 1."""
    try:
        # 0.20 0.18 0.12 1/80 11206: one of 80 runs or waits for a processor.
        running = Path("/proc/loadavg").read_text().split()[3].partition("/")[0]
    except OSError:
        return 1.0
    each = int(running) / (os.cpu_count() or 1)
    return min(max(each / PROCESSES_PER_CPU, 1.0), MAX_SLOWNESS)


class SharedFlag:
    """A switch that every process forked later sees."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)

    def set(self) -> None:
        self._memory[0] = 1

    def is_set(self) -> bool:
        return self._memory[0] == 1


def signal_supervisor(sign: bytes) -> None:
    if pipe := os.environ.get("JOB_SUPERVISOR_PIPE"):
        # The pipe is full or closed: the supervisor is slow, or it has ended and this
        # process will end too.
        with suppress(OSError):
            os.write(int(pipe), sign)
