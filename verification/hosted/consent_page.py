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
from verification.consents.challenge_answers import TRIES, LinkLocked
from verification.consents.challenges import (
    challenge_for_consent,
    is_code_valid,
    is_under_age,
)
from verification.consents.decisions import ConsentClosed
from verification.consents.links import ConsentNotRenewable, consent_links
from verification.consents.messages import CONTACT_MEMBERS, code_channels, is_reachable
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
    client_context,
    details_of,
    make_visit_required,
    qr_code,
    see_other,
)
from verification.hosted.payment_page import format_money
from verification.notifications.models import Channel, Kind
from verification.payments.checkouts import closed_reason
from verification.payments.messages import payer_of
from verification.reports.create import blocked_check_reason
from verification.reports.models import (
    PaymentMode,
    ReportStatus,
    SubjectType,
)
from verification.values.masking import mask_email, mask_end
from verification.values.wire import one_line
from verification.web.pages import minutes_until
from workspaces.models import Environment

CONSENT_COOKIE = VisitCookie("/c/v/", "hosted.consent", seconds=3600)
# One more than the longest name that is taken; a cookie has 4 KB.
MAX_TYPED_LENGTH = 201


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

    def with_proof(self, consent: Consent, channel: str) -> Visit:
        """With the code typed that was sent to the subject by this channel."""
        return replace(self, proved=_proof(consent, channel), typed=None)

    def without_form(self) -> Visit:
        return replace(self, typed=None)

    def keep(self, typed: Mapping[str, str], names: Iterable[str]) -> Visit:
        """With these members of a form, as far as a cookie can hold them."""
        return replace(
            self, typed={n: typed.get(n, "")[:MAX_TYPED_LENGTH] for n in names}
        )

    def is_confirmed(self, consent: Consent) -> bool:
        return self.confirmed == _confirmation(consent)

    def proved_channel(self, consent: Consent) -> str:
        """The channel that the code went to which was typed; "" if none was."""
        proofs = {_proof(consent, channel): channel for channel in CONTACT_MEMBERS}
        return proofs.get(self.proved, "")


def store_visit(response: HttpResponse, visit: Visit) -> None:
    value = asdict(visit)
    del value["consent_id"]
    CONSENT_COOKIE.remember(response, visit.consent_id, value)


def load_visit(request: HttpRequest, consent_id: UUID) -> Visit | None:
    value = CONSENT_COOKIE.value_of(request, consent_id)
    return Visit(consent_id, **value) if value else None


def _proof(consent: Consent, channel: str) -> str:
    # Of the address: an edit of the draft to another one asks again.
    address = (consent.report.subject or {}).get(CONTACT_MEMBERS[Channel(channel)], "")
    return keyed_hash("proved", consent.pk, channel, address).hex()[:32]


def _confirmation(consent: Consent) -> str:
    # Of what was asked for: an edit of the draft to another person asks again.
    subject = consent.report.subject or {}
    members = ("dateOfBirth", "idNumber", "registrationNumber", "kraPin")
    known = (subject.get(member, "") for member in members)
    return keyed_hash("confirmed", consent.pk, *known).hex()[:32]


PENDING_STATUSES = {ReportStatus.DRAFT, ReportStatus.PENDING_CONSENT}


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


