from typing import Any

import pytest

from tests.fakes.gleif import ACACIA, BARAKA, FakeGleif
from tests.fakes.gleif import gleif as gleif
from tests.providers.asking import ask, codes, inquiry
from verification.providers.base import Refused, Unavailable
from verification.providers.gleif import is_lei

CHECK = "BUSINESS_VERIFICATION"
TEA = {"country": "UG", "fullName": "Acacia Tea Ltd"}
BY_LEI = {**TEA, "registrationNumber": ACACIA}
BY_NUMBER = {**TEA, "registrationNumber": "C.12345"}
BY_NAME = {**TEA, "registrationNumber": "99"}
NAMED = {"name": "ACACIA TEA LIMITED"}


def found(gleif: FakeGleif, **subject: Any):
    return ask(gleif.adapter(), inquiry(CHECK, **subject))


@pytest.mark.parametrize("subject", [BY_LEI, BY_NUMBER])
def test_an_active_company_is_clear_by_its_lei_and_by_its_number(gleif, subject):
    answer = found(gleif, **subject)

    assert (answer.score, answer.flags) == (5, [])
    assert answer.provider_reference == ACACIA
    assert answer.details == {
        "registrationNumber": subject["registrationNumber"],
        "registeredName": "ACACIA TEA LIMITED",
        "companyType": "PRIVATE_COMPANY",
        "companyStatus": "ACTIVE",
        "incorporatedOn": "2016-03-14",
        "registeredAddress": "Plot 7, Kampala Road, Kampala, UG-102, UG",
        "directors": None,
        "shareholders": None,
        "nameMatch": "MATCH",
    }


def test_another_name_is_flagged(gleif: FakeGleif):
    answer = found(gleif, **{**BY_LEI, "fullName": "Baraka Traders"})

    assert (codes(answer), answer.score) == (["NAME_MISMATCH"], 55)


# The LEI's status, the company's -> ours, flags and score.
@pytest.mark.parametrize(
    ("of_lei", "word", "status", "flags", "score"),
    [
        *(
            (of_lei, "ACTIVE", "ACTIVE", [], 5)
            for of_lei in (
                "ISSUED",
                "PENDING_TRANSFER",
                "PENDING_ARCHIVAL",
                "TRANSFERRED",
            )
        ),
        *(
            (of_lei, "ACTIVE", "ACTIVE", [], None)
            for of_lei in ("LAPSED", "PENDING_VALIDATION", "SUSPICIOUS", None)
        ),
        ("ISSUED", None, None, [], None),
        ("ISSUED", "INACTIVE", "DISSOLVED", ["COMPANY_DISSOLVED"], 90),
        ("LAPSED", "INACTIVE", "DISSOLVED", ["COMPANY_DISSOLVED"], 90),
        ("ISSUED", "FROZEN", "FROZEN", ["COMPANY_DISSOLVED"], 90),
        ("ISSUED", "NULL", "NULL", ["COMPANY_DISSOLVED"], 90),
        ("RETIRED", "ACTIVE", "DISSOLVED", ["COMPANY_DISSOLVED"], 90),
        ("MERGED", "ACTIVE", "MERGED", ["COMPANY_DISSOLVED"], 90),
        *(
            (of_lei, "ACTIVE", None, [], None)
            for of_lei in ("ANNULLED", "CANCELLED", "DUPLICATE")
        ),
    ],
)
def test_what_a_status_becomes(gleif, of_lei, word, status, flags, score):
    gleif.add(ACACIA, registration=of_lei, status=word)

    answer = found(gleif, **BY_LEI)

    assert answer.details["companyStatus"] == status
    assert (codes(answer), answer.score) == (flags, score)


def test_a_status_that_is_not_known_is_logged(gleif: FakeGleif, caplog):
    gleif.add(ACACIA, status="FROZEN")

    found(gleif, **BY_LEI)

    assert "FROZEN" in caplog.text


def test_an_lei_that_is_not_there_does_not_exist(gleif: FakeGleif):
    answer = found(gleif, **{**BY_LEI, "registrationNumber": BARAKA})

    assert (codes(answer), answer.score) == (["COMPANY_NOT_FOUND"], 80)


