from __future__ import annotations

from django.db import models
from django.db.models.functions import Now


def failure_id(job_id: int) -> str:
    """Return the id of the row of django-q2 with the last failure of a job."""
    return f"{job_id:032x}"


class JobQuerySet(models.QuerySet["Job"]):
    def given_up(self) -> JobQuerySet:
        """Return jobs that were given up and that nobody has dismissed."""
        return self.filter(gave_up_at__isnull=False, dismissed_at=None)


class Job(models.Model):
    """A call of `function` with ids that waits or runs. Finished jobs are deleted.

    A claim moves `due_at` to the end of its lease, so the job of a dead worker becomes
    due again by itself.
    """

    function = models.CharField(max_length=200)
    arguments = models.JSONField(default=list)
    due_at = models.DateTimeField(db_default=Now())
    attempts = models.PositiveSmallIntegerField(db_default=0)
    claimed_by = models.CharField(max_length=100, blank=True, db_default="")
    # Set when the job was claimed as often as allowed and never finished. The row stays
    # for the operator.
    gave_up_at = models.DateTimeField(null=True, blank=True)
    # Set when staff know of a job that was given up, and do not need it any more.
    dismissed_at = models.DateTimeField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())

    objects = JobQuerySet.as_manager()

    class Meta:
        indexes = [
            # The claim, which runs at each wake-up and once a second.
            models.Index(
                fields=["due_at", "id"],
                condition=models.Q(gave_up_at=None),
                name="jobs_due",
            ),
            # The list of the admin.
            models.Index(
                fields=["id"],
                condition=models.Q(gave_up_at__isnull=False),
                name="jobs_given_up",
            ),
            # Finding the other wake-ups that wait for the same function.
            models.Index(
                fields=["function", "due_at"],
                condition=models.Q(gave_up_at=None, arguments=[]),
                name="jobs_wake_ups",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


class Heartbeat(models.Model):
    """The last time that a job passed through this cluster."""

    cluster = models.CharField(max_length=100, primary_key=True)
    beat_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.cluster
