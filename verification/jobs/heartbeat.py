"""State that the processes of a cluster share without any lock.

django-q2 shares through `multiprocessing`, whose queues and values hold locks: a
process killed with -9 at the wrong moment keeps the lock, and the cluster hangs.

The heartbeat of a cluster shows that jobs are done, and not only that a process lives.

Once a second the broker makes a beat, a job that passes through the pusher, a worker
and the monitor as every job does. The worker records it in the table for `/readyz`. The
monitor's acknowledgement signals the cluster's supervisor.
"""

import errno
import logging
import mmap
import os
import pickle
import select
import socket
import struct
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from django.db import DatabaseError, connection
from django.db.models import Max
from django.db.models.functions import Now

from verification.jobs.models import Heartbeat
from verification.jobs.queue import cluster_name

MESSAGE_BYTES = 1 << 18


class SharedFlag:
    """A switch that every process forked later sees."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)

    def set(self) -> None:
        self._memory[0] = 1

    def is_set(self) -> bool:
        return self._memory[0] == 1


class WorkerTimer:
    """One worker's timer, as django-q2 uses it, and the id of the job it runs."""

    _timer = struct.Struct("d")
    _job = struct.Struct("q")

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, self._timer.size + self._job.size)
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

    def get_lock(self) -> AbstractContextManager[None]:
        return nullcontext()


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

    def empty(self) -> bool:
        return not select.select([self._out], [], [], 0)[0]

    def qsize(self) -> int:
        return int(not self.empty())

    def close(self) -> None:
        """The sentinel still needs it: nothing is buffered that closing would flush."""

    def join_thread(self) -> None:
        """There is no thread: `put` returns when the kernel has the message."""


class Inbox:
    """A worker's view of the task queue; notes in its slot which job it took."""

    def __init__(self, queue: MessageQueue, slot: WorkerTimer) -> None:
        self._queue, self._slot = queue, slot

    def get(self) -> Any:
        self._slot.job = 0
        task = self._queue.get()
        if isinstance(task, dict):
            self._slot.job = task["ack_id"]
        return task


BEAT = "verification.jobs.heartbeat.beat"
WRITE = """
INSERT INTO jobs_heartbeat (cluster, beat_at) VALUES (%s, statement_timestamp())
ON CONFLICT (cluster) DO UPDATE SET beat_at = excluded.beat_at
"""
logger = logging.getLogger(__name__)
# Set when this process's cluster is about to stop.
stopping = SharedFlag()
_written_at = 0.0


def beat() -> bool:
    """Record that work flows; return False if the job should end.

    The cluster is stopping then.

    Long jobs call this at each step, from the job's own thread and outside any
    transaction. It writes at most once a second.
    """
    global _written_at
    if time.monotonic() - _written_at >= 1 and not connection.in_atomic_block:
        _written_at = time.monotonic()
        try:
            with connection.cursor() as cursor:
                cursor.execute(WRITE, [cluster_name()])
        except DatabaseError as e:
            logger.warning("heartbeat not written: %s", type(e).__name__)
    return not stopping.is_set()


def age_seconds() -> float | None:
    """Return the age of the newest heartbeat of all clusters, or None."""
    age = Heartbeat.objects.aggregate(age=Now() - Max("beat_at"))["age"]
    return None if age is None else max(0.0, age.total_seconds())


def signal_supervisor(sign: bytes) -> None:
    if pipe := os.environ.get("JOB_SUPERVISOR_PIPE"):
        # The pipe is full or closed: the supervisor is slow, or it has ended and this
        # process will end too.
        with suppress(OSError):
            os.write(int(pipe), sign)
