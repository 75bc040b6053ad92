"""The subject, who follows the consent link and posts the forms."""

import re
from collections.abc import Callable
from html import unescape

from django.conf import settings
from django.test import Client

from verification import links
from verification.consents.models import Consent
from verification.consents.subject_decisions import Evidence, grant
from verification.consents.subject_messages import code_channels
from verification.hosted.consent import Visit, pages
from verification.notifications.models import Kind, Notification

BORN = {"day": "27", "month": "3", "year": "1990"}
NAME = "Wanjiku Kamau"
EVIDENCE = Evidence(
    text="Acacia Lenders asks ...",
    notice_version="ke-2026-11",
    language="en",
    typed_name=NAME,
    confirmed_by="DATE_OF_BIRTH",
)


class Visitor:
    report_id: str

    def __init__(self, url: str, **headers: str) -> None:
        self.link = url.removeprefix(settings.BASE_URL)
        self.browser = Client(headers=headers)

    def open(self) -> str:
        """Follow the link; return the path of the page."""
        answer = self.browser.get(self.link)
        assert answer.status_code == 303, answer.content
        self.page = answer["Location"]
        return self.page

    def get(self, at: str = "", **query: str):
        return self.browser.get(self.page + at, query)

    def post(self, at: str, **form: str):
        return self.browser.post(self.page + at, form)

    def confirm(self, **answer: str):
        return self.post("confirm", **(answer or BORN))

    def enter(self):
        """Answer the challenge and return the page that asks for consent."""
        self.open()
        self.confirm()
        page = self.get()
        if b"Enter the code" in page.content or b"Andika msimbo" in page.content:
            self.post("code", answer=newest_code())
            page = self.get()
        return page

    def prove(self, at: str = "") -> None:
        """Let the browser have passed the challenge and typed the code.

        The pages that ask for both cost twenty times as much; test_challenge, test_code
        and test_subject_data of tests/hosted hold them.
        """
        digest = links.digest(self.link.rpartition("/")[2])
        consent = Consent.objects.select_related("report").get(token_digest=digest)
        visit = Visit(consent.pk, consent.generation).confirm(consent)
        for channel in code_channels(consent)[:1]:
            visit = visit.with_proof(consent, channel)
        answer = pages.store(visit)
        self.browser.cookies.update(answer.cookies)
        self.page = answer["Location"] + at

    def agree(self) -> None:
        """Let the subject consent by the verb of the page's button."""
        consent = Consent.objects.get(report=self.report_id)
        grant(consent.pk, consent.generation, EVIDENCE)

    def grant(self, **form: str):
        return self.post("grant", **(self.form() | form))

    def see_data(self):
        """Prove to be the subject, and return the page with what was found."""
        self.open()
        self.page = f"/c/v/{self.page.split('/')[3]}/data/"
        self.confirm()
        page = self.get()
        if b'name="answer"' in page.content and b"one-time-code" in page.content:
            self.post("code", answer=newest_code())
            page = self.get()
        return page

    def form(self) -> dict[str, str]:
        """Return the form of a person who agrees to the page as it is now."""
        shown = re.search(r'name="shown" value="(\w+)"', self.text())
        assert shown
        return {"name": NAME, "agreed": "on", "shown": shown[1]}

    def text(self, name: str = "") -> str:
        """Return the page as HTML."""
        return self.get(name).content.decode()

    def script(self, path: str) -> Callable[[], bool]:
        """Return the check of the page's script: must the page be reloaded?"""
        page = self.browser.get(path).content.decode()
        found = re.search(r'data-ask="([^"]+)".* data-state="([^"]+)"', page)
        assert found, page
        ask, state = map(unescape, found.groups())
        return lambda: self.browser.get(ask).content.decode() != state


def newest_code() -> str:
    """Return the code that was sent last to a subject."""
    codes = [Kind.CONSENT_CODE, Kind.ACCESS_CODE]
    message = Notification.objects.filter(kind__in=codes).latest("id")
    return str((message.context or {})["code"])


def visible_text(html: str) -> str:
    """Return the text of a page without its tags."""
    # `bdi` stands within a sentence and separates no words.
    html = re.sub(r"</?bdi>", "", html)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())
