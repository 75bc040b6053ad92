"""The consent page: the visit in its cookie, its stages, views, and contexts.

Each view calls one verb and redirects to the page. `ProofViews` are those by which a
visitor proves to be the subject: the challenge and the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from verification import links
from verification.checks.models import ResultStatus
from verification.consents import subject_decisions as decisions
from verification.consents.links import (
    ACCESSIBLE_STATUSES,
    TRIES,
    CodeNotSent,
    ConsentNotRenewable,
    LinkLocked,
    answer_challenge,
    answer_code,
    consent_links,
    is_code_valid,
    opens_data,
    send_code,
)
from verification.consents.models import (
    NO_CHALLENGE,
    NOT_ME,
    UNDER_AGE,
    Consent,
    ConsentRecord,
    ConsentStatus,
    RetiredLink,
    challenge_for_consent,
    is_under_age,
)
from verification.consents.notices import Notice, notice_for, timezone_of
from verification.consents.subject_decisions import ConsentClosed
from verification.consents.subject_messages import (
    CONTACT_MEMBERS,
    addresses_of,
    code_channels,
    is_reachable,
    link_channels,
)
from verification.db.encryption import keyed_hash
from verification.documents.receipts import consent_receipt_pdf
from verification.hosted import forms
from verification.hosted.blocks import block_page
from verification.hosted.brand import return_context
from verification.hosted.hosted_pages import (
    HostedPages,
    VisitCookie,
    client_context,
    details_of,
    qr_code,
    render_page,
    require_rate,
    see_other,
)
from verification.hosted.payment import format_money
from verification.notifications.models import Channel, Kind
from verification.notifications.recipients import address_hash
from verification.payments.checkouts import closed_reason
from verification.payments.models import Checkout
from verification.payments.payer_messages import payer_of
from verification.privacy import withdrawals
from verification.reports.create import blocked_check_reason
from verification.reports.hosted_links import (
    ResendTooSoon,
    is_over,
    link_end,
    start_period,
)
from verification.reports.models import (
    PaymentMode,
    Report,
    ReportStatus,
    SubjectType,
)
from verification.settings.providers import HOME_COUNTRY
from verification.values.clock import now
from verification.values.formats import one_line
from verification.values.masking import mask_email, mask_end
from verification.web.pages import attachment, minutes_until
from verification.web.request import client_address, user_agent
from workspaces.keys import is_used_from
from workspaces.models import Environment, Workspace

# One more than the longest valid name; a cookie has 4 KB.
MAX_TYPED_LENGTH = 201


@dataclass(frozen=True, slots=True)
class Visit:
    """The state of one browser at one consent.

    `confirmed` is blank until the visitor passes the challenge, and `proved` until they
    type the code. `typed` holds an invalid form, which the page shows with its errors.
    `is_for_notice` says that the link in a notice of a decline brought the visitor, who
    has not seen the notice yet.
    """

    consent_id: UUID
    generation: int
    confirmed: str = ""
    proved: str = ""
    typed: dict[str, str] | None = None
    is_for_notice: bool = False

    def confirm(self, consent: Consent) -> Visit:
        return replace(self, confirmed=_confirmation(consent), typed=None)

    def with_proof(self, consent: Consent, channel: str) -> Visit:
        """Return the visit of a visitor who typed the code from this channel."""
        return replace(self, proved=_proof(consent, channel), typed=None)

    def without_form(self) -> Visit:
        return replace(self, typed=None)

    def keep(self, typed: Mapping[str, str], names: Iterable[str]) -> Visit:
        """Return the visit with these members of a form, cut to the cookie's size."""
        return replace(
            self, typed={n: typed.get(n, "")[:MAX_TYPED_LENGTH] for n in names}
        )

    def is_confirmed(self, consent: Consent) -> bool:
        """Return whether this browser has passed the challenge for this subject."""
        return self.confirmed == _confirmation(consent)

    def proved_channel(self, consent: Consent) -> str:
        """Return the channel of the code that the visitor typed, or ""."""
        proofs = {_proof(consent, channel): channel for channel in CONTACT_MEMBERS}
        return proofs.get(self.proved, "")


