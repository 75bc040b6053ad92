"""Views of the consent page: each calls one verb and redirects to the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from uuid import UUID

from django.http import HttpRequest, HttpResponse

from verification.consents import subject_decisions as decisions
from verification.consents.links import consent_links
from verification.consents.models import (
    NO_CHALLENGE,
    NOT_ME,
    UNDER_AGE,
    Consent,
    ConsentRecord,
    ConsentStatus,
    challenge_for_consent,
)
from verification.consents.notices import Notice
from verification.consents.subject_messages import addresses_of, link_channels
from verification.documents.receipts import consent_receipt_pdf
from verification.hosted import consent_page, forms
from verification.hosted.blocks import block_page
from verification.hosted.consent_page import (
    STAGE_BY_DECISION,
    OpenConsent,
    Stage,
    notice_of,
    pages,
)
from verification.hosted.hosted_pages import (
    render_page,
    require_rate,
    see_other,
)
from verification.hosted.proofs import ProofViews
from verification.hosted.subject_data import subject_pages
from verification.notifications.models import Channel
from verification.notifications.recipients import address_hash
from verification.privacy import withdrawals
from verification.web.pages import attachment
from verification.web.request import client_address, user_agent
from workspaces.keys import is_used_from

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

open_link = pages.link_view(Consent)
proofs = ProofViews(pages)


@pages.read
def show(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Show the page of the consent's stage."""
    if visited.stage == Stage.DATA:
        return see_other(subject_pages.path_of(visited.consent.pk))
    context = consent_page.page_context(request, visited)
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
        return pages.store(visited.visit.without_form(), "?changed")
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
    text = consent_page.under_age_text(consent)
    evidence = _evidence(request, visited, notice_of(consent), text)
    # The subject has read this text in place of the notice.
    evidence = replace(evidence, notice_version="")
    decisions.decline(consent.pk, consent.generation, evidence, UNDER_AGE)
    return pages.redirect(consent.pk)


@pages.visit_required
def not_me(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Record that the link reached a stranger; this needs no challenge."""
    consent = visited.consent
    context = consent_page.base_context(request, visited)
    if consent.status == ConsentStatus.DECLINED:
        return render_page(request, "not_me_done", context)
    if visited.stage not in NOT_ME_STAGES:
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
    if not consent_page.block_path(visited):
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
    records = consent_page.records_of(visited)
    # For a replaced link, only a visitor who passed the challenge gets it.
    mine = visited.stage == Stage.REPLACED and consent_page.has_confirmed(visited)
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
        context = consent_page.base_context(request, visited)
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
        code_address=dict(consent_page.code_destinations(consent)).get(proved, ""),
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
