"""Requests of data subjects, corrections, erasures and holds; readers of a report."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from verification.checks.models import CheckResult
from verification.db.encryption import (
    EncryptedJSONField,
    KeyedHashField,
    KeyedUUIDField,
    KeyedUUIDsField,
)
from verification.db.ids import number_index, number_of_id
from verification.db.models import DatedRow, Row
from verification.reports.models import Report
from verification.values.clock import now
from workspaces.models import Environment, Workspace


class RequestKind(models.TextChoices):
    """A right of the data subject; `privacy.requests` has the deadlines."""

    ACCESS = "ACCESS", _("Access")
    PORTABILITY = "PORTABILITY", _("Portability")
    CORRECTION = "CORRECTION", _("Correction")
    OBJECTION = "OBJECTION", _("Objection and restriction")
    ERASURE = "ERASURE", _("Erasure")
    REVIEW = "REVIEW", _("Review of a decision by a person")


class Origin(models.TextChoices):
    """The way by which a request came in."""

    SUBJECT = "SUBJECT", "The subject's page"
    MY_DATA = "MY_DATA", "The page /my-data"
    CLIENT = "CLIENT", "The client"
    STAFF = "STAFF", "Staff"


class Outcome(models.TextChoices):
    DONE = "DONE", "Done"
    REFUSED = "REFUSED", "Refused"
    WITHDRAWN = "WITHDRAWN", "Withdrawn"
    NOTHING_FOUND = "NOTHING_FOUND", "Nothing found"


class SubjectRequests(models.QuerySet["SubjectRequest"]):
    def open(self) -> SubjectRequests:
        """Return the requests without an answer, by the index of the open ones."""
        return self.filter(answered_at=None)

    def clocked(self) -> SubjectRequests:
        """Return the open requests of real people; the sandbox has no deadlines."""
        return self.open().exclude(environment=Environment.SANDBOX)

    def overdue(self) -> SubjectRequests:
        return self.clocked().filter(due_at__lt=now())


class SubjectRequest(Row):
    """An entry of the register: a right that a data subject uses, and its deadline.

    It stays when the subject is erased; `details` is erased.
    """

    Kind = RequestKind
    Origin = Origin
    Outcome = Outcome

    kind = models.CharField(max_length=11, choices=RequestKind)
    origin = models.CharField(max_length=7, choices=Origin)
    # Both are null for a request from /my-data, which names no client.
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, null=True, related_name="subject_requests"
    )
    environment = models.CharField(max_length=10, choices=Environment, blank=True)
    # The ID in `Report.subject_id`; null if it is unknown.
    subject_id = KeyedUUIDField(null=True, db_index=True)
    # The ids of the person's other numbers: of an objection and of an erasure.
    further_ids = KeyedUUIDsField(models.UUIDField(), null=True)
    # The report whose page or row the request came from.
    report = models.ForeignKey(
        Report, models.PROTECT, null=True, related_name="subject_requests"
    )
    # In a join, the keyed hash of the visitor's proved address, which `people.Proof`
    # reads; null for all other requests.
    proved_address = KeyedHashField(null=True)
    # Texts of the subject, such as {number, address} of /my-data, or a reason.
    details = EncryptedJSONField(null=True)
    requested_by = models.CharField(max_length=100)
    received_at = models.DateTimeField(default=now, editable=False)
    due_at = models.DateTimeField()
    # When the e-mails before and after the deadline were written.
    reminded_at = models.DateTimeField(null=True, editable=False)
    overdue_notified_at = models.DateTimeField(null=True, editable=False)
    answered_at = models.DateTimeField(null=True, editable=False)
    outcome = models.CharField(max_length=13, choices=Outcome, blank=True)
    # Why it was refused, for the register. It names no person.
    reason = models.CharField(max_length=500, blank=True)

    objects = SubjectRequests.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="answered_requests_have_an_outcome",
                condition=Q(answered_at=None, outcome="")
                | (Q(answered_at__isnull=False) & ~Q(outcome="")),
            ),
            models.CheckConstraint(
                name="refused_requests_say_why",
                condition=~Q(outcome="REFUSED", reason=""),
            ),
            models.CheckConstraint(
                name="requests_are_due_after_they_came",
                condition=Q(due_at__gt=models.F("received_at")),
            ),
        ]
        indexes = [
            # The objections of a subject, which each order looks for.
            models.Index(
                fields=["subject_id"],
                condition=Q(kind="OBJECTION"),
                name="objections_of_a_subject",
            ),
            # Objections and erasures, by another number of the person
            GinIndex(fields=["further_ids"], name="requests_by_further_ids"),
            # Open requests, for reminders and figures.
            models.Index(
                fields=["due_at"],
                condition=Q(answered_at=None),
                name="subject_requests_open",
            ),
            # The search by the number that people read out.
            number_index("subject_requests_by_number"),
        ]

    def __str__(self) -> str:
        return self.number

    @property
    def number(self) -> str:
        """The number that a person can read out."""
        return number_of_id("D", self.id)

    @property
    def is_overdue(self) -> bool:
        is_clocked = self.environment != Environment.SANDBOX
        return is_clocked and self.answered_at is None and self.due_at < now()


class CorrectionStatus(models.TextChoices):
    OPEN = "OPEN", "Open"
    IN_REVIEW = "IN_REVIEW", "In review"
    CORRECTED = "CORRECTED", "Corrected"
    CONFIRMED = "CONFIRMED", "Confirmed as it was"
    WITHDRAWN = "WITHDRAWN", "Withdrawn by the person"


C = CorrectionStatus
OPEN_CORRECTIONS = (C.OPEN, C.IN_REVIEW)


class Correction(DatedRow):
    """A subject's statement that a finding is wrong, and its review.

    The clocks are those of its SubjectRequest. A re-run of the check makes another
    result of the report; if the reviewer accepts it, it takes the place of `result`.
    """

    Status = CorrectionStatus
    # In `state`, a withdrawal that the erasure of the report made
    ERASED = "ERASED"

    request = models.OneToOneField(
        SubjectRequest, models.PROTECT, related_name="correction"
    )
    report = models.ForeignKey(Report, models.PROTECT, related_name="corrections")
    # The disputed finding. The database refuses to delete it, so an edit of a draft,
    # which has no findings, does not look for corrections.
    result = models.ForeignKey(
        CheckResult, models.DO_NOTHING, related_name="corrections"
    )
    check_name = models.CharField(max_length=40)
    status = models.CharField(
        max_length=9, choices=CorrectionStatus, default=CorrectionStatus.OPEN
    )
    # {what, why, language} of the person.
    statement = EncryptedJSONField(null=True)
    # {reason}, which the person and the client read.
    decision = EncryptedJSONField(null=True)
    # The newest re-run of the check.
    rerun = models.ForeignKey(
        CheckResult, models.DO_NOTHING, null=True, related_name="+", db_index=False
    )
    taken_by = models.CharField(max_length=100, blank=True)
    # This reviewer gets the message that a re-run has ended.
    taken_by_user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.SET_NULL,
        null=True,
        related_name="+",
        db_index=False,
    )
    taken_at = models.DateTimeField(null=True, editable=False)
    decided_by = models.CharField(max_length=100, blank=True)
    decided_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["result"],
                condition=Q(status__in=["OPEN", "IN_REVIEW"]),
                name="one_open_correction_a_result",
            ),
            models.CheckConstraint(
                name="decided_corrections_name_who",
                condition=Q(status__in=OPEN_CORRECTIONS, decided_by="", decided_at=None)
                | (
                    Q(
                        status__in=["CORRECTED", "CONFIRMED", "WITHDRAWN"],
                        decided_at__isnull=False,
                    )
                    & ~Q(decided_by="")
                ),
            ),
            models.CheckConstraint(
                name="corrected_corrections_have_a_rerun",
                condition=~Q(status="CORRECTED", rerun=None),
            ),
        ]
        indexes = [
            # The queues of reviewers.
            models.Index(
                fields=["id"],
                condition=Q(status__in=["OPEN", "IN_REVIEW"]),
                name="corrections_open",
            )
        ]

    def __str__(self) -> str:
        return f"{self.check_name} {self.status}"

    @property
    def is_open(self) -> bool:
        return self.status in OPEN_CORRECTIONS

    @property
    def state(self) -> str:
        """The status for people, who did not withdraw what an erasure ended."""
        return self.ERASED if self.decided_by == "erasure" else self.status

    @property
    def due_at(self) -> datetime:
        return self.request.due_at

    @property
    def reason(self) -> str | None:
        """The reviewer's reason, which the person and the client read."""
        return (self.decision or {}).get("reason")

    @property
    def corrected_result_id(self) -> UUID | None:
        """The result that has taken the place of the wrong one."""
        return self.rerun_id if self.status == C.CORRECTED else None


