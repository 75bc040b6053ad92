"""The page of a declined application: its readers, its words, and the review."""

import io
import re
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from pypdf import PdfReader

from tests.hosted.conftest import asking, with_new_browser
from tests.world.clients import Api, create_lender, erase
from tests.world.decisions import Officer
from tests.world.notices import decline, decline_by_policy, deliver, wait
from tests.world.subject import Visitor, newest_code, visible_text
from verification.decisions.decide import finish_waiting_declines, withdraw
from verification.decisions.models import AdverseNotice, NoticeFact
from verification.documents.decline_notice import notice_pdf
from verification.notifications.models import Kind, Notification
from verification.privacy.models import SubjectRequest
from verification.privacy.reviews import answer_reviews
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db

DECLINED = "Your application was declined"
CHALLENGE = "Confirm that it is you"
ASK = "Ask for a review by a person"


@pytest.fixture
def officer(api: Api) -> Officer:
    return Officer(api)


@pytest.fixture(scope="module")
def checked(module_transaction: None) -> Visitor:
    """A subject who consented to a report that is ready."""
    api = Api(create_lender(), "sandbox")
    visitor: Visitor = asking(api)(subject={"email": "wanjiku@kamau.test"})
    visitor.agree()
    api.work()
    return visitor


@pytest.fixture
def workspace(checked: Visitor, db: None) -> Workspace:
    return Workspace.objects.get()


@pytest.fixture
def subject(db: None, checked: Visitor) -> Visitor:
    """The subject with a browser of this test."""
    return with_new_browser(checked)


def reader(language: str = "en") -> Visitor:
    """Return the visitor who opens the link of the newest notice's message."""
    sent = Notification.objects.filter(kind=Kind.ADVERSE_NOTICE).order_by("pk").last()
    visitor = Visitor(sent.context["link"], accept_language=language)
    visitor.open()
    return visitor


def data_text(visitor: Visitor) -> str:
    """Return the text of the page of the data, from the page of the notice."""
    page = visitor.browser.get(visitor.page.partition("notices/")[0])
    return visible_text(page.content.decode())


def proved(visitor: Visitor) -> str:
    """Prove to be the subject; return the page of the notice."""
    visitor.link = visitor.link.removesuffix("/notice")
    visitor.prove("data/")
    answer = visitor.browser.get(f"{visitor.page}notice", follow=True)
    visitor.page = answer.request["PATH_INFO"]
    return answer.content.decode()


def test_proof_leads_to_the_notice_and_then_to_the_data(
    officer: Officer, subject: Visitor
):
    decline(officer, subject.report_id)
    visitor = reader()
    page = visitor.browser.get(visitor.page, follow=True).content.decode()
    assert CHALLENGE in page
    assert DECLINED not in page
    assert not NoticeFact.objects.exists()
    visitor.page = visitor.page.removesuffix("notice")
    visitor.confirm()

    proof = {"answer": newest_code()}
    page = visitor.browser.post(f"{visitor.page}code", proof, follow=True)

    assert DECLINED in visible_text(page.content.decode())
    assert "/notices/" in page.request["PATH_INFO"]
    data = visitor.get()
    assert data.status_code == 200
    assert "What was found about you" in visible_text(data.content.decode())


def test_notice_that_was_erased_ends_at_the_page_that_says_so(
    api: Api, officer: Officer, subject: Visitor
):
    decline(officer, subject.report_id)
    visitor, again = reader(), reader()
    proved(again)
    erase(api, subject.report_id)

    page = again.browser.get(again.page, follow=True).content.decode()
    assert DECLINED not in page
    assert "Other criteria" not in page
    page = visitor.browser.get(visitor.page, follow=True).content.decode()
    document = notice_pdf(AdverseNotice.objects.get())

    assert "Your details were deleted" in visible_text(page)
    text = PdfReader(io.BytesIO(document)).pages[0].extract_text()
    assert "They were erased with the person's details." in text


def test_page_names_client_bureau_reasons_and_rights(
    officer: Officer, subject: Visitor
):
    decline(officer, subject.report_id)

    visitor = reader()
    page = proved(visitor)

    text = visible_text(page)
    for words in (
        DECLINED,
        "Acacia Lenders",
        "Sandbox Credit Bureau",
        "https://bureau.example",
        "Other criteria of ours that are not met",
        "free of charge once a year",
        "Legal Notice 55 of 2020",
        "This is wrong: CRB score",
        "Object to further use",
        "Office of the Data Protection Commissioner",
    ):
        assert words in text, words
    assert ASK not in text
    assert len(page.encode()) < 40_000
    assert re.search(r'href="/c/v/[^"]+/data/wrong/[^"]+"', page)
    assert "<script" not in page
    kinds = [fact.kind for fact in NoticeFact.objects.all()]
    assert kinds == ["OPENED"]
    # A person decided.
    visitor.post("/review")
    assert not SubjectRequest.objects.filter(kind="REVIEW").exists()


def test_page_and_tagged_pdf_are_in_kiswahili(officer: Officer, subject: Visitor):
    decline(officer, subject.report_id)
    visitor = reader("sw")

    text = visible_text(proved(visitor))

    assert "Ombi lako lilikataliwa" in text
    assert "Vigezo vyetu vingine visivyotimizwa" in text
    document = PdfReader(io.BytesIO(visitor.get("/notice.pdf").content))
    text = "".join(page.extract_text() for page in document.pages)
    assert "Sababu kuu" in text
    assert "Sandbox Credit Bureau" in text
    assert document.trailer["/Root"]["/MarkInfo"]["/Marked"]


