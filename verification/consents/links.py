"""Links to the consent page: their life, challenge, codes and locks.

`reports.hosted_links` says how a link lives. A challenge asks for a detail of the
subject that the report has. A code shows that the visitor reads the subject's messages.
"""

import hmac
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from verification.checks.events import consent_status_of
from verification.consents.models import (
    DATE_OF_BIRTH,
    DECIDED_STATUSES,
    NOT_ME,
    Consent,
    ConsentStatus,
    expected_answers,
    reason_of,
)
from verification.consents.subject_decisions import record_expiry
from verification.consents.subject_messages import (
    access_link,
    code_channels,
    consent_code,
    consent_lock_message,
    consent_reminder,
    consent_request,
    is_reachable,
)
from verification.db.encryption import keyed_hash
from verification.jobs.queue import job
from verification.notifications.models import Kind
from verification.notifications.outbox import (
    MessageWithheld,
    OutgoingMessage,
    cancel,
    notify,
    notify_within_limits,
)
from verification.reports.hosted_links import (
    ClientLinks,
    NotRenewable,
    cancel_requests,
    code_cause,
    is_over,
    make_link,
    require_resend_interval,
)
from verification.reports.models import Report, ReportStatus, SubjectType
from verification.reports.status import (
    SUBJECT_ACTOR,
    ConsentGap,
    lock_report,
    record_note,
)
from verification.values.clock import now
from verification.values.masking import normalise_identifier
from workspaces.models import Client

UNANSWERED_STATUSES = {ConsentStatus.PENDING, ConsentStatus.EXPIRED}
# Their links lead to the subject's data alone.
ACCESSIBLE_STATUSES = {ConsentStatus.ATTESTED, ConsentStatus.EXPIRED}
REMINDABLE_STATUSES = {ReportStatus.DRAFT, ReportStatus.PENDING_CONSENT}
TRIES = 5
# For one link. A right answer to the challenge does not reset the count.
MAX_WRONG_CODES = 15
CODE_DIGITS = 6
CODE_LIFETIME = timedelta(minutes=15)


WHY_NO_ACCESS = {
    "NO_PERSON": "The report is not about a person who can be asked.",
    "NO_ADDRESS": "The report has no e-mail address and no telephone number of its "
    "subject.",
    "ERASED": "The details of the subject were erased.",
    "NOT_ME": "The person at this address has said that they are not the subject.",
    "UNANSWERED": "The subject has not answered yet: send the consent link again "
    "instead.",
}


class LinkLocked(Exception):
    """Too many answers were wrong. The lock ends at `until`, or never if it is None."""

    def __init__(self, until: datetime | None) -> None:
        super().__init__(f"locked until {until:%H:%M}" if until else "locked for good")
        self.until = until


class CodeNotSent(Exception):
    """The subject has blocked the client, or got as many codes as a day allows.

    It may also be that the link takes no code now.
    """


class AccessNotSendable(Exception):
    """The subject can get no link to their data; `why` is a key of WHY_NO_ACCESS."""

    def __init__(self, why: str) -> None:
        super().__init__(WHY_NO_ACCESS[why])
        self.why = why


class ConsentNotRenewable(NotRenewable):
    noun = "consent"


