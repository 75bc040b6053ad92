"""The pages of a consent link: look up, call one verb, lead back to the page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.utils.timezone import now
from django.utils.translation import get_language
from django.views.decorators.http import require_safe

from verification import links
from verification.consents import challenge_answers, decisions
from verification.consents.challenge_answers import (
    CodeNotSent,
    answer_challenge,
    answer_code,
)
from verification.consents.challenges import (
    NO_CHALLENGE,
    challenge_for_consent,
    is_code_valid,
)
from verification.consents.links import consent_links
from verification.consents.messages import addresses_of, code_channels, link_channels
from verification.consents.models import (
    Consent,
    ConsentRecord,
    ConsentStatus,
    RetiredLink,
)
from verification.consents.records import NOT_ME, UNDER_AGE
from verification.documents.receipts import consent_receipt_pdf
from verification.hosted import consent_page, forms
from verification.hosted.blocks import block_page
from verification.hosted.consent_page import (
    CONSENT_COOKIE,
    STAGE_BY_DECISION,
    OpenConsent,
    Stage,
    Visit,
    notice_of,
    redirect_to_page,
    require_post_at,
    stage_of,
    store_visit,
    visit_required,
)
from verification.hosted.pages import hosted, pdf_response, render_page, retired_link
from verification.notifications.models import Channel
from verification.notifications.recipients import address_hash
from verification.reports.links import ResendTooSoon
from verification.web.client_address import client_address, user_agent
from workspaces import rate_limits
from workspaces.keys import is_used_from

Verb = Callable[[UUID, int, decisions.Evidence, str], ConsentRecord]

CHALLENGES_PER_MINUTE = 60
# For one link: names that are not taken are no tries of the challenge.
SIGNATURES_PER_MINUTE = 10
# Other than 200: the link leads nowhere any more, or not at the moment.
STATUS_CODES = {
    Stage.REPLACED: 410,
    Stage.CANCELLED: 410,
    Stage.EXPIRED: 410,
    Stage.LOCKED: 429,
    Stage.LOCKED_FOR_GOOD: 410,
}
# Where the person who has the link can say that it is not meant for them.
NOT_ME_STAGES = {
    Stage.CHALLENGE,
    Stage.CODE,
    Stage.LOCKED,
    Stage.LOCKED_FOR_GOOD,
    Stage.UNDER_AGE,
    Stage.ASKED,
}


@require_safe
@hosted
def open_link(request: HttpRequest, token: str) -> HttpResponse:
    """Take the token out of the address bar; nothing else happens."""
    digest = links.digest(token)
    if consent := Consent.objects.filter(token_digest=digest).first():
        return _redirect_with_visit(Visit(consent.pk, consent.generation))
    if retired := retired_link(RetiredLink.Purpose.CONSENT, digest):
        return _redirect_with_visit(Visit(retired.row_id, retired.generation))
    return render_page(request, "unknown", status=404)


@require_safe
@visit_required
def show(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """The page of the stage that the consent is at."""
    shown = consent_page.CONTEXT_BY_STAGE.get(visited.stage, consent_page.base_context)(
        request, visited
    )
    return render_page(
        request, visited.stage, shown, STATUS_CODES.get(visited.stage, 200)
    )


@require_post_at(Stage.CHALLENGE)
def confirm(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    consent = visited.consent
    if _is_rate_limited(request):
        return render_page(request, "too_many", status=429)
    form = forms.challenge_form(challenge_for_consent(consent), request.POST)
    if not form.is_valid():
        return _redirect_with_visit(visited.visit.keep(form.data, form.fields))
    given = form.cleaned_data["answer"]
    if not answer_challenge(consent.pk, consent.generation, given):
        return _redirect_with_visit(visited.visit.without_form(), "?wrong")
    confirmed, query = visited.visit.confirm(consent), ""
    needs_code = stage_of(consent, confirmed, now()) == Stage.CODE
    if needs_code and not is_code_valid(consent, now()):
        query = _send_code(consent, code_channels(consent)[0])
    return _redirect_with_visit(confirmed, query)


@require_post_at(Stage.CODE)
def send_code(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Send the subject a code to the address that the button names."""
    if _is_rate_limited(request):
        return render_page(request, "too_many", status=429)
    query = _send_code(visited.consent, request.POST.get("channel", ""))
    return _redirect_with_visit(visited.visit.without_form(), query)