class Rerun(DatedRow):
    """A run of the disputed check for a correction, also if it was not accepted.

    The person sees it, with the names of the details that the reviewer changed.
    """

    correction = models.ForeignKey(Correction, models.CASCADE, related_name="reruns")
    result = models.OneToOneField(CheckResult, models.DO_NOTHING, related_name="+")
    # The client or staff.
    origin = models.CharField(max_length=7, choices=Origin)
    fields = ArrayField(models.CharField(max_length=40), default=list)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="clients_rerun_with_the_same_details",
                condition=~Q(origin="CLIENT") | Q(fields=[]),
            )
        ]
        ordering = ["id"]

    def __str__(self) -> str:
        return str(self.id)


class CorrectionDocument(DatedRow):
    """A sealed file that a person adds to a correction."""

    correction = models.ForeignKey(Correction, models.CASCADE, related_name="documents")
    # The name of the uploaded file. Pages show it; it is never used as a path.
    name = EncryptedJSONField()
    content_type = models.CharField(max_length=15)
    size = models.PositiveIntegerField()
    # The name in the storage.
    file = models.CharField(max_length=40, unique=True)
    # The key of the file, which is unreadable without this row.
    data_key = EncryptedJSONField()

    def __str__(self) -> str:
        return str(self.id)


class StaffErasure(DatedRow):
    """Staff's request to erase a person, which another member of staff approves.

    It erases either the subject of one report, in that report's workspace, or the
    person with a document number, in all workspaces.
    """

    class Status(models.TextChoices):
        REQUESTED = "REQUESTED", "Waits for a second person"
        APPROVED = "APPROVED"
        REJECTED = "REJECTED"

    report = models.ForeignKey(
        Report, models.PROTECT, null=True, related_name="staff_erasures"
    )
    # {subjectType, country, and one document number}; null once it is decided.
    person = EncryptedJSONField(null=True)
    # The number of reports found, and of their workspaces.
    report_count = models.PositiveIntegerField()
    workspace_count = models.PositiveIntegerField()
    # The reports and rules that the request found, and the ids of the numbers that led
    # to them, first that of the report: each may be erased before the approval. Null
    # once it is decided.
    found_ids = ArrayField(models.UUIDField(), null=True, editable=False)
    subject_ids = KeyedUUIDsField(models.UUIDField(), null=True, editable=False)
    # Erasures that another request had begun when this one was approved.
    earlier_erasures = ArrayField(
        models.UUIDField(), default=list, db_default=[], editable=False
    )
    reason = models.CharField(max_length=500)
    status = models.CharField(max_length=9, choices=Status, default=Status.REQUESTED)
    requested_by = models.CharField(max_length=100)
    # The ids of users, as their names can change.
    requested_by_user = models.BigIntegerField()
    decided_by = models.CharField(max_length=100, blank=True)
    decided_by_user = models.BigIntegerField(null=True)
    decided_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="staff_erasures_say_why", condition=~Q(reason="")
            ),
            models.CheckConstraint(
                name="staff_erasures_are_decided_by_another",
                condition=Q(status="REQUESTED", decided_by_user=None, decided_at=None)
                | Q(status="REJECTED", decided_by_user__isnull=False)
                | Q(
                    Q(status="APPROVED", decided_by_user__isnull=False),
                    ~Q(decided_by_user=models.F("requested_by_user")),
                ),
            ),
            models.CheckConstraint(
                name="staff_erasures_name_one_person",
                condition=Q(status="REQUESTED", report=None, person__isnull=False)
                | Q(report__isnull=False, person=None)
                | (~Q(status="REQUESTED") & Q(person=None)),
            ),
        ]
        indexes = [
            models.Index(
                fields=["id"],
                condition=Q(status="REQUESTED"),
                name="staff_erasures_to_decide",
            )
        ]

    def __str__(self) -> str:
        return f"{self.report_count} reports ({self.status})"

    @property
    def scope(self) -> str:
        """The scope of the erasure, for staff."""
        return str(self.report.workspace) if self.report else "All workspaces"


