"""A job cluster: a process that forks workers, and another for each that ends.

It loads the modules that jobs need and never talks to the database: a new worker starts
without loading anything, shares that memory, and nothing but the end of a worker
matters to the cluster. Nobody ends a worker because the database hangs, as when no
synchronous standby answers: paid calls would be in doubt.
"""

import gc
import logging
import os
import signal
import time
from functools import cache
from importlib import import_module
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from tempfile import TemporaryFile
from typing import IO, Any, cast

from django.conf import settings

from verification import tracing
from verification.db.base import name_sessions
from verification.jobs import processes
from verification.jobs.queue import make_cluster_name
from verification.jobs.schedules import SCHEDULES
from verification.jobs.worker import GRACE_SECONDS, Worker
from verification.values import clock

ROUND_SECONDS = 0.25
# From the start of a worker to the start of its replacement
PAUSE_SECONDS = 1
# The same time if the worker ended by itself, as when migrations are missing
REFUSED_SECONDS = 10
# Hundreds of threads share these arenas; glibc's 16 would all fill up.
ARENAS = 2
logger = logging.getLogger(__name__)


class Cluster:
    def __init__(self, label: str = "") -> None:
        # A cluster that is forked again has the same name, and takes back the jobs of a
        # killed one at once.
        self._name = make_cluster_name(label)
        claim_lock = TemporaryFile()  # noqa: SIM115 (open as long as the process)
        self._places = [Place(claim_lock) for _ in range(settings.JOB_WORKERS)]
        self._stopping = self._hurrying = False

    def run(self) -> None:
        """Run workers until a signal; return when the last one has ended."""
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._interrupt)
        os.environ["JOB_CLUSTER"] = self._name
        name_sessions("jobs")
        clock.follow_database()
        processes.limit_arenas(ARENAS)
        preload()
        while not self._stopping:
            for place in self._places:
                place.fill()
            self._wait_for_ends()
        for place in self._places:
            place.request_stop()
        self._wait_for_workers()

    def _stop(self, *_: Any) -> None:
        self._stopping = True

    def _interrupt(self, *_: Any) -> None:
        """Stop; a second Ctrl-C does not wait for running jobs."""
        self._hurrying = self._stopping
        self._stopping = True

    def _wait_for_workers(self) -> None:
        deadline = time.monotonic() + GRACE_SECONDS
        while any(place.process for place in self._places):
            if self._hurrying or time.monotonic() > deadline:
                logger.warning(
                    "job cluster: does not wait longer for running jobs; they are "
                    "killed, run again, and may leave calls in doubt"
                )
                for place in self._places:
                    place.clear()
            self._wait_for_ends()

    def _wait_for_ends(self) -> None:
        running = {p.process.sentinel: p for p in self._places if p.process}
        if not running:
            time.sleep(ROUND_SECONDS)
        for ended in wait(list(running), ROUND_SECONDS):
            running[cast("int", ended)].clear()


class Place:
    """The place of a worker, and its process unless the place is empty."""

    def __init__(self, claim_lock: IO[bytes]) -> None:
        self._claim_lock = claim_lock
        self.process: ForkProcess | None = None
        self._start_at = self._started_at = 0.0

    def fill(self) -> None:
        """Fork a worker if the place is empty and its pause is over."""
        if self.process is None and time.monotonic() >= self._start_at:
            self._started_at = time.monotonic()
            self.process = processes.fork("job worker", Worker(self._claim_lock).run)

    def request_stop(self) -> None:
        if self.process:
            self.process.terminate()

    def clear(self) -> None:
        """Kill the worker and its child processes."""
        if self.process is None:
            return
        processes.kill_group(self.process)
        code, self.process = self.process.exitcode or 0, None
        if code < 0:
            logger.error("job worker: ended by %s", signal.Signals(-code).name)
        pause = REFUSED_SECONDS if code > 0 else PAUSE_SECONDS
        self._start_at = self._started_at + pause


@cache
def preload() -> None:
    """Load what jobs need before anything is forked, so that workers share it."""
    for function in SCHEDULES:
        import_module(function.rpartition(".")[0])
    tracing.preload()
    gc.collect()
    # The collector skips frozen objects; it would write to them and so copy shared
    # memory.
    gc.freeze()
