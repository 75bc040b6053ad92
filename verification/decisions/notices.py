"""The notice of a decline: who gets it, its messages, and the proof of its service.

A decline needs a notice if it rests on a credit bureau's result (Banking (Credit
Reference Bureau) Regulations, 2020, regulation 2: "adverse action notice"), or if no
person has looked at it (Data Protection Act, 2019, section 35). The messages hold a
link alone: the page with the reasons lies behind the proof of `hosted.subject_data`.
If no message reaches the person, the client hands over the PDF and records that.

A workspace may let such a decline wait (`NoticeRule`). Its clock starts with the
service of the notice, and stops while a correction or a review is open.
"""

import tomllib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext_noop as _

from verification import links
from verification.backoffice import audit
from verification.backoffice.approvals import DecisionRefused
from verification.checks.models import CheckDefinition, CheckResult, ResultStatus
from verification.consents.links import AccessNotSendable, opens_data, renew_access_link
from verification.consents.models import DECIDED_STATUSES, Consent, ConsentRecord
from verification.consents.subject_messages import addresses_of, messages_to
from verification.decisions.cases import reports_in_review
from verification.decisions.findings import reports_under_dispute, results_where
from verification.decisions.models import (
    AdverseNotice,
    Decision,
    DecisionState,
    DecisionStatus,
    FactKind,
    MakerKind,
    NoticeFact,
    NoticeState,
    ReasonCode,
    notice_rule_of,
)
from verification.jobs.claims import sweep
from verification.jobs.names import JobName
from verification.jobs.queue import job, schedule_job
from verification.notifications.models import (
    BILINGUAL,
    Channel,
    Kind,
    Notification,
    NotificationError,
    NotificationStatus,
)
from verification.notifications.outbox import OutgoingMessage, cancel, notify
from verification.notifications.sms import sms_is_configured
from verification.reports.hosted_links import RESEND_INTERVAL, require_resend_interval
from verification.reports.models import Report
from verification.reports.status import lock_report, locked_reports, record_note
from verification.values.clock import now
from verification.values.local_time import NAIROBI, utc_text
from verification.values.masking import mask_email, mask_end
from workspaces.members import Permission, require_present
from workspaces.models import Client, Environment, Member

MAX_ROUNDS = 10
MAX_NAME_LENGTH = 100
FRIDAY = 4
UNSERVED = (NoticeState.SENDING, NoticeState.UNDELIVERED)


class NoticeObstacle(StrEnum):
    """Why a verb about a notice is refused."""

    ENDED = _("The notice is not needed any more.")
    ERASED = _("The personal data of the report was erased.")
    NO_ADDRESS = _("No message can reach the person: hand over the PDF instead.")
    TOO_OFTEN = _("The notice was sent too often. Hand over the PDF instead.")
    TOO_EARLY = _("The day of the hand-over cannot be before the decision.")
    IN_FUTURE = _("The day of the hand-over cannot be in the future.")


class NoticeRefused(DecisionRefused):
    """The verb changed nothing."""

    def __init__(self, obstacle: NoticeObstacle) -> None:
        super().__init__(str(obstacle))
        self.obstacle = obstacle


@dataclass(frozen=True, slots=True)
class Bureau:
    """A credit bureau as notices name it; contacts may be blank."""

    name: str
    website: str = ""
    email: str = ""
    phone: str = ""
    ussd: str = ""


@dataclass(frozen=True, slots=True)
class Grounds:
    """Why a decline needs a notice."""

    results: list[CheckResult]
    rests_on_bureau: bool
    is_automated: bool


def grounds_of(report: Report, decision: Decision) -> Grounds | None:
    """Return why the decision needs a notice once it counts, or None.

    It rests on a bureau's result if a reason code says so, or if the report has a
    completed credit check and the maker does not say that the decline rests on others.
    """
    if decision.status != DecisionStatus.DECLINED:
        return None
    results = list(credit_results(report))
    rests = bureau_codes_of(report, decision.codes or ()).exists() or (
        bool(results) and not decision.not_on_bureau
    )
    is_automated = (
        decision.made_by_kind == MakerKind.POLICY and decision.second_by_user is None
    )
    if not (rests or is_automated):
        return None
    return Grounds(results if rests else [], rests, is_automated)


def credit_results(report: Report) -> QuerySet[CheckResult]:
    """Return the completed credit checks of the report."""
    return report.results.filter(
        definition__category=CheckDefinition.Category.CREDIT,
        status=ResultStatus.COMPLETED,
    )