class ConsentLinks(ClientLinks[Consent]):
    """The links of hosted consents. An attested consent has none."""

    model = Consent
    asker = SUBJECT_ACTOR
    not_renewable = ConsentNotRenewable

    def waiting(self) -> QuerySet[Consent]:
        return Consent.objects.filter(
            status=ConsentStatus.PENDING, mode=Consent.Mode.SERVICE_HOSTED
        )

    def require_renewable(self, report: Report, row: Consent, at: datetime) -> None:
        is_draft = report.status == ReportStatus.DRAFT
        is_late = is_over(row, at)
        waits = row.status == ConsentStatus.PENDING and not is_late
        # A report whose link is over has failed, even if no job has recorded that yet.
        is_awaited = report.status == ReportStatus.PENDING_CONSENT and waits
        is_hosted = row.mode == Consent.Mode.SERVICE_HOSTED
        if not (
            is_hosted and (is_draft or is_awaited) and row.status in UNANSWERED_STATUSES
        ):
            is_unattested = waits and not is_hosted
            message = ConsentGap.NOT_ATTESTED if is_unattested else ""
            status = ConsentStatus.EXPIRED if is_late else row.status
            raise ConsentNotRenewable(status, message)

    def absence(self, report: Report) -> ConsentNotRenewable:
        status = consent_status_of(report)
        is_needed = status == ConsentStatus.PENDING
        return ConsentNotRenewable(status, ConsentGap.NOT_NAMED if is_needed else "")

    def reset(self, row: Consent) -> None:
        row.status = ConsentStatus.PENDING
        self.unlock(row)

    def unlock(self, row: Consent) -> None:
        """Unlock the page and void its code, without saving the row."""
        row.wrong_answers, row.locks, row.locked_until = 0, 0, None
        row.code_sent_at, row.wrong_codes = None, 0
        row.link_requested_at = None

    def request(self, report: Report, row: Consent) -> list[OutgoingMessage]:
        return consent_request(report, row)

    def lock_to_remind(self, row_id: UUID) -> tuple[Report, Consent]:
        """Lock the consent alone, as a reminder changes nothing of the report."""
        consent = Consent.objects.select_for_update(no_key=True).get(pk=row_id)
        report = Report.objects.select_related("workspace").get(pk=consent.report_id)
        return report, consent

    def unreminded(self, at: datetime) -> QuerySet[Consent]:
        """Leave out links that are locked for good, as they take no answer."""
        most_locks = len(Consent.LOCK_DURATIONS)
        return super().unreminded(at).filter(locks__lte=most_locks)

    def reminder(self, report: Report, row: Consent) -> list[OutgoingMessage] | None:
        if row.status != ConsentStatus.PENDING:
            return None
        # A subject who objected since may still agree, and is not pressed.
        needs_answer = report.status in REMINDABLE_STATUSES and not report.restricted_at
        return consent_reminder(report, row) if needs_answer else []

    def close(self, report: Report, row: Consent, at: datetime) -> None:
        if row.status == ConsentStatus.PENDING:
            record_expiry(report, row, at)

    def can_visitor_renew(self, report: Report) -> bool:
        is_draft = report.status == ReportStatus.DRAFT
        subject = report.subject or {}
        return is_draft and is_reachable(report, Kind.CONSENT_REQUEST, subject)

    def client_action_needed(self, report: Report, row: Consent, at: datetime) -> str:
        if row.status not in UNANSWERED_STATUSES:
            return ""
        why = "LOCKED" if row.is_locked_for_good else "EXPIRED"
        if not is_over(row, at):
            return why if row.is_locked_for_good and not report.is_ended else ""
        if report.status == ReportStatus.DRAFT:
            return "" if self.can_visitor_renew(report) else why
        # A report whose link is over has failed, even if no job has recorded that yet.
        is_late = report.status in {ReportStatus.PENDING_CONSENT, ReportStatus.FAILED}
        return why if is_late else ""


consent_links = ConsentLinks()


@job
def expire_consents() -> None:
    """Close the consent links that nobody answered in time."""
    consent_links.expire_due()


@job
def remind_subjects() -> None:
    """Remind subjects who have not answered by half time."""
    consent_links.remind_due()


def opens_data(consent: Consent, at: datetime) -> bool:
    """Return whether the link leads to the subject's own data.

    The link of a decision does, as long as the report exists. A link that was sent
    after the end of the request does until it expires. A visitor who said "this is not
    me" is another person.
    """
    if consent.expires_at is None or not is_person(consent.report):
        return False
    if consent.status in DECIDED_STATUSES:
        return reason_of(consent) != NOT_ME
    is_over = consent.status in ACCESSIBLE_STATUSES or consent.report.is_ended
    return is_over and consent.expires_at > at