STAGE_BY_DECISION = {
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
        if consent.report.status not in PENDING_STATUSES:
            return Stage.CANCELLED
        # The job that closes it may not have come yet.
        if consent.expires_at <= at:
            return Stage.EXPIRED
    if challenge_for_consent(consent) and not visit.is_confirmed(consent):
        if consent.is_locked_for_good:
            return Stage.LOCKED_FOR_GOOD
        return Stage.LOCKED if consent.is_locked(at) else Stage.CHALLENGE
    if answered := STAGE_BY_DECISION.get(ConsentStatus(consent.status)):
        return answered
    if is_under_age(consent.report.subject, at):
        return Stage.UNDER_AGE
    if not visit.proved_channel(consent) and code_channels(consent):
        return Stage.LOCKED_FOR_GOOD if consent.is_locked_for_good else Stage.CODE
    return Stage.ASKED


# What a verb says when the consent went another way meanwhile.
CONFLICT_ERRORS = (ConsentClosed, LinkLocked, ConsentNotRenewable, Consent.DoesNotExist)


@dataclass(frozen=True, slots=True)
class OpenConsent:
    """A consent, opened by a link in this browser."""

    consent: Consent
    visit: Visit
    stage: Stage


ConsentView = Callable[[HttpRequest, OpenConsent], HttpResponse]


def redirect_to_page(consent_id: UUID, query: str = "") -> HttpResponse:
    return see_other(CONSENT_COOKIE.path_of(consent_id) + query)


def _open_consent(request: HttpRequest, consent_id: UUID) -> OpenConsent | None:
    visit = load_visit(request, consent_id)
    if visit is None:
        return None
    rows = Consent.objects.select_related("report__workspace", "report__payment")
    consent = rows.filter(pk=consent_id).first() or _retired_consent(visit)
    return OpenConsent(consent, visit, stage_of(consent, visit, now()))


def _retired_consent(visit: Visit) -> Consent:
    """What an edit of the draft replaced, as far as its link remembers it."""
    links = RetiredLink.objects.select_related("report__workspace", "report__payment")
    link = links.filter(row_id=visit.consent_id, generation=visit.generation).first()
    if link is None:
        raise Consent.DoesNotExist
    # No link leads to this one any more, as `stage_of` tells by `expires_at`.
    return Consent(pk=link.row_id, report=link.report, generation=link.generation)


visit_required = make_visit_required(
    CONSENT_COOKIE, _open_consent, over="over", overtaken=CONFLICT_ERRORS
)


def require_post_at(*stages: Stage) -> Callable[[ConsentView], View]:
    """A POST at one of these stages; anything else leads to the page as it is now."""

    def decorate(view: ConsentView) -> View:
        @visit_required
        @wraps(view)
        def act(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
            if request.method != "POST" or visited.stage not in stages:
                return redirect_to_page(visited.consent.pk)
            return view(request, visited)

        return act

    return decorate


Context = dict[str, Any]
# Of a report whose subject has agreed, and whose checks have not begun.
BEFORE_CHECKS = {ReportStatus.DRAFT, ReportStatus.PENDING_PAYMENT}


def notice_of(consent: Consent) -> Notice:
    """In the language of the page."""
    return notice_for(consent, get_language() or "en")


def base_context(request: HttpRequest, visited: OpenConsent) -> Context:
    """Of pages that name who asked, and nothing of the subject."""
    consent = visited.consent
    locked_minutes = minutes_until(consent.locked_until)
    return {
        "consent_id": consent.pk,
        "stop": block_path(visited),
        **client_context(consent.report.workspace),
        "is_company": consent.report.subject_type == SubjectType.COMPANY,
        "is_test": consent.report.environment == Environment.SANDBOX,
        "timezone": notice_of(consent).timezone,
        "can_renew": visited.stage == Stage.EXPIRED
        and consent_links.can_visitor_renew(consent.report),
        "too_soon": "too-soon" in request.GET,
        "locked_minutes": locked_minutes,
        "locked_hours": -(-locked_minutes // 60),
        "ask_path": reverse("hosted:ask-client", args=[consent.pk]),
        "can_ask": bool(
            consent_links.client_action_needed(consent.report, consent, now())
        ),
        "has_asked": consent.link_requested_at is not None,
    }


def block_path(visited: OpenConsent) -> str:
    """Where the visitor can block the workspace. Another link's subject may be
    somebody else, so replaced links lead nowhere."""
    if visited.stage in {Stage.REPLACED, Stage.CANCELLED}:
        return ""
    return reverse("hosted:block", args=[visited.consent.pk])


def challenge_context(request: HttpRequest, visited: OpenConsent) -> Context:
    consent = visited.consent
    is_asked = consent.status == ConsentStatus.PENDING
    return {
        **base_context(request, visited),
        "form": forms.challenge_form(
            challenge_for_consent(consent), visited.visit.typed
        ),
        "wrong": "wrong" in request.GET and consent.wrong_answers > 0,
        "steps": count_steps(consent) if is_asked else 2,
        "tries_left": TRIES - consent.wrong_answers,
        # Which lock comes next: 0 to 2 for a time, 3 for good.
        "next_lock": min(consent.locks, 3 if is_asked else 2),
    }


def code_context(request: HttpRequest, visited: OpenConsent) -> Context:
    consent = visited.consent
    return {
        **base_context(request, visited),
        "form": forms.CodeForm(visited.visit.typed),
        "places": code_destinations(consent),
        "sent_to": dict(code_destinations(consent)).get(consent.code_channel)
        if is_code_valid(consent, now())
        else None,
        "wrong": "wrong" in request.GET,
        "not_sent": "not-sent" in request.GET,
        "step": 2 if challenge_for_consent(consent) else 1,
        "steps": count_steps(consent),
    }


def code_destinations(consent: Consent) -> list[tuple[str, str]]:
    """Channel and masked address of where a code can be sent, the best first."""
    subject = consent.report.subject or {}
    masked = {
        Channel.SMS.value: mask_end(subject.get("phone", ""), 3),
        Channel.EMAIL.value: mask_email(subject.get("email", "")),
    }
    return [(channel, masked[channel]) for channel in code_channels(consent)]


def count_steps(consent: Consent) -> int:
    """How many pages there are up to the decision, with it."""
    return 1 + bool(challenge_for_consent(consent)) + bool(code_channels(consent))


def replaced_context(request: HttpRequest, visited: OpenConsent) -> Context:
    """What was answered by the old link is not lost with it."""
    return {
        **base_context(request, visited),
        "records": records_of(visited),
        "is_mine": has_confirmed(visited),
    }


def has_confirmed(visited: OpenConsent) -> bool:
    """Confirmed by this browser; an edit to another person undoes it."""
    return visited.visit.is_confirmed(visited.consent)


def notice_context(request: HttpRequest, visited: OpenConsent) -> Context:
    consent = visited.consent
    # Who was not asked to confirm anything is told nothing about the subject.
    known = consent.report.subject if challenge_for_consent(consent) else None
    return {
        **base_context(request, visited),
        "notice": notice_of(consent),
        "form": forms.grant_form(consent.report, visited.visit.typed),
        "steps": count_steps(consent),
        "changed": "changed" in request.GET,
        "details": details_of(known or {}),
        "expires_at": consent.expires_at,
    }


def under_age_context(request: HttpRequest, visited: OpenConsent) -> Context:
    told = under_age_text(visited.consent)
    return {**base_context(request, visited), "told": told}


def under_age_text(consent: Consent) -> str:
    """What a subject under 18 reads in place of the notice."""
    client = one_line(consent.report.workspace.requester.name)
    return " ".join(
        [
            _("You are under 18, so you cannot agree here, and no check is made."),
            _("A parent or guardian decides with %(client)s.") % {"client": client},
        ]
    )


def decision_context(request: HttpRequest, visited: OpenConsent) -> Context:
    consent = visited.consent
    notice = notice_of(consent)
    records = records_of(visited)
    url = links.consent_url(consent.pk, consent.generation)
    return {
        **base_context(request, visited),
        "records": records,
        "record": records[0],
        "evidence": records[0].evidence or {},
        "sha256": bytes(records[0].notice_sha256 or b"").hex(),
        "notice": notice,
        "url": url,
        "qr": qr_code(url),
        "report": consent.report,
        **payment_context(consent),
        "is_outdated": consent.status == ConsentStatus.GRANTED
        and consent.report.status in BEFORE_CHECKS
        and bool(blocked_check_reason(consent.report)),
        # Of the last answer: a check that was running then may have ended since.
        "made": (records[-1].evidence or {}).get("made"),
        "is_by_staff": records[-1].is_by_staff,
        "checks": check_statuses(consent, notice),
    }


def payment_context(consent: Consent) -> Context:
    """Where the subject pays, and how much, or whether the other payer gets our
    message; nothing if nobody can pay now."""
    report = consent.report
    payment = getattr(report, "payment", None)
    if report.payment_mode == PaymentMode.THIRD_PARTY:
        reached = is_reachable(report, Kind.PAYMENT_REQUEST, payer_of(report))
        return {"is_payer_reached": reached}
    if report.payment_mode != PaymentMode.CANDIDATE or payment is None:
        return {}
    if closed_reason(report, payment, payment.generation, now()):
        return {}
    return {
        "pay_url": links.payment_url(payment.pk, payment.generation),
        "amount": format_money(payment.amount, payment.currency),
    }


def check_statuses(consent: Consent, notice: Notice) -> list[tuple[str, str]]:
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


CONTEXT_BY_STAGE = {
    Stage.REPLACED: replaced_context,
    Stage.CHALLENGE: challenge_context,
    Stage.CODE: code_context,
    Stage.UNDER_AGE: under_age_context,
    Stage.ASKED: notice_context,
    Stage.GRANTED: decision_context,
    Stage.DECLINED: decision_context,
    Stage.WITHDRAWN: decision_context,
}


def records_of(visited: OpenConsent) -> list[ConsentRecord]:
    """What was answered by this link, oldest first."""
    records = ConsentRecord.objects.filter(
        consent_id=visited.consent.pk, generation=visited.visit.generation
    )
    return list(records.exclude(happened=ConsentRecord.Decision.EXPIRED))
