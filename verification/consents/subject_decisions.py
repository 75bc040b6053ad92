"""The subject's decisions on the consent page, and their effect on the report.

Each verb is one transaction: consent, its record, report, checks, money, payment and
event change together or not at all. It locks the report before the consent, as all
verbs do: of two tabs, one wins. The withdrawal reaches other reports and rules:
`privacy.withdrawals` has it.
"""

from dataclasses import asdict, dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

import orjson
from django.db import transaction
from django.db.models import Q
from pydantic.alias_generators import to_camel

from verification.checks.due_checks import schedule_checks
from verification.checks.models import ResultStatus
from verification.consents.models import (
    NOT_ME,
    UNDER_AGE,
    Consent,
    ConsentRecord,
    ConsentStatus,
    is_under_age,
)
from verification.consents.subject_messages import consent_receipt
from verification.db.encryption import keyed_hash
from verification.db.ids import uuid7
from verification.notifications.outbox import notify
from verification.payments.models import Payment
from verification.payments.payer_messages import payment_request
from verification.providers.name_comparison import (
    ACCEPTED_LIKENESSES,
    names_alike,
    normalize_spelling,
    person_words,
    without_particles,
)
from verification.reports.create import blocked_check_reason
from verification.reports.ends import end_early
from verification.reports.hosted_links import cancel_requests, is_over, start_period
from verification.reports.models import Report, ReportStatus, SubjectType
from verification.reports.objections import lift_restriction
from verification.reports.status import (
    SUBJECT_ACTOR,
    Transition,
    apply_transitions,
    lock_with_report,
)
from verification.values.clock import now
from verification.values.local_time import utc_text

Decision = ConsentRecord.Decision

# Message of the failed report for a reason that is a code.
DECLINE_MESSAGES = {
    NOT_ME: "The person who opened the link says that they are not the subject.",
    UNDER_AGE: "The subject is under 18; a parent or guardian has to consent.",
}
DECLINED = ("CONSENT_DECLINED", "The subject declined.")
EXPIRED = ("CONSENT_EXPIRED", "The subject did not answer in time.")
# `Evidence.confirmed_by` if staff withdraw for a subject who has asked them to.
CONFIRMED_BY_STAFF = "STAFF"


class ConsentClosed(Exception):
    """The consent takes no such decision.

    `status` says why: a ConsentStatus, REPLACED (there is a newer link), REPORT_ENDED
    or UNDER_AGE.
    """

    def __init__(self, status: str) -> None:
        super().__init__(f"The consent is {status}.")
        self.status = status


@dataclass(frozen=True, slots=True)
class Evidence:
    """Proof of the subject's decision; all blank for a link that expired.

    - `text`: the notice exactly as on the page.
    - `position`: that of the person who decides for a company.
    - `confirmed_by`: the challenge, NO_CHALLENGE if the report knows no answer to any,
      or STAFF.
    - `code_sent_to`: EMAIL or SMS if the subject typed the code sent to
      `code_address`, which is masked.
    - `link_sent_to`: the channels by which the service sent the link; may be empty.
    - `of_client`: signs that the client decided itself. ADDRESS: one of its keys was
      last used from this address. BROWSER: a member is logged in. CONTACT: the
      subject's address is a member's, the client's contact, or confirmed for tests.
    - `staff`: the user who withdrew for the subject.
    - `made`: how many checks were made before a withdrawal: "all", "some" or "none".
    """

    # Check -> the sources that the text names.
    sources: dict[str, list[str]] = field(default_factory=dict)
    # True if the text says that rules can decide alone
    automated: bool = False
    text: str = ""
    notice_version: str = ""
    language: str = ""
    typed_name: str = ""
    position: str = ""
    confirmed_by: str = ""
    code_sent_to: str = ""
    code_address: str = ""
    link_sent_to: tuple[str, ...] = ()
    of_client: tuple[str, ...] = ()
    staff: str = ""
    made: str = ""
    address: str = ""
    user_agent: str = ""

    def as_members(self, report: Report, reason: str) -> dict[str, Any]:
        """Return the members that are stored; columns of the record hold the rest."""
        own = asdict(self)
        del own["notice_version"], own["language"]
        return {
            "requester": report.workspace.requester.name,
            "purpose": report.purpose,
            "checks": report.checks_requested,
            **{to_camel(name): value for name, value in own.items()},
            "reason": reason,
        }


@transaction.atomic
def grant(consent_id: UUID, generation: int, evidence: Evidence) -> ConsentRecord:
    """Record the grant and advance the report; a draft can then be launched.

    Raises ConsentClosed, also for a subject under 18.
    """
    report, consent = lock_with_report(Consent, consent_id)
    if done := find_record(consent, generation, Decision.GRANTED):
        return done
    at = now()
    _require_open(consent, report, generation, at)
    if is_under_age(report.subject, at):
        raise ConsentClosed(UNDER_AGE)
    has_position = report.subject_type != SubjectType.COMPANY or evidence.position
    if not (has_position and is_signature(report, evidence.typed_name)):
        raise ValueError("no signature, or none with a position in the company")
    record = record_decision(consent, report, Decision.GRANTED, evidence, "", at)
    lift_restriction(report)
    if report.status == ReportStatus.PENDING_CONSENT:
        _advance_report(report, at)
    return record