def _proof(consent: Consent, channel: str) -> str:
    # The hash covers the address: after an edit the page asks for a code again.
    address = (consent.report.subject or {}).get(CONTACT_MEMBERS[Channel(channel)], "")
    return keyed_hash("proved", consent.pk, channel, address).hex()[:32]


def _confirmation(consent: Consent) -> str:
    # The hash covers the details: after an edit the page asks the challenge again.
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
    # The subject types the code from a message.
    CODE = "code"
    UNDER_AGE = "under_age"
    ASKED = "asked"
    GRANTED = "granted"
    DECLINED = "declined"
    WITHDRAWN = "withdrawn"
    # The findings about the subject; `hosted.subject_data` has the pages.
    DATA = "data"
    # Neither a challenge nor a code can show that the visitor is the subject.
    UNPROVED = "unproved"


STAGE_BY_DECISION = {
    ConsentStatus.GRANTED: Stage.GRANTED,
    ConsentStatus.DECLINED: Stage.DECLINED,
    ConsentStatus.WITHDRAWN: Stage.WITHDRAWN,
}


def stage_of(consent: Consent, visit: Visit, at: datetime) -> Stage:
    if visit.generation != consent.generation or consent.expires_at is None:
        return Stage.REPLACED
    # The pages of the data say that it was erased.
    if consent.report.erased_at and opens_data(consent, at):
        return Stage.DATA
    if consent.status in ACCESSIBLE_STATUSES:
        is_data = consent.expires_at > at or consent.status == ConsentStatus.ATTESTED
        return Stage.DATA if is_data else Stage.EXPIRED
    if consent.status == ConsentStatus.PENDING:
        if consent.report.status not in PENDING_STATUSES:
            return Stage.CANCELLED
        # The job that expires it may run later.
        if is_over(consent, at):
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


# HTTP statuses of pages whose link takes no answer now; other pages have 200.
STATUS_CODES = {
    Stage.REPLACED: 410,
    Stage.CANCELLED: 410,
    Stage.EXPIRED: 410,
    Stage.LOCKED: 429,
    Stage.LOCKED_FOR_GOOD: 410,
}


@dataclass(frozen=True, slots=True)
class OpenConsent:
    """A consent that this browser has opened by a link."""

    consent: Consent
    visit: Visit
    stage: Stage

    @property
    def status(self) -> int:
        """The HTTP status of the page."""
        return STATUS_CODES.get(self.stage, 200)


class ConsentPages(HostedPages[OpenConsent]):
    cookie = VisitCookie("/c/v/", "hosted.consent", seconds=3600)
    over = "over"
    conflicts = (ConsentClosed, LinkLocked, ConsentNotRenewable, Consent.DoesNotExist)

    def find(self, request: HttpRequest, row: UUID) -> OpenConsent | None:
        value = self.cookie.value_of(request, row)
        if not value:
            return None
        visit = Visit(row, **value)
        rows = Consent.objects.select_related("report__workspace", "report__payment")
        consent = rows.filter(pk=row).first() or _replaced_consent(visit)
        return OpenConsent(consent, visit, self.stage_of(consent, visit))

    def stage_of(self, consent: Consent, visit: Visit) -> Stage:
        return stage_of(consent, visit, now())

    def visit_by_link(self, generation: int) -> dict[str, Any]:
        return {"generation": generation}

    def store(self, visit: Visit, query: str = "") -> HttpResponse:
        """Store the visit and redirect to the page."""
        # An older version knows fewer members, so empty ones are left out.
        value = {name: held for name, held in asdict(visit).items() if held}
        return self.remember(value.pop("consent_id"), value, query)


pages = ConsentPages()


def _replaced_consent(visit: Visit) -> Consent:
    """Return a consent that an edit of the draft replaced, as its link remembers it.

    Raises Consent.DoesNotExist.
    """
    links = RetiredLink.objects.select_related("report__workspace", "report__payment")
    link = links.filter(row_id=visit.consent_id, generation=visit.generation).first()
    if link is None:
        raise Consent.DoesNotExist
    # It has no `expires_at`, so its stage is REPLACED.
    return Consent(pk=link.row_id, report=link.report, generation=link.generation)


