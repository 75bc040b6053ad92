"""Reports, their subjects and timelines, and what finds them again."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from verification.db.encryption import (
    EncryptedJSONField,
    KeyedHashField,
    KeyedTermsField,
    KeyedUUIDField,
    KeyedUUIDsField,
    keyed_hash,
    keyed_uuid,
)
from verification.db.ids import number_index, number_of_id, uuid7
from verification.db.models import DatedRow, Row
from verification.values.clock import now
from verification.values.masking import normalise_identifier
from verification.values.public_text import APOSTROPHES
from workspaces.models import Environment, Workspace

# A row of an index holds 2,704 bytes, and folding can turn one character into 18.
SEARCH_BYTES = 2500
PLAIN_APOSTROPHES = str.maketrans(dict.fromkeys(APOSTROPHES, "'"))
# The first of these members that a subject has is its identity.
IDENTIFIERS = ("idNumber", "registrationNumber", "kraPin")
PERSON_IDENTIFIERS = ("idNumber", "kraPin")
NAME_PARTS = ("firstName", "middleName", "lastName")
# The names that people read for the members of a subject, in both languages
SUBJECT_LABELS: dict[str, Promise] = {
    "fullName": _("Full name"),
    "firstName": _("First name"),
    "middleName": _("Middle name"),
    "lastName": _("Last name"),
    "idNumber": _("ID number"),
    "kraPin": _("KRA PIN"),
    "registrationNumber": _("Registration number"),
    "dateOfBirth": _("Date of birth"),
    "country": _("Country"),
    "email": _("E-mail address"),
    "phone": _("Phone number"),
    "employerName": _("Employer"),
    "refereeName": _("Referee"),
    "refereeEmail": _("E-mail address of the referee"),
    "jobTitle": _("Job title"),
    "employmentStart": _("Start of the employment"),
    "employmentEnd": _("End of the employment"),
    "postalAddress": _("Postal address"),
    "postalCode": _("Postal code"),
}


class SubjectType(models.TextChoices):
    INDIVIDUAL = "INDIVIDUAL"
    COMPANY = "COMPANY"


class PaymentMode(models.TextChoices):
    SELF = "SELF", "The workspace pays"
    CANDIDATE = "CANDIDATE", "The subject pays through a payment link"
    THIRD_PARTY = "THIRD_PARTY", "A nominated payer pays"


class RiskLevel(models.TextChoices):
    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    UNKNOWN = "UNKNOWN"

    @classmethod
    def of(cls, score: int | None) -> RiskLevel:
        if score is None:
            return cls.UNKNOWN
        if score < 30:
            return cls.LOW
        return cls.MEDIUM if score < 70 else cls.HIGH


class ReportStatus(models.TextChoices):
    DRAFT = "DRAFT"
    PENDING_CONSENT = "PENDING_CONSENT"
    PENDING_PAYMENT = "PENDING_PAYMENT"
    RUNNING = "RUNNING"
    PARTIAL = "PARTIAL"
    READY = "READY"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


S = ReportStatus
# Of reports without an end; an ended report can be PARTIAL, too. `report_not_ready`
# finds them.
UNENDED = (S.DRAFT, S.PENDING_CONSENT, S.PENDING_PAYMENT, S.RUNNING, S.PARTIAL)


class Report(DatedRow):
    """One verification of one subject, ordered by a client."""

    Status = ReportStatus

    # All legal moves. A retry of an ended PARTIAL report, and its end, are moves from
    # PARTIAL to PARTIAL. CANCELLED is final.
    TRANSITIONS: dict[str, set[str]] = {
        S.DRAFT: {S.RUNNING, S.CANCELLED},
        S.PENDING_CONSENT: {S.PENDING_PAYMENT, S.RUNNING, S.FAILED, S.CANCELLED},
        S.PENDING_PAYMENT: {S.RUNNING, S.FAILED, S.CANCELLED},
        S.RUNNING: {S.PARTIAL, S.READY, S.FAILED, S.CANCELLED},
        S.PARTIAL: {S.RUNNING, S.PARTIAL, S.READY, S.FAILED, S.CANCELLED},
        S.READY: {S.RUNNING, S.PARTIAL},
        S.FAILED: {S.RUNNING, S.PARTIAL},
    }

    # The index `report_list` begins with this column.
    workspace = models.ForeignKey(
        Workspace, models.PROTECT, related_name="reports", db_index=False
    )
    environment = models.CharField(max_length=10, choices=Environment)
    status = models.CharField(max_length=15, choices=ReportStatus)
    # All reports of a workspace about one person or company share this id.
    subject_id = KeyedUUIDField()
    subject_type = models.CharField(max_length=10, choices=SubjectType)
    country = models.CharField(max_length=2)
    subject_name = models.CharField(max_length=620)
    # The folded name for searches, short enough for an index
    search_name = models.TextField(default="", editable=False)
    # The members of the interface's Subject object, and the inputs of the checks.
    subject = EncryptedJSONField(null=True)
    checks_requested = ArrayField(models.CharField(max_length=40))
    # The name of the package that it was ordered by. Its checks may have changed since.
    package = models.CharField(max_length=40, null=True, blank=True)  # noqa: DJ001
    purpose = models.CharField(max_length=500)
    payment_mode = models.CharField(max_length=11, choices=PaymentMode)
    # True if its checks may reuse fresh earlier results
    reuse = models.BooleanField(default=True)
    # True if the request said so itself; null in rows of older versions
    reuse_requested = models.BooleanField(null=True)
    reference = models.CharField(max_length=100, null=True, blank=True)  # noqa: DJ001
    # The return address; sealed, as the client writes its query. Null for the default
    return_url = EncryptedJSONField(null=True)
    # The monitoring rule that ordered it; not a foreign key, as rules can be deleted
    monitoring_id = models.UUIDField(null=True, editable=False)
    risk_score = models.PositiveSmallIntegerField(null=True)
    risk_level = models.CharField(
        max_length=7, choices=RiskLevel, default=RiskLevel.UNKNOWN
    )
    failure_code = models.CharField(max_length=40, blank=True)
    failure_message = models.CharField(max_length=300, blank=True)
    created_by = models.CharField(max_length=100)
    updated_at = models.DateTimeField(default=now, editable=False)
    launched_at = models.DateTimeField(null=True)
    completed_at = models.DateTimeField(null=True)
    # Set when the subject objected: no monitoring and no reuse of its results.
    restricted_at = models.DateTimeField(null=True, editable=False)
    # Set when the personal data was erased; `privacy.personal_data` says what goes.
    erased_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints = [
            # A PARTIAL report has ended if it has `completed_at`.
            models.CheckConstraint(
                name="report_completed_at_tells_its_end",
                condition=Q(
                    status__in=[S.READY, S.FAILED, S.CANCELLED],
                    completed_at__isnull=False,
                )
                | Q(status=S.PARTIAL)
                | Q(
                    status__in=[
                        S.DRAFT,
                        S.PENDING_CONSENT,
                        S.PENDING_PAYMENT,
                        S.RUNNING,
                    ],
                    completed_at__isnull=True,
                ),
            ),
            models.CheckConstraint(
                name="report_launched_at_unless_draft",
                condition=Q(status=S.DRAFT, launched_at__isnull=True)
                | Q(status=S.CANCELLED)
                | (~Q(status=S.DRAFT) & Q(launched_at__isnull=False)),
            ),
            models.CheckConstraint(
                name="report_risk_score_0_to_100",
                condition=Q(risk_score__isnull=True) | Q(risk_score__lte=100),
            ),
            models.CheckConstraint(
                name="erased_report_names_nobody",
                condition=Q(erased_at=None)
                | Q(
                    subject=None,
                    subject_name="",
                    search_name="",
                    purpose="",
                    reference=None,
                    risk_score=None,
                    completed_at__isnull=False,
                ),
            ),
        ]
        indexes = [
            # Lists, and searches that `search_terms` does not narrow down enough. All
            # filters are columns of this index.
            models.Index(
                "workspace",
                "environment",
                models.F("created_at").desc(),
                models.F("id").desc(),
                include=["status", "subject_type", "search_name"],
                name="report_list",
            ),
            # Lists with the highest risk first
            models.Index(
                "workspace",
                "environment",
                models.F("risk_score").desc(nulls_last=True),
                models.F("id").desc(),
                name="report_by_risk",
            ),
            # Lists by a status that few reports have
            models.Index(
                "workspace",
                "environment",
                "status",
                models.F("created_at").desc(),
                models.F("id").desc(),
                include=["subject_type", "search_name"],
                condition=~Q(status="READY"),
                name="report_not_ready",
            ),
            # Stuck reports of all workspaces
            models.Index(
                fields=["updated_at"],
                condition=Q(status__in=[S.RUNNING, S.PARTIAL], completed_at=None),
                name="reports_under_way",
            ),
            # Staff search for the beginning of a client's reference.
            models.Index(
                fields=["reference"],
                condition=Q(reference__isnull=False),
                opclasses=["varchar_pattern_ops"],
                name="report_reference",
            ),
            # Totals. PostgreSQL stores equal keys once, so a million rows take 7 MB.
            models.Index(
                fields=["workspace", "environment", "status", "subject_type"],
                name="report_totals",
            ),
            # All reports about one person, for access, objection and erasure
            models.Index(fields=["subject_id"], name="reports_of_a_subject"),
            # Reports whose retention ends
            models.Index(
                fields=["workspace", "environment", "completed_at"],
                condition=Q(completed_at__isnull=False, erased_at=None),
                name="reports_to_erase",
            ),
            # The number that is printed on the PDF document
            number_index("reports_by_number"),
        ]

    def __str__(self) -> str:
        return str(self.id)

    @property
    def number(self) -> str:
        """The number that is printed on the PDF document."""
        return number_of_id("R", self.id)

    @property
    def is_ended(self) -> bool:
        return self.completed_at is not None

    @property
    def requested_reuse(self) -> bool | None:
        """The `reuse` of the request, or None if the request leaves it out."""
        if self.reuse_requested:
            return True
        return None if self.reuse else False

    @property
    def subject_ids(self) -> list[UUID]:
        """The ids of all identifying numbers of the subject; the first is its own."""
        further = further_ids(self.workspace_id, self.environment, self.subject or {})
        return [self.subject_id, *further]


class SearchEntry(models.Model):
    """The search terms of a report, in a row that never changes, nor does its index.

    `terms` are 64-bit hashes, keyed by workspace and environment, of every three
    letters in a row of the name, and of the whole identifiers. `further_ids` are the
    ids of the subject's numbers beside the one that makes the report's `subject_id`,
    and of numbers that a correction has replaced.
    """

    report = models.OneToOneField(
        Report, models.CASCADE, primary_key=True, related_name="search_entry"
    )
    terms = KeyedTermsField(models.BigIntegerField())
    # Null in rows of an older version, until `privacy.people.fill_further_ids` has been
    # there.
    further_ids = KeyedUUIDsField(models.UUIDField(), null=True)

    class Meta:
        verbose_name_plural = "search entries"
        indexes = [
            GinIndex(fields=["terms"], name="search_terms"),
            # Finds a person's reports by their other numbers
            GinIndex(fields=["further_ids"], name="search_further_ids"),
            models.Index(
                fields=["report"],
                condition=Q(further_ids=None),
                name="search_entries_to_fill",
            ),
        ]

    def __str__(self) -> str:
        return str(self.report_id)


class StatusChange(DatedRow):
    """One entry of a report's timeline: a change of its status, or a note.

    In a note, `source` and `target` are the same.
    """

    report = models.ForeignKey(Report, models.CASCADE, related_name="status_changes")
    source = models.CharField(max_length=15, choices=ReportStatus, blank=True)
    target = models.CharField(max_length=15, choices=ReportStatus)
    trigger = models.CharField(max_length=60)
    actor = models.CharField(max_length=100)

    class Meta:
        ordering = ["created_at", "id"]

    def __str__(self) -> str:
        return f"{self.source or '-'} → {self.target}"


class IdempotencyRecord(Row):
    """The stored answer to a request with an Idempotency-Key."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, db_index=False)
    environment = models.CharField(max_length=10, choices=Environment)
    # Hashed, as a client may put a person's number into its key.
    key = KeyedHashField()
    fingerprint = KeyedHashField()
    # The report whose subject the answer names; null if it names none.
    report_id = models.UUIDField(null=True, editable=False)
    # Null once the report is erased.
    body = EncryptedJSONField(null=True)
    created_at = models.DateTimeField(default=now, editable=False, db_index=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "environment", "key"],
                name="one_answer_an_idempotency_key",
            )
        ]
        indexes = [
            models.Index(
                fields=["report_id"],
                condition=Q(report_id__isnull=False),
                name="answers_about_a_report",
            )
        ]

    def __str__(self) -> str:
        return str(self.id)


