"""Jobs for tests; `tests.jobs` is an app in the tests' settings."""

import os
import signal
import time
from pathlib import Path

from django.db import connection

from verification.jobs.queue import job

# As the message of a database error quotes it
ROW = "Failing row contains (Wanjiku Kamau)"


@job
def nothing(*ids: object) -> None:
    pass


@job
def sleep(seconds: int) -> None:
    time.sleep(seconds)


@job
def run_while_exists(file: str) -> None:
    Path(f"{file}.{os.getpid()}").touch()
    while Path(file).exists():
        time.sleep(0.05)


@job
def fail() -> None:
    raise ValueError("This job always fails.")


@job
def quote_a_person() -> None:
    raise ValueError(ROW)


@job
def kill_own_worker() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@job
def lose_session() -> None:
    connection.connection.close()
