from datetime import timedelta

import pytest
import time_machine
from django.utils.timezone import now

from tests.world.subject import BORN, visible_text
from verification.consents.models import Consent, ConsentRecord
from verification.hosted.forms import DateOfBirthForm
from verification.notifications.models import Notification
from workspaces import rate_limits

pytestmark = pytest.mark.django_db

WRONG = {"day": "1", "month": "1", "year": "1990"}


def test_page_shows_no_detail_before_the_challenge(ask):
    visitor = ask(subject={"email": "w@kamau.test"}, purpose="Loan for Kamau's shop")
    visitor.open()

    for page in [visitor.get(), visitor.get("not-me"), visitor.get("confirm")]:
        html = page.content.decode()
        for known in ("Wanjiku", "Kamau", "12345678", "1990-03", "kamau.test"):
            assert known not in html
        # The HTML holds random digits.
        assert "5678" not in visible_text(html)


def test_page_masks_details_after_the_challenge(ask):
    visitor = ask(subject={"email": "w@kamau.test", "phone": "+254712345678"})

    page = visitor.enter().content.decode()

    assert "••••5678" in page
    assert "w••••@kamau.test" in page
    for known in ("12345678", "254712", "1990-03-27"):
        assert known not in page


def test_page_names_the_employer_and_the_referee(ask):
    referee = {
        "employerName": "Baobab Bank",
        "refereeName": "Otieno Ouma",
        "refereeEmail": "otieno@baobab.test",
    }
    visitor = ask(subject=referee, checksRequested=["EMPLOYER_VERIFICATION"])

    page = visitor.enter().content.decode()

    assert "Baobab Bank" in page
    assert "Otieno Ouma, o••••@baobab.test" in page


def test_wrong_answer_says_how_many_are_left(ask):
    visitor = ask()
    visitor.open()

    answer = visitor.confirm(**WRONG)
    page = visitor.browser.get(answer["Location"]).content.decode()

    assert "<title>Error: " in page
    assert "You can try 4 more times" in page
    assert b"Confirm that it is you" in visitor.get().content


def test_five_wrong_answers_lock_the_link_for_a_while(ask):
    visitor = ask()
    visitor.open()
    Consent.objects.update(wrong_answers=4)
    visitor.confirm(**WRONG)

    locked = visitor.get()
    assert locked.status_code == 429
    assert b"Too many wrong answers" in locked.content
    assert b"Open it again in 15 minutes." in locked.content
    visitor.confirm()
    assert visitor.get().status_code == 429
    with time_machine.travel(now() + timedelta(minutes=15, seconds=1)):
        visitor.confirm()
        assert b"wants to check your details" in visitor.get().content


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"day": "31", "month": "2", "year": "1990"}, "id_day"),
        ({"day": "27", "month": "3", "year": "90"}, "id_year"),
    ],
)
def test_invalid_date_does_not_count_as_an_answer(ask, typed, field):
    visitor = ask()
    visitor.open()

    answer = visitor.post("confirm", **typed)

    page = visitor.browser.get(answer["Location"]).content.decode()
    assert "<title>Error: " in page
    assert f'href="#{field}"' in page
    assert f'aria-describedby="born-hint {field}-error"' in page
    assert page.count("aria-invalid") == (3 if field == "id_day" else 1)
    told = "Write the year with four digits" in page
    assert told is (field == "id_year")
    assert Consent.objects.get().wrong_answers == 0


def test_date_of_birth_needs_numbers_and_a_year_of_four_digits():
    assert DateOfBirthForm(BORN).is_valid()
    for wrong, field in (
        ({"day": ""}, "day"),
        ({"month": "March"}, "day"),
        ({"day": "٢٧"}, "day"),
        ({"day": "27\0"}, "day"),
        ({"year": "999"}, "year"),
        ({"year": "0"}, "year"),
    ):
        assert [*DateOfBirthForm({**BORN, **wrong}).errors] == [field], wrong


def test_end_of_the_id_number_passes_the_challenge(ask):
    subject = {"dateOfBirth": None, "country": "TZ", "idNumber": "1234-5678A"}
    visitor = ask(subject=subject)
    visitor.open()
    assert b"last four characters" in visitor.get().content

    visitor.confirm(answer=" 678 a ")

    visitor.grant()
    assert ConsentRecord.objects.get().evidence["confirmedBy"] == "ID_NUMBER_END"


def lock_link(visitor):
    """Lock the link for good, as the fourth time does."""
    Consent.objects.update(locks=3, wrong_answers=4)
    visitor.confirm(**WRONG)