Verb = Callable[[UUID, int, decisions.Evidence, str], ConsentRecord]

# For one link. A wrong name does not count as a wrong answer to the challenge.
SIGNATURES_PER_MINUTE = 10
# At these stages a visitor can say that they are not the subject.
NOT_ME_STAGES = {
    Stage.CHALLENGE,
    Stage.CODE,
    Stage.LOCKED,
    Stage.LOCKED_FOR_GOOD,
    Stage.UNDER_AGE,
    Stage.ASKED,
}


class ProofViews:
    """The views of the forms in `challenge.html` and `code.html`, for these pages.

    The limits are those of the link, as many phones share one address of their carrier.
    """

    def __init__(self, pages: ConsentPages) -> None:
        self.pages = pages
        self.confirm = pages.post_at(Stage.CHALLENGE)(self._confirm)
        self.send_code = pages.post_at(Stage.CODE)(self._send_code)
        self.verify_code = pages.post_at(Stage.CODE)(self._verify_code)

    def _confirm(self, request: HttpRequest, visited: OpenConsent) -> HttpResponse:
        """Take the answer to the challenge, and send the code if the page needs one."""
        consent = visited.consent
        form = forms.challenge_form(challenge_for_consent(consent), request.POST)
        if not form.is_valid():
            return self.pages.store(visited.visit.keep(form.data, form.fields))
        given = form.cleaned_data["answer"]
        if not answer_challenge(consent.pk, consent.generation, given):
            return self.pages.store(visited.visit.without_form(), "?wrong")
        confirmed, query = visited.visit.confirm(consent), ""
        needs_code = self.pages.stage_of(consent, confirmed) == Stage.CODE
        if needs_code and not is_code_valid(consent, now()):
            query = _send(consent, code_channels(consent)[0])
        return self.pages.store(confirmed, query)

    def _send_code(self, request: HttpRequest, visited: OpenConsent) -> HttpResponse:
        """Send the subject a code to the address that the button names."""
        query = _send(visited.consent, request.POST.get("channel", ""))
        return self.pages.store(visited.visit.without_form(), query)

    def _verify_code(self, request: HttpRequest, visited: OpenConsent) -> HttpResponse:
        """Take the code, which shows that the visitor reads the subject's messages."""
        consent = visited.consent
        form = forms.CodeForm(request.POST)
        if not form.is_valid():
            return self.pages.store(visited.visit.keep(form.data, form.fields))
        given = form.cleaned_data["answer"]
        if channel := answer_code(consent.pk, consent.generation, given):
            return self.pages.store(visited.visit.with_proof(consent, channel))
        return self.pages.store(visited.visit.without_form(), "?wrong")


def _send(consent: Consent, channel: str) -> str:
    """Send a code; return the page's query, which names an error if there is one."""
    language = get_language() or "en"
    try:
        send_code(consent.pk, consent.generation, channel, language)
    except CodeNotSent:
        return "?not-sent"
    except ResendTooSoon:
        # The subject may have pressed the button twice.
        return "?too-soon"
    return ""


open_link = pages.link_view(Consent)
proofs = ProofViews(pages)


