"""Views by which a visitor proves to be the subject: the challenge and the code."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.utils.translation import get_language

from verification.consents.links import (
    CodeNotSent,
    answer_challenge,
    answer_code,
    is_code_valid,
    send_code,
)
from verification.consents.models import Consent, challenge_for_consent
from verification.consents.subject_messages import code_channels
from verification.hosted import forms
from verification.hosted.consent_page import ConsentPages, OpenConsent, Stage
from verification.hosted.hosted_pages import require_address_rate
from verification.reports.hosted_links import ResendTooSoon
from verification.values.clock import now

CHALLENGES_PER_MINUTE = 60


class ProofViews:
    """The views of the forms in `challenge.html` and `code.html`, for these pages."""

    def __init__(self, pages: ConsentPages) -> None:
        self.pages = pages
        self.confirm = pages.post_at(Stage.CHALLENGE)(self._confirm)
        self.send_code = pages.post_at(Stage.CODE)(self._send_code)
        self.verify_code = pages.post_at(Stage.CODE)(self._verify_code)

    def _confirm(self, request: HttpRequest, visited: OpenConsent) -> HttpResponse:
        """Take the answer to the challenge, and send the code if the page needs one."""
        consent = visited.consent
        require_address_rate(request, "challenges", CHALLENGES_PER_MINUTE)
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
        require_address_rate(request, "challenges", CHALLENGES_PER_MINUTE)
        query = _send(visited.consent, request.POST.get("channel", ""))
        return self.pages.store(visited.visit.without_form(), query)

    def _verify_code(self, request: HttpRequest, visited: OpenConsent) -> HttpResponse:
        """Take the code, which shows that the visitor reads the subject's messages."""
        consent = visited.consent
        require_address_rate(request, "challenges", CHALLENGES_PER_MINUTE)
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
