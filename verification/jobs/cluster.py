"""A job cluster: django-q2's, hardened, and its supervisor.

The cluster's processes write signs to a pipe. Every fault shows in the same way: no
signs come, because a process died or hangs, or a lock is held for ever. The supervisor
measures the silence by a clock that slows down with the machine: on a busy machine the
cluster is only slow, and a restart would make it slower.

A database that hangs, as when no synchronous standby answers, is no fault of a cluster:
killing one in the middle of paid calls would leave them in doubt. So silence counts
only while the sentinel goes round and no worker waits for the database with a beat, and
the sentinel's own work, a beat and an acknowledgement wait for no standby.

The supervisor loads the modules that jobs need and forks each cluster from itself: a
new cluster starts without loading anything, and shares that memory.

The processes of a cluster share their state without any lock. django-q2 shares through
`multiprocessing`, whose queues and values hold locks: a process killed with -9 at the
wrong moment keeps the lock, and the cluster hangs. `harden` replaces them.
"""

from __future__ import annotations

import errno
import gc
import logging
import mmap
import os
import pickle
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache, wraps
from importlib import import_module
from multiprocessing.context import ForkProcess
from typing import Any

from django.core.management import call_command
from django.db import Error, OperationalError, connection, connections
from django_q import cluster, monitor
from django_q import worker as django_q_worker
from django_q.signals import post_execute_in_worker, pre_execute
from django_q.worker import worker

from verification import tracing
from verification.db.base import name_sessions
from verification.db.startup import DatabaseRefused, require_schema
from verification.jobs import processes
from verification.jobs import queue as job_queue
from verification.jobs.broker import BEAT_ID, give_back, retry_soon
from verification.jobs.processes import LoadAdjustedClock, SharedFlag
from verification.jobs.queue import make_cluster_name
from verification.jobs.schedules import SCHEDULES
from verification.outbound.client import LONGEST_SECONDS
from verification.values import clock
from verification.web.log import traceback_without_messages

# Room for a few jobs, because a job that waits in a cluster cannot run in another or be
# merged.
WAITING_BYTES = 4096
MESSAGE_BYTES = 1 << 18
# Of the sentinel's rounds. A pusher that has lost the database waits for it for up to
# `tcp_user_timeout` and `connect_timeout` (settings/connections.py), 15 seconds in all.
STALE_SECONDS = 18
# A longer pause between two signs of the sentinel counts as this: nobody went round.
ROUND_AT_MOST_SECONDS = 1
# The sentinel's round holds the scheduler's queries, which may wait for a lock.
SENTINEL_STALE_SECONDS = 45
STARTING_SECONDS = 30
# A running job may wait for the answer of one call, and then it records the answer.
GRACE_SECONDS = LONGEST_SECONDS + 10
MIN_PAUSE_SECONDS = 0.2
MAX_PAUSE_SECONDS = 10
ROUND_SECONDS = 0.25
# A worker whose job failed waits this long for a database that is away: it may have
# crashed and recover, and the job would wait for its lease otherwise.
DATABASE_SECONDS = 30
# Hundreds of threads share these arenas; glibc's 16 would all fill up.
ARENAS = 2
logger = logging.getLogger(__name__)


class Supervisor:
    def __init__(self, label: str = "") -> None:
        # All its clusters have the same name: the next one takes back the jobs of a
        # killed one at once.
        self._cluster = make_cluster_name(label)
        self._clock = LoadAdjustedClock()
        self._stopping = self._hurrying = False
        self._pause = 0.0
        self._worked = False
        self._process: ForkProcess
        self._pipe = -1
        # Seconds of the sentinel's rounds in which no work flowed.
        self._silent = self._guarded_at = 0.0

    def run(self) -> None:
        """Run clusters until `stop` or a signal; return when the last one has ended."""
        signal.signal(signal.SIGTERM, lambda *_: self.stop())
        signal.signal(signal.SIGINT, lambda *_: self._interrupt())
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

    def _interrupt(self) -> None:
        """Stop; a second Ctrl-C does not wait for running jobs."""
        self._hurrying = self._stopping
        self.stop()

    def _start(self) -> None:
        self._pipe, theirs = os.pipe()
        os.set_blocking(theirs, False)
        os.set_blocking(self._pipe, False)
        self._process = processes.fork("job cluster", self._run_cluster, theirs)
        os.close(theirs)
        self._clock.watch(self._process.pid)
        self._worked = False
        # A cluster needs some time for its first signs.
        self._silent = -STARTING_SECONDS
        self._guarded_at = self._clock.now() + STARTING_SECONDS

    def _run_cluster(self, pipe: int) -> None:
        os.close(self._pipe)
        processes.limit_arenas(ARENAS)
        os.environ["JOB_CLUSTER"] = self._cluster
        os.environ["JOB_SUPERVISOR_PIPE"] = str(pipe)
        try:
            require_schema()
        except DatabaseRefused as e:
            # The supervisor tries again, with longer and longer pauses.
            sys.exit(str(e))
        except OperationalError:
            # The cluster goes on trying to reach the server.
            pass
        connection.close()
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
        signs = os.read(self._pipe, 65536)
        if not signs:  # every process of the cluster has ended
            time.sleep(ROUND_SECONDS)
            return
        now = self._clock.now()
        if processes.WORK_DONE in signs or processes.ALL_BUSY in signs:
            self._silent = 0
            self._worked = True
        elif processes.SENTINEL_ALIVE in signs:
            self._silent += min(max(now - self._guarded_at, 0), ROUND_AT_MOST_SECONDS)
        if processes.SENTINEL_ALIVE in signs or processes.ALL_BUSY in signs:
            self._guarded_at = now

    def _fault(self) -> str:
        if processes.has_ended(self._process):
            return "its main process ended"
        now = self._clock.now()
        if self._silent > STALE_SECONDS:
            return "no work flows"
        if now - self._guarded_at > SENTINEL_STALE_SECONDS:
            return "its sentinel hangs"
        return ""

    def _request_stop(self) -> None:
        """Stop the cluster after its workers have finished their jobs."""
        self._process.terminate()
        deadline = time.monotonic() + GRACE_SECONDS
        while not processes.has_ended(self._process):
            if self._hurrying or time.monotonic() > deadline:
                logger.warning(
                    "job cluster: does not wait longer for running jobs; they are "
                    "killed, run again, and may leave calls in doubt"
                )
                return
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


