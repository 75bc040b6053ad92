import re
from hashlib import sha256

import pytest
from django.core import mail
from django.test import Client
from django.utils.timezone import now

from tests.documents.test_consent_receipts import pdf_text
from tests.references.conftest import paying_api as paying_api
from tests.world.clients import Api
from tests.world.clock import let_days_pass
from tests.world.orders import count_rows
from tests.world.referee import ANSWER, NO, PLACES, saved_reference
from tests.world.referee import referee as referee
from tests.world.subject import Visitor, visible_text
from verification.consents.models import Consent
from verification.hosted.reference import AnswersForm
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Kind, Notification
from verification.notifications.templates import write_email
from verification.references.answers import VERSION
from verification.references.models import Reference


def test_answers_of_a_referee_complete_the_report(paying_api: Api, referee: Visitor):
    referee.open()
    page = visible_text(referee.text())
    assert "Acacia Lenders asks you to confirm" in page
    assert "Did Wanjiku Kamau work at Baraka Logistics Ltd?" in page

    answer = referee.post("submit", **ANSWER)
    assert (answer.status_code, answer["Location"]) == (303, referee.page)

    assert "Thank you for your answers" in referee.text()
    assert saved_reference(referee).answers == {
        "employed": True,
        "employer": "Baraka Logistics Limited",
        "jobTitle": "Fleet manager",
        "employedFrom": "2019-03-01",
        "employedTo": "2023-06-30",
        "stillEmployed": False,
        "wouldRehire": "YES",
        "remarks": "Always on time.",
        "refereeName": "Amina Said",
        "refereeTitle": "Head of Operations",
        "mayAnswer": True,
    }
    paying_api.work()
    assert paying_api.report(str(referee.reference.report_id))["riskScore"] == 5


def test_no_employment_is_an_answer(referee: Visitor):
    referee.open()
    referee.post("submit", **ANSWER | NO)

    answers = saved_reference(referee).answers
    assert answers["employed"] is False
    assert answers["jobTitle"] is answers["wouldRehire"] is None


def test_referee_may_leave_out_what_they_do_not_know(paying_api: Api, referee: Visitor):
    referee.open()
    left_out = ("job_title", "from_day", "from_month", "from_year", "rehire", "remarks")
    told = ANSWER | dict.fromkeys([*left_out, "to_month", "to_year"], "")
    referee.post("submit", **told)

    answers = saved_reference(referee).answers
    assert answers["employed"] is True
    assert answers["employedFrom"] is answers["employedTo"] is None
    assert (answers["jobTitle"], answers["wouldRehire"]) == ("", "UNKNOWN")
    paying_api.work()
    (result,) = paying_api.report(str(referee.reference.report_id))["checkResults"]
    assert result["flags"] == []


def test_present_employment_has_no_last_day(referee: Visitor):
    referee.open()
    referee.post("submit", **ANSWER, still="on")

    assert saved_reference(referee).answers["employedTo"] is None


def test_visit_leaves_evidence(referee: Visitor):
    referee.browser = Client(headers={"User-Agent": "Opera Mini" + "x" * 1000})
    referee.open()
    referee.get(lang="sw")
    referee.post("submit", **ANSWER)

    evidence = saved_reference(referee).evidence
    assert evidence["address"] == "127.0.0.1"
    assert evidence["language"] == "sw"
    assert evidence["userAgent"].startswith("Opera Mini")
    assert len(evidence["userAgent"]) == 500
    assert evidence["noticeVersion"] == VERSION
    text = evidence["noticeText"]
    assert evidence["noticeSha256"] == sha256(text.encode()).hexdigest()
    assert "anwani yako ya intaneti na kivinjari chako" in text