@transaction.atomic
def decline(
    consent_id: UUID, generation: int, evidence: Evidence, reason: str
) -> ConsentRecord:
    """Record the refusal and fail the report; a draft stays and can ask after an edit.

    Raises ConsentClosed.
    """
    report, consent = lock_with_report(Consent, consent_id)
    if done := find_record(consent, generation, Decision.DECLINED):
        return done
    at = now()
    _require_open(consent, report, generation, at)
    record = record_decision(consent, report, Decision.DECLINED, evidence, reason, at)
    if report.status == ReportStatus.PENDING_CONSENT:
        code, message = DECLINED
        failure = (code, DECLINE_MESSAGES.get(reason, message))
        target, trigger = ReportStatus.FAILED, "consent declined"
        end_early(report, target, trigger, SUBJECT_ACTOR, at, failure)
    return record


def checks_made(report: Report) -> str:
    """Return how many of the checks have begun: "all", "some" or "none"."""
    # A check that waits for a source's room has not begun; one that waits for an answer
    # or got none has.
    tried = [ResultStatus.RUNNING, ResultStatus.FAILED]
    begun = Q(status__in=tried, started_at__isnull=False)
    results = report.results.all()
    if not results.filter(begun | Q(status=ResultStatus.COMPLETED)).exists():
        return "none"
    is_whole = not results.exclude(status=ResultStatus.COMPLETED).exists()
    return "all" if is_whole else "some"


def record_expiry(report: Report, consent: Consent, at: datetime) -> None:
    """Record that the subject did not answer in time. The caller holds both rows."""
    record_decision(consent, report, Decision.EXPIRED, Evidence(), "", at)
    if report.status == ReportStatus.PENDING_CONSENT:
        target, trigger = ReportStatus.FAILED, "consent expired"
        end_early(report, target, trigger, SUBJECT_ACTOR, at, EXPIRED)


def is_signature(report: Report, name: str) -> bool:
    """Return whether `name` signs for the subject of the report.

    A person signs with a name like the one in the report. For a company a person signs
    with their own name, of two words or more.
    """
    # The matcher reads a star as hidden letters of a register.
    if "*" in name:
        return False
    if report.subject_type == SubjectType.COMPANY:
        return len(person_words(name)) > 1
    known = (report.subject or {}).get("fullName") or report.subject_name
    words = without_particles(person_words(known))
    if len(words) > 1:
        return names_alike(known, name) in ACCEPTED_LIKENESSES
    # The report knows one name only, and the matcher does not accept one common name.
    return not words or normalize_spelling(words[0]) in map(
        normalize_spelling, person_words(name)
    )


def digest_of(record: ConsentRecord, evidence: dict[str, Any]) -> bytes:
    """Return the `digest` of an unchanged record with this evidence."""
    values = [
        record.pk,
        record.report_id,
        record.consent_id,
        record.decision,
        record.generation,
        record.language,
        record.notice_version,
        utc_text(record.created_at),
        orjson.dumps(evidence, option=orjson.OPT_SORT_KEYS).decode(),
    ]
    return keyed_hash("consent-record", *values)


def find_record(
    consent: Consent, generation: int, decision: ConsentRecord.Decision
) -> ConsentRecord | None:
    """Return the record of the same decision by the same link: a repeated request."""
    return ConsentRecord.objects.filter(
        consent_id=consent.pk, generation=generation, decision=decision
    ).first()


def _require_open(
    consent: Consent, report: Report, generation: int, at: datetime
) -> None:
    if consent.generation != generation:
        raise ConsentClosed("REPLACED")
    if consent.status != ConsentStatus.PENDING:
        raise ConsentClosed(consent.status)
    if consent.expires_at is None or is_over(consent, at):
        raise ConsentClosed(ConsentStatus.EXPIRED)
    if report.status not in {ReportStatus.DRAFT, ReportStatus.PENDING_CONSENT}:
        raise ConsentClosed("REPORT_ENDED")


def record_decision(
    consent: Consent,
    report: Report,
    decision: ConsentRecord.Decision,
    evidence: Evidence,
    reason: str,
    at: datetime,
) -> ConsentRecord:
    """Record a decision by the present link, and send its receipt.

    The caller holds both rows.
    """
    consent.status = ConsentStatus(decision.value)
    if decision == Decision.GRANTED:
        consent.shown_sources = evidence.sources
        consent.shown_automation = evidence.automated
    consent.save(update_fields=["status", "shown_sources", "shown_automation"])
    Report.objects.filter(pk=report.pk).update(updated_at=at)
    members = evidence.as_members(report, reason)
    text = evidence.text.encode()
    record = ConsentRecord(
        id=uuid7(),
        report=report,
        consent_id=consent.pk,
        decision=decision,
        generation=consent.generation,
        language=evidence.language,
        notice_version=evidence.notice_version,
        notice_sha256=sha256(text).digest() if text else None,
        evidence=members,
        created_at=at,
    )
    record.digest = digest_of(record, members)
    record.save(force_insert=True)
    cancel_requests(consent)
    if decision != Decision.EXPIRED:
        notify(*consent_receipt(report, record))
    return record


def _advance_report(report: Report, at: datetime) -> None:
    payment: Payment | None = getattr(report, "payment", None)
    pays = payment is not None and not payment.is_settled
    target = ReportStatus.PENDING_PAYMENT if pays else ReportStatus.RUNNING
    apply_transitions(
        [Transition(report, target, "consent granted", SUBJECT_ACTOR)], at
    )
    if payment and pays:
        start_period(payment, at)
        payment.save(update_fields=["link_made_at", "reminded_at", "expires_at"])
        if not blocked_check_reason(report):
            notify(*payment_request(report, payment))
    else:
        schedule_checks(report, at)
