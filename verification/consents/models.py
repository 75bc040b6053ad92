from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from verification.db.encryption import EncryptedJSONField, KeyedHashField
from verification.db.ids import number_index, number_of_id
from verification.db.models import DatedRow, Row
from verification.providers.base import ConsentEvidence
from verification.reports.models import Report, ReportStatus
from verification.values.local_time import NAIROBI, format_nairobi
from verification.values.masking import normalise_identifier

ADULT_AGE = 18
ID_NUMBER_DIGITS = 4
DATE_OF_BIRTH = "DATE_OF_BIRTH"
ID_NUMBER_END = "ID_NUMBER_END"
REGISTRATION_NUMBER = "REGISTRATION_NUMBER"
KRA_PIN = "KRA_PIN"
# In the record of a consent whose report has no detail for a challenge.
NO_CHALLENGE = "NO_CHALLENGE"
# Reasons to decline that are buttons of the page; subjects type all others.
NOT_ME, UNDER_AGE = "NOT_ME", "UNDER_AGE"
REASON_CODES = {NOT_ME, UNDER_AGE}


class ConsentStatus(models.TextChoices):
    NOT_REQUIRED = "NOT_REQUIRED"
    PENDING = "PENDING"
    GRANTED = "GRANTED"
    ATTESTED = "ATTESTED"
    DECLINED = "DECLINED"
    EXPIRED = "EXPIRED"
    WITHDRAWN = "WITHDRAWN"


# Decisions of the subject, by a link that works as long as the report exists.
DECIDED_STATUSES = {
    ConsentStatus.GRANTED,
    ConsentStatus.DECLINED,
    ConsentStatus.WITHDRAWN,
}

# Statuses without consent. An edited draft can ask the subject again.
REFUSED_STATUSES = {
    ConsentStatus.DECLINED,
    ConsentStatus.EXPIRED,
    ConsentStatus.WITHDRAWN,
}


class Consent(Row):
    """The subject's consent to one report. A report without consent has no row."""

    class Mode(models.TextChoices):
        SERVICE_HOSTED = "SERVICE_HOSTED", "The service asks the subject"
        CUSTOMER_ATTESTED = "CUSTOMER_ATTESTED", "The client states it has consent"

    class Method(models.TextChoices):
        CUSTOMER_WEB_FORM = "CUSTOMER_WEB_FORM"
        CUSTOMER_MOBILE_APP = "CUSTOMER_MOBILE_APP"
        PAPER_FORM = "PAPER_FORM"
        VERBAL_RECORDED = "VERBAL_RECORDED"
        EMAIL = "EMAIL"
        OTHER = "OTHER"

    Status = ConsentStatus
    GIVEN_STATUSES = (ConsentStatus.GRANTED, ConsentStatus.ATTESTED)
    # The first, second and third lock end after these times; the fourth never ends.
    LOCK_DURATIONS = (timedelta(minutes=15), timedelta(hours=1), timedelta(days=1))

    report = models.OneToOneField(Report, models.CASCADE, related_name="consent")
    mode = models.CharField(max_length=17, choices=Mode)
    status = models.CharField(max_length=12, choices=ConsentStatus)
    # Number of the present link, part of its token: a new link raises it.
    generation = models.PositiveIntegerField(default=1)
    # SHA-256 of the link's token, which is derived and stored nowhere.
    token_digest = models.BinaryField(null=True, unique=True)
    expires_at = models.DateTimeField(null=True)
    # The client's attestation: {obtainedAt, method, policyVersion, evidenceReference}.
    attestation = EncryptedJSONField(null=True)
    # Check -> the sources in the notice that the subject agreed to; it asks no other.
    shown_sources = models.JSONField(default=dict, db_default={}, editable=False)
    # True if that notice said that rules can decide alone
    shown_automation = models.BooleanField(
        default=False, db_default=False, editable=False
    )
    link_made_at = models.DateTimeField(db_default=Now(), editable=False)
    reminded_at = models.DateTimeField(null=True, editable=False)
    # Wrong answers to the challenge since the last right one or the last lock.
    wrong_answers = models.PositiveSmallIntegerField(db_default=0)
    # Locks since the last right answer or the last new link.
    locks = models.PositiveSmallIntegerField(db_default=0)
    locked_until = models.DateTimeField(null=True, editable=False)
    # Codes sent through any link, and the channel of the last one.
    codes_sent = models.PositiveSmallIntegerField(db_default=0)
    code_channel = models.CharField(max_length=5, db_default="")
    # Null once the subject has typed the code, or too many wrong ones.
    code_sent_at = models.DateTimeField(null=True, editable=False)
    # Wrong codes since the last new link.
    wrong_codes = models.PositiveSmallIntegerField(db_default=0)
    # When the subject asked the client for another link.
    link_requested_at = models.DateTimeField(null=True, editable=False)
    # True once the report is erased.
    is_erased = models.BooleanField(default=False, db_default=False, editable=False)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="consent_is_locked_for_a_time_or_for_good",
                condition=Q(locks=0, locked_until=None)
                | Q(locks__range=(1, 3))
                | Q(locks=4, locked_until=None),
            ),
            models.CheckConstraint(
                name="code_of_a_consent_went_somewhere",
                condition=Q(codes_sent=0, code_channel="", code_sent_at=None)
                | Q(codes_sent__gt=0, code_channel__in=["EMAIL", "SMS"]),
            ),
            models.CheckConstraint(
                name="hosted_consent_has_a_link",
                condition=Q(
                    mode="SERVICE_HOSTED",
                    token_digest__isnull=False,
                    expires_at__isnull=False,
                )
                | Q(mode="CUSTOMER_ATTESTED", token_digest=None, expires_at=None)
                # The link by which the subject of an attested consent sees the report
                | Q(
                    mode="CUSTOMER_ATTESTED",
                    token_digest__isnull=False,
                    expires_at__isnull=False,
                ),
            ),
            models.CheckConstraint(
                name="an_attested_consent_has_its_attestation",
                condition=Q(status="ATTESTED", attestation__isnull=False)
                | ~Q(status="ATTESTED")
                | Q(is_erased=True),
            ),
        ]
        indexes = [
            # For expiry and reminders.
            models.Index(
                fields=["expires_at"],
                condition=Q(status="PENDING", mode="SERVICE_HOSTED"),
                name="consents_waiting",
            )
        ]

    def __str__(self) -> str:
        return f"{self.status} ({self.mode})"

    @property
    def is_given(self) -> bool:
        return self.status in self.GIVEN_STATUSES

    @property
    def is_locked_for_good(self) -> bool:
        return self.locks > len(self.LOCK_DURATIONS)

    def is_locked(self, at: datetime) -> bool:
        until = self.locked_until
        return self.is_locked_for_good or (until is not None and until > at)