@pages.read
def show(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Show the page of the consent's stage."""
    if visited.stage == Stage.DATA:
        return see_other(reverse("hosted:data", args=[visited.consent.pk]))
    context = page_context(request, visited)
    return render_page(request, visited.stage, context, visited.status)


@pages.post_at(Stage.ASKED)
def grant(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    consent = visited.consent
    require_rate(f"signatures:{consent.pk}", SIGNATURES_PER_MINUTE)
    notice = notice_of(consent)
    form = forms.grant_form(consent.report, request.POST)
    if not form.is_valid():
        return pages.store(visited.visit.keep(form.data, form.fields))
    # The notice may have changed since the subject read it; evidence holds that text.
    if form.cleaned_data["shown"] != notice.sha256:
        typed = visited.visit.keep(form.data, ("name", "position"))
        return pages.store(typed)
    signed = replace(
        _evidence(request, visited, notice, notice.text),
        typed_name=form.cleaned_data["name"],
        position=form.cleaned_data.get("position", ""),
    )
    decisions.grant(consent.pk, consent.generation, signed)
    return pages.redirect(consent.pk)


@pages.visit_required
def decline(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Ask for a reason, which is optional, and record the refusal."""
    if visited.stage not in {Stage.ASKED, Stage.CODE}:
        return pages.redirect(visited.consent.pk)
    # A subject may decline before the code, without having read the notice.
    notice = notice_of(visited.consent)
    read = notice.text if visited.stage == Stage.ASKED else ""
    return _decide_with_reason(
        request, visited, "decline", decisions.decline, notice, read
    )


@pages.visit_required
def withdraw(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Ask for a reason, which is optional, and record the withdrawal."""
    if visited.stage != Stage.GRANTED:
        return pages.redirect(visited.consent.pk)
    notice = notice_of(visited.consent)
    return _decide_with_reason(
        request, visited, "withdraw", withdrawals.withdraw, notice, notice.withdrawal
    )


@pages.post_at(Stage.UNDER_AGE)
def under_age(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Tell the client that the subject is under 18: it declines the request."""
    consent = visited.consent
    text = under_age_text(consent)
    evidence = _evidence(request, visited, notice_of(consent), text)
    # The subject has read this text in place of the notice.
    evidence = replace(evidence, notice_version="")
    decisions.decline(consent.pk, consent.generation, evidence, UNDER_AGE)
    return pages.redirect(consent.pk)


@pages.visit_required
def not_me(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Record that the link reached a stranger; this needs no challenge."""
    consent = visited.consent
    context = base_context(request, visited)
    if consent.status == ConsentStatus.DECLINED:
        return render_page(request, "not_me_done", context)
    is_asked = consent.status == ConsentStatus.PENDING
    if not is_asked or visited.stage not in NOT_ME_STAGES:
        return pages.redirect(consent.pk)
    if request.method != "POST":
        return render_page(request, "not_me", context)
    notice = notice_of(consent)
    evidence = _evidence(request, visited, notice, notice.not_me)
    decisions.decline(consent.pk, consent.generation, evidence, NOT_ME)
    return pages.redirect(consent.pk, "not-me")


@pages.visit_required
def block(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    consent = visited.consent
    if not block_path(visited):
        return pages.redirect(consent.pk)
    addresses = addresses_of(consent.report.subject or {})
    return block_page(request, consent.report, addresses, pages.path_of(consent.pk))


@pages.post_at(Stage.EXPIRED)
def renew_link(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Send a new link; the page then says that this one was replaced."""
    if consent_links.can_visitor_renew(visited.consent.report):
        consent_links.renew(visited.consent.pk)
    return pages.redirect(visited.consent.pk)


@pages.post_at(Stage.EXPIRED, Stage.LOCKED_FOR_GOOD)
def request_client_link(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Ask the client for a link that the subject cannot renew."""
    consent_links.ask_client(visited.consent.pk, visited.consent.generation)
    return pages.redirect(visited.consent.pk)


@pages.read
def receipt(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Return the receipt of the last decision as a PDF."""
    records = records_of(visited)
    # For a replaced link, only a visitor who passed the challenge gets it.
    is_mine = visited.visit.is_confirmed(visited.consent)
    mine = visited.stage == Stage.REPLACED and is_mine
    if not records or not (visited.stage in STAGE_BY_DECISION.values() or mine):
        return pages.redirect(visited.consent.pk)
    record = records[-1]
    return attachment(consent_receipt_pdf(record), f"receipt-{record.number}.pdf")


def _decide_with_reason(
    request: HttpRequest,
    visited: OpenConsent,
    name: str,
    verb: Verb,
    notice: Notice,
    declared: str,
) -> HttpResponse:
    consent = visited.consent
    form = forms.ReasonForm(request.POST if request.method == "POST" else None)
    if not form.is_valid():
        context = base_context(request, visited)
        context |= {"form": form, "made": decisions.checks_made(consent.report)}
        return render_page(request, name, context)
    evidence = _evidence(request, visited, notice, declared)
    verb(consent.pk, consent.generation, evidence, form.cleaned_data["reason"])
    return pages.redirect(consent.pk)


def _evidence(
    request: HttpRequest, visited: OpenConsent, notice: Notice, declared: str
) -> decisions.Evidence:
    """Return the evidence; `declared` is the text behind the button."""
    consent = visited.consent
    address = str(client_address(request) or "")
    proved = visited.visit.proved_channel(consent)
    kind = challenge_for_consent(consent)
    confirmed = visited.visit.is_confirmed(consent)
    return decisions.Evidence(
        text=declared,
        notice_version=notice.version if declared else "",
        language=notice.language,
        sources=notice.sources,
        automated=notice.automated,
        confirmed_by=(kind if confirmed else "") if kind else NO_CHALLENGE,
        code_sent_to=proved,
        code_address=dict(code_destinations(consent)).get(proved, ""),
        link_sent_to=link_channels(consent),
        of_client=tuple(_client_matches(request, consent, address)),
        address=address,
        user_agent=user_agent(request),
    )


def _client_matches(
    request: HttpRequest, consent: Consent, address: str
) -> Iterator[str]:
    """Yield the words of `Evidence.of_client` that hold for this visitor."""
    workspace = consent.report.workspace
    members = workspace.members.filter(user__is_active=True).select_related("user")
    if address and is_used_from(workspace, address):
        yield "ADDRESS"
    if request.user.is_authenticated and members.filter(user=request.user.pk).exists():
        yield "BROWSER"
    own = [workspace.contact_email, *(member.user.email for member in members)]
    known = {address_hash(Channel.EMAIL, email) for email in own if email}
    tests = workspace.sandbox_addresses.filter(confirmed_at__isnull=False)
    known |= {address_hash(test.channel, test.address) for test in tests}
    addresses = addresses_of(consent.report.subject or {})
    if known & {address_hash(*address) for address in addresses}:
        yield "CONTACT"


Context = dict[str, Any]
# Statuses of a report after consent and before its checks.
BEFORE_CHECKS = {ReportStatus.DRAFT, ReportStatus.PENDING_PAYMENT}


def notice_of(consent: Consent) -> Notice:
    """Return the notice in the language of the page."""
    return notice_for(consent, get_language() or "en")


def page_context(request: HttpRequest, visited: OpenConsent) -> Context:
    """Return what the page of the consent's stage shows."""
    context = base_context(request, visited)
    if stage_context := CONTEXT_BY_STAGE.get(visited.stage):
        context |= stage_context(request, visited)
    if visited.stage in STAGE_BY_DECISION.values():
        context |= return_context(context.get("brand"), visited.consent.report)
    return context


def base_context(request: HttpRequest, visited: OpenConsent) -> Context:
    """Return what all pages show: the client, and no detail of the subject."""
    consent = visited.consent
    locked_minutes = minutes_until(consent.locked_until)
    return {
        "consent_id": consent.pk,
        "stop": block_path(visited),
        **client_context(consent.report.workspace, consent.report.environment),
        "data_path": reverse("hosted:data", args=[consent.pk])
        if opens_data(consent, now())
        else "",
        "is_company": consent.report.subject_type == SubjectType.COMPANY,
        "is_answered": consent.status != ConsentStatus.PENDING,
        "timezone": timezone_of(consent.report),
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
    """Return the path on which the visitor can block the workspace, or "".

    After an edit, the visitor of a replaced link may be another person.
    """
    if visited.stage in {Stage.REPLACED, Stage.CANCELLED}:
        return ""
    return reverse("hosted:block", args=[visited.consent.pk])


def challenge_context(request: HttpRequest, visited: OpenConsent) -> Context:
    consent = visited.consent
    is_asked = consent.status == ConsentStatus.PENDING
    return {
        "form": forms.challenge_form(
            challenge_for_consent(consent), visited.visit.typed
        ),
        "confirm_path": reverse("hosted:confirm", args=[consent.pk]),
        "wrong": "wrong" in request.GET and consent.wrong_answers > 0,
        "steps": count_steps(consent) if is_asked else 2,
        "tries_left": TRIES - consent.wrong_answers,
        # The next lock: 0 to 2 end after a time, 3 never ends.
        "next_lock": min(consent.locks, 3 if is_asked else 2),
    }


def code_context(request: HttpRequest, visited: OpenConsent) -> Context:
    consent = visited.consent
    return {
        "form": forms.CodeForm(visited.visit.typed),
        "code_path": reverse("hosted:code", args=[consent.pk]),
        "send_code_path": reverse("hosted:send-code", args=[consent.pk]),
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
    """Return (channel, masked address) for each way to send a code, best first."""
    subject = consent.report.subject or {}
    masked = {
        Channel.SMS.value: mask_end(subject.get("phone", ""), 3),
        Channel.EMAIL.value: mask_email(subject.get("email", "")),
    }
    return [(channel, masked[channel]) for channel in code_channels(consent)]


def count_steps(consent: Consent) -> int:
    """Return the number of pages up to the decision, which counts as one."""
    return 1 + bool(challenge_for_consent(consent)) + bool(code_channels(consent))


def replaced_context(request: HttpRequest, visited: OpenConsent) -> Context:
    """Show the decisions that the subject made by the old link."""
    return {
        "records": records_of(visited),
        "is_mine": visited.visit.is_confirmed(visited.consent),
    }


def notice_context(request: HttpRequest, visited: OpenConsent) -> Context:
    consent = visited.consent
    # A visitor without a challenge sees no details of the subject.
    known = consent.report.subject if challenge_for_consent(consent) else None
    typed = visited.visit.typed
    # Only the visitor may tick the box of another text.
    changed = typed is not None and "shown" not in typed
    form = forms.grant_form(consent.report, None if changed else typed)
    form.initial = typed or {}
    return {
        "notice": notice_of(consent),
        "form": form,
        "steps": count_steps(consent),
        "changed": changed,
        "details": details_of(known or {}),
        "expires_at": link_end(consent),
    }


def preview_context(workspace: Workspace) -> Context:
    """Return what the page shows of a made-up consent, of which nothing is stored."""
    report = Report(
        workspace=workspace,
        environment=Environment.SANDBOX,
        subject_type=SubjectType.INDIVIDUAL,
        country=HOME_COUNTRY,
        subject={},
        checks_requested=["IDENTITY"],
        purpose=_("Loan application"),
        payment_mode=PaymentMode.SELF,
    )
    consent = Consent(report=report, mode=Consent.Mode.SERVICE_HOSTED)
    start_period(consent, now())
    notice = notice_of(consent)
    return {
        **client_context(workspace, Environment.SANDBOX),
        "consent_id": consent.pk,
        "notice": notice,
        "form": forms.grant_form(report),
        "steps": 1,
        "expires_at": consent.expires_at,
        "timezone": timezone_of(report),
    }


def under_age_text(consent: Consent) -> str:
    """Return the text that a subject under 18 reads in place of the notice."""
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
        # From the last record: a check that ran then may have ended since.
        "made": (records[-1].evidence or {}).get("made"),
        "is_by_staff": records[-1].is_by_staff,
        "checks": check_statuses(consent, notice),
    }


def payment_context(consent: Consent) -> Context:
    """Return where the subject pays, and how much is due; empty if it is closed.

    If a third party pays, return whether a message reaches that payer.
    """
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
        "amount": format_money(Checkout.objects.missing(payment), payment.currency),
    }


def check_statuses(consent: Consent, notice: Notice) -> list[tuple[str, str]]:
    """Return (heading in the notice, status) of each check of the report.

    After a withdrawal a check of a draft counts as cancelled.
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
    Stage.UNDER_AGE: lambda _request, visited: {
        "text": under_age_text(visited.consent)
    },
    Stage.ASKED: notice_context,
    Stage.GRANTED: decision_context,
    Stage.DECLINED: decision_context,
    Stage.WITHDRAWN: decision_context,
}


def records_of(visited: OpenConsent) -> list[ConsentRecord]:
    """Return the decisions of this link and of those before it, oldest first."""
    records = ConsentRecord.objects.filter(
        consent_id=visited.consent.pk, generation__lte=visited.visit.generation
    )
    return list(records.exclude(decision=ConsentRecord.Decision.EXPIRED))