# The parts of a subject's id: type, country, the name of a number, the number
Identity = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Subject:
    """A person or company; `members` are those of the API that are known."""

    members: dict[str, Any]

    @classmethod
    def of(cls, members: dict[str, Any]) -> Subject:
        """Return the subject, with the full name or its parts derived if missing."""
        if members["subjectType"] == SubjectType.INDIVIDUAL:
            members = {**members, **_both_names(members)}
        return cls(members)

    @property
    def type(self) -> str:
        return self.members["subjectType"]

    @property
    def country(self) -> str:
        return self.members["country"]

    @property
    def name(self) -> str:
        return self.members.get("fullName") or self.members["registrationNumber"]

    @property
    def search_name(self) -> str:
        """The folded name for searches, cut to what fits in an index."""
        return fold_name(self.name).encode()[:SEARCH_BYTES].decode(errors="ignore")

    @property
    def has_name_alone(self) -> bool:
        """True for a person about whom nothing is known that namesakes do not share."""
        members = (*IDENTIFIERS, "dateOfBirth", "email", "phone")
        is_known = any(map(self.members.get, members))
        return self.type == SubjectType.INDIVIDUAL and not is_known

    def in_workspace(
        self, workspace_id: UUID, environment: str, row_id: UUID | None = None
    ) -> KnownSubject:
        """Return the subject with its id in this workspace and environment.

        `row_id` is of the rule or else the report, which alone knows a person with a
        name and nothing else: it is part of the id, and without it the id is random.
        """
        identity = self._identity(row_id)
        scope = (workspace_id, environment, *identity)
        return KnownSubject(
            id=subject_id(workspace_id, environment, identity),
            objection_ids=objection_ids(workspace_id, environment, self.members),
            members=self.members,
            identity="\x1f".join(
                [
                    *map(str, scope),
                    fold_text(self.name),
                    self.members.get("dateOfBirth", ""),
                ]
            ),
        )

    def numbers(self) -> list[Identity]:
        """Return the identity that each identifying number makes; the first counts."""
        return [
            # A number of punctuation alone has an empty normal form.
            (self.type, self.country, key, normalise_identifier(value) or value)
            for key in IDENTIFIERS
            if (value := self.members.get(key))
        ]

    def _identity(self, row_id: UUID | None = None) -> Identity:
        if numbers := self.numbers():
            return numbers[0]
        details = [self.members.get(key, "") for key in ("dateOfBirth", "email")]
        if self.type == SubjectType.INDIVIDUAL and not any(details):
            # Namesakes are several people; companies of one name are one.
            details.append(self.members.get("phone") or str(row_id or uuid7()))
        return self.type, self.country, "name", fold_text(self.name), *details