def bureau_codes_of(report: Report, codes: Any) -> QuerySet[ReasonCode]:
    """Return the reasons among `codes` that come from a credit bureau."""
    return ReasonCode.objects.filter(
        workspace=report.workspace_id, code__in=codes, from_bureau=True
    )


def waiting_days_of(report: Report, grounds: Grounds | None) -> int | None:
    """Return how many working days the decline has to wait, or None."""
    return notice_rule_of(report.workspace).waiting_days if grounds else None


def serve(
    report: Report,
    decision: Decision,
    grounds: Grounds,
    waiting_days: int | None,
    at: datetime,
) -> AdverseNotice:
    """Make the notice and send it, in the transaction of the decision.

    The caller has locked the report.
    """
    sources = [(one.finding or {}).get("evidence") or {} for one in grounds.results]
    notice = AdverseNotice(
        decision=decision,
        report=report,
        workspace_id=report.workspace_id,
        environment=report.environment,
        bureaus=sorted({one["provider"] for one in sources if one.get("provider")}),
        result_ids=[one.pk for one in grounds.results],
        rests_on_bureau=grounds.rests_on_bureau,
        is_automated=grounds.is_automated,
        language=_language_of(report),
        waiting_days=waiting_days,
        created_at=at,
    )
    _send(report, notice, at)
    return notice


def end_notice(decision: Decision) -> None:
    """End the notice of a decline that does not count, and cancel unsent messages."""
    for notice in AdverseNotice.objects.filter(decision=decision):
        _end(notice)


def end_former_notices(report: Report, decision: Decision) -> None:
    """End the notices that nobody has got of declines that this decision replaces."""
    # Locked, because the outcome of a message may serve one at this moment.
    rows = AdverseNotice.objects.select_for_update(no_key=True).order_by("pk")
    unserved = rows.filter(report=report, state__in=UNSERVED)
    for notice in unserved.exclude(decision=decision):
        _end(notice)


def tell_of_successor(report: Report, decision: Decision, at: datetime) -> None:
    """Tell the person that this decision replaces a decline of which they got a notice.

    A decline with a notice of its own tells it by that, and the answer to a review by
    `ANSWER_REVIEWS`.
    """
    has_notice = AdverseNotice.objects.filter(decision=decision).exists()
    if decision.status == DecisionStatus.REVIEW or has_notice:
        return
    served = report.notices.filter(served_at__isnull=False).select_related("decision")
    former = served.order_by("-pk").first()
    if former is None or former.reviewed_at == at:
        return
    between = report.decisions.filter(
        Q(notice=None) | Q(notice__served_at__isnull=False),
        state=DecisionState.FINAL,
        number__gt=former.decision.number,
        number__lt=decision.number,
    )
    if between.exclude(status=DecisionStatus.REVIEW).exists():
        # The person has heard of that one.
        return
    _tell(report, former, f"anew:{decision.pk}", {"isDecidedAnew": True}, at)


def tell_of_withdrawal(report: Report, at: datetime) -> None:
    """Tell the person, once, that the last decline that they know is taken back.

    It may be one before the decline that has just ended, whose notice was never served.
    The answer to a review tells it by `ANSWER_REVIEWS`.
    """
    served = report.notices.filter(served_at__isnull=False).select_related("decision")
    notice = served.order_by("-pk").first()
    if notice is None or notice.reviewed_at == at:
        return
    if notice.decision.state == DecisionState.WITHDRAWN:
        cause = f"back:{notice.decision_id}"
        _tell(report, notice, cause, {"isTakenBack": True}, at)


def _tell(
    report: Report,
    notice: AdverseNotice,
    cause: str,
    news: dict[str, bool],
    at: datetime,
) -> None:
    """Write the news of a decline to the person who got its notice."""
    if not (link := link_of(report, at)):
        return
    context = {**report.workspace.requester.message_context, **link, **news}
    kind, language = Kind.REVIEW_ANSWER, notice.language or BILINGUAL
    notify(*messages_to(report.subject or {}, report, kind, cause, context, language))


def _end(notice: AdverseNotice) -> None:
    cancel(*_causes(notice))
    notice.state, notice.stopped_at = NoticeState.ENDED, None
    notice.save(update_fields=["state", "stopped_at"])


def end_reviews(report: Report, at: datetime) -> None:
    """Note that a person has looked at the declines whose subject asked for it."""
    asked = AdverseNotice.objects.filter(
        report=report, review_asked_at__isnull=False, reviewed_at=None
    )
    if asked.update(reviewed_at=at):
        schedule_job(JobName.ANSWER_REVIEWS, report.pk)


def drop_reviews(report: Report) -> None:
    """Drop the subject's request for a review. The subject can ask again."""
    waiting = AdverseNotice.objects.filter(report=report, reviewed_at=None)
    waiting.update(review_asked_at=None)


