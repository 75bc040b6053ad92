"""Jobs for tests; `tests.jobs` is an app in the tests' settings."""

import os
import signal
import time


def nothing(*ids: object) -> None:
    pass


def sleep(seconds: int) -> None:
    time.sleep(seconds)


def fail() -> None:
    raise ValueError("This job always fails.")


def kill_own_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