def test_wrong_answer_says_how_long_the_next_lock_is(ask):
    visitor = ask()
    visitor.open()
    for locks, told in [
        (0, "Then this link is locked for 15 minutes."),
        (1, "Then this link is locked for an hour."),
        (2, "Then this link is locked for a day."),
        (3, "Then this link does not work any more."),
    ]:
        Consent.objects.update(locks=locks, wrong_answers=0)

        answer = visitor.confirm(**WRONG)

        assert told in visitor.browser.get(answer["Location"]).content.decode()


def test_visitor_of_a_locked_link_can_ask_the_client_for_another(api, ask):
    visitor = ask()
    visitor.open()
    lock_link(visitor)

    page = visitor.get()
    assert page.status_code == 410
    assert b"This link is locked" in page.content
    assert b"Ask <bdi>Acacia Lenders</bdi> for a new request" in page.content
    visitor.post("ask-client")
    visitor.post("ask-client")

    assert b"We have told <bdi>Acacia Lenders</bdi>" in visitor.get().content
    (told,) = Notification.objects.filter(kind="NEW_LINK_WANTED")
    assert told.recipient == api.workspace.contact_email
    assert told.context["canResend"] is True
    assert api.report(visitor.report_id)["status"] == "PENDING_CONSENT"
    visitor.post("not-me")
    assert api.report(visitor.report_id)["status"] == "FAILED"


@pytest.mark.usefixtures("new_minute")
def test_locked_link_does_not_deny_the_checks_of_a_granted_consent(api, ask):
    visitor = ask()
    visitor.open()
    lock_link(visitor)
    visitor.agree()

    page = visitor.text()

    assert api.report(visitor.report_id)["status"] == "RUNNING"
    assert "This link is locked" in page
    assert "Nothing was checked" not in page
    # Nor does it offer an answer that the request takes no more.
    text = visible_text(page)
    assert "Is this the wrong person? Then tell Acacia Lenders, or" in text
    assert visitor.get("not-me")["Location"] == visitor.page


def test_challenge_is_not_limited_by_address(ask, monkeypatch):
    """Many phones share an address of their carrier."""
    counted = []
    monkeypatch.setattr(rate_limits, "count_for_address", counted.append)
    visitor = ask()
    visitor.open()

    assert visitor.confirm().status_code == 303
    assert counted == []


def test_company_is_confirmed_by_its_registration_number(ask_company):
    visitor = ask_company()
    visitor.open()
    page = visitor.text()
    assert "registration number" in page
    for known in ("Baobab", "12345", "PVT"):
        assert known not in page

    visitor.confirm(answer=" pvt/123-45 ")

    assert "wants to check your company" in visitor.text()


def test_part_of_the_registration_number_is_wrong(ask_company):
    visitor = ask_company()
    visitor.open()

    for typed in ("12345", "2345", "PVT-1234", "PVT-12346"):
        visitor.confirm(answer=typed)

    assert "Confirm that it is your company" in visitor.text()
    assert Consent.objects.get().wrong_answers == 4


def test_company_without_registration_number_confirms_its_kra_pin(ask_company):
    visitor = ask_company(registrationNumber=None)
    visitor.open()
    page = visitor.text()
    assert "The KRA PIN of your company" in page
    for known in ("Baobab", "P123", "789Z", "wants to check your company"):
        assert known not in page

    visitor.confirm(answer="789Z")
    assert Consent.objects.get().wrong_answers == 1
    visitor.confirm(answer=" p-123 456 789 z ")

    visitor.grant(name="Achieng Ouma", position="Director")
    assert ConsentRecord.objects.get().evidence["confirmedBy"] == "KRA_PIN"


def test_person_with_a_kra_pin_alone_confirms_it_in_kiswahili(ask):
    visitor = ask(
        subject={"dateOfBirth": None, "idNumber": None, "kraPin": "A123456789Z"},
        checksRequested=["KRA_PIN"],
    )
    visitor.browser.cookies["django_language"] = "sw"
    visitor.open()
    assert "PIN yako ya KRA" in visitor.text()

    visitor.confirm(answer="")
    assert "Andika PIN yote ya KRA" in visitor.text()
    visitor.confirm(answer="A123456789Z")

    visitor.grant()
    assert ConsentRecord.objects.get().evidence["confirmedBy"] == "KRA_PIN"


def test_visit_to_one_company_opens_no_other(api, ask_company):
    visitor = ask_company()
    visitor.open()
    visitor.confirm(answer="PVT-12345")
    report = Consent.objects.get().report
    report.subject = {**report.subject, "registrationNumber": "PVT-99999"}
    report.save()

    assert "Confirm that it is your company" in visitor.text()
