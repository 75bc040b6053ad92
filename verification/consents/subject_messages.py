"""Messages to subjects: links, reminders, codes and receipts."""

from collections.abc import Mapping
from typing import Any

from verification import links
from verification.consents.models import (
    DECIDED_STATUSES,
    REASON_CODES,
    Consent,
    ConsentRecord,
    ConsentStatus,
    challenge_for_consent,
)
from verification.notifications.models import (
    BILINGUAL,
    Channel,
    Kind,
    Notification,
    NotificationStatus,
)
from verification.notifications.outbox import OutgoingMessage, is_sendable
from verification.notifications.sms import sms_is_configured
from verification.reports.hosted_links import (
    code_cause,
    locked_cause,
    reminder_cause,
    request_cause,
)
from verification.reports.models import PaymentMode, Report, SubjectType
from verification.values.local_time import utc_text
from workspaces.models import Environment

# Channel -> member of the subject that holds the address.
CONTACT_MEMBERS = {Channel.EMAIL: "email", Channel.SMS: "phone"}


def addresses_of(person: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the (channel, address) pairs of a subject or payer."""
    found = (
        (channel.value, person.get(key)) for channel, key in CONTACT_MEMBERS.items()
    )
    return [(channel, address) for channel, address in found if address]


def is_reachable(report: Report, kind: Kind, person: Mapping[str, Any]) -> bool:
    """Return whether the subject or payer would now get a message of this kind."""
    return any(is_sendable(each) for each in messages_to(person, report, kind, "", {}))


def is_written_to(report: Report, kind: Kind, person: Mapping[str, Any]) -> bool:
    """Like `is_reachable`; the sandbox's mailbox shows what would go to any address."""
    if report.environment == Environment.SANDBOX:
        return bool(addresses_of(person))
    return is_reachable(report, kind, person)


def reaches_subject(report: Report) -> bool:
    """Return whether the subject would now get a message with the consent's link."""
    return is_written_to(report, Kind.CONSENT_REQUEST, report.subject or {})


def consent_request(report: Report, consent: Consent | None) -> list[OutgoingMessage]:
    """Return the messages with a hosted consent's link, one to each address."""
    if consent is None or consent.mode != Consent.Mode.SERVICE_HOSTED:
        return []
    cause = request_cause(consent)
    return _link_messages(report, consent, Kind.CONSENT_REQUEST, cause)


def consent_reminder(report: Report, consent: Consent) -> list[OutgoingMessage]:
    cause = reminder_cause(consent)
    return _link_messages(report, consent, Kind.CONSENT_REMINDER, cause)


def consent_lock_message(report: Report, consent: Consent) -> list[OutgoingMessage]:
    """Return the messages that say that the link is locked for good."""
    return _link_messages(report, consent, Kind.CONSENT_LOCKED, locked_cause(consent))


def code_channels(consent: Consent) -> list[str]:
    """Return the channels by which the page can send the subject a code, best first.

    The page asks for a code if there is a channel. SMS comes first, as a mailbox has
    more readers. The sandbox writes to members and confirmed addresses only, so its
    page asks no other subject for a code.
    """
    report = consent.report
    found = messages_to(report.subject or {}, report, _code_kind(consent), "", {})
    if report.environment == Environment.SANDBOX:
        found = [message for message in found if is_sendable(message)]
    channels = {message.channel.value for message in found}
    if not sms_is_configured():
        channels.discard(Channel.SMS)
    return sorted(channels, reverse=True)


def consent_code(consent: Consent, code: str, language: str) -> list[OutgoingMessage]:
    """Return the message with the code, for the channel that the consent names."""
    report = consent.report
    context = {**report.workspace.requester.message_context, "code": code}
    cause = code_cause(consent)
    subject = report.subject or {}
    kind = _code_kind(consent)
    found = messages_to(subject, report, kind, cause, context, language)
    return [message for message in found if message.channel == consent.code_channel]


def _code_kind(consent: Consent) -> Kind:
    """Return the kind of the code: for the decision, or to see the data afterwards."""
    is_asked = consent.status == ConsentStatus.PENDING and not consent.report.is_ended
    return Kind.CONSENT_CODE if is_asked else Kind.ACCESS_CODE


def access_link(report: Report, consent: Consent) -> list[OutgoingMessage]:
    """Return the messages with the link to the subject's data, one to each address.

    A number counts only if an SMS can go out, or be seen in the sandbox's mailbox.
    """
    has_sms = sms_is_configured() or report.environment == Environment.SANDBOX
    cause = request_cause(consent)
    found = _link_messages(report, consent, Kind.ACCESS_LINK, cause)
    if consent.status in DECIDED_STATUSES:
        for message in found:
            message.context["expiresAt"] = None
    return [m for m in found if m.channel == Channel.EMAIL or has_sms]


def link_channels(consent: Consent) -> tuple[str, ...]:
    """Return the channels by which the service has sent the present link."""
    causes = [request_cause(consent), reminder_cause(consent)]
    sent = Notification.objects.filter(cause__in=causes, status=NotificationStatus.SENT)
    return tuple(sorted(set(sent.values_list("channel", flat=True))))


def consent_receipt(report: Report, record: ConsentRecord) -> list[OutgoingMessage]:
    """Return the message with the receipt, an e-mail as it carries a document."""
    reason = (record.evidence or {}).get("reason")
    context = {
        **report.workspace.requester.message_context,
        "number": record.number,
        "decision": record.decision,
        "reason": reason if reason in REASON_CODES else "",
        "made": (record.evidence or {}).get("made", ""),
        "byStaff": record.is_by_staff,
        "hasText": record.notice_sha256 is not None,
        "isCompany": report.subject_type == SubjectType.COMPANY,
        "recordId": str(record.pk),
        "link": links.consent_url(record.consent_id, record.generation),
    }
    # The language of the page. If staff withdrew for the subject, there was no page.
    language = record.language or BILINGUAL
    subject, cause = report.subject or {}, f"receipt:{record.pk}"
    found = messages_to(subject, report, Kind.CONSENT_RECEIPT, cause, context, language)
    return [message for message in found if message.channel == Channel.EMAIL]


def _link_messages(
    report: Report, consent: Consent, kind: Kind, cause: str
) -> list[OutgoingMessage]:
    context = {
        **report.workspace.requester.message_context,
        "purpose": report.purpose,
        "link": links.consent_url(consent.pk, consent.generation),
        "expiresAt": utc_text(consent.expires_at) if consent.expires_at else None,
        "asks": challenge_for_consent(consent) is not None,
        "isCompany": report.subject_type == SubjectType.COMPANY,
        "pays": _subject_price(report),
    }
    return messages_to(report.subject or {}, report, kind, cause, context)


def _subject_price(report: Report) -> str:
    # Read the payment only if there is one: a batch may hold 500 reports.
    if report.payment_mode != PaymentMode.CANDIDATE:
        return ""
    payment = getattr(report, "payment", None)
    if payment is None or not payment.amount:
        return ""
    return f"{payment.currency} {payment.amount:,.2f}"


def messages_to(
    person: Mapping[str, Any],
    report: Report,
    kind: Kind,
    cause: str,
    context: dict[str, Any],
    language: str = BILINGUAL,
) -> list[OutgoingMessage]:
    """Return one message for each address of the report's subject or payer."""
    return [
        OutgoingMessage(
            kind,
            Channel(channel),
            cause,
            address,
            context,
            language,
            report.workspace_id,
            report.environment == Environment.SANDBOX,
            report.pk,
        )
        for channel, address in addresses_of(person)
    ]