def test_first_visit_alone_is_a_fact(officer: Officer, subject: Visitor):
    decline(officer, subject.report_id)
    visitor = reader()
    proved(visitor)
    visitor.text()
    for _ in range(2):
        assert visitor.get("/notice.pdf").status_code == 200

    kinds = [fact.kind for fact in AdverseNotice.objects.get().facts.all()]
    assert kinds == ["OPENED", "DOWNLOADED"]


def test_reading_serves_a_notice_that_no_message_brought(
    api: Api, officer: Officer, ask: Any
):
    wait(5, api)
    subject = ask()
    subject.agree()
    api.work()
    decline(officer, subject.report_id)
    assert AdverseNotice.objects.get().state == "UNDELIVERED"
    subject.link += "/notice"

    text = visible_text(proved(subject))

    notice = AdverseNotice.objects.get()
    fact = notice.facts.get()
    assert (notice.state, fact.kind) == ("SERVED", "OPENED")
    assert notice.served_at == fact.at
    assert notice.waits_until is not None
    assert "does not count yet. Until" in text
    assert DECLINED in data_text(subject)


def test_page_and_pdf_say_what_replaced_a_decline_after_its_wait(
    api: Api, officer: Officer, subject: Visitor
):
    wait(5, api)
    made = decline(officer, subject.report_id)
    with time_machine.travel(deliver().waits_until + timedelta(minutes=1)):
        finish_waiting_declines()

    def document() -> str:
        pdf = PdfReader(io.BytesIO(notice_pdf(AdverseNotice.objects.get())))
        return " ".join(pdf.pages[0].extract_text().split())

    review = officer.decide(subject.report_id, "REVIEW", replaces=made.pk)

    visitor = reader()
    assert "This decision was taken back" in visible_text(proved(visitor))
    assert "does not count any more" in data_text(visitor)
    assert "Taken back: it does not count." in document()

    officer.decide(subject.report_id, "APPROVED", replaces=review.pk)

    assert "your application is approved" in visible_text(visitor.text())
    assert "your application is approved" in document()


def test_withdrawn_decline_says_so(api: Api, officer: Officer, subject: Visitor):
    wait(5, api)
    made = decline(officer, subject.report_id)
    withdraw(officer.client, made.pk, officer.member, officer.actor)
    visitor = reader()
    assert "This decision was taken back" in visible_text(proved(visitor))

    officer.decide(subject.report_id, "APPROVED")

    assert "your application is approved" in visible_text(visitor.text())


def test_notice_of_another_person_is_not_shown(
    api: Api, officer: Officer, subject: Visitor, ask: Any
):
    other = ask(subject={"idNumber": "22222222"})
    other.agree()
    api.work()
    decline(officer, subject.report_id)
    decline(officer, other.report_id)
    visitor = reader()
    mine = proved(visitor)
    theirs = AdverseNotice.objects.exclude(report=visitor_report(visitor)).get()

    path = re.sub(r"notices/.*", f"notices/{theirs.pk}", visitor.page)
    answer = visitor.browser.get(path)

    assert DECLINED in mine
    assert answer.status_code == 303
    assert not theirs.facts.exists()


def visitor_report(visitor: Visitor) -> Any:
    return AdverseNotice.objects.get(pk=visitor.page.rsplit("/", 1)[-1]).report_id


def test_decline_without_a_person_offers_a_review(api: Api, subject: Visitor):
    decline_by_policy(api, subject.report_id)
    visitor = reader()

    text = visible_text(proved(visitor))

    assert "decided this automatically, without a person." in text
    assert ASK in text
    assert visitor.get("/review").status_code == 405
    assert not SubjectRequest.objects.filter(kind="REVIEW").exists()
    for _ in range(2):
        assert visitor.post("/review").status_code == 303
    assert "You asked for it on" in visible_text(visitor.text())
    request = SubjectRequest.objects.get(kind="REVIEW")
    assert (request.answered_at, request.origin) == (None, "SUBJECT")
    trail = api.get(f"/reports/{subject.report_id}/events").json()["events"]
    assert trail[-1]["trigger"] == "review by a person asked for"


def test_decision_of_a_person_answers_the_review(
    api: Api, officer: Officer, subject: Visitor
):
    first = decline_by_policy(api, subject.report_id)
    visitor = reader()
    proved(visitor)
    visitor.post("/review")

    officer.decide(subject.report_id, "APPROVED", replaces=first.pk)
    answer_reviews(subject.report_id)

    request = SubjectRequest.objects.get(kind="REVIEW")
    assert request.outcome == "DONE"
    text = visible_text(visitor.text())
    assert "your application is approved" in text
    assert "A person looked at it on" in text
    assert "No person" not in text
    sent = Notification.objects.get(kind=Kind.REVIEW_ANSWER)
    assert sent.context["link"].endswith("/notice")
    # The link of a consent that the subject gave does not expire.
    assert "expiresAt" not in sent.context


def test_decline_that_counts_no_more_offers_no_review(
    api: Api, officer: Officer, subject: Visitor
):
    first = decline_by_policy(api, subject.report_id)
    visitor = reader()
    proved(visitor)
    officer.decide(subject.report_id, "APPROVED", replaces=first.pk)

    text = visible_text(visitor.text())
    visitor.post("/review")

    assert "your application is approved" in text
    assert ASK not in text
    assert "A person looks at it" not in text
    assert not SubjectRequest.objects.filter(kind="REVIEW").exists()