class Erasure(DatedRow):
    """The erasure of one person in one workspace and environment, and its certificate.

    It waits while `ended_at` is null. Neither this row nor its certificate holds
    personal data.
    """

    request = models.OneToOneField(
        SubjectRequest, models.PROTECT, related_name="erasure"
    )
    # The approved request of staff, if it was theirs.
    staff_erasure = models.ForeignKey(
        StaffErasure, models.PROTECT, null=True, related_name="erasures"
    )
    # The person's reports: those of the request, and what the job finds. Afterwards
    # nothing else tells whose these reports were.
    report_ids = ArrayField(models.UUIDField(), default=list, editable=False)
    rule_ids = ArrayField(models.UUIDField(), default=list, editable=False)
    # The kinds of numbers by which they were found, for the certificate.
    searched_by = ArrayField(
        models.CharField(max_length=20), default=list, db_default=[], editable=False
    )
    # Reports and rules that were made later are of another purpose, and stay.
    found_at = models.DateTimeField(null=True, editable=False)
    ended_at = models.DateTimeField(null=True, editable=False)
    report_count = models.PositiveIntegerField(default=0)
    # Table -> number of rows that were erased.
    counts = models.JSONField(default=dict, blank=True)
    # The exact bytes that are signed, and the Ed25519 signature; empty before the end.
    certificate = models.TextField(blank=True)
    signature = models.BinaryField(null=True)
    # When late data of the person is looked for again; null after the last time.
    sweep_at = models.DateTimeField(null=True, editable=False)
    sweeps = models.PositiveSmallIntegerField(default=0, editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="ended_erasures_have_a_certificate",
                condition=Q(ended_at=None, certificate="", signature=None)
                | (
                    Q(ended_at__isnull=False, signature__isnull=False)
                    & ~Q(certificate="")
                ),
            ),
        ]
        indexes = [
            models.Index(
                fields=["id"], condition=Q(ended_at=None), name="erasures_to_do"
            ),
            models.Index(
                fields=["sweep_at"],
                condition=Q(sweep_at__isnull=False),
                name="erasures_to_sweep",
            ),
            # The erasure of a report
            GinIndex(fields=["report_ids"], name="erasures_of_a_report"),
            # The search by the number of a certificate.
            number_index("erasures_by_number"),
        ]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def number(self) -> str:
        return number_of_id("E", self.id)