@transaction.atomic
def resend(client: Client, notice_id: UUID, member: Member) -> AdverseNotice:
    """Send the notice again, to the addresses that the report has now.

    Raises AdverseNotice.DoesNotExist, NotAllowed, NoticeRefused and ResendTooSoon.
    """
    report, notice = _lock_for(client, notice_id, member)
    _resend(report, notice, client.actor)
    return notice


@transaction.atomic
def send_message_again(message: Notification, by: str) -> None:
    """Send the notice of a message again, for staff.

    The round is a new one, as a message has one outcome. Raises NoticeRefused and
    ResendTooSoon.
    """
    notice_id = UUID(message.cause.split(":")[1])
    report = locked_reports().get(notices=notice_id)
    rows = AdverseNotice.objects.select_for_update(of=("self",), no_key=True)
    notice = rows.get(pk=notice_id)
    notice.report = report
    _require_needed(report, notice)
    _resend(report, notice, by)


def _resend(report: Report, notice: AdverseNotice, by: str) -> None:
    at = now()
    if notice.rounds >= MAX_ROUNDS:
        raise NoticeRefused(NoticeObstacle.TOO_OFTEN)
    if notice.messaged_at:
        require_resend_interval(notice.messaged_at, at)
    served = notice.state == NoticeState.SERVED
    cancel(*_causes(notice))
    _send(report, notice, at)
    if notice.is_settled:
        raise NoticeRefused(NoticeObstacle.NO_ADDRESS)
    if served:
        notice.state = NoticeState.SERVED
        notice.save(update_fields=["state"])
    record_note(report, "notice of the decline sent again", by, at)


@transaction.atomic
def hand_over(
    client: Client,
    notice_id: UUID,
    member: Member,
    actor: audit.Actor,
    *,
    by: str,
    on: date,
) -> AdverseNotice:
    """Record that somebody handed the PDF to the person: that is its service.

    Raises AdverseNotice.DoesNotExist, NotAllowed and NoticeRefused.
    """
    report, notice = _lock_for(client, notice_id, member)
    at = now()
    if on < notice.created_at.astimezone(NAIROBI).date():
        raise NoticeRefused(NoticeObstacle.TOO_EARLY)
    if on > at.astimezone(NAIROBI).date():
        raise NoticeRefused(NoticeObstacle.IN_FUTURE)
    kind, details = FactKind.HANDED_OVER, {"by": by, "on": on.isoformat()}
    if any(fact.details == details for fact in notice.facts.filter(kind=kind)):
        # The form was sent twice.
        return notice
    NoticeFact.objects.create(
        notice=notice, kind=kind, at=at, recorded_by=client.actor, details=details
    )
    _mark_served(notice, at)
    notice.save()
    record_note(report, "notice of the decline handed over", client.actor, at)
    audit.record("notice.handed-over", actor, notice.decision)
    return notice


@transaction.atomic
def record_reading(notice: AdverseNotice, kind: FactKind) -> None:
    """Record that the person opened or downloaded the notice, the first time.

    That serves it if no message has: the client may have passed the link on.
    """
    at = now()
    fact = NoticeFact(notice=notice, kind=kind, at=at)
    NoticeFact.objects.bulk_create([fact], ignore_conflicts=True)
    if notice.state not in UNSERVED:
        return
    rows = AdverseNotice.objects.select_for_update(of=("self",), no_key=True)
    unserved = rows.filter(pk=notice.pk, state__in=UNSERVED)
    if found := unserved.select_related("decision").first():
        _mark_served(found, at)
        found.save()
    notice.refresh_from_db(fields=["state", "served_at", "waits_until"])


@job
def record_outcomes() -> None:
    """Turn the outcomes of messages into facts, and start the clocks of declines."""
    sweep(AdverseNotice.objects.filter(is_settled=False), _record_outcome)


@transaction.atomic
def _record_outcome(notice_id: UUID) -> None:
    notices = AdverseNotice.objects.select_for_update(of=("self",), no_key=True)
    notice = notices.select_related("decision", "report").get(pk=notice_id)
    if notice.is_settled:
        return
    messages = list(Notification.objects.filter(cause__in=_causes(notice)))
    ended = [one for one in messages if one.status != NotificationStatus.PENDING]
    facts = [
        _fact_of(notice, one)
        for one in ended
        if one.status != NotificationStatus.CANCELLED
    ]
    NoticeFact.objects.bulk_create(facts, ignore_conflicts=True)
    sent = [fact.at for fact in facts if fact.kind == FactKind.SENT]
    if sent and notice.state == NoticeState.SENDING:
        _mark_served(notice, min(sent))
    notice.is_settled = len(ended) == len(messages)
    if notice.is_settled and notice.state == NoticeState.SENDING:
        _mark_undelivered(notice, now())
    notice.save()


