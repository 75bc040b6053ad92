from typing import Any

import pytest

from tests.fakes.gleif import ACACIA, BARAKA, FakeGleif
from tests.fakes.gleif import gleif as gleif
from tests.providers.inquiries import ask, codes, inquiry
from verification.providers.base import Refused, Unavailable
from verification.providers.gleif import is_lei

CHECK = "BUSINESS_VERIFICATION"
TEA = {"country": "UG", "fullName": "Acacia Tea Ltd"}
BY_LEI = {**TEA, "registrationNumber": ACACIA}
BY_NUMBER = {**TEA, "registrationNumber": "C.12345"}
BY_NAME = {**TEA, "registrationNumber": "99"}
NAMED = {"name": "ACACIA TEA LIMITED"}


def finding_of(gleif: FakeGleif, **subject: Any):
    return ask(gleif.adapter(), inquiry(CHECK, **subject))


@pytest.mark.parametrize("subject", [BY_LEI, BY_NUMBER])
def test_active_company_is_clear_by_its_lei_and_by_its_number(gleif, subject):
    answer = finding_of(gleif, **subject)

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


@pytest.mark.parametrize("day", ["14-03-2016", "14/03/2016", "14 March 2016"])
def test_date_in_another_format_is_left_out(gleif: FakeGleif, day):
    gleif.add(ACACIA, creationDate=day)

    assert finding_of(gleif, **BY_LEI).details["incorporatedOn"] is None


def test_another_name_is_flagged(gleif: FakeGleif):
    answer = finding_of(gleif, **{**BY_LEI, "fullName": "Baraka Traders"})

    assert (codes(answer), answer.score) == (["NAME_MISMATCH"], 55)


@pytest.mark.parametrize(
    ("stated", "legal", "flags"),
    [
        ("Acacia Tea", "Общество «Акация»", ["NAME_NOT_COMPARED"]),
        ("Акация", "Акация", []),
        ("Акация", "Зерно", ["NAME_MISMATCH"]),
        ("365", "365 GmbH", []),
        ("365", "Baraka GmbH", ["NAME_MISMATCH"]),
    ],
)
def test_name_in_another_alphabet_is_not_compared(gleif, stated, legal, flags):
    gleif.add(ACACIA, legalName={"name": legal})

    assert codes(finding_of(gleif, **{**BY_LEI, "fullName": stated})) == flags


# Status of the LEI and of the company -> our status, flags and score.
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
        ("ISSUED", "FROZEN", "FROZEN", [], None),
        ("ISSUED", "NULL", None, [], None),
        ("RETIRED", "ACTIVE", "DISSOLVED", ["COMPANY_DISSOLVED"], 90),
        ("MERGED", "ACTIVE", "MERGED", ["COMPANY_DISSOLVED"], 90),
        *(
            (of_lei, "ACTIVE", None, [], None)
            for of_lei in ("ANNULLED", "CANCELLED", "DUPLICATE")
        ),
    ],
)
def test_status_maps_to_a_result(gleif, of_lei, word, status, flags, score):
    gleif.add(ACACIA, registration=of_lei, status=word)

    answer = finding_of(gleif, **BY_LEI)

    assert answer.details["companyStatus"] == status
    assert (codes(answer), answer.score) == (flags, score)


def test_unknown_status_is_logged(gleif: FakeGleif, caplog):
    gleif.add(ACACIA, status="FROZEN")

    finding_of(gleif, **BY_LEI)

    assert "FROZEN" in caplog.text


def test_unknown_lei_is_not_found(gleif: FakeGleif):
    answer = finding_of(gleif, **{**BY_LEI, "registrationNumber": BARAKA})

    assert (codes(answer), answer.score) == (["COMPANY_NOT_FOUND"], 80)


def test_company_without_a_record_is_undecided(gleif: FakeGleif):
    for name in ("Zawadi Textiles", "Acacia Hardware", None):
        answer = finding_of(gleif, country="UG", registrationNumber="99", fullName=name)

        assert (answer.score, answer.flags) == (None, [])
        assert answer.details["registeredName"] is None
        assert "no identifier" in answer.summary


