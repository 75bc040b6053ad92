import logging
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes.companies_house import NUMBER, OFFICERS, OWNERS, FakeCompaniesHouse
from tests.fakes.companies_house import companies_house as companies_house
from tests.fakes.server import Answer
from tests.providers.inquiries import ask, codes, inquiry
from verification.providers.base import AnswerPending, Refused, Unavailable
from verification.providers.companies_house import company_number

CHECK = "BUSINESS_VERIFICATION"
ACACIA = {
    "country": "GB",
    "registrationNumber": "445790",
    "fullName": "Acacia Tea Ltd",
}
BARAKA_BEFORE = {"previous_company_names": [{"name": "BARAKA LIMITED"}]}
BY_NAME = {**ACACIA, "registrationNumber": "VAT 123456789"}


def finding_of(companies_house: FakeCompaniesHouse, **subject: Any):
    asked = inquiry(CHECK, **(subject or ACACIA))
    return ask(companies_house.adapter(), asked)


def test_active_company_is_clear_and_lists_its_people(companies_house):
    answer = finding_of(companies_house)

    assert (answer.score, answer.flags) == (5, [])
    assert answer.provider_reference == NUMBER
    assert answer.details == {
        "registrationNumber": "445790",
        "registeredName": "ACACIA TEA LIMITED",
        "companyType": "PRIVATE_LIMITED_COMPANY",
        "companyStatus": "ACTIVE",
        "incorporatedOn": "2016-03-14",
        "registeredAddress": (
            "1 Ivory House, St Katharine Docks, London, E1W 1AT, England"
        ),
        "directors": [
            {
                "fullName": "Jane Wanjiku KAMAU",
                "role": "DIRECTOR",
                "nationality": "Kenyan",
                "appointedOn": "2016-03-14",
            },
            {
                "fullName": "ACACIA SECRETARIES LLP",
                "role": "CORPORATE_SECRETARY",
                "nationality": None,
                "appointedOn": None,
            },
        ],
        "shareholders": [
            {"fullName": "Ms Jane Wanjiku Kamau", "shares": None, "percent": None}
        ],
        "nameMatch": "MATCH",
    }


def test_company_without_people_has_empty_lists(companies_house):
    companies_house.officers = companies_house.owners = None

    details = finding_of(companies_house).details

    assert (details["directors"], details["shareholders"]) == ([], [])


@pytest.mark.parametrize("day", ["14-03-2016", "14/03/2016", "14 March 2016"])
def test_date_in_another_format_is_left_out(companies_house, day):
    companies_house.profile = {"date_of_creation": day}

    assert finding_of(companies_house).details["incorporatedOn"] is None


def test_unreadable_list_of_people_is_left_out(companies_house, monkeypatch):
    page = Answer(200, {"items": [], "total_results": ["none"]})
    monkeypatch.setattr("tests.fakes.companies_house._page", lambda items: page)

    details = finding_of(companies_house).details

    assert (details["directors"], details["shareholders"]) == (None, None)


def test_incomplete_list_of_people_is_left_out(companies_house):
    companies_house.officers, companies_house.owners = OFFICERS * 40, OWNERS * 40

    details = finding_of(companies_house).details

    assert (details["directors"], details["shareholders"]) == (None, None)


# The register's words -> ours.
@pytest.mark.parametrize(
    ("words", "detail", "status", "score"),
    [
        ("active open registered", "", "ACTIVE", 5),
        ("active", "transferred-from-uk", "ACTIVE", 5),
        ("active", "active-proposal-to-strike-off", "PROPOSAL_TO_STRIKE_OFF", 90),
        ("dissolved closed converted-closed removed", "", "DISSOLVED", 90),
        *(
            (word, "", word.upper().replace("-", "_"), 90)
            for word in (
                "administration",
                "insolvency-proceedings",
                "liquidation",
                "receivership",
                "voluntary-arrangement",
            )
        ),
        ("suspended-animation", "", "SUSPENDED_ANIMATION", None),
    ],
)
def test_status_maps_to_a_result(companies_house, words, detail, status, score):
    for word in words.split():
        record = {"company_status": word, "company_status_detail": detail}
        companies_house.profile = record

        answer = finding_of(companies_house)

        assert answer.details["companyStatus"] == status
        assert codes(answer) == (["COMPANY_DISSOLVED"] if score == 90 else [])
        assert answer.score == score


@pytest.mark.parametrize(
    ("detail", "message"),
    [
        ("active-proposal-to-strike-off", "says: “proposal to strike off”."),
        # One word stands for several of the register's.
        ("", "records the company as dissolved."),
    ],
)
def test_flag_quotes_only_words_of_the_register(companies_house, detail, message):
    profile = {"company_status": "removed", "company_status_detail": detail}
    companies_house.profile = profile

    assert finding_of(companies_house).summary.endswith(message)


def test_unknown_status_is_logged_and_undecided(companies_house, caplog):
    companies_house.profile = {"company_status": "suspended-animation"}

    assert "whether it is active is not known" in finding_of(companies_house).summary
    assert "SUSPENDED_ANIMATION" in caplog.text


@pytest.mark.parametrize(
    ("subject", "record", "flags", "score"),
    [
        ({"registrationNumber": "00445791"}, {}, ["COMPANY_NOT_FOUND"], 80),
        # A Scottish charity; in Kenya a co-operative, which its register lacks.
        ({"registrationNumber": "CS445791"}, {}, ["COMPANY_NOT_FOUND"], 80),
        ({"fullName": "Baraka Ltd"}, {}, ["NAME_MISMATCH"], 55),
        # A name that it had before is no other company's.
        ({"fullName": "Baraka Ltd"}, BARAKA_BEFORE, [], 5),
        ({"fullName": "Zawadi Ltd"}, BARAKA_BEFORE, ["NAME_MISMATCH"], 55),
        ({"fullName": None}, {}, [], 5),
        ({}, {"company_status": None}, [], None),
        ({}, {"company_name": None}, ["NAME_NOT_COMPARED"], None),
        ({}, {"type": "new-kind", "date_of_creation": "soon"}, [], 5),
        ({}, {"registered_office_address": None}, [], 5),
    ],
)
def test_record_maps_to_a_finding(companies_house, subject, record, flags, score):
    companies_house.profile = record

    answer = finding_of(companies_house, **{**ACACIA, **subject})

    assert (codes(answer), answer.score) == (flags, score)


