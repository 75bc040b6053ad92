"""A visit to a consent: what its cookie holds.

Where a consent is for who visits it: which page answers.

How a consent is opened: by whom, and at which stage it is.

What each page of a consent shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import wraps
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.timezone import now
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from verification import links
from verification.checks.models import ResultStatus
from verification.consents.challenge_answers import TRIES, Locked
from verification.consents.challenges import challenge_of, is_code_alive, is_under_age
from verification.consents.decisions import ConsentClosed
from verification.consents.links import (
    NotResendable,
    is_renewed_by_subject,
    needs_client,
)
from verification.consents.messages import REACHED_AT, code_channels, is_reached
from verification.consents.models import (
    Consent,
    ConsentRecord,
    ConsentStatus,
    RetiredLink,
)
from verification.consents.notices import Notice, notice_for
from verification.db.encryption import keyed_hash
from verification.hosted import forms
from verification.hosted.pages import (
    View,
    VisitCookie,
    client_of,
    details_of,
    opening,
    qr_code,
    see_other,
)
from verification.hosted.payment_page import money
from verification.notifications.models import Channel, Kind
from verification.payments.checkouts import closed_as
from verification.payments.messages import payer_of
from verification.reports.create import cannot_be_made
from verification.reports.models import (
    PaymentMode,
    ReportStatus,
    SubjectType,
)
from verification.values.masking import address, end
from verification.values.wire import one_line
from verification.web.pages import minutes_until
from workspaces.models import Environment

CONSENT = VisitCookie("/c/v/", "hosted.consent", seconds=3600)
# One more than the longest name that is taken; a cookie has 4 KB.
KEPT_LENGTH = 201


@dataclass(frozen=True, slots=True)
class Visit:
    """`confirmed` is blank until the visitor has shown who they are, and `proved` until
    they have typed the code that was sent to them. `typed` is a form that was not
    taken, to be shown again with what is wrong."""

    consent_id: UUID
    generation: int
    confirmed: str = ""
    proved: str = ""
    typed: dict[str, str] | None = None

    def confirm(self, consent: Consent) -> Visit:
        return replace(self, confirmed=_confirmation(consent), typed=None)

    def prove(self, consent: Consent, channel: str) -> Visit:
        """With the code typed that was sent to the subject by this channel."""
        return replace(self, proved=_proof(consent, channel), typed=None)

    def forget(self) -> Visit:
        return replace(self, typed=None)

    def keep(self, typed: Mapping[str, str], names: Iterable[str]) -> Visit:
        """With these members of a form, as far as a cookie can hold them."""
        return replace(self, typed={n: typed.get(n, "")[:KEPT_LENGTH] for n in names})

    def is_confirmed(self, consent: Consent) -> bool:
        return self.confirmed == _confirmation(consent)

    def proved_by(self, consent: Consent) -> str:
        """The channel that the code went to which was typed; "" if none was."""
        proofs = {_proof(consent, channel): channel for channel in REACHED_AT}
        return proofs.get(self.proved, "")


def remember(response: HttpResponse, visit: Visit) -> None:
    value = asdict(visit)
    del value["consent_id"]
    CONSENT.remember(response, visit.consent_id, value)


def visit_of(request: HttpRequest, consent_id: UUID) -> Visit | None:
    value = CONSENT.value_of(request, consent_id)
    return Visit(consent_id, **value) if value else None


def _proof(consent: Consent, channel: str) -> str:
    # Of the address: an edit of the draft to another one asks again.
    address = (consent.report.subject or {}).get(REACHED_AT[Channel(channel)], "")
    return keyed_hash("proved", consent.pk, channel, address).hex()[:32]


def _confirmation(consent: Consent) -> str:
    # Of what was asked for: an edit of the draft to another person asks again.
    subject = consent.report.subject or {}
    members = ("dateOfBirth", "idNumber", "registrationNumber", "kraPin")
    known = (subject.get(member, "") for member in members)
    return keyed_hash("confirmed", consent.pk, *known).hex()[:32]


ASKING = {ReportStatus.DRAFT, ReportStatus.PENDING_CONSENT}


class Stage(StrEnum):
    REPLACED = "replaced"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    LOCKED = "locked"
    LOCKED_FOR_GOOD = "locked_for_good"
    CHALLENGE = "challenge"
    # The subject types a code that was sent to them.
    CODE = "code"
    UNDER_AGE = "under_age"
    ASKED = "asked"
    GRANTED = "granted"
    DECLINED = "declined"
    WITHDRAWN = "withdrawn"


ANSWERED = {
    ConsentStatus.GRANTED: Stage.GRANTED,
    ConsentStatus.DECLINED: Stage.DECLINED,
    ConsentStatus.WITHDRAWN: Stage.WITHDRAWN,
}


def stage_of(consent: Consent, visit: Visit, at: datetime) -> Stage:
    if visit.generation != consent.generation or consent.expires_at is None:
        return Stage.REPLACED
    if consent.status == ConsentStatus.EXPIRED:
        return Stage.EXPIRED
    if consent.status == ConsentStatus.PENDING:
        if consent.report.status not in ASKING:
            return Stage.CANCELLED
        # The job that closes it may not have come yet.
        if consent.expires_at <= at:
            return Stage.EXPIRED
    if challenge_of(consent) and not visit.is_confirmed(consent):
        if consent.is_locked_for_good:
            return Stage.LOCKED_FOR_GOOD
        return Stage.LOCKED if consent.is_locked(at) else Stage.CHALLENGE
    if answered := ANSWERED.get(ConsentStatus(consent.status)):
        return answered
    if is_under_age(consent.report.subject, at):
        return Stage.UNDER_AGE
    if not visit.proved_by(consent) and code_channels(consent):
        return Stage.LOCKED_FOR_GOOD if consent.is_locked_for_good else Stage.CODE
    return Stage.ASKED


# What a verb says when the consent went another way meanwhile.
OVERTAKEN = (ConsentClosed, Locked, NotResendable, Consent.DoesNotExist)


@dataclass(frozen=True, slots=True)
class Opened:
    """A consent, opened by a link in this browser."""

    consent: Consent
    visit: Visit
    stage: Stage


OpenedView = Callable[[HttpRequest, Opened], HttpResponse]


def to_page(consent_id: UUID, query: str = "") -> HttpResponse:
    return see_other(CONSENT.path_of(consent_id) + query)


def _opened(request: HttpRequest, consent_id: UUID) -> Opened | None:
    visit = visit_of(request, consent_id)
    if visit is None:
        return None
    rows = Consent.objects.select_related("report__workspace", "report__payment")
    consent = rows.filter(pk=consent_id).first() or _retired(visit)
    return Opened(consent, visit, stage_of(consent, visit, now()))


def _retired(visit: Visit) -> Consent:
    """What an edit of the draft replaced, as far as its link remembers it."""
    links = RetiredLink.objects.select_related("report__workspace", "report__payment")
    link = links.filter(row_id=visit.consent_id, generation=visit.generation).first()
    if link is None:
        raise Consent.DoesNotExist
    # No link leads to this one any more, as `stage_of` tells by `expires_at`.
    return Consent(pk=link.row_id, report=link.report, generation=link.generation)


opened = opening(CONSENT, _opened, over="over", overtaken=OVERTAKEN)


def acting(*stages: Stage) -> Callable[[OpenedView], View]:
    """A POST at one of these stages; anything else leads to the page as it is now."""

    def decorate(view: OpenedView) -> View:
        @opened
        @wraps(view)
        def act(request: HttpRequest, visited: Opened) -> HttpResponse:
            if request.method != "POST" or visited.stage not in stages:
                return to_page(visited.consent.pk)
            return view(request, visited)

        return act

    return decorate


Shown = dict[str, Any]
# Of a report whose subject has agreed, and whose checks have not begun.
BEFORE_CHECKS = {ReportStatus.DRAFT, ReportStatus.PENDING_PAYMENT}


def notice_of(consent: Consent) -> Notice:
    """In the language of the page."""
    return notice_for(consent, get_language() or "en")


def closed(request: HttpRequest, visited: Opened) -> Shown:
    """Of pages that name who asked, and nothing of the subject."""
    consent = visited.consent
    locked_minutes = minutes_until(consent.locked_until)
    return {
        "consent_id": consent.pk,
        "stop": stop_path(visited),
        **client_of(consent.report.workspace),
        "is_company": consent.report.subject_type == SubjectType.COMPANY,
        "is_test": consent.report.environment == Environment.SANDBOX,
        "timezone": notice_of(consent).timezone,
        "can_renew": visited.stage == Stage.EXPIRED
        and is_renewed_by_subject(consent.report),
        "too_soon": "too-soon" in request.GET,
        "locked_minutes": locked_minutes,
        "locked_hours": -(-locked_minutes // 60),
        "ask_path": reverse("hosted:ask-client", args=[consent.pk]),
        "can_ask": needs_client(consent, consent.report, now()),
        "has_asked": consent.link_wanted_at is not None,
    }


def stop_path(visited: Opened) -> str:
    """Where the visitor can block the workspace. Another link's subject may be
    somebody else, so replaced links lead nowhere."""
    if visited.stage in {Stage.REPLACED, Stage.CANCELLED}:
        return ""
    return reverse("hosted:block", args=[visited.consent.pk])


def challenge(request: HttpRequest, visited: Opened) -> Shown:
    consent = visited.consent
    is_asked = consent.status == ConsentStatus.PENDING
    return {
        **closed(request, visited),
        "form": forms.challenge(challenge_of(consent), visited.visit.typed),
        "wrong": "wrong" in request.GET and consent.wrong_answers > 0,
        "steps": steps_of(consent) if is_asked else 2,
        "tries_left": TRIES - consent.wrong_answers,
        # Which lock comes next: 0 to 2 for a time, 3 for good.
        "next_lock": min(consent.locks, 3 if is_asked else 2),
    }


def code(request: HttpRequest, visited: Opened) -> Shown:
    consent = visited.consent
    return {
        **closed(request, visited),
        "form": forms.Code(visited.visit.typed),
        "places": places_of(consent),
        "sent_to": dict(places_of(consent)).get(consent.code_channel)
        if is_code_alive(consent, now())
        else None,
        "wrong": "wrong" in request.GET,
        "not_sent": "not-sent" in request.GET,
        "step": 2 if challenge_of(consent) else 1,
        "steps": steps_of(consent),
    }


def places_of(consent: Consent) -> list[tuple[str, str]]:
    """Channel and masked address of where a code can be sent, the best first."""
    subject = consent.report.subject or {}
    masked = {
        Channel.SMS.value: end(subject.get("phone", ""), 3),
        Channel.EMAIL.value: address(subject.get("email", "")),
    }
    return [(channel, masked[channel]) for channel in code_channels(consent)]


def steps_of(consent: Consent) -> int:
    """How many pages there are up to the decision, with it."""
    return 1 + bool(challenge_of(consent)) + bool(code_channels(consent))


def replaced(request: HttpRequest, visited: Opened) -> Shown:
    """What was answered by the old link is not lost with it."""
    return {
        **closed(request, visited),
        "records": records_of(visited),
        "is_mine": is_mine(visited),
    }


def is_mine(visited: Opened) -> bool:
    """Confirmed by this browser; an edit to another person undoes it."""
    return visited.visit.is_confirmed(visited.consent)


def asked(request: HttpRequest, visited: Opened) -> Shown:
    consent = visited.consent
    # Who was not asked to confirm anything is told nothing about the subject.
    known = consent.report.subject if challenge_of(consent) else None
    return {
        **closed(request, visited),
        "notice": notice_of(consent),
        "form": forms.grant(consent.report, visited.visit.typed),
        "steps": steps_of(consent),
        "changed": "changed" in request.GET,
        "details": details_of(known or {}),
        "expires_at": consent.expires_at,
    }


def under_age(request: HttpRequest, visited: Opened) -> Shown:
    told = under_age_text(visited.consent)
    return {**closed(request, visited), "told": told}


def under_age_text(consent: Consent) -> str:
    """What a subject under 18 reads in place of the notice."""
    client = one_line(consent.report.workspace.requester.name)
    return " ".join(
        [
            _("You are under 18, so you cannot agree here, and no check is made."),
            _("A parent or guardian decides with %(client)s.") % {"client": client},
        ]
    )


def answered(request: HttpRequest, visited: Opened) -> Shown:
    consent = visited.consent
    notice = notice_of(consent)
    records = records_of(visited)
    url = links.consent_url(consent.pk, consent.generation)
    return {
        **closed(request, visited),
        "records": records,
        "record": records[0],
        "evidence": records[0].evidence or {},
        "sha256": bytes(records[0].notice_sha256 or b"").hex(),
        "notice": notice,
        "url": url,
        "qr": qr_code(url),
        "report": consent.report,
        **payment_of(consent),
        "is_outdated": consent.status == ConsentStatus.GRANTED
        and consent.report.status in BEFORE_CHECKS
        and bool(cannot_be_made(consent.report)),
        # Of the last answer: a check that was running then may have ended since.
        "made": (records[-1].evidence or {}).get("made"),
        "is_by_staff": records[-1].is_by_staff,
        "checks": checks_of(consent, notice),
    }


def payment_of(consent: Consent) -> Shown:
    """Where the subject pays, and how much, or whether the other payer gets our
    message; nothing if nobody can pay now."""
    report = consent.report
    payment = getattr(report, "payment", None)
    if report.payment_mode == PaymentMode.THIRD_PARTY:
        reached = is_reached(report, Kind.PAYMENT_REQUEST, payer_of(report))
        return {"is_payer_reached": reached}
    if report.payment_mode != PaymentMode.CANDIDATE or payment is None:
        return {}
    if closed_as(report, payment, payment.generation, now()):
        return {}
    return {
        "pay_url": links.payment_url(payment.pk, payment.generation),
        "amount": money(payment.amount, payment.currency),
    }


def checks_of(consent: Consent, notice: Notice) -> list[tuple[str, str]]:
    """What the notice calls each check of the report, and the status of the check.

    What waits in a draft does not wait for a consent that was withdrawn.
    """
    report = consent.report
    statuses = dict(report.results.values_list("name", "status"))
    if consent.status == ConsentStatus.WITHDRAWN:
        waiting, ended = ResultStatus.PENDING, ResultStatus.CANCELLED
        statuses = {k: ended if v == waiting else v for k, v in statuses.items()}
    headings = (point.heading for point in notice.checks)
    return [
        (heading, statuses[name])
        for name, heading in zip(report.checks_requested, headings, strict=True)
        if name in statuses
    ]


OF_STAGE = {
    Stage.REPLACED: replaced,
    Stage.CHALLENGE: challenge,
    Stage.CODE: code,
    Stage.UNDER_AGE: under_age,
    Stage.ASKED: asked,
    Stage.GRANTED: answered,
    Stage.DECLINED: answered,
    Stage.WITHDRAWN: answered,
}


def records_of(visited: Opened) -> list[ConsentRecord]:
    """What was answered by this link, oldest first."""
    records = ConsentRecord.objects.filter(
        consent_id=visited.consent.pk, generation=visited.visit.generation
    )
    return list(records.exclude(happened=ConsentRecord.Happened.EXPIRED))