def is_person(report: Report) -> bool:
    return report.subject_type == SubjectType.INDIVIDUAL


@transaction.atomic
def send_access_link(client: Client, report_id: UUID) -> Consent:
    """Send the subject a link to their data, to their own addresses alone.

    Raises AccessNotSendable, ResendTooSoon, or Report.DoesNotExist.
    """
    report = lock_report(client, report_id)
    consent = renew_access_link(report)
    messages = access_link(report, consent)
    if not messages:
        raise AccessNotSendable("NO_ADDRESS")
    notify(*messages)
    record_note(report, "link to own data sent", client.actor, now())
    return consent


def renew_access_link(report: Report) -> Consent:
    """Make a new link to the subject's data, and return its consent.

    The caller has locked the report, and sends the link. Raises as `send_access_link`.
    """
    rows = Consent.objects.select_for_update(no_key=True)
    consent = rows.filter(report=report).first()
    if consent is None or not is_person(report):
        raise AccessNotSendable("NO_PERSON")
    consent.report = report
    at = now()
    if report.erased_at:
        raise AccessNotSendable("ERASED")
    if reason_of(consent) == NOT_ME:
        raise AccessNotSendable("NOT_ME")
    if consent.status == ConsentStatus.PENDING and not report.is_ended:
        raise AccessNotSendable("UNANSWERED")
    # An attested consent has no link before the first one to the data.
    if consent.token_digest is not None:
        require_resend_interval(consent.link_made_at, at)
        cancel_requests(consent)
        consent.generation += 1
    expires_at = consent.expires_at
    make_link(consent, at)
    # The link of a decision works as long as the report exists.
    if consent.status not in DECIDED_STATUSES:
        expires_at = at + timedelta(days=settings.ACCESS_LINK_DAYS)
    consent.expires_at = expires_at
    consent_links.unlock(consent)
    consent.save()
    return consent


@transaction.atomic
def send_code(consent_id: UUID, generation: int, channel: str, language: str) -> None:
    """Send the subject a code; the code before it stops working.

    Raises ResendTooSoon within a minute of the last code, CodeNotSent if the message
    cannot go out, and Consent.DoesNotExist for a replaced link.
    """
    consent = _get_consent_for_update(consent_id, generation)
    at = now()
    if not _takes_code(consent, at) or channel not in code_channels(consent):
        raise CodeNotSent
    if consent.code_sent_at:
        require_resend_interval(consent.code_sent_at, at)
    cancel(code_cause(consent))
    consent.codes_sent += 1
    consent.code_channel, consent.code_sent_at = channel, at
    consent.save(update_fields=["codes_sent", "code_channel", "code_sent_at"])
    (message,) = consent_code(consent, derive_code(consent), language)
    try:
        # The limit counts here, before the message goes out: of many simultaneous
        # requests, those over the limit must not make codes that could be guessed.
        notify_within_limits(message)
    except MessageWithheld:
        raise CodeNotSent from None


@transaction.atomic
def answer_code(consent_id: UUID, generation: int, answer: str) -> str:
    """Return the channel of the code, or "" if the answer is wrong or too late.

    A code works once. Five wrong answers void it, and MAX_WRONG_CODES lock the link:
    for good, or for a day if the consent is answered. Raises LinkLocked.
    """
    consent = _get_consent_for_update(consent_id, generation)
    at = now()
    if consent.is_locked_for_good:
        raise LinkLocked(None)
    if not _takes_code(consent, at) or not is_code_valid(consent, at):
        return ""
    right = is_correct_code(consent, answer)
    consent.wrong_codes += not right
    if right or consent.wrong_codes % TRIES == 0:
        consent.code_sent_at = None
    if consent.wrong_codes >= MAX_WRONG_CODES:
        _lock_codes(consent, at)
    consent.save(update_fields=["wrong_codes", "code_sent_at", "locks", "locked_until"])
    return consent.code_channel if right else ""