class RetiredLink(models.Model):
    """A link of a consent, reference or payment that a newer link has replaced.

    A trigger inserts it when a row gets a new link or is deleted. The page of an old
    link then tells its visitor to use the newer message. It holds no personal data.
    """

    class Purpose(models.TextChoices):
        CONSENT = "consent"
        REFERENCE = "reference"
        PAYMENT = "payment"

    digest = models.BinaryField(primary_key=True)
    purpose = models.CharField(max_length=9, choices=Purpose)
    # No constraint: the trigger inserts rows while the report's consent is deleted.
    report = models.ForeignKey(
        Report, models.CASCADE, related_name="retired_links", db_constraint=False
    )
    # Id of the consent, reference or payment, which may be deleted.
    row_id = models.UUIDField(db_index=True)
    generation = models.PositiveIntegerField()
    retired_at = models.DateTimeField(db_default=Now(), editable=False)

    def __str__(self) -> str:
        return f"{self.purpose} {self.row_id}, link {self.generation}"


class ConsentRecord(DatedRow):
    """A decision about a consent, with its evidence. It never changes.

    A grant, a refusal, a withdrawal and an expiry each have a record. The database
    refuses changes; erasing the subject empties `evidence` and nothing else.
    """

    class Decision(models.TextChoices):
        GRANTED = "GRANTED"
        DECLINED = "DECLINED"
        WITHDRAWN = "WITHDRAWN"
        EXPIRED = "EXPIRED"

    report = models.ForeignKey(Report, models.PROTECT, related_name="consent_records")
    # No foreign key: an edit of the draft replaces the consent and keeps its records.
    consent_id = models.UUIDField()
    decision = models.CharField(max_length=9, choices=Decision)
    # Number of the link that the subject used.
    generation = models.PositiveIntegerField()
    language = models.CharField(max_length=2, blank=True)
    # Version and SHA-256 of the exact text on the page.
    notice_version = models.CharField(max_length=40, blank=True)
    notice_sha256 = models.BinaryField(null=True)
    # The result of `Evidence.as_members`
    evidence = EncryptedJSONField(null=True)
    # Keyed hash over the other fields; it proves that the record is unchanged as long
    # as there is evidence. `notice_sha256` follows from the text in the evidence.
    digest = KeyedHashField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["consent_id", "generation", "decision"],
                name="one_record_a_decision_and_link",
            )
        ]
        indexes = [
            # For a receipt's number that a subject reads out.
            number_index("consent_records_by_number")
        ]
        ordering = ["created_at", "id"]

    def __str__(self) -> str:
        return f"{self.decision} {format_nairobi(self.created_at)}"

    @property
    def is_by_staff(self) -> bool:
        """Return whether staff withdrew for the subject, who then read no page.

        The language is empty then; it stays so when the evidence is erased.
        """
        return self.decision == self.Decision.WITHDRAWN and not self.language

    @property
    def number(self) -> str:
        """The number on the receipt."""
        return number_of_id("C", self.id)


