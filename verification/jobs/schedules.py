"""The schedules of jobs, and the daily purge of the queue's own tables."""

from datetime import timedelta

from django_q.models import Failure

from verification.jobs.models import Heartbeat, Job
from verification.jobs.names import JobName
from verification.jobs.queue import job
from verification.values.clock import now

FAILURE_RETENTION = timedelta(days=30)
# Path -> minutes
SCHEDULES = {name.value: name.minutes for name in JobName if name.minutes}


@job
def purge_failures() -> None:
    """Delete failures, jobs that were given up and heartbeats of ended clusters."""
    before = now() - FAILURE_RETENTION
    Failure.objects.filter(stopped__lt=before).delete()
    Job.objects.filter(gave_up_at__lt=before).delete()
    Heartbeat.objects.filter(beat_at__lt=before).delete()