def _takes_code(consent: Consent, at: datetime) -> bool:
    if opens_data(consent, at):
        return not consent.is_locked(at)
    return consent.status == ConsentStatus.PENDING and not consent.is_locked_for_good


def _lock_codes(consent: Consent, at: datetime) -> None:
    """Lock the link for good, or for the longest time if the consent is answered.

    The subject needs the link of an answered consent, to withdraw.
    """
    most = len(Consent.LOCK_DURATIONS)
    if consent.status == ConsentStatus.PENDING:
        consent.locks, consent.locked_until = most + 1, None
        _notify_of_lock(consent, at)
    else:
        consent.wrong_codes, consent.locks = 0, most
        consent.locked_until = at + Consent.LOCK_DURATIONS[-1]


def answer_challenge(consent_id: UUID, generation: int, answer: str) -> bool:
    """Return whether the answer is right.

    It is a date as `1990-01-31`, four characters, a registration number or a KRA PIN.
    The fifth wrong answer in a row locks the link, each time for longer, and in the end
    for good. Raises LinkLocked, and Consent.DoesNotExist for a replaced link.
    """
    with transaction.atomic():
        consent = _get_consent_for_update(consent_id, generation)
        at = now()
        if consent.is_locked(at):
            raise LinkLocked(consent.locked_until)
        right = is_correct_answer(consent, answer)
        consent.locked_until = None
        consent.wrong_answers = 0 if right else consent.wrong_answers + 1
        if right:
            consent.locks = 0
        elif consent.wrong_answers >= TRIES:
            _lock_link(consent, at)
        consent.save(update_fields=["wrong_answers", "locked_until", "locks"])
    # After the commit, as the exception would undo the lock
    if consent.is_locked(at):
        raise LinkLocked(consent.locked_until)
    return right


def _get_consent_for_update(consent_id: UUID, generation: int) -> Consent:
    rows = Consent.objects.select_for_update(of=("self",), no_key=True)
    rows = rows.select_related("report__workspace")
    return rows.get(pk=consent_id, generation=generation)


def _lock_link(consent: Consent, at: datetime) -> None:
    """Lock the link for longer than the last time, and in the end for good.

    The link of an answered consent is never locked for good: its subject needs it to
    withdraw.
    """
    consent.wrong_answers = 0
    if consent.locks < len(Consent.LOCK_DURATIONS):
        consent.locks += 1
    elif consent.status == ConsentStatus.PENDING:
        consent.locks += 1
        _notify_of_lock(consent, at)
        return
    consent.locked_until = at + Consent.LOCK_DURATIONS[consent.locks - 1]


def _notify_of_lock(consent: Consent, at: datetime) -> None:
    """Tell the subject and the timeline that the link is locked for good."""
    cancel_requests(consent)
    notify(*consent_lock_message(consent.report, consent))
    record_note(consent.report, "consent link locked for good", SUBJECT_ACTOR, at)


def is_correct_answer(consent: Consent, answer: str) -> bool:
    """Compare a date as `1990-01-31`, or a number, with the report's detail."""
    for kind, expected in expected_answers(consent.report.subject or {}).items():
        given = (
            answer.strip() if kind == DATE_OF_BIRTH else normalise_identifier(answer)
        )
        return hmac.compare_digest(expected.encode(), given.encode())
    return False


def derive_code(consent: Consent) -> str:
    """Derive the six digits of the last code from the row; no column holds them."""
    row = consent.pk, consent.generation, consent.codes_sent, consent.code_channel
    number = int.from_bytes(keyed_hash("consent-code", *row)) % 10**CODE_DIGITS
    return f"{number:0{CODE_DIGITS}}"


def is_code_valid(consent: Consent, at: datetime) -> bool:
    """Return whether the last code is unused and less than 15 minutes old."""
    sent_at = consent.code_sent_at
    return sent_at is not None and sent_at + CODE_LIFETIME > at


def is_correct_code(consent: Consent, answer: str) -> bool:
    given = "".join(answer.split())
    return hmac.compare_digest(derive_code(consent).encode(), given.encode())