@dataclass(frozen=True, slots=True)
class KnownSubject:
    """A subject within one workspace and environment."""

    id: UUID
    members: dict[str, Any]
    identity: str
    objection_ids: list[UUID]

    @property
    def ids(self) -> list[UUID]:
        """The ids by which objections are found; the first is the subject's own."""
        return [self.id, *self.objection_ids]

    def question(self, check: str, inputs: Iterable[str]) -> bytes:
        """Return a hash that is equal for the same check, inputs and subject."""
        values = [f"{key}={self.members[key]}" for key in inputs if key in self.members]
        return keyed_hash("question", self.identity, check, *values)


def subject_id(workspace_id: UUID, environment: str, identity: Identity) -> UUID:
    """Return the id that all reports about one person or company share."""
    return keyed_uuid("subject", workspace_id, environment, *identity)


def further_ids(
    workspace_id: UUID, environment: str, members: dict[str, Any]
) -> list[UUID]:
    """Return the ids that the subject's numbers beside the first one would make."""
    further = Subject(members).numbers()[1:]
    return [subject_id(workspace_id, environment, each) for each in further]


def objection_ids(
    workspace_id: UUID, environment: str, members: dict[str, Any]
) -> list[UUID]:
    """Return the ids that find an objection beside the subject's own.

    They are of the further numbers, or of the name of a subject without any number,
    whose own id rests on details that another order may leave out.
    """
    subject = Subject(members)
    if not members or subject.numbers():
        return further_ids(workspace_id, environment, members)
    identity = subject.type, subject.country, "name alone", subject.search_name
    return [subject_id(workspace_id, environment, identity)]


def person_identities(country: str, number: str) -> list[Identity]:
    """Return the identities of a person whose document has this number.

    It may be the number of an ID or a KRA PIN.
    """
    found = {"subjectType": SubjectType.INDIVIDUAL.value, "country": country}
    return [Subject({**found, key: number})._identity() for key in PERSON_IDENTIFIERS]


def fold_text(text: str) -> str:
    """Return the text without case and compatibility forms, for searches."""
    return unicodedata.normalize("NFKC", text).casefold()


def fold_name(text: str) -> str:
    """Return the name for searches, with single spaces and plain apostrophes."""
    return " ".join(fold_text(text.translate(PLAIN_APOSTROPHES)).split())


def _both_names(members: dict[str, Any]) -> dict[str, str]:
    if "fullName" not in members:
        parts = (members.get(key) for key in NAME_PARTS)
        return {"fullName": " ".join(part for part in parts if part)}
    if "firstName" in members or "lastName" in members:
        return {}
    first, *middle = members["fullName"].split()
    last = middle.pop() if middle else ""
    names = {"firstName": first, "middleName": " ".join(middle), "lastName": last}
    return {k: v for k, v in names.items() if v and k not in members}