def _fact_of(notice: AdverseNotice, message: Notification) -> NoticeFact:
    # The sandbox sends to nobody but testers; its mailbox shows the message.
    is_shown = message.error == NotificationError.SANDBOX
    is_sent = message.status == NotificationStatus.SENT or is_shown
    address = _masked(message.channel, message.recipient)
    return NoticeFact(
        notice=notice,
        kind=FactKind.SENT if is_sent else FactKind.FAILED,
        at=message.sent_at or now(),
        channel=message.channel,
        notification_id=message.pk,
        error=message.error,
        details={"address": address} if address else None,
    )


def _masked(channel: str, address: str | None) -> str:
    if not address:
        return ""
    return mask_email(address) if channel == Channel.EMAIL else mask_end(address, 3)


def _mark_served(notice: AdverseNotice, at: datetime) -> None:
    """Note the first service, and start the clock of a decline that waits."""
    notice.state = NoticeState.SERVED
    notice.served_at = notice.served_at or at
    waits = notice.decision.state == DecisionState.WAITING
    if waits and notice.waiting_days and notice.waits_until is None:
        days = timedelta(days=notice.waiting_days)
        notice.waits_until = add_working_time(at, days)


def _mark_undelivered(notice: AdverseNotice, at: datetime) -> None:
    notice.state, notice.undelivered_at = NoticeState.UNDELIVERED, at


def working_time(begin: datetime, end: datetime) -> timedelta:
    """Return how much of the time between the two falls on weekdays, in Nairobi.

    Public holidays count as working time.
    """
    total, moment = timedelta(), begin.astimezone(NAIROBI)
    while moment < end:
        until = min(_next_midnight(moment), end.astimezone(NAIROBI))
        if moment.weekday() <= FRIDAY:
            total += until - moment
        moment = until
    return total


def add_working_time(at: datetime, time: timedelta) -> datetime:
    """Return the moment at which this much time of weekdays has passed, in Nairobi."""
    moment = at.astimezone(NAIROBI)
    today = working_time(moment, _next_midnight(moment))
    while time > today or moment.weekday() > FRIDAY:
        moment, time = _next_midnight(moment), time - today
        today = working_time(moment, _next_midnight(moment))
    return (moment + time).astimezone(at.tzinfo)


def _next_midnight(moment: datetime) -> datetime:
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    return day + timedelta(days=1)


def is_stopped(notice: AdverseNotice) -> bool:
    """Return whether a correction or a review is open, so that the clock stands.

    The review may be that of an earlier decline, and the correction that of another
    report with the same answer.
    """
    disputed = results_where(notice.report, Q(disputed_at__isnull=False))
    return disputed.exists() or bool(reports_in_review([notice.report_id]))


def reports_under_correction(reports: Collection[UUID]) -> set[UUID]:
    """Return the IDs among `reports` of those with an open correction."""
    found = CheckResult.objects.filter(report__in=reports, disputed_at__isnull=False)
    return set(found.values_list("report_id", flat=True))


def notices_to_hand_over() -> QuerySet[AdverseNotice]:
    """Return the notices whose person no message has reached; an erasure ends them."""
    return AdverseNotice.objects.filter(state=NoticeState.UNDELIVERED)


def waiting_notices() -> QuerySet[AdverseNotice]:
    return AdverseNotice.objects.filter(decision__state=DecisionState.WAITING)


def move_clocks() -> None:
    """Stop the clocks of declines under correction or review, and let others go on.

    A clock goes on with the working time that it had left: the person has the days that
    the notice promised, whatever weekend follows.
    """
    waiting = waiting_notices().filter(waits_until__isnull=False)
    stopped, disputed = waiting.exclude(stopped_at=None), reports_under_dispute()
    sweep(waiting.filter(stopped_at=None, report__in=disputed), _move_clock)
    sweep(stopped.exclude(report__in=disputed), _move_clock)


@transaction.atomic
def _move_clock(notice_id: UUID) -> None:
    locked = waiting_notices().select_for_update(of=("self",), no_key=True)
    notice, at = locked.select_related("report").get(pk=notice_id), now()
    stands = is_stopped(notice)
    if stands and notice.stopped_at is None:
        notice.stopped_at = at
    elif not stands and notice.stopped_at and notice.waits_until:
        left = working_time(notice.stopped_at, notice.waits_until)
        notice.waits_until = add_working_time(at, left)
        notice.stopped_at = None
    notice.save(update_fields=["stopped_at", "waits_until"])