class SigningKey(models.Model):
    """A public key that has signed certificates; it is published for ever."""

    # The first 16 digits of the SHA-256 of the key (DER, SubjectPublicKeyInfo).
    id = models.CharField(primary_key=True, max_length=16, editable=False)
    pem = models.CharField(max_length=200)
    first_used_at = models.DateTimeField(default=now, editable=False)

    def __str__(self) -> str:
        return self.id


class JournalEntry(models.Model):
    """A file of the journal that this database knows.

    Files of erasures and of the retention's runs are known by the ids of their rows.
    """

    name = models.CharField(primary_key=True, max_length=100, editable=False)
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        verbose_name_plural = "journal entries"

    def __str__(self) -> str:
        return self.name


class RetentionRun(Row):
    """One run of the retention in one workspace and environment.

    It claims reports and rules, and then erases them.
    """

    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="retention_runs"
    )
    environment = models.CharField(max_length=10, choices=Environment)
    # Reports that ended before this time were erased.
    before = models.DateTimeField()
    report_count = models.PositiveIntegerField()
    # The reports and rules that the run has claimed; null once they are erased
    report_ids = ArrayField(models.UUIDField(), null=True, editable=False)
    rule_ids = ArrayField(models.UUIDField(), null=True, editable=False)
    created_at = models.DateTimeField(default=now, editable=False, db_index=True)

    def __str__(self) -> str:
        return f"{self.report_count} reports"