def test_a_company_without_a_record_is_not_one_that_does_not_exist(gleif: FakeGleif):
    for name in ("Zawadi Textiles", "Acacia Hardware", None):
        answer = found(gleif, country="UG", registrationNumber="99", fullName=name)

        assert (answer.score, answer.flags) == (None, [])
        assert answer.details["registeredName"] is None
        assert "no identifier" in answer.summary


def test_by_its_name_alone_a_company_is_shown_without_a_score(gleif: FakeGleif):
    answer = found(gleif, **BY_NAME)

    assert answer.details["registeredName"] == "ACACIA TEA LIMITED"
    assert (answer.score, answer.flags) == (None, [])
    assert "not under this number" in answer.summary


def test_a_number_that_is_written_otherwise_is_the_same(gleif: FakeGleif):
    answer = found(gleif, **{**TEA, "registrationNumber": "c 12345"})

    assert (answer.score, answer.details["companyStatus"]) == (5, "ACTIVE")


@pytest.mark.parametrize(
    ("other", "subject"),
    [({"registeredAs": "C.777"}, BY_NAME), ({"registeredAs": "C.12345"}, BY_NUMBER)],
)
def test_of_several_records_none_is_taken(gleif: FakeGleif, other, subject):
    gleif.add(BARAKA, legalName=NAMED, **other)

    answer = found(gleif, **subject)

    assert (answer.score, answer.flags) == (None, [])
    assert set(answer.details.values()) == {subject["registrationNumber"], None}
    assert "Several" in answer.summary


def test_of_one_name_the_number_tells_which(gleif: FakeGleif):
    gleif.add(BARAKA, legalName=NAMED, registeredAs="C 777")

    answer = found(gleif, **{**TEA, "registrationNumber": "C.777"})

    assert (answer.score, answer.provider_reference) == (5, BARAKA)


def test_a_company_of_another_country_is_another(gleif: FakeGleif):
    answer = found(gleif, **{**BY_NUMBER, "country": "TZ"})

    assert answer.score is None


# What is answered -> the failure, and what the client reads.
@pytest.mark.parametrize(
    ("status", "body", "failure", "told"),
    [
        (400, {"errors": []}, Refused, "status 400"),
        (401, {"errors": []}, Refused, "status 401"),
        (403, {"errors": []}, Refused, "status 403"),
        (404, "<html>", Unavailable, "status 404"),
        (429, {"errors": []}, Unavailable, "status 429"),
        (500, {"errors": []}, Unavailable, "status 500"),
        (503, "<html>", Unavailable, "status 503"),
        (200, "<html>", Unavailable, "not with JSON"),
        (200, [], Unavailable, "no object"),
        (200, {"data": 7}, Unavailable, ""),
        (200, {"data": {"attributes": {"lei": BARAKA}}}, Unavailable, ""),
    ],
)
@pytest.mark.parametrize("subject", [BY_LEI, BY_NUMBER])
def test_what_is_no_answer_is_never_a_finding(
    gleif, status, body, failure, told, subject
):
    gleif.says = (status, body)

    with pytest.raises(failure) as error:
        found(gleif, **subject)

    assert told in error.value.message
    assert "Acacia" not in error.value.message


@pytest.mark.parametrize("fault", [{"status": 500}, {"html": True}, {"half": True}])
def test_a_bad_day_is_no_answer(gleif: FakeGleif, fault: dict[str, Any]):
    for name, value in fault.items():
        setattr(gleif.faults, name, value)

    with pytest.raises(Unavailable):
        found(gleif, **BY_LEI)


def test_a_slow_source_is_not_waited_for(gleif: FakeGleif, monkeypatch):
    monkeypatch.setattr("verification.providers.gleif.SECONDS", 0.2)
    gleif.faults.slow = 0.6

    with pytest.raises(Unavailable, match="in time"):
        found(gleif, **BY_LEI)


def test_the_digits_of_an_lei_are_checked():
    assert is_lei(ACACIA)
    assert is_lei(BARAKA)
    assert not is_lei(ACACIA[:-1] + "3")
    assert not is_lei("C12345")


@pytest.mark.parametrize(
    ("check", "subject"),
    [("IDENTITY", {"idNumber": "1"}), (CHECK, {"fullName": "Acacia"})],
)
def test_what_it_cannot_be_asked_is_refused(gleif: FakeGleif, check, subject):
    with pytest.raises(Refused):
        gleif.adapter().ask(inquiry(check, **subject))
    assert not gleif.requests
