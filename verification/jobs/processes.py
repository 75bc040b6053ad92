"""No process of ours outlives the one that started it, however that one ended."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

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


def kill_group(leader: int) -> None:
    """Return when no child of ours is left in the group; see `adopt_orphans`."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-leader, 0)