def test_company_found_by_name_only_has_no_score(gleif: FakeGleif):
    answer = finding_of(gleif, **BY_NAME)

    assert answer.details["registeredName"] == "ACACIA TEA LIMITED"
    assert (answer.score, answer.flags) == (None, [])
    assert "not under this number" in answer.summary


def test_number_with_other_punctuation_is_the_same(gleif: FakeGleif):
    answer = finding_of(gleif, **{**TEA, "registrationNumber": "c 12345"})

    assert (answer.score, answer.details["companyStatus"]) == (5, "ACTIVE")


@pytest.mark.parametrize(
    ("other", "subject"),
    [({"registeredAs": "C.777"}, BY_NAME), ({"registeredAs": "C.12345"}, BY_NUMBER)],
)
def test_several_matching_records_are_undecided(gleif: FakeGleif, other, subject):
    gleif.add(BARAKA, legalName=NAMED, **other)

    answer = finding_of(gleif, **subject)

    assert (answer.score, answer.flags) == (None, [])
    assert set(answer.details.values()) == {subject["registrationNumber"], None}
    assert "Several" in answer.summary


def test_number_decides_between_equal_names(gleif: FakeGleif):
    gleif.add(BARAKA, legalName=NAMED, registeredAs="C 777")

    answer = finding_of(gleif, **{**TEA, "registrationNumber": "C.777"})

    assert (answer.score, answer.provider_reference) == (5, BARAKA)


@pytest.mark.parametrize("number", [ACACIA, "C.12345"])
def test_former_or_trading_name_is_no_mismatch(gleif: FakeGleif, number):
    others = [{"name": "BARAKA TRADERS", "type": "PREVIOUS_LEGAL_NAME"}]
    gleif.add(ACACIA, legalName={"name": "Акация"}, otherNames=others)
    subject = {**TEA, "registrationNumber": number, "fullName": "Baraka Traders"}

    answer = finding_of(gleif, **subject)

    assert (answer.score, answer.flags) == (5, [])
    assert answer.details["registeredName"] == "Акация"
    assert answer.details["nameMatch"] == "PARTIAL_MATCH"


def test_number_of_another_company_is_undecided(gleif: FakeGleif):
    """A country may have several registers that number alike, as Germany's courts."""
    subject = {**TEA, "registrationNumber": "C.12345", "fullName": "Baraka Traders"}

    answer = finding_of(gleif, **subject)

    assert (answer.score, answer.flags) == (None, [])
    assert answer.details["registeredName"] is None


def test_name_decides_between_equal_numbers(gleif: FakeGleif):
    gleif.add(BARAKA, legalName={"name": "BARAKA TRADERS"}, registeredAs="C.12345")

    assert finding_of(gleif, **BY_NUMBER).provider_reference == ACACIA


def test_company_of_another_country_is_no_match(gleif: FakeGleif):
    answer = finding_of(gleif, **{**BY_NUMBER, "country": "TZ"})

    assert answer.score is None


# Answer of the source -> failure, and text for the client.
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
def test_malformed_answer_raises_an_error(gleif, status, body, failure, told, subject):
    gleif.says = (status, body)

    with pytest.raises(failure) as error:
        finding_of(gleif, **subject)

    assert told in error.value.message
    assert "Acacia" not in error.value.message


def test_digits_of_an_lei_are_checked():
    assert is_lei(ACACIA)
    assert is_lei(BARAKA)
    assert not is_lei(ACACIA[:-1] + "3")
    assert not is_lei("C12345")


@pytest.mark.parametrize(
    ("check", "subject"),
    [("IDENTITY", {"idNumber": "1"}), (CHECK, {"fullName": "Acacia"})],
)
def test_unsupported_inquiry_is_refused(gleif: FakeGleif, check, subject):
    with pytest.raises(Refused):
        gleif.adapter().ask(inquiry(check, **subject))
    assert not gleif.requests
