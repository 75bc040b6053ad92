from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from verification.db.encryption import EncryptedJSONField
from verification.db.models import Row


class Source(models.Model):
    """The state of a live source that all clusters share: its breaker and its limits.

    The source rests until `resting_until`. After that one call probes it, at
    `probed_at`; other checks wait for the outcome.
    """

    name = models.CharField(max_length=40, primary_key=True)
    failures_in_row = models.PositiveIntegerField(db_default=0)
    resting_until = models.DateTimeField(null=True)
    # The number of rests since the last answer.
    rests = models.PositiveSmallIntegerField(db_default=0)
    probed_at = models.DateTimeField(null=True)
    # The time of the last answer, to about a second.
    answered_at = models.DateTimeField(null=True)
    # The earliest time of the next call, if the calls a minute are limited.
    free_at = models.DateTimeField(null=True)
    # The outage that goes on (`health.Tally`): its first and last failure, and the
    # causes so far.
    failing_since = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    causes = ArrayField(models.CharField(max_length=20), db_default=[])

    def __str__(self) -> str:
        return self.name


class CallOutcome(models.TextChoices):
    UNDER_WAY = "", "under way"
    ANSWERED = "ANSWERED", "answered"
    NOT_YET = "NOT_YET", "took it, no answer yet"
    UNAVAILABLE = "UNAVAILABLE", "did not answer"
    REFUSED = "REFUSED", "refused"
    NOT_ASKED = "NOT_ASKED", "nobody could be asked"
    # The worker died. The source gets another call with the same reference.
    LOST = "LOST", "no end was recorded; asked again"
    # The worker died, and another call may have to be paid again.
    IN_DOUBT = "IN_DOUBT", "no end was recorded; in doubt"


class Call(Row):
    """One call of a source for one check, written before it is made.

    A call that never ends was interrupted: its worker died.
    """

    result = models.ForeignKey(
        "checks.CheckResult", models.CASCADE, related_name="calls", db_index=False
    )
    # The `attempt` and `tries` of the check result at the time of the call.
    attempt = models.PositiveSmallIntegerField()
    tries = models.PositiveSmallIntegerField()
    source = models.CharField(max_length=40)
    # Our id of the inquiry, which the source knows.
    reference = models.CharField(max_length=64)
    # [[source, why]] of the sources before it that got no call.
    passed_over = models.JSONField(default=list)
    begun_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    end = models.CharField(
        max_length=11, choices=CallOutcome, blank=True, db_default=""
    )
    # The failure code of a call without an answer.
    why = models.CharField(max_length=40, blank=True, db_default="")
    # Why: a `providers.base.Cause`, or a status of HTTP such as HTTP_503.
    cause = models.CharField(max_length=20, blank=True, db_default="")
    # True if the source did not answer and may charge for the call.
    may_be_charged = models.BooleanField(default=False, db_default=False)
    # The source's own id of the inquiry, if it has one.
    job = models.CharField(max_length=64, blank=True, db_default="")
    # The time of the source's callback, which says that there is an answer.
    called_back_at = models.DateTimeField(null=True)
    # The body of the callback, if only the callback has the answer. It is erased when
    # the check has read it, or by `checks.callbacks`.
    answer = EncryptedJSONField(null=True)
    # The time at which staff settled a call in doubt, and their finding.
    settled_at = models.DateTimeField(null=True)
    was_paid = models.BooleanField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["result"],
                condition=Q(end=""),
                name="a_check_has_one_call_under_way",
            ),
            models.CheckConstraint(
                name="call_ended_at_iff_ended",
                condition=Q(end="", ended_at=None)
                | (~Q(end="") & Q(ended_at__isnull=False)),
            ),
            models.CheckConstraint(
                name="only_doubts_are_settled",
                condition=Q(settled_at=None, was_paid=None)
                | Q(end="IN_DOUBT", settled_at__isnull=False, was_paid__isnull=False),
            ),
        ]
        indexes = [
            # The calls of a check in their order.
            models.Index(fields=["result", "id"], name="calls_of_a_check"),
            # The count of a source's open calls.
            models.Index(
                fields=["source", "begun_at"], condition=Q(end=""), name="calls_open"
            ),
            # The admin's list of calls in doubt.
            models.Index(
                fields=["id"],
                condition=Q(end="IN_DOUBT", settled_at=None),
                name="calls_in_doubt",
            ),
            # A callback's search for its call.
            models.Index(fields=["reference"], name="calls_by_reference"),
            # The answers to erase.
            models.Index(
                fields=["called_back_at"],
                condition=Q(answer__isnull=False),
                name="calls_with_an_answer",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.source} {self.get_end_display()}"

    @property
    def has_answer(self) -> bool:
        """True if a callback's body is stored; does not decrypt it."""
        return self.__dict__.get("answer") is not None


class SourceMinute(models.Model):
    """The calls of a source in one minute."""

    source = models.CharField(max_length=40)
    minute = models.DateTimeField()
    answered = models.PositiveIntegerField(db_default=0)
    refused = models.PositiveIntegerField(db_default=0)
    unavailable = models.PositiveIntegerField(db_default=0)
    # The number of answers within each of `health.BOUNDS`, and the slower ones.
    took = ArrayField(models.PositiveIntegerField())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["source", "minute"], name="a_source_has_each_minute_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.source} {self.minute:%H:%M}"
