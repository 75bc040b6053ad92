"""django-q2's cluster, hardened against processes that die at any moment.

`harden()` puts our sentinel in place of django-q2's and is called by `qcluster`.
"""

import gc
import logging
import os
import sys
from functools import cache
from importlib import import_module
from typing import Any

from django.db import DatabaseError, connections
from django_q import cluster
from django_q.signals import post_execute_in_worker
from django_q.worker import worker

from verification.jobs import heartbeat, processes
from verification.jobs import processes as job_processes
from verification.jobs.broker import BEAT_ID, retry_soon
from verification.jobs.heartbeat import Inbox, MessageQueue, SharedFlag, WorkerTimer
from verification.jobs.queue import cluster_name
from verification.jobs.schedules import SCHEDULES

# Room for a few jobs, because a job that waits in a cluster cannot run in another or be
# merged.
WAITING_BYTES = 4096

logger = logging.getLogger(__name__)


class Sentinel(cluster.Sentinel):
    def start(self) -> None:
        # Before anything is forked. An idle worker that is killed holds the lock of
        # django-q2's queue; a pusher that is killed may hold the one of its event.
        self.task_queue = MessageQueue(WAITING_BYTES)
        self.result_queue = MessageQueue()
        # A new flag, because a cluster that was forked before may have set its own.
        self.event_out = heartbeat.stopping = SharedFlag()
        self.broker.on_sentinel_round = self._report
        super().start()

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
        busy = all(process.timer.value > 0 for process in self.pool)
        sign = (
            job_processes.ALL_BUSY
            if busy and self.pool
            else job_processes.SENTINEL_ALIVE
        )
        heartbeat.signal_supervisor(sign)


@cache
def preload() -> None:
    """Load what jobs need before anything is forked, so that workers share it."""
    for schedule in SCHEDULES:
        import_module(schedule.function.rpartition(".")[0])
    gc.collect()
    # The collector skips frozen objects; it would write to them and so copy shared
    # memory.
    gc.freeze()


def harden() -> None:
    if sys.platform != "linux":
        return
    os.environ.setdefault("JOB_CLUSTER", cluster_name())
    cluster.Sentinel = Sentinel
    post_execute_in_worker.connect(_retry_failed)
    # A forked child that shares its parent's connection garbles both.
    os.register_at_fork(before=connections.close_all)
    processes.bind_children_to_parent()


def _retry_failed(task: dict[str, Any], **kwargs: Any) -> None:
    if not task["success"] and task["ack_id"] != BEAT_ID:
        _retry(task["ack_id"])


def _retry(job_id: int) -> None:
    try:
        retry_soon(job_id)
    except DatabaseError:
        logger.warning("job %s runs again when its lease ends", job_id)