def test_company_found_by_name_only_has_no_score(companies_house):
    companies_house.others = {"SC000001": "ACACIA HARDWARE LIMITED"}
    # It may be another company, so its state says nothing of the subject.
    for status in ("active", "dissolved"):
        companies_house.profile = {"company_status": status}

        answer = finding_of(companies_house, **BY_NAME)

        assert answer.details["registeredName"] == "ACACIA TEA LIMITED"
        assert answer.details["companyStatus"] == status.upper()
        assert (answer.score, answer.flags) == (None, [])


@pytest.mark.parametrize(
    ("others", "name", "told"),
    [
        ({"SC000001": "Acacia Tea Limited"}, "Acacia Tea", "Several"),
        ({}, "Zawadi Textiles", "no company of this name"),
        ({}, "Acacia Tea Kenya", "no company of this name"),
    ],
)
def test_search_without_a_single_match_is_undecided(
    companies_house, others, name, told
):
    companies_house.others = others

    answer = finding_of(companies_house, **{**BY_NAME, "fullName": name})

    assert (answer.score, answer.flags) == (None, [])
    assert answer.details["registeredName"] is None
    assert told in answer.summary


@pytest.mark.parametrize(
    ("reset_in", "seconds"), [(120, 120), (9999, 300), (None, 300)]
)
def test_rate_limit_postpones_the_answer(companies_house, reset_in, seconds):
    companies_house.left, companies_house.reset_in = 0, reset_in

    with pytest.raises(AnswerPending) as pause:
        finding_of(companies_house)

    left = pause.value.ask_at - datetime.now(UTC)
    assert timedelta(seconds=seconds - 3) < left <= timedelta(seconds=seconds)


@pytest.mark.parametrize("left", [1, 2])
def test_rate_limit_between_calls_postpones_the_answer(companies_house, left):
    companies_house.left = left

    with pytest.raises(AnswerPending):
        finding_of(companies_house)


def test_endless_rate_limit_is_unavailable(companies_house):
    companies_house.left = 0
    asked = inquiry(CHECK, **ACACIA)
    asked = replace(asked, asked_at=asked.asked_at - timedelta(minutes=16))

    with pytest.raises(Unavailable, match="too long"):
        companies_house.adapter().ask(asked)


# Answer of the source -> failure, and text for the client.
@pytest.mark.parametrize(
    ("status", "body", "failure", "told"),
    [
        (400, {"errors": []}, Refused, "status 400"),
        (401, {"error": "Invalid Authorization"}, Refused, "does not take the key"),
        (401, "", Unavailable, "not with JSON"),
        (403, {"error": "Forbidden"}, Refused, "does not let this key"),
        (404, "<html>", Unavailable, "not with JSON"),
        (416, {"errors": []}, Refused, "status 416"),
        (500, {}, Unavailable, "status 500"),
        (502, "<html>", Unavailable, "status 502"),
        (200, "<html>", Unavailable, "not with JSON"),
        (200, [], Unavailable, "no object"),
        (200, {"company_number": "00000001"}, Unavailable, "something else"),
        (200, {}, Unavailable, "something else"),
    ],
)
def test_malformed_answer_raises_an_error(companies_house, status, body, failure, told):
    companies_house.says = (status, body)

    with pytest.raises(failure) as error:
        finding_of(companies_house)

    assert told in error.value.message
    assert "445790" not in error.value.message


def test_wrong_key_is_refused_without_repeating_it(companies_house):
    with pytest.raises(Refused, match="does not take the key") as error:
        companies_house.adapter("another").ask(inquiry(CHECK, **ACACIA))

    assert "another" not in error.value.message


@pytest.mark.parametrize("path", ["", "/officers", "/persons"])
def test_faulty_answer_is_unavailable(companies_house, path: str):
    companies_house.faults.path, companies_house.faults.status = path, 500

    with pytest.raises(Unavailable):
        finding_of(companies_house)


@pytest.mark.parametrize(
    ("stated", "number"),
    [
        ("445790", "00445790"),
        ("0044 5790", "00445790"),
        ("sc123456", "SC123456"),
        ("SC-1234", "SC001234"),
        ("IP12345R", "IP12345R"),
        ("123456789", None),
        ("PVT-AB12CDE", None),
        ("../officers", None),
    ],
)
def test_company_number_accepts_usual_forms(stated, number):
    assert company_number(stated) == number


@pytest.mark.parametrize(
    ("check", "subject"),
    [
        ("IDENTITY", {"idNumber": "1"}),
        (CHECK, {"fullName": "Acacia"}),
        (CHECK, {"registrationNumber": "PVT-AB12CDE", "country": "GB"}),
        (CHECK, {**ACACIA, "country": "KE"}),
    ],
)
def test_unsupported_inquiry_is_refused(companies_house, check, subject):
    with pytest.raises(Refused):
        companies_house.adapter().ask(inquiry(check, **subject))
    assert not companies_house.requests


def test_subject_is_never_logged(companies_house, caplog):
    caplog.set_level(logging.DEBUG)

    finding_of(companies_house, **BY_NAME)

    assert "acacia" not in caplog.text.casefold()
