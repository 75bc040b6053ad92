from datetime import timedelta

from django.utils import timezone
from django_q.models import Failure

from verification.jobs.models import Heartbeat, Job

RETENTION = timedelta(days=30)


def purge_failures() -> None:
    """Forget failures, jobs given up and clusters that ended after a month."""
    before = timezone.now() - RETENTION
    Failure.objects.filter(stopped__lt=before).delete()
    Job.objects.filter(gave_up_at__lt=before).delete()
    Heartbeat.objects.filter(beat_at__lt=before).delete()
