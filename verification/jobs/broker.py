"""The broker of django-q2: what its scheduler and its admin enqueue becomes a job."""

import logging

from django_q.brokers import Broker
from django_q.signing import SignedPackage
from django_q.utils import get_func_repr

from verification.jobs.models import Job
from verification.jobs.queue import store_job
from verification.values.clock import now

logger = logging.getLogger(__name__)


class JobBroker(Broker):
    """Stores packages as jobs, and counts jobs for `qinfo`; workers claim them."""

    def enqueue(self, task: str) -> int:
        """Store a job; a schedule's function may be one of a newer version."""
        package = SignedPackage.loads(task)
        function = get_func_repr(package["func"])
        # One wrong schedule must not keep the scheduler from the others.
        if package["kwargs"]:
            logger.error("a job has no keyword arguments: %s", function)
            return 0
        return store_job(function, package["args"])

    def queue_size(self) -> int:
        return Job.objects.filter(due_at__lte=now(), gave_up_at=None).count()

    def lock_size(self) -> int:
        return Job.objects.filter(due_at__gt=now(), gave_up_at=None).count()

    def ping(self) -> bool:
        return True

    def info(self) -> str:
        return "PostgreSQL"
