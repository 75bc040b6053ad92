"""Rules, runs, baselines and alerts, and the lists of them.

A rule runs at whole periods after its creation, in UTC.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from dateutil.relativedelta import relativedelta
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import F, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.functions import Greatest

from verification.db.base import ResultPage, read_page
from verification.db.encryption import (
    EncryptedJSONField,
    KeyedTermsField,
    KeyedUUIDField,
)
from verification.db.models import DatedRow, Row
from verification.reports.models import (
    Report,
    SubjectType,
    fold_name,
    objection_ids,
)
from verification.reports.queries import Terms, bigint_values
from workspaces.models import Client, Environment, Workspace


class Cadence(models.TextChoices):
    DAILY = "DAILY"
    WEEKLY = "WEEKLY"
    MONTHLY = "MONTHLY"
    QUARTERLY = "QUARTERLY"
    SEMI_ANNUALLY = "SEMI_ANNUALLY"
    ANNUALLY = "ANNUALLY"


# The days and the months of a period.
PERIODS = {
    Cadence.DAILY: (1, 0),
    Cadence.WEEKLY: (7, 0),
    Cadence.MONTHLY: (0, 1),
    Cadence.QUARTERLY: (0, 3),
    Cadence.SEMI_ANNUALLY: (0, 6),
    Cadence.ANNUALLY: (0, 12),
}


def next_run_time(start: datetime, cadence: str, after: datetime) -> datetime:
    """Return the first time of a rule after a moment; missed times are skipped.

    Each time is counted from the start: a rule that was made on the 31st runs on the
    last day of a shorter month, and on the 31st of the next.
    """
    days, months = PERIODS[Cadence(cadence)]
    start, period = start.astimezone(UTC), relativedelta(days=days, months=months)
    # No period is longer, so the count begins at a time that is not too late.
    number = max(1, (after - start) // timedelta(days=days + 31 * months))
    while (time := start + period * number) <= after:
        number += 1
    return time


class RuleStatus(models.TextChoices):
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"


class PauseReason(models.TextChoices):
    CONSENT_WITHDRAWN = "CONSENT_WITHDRAWN", "The subject withdrew consent"
    INSUFFICIENT_BALANCE = "INSUFFICIENT_BALANCE", "The balance did not cover a run"
    CHECK_INACTIVE = "CHECK_INACTIVE", "A check is not offered any more"
    BY_STAFF = "BY_STAFF", "Paused by staff"
    BY_CLIENT = "BY_CLIENT", "Paused by the client"
    OBJECTION = "OBJECTION", "The subject objected"


class Rule(DatedRow):
    """A rule: it runs chosen checks on one subject again and again.

    It is due when `next_run_at` has passed. The transaction that launches a run also
    moves `next_run_at`, so that each time runs once. A rule that cannot be launched now
    is put off, so that it does not block the rules behind it.
    """

    # The index `rule_list` serves these queries.
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="monitoring_rules", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    # A workspace's reports have the same id for the same person or company.
    subject_id = KeyedUUIDField()
    subject_type = models.CharField(max_length=10, choices=SubjectType)
    subject_name = models.CharField(max_length=620)
    # The name for searches, and the hashed search terms, as for a report.
    search_name = models.TextField(default="", editable=False)
    terms = KeyedTermsField(models.BigIntegerField(), editable=False)
    # The members of the interface's Subject object, and the inputs of the checks.
    subject = EncryptedJSONField()
    check_names = ArrayField(models.CharField(max_length=40))
    # The name of the package that it was made with. Its checks may have changed since.
    package = models.CharField(max_length=40, null=True, blank=True)  # noqa: DJ001
    cadence = models.CharField(max_length=13, choices=Cadence)
    # In the form of a report's request; null if no check needs consent.
    consent = EncryptedJSONField(null=True)
    reference = models.CharField(max_length=100, null=True, blank=True)  # noqa: DJ001
    status = models.CharField(
        max_length=6, choices=RuleStatus, default=RuleStatus.ACTIVE
    )
    pause_reason = models.CharField(max_length=20, choices=PauseReason, blank=True)
    paused_at = models.DateTimeField(null=True)
    # The client's own pause, which a pause by staff leaves in force.
    paused_by_client = models.BooleanField(default=False, db_default=False)
    # When the subject withdrew consent or objected. Set until the client attests a
    # consent that was given later.
    consent_withdrawn_at = models.DateTimeField(null=True)
    # When members were notified of the pause; null before it.
    notified_at = models.DateTimeField(null=True)
    # All times are counted from here.
    starts_at = models.DateTimeField()
    next_run_at = models.DateTimeField()
    # The rule is not tried before this time, even if it is due.
    put_off_until = models.DateTimeField(null=True)
    launch_at = models.GeneratedField(
        expression=Greatest("next_run_at", "put_off_until"),
        output_field=models.DateTimeField(),
        db_persist=True,
    )
    # Failed launches in a row, and the class of the last exception, whose message may
    # hold personal data.
    launch_failures = models.PositiveIntegerField(default=0, db_default=0)
    last_error = models.CharField(max_length=100, blank=True, default="", db_default="")
    # The number of runs so far.
    runs_made = models.PositiveIntegerField(default=0)
    # The check that the next run leaves out. Not stored: each launch finds it anew.
    left_out = ""
    created_by = models.CharField(max_length=100)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="a_pause_says_why_and_when",
                condition=Q(
                    status=RuleStatus.PAUSED,
                    pause_reason__in=PauseReason.values,
                    paused_at__isnull=False,
                )
                | Q(status=RuleStatus.ACTIVE, pause_reason="", paused_at=None),
            ),
            models.CheckConstraint(
                name="no_rule_runs_without_consent",
                condition=Q(pause_reason="BY_STAFF")
                | Q(
                    pause_reason__in=["CONSENT_WITHDRAWN", "OBJECTION"],
                    consent_withdrawn_at__isnull=False,
                )
                | (
                    ~Q(pause_reason__in=["CONSENT_WITHDRAWN", "OBJECTION"])
                    & Q(consent_withdrawn_at=None)
                ),
            ),
            models.CheckConstraint(
                name="a_rule_runs_after_its_start",
                condition=Q(next_run_at__gt=F("starts_at")),
            ),
        ]
        indexes = [
            models.Index(
                fields=["launch_at", "id"],
                condition=Q(status="ACTIVE"),
                name="rules_due",
            ),
            # Searches of staff.
            models.Index(
                fields=["id"],
                condition=Q(launch_failures__gt=0),
                name="rules_not_launched",
            ),
            # Pauses that members were not notified of.
            models.Index(
                fields=["workspace", "environment", "pause_reason"],
                condition=Q(
                    notified_at=None,
                    pause_reason__in=[
                        "CHECK_INACTIVE",
                        "CONSENT_WITHDRAWN",
                        "INSUFFICIENT_BALANCE",
                        "OBJECTION",
                    ],
                ),
                name="rules_paused_untold",
            ),
            models.Index(
                "workspace",
                "environment",
                F("created_at").desc(),
                F("id").desc(),
                include=["search_name"],
                name="rule_list",
            ),
            # A withdrawn consent pauses the rules on its subject.
            models.Index(fields=["subject_id"], name="rules_of_a_subject"),
            GinIndex(fields=["terms"], name="rule_terms"),
        ]

    def __str__(self) -> str:
        return f"{self.cadence} {self.id}"

    @property
    def is_active(self) -> bool:
        return self.status == RuleStatus.ACTIVE

    @property
    def subject_ids(self) -> list[UUID]:
        """The ids by which objections are found; the first is the subject's own."""
        others = objection_ids(self.workspace_id, self.environment, self.subject)
        return [self.subject_id, *others]