def reason_of(consent: Consent) -> str | None:
    """Return the reason of the subject's refusal or withdrawal, if there is one."""
    if consent.status not in {ConsentStatus.DECLINED, ConsentStatus.WITHDRAWN}:
        return None
    # A newer link may have been sent since the decision.
    records = ConsentRecord.objects.filter(
        consent_id=consent.pk, decision=consent.status
    )
    record = records.order_by("generation").last()
    evidence = (record and record.evidence) or {}
    return evidence.get("reason") or None


def is_consent_refused(report: Report) -> bool:
    """Return whether nobody pays: the subject refused, did not answer or objected."""
    if report.status == ReportStatus.DRAFT and report.restricted_at:
        return True
    consent = getattr(report, "consent", None)
    return consent is not None and consent.status in REFUSED_STATUSES


def load_given_consent(consent: Consent) -> ConsentEvidence | None:
    """Return the proof of a given consent that sources receive."""
    if not consent.is_given:
        return None
    if consent.mode == Consent.Mode.CUSTOMER_ATTESTED:
        attested = consent.attestation or {}
        at = datetime.fromisoformat(attested["obtainedAt"])
        return ConsentEvidence(at, attested["method"], attested["policyVersion"])
    granted = ConsentRecord.objects.filter(
        consent_id=consent.pk, decision=ConsentRecord.Decision.GRANTED
    )
    record = granted.defer("evidence").order_by("created_at").last()
    if record is None:
        return None
    return ConsentEvidence(
        record.created_at,
        consent.mode,
        record.notice_version,
        record.language,
        bytes(record.notice_sha256 or b"").hex(),
    )


def is_under_age(subject: Mapping[str, Any] | None, at: datetime) -> bool:
    """Return whether the subject is under 18 at this moment, by the date in Nairobi.

    False if no birthday is known.
    """
    text = (subject or {}).get("dateOfBirth")
    if not text:
        return False
    born, today = date.fromisoformat(text), at.astimezone(NAIROBI).date()
    had_birthday = (today.month, today.day) >= (born.month, born.day)
    return today.year - born.year - (not had_birthday) < ADULT_AGE


def challenge_for_consent(consent: Consent) -> str | None:
    """Return the challenge of the page, or None if the report has no detail for one.

    It is DATE_OF_BIRTH, ID_NUMBER_END, REGISTRATION_NUMBER (of a company) or KRA_PIN.
    """
    return challenge_for_subject(consent.report.subject or {})


def challenge_for_subject(subject: Mapping[str, Any]) -> str | None:
    """Return the challenge for the subject of an order."""
    return next(iter(expected_answers(subject)), None)


def expected_answers(subject: Mapping[str, Any]) -> dict[str, str]:
    """Return challenge -> right answer; the page asks the first of them."""
    number = _number(subject, "idNumber")
    answers = {
        DATE_OF_BIRTH: subject.get("dateOfBirth") or "",
        ID_NUMBER_END: number[-ID_NUMBER_DIGITS:]
        if len(number) > ID_NUMBER_DIGITS
        else "",
        REGISTRATION_NUMBER: _number(subject, "registrationNumber"),
        KRA_PIN: _number(subject, "kraPin"),
    }
    return {kind: answer for kind, answer in answers.items() if answer}


def _number(subject: Mapping[str, Any], member: str) -> str:
    value = subject.get(member)
    return normalise_identifier(value) if isinstance(value, str) else ""