@require_post_at(Stage.CODE)
def verify_code(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Take the code: whoever types it reads the subject's messages."""
    consent = visited.consent
    if _is_rate_limited(request):
        return render_page(request, "too_many", status=429)
    form = forms.CodeForm(request.POST)
    if not form.is_valid():
        return _redirect_with_visit(visited.visit.keep(form.data, form.fields))
    given = form.cleaned_data["answer"]
    if channel := answer_code(consent.pk, consent.generation, given):
        return _redirect_with_visit(visited.visit.with_proof(consent, channel))
    return _redirect_with_visit(visited.visit.without_form(), "?wrong")


@require_post_at(Stage.ASKED)
def grant(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    consent = visited.consent
    if rate_limits.count(f"signatures:{consent.pk}", SIGNATURES_PER_MINUTE).exceeded:
        return render_page(request, "too_many", status=429)
    notice = notice_of(consent)
    form = forms.grant_form(consent.report, request.POST)
    if not form.is_valid():
        return _redirect_with_visit(visited.visit.keep(form.data, form.fields))
    # What is kept as evidence must be what was read, and it can change meanwhile.
    if form.cleaned_data["shown"] != notice.sha256:
        return _redirect_with_visit(visited.visit.without_form(), "?changed")
    signed = replace(
        _evidence(request, visited, notice.text),
        typed_name=form.cleaned_data["name"],
        position=form.cleaned_data.get("position", ""),
    )
    decisions.grant(consent.pk, consent.generation, signed)
    return redirect_to_page(consent.pk)


@visit_required
def decline(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Asks why, which need not be answered, and then does it."""
    if visited.stage not in {Stage.ASKED, Stage.CODE}:
        return redirect_to_page(visited.consent.pk)
    # Who has no code has not read the notice, and may say no.
    read = notice_of(visited.consent).text if visited.stage == Stage.ASKED else ""
    return _decide_with_reason(request, visited, "decline", decisions.decline, read)


@visit_required
def withdraw(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """The same, of what was granted."""
    if visited.stage != Stage.GRANTED:
        return redirect_to_page(visited.consent.pk)
    declared = notice_of(visited.consent).withdrawal
    return _decide_with_reason(
        request, visited, "withdraw", decisions.withdraw, declared
    )


@require_post_at(Stage.UNDER_AGE)
def under_age(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Tell the client that the subject is under 18: it declines the request."""
    consent = visited.consent
    evidence = _evidence(request, visited, consent_page.under_age_text(consent))
    # What was read is no part of the notice.
    evidence = replace(evidence, notice_version="")
    decisions.decline(consent.pk, consent.generation, evidence, UNDER_AGE)
    return redirect_to_page(consent.pk)


@visit_required
def not_me(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """Also for who cannot confirm to be the subject: whoever is asked may say so."""
    consent = visited.consent
    if consent.status == ConsentStatus.DECLINED:
        return render_page(
            request, "not_me_done", consent_page.base_context(request, visited)
        )
    if visited.stage not in NOT_ME_STAGES:
        return redirect_to_page(consent.pk)
    if request.method != "POST":
        return render_page(
            request, "not_me", consent_page.base_context(request, visited)
        )
    evidence = _evidence(request, visited, notice_of(consent).not_me)
    decisions.decline(consent.pk, consent.generation, evidence, NOT_ME)
    return redirect_to_page(consent.pk, "not-me")


@visit_required
def block(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    consent = visited.consent
    if not consent_page.block_path(visited):
        return redirect_to_page(consent.pk)
    addresses = addresses_of(consent.report.subject or {})
    return block_page(
        request, consent.report, addresses, CONSENT_COOKIE.path_of(consent.pk)
    )


@require_post_at(Stage.EXPIRED)
def renew_link(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """The page then says that this link was replaced."""
    if consent_links.can_visitor_renew(visited.consent.report):
        consent_links.renew(visited.consent.pk)
    return redirect_to_page(visited.consent.pk)


@require_post_at(Stage.EXPIRED, Stage.LOCKED_FOR_GOOD)
def request_client_link(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """For a link in place of one that neither we nor the subject can renew."""
    consent_links.ask_client(visited.consent.pk, visited.consent.generation)
    return redirect_to_page(visited.consent.pk)


@require_safe
@visit_required
def receipt(request: HttpRequest, visited: OpenConsent) -> HttpResponse:
    """What was answered last, as a PDF."""
    records = consent_page.records_of(visited)
    # Of a link that was replaced, only to who has confirmed to be the subject.
    mine = visited.stage == Stage.REPLACED and consent_page.has_confirmed(visited)
    if not records or not (visited.stage in STAGE_BY_DECISION.values() or mine):
        return redirect_to_page(visited.consent.pk)
    record = records[-1]
    return pdf_response(consent_receipt_pdf(record), f"receipt-{record.number}.pdf")


def _send_code(consent: Consent, channel: str) -> str:
    """Send a code; return the query by which the page says why none was sent."""
    language = get_language() or "en"
    try:
        challenge_answers.send_code(consent.pk, consent.generation, channel, language)
    except CodeNotSent:
        return "?not-sent"
    except ResendTooSoon:
        # As of a button that was pressed twice.
        return "?too-soon"
    return ""


def _is_rate_limited(request: HttpRequest) -> bool:
    address = str(client_address(request))
    return rate_limits.count_for_address(
        address, "challenges", CHALLENGES_PER_MINUTE
    ).exceeded


def _redirect_with_visit(visit: Visit, query: str = "") -> HttpResponse:
    """To the page, with what it needs to know. It is never the answer to a POST itself,
    which would stand in the way of who goes back later."""
    response = redirect_to_page(visit.consent_id, query)
    store_visit(response, visit)
    return response


def _decide_with_reason(
    request: HttpRequest, visited: OpenConsent, name: str, verb: Verb, declared: str
) -> HttpResponse:
    consent = visited.consent
    form = forms.ReasonForm(request.POST if request.method == "POST" else None)
    if not form.is_valid():
        made = decisions.checks_made(consent.report)
        shown = {
            **consent_page.base_context(request, visited),
            "form": form,
            "made": made,
        }
        return render_page(request, name, shown)
    evidence = _evidence(request, visited, declared)
    verb(consent.pk, consent.generation, evidence, form.cleaned_data["reason"])
    return redirect_to_page(consent.pk)


def _evidence(
    request: HttpRequest, visited: OpenConsent, declared: str
) -> decisions.Evidence:
    """`declared` is the text that the button said yes to."""
    consent = visited.consent
    notice = notice_of(consent)
    address = str(client_address(request) or "")
    proved = visited.visit.proved_channel(consent)
    kind, confirmed = (
        challenge_for_consent(consent),
        visited.visit.is_confirmed(consent),
    )
    return decisions.Evidence(
        text=declared,
        notice_version=notice.version if declared else "",
        language=notice.language,
        sources=notice.sources,
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
    known |= {address_hash(one.channel, one.address) for one in tests}
    addresses = addresses_of(consent.report.subject or {})
    if known & {address_hash(*one) for one in addresses}:
        yield "CONTACT"