class Run(DatedRow):
    """One run of a rule, and its report. Deleting the rule deletes its runs."""

    rule = models.ForeignKey(Rule, models.CASCADE, related_name="runs")
    report = models.OneToOneField(Report, models.CASCADE, related_name="monitoring_run")
    # 1 is the baseline.
    number = models.PositiveIntegerField()
    # The time that it was due, or the time of the request for it.
    due_at = models.DateTimeField()
    # Null until its results are compared with those of the run before.
    compared_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            # No constraint on rule and time: the lock on the rule ensures that a time
            # runs once.
            models.UniqueConstraint(
                fields=["rule", "number"], name="runs_of_a_rule_are_counted"
            ),
        ]
        indexes = [
            # The query for lost runs.
            models.Index(
                fields=["created_at"],
                condition=Q(compared_at=None),
                name="runs_not_compared",
            )
        ]

    def __str__(self) -> str:
        return f"run {self.number}"


class Baseline(Row):
    """The last finding of a rule's check, for comparison with the next run.

    It also counts the runs in which the check has failed since.
    """

    rule = models.ForeignKey(
        Rule, models.CASCADE, related_name="baselines", db_index=False
    )
    check_name = models.CharField(max_length=40)
    # Of the last run in which the check completed; null and 0 before the first one.
    result_id = models.UUIDField(null=True)
    run_number = models.PositiveIntegerField(default=0)
    completed_at = models.DateTimeField(null=True)
    # {riskLevel, flags: {code: severity}, details}
    said = EncryptedJSONField(null=True)
    # The failed runs in a row, and the number of the last one.
    unanswered = models.PositiveIntegerField(default=0, db_default=0)
    failed_number = models.PositiveIntegerField(default=0, db_default=0)
    # The run whose alert said that the check was not done
    told_number = models.PositiveIntegerField(default=0, db_default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["rule", "check_name"], name="one_baseline_a_check"
            )
        ]

    def __str__(self) -> str:
        return self.check_name


class Severity(models.TextChoices):
    INFO = "INFO"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"


class AlertKind(models.TextChoices):
    CHANGE = "CHANGE", "A result changed"
    NO_ANSWER = "NO_ANSWER", "A check could not be done"


