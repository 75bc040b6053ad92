from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext

from verification.db.encryption import EncryptedJSONField, KeyedHashField
from verification.db.models import DatedRow, Row
from verification.reports.models import NAME_PARTS, Report, RiskLevel, SubjectType
from verification.values.clock import now
from workspaces.models import Workspace

# The most checks that a report, a rule or a package can have.
MAX_CHECKS = 10
# Lower-case words with hyphens between them, such as tenant-screening.
PACKAGE_NAME = r"[a-z0-9]+(-[a-z0-9]+)*"


class CheckDefinition(Row):
    """A check that clients can request: its inputs, price and output fields."""

    class Category(models.TextChoices):
        IDENTITY = "IDENTITY"
        TAX = "TAX"
        EMPLOYMENT = "EMPLOYMENT"
        BUSINESS = "BUSINESS"
        CREDIT = "CREDIT"
        AML = "AML", "AML"

    name = models.CharField(max_length=40, unique=True)
    position = models.PositiveSmallIntegerField(default=0)
    display_name = models.CharField(max_length=100)
    category = models.CharField(max_length=12, choices=Category)
    description = models.TextField()
    subject_types = ArrayField(models.CharField(max_length=10, choices=SubjectType))
    active = models.BooleanField(default=True)
    requires_consent = models.BooleanField(default=True)
    price = models.DecimalField(max_digits=10, decimal_places=2)
    currency = models.CharField(max_length=3, default="KES")
    # [{key, label, type, required, description}], and for the conditional ones
    # `requiredFor` (subject types) and `unless` (another key that will do).
    required_inputs = models.JSONField(default=list)
    output_fields = ArrayField(models.CharField(max_length=60))
    flag_codes = ArrayField(models.CharField(max_length=40), default=list)
    freshness_days = models.PositiveIntegerField()
    # {maxAttempts, initialDelaySeconds, backoffMultiplier, maxDelaySeconds}
    retry_policy = models.JSONField(default=dict)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["position", "name"]
        constraints = [
            models.CheckConstraint(
                name="check_price_is_not_negative", condition=Q(price__gte=0)
            )
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def title(self) -> str:
        """The name in the language of the page."""
        return gettext(self.display_name)


class PackageQuerySet(models.QuerySet["CheckPackage"]):
    def known_to(self, workspace_id: UUID) -> PackageQuerySet:
        """Return the packages of the operator and of the workspace, by name."""
        known = Q(workspace=None) | Q(workspace=workspace_id)
        return self.filter(known).order_by("name")


class CheckPackage(DatedRow):
    """A named set of checks, which clients order in place of single checks.

    It belongs to the operator, and all workspaces can order it, or to one workspace. A
    name always means the same package to a workspace: names do not change, packages are
    deactivated instead of deleted, and a trigger keeps a workspace from using a name of
    the operator.
    """

    # Null for a package of the operator
    workspace = models.ForeignKey(
        Workspace,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="packages",
        db_index=False,
    )
    name = models.CharField(max_length=40)
    display_name = models.CharField(max_length=100)
    # Names of check definitions, in the order of the report.
    checks = ArrayField(models.CharField(max_length=40))
    # Null for the sum of the checks' prices
    price = models.DecimalField(max_digits=10, decimal_places=2, null=True, blank=True)
    active = models.BooleanField(default=True)
    updated_at = models.DateTimeField(auto_now=True)

    objects = PackageQuerySet.as_manager()

    class Meta:
        verbose_name = "package"
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "name"],
                nulls_distinct=False,
                name="a_workspace_has_a_package_name_once",
            ),
            models.CheckConstraint(
                name="package_name_is_a_slug",
                condition=Q(name__regex=f"^{PACKAGE_NAME}$"),
            ),
            models.CheckConstraint(
                name="package_price_is_not_negative",
                condition=Q(price=None) | Q(price__gte=0),
            ),
            models.CheckConstraint(
                name="package_has_1_to_10_checks",
                condition=Q(checks__len__gte=1, checks__len__lte=MAX_CHECKS),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_of_operator(self) -> bool:
        return self.workspace_id is None

    def price_for(self, checks: Collection[str]) -> Decimal | None:
        """Return the package's own price, which holds for its present checks only.

        Reports and rules keep the checks that they were made with.
        """
        return self.price if set(checks) == set(self.checks) else None


class ResultStatus(models.TextChoices):
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


R = ResultStatus


class PresentResults(models.Manager["CheckResult"]):
    """The results that reports show: `CheckResult.every` has superseded ones too."""

    def get_queryset(self) -> models.QuerySet[CheckResult]:
        return super().get_queryset().filter(revision=0)


class CheckResult(DatedRow):
    """One check of one report. The row is also the queue that checks run from.

    A row is due when `next_attempt_at` has passed. Due rows run in the order of
    `turn_at`, which is later than that for most of a large request. A worker claims a
    row by moving both to the end of the lease and by raising `claims` and `fence`. It
    writes its result with the `fence` of its claim, so a late worker cannot overwrite
    anything.
    """

    # The unique constraint has an index that finds these.
    report = models.ForeignKey(
        Report, models.CASCADE, related_name="results", db_index=False
    )
    # No index, because definitions are withdrawn and not deleted.
    definition = models.ForeignKey(CheckDefinition, models.PROTECT, db_index=False)
    name = models.CharField(max_length=40)
    position = models.PositiveSmallIntegerField()
    # 0 is the present result of the check. A result that a correction has superseded,
    # or a re-run that nobody has accepted, has a number from 1.
    revision = models.PositiveSmallIntegerField(default=0, db_default=0)
    status = models.CharField(
        max_length=9, choices=ResultStatus, default=ResultStatus.PENDING
    )
    price = models.DecimalField(max_digits=10, decimal_places=2, default=Decimal(0))
    # The number of the client's attempt: 1, and one more for each retry.
    attempt = models.PositiveSmallIntegerField(default=1)
    # Unavailable answers in this attempt, which the retry policy limits.
    tries = models.PositiveSmallIntegerField(default=0)
    # Claims since a worker last recorded an outcome.
    claims = models.PositiveSmallIntegerField(default=0)
    # Claims since the row was made: the fence.
    fence = models.PositiveIntegerField(default=0)
    next_attempt_at = models.DateTimeField(null=True)
    turn_at = models.DateTimeField(default=now)
    waits_for = models.CharField(max_length=40, blank=True, default="", db_default="")
    started_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)
    duration_ms = models.PositiveIntegerField(null=True)
    # Equal for the same workspace, environment, check, subject and inputs; null once
    # the report is erased.
    question = KeyedHashField(null=True)
    # The earlier result whose finding this one reuses.
    reused_from_id = models.UUIDField(null=True)
    score = models.PositiveSmallIntegerField(null=True)
    risk_level = models.CharField(
        max_length=7, choices=RiskLevel, default=RiskLevel.UNKNOWN
    )
    # The subject's details in the call, if they differ from the report's: in a re-run
    # with corrected details, or in a check before the report's details were corrected.
    inputs = EncryptedJSONField(null=True)
    # Set while a correction of the finding is open.
    disputed_at = models.DateTimeField(null=True, editable=False)
    # {summary, flags, details, evidence}: the source's finding about the subject.
    finding = EncryptedJSONField(null=True)
    failure_code = models.CharField(max_length=40, blank=True)
    failure_message = models.CharField(max_length=300, blank=True)
    failure_retryable = models.BooleanField(default=False)

    objects = PresentResults()
    every: models.Manager[CheckResult] = models.Manager()

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(
                fields=["report", "name", "revision"],
                name="a_report_has_each_check_once",
            ),
            models.CheckConstraint(
                name="only_unfinished_results_are_due",
                condition=Q(next_attempt_at__isnull=True)
                | Q(status__in=[R.PENDING, R.RUNNING]),
            ),
            models.CheckConstraint(
                name="result_completed_at_iff_ended",
                condition=Q(status__in=[R.PENDING, R.RUNNING], completed_at=None)
                | Q(
                    status__in=[R.COMPLETED, R.FAILED, R.CANCELLED],
                    completed_at__isnull=False,
                ),
            ),
            models.CheckConstraint(
                name="failed_results_say_why",
                condition=Q(status=R.FAILED) ^ Q(failure_code=""),
            ),
            models.CheckConstraint(
                name="result_score_0_to_100",
                condition=Q(score__isnull=True) | Q(score__lte=100),
            ),
        ]
        indexes = [
            # The claim of due work.
            models.Index(
                fields=["turn_at", "id"],
                include=["next_attempt_at"],
                condition=Q(next_attempt_at__isnull=False, waits_for=""),
                name="results_due",
            ),
            # The claim of rows that wait for a source.
            models.Index(
                fields=["waits_for", "turn_at", "id"],
                condition=Q(next_attempt_at__isnull=False) & ~Q(waits_for=""),
                name="results_waiting",
            ),
            # The admin's list of failed checks, which are few.
            models.Index(
                fields=["id"],
                condition=Q(status=R.FAILED),
                name="results_failed",
            ),
            # The newest finding for the same question, for reuse. An erased result has
            # no question.
            models.Index(
                F("question"),
                F("completed_at").desc(),
                condition=Q(
                    status=R.COMPLETED,
                    reused_from_id__isnull=True,
                    question__isnull=False,
                ),
                name="results_to_reuse",
            ),
            # The results that reuse a finding which turns out to be wrong.
            models.Index(
                fields=["reused_from_id"],
                condition=Q(reused_from_id__isnull=False),
                name="results_reusing",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} of {self.report_id}"

    @property
    def reused(self) -> bool:
        return self.reused_from_id is not None

    @property
    def answered_at(self) -> datetime | None:
        """When the source answered, for a reused result long before its completion."""
        evidence = (self.finding or {}).get("evidence") or {}
        at = evidence.get("retrievedAt")
        return datetime.fromisoformat(at) if at else self.completed_at

    def outdated_details(self, subject: dict[str, Any] | None) -> list[str]:
        """Return the names of details that the check asked with and that differ now.

        `subject` is that of the report, whose details a correction may have changed.
        """
        known, asked = subject or {}, self.inputs or {}
        names = [name for name, value in asked.items() if known.get(name) != value]
        return [n for n in names if n not in NAME_PARTS or "fullName" not in names]


def ordered_results(report: Report) -> models.QuerySet[CheckResult]:
    """Return the results with their prices, as they were ordered.

    A corrected result costs nothing and takes the place of one that was paid for.
    """
    every = CheckResult.every.filter(report=report).select_related("definition")
    return every.order_by("position", "id").distinct("position")


class NextResult(Row):
    """The outcome of one future run of a check in a client's sandbox."""

    workspace = models.ForeignKey(Workspace, models.PROTECT, db_index=False)
    check_name = models.CharField(max_length=40)
    # Of the workspace and one number of the subject
    subject = KeyedHashField()
    # A name of the outcomes in `providers/sandbox.toml`
    outcome = models.CharField(max_length=20)
    # The check that has taken it, until its result is recorded
    result_id = models.UUIDField(null=True, unique=True)
    created_at = models.DateTimeField(editable=False)

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(
                fields=["workspace", "check_name", "subject"], name="next_results_known"
            ),
            # The purge
            models.Index(fields=["created_at"], name="next_results_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.check_name} {self.outcome}"


class TurnReservation(models.Model):
    """The time up to which an account's large requests have taken turns."""

    account_id = models.UUIDField(primary_key=True)
    until = models.DateTimeField()

    class Meta:
        verbose_name_plural = "turns taken"

    def __str__(self) -> str:
        return f"{self.account_id} until {self.until}"