def harden() -> None:
    if sys.platform != "linux":
        return
    if "JOB_SUPERVISOR_PIPE" not in os.environ:
        # Without a supervisor, which would have made the name.
        label = os.environ.get("JOB_CLUSTER", "")
        os.environ["JOB_CLUSTER"] = make_cluster_name(label)
    clock.follow_database()
    name_sessions("jobs")
    cluster.Sentinel = Sentinel
    cluster.scheduler = _without_standby(cluster.scheduler)
    monitor.save_task = _without_standby(monitor.save_task)
    # django-q2 asks it to report the exception that it has just caught.
    django_q_worker.error_reporter = failure
    post_execute_in_worker.connect(_retry_failed)
    if tracing.is_on():
        pre_execute.connect(_begin_span)
        post_execute_in_worker.connect(_end_span)
    # A forked child that shares its parent's connection garbles both.
    os.register_at_fork(before=connections.close_all)
    processes.bind_children_to_parent()


def _without_standby(work: Callable[..., None]) -> Callable[..., None]:
    """Let work of the sentinel or monitor commit without the standby.

    What a failover loses is done again: the schedule and its job are lost together.
    """

    @wraps(work)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SET synchronous_commit = off")
        except Error:
            # The work itself finds out.
            connection.close()
        work(*args, **kwargs)

    return run


class Failure:
    """Describes the failure of a job for the table and the log of django-q2.

    django-q2 stores and logs the message of the exception, which may quote a person's
    data: a database error quotes the whole row.
    """

    text = ""

    def report(self) -> None:
        error = sys.exception()
        self.text = traceback_without_messages(error) if error else ""


failure = Failure()


def _retry_failed(task: dict[str, Any], **kwargs: Any) -> None:
    if task["success"]:
        return
    task["result"] = failure.text
    if task["ack_id"] != BEAT_ID:
        _retry(task["ack_id"], DATABASE_SECONDS)


# The span of the job that this worker runs.
_span: tracing.Span = tracing.NOTHING


def _begin_span(func: Any, task: dict[str, Any], **kwargs: Any) -> None:
    global _span
    _span = tracing.NOTHING
    if task["ack_id"] != BEAT_ID:
        name = getattr(func, "__qualname__", "unknown")
        ids = {"verification.arguments": [str(id) for id in task["args"]]}
        _span = tracing.span(f"job {name}", ids, kind="CONSUMER")
    _span.__enter__()


def _end_span(task: dict[str, Any], **kwargs: Any) -> None:
    if not task["success"]:
        _span.fail("job failed")
    _span.__exit__(None, None, None)