def test_referee_declines(paying_api: Api, referee: Visitor):
    referee.open()
    # The mail names the button for a referee who does not know the person.
    (request,) = Notification.objects.filter(kind=Kind.REFERENCE_REQUEST)
    named = re.findall("“(.+?)”", write_email(request).text)
    for button, language in zip(named, ("en", "sw"), strict=True):
        page = referee.get(lang=language).content.decode()
        assert f"“{button}”" in page
        assert f">{button}</a>" in page
    referee.get(lang="en")
    assert "You cannot answer?" in referee.text("decline")
    assert saved_reference(referee).status == "PENDING"
    referee.post("decline", reason="Not allowed to")

    assert "You declined to answer" in referee.text()
    assert saved_reference(referee).evidence["reason"] == "Not allowed to"
    paying_api.work()
    report = paying_api.report(str(referee.reference.report_id))
    assert report["checkResults"][0]["failure"]["code"] == "REFEREE_DECLINED"


FAULTS = [
    ({"employed": ""}, "Say whether they worked there"),
    ({"employed": "MAYBE"}, "Say whether they worked there"),
    ({"rehire": "MAYBE"}, "Say whether they would be hired again"),
    ({"remarks": "a\0"}, "a character that we cannot keep"),
    ({"from_year": "2" * 5000}, "for example 27 3 2019 or 3 2019"),
    ({"employer": "  "}, "Write the name of the employer"),
    ({"job_title": "x" * 201}, "Write at most 200 characters"),
    ({"from_month": "13"}, "for example 27 3 2019 or 3 2019"),
    ({"from_year": "19"}, "for example 27 3 2019 or 3 2019"),
    ({"from_year": ""}, "for example 27 3 2019 or 3 2019"),
    ({"from_day": "31", "from_month": "2"}, "for example 27 3 2019 or 3 2019"),
    ({"from_year": "9999"}, "The first day cannot be in the future"),
    ({"to_year": "٢٠٢٣"}, "for example 27 3 2019 or 3 2019"),
    ({"to_month": ""}, "for example 27 3 2019 or 3 2019"),
    ({"to_year": "2018"}, "The last day cannot be before the first"),
    ({"remarks": "x" * 1001}, "Write at most 1000 characters"),
    ({"name": ""}, "Write your full name"),
    ({"title": ""}, "Write your job title"),
    ({"may_answer": ""}, "Tick the box if you may answer"),
]


def test_invalid_form_names_its_errors():
    assert AnswersForm(ANSWER).errors == {}
    for form, error in FAULTS:
        errors = AnswersForm(ANSWER | form).errors

        assert error in str(errors), form


def test_invalid_or_outdated_form_is_shown_again_with_the_rest(referee: Visitor):
    referee.open()
    for form, error in FAULTS[1], FAULTS[9]:
        page = referee.post("submit", **ANSWER | form).content.decode()

        assert "<title>Error: " in page, form
        assert page.count(error) == 2, form
        assert 'class="errors" role="alert"' in page, form
        assert "Always on time." in page, form
    # Every error leads to its field.
    empty = dict.fromkeys(ANSWER, "")
    wrong = empty | {"employed": "YES", "from_day": "x", "to_year": "x", "rehire": "x"}
    page = referee.post("submit", **wrong).content.decode()
    for name in ("employer", "from_day", "to_day", "rehire", "name", "title"):
        assert f'href="#id_{name}"' in page
        assert page.count(f'id="id_{name}"') == 1
    # Groups are tied to their hints and errors.
    for name in ("employed-hint", "from_day-hint id_from_day-error"):
        assert f'aria-describedby="id_{name}' in page
    assert page.count('autocomplete="off" aria-invalid="true"') == 6
    # The notice was another one.
    page = referee.post("submit", **ANSWER, shown="ab" * 32)
    assert page.status_code == 200
    changed = "This page has changed since you opened it"
    assert changed in visible_text(page.content.decode())
    assert b"<title>Error: " in page.content
    assert saved_reference(referee).status == "PENDING"