@cache
def _facts_of_bureaus(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def law(language: str) -> str:
    """Return the name of the law that demands the notice."""
    return str(_facts_of_bureaus(settings.CREDIT_BUREAUS)["law"][language])


def free_copy(language: str) -> str:
    """Return what the law says of a free copy of the bureau's report."""
    return str(_facts_of_bureaus(settings.CREDIT_BUREAUS)["free_copy"][language])


def bureaus_of(notice: AdverseNotice) -> list[Bureau]:
    known = _facts_of_bureaus(settings.CREDIT_BUREAUS)["bureaus"]
    return [Bureau(**known.get(name, {"name": name})) for name in notice.bureaus]


def _lock_for(
    client: Client, notice_id: UUID, member: Member
) -> tuple[Report, AdverseNotice]:
    """Return the client's notice with its report, which is locked."""
    own = AdverseNotice.objects.filter(
        report__workspace=client.workspace, report__environment=client.environment
    )
    report = lock_report(
        client, own.values_list("report_id", flat=True).get(pk=notice_id)
    )
    require_present(member, Permission.DECIDE_REPORTS)
    notice = own.select_for_update(of=("self",), no_key=True).get(pk=notice_id)
    notice.report = report
    _require_needed(report, notice)
    return report, notice


def _require_needed(report: Report, notice: AdverseNotice) -> None:
    if report.erased_at:
        raise NoticeRefused(NoticeObstacle.ERASED)
    if notice.state == NoticeState.ENDED:
        raise NoticeRefused(NoticeObstacle.ENDED)


def _send(report: Report, notice: AdverseNotice, at: datetime) -> None:
    """Write a round of messages, and save the notice."""
    notice.rounds += 1
    messages = _messages(report, notice, at)
    notice.state = NoticeState.SENDING
    if not messages:
        _mark_undelivered(notice, at)
    notice.is_settled = not messages
    notice.messaged_at = at if messages else notice.messaged_at
    notice.save()
    notify(*messages)


def _messages(
    report: Report, notice: AdverseNotice, at: datetime
) -> list[OutgoingMessage]:
    link = link_of(report, at)
    if not link:
        return []
    context = {**report.workspace.requester.message_context, **link}
    found = messages_to(
        report.subject or {},
        report,
        Kind.ADVERSE_NOTICE,
        _cause(notice, notice.rounds),
        context,
        notice.language or BILINGUAL,
    )
    channels = channels_to(report)
    return [one for one in found if one.channel in channels]


def channels_to(report: Report) -> list[Channel]:
    """Return the channels of messages to the subject, if the report has a consent."""
    if not Consent.objects.filter(report=report).exists():
        return []
    has_sms = sms_is_configured() or report.environment == Environment.SANDBOX
    found = [Channel(channel) for channel, _ in addresses_of(report.subject or {})]
    return [one for one in found if one == Channel.EMAIL or has_sms]


def link_of(
    report: Report, at: datetime, url: Callable[[UUID, int], str] = links.notice_url
) -> dict[str, str]:
    """Return the `link` to the notice for a message, with `expiresAt` if it expires.

    It is empty for a company, or if the link is not the subject's. A link that does not
    expire stays, as the person may have it open.
    """
    rows = Consent.objects.select_for_update(no_key=True)
    consent = rows.filter(report=report).first()
    if consent is None:
        return {}
    consent.report = report
    try:
        if not _keeps_link(consent, at):
            consent = renew_access_link(report)
    except AccessNotSendable:
        return {}
    link = {"link": url(consent.pk, consent.generation)}
    if consent.status not in DECIDED_STATUSES and consent.expires_at:
        link["expiresAt"] = utc_text(consent.expires_at)
    return link


def _keeps_link(consent: Consent, at: datetime) -> bool:
    if consent.token_digest is None or not opens_data(consent, at):
        return False
    is_new = consent.link_made_at + RESEND_INTERVAL > at
    return consent.status in DECIDED_STATUSES or is_new


def _language_of(report: Report) -> str:
    """Return the language in which the subject read the consent page, or ""."""
    records = ConsentRecord.objects.filter(report=report).exclude(language="")
    last = records.order_by("-pk").values_list("language", flat=True).first()
    return last or BILINGUAL


def _causes(notice: AdverseNotice) -> list[str]:
    return [_cause(notice, number) for number in range(1, notice.rounds + 1)]


def _cause(notice: AdverseNotice, number: int) -> str:
    return f"notice:{notice.pk}:{number}"