def _retry(job_id: int, patience: float = 0) -> None:
    """Make the job due soon; wait so many seconds for a database that is away."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return retry_soon(job_id)
        except Error:
            connection.close()
            if time.monotonic() >= deadline:
                logger.warning("job %s runs again when its lease ends", job_id)
                return None
            time.sleep(ROUND_SECONDS)


def _give_back(job_id: int) -> None:
    if job_id == BEAT_ID:
        return
    try:
        give_back(job_id)
    except Error:
        connection.close()
        logger.warning("job %s runs again when its lease ends", job_id)


class Sentinel(cluster.Sentinel):
    def start(self) -> None:
        # Before anything is forked. An idle worker that is killed holds the lock of
        # django-q2's queue; a pusher that is killed may hold the one of its event.
        self.task_queue = MessageQueue(WAITING_BYTES)
        self.result_queue = MessageQueue()
        # A new flag, because a cluster that was forked before may have set its own.
        self.event_out = job_queue.stopping = SharedFlag()
        self.broker.on_sentinel_round = self._report
        super().start()

    def stop(self) -> None:
        """End after the running jobs, and leave those that wait to other clusters."""
        self.event_out.set()
        jobs = [p.timer.function for p in self.pool if p.timer.job > 0]
        if jobs:
            names = ", ".join(sorted(jobs))
            text = "job cluster: stops, and waits up to %d seconds for %s"
            logger.info(text, GRACE_SECONDS, names)
        # A pusher that has claimed jobs would wait until a worker takes them.
        while self.pusher.is_alive():
            for task in self.task_queue.drain():
                _give_back(task["ack_id"])
            time.sleep(ROUND_SECONDS)
        super().stop()

    def spawn_worker(self) -> None:
        # A worker that is killed may hold the lock of django-q2's timer.
        slot = WorkerTimer()
        inbox = Inbox(self.task_queue, slot)
        self.spawn_process(worker, inbox, self.result_queue, slot, self.timeout)

    def reincarnate(self, process: Any) -> None:
        slot = getattr(process, "timer", None)
        super().reincarnate(process)
        # django-q2 leaves the job of a dead worker to the end of its lease.
        if slot is not None and slot.job > 0:
            _retry(slot.job)

    def _report(self) -> None:
        if job_queue.stopping.is_set():
            # No beats pass through a stopping cluster. Without a heartbeat others would
            # run its running jobs as well.
            job_queue.beat()
        running = [p.timer for p in self.pool if p.timer.value > 0]
        # A beat only writes: one that runs for three seconds waits for the database.
        # django-q2 gives each job three seconds more than its timeout.
        waits = any(
            timer.function == job_queue.BEAT and timer.value <= self.timeout
            for timer in running
        )
        busy = waits or len(running) == len(self.pool) > 0
        sign = processes.ALL_BUSY if busy else processes.SENTINEL_ALIVE
        processes.signal_supervisor(sign)


class Inbox:
    """A worker's view of the task queue; notes in its slot which job it took."""

    def __init__(self, queue: MessageQueue, slot: WorkerTimer) -> None:
        self._queue, self._slot = queue, slot

    def get(self) -> Any:
        self._slot.job = 0
        task = self._queue.get()
        while isinstance(task, dict) and job_queue.stopping.is_set():
            _give_back(task["ack_id"])
            task = self._queue.get()
        if isinstance(task, dict):
            self._slot.function, self._slot.job = task["func"], task["ack_id"]
        return task


class MessageQueue:
    """A queue between processes that the kernel hands out message by message.

    It replaces `django_q.queues.Queue`. It has no locks, so any process may die at any
    moment. `buffer` limits the bytes that wait; `put` waits while it is full.
    """

    def __init__(self, buffer: int = MESSAGE_BYTES) -> None:
        self._in, self._out = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._in.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)

    def put(self, item: Any) -> None:
        try:
            self._in.sendall(pickle.dumps(item))
        except OSError as e:
            if e.errno != errno.EMSGSIZE or not isinstance(item, dict):
                raise
            # Only a result can be that long, and it is only for reading.
            self._in.sendall(
                pickle.dumps(item | {"result": str(item["result"])[:1000]})
            )

    def get(self) -> Any:
        # Only our own processes hold the other end.
        return pickle.loads(self._out.recv(MESSAGE_BYTES))  # noqa: S301

    def drain(self) -> Iterator[Any]:
        """Yield the messages that no other process has taken."""
        with suppress(BlockingIOError):
            while True:
                message = self._out.recv(MESSAGE_BYTES, socket.MSG_DONTWAIT)
                yield pickle.loads(message)  # noqa: S301

    def empty(self) -> bool:
        return not select.select([self._out], [], [], 0)[0]

    def qsize(self) -> int:
        return int(not self.empty())

    def close(self) -> None:
        """The sentinel still needs it: nothing is buffered that closing would flush."""

    def join_thread(self) -> None:
        """There is no thread: `put` returns when the kernel has the message."""


class WorkerTimer:
    """One worker's timer, as django-q2 uses it, and the job that it runs."""

    _timer = struct.Struct("d")
    _job = struct.Struct("q")
    _function = struct.Struct("200p")

    def __init__(self) -> None:
        size = self._timer.size + self._job.size + self._function.size
        self._memory = mmap.mmap(-1, size)
        self.value = -1.0

    @property
    def value(self) -> float:
        """Return the seconds left of the running job; 0 or less when idle."""
        return float(self._timer.unpack_from(self._memory)[0])

    @value.setter
    def value(self, seconds: float) -> None:
        self._timer.pack_into(self._memory, 0, seconds)

    @property
    def job(self) -> int:
        return int(self._job.unpack_from(self._memory, self._timer.size)[0])

    @job.setter
    def job(self, id: int) -> None:
        self._job.pack_into(self._memory, self._timer.size, id)

    @property
    def function(self) -> str:
        at = self._timer.size + self._job.size
        (name,) = self._function.unpack_from(self._memory, at)
        return bytes(name).decode()

    @function.setter
    def function(self, path: str) -> None:
        at = self._timer.size + self._job.size
        self._function.pack_into(self._memory, at, path.encode())

    def get_lock(self) -> AbstractContextManager[None]:
        return nullcontext()
