"""The supervisor of a job cluster: it watches the cluster, and replaces one that hangs.

The cluster's processes write signs to a pipe (`heartbeat`). Every fault shows in the
same way: no signs come, because a process died or hangs, or a lock is held for ever.
The supervisor measures the silence by a clock that slows down with the machine: on a
busy machine the cluster is only slow, and a restart would make it slower.

The supervisor loads the modules that jobs need and forks each cluster from itself: a
new cluster starts without loading anything, and shares that memory.
"""

import logging
import os
import select
import signal
import socket
import time
from multiprocessing.context import ForkProcess

from django.core.management import call_command

from verification.jobs import processes
from verification.jobs import processes as job_processes
from verification.jobs.cluster import preload
from verification.jobs.processes import LoadAdjustedClock

STALE_SECONDS = 6
# The sentinel's round holds the scheduler's queries, which may wait for a lock.
SENTINEL_STALE_SECONDS = 45
STARTING_SECONDS = 30
GRACE_SECONDS = 10
MIN_PAUSE_SECONDS = 0.2
MAX_PAUSE_SECONDS = 10
ROUND_SECONDS = 0.25
# Hundreds of threads share these arenas; glibc's 16 would all fill up.
ARENAS = 2

logger = logging.getLogger(__name__)


class Supervisor:
    def __init__(self, cluster: str = "") -> None:
        # With the same name, the next cluster takes back the jobs of a killed one at
        # once.
        self._cluster = cluster or f"{socket.gethostname()}-{os.urandom(4).hex()}"
        self._clock = LoadAdjustedClock()
        self._stopping = False
        self._pause = 0.0
        self._worked = False
        self._process: ForkProcess
        self._pipe = -1
        self._flowed_at = self._guarded_at = 0.0

    def run(self) -> None:
        """Run clusters until `stop` or a signal; return when the last one has ended."""
        for sign in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sign, lambda *_: self.stop())
        processes.adopt_orphans()
        preload()
        while not self._stopping:
            self._start()
            try:
                self._watch()
                if self._stopping:
                    self._request_stop()
            finally:
                self._kill()
            self._wait_before_next()

    def stop(self) -> None:
        self._stopping = True

    def _start(self) -> None:
        self._pipe, theirs = os.pipe()
        os.set_blocking(theirs, False)
        os.set_blocking(self._pipe, False)
        self._process = processes.fork("job cluster", self._run_cluster, theirs)
        os.close(theirs)
        self._worked = False
        # These times lie in the future, because a cluster needs some time for its first
        # signs.
        self._flowed_at = self._guarded_at = self._clock.now() + STARTING_SECONDS

    def _run_cluster(self, pipe: int) -> None:
        os.close(self._pipe)
        processes.limit_arenas(ARENAS)
        os.environ["JOB_CLUSTER"] = self._cluster
        os.environ["JOB_SUPERVISOR_PIPE"] = str(pipe)
        call_command("qcluster")

    def _watch(self) -> None:
        while not self._stopping:
            self._read_signs()
            if fault := self._fault():
                logger.error("job cluster: %s; it is killed and started again", fault)
                return

    def _read_signs(self) -> None:
        if not select.select([self._pipe], [], [], ROUND_SECONDS)[0]:
            return
        told = os.read(self._pipe, 65536)
        if not told:  # every process of the cluster has ended
            time.sleep(ROUND_SECONDS)
            return
        now = self._clock.now()
        if job_processes.WORK_DONE in told or job_processes.ALL_BUSY in told:
            self._flowed_at = now
            self._worked = True
        if job_processes.SENTINEL_ALIVE in told or job_processes.ALL_BUSY in told:
            self._guarded_at = now

    def _fault(self) -> str:
        if processes.has_ended(self._process):
            return "its main process ended"
        now = self._clock.now()
        if now - self._flowed_at > STALE_SECONDS:
            return "no work flows"
        if now - self._guarded_at > SENTINEL_STALE_SECONDS:
            return "its sentinel hangs"
        return ""

    def _request_stop(self) -> None:
        """Stop the cluster after its workers have finished their jobs."""
        self._process.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        while not processes.has_ended(self._process) and time.monotonic() < deadline:
            time.sleep(0.05)

    def _kill(self) -> None:
        processes.kill_group(self._process)
        os.close(self._pipe)

    def _wait_before_next(self) -> None:
        # A cluster that worked is replaced soon; one that never worked is tried less
        # and less often.
        longer = 0.0 if self._worked else min(2 * self._pause, MAX_PAUSE_SECONDS)
        self._pause = max(longer, MIN_PAUSE_SECONDS)
        until = time.monotonic() + self._pause
        while not self._stopping and time.monotonic() < until:
            time.sleep(0.05)
