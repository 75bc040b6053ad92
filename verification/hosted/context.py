"""What each page of a consent shows."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils.timezone import now
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from verification import links
from verification.checks.models import ResultStatus
from verification.consents.challenges import challenge_of, is_code_alive
from verification.consents.models import Consent, ConsentRecord, ConsentStatus
from verification.consents.notices import Notice, notice_for
from verification.hosted import forms
from verification.hosted.masking import details_of
from verification.hosted.opened import Opened
from verification.hosted.pages import client_of, qr_code
from verification.hosted.payment_context import money
from verification.hosted.stages import Stage
from verification.masking import address, end
from verification.notifications.models import Channel, Kind
from verification.ordering.challenging import TRIES
from verification.ordering.consent_links import is_renewed_by_subject, needs_client
from verification.ordering.gates import cannot_be_made
from verification.ordering.payers import payer_of
from verification.ordering.paying import closed_as
from verification.ordering.telling import code_channels, is_reached
from verification.pages import minutes_until
from verification.reports.models import (
    PaymentMode,
    ReportStatus,
    SubjectType,
)
from verification.wire import one_line
from workspaces.models import Environment

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
