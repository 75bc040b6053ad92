from datetime import timedelta

import pytest
import time_machine
from django.utils.timezone import now

from verification.consents.models import Consent, ConsentRecord

pytestmark = pytest.mark.django_db

WRONG = {"day": "1", "month": "1", "year": "1990"}


def test_nothing_of_the_subject_is_told_before_it(ask):
    visitor = ask(subject={"email": "w@kamau.test"}, purpose="Loan for Kamau's shop")
    visitor.open()

    for page in [visitor.get(), visitor.get("not-me"), visitor.get("confirm")]:
        text = page.content.decode()
        for known in ("Wanjiku", "Kamau", "12345678", "5678", "1990-03", "kamau.test"):
            assert known not in text


def test_what_is_told_after_it_is_masked(ask):
    visitor = ask(subject={"email": "w@kamau.test", "phone": "+254712345678"})

    page = visitor.enter().content.decode()

    assert "••••5678" in page
    assert "w••••@kamau.test" in page
    for known in ("12345678", "254712", "1990-03-27"):
        assert known not in page


def test_a_wrong_answer_says_how_many_are_left(ask):
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
    for _ in range(5):
        visitor.confirm(**WRONG)

    locked = visitor.get()
    assert locked.status_code == 429
    assert b"Too many wrong answers" in locked.content
    assert "Open it again in 15 minutes." in visitor.text()
    other = visitor.browser.get(visitor.page, headers={"Accept-Language": "sw"})
    assert "Kifungue tena baada ya dakika 15." in other.content.decode()
    visitor.confirm()
    assert visitor.get().status_code == 429
    with time_machine.travel(now() + timedelta(minutes=15, seconds=1)):
        visitor.confirm()
        assert b"wants to check your details" in visitor.get().content


@pytest.mark.parametrize(
    "typed",
    [
        {},
        {"day": "31", "month": "2", "year": "1990"},
        {"day": "27", "month": "March", "year": "1990"},
        {"day": "٢٧", "month": "3", "year": "1990"},
        {"day": "27", "month": "3", "year": "0"},
        {"day": "27\0", "month": "3", "year": "1990"},
    ],
)
def test_what_is_no_date_is_not_counted_as_an_answer(ask, typed):
    visitor = ask()
    visitor.open()

    visitor.post("confirm", **typed)

    page = visitor.text()
    assert "<title>Error: " in page
    assert 'href="#id_day"' in page
    assert Consent.objects.get().wrong_answers == 0


@pytest.mark.parametrize("typed", ["678A", "678a", " 678 A "])
def test_the_end_of_the_id_number_does_as_well(ask, typed):
    visitor = ask(subject={"dateOfBirth": None, "idNumber": "1234-5678A"})
    visitor.open()
    assert b"last four characters" in visitor.get().content

    visitor.confirm(answer=typed)

    visitor.grant()
    assert ConsentRecord.objects.get().evidence["confirmedBy"] == "ID_NUMBER_END"


def test_a_network_that_tries_too_much_waits(ask, settings):
    visitor = ask()
    visitor.open()

    statuses = [visitor.post("confirm").status_code for _ in range(61)]

    assert statuses[:60] == [303] * 60
    assert statuses[60] == 429


@pytest.mark.parametrize("typed", ["PVT-12345", "pvt 12345", " PVT/123-45 "])
def test_a_company_is_confirmed_by_its_registration_number(ask_company, typed):
    visitor = ask_company()
    visitor.open()
    page = visitor.text()
    assert "registration number" in page
    for known in ("Baobab", "12345", "PVT"):
        assert known not in page

    visitor.confirm(answer=typed)

    assert "wants to check your company" in visitor.text()


@pytest.mark.parametrize("typed", ["12345", "2345", "PVT-1234", "PVT-12346"])
def test_a_part_of_the_registration_number_is_wrong(ask_company, typed):
    visitor = ask_company()
    visitor.open()

    visitor.confirm(answer=typed)

    assert "Confirm that it is your company" in visitor.text()
    assert Consent.objects.get().wrong_answers == 1


def test_a_visit_to_one_company_is_none_to_another(api, ask_company):
    visitor = ask_company()
    visitor.open()
    visitor.confirm(answer="PVT-12345")
    report = Consent.objects.get().report
    report.subject = {**report.subject, "registrationNumber": "PVT-99999"}
    report.save()

    assert "Confirm that it is your company" in visitor.text()