class Alert(DatedRow):
    """A change since the run before, or a check that failed in several runs.

    An alert stays if its rule is deleted.
    """

    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="alerts", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    # No foreign key: rules can be deleted.
    rule_id = models.UUIDField()
    report = models.ForeignKey(Report, models.CASCADE, related_name="alerts")
    kind = models.CharField(
        max_length=9,
        choices=AlertKind,
        default=AlertKind.CHANGE,
        db_default=AlertKind.CHANGE,
    )
    title = models.CharField(max_length=200)
    # Sealed, because the text names flags of the subject.
    message = EncryptedJSONField()
    severity = models.CharField(max_length=8, choices=Severity)
    # [{checkName, field, old, new}]; empty if the alert is about failed checks.
    changes = EncryptedJSONField()
    read = models.BooleanField(default=False)
    actioned = models.BooleanField(default=False)

    class Meta:
        indexes = [
            models.Index(
                "workspace",
                "environment",
                F("created_at").desc(),
                F("id").desc(),
                include=["severity", "read"],
                name="alert_list",
            ),
            # Unread alerts: their list, and the request that marks all as read.
            models.Index(
                "workspace",
                "environment",
                F("created_at").desc(),
                F("id").desc(),
                condition=Q(read=False),
                include=["severity"],
                name="alerts_unread",
            ),
            # The newest alert of a rule.
            models.Index("rule_id", F("id").desc(), name="alerts_of_a_rule"),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def reference(self) -> str | None:
        return self.report.reference


MAX_RECENT_ALERTS = 10
NEWEST_FIRST = "-created_at", "-id"


@dataclass(frozen=True, slots=True)
class CheckState:
    """The last completion of a rule's check, and its failed runs since then."""

    name: str
    completed_at: datetime | None
    unanswered: int


def list_rules(
    client: Client,
    search: str | None,
    *,
    status: str | None = None,
    page: int,
    size: int,
) -> ResultPage[Rule]:
    """List rules; `search` is a part of the subject's name or a whole identifier."""
    rules = rules_of(client)
    if search:
        rules = rules.filter(_matching(client, search))
    if status is not None:
        rules = rules.filter(status=status)
    return read_page(rules.order_by(*NEWEST_FIRST), page, size)


def list_alerts(
    client: Client,
    *,
    read: bool | None,
    rule_id: UUID | None = None,
    severity: str | None,
    page: int,
    size: int,
) -> ResultPage[Alert]:
    alerts = alerts_of(client)
    if rule_id is not None:
        alerts = alerts.filter(rule_id=rule_id)
    if read is not None:
        alerts = alerts.filter(read=read)
    if severity is not None:
        alerts = alerts.filter(severity=severity)
    return read_page(alerts.order_by(*NEWEST_FIRST), page, size)


def rules_of(client: Client) -> QuerySet[Rule]:
    return Rule.objects.filter(**client.lookups)


def locked_rules() -> QuerySet[Rule]:
    """Return rules that are locked as they are read, in the same order everywhere.

    Rules come before the reports of their runs, and accounts last.
    """
    rules = Rule.objects.select_for_update(of=("self",), no_key=True)
    return rules.order_by("pk")


def lock_rule(client: Client, rule_id: UUID) -> Rule:
    """Return the client's rule, locked; raise Rule.DoesNotExist if it has none."""
    return locked_rules().get(pk=rule_id, **client.lookups)


def alerts_of(client: Client) -> QuerySet[Alert]:
    return Alert.objects.select_related("report").filter(**client.lookups)


def recent_alerts(rule_ids: Sequence[UUID]) -> dict[UUID, list[Alert]]:
    """Return the newest alerts of each rule, in one query that reads only these."""
    newest = RawSQL(
        """
        SELECT a.id FROM unnest(%s::uuid[]) AS r(id) CROSS JOIN LATERAL (
            SELECT id FROM monitoring_alert WHERE rule_id = r.id
            ORDER BY id DESC LIMIT %s
        ) a
        """,
        [list(rule_ids), MAX_RECENT_ALERTS],
    )
    found = defaultdict(list)
    alerts = Alert.objects.select_related("report").filter(pk__in=newest)
    for alert in alerts.order_by("-id"):
        found[alert.rule_id].append(alert)
    return found


def check_states(rules: Sequence[Rule]) -> dict[UUID, list[CheckState]]:
    """Return the states of each rule's checks, in the rule's order."""
    rows = Baseline.objects.filter(rule__in=[rule.pk for rule in rules])
    fields = ("rule_id", "check_name", "completed_at", "unanswered")
    known = {(rule, name): more for rule, name, *more in rows.values_list(*fields)}
    return {
        rule.pk: [
            CheckState(name, *known.get((rule.pk, name), (None, 0)))
            for name in rule.check_names
        ]
        for rule in rules
    }


def _matching(client: Client, search: str) -> Q:
    terms = Terms(*client.where)
    name = fold_name(search)
    by_name = Q(search_name__contains=name)
    if grams := terms.of_name(name):
        by_name &= Q(terms__contains=bigint_values(grams))
    return by_name | Q(terms__overlap=bigint_values(terms.of_search(search)))