def test_get_requests_change_nothing(referee: Visitor):
    referee.open()
    for days in (0, 14):
        let_days_pass(days)
        reference, before = Reference.objects.values().get(), count_rows()

        for place in [*PLACES, "?lang=sw"]:
            referee.get(place)
        referee.browser.head(referee.page)

        assert Reference.objects.values().get() == reference
        assert count_rows() == before


@pytest.mark.parametrize(
    ("language", "place", "done", "subject"),
    [
        ("en", "submit", "You answered the questions.", "Thank you for your reference"),
        ("sw", "decline", "Ulikataa kujibu.", "Ulikataa kutoa uthibitisho"),
    ],
)
def test_referee_gets_a_receipt_by_page_pdf_and_email(
    referee: Visitor, language: str, place: str, done: str, subject: str
):
    send_due_notifications()
    mail.outbox.clear()
    referee.open()
    referee.get(lang=language)
    assert referee.get("receipt.pdf").status_code == 303
    for _ in range(2):
        referee.post(place, **ANSWER)

    page = referee.text()
    number = saved_reference(referee).number
    assert number in page
    assert "<svg" in page
    assert f'href="{referee.page}receipt.pdf"' in page
    pdf = referee.get("receipt.pdf")
    assert pdf["Content-Type"] == "application/pdf"
    shown = pdf_text(pdf.content)
    for text in (done, number, "Acacia Lenders"):
        assert text in shown
    # Any holder of the link can open it.
    for known in ("Wanjiku", "Baraka", "Amina", "Always on time"):
        assert known not in shown

    send_due_notifications()
    (message,) = mail.outbox
    assert message.to == ["amina@baraka.test"]
    assert message.subject.startswith(subject)
    assert referee.link in message.body
    ((name, attached, _),) = message.attachments
    assert (name, attached) == (f"{number}.pdf", pdf.content)


def test_answered_link_takes_no_other_answer_and_shows_none(referee: Visitor):
    referee.open()
    referee.post("submit", **ANSWER)
    first = saved_reference(referee).submitted_at
    referee.post("submit", **ANSWER | {"rehire": "NO"})
    referee.post("decline")

    assert (saved_reference(referee).status, saved_reference(referee).submitted_at) == (
        "SUBMITTED",
        first,
    )
    assert saved_reference(referee).answers["wouldRehire"] == "YES"
    # Another visitor reads neither the answers nor the subject.
    referee.browser = Client()
    referee.open()
    page = referee.text()
    assert saved_reference(referee).number in page
    for personal in ("Wanjiku", "Amina", "Baraka", "Always on time"):
        assert personal not in page


def test_expired_link_takes_no_answer(referee: Visitor):
    referee.open()
    let_days_pass(14)

    referee.post("submit", **ANSWER)

    page = referee.get()
    assert page.status_code == 410
    assert b"This link has expired" in page.content
    assert b"Wanjiku" not in page.content


def test_notice_names_stored_data_and_rights(referee: Visitor):
    referee.open()
    page = visible_text(referee.get(lang="sw").content.decode())
    for text in ("Loan application", "Siku 365", "kifungu cha 26", "kivinjari chako"):
        assert text in page
    attested = visible_text(referee.get(lang="en").content.decode())
    for text in (
        "decides why you are asked",
        "Loan application",
        "365 days",
        "your internet address and your browser",
        "sections 26 and 29 of the Data Protection Act, 2019",
        "Acacia Lenders gave us your name and your e-mail address",
        "help@operator.test",
    ):
        assert text in attested

    # It mentions consent only on record.
    Consent.objects.update(
        mode="SERVICE_HOSTED",
        status="GRANTED",
        attestation=None,
        token_digest=b"x",
        expires_at=now(),
    )
    granted = visible_text(referee.text())
    assert "Acacia Lenders states that Wanjiku Kamau agreed" in attested
    assert "agreed on a page of this service" not in attested
    assert "Wanjiku Kamau agreed on a page of this service" in granted