class Holds(models.QuerySet["Hold"]):
    def open(self, at: datetime) -> Holds:
        """Return the holds that neither ended nor were released."""
        return self.filter(released_at=None, ends_at__gt=at)


class Hold(DatedRow):
    """Staff's order to keep a report beyond its retention, with a reason and an end."""

    report = models.ForeignKey(Report, models.PROTECT, related_name="holds")
    reason = models.CharField(max_length=500)
    ends_at = models.DateTimeField()
    held_by = models.CharField(max_length=100)
    released_by = models.CharField(max_length=100, blank=True)
    released_at = models.DateTimeField(null=True, editable=False)

    objects = Holds.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(name="holds_say_why", condition=~Q(reason="")),
            models.CheckConstraint(
                name="holds_end_after_they_begin",
                condition=Q(ends_at__gt=models.F("created_at")),
            ),
            models.CheckConstraint(
                name="released_holds_name_who",
                condition=Q(released_at=None, released_by="")
                | (Q(released_at__isnull=False) & ~Q(released_by="")),
            ),
        ]

    def __str__(self) -> str:
        return f"until {self.ends_at:%Y-%m-%d}"

    @property
    def is_open(self) -> bool:
        return self.released_at is None and self.ends_at > now()


class Channel(models.TextChoices):
    """The way in which a recipient received a report."""

    API = "API", "API"
    PDF = "PDF", "PDF document"
    CONSOLE = "CONSOLE", "Console"
    SUBJECT = "SUBJECT", "The subject's page"


class Disclosure(Row):
    """A recipient who has read a report, with the first and the last time.

    Webhook deliveries and staff's page views have tables of their own.
    """

    report = models.ForeignKey(
        Report, models.CASCADE, related_name="disclosures", db_index=False
    )
    channel = models.CharField(max_length=7, choices=Channel)
    # The API key or member.
    recipient = models.CharField(max_length=100)
    first_at = models.DateTimeField(default=now, editable=False)
    # Written at most once an hour.
    last_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["report", "channel", "recipient"],
                name="one_disclosure_a_recipient",
            )
        ]

    def __str__(self) -> str:
        return f"{self.channel} {self.recipient}"


class ErasedCount(models.Model):
    """Counts of a day's erased reports by package; the figures still include them.

    A recount of a day needs them, as the reports' levels and alerts are erased. The row
    names no report.
    """

    class What(models.TextChoices):
        LOW = "LOW", "Reports with a low risk"
        MEDIUM = "MEDIUM", "Reports with a medium risk"
        HIGH = "HIGH", "Reports with a high risk"
        ALERT = "ALERT", "Alerts"

    id = models.BigAutoField(primary_key=True)
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="+", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    # The day on which the reports were created, or the alerts, in Nairobi
    day = models.DateField()
    package = models.CharField(max_length=40, null=True)  # noqa: DJ001
    what = models.CharField(max_length=6, choices=What)
    count = models.PositiveIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "environment", "day", "package", "what"],
                nulls_distinct=False,
                name="one_erased_count_a_day_and_package",
            )
        ]

    def __str__(self) -> str:
        return f"{self.count} {self.what} on {self.day}"
