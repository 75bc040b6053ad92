"""Figures of each day, the days that have to be counted, and how far this has come."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from verification.values.clock import now
from workspaces.models import Environment, Workspace

# In the minor units of the account's currency
SUMS = ("charged", "reversed")


def _count() -> models.PositiveIntegerField:
    return models.PositiveIntegerField(default=0)


def _numbers() -> ArrayField:
    return ArrayField(models.IntegerField(), default=list)


class DailyFigure(models.Model):
    """The figures of a workspace's day, for each package and check.

    `package` is null for reports that were ordered without one. Rows with
    `all_packages` are the sums of all packages, so that a year is read quickly.
    `check_name` is null for whole reports; otherwise the row counts one check. A report
    with its results and its decision belongs to the day of its creation. Money, alerts
    and corrections belong to their own day. Days are those of Nairobi.

    The figures name no person, so they stay when reports are erased.
    """

    id = models.BigAutoField(primary_key=True)
    # The unique constraint begins with this column.
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="daily_figures", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    all_packages = models.BooleanField(default=False)
    day = models.DateField()
    package = models.CharField(max_length=40, null=True)  # noqa: DJ001
    check_name = models.CharField(max_length=40, null=True)  # noqa: DJ001
    created = _count()
    drafts = _count()
    # Of a check: completed
    ready = _count()
    # Ended with failed checks
    partial = _count()
    failed = _count()
    cancelled = _count()
    # Levels of whole reports
    low = _count()
    medium = _count()
    high = _count()
    # The decisions that count
    approved = _count()
    declined = _count()
    review = _count()
    alerts = _count()
    corrections = _count()
    corrected = _count()
    charged = models.BigIntegerField(default=0)
    reversed = models.BigIntegerField(default=0)
    # Durations of reports from launch to end, and of checks: the numbers of buckets
    # (`figures.durations`), and the count in each
    turnaround_buckets = _numbers()
    turnaround_counts = _numbers()
    # Durations from the launch of a report to its approval or decline
    decision_buckets = _numbers()
    decision_counts = _numbers()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "workspace",
                    "environment",
                    "all_packages",
                    "day",
                    "package",
                    "check_name",
                ],
                nulls_distinct=False,
                name="one_figure_a_day_package_and_check",
            ),
            models.CheckConstraint(
                name="figures_of_all_packages_name_none",
                condition=Q(all_packages=False) | Q(package=None),
            ),
            models.CheckConstraint(
                name="each_bucket_has_a_count",
                condition=Q(
                    turnaround_buckets__len=F("turnaround_counts__len"),
                    decision_buckets__len=F("decision_counts__len"),
                ),
            ),
        ]
        indexes = [
            # Totals of whole reports, which are few among the rows of their checks
            models.Index(
                fields=["workspace", "environment", "all_packages", "day"],
                condition=Q(check_name=None),
                name="figures_of_reports",
            )
        ]

    def __str__(self) -> str:
        return f"{self.day} {self.package or '-'} {self.check_name or 'reports'}"


COUNTS = tuple(
    field.name
    for field in DailyFigure._meta.fields
    if isinstance(field, models.PositiveIntegerField)
)


class DueDay(models.Model):
    """A day that has to be counted, for the first time or because it changed."""

    id = models.BigAutoField(primary_key=True)
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="+", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    day = models.DateField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "environment", "day"], name="a_day_is_due_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.day} of {self.workspace_id}"


class Progress(models.Model):
    """Up to when changes have made days due. There is one row, or none at first."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    read_to = models.DateTimeField(default=now)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="there_is_one_progress_of_figures", condition=Q(id=1)
            )
        ]

    def __str__(self) -> str:
        return f"until {self.read_to}"
