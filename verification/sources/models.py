from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from verification.db.encryption import EncryptedJSONField
from verification.db.ids import uuid7


class Source(models.Model):
    """A live source as all clusters see it: whether it answers, and how much it gets.

    It rests while `resting_until` is ahead. After that one call tries it, which is what
    `probed_at` is for; the others wait for how that ends.
    """

    name = models.CharField(max_length=40, primary_key=True)
    failures_in_row = models.PositiveIntegerField(db_default=0)
    resting_until = models.DateTimeField(null=True)
    # How often it has rested without an answer since.
    rests = models.PositiveSmallIntegerField(db_default=0)
    probed_at = models.DateTimeField(null=True)
    # When it last answered, give or take a second.
    answered_at = models.DateTimeField(null=True)
    # Where calls a minute are limited: when the next one may begin.
    free_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name


class CallOutcome(models.TextChoices):
    UNDER_WAY = "", "under way"
    ANSWERED = "ANSWERED", "answered"
    NOT_YET = "NOT_YET", "took it, no answer yet"
    UNAVAILABLE = "UNAVAILABLE", "did not answer"
    REFUSED = "REFUSED", "refused"
    NOT_ASKED = "NOT_ASKED", "nobody could be asked"
    # The worker died. It was asked again by the same reference.
    LOST = "LOST", "no end was recorded; asked again"
    # The worker died, and asking again might be paid for again.
    IN_DOUBT = "IN_DOUBT", "no end was recorded; in doubt"


class Call(models.Model):
    """One call of a source for one check, written before it is made.

    One that was begun and has no end was interrupted: its worker died.
    """

    CallOutcome = CallOutcome

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    result = models.ForeignKey(
        "checks.CheckResult", models.CASCADE, related_name="calls", db_index=False
    )
    # Which run of the check for the client, and which round of its retry policy.
    attempt = models.PositiveSmallIntegerField()
    tries = models.PositiveSmallIntegerField()
    source = models.CharField(max_length=40)
    # What we call the inquiry at the source.
    reference = models.CharField(max_length=64)
    # [[source, why]] of those before it that were not asked.
    passed_over = models.JSONField(default=list)
    begun_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)
    end = models.CharField(
        max_length=11, choices=CallOutcome, blank=True, db_default=""
    )
    # The failure code, where there was no answer.
    why = models.CharField(max_length=40, blank=True, db_default="")
    # It was asked, no answer came, and it may want to be paid all the same.
    may_be_charged = models.BooleanField(default=False, db_default=False)
    # What the source calls the job that it has begun, where it tells.
    job = models.CharField(max_length=64, blank=True, db_default="")
    # When the source said that it has an answer.
    called_back_at = models.DateTimeField(null=True)
    # The body of that callback where nothing else tells the answer: a text, until the
    # check has read it or `checks.callbacks` erases it.
    answer = EncryptedJSONField(null=True)
    # When staff had dealt with a doubt, and what they found out.
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
            # All calls of a check, in their order.
            models.Index(fields=["result", "id"], name="calls_of_a_check"),
            # How many are under way at a source.
            models.Index(
                fields=["source", "begun_at"], condition=Q(end=""), name="calls_open"
            ),
            # What waits for a person.
            models.Index(
                fields=["id"],
                condition=Q(end="IN_DOUBT", settled_at=None),
                name="calls_in_doubt",
            ),
            # A callback finds the call it is about.
            models.Index(fields=["reference"], name="calls_by_reference"),
            # Answers that nobody has read.
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
        """Whether a callback's body is kept, without opening it."""
        return self.__dict__.get("answer") is not None


class SourceMinute(models.Model):
    """What a source did in one minute."""

    source = models.CharField(max_length=40)
    minute = models.DateTimeField()
    answered = models.PositiveIntegerField(db_default=0)
    refused = models.PositiveIntegerField(db_default=0)
    unavailable = models.PositiveIntegerField(db_default=0)
    # How many answers came within each of `health.BOUNDS`, and later.
    took = ArrayField(models.PositiveIntegerField())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["source", "minute"], name="a_source_has_each_minute_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.source} {self.minute:%H:%M}"
