import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from smile_id_core import (
    BusinessVerification,
    IdApi,
    ServerError,
    Signature,
    Utilities,
)

from tests.fakes.smile_id import KEY, PARTNER, FakeSmileId
from tests.fakes.smile_id import smile_id as smile_id
from tests.providers.inquiries import ask, codes, inquiry
from verification.providers.base import AnswerPending, Refused, Unavailable
from verification.providers.smile_id import ERRORS, RESULTS, SmileId, signature

ID_PATH, STATUS_PATH = "/v1/id_verification", "/v1/job_status"
JANE = {"idNumber": "00000000", "fullName": "Jane Wanjiku Kamau"}
BORN = {"dateOfBirth": "1990-01-31"}
ACACIA = {"registrationNumber": "PVT-0000000", "fullName": "Acacia Tea Ltd"}


def finding_of(smile_id: FakeSmileId, check: str = "IDENTITY", **subject: Any):
    return ask(smile_id.adapter(), inquiry(check, **(subject or JANE)))


def test_signature_equals_the_official_clients():
    stamp = "2026-01-02T03:04:05.678Z"
    expected = "RkPe9O5Bb14oQh44EdJ/Zx3m6TuIr0c2BHdBshtxkhc="

    assert signature("test-api-key", "085", stamp) == expected
    assert Signature("085", "test-api-key").generate_signature(stamp) == {
        "signature": expected,
        "timestamp": stamp,
    }


def test_official_client_understands_the_fake(smile_id: FakeSmileId):
    official = IdApi(PARTNER, KEY, f"{smile_id.url}/v1")
    params = {"user_id": "u", "job_id": "j", "job_type": 5}
    person = {"country": "KE", "id_type": "NATIONAL_ID", "id_number": "00000000"}

    answer = official.submit_job(params, person, False)

    assert answer["ResultCode"] == "1012"
    stamp, given = answer["timestamp"], answer["signature"]
    assert Signature(PARTNER, KEY).confirm_signature(stamp, given)


def test_official_client_understands_companies_and_earlier_jobs(smile_id):
    params = {"user_id": "u", "job_id": "j", "job_type": 7}
    company = {
        "country": "KE",
        "id_type": "BASIC_BUSINESS_REGISTRATION",
        "id_number": "PVT-0000000",
    }
    url = f"{smile_id.url}/v1"

    answer = BusinessVerification(PARTNER, KEY, url).submit_job(params, company)
    # The client checks the signature, and raises an error if it is wrong.
    earlier = Utilities(PARTNER, KEY, url).get_job_status(params, {})

    assert answer["company_information"]["legal_name"] == "ACACIA TEA LIMITED"
    assert earlier["job_complete"] is True
    assert earlier["result"]["PartnerParams"]["job_id"] == "j"


def test_official_client_understands_refusals(smile_id: FakeSmileId):
    official = IdApi(PARTNER, "another", f"{smile_id.url}/v1")
    person = {"country": "KE", "id_type": "NATIONAL_ID", "id_number": "00000000"}

    with pytest.raises(ServerError, match="2205"):
        official.submit_job({"user_id": "u", "job_id": "j", "job_type": 5}, person)


def test_matching_person_is_clear(smile_id: FakeSmileId):
    answer = finding_of(smile_id, **JANE, **BORN)

    assert (answer.score, answer.flags) == (5, [])
    assert answer.provider_reference == "0000001105"
    assert answer.details == {
        "idNumber": "00000000",
        "serialNumber": None,
        "fullName": "JANE WANJIKU KAMAU",
        "dateOfBirth": "1990-01-31",
        "gender": "FEMALE",
        "citizenship": None,
        "placeOfBirth": None,
        "lifeStatus": None,
        "nameMatch": "MATCH",
        "dateOfBirthMatch": "MATCH",
    }
    assert smile_id.asked(ID_PATH)[0]["id_type"] == "NATIONAL_ID_NO_PHOTO"


@pytest.mark.parametrize(
    ("subject", "person", "flags", "score"),
    [
        ({"idNumber": "00000001"}, {}, ["ID_NOT_FOUND"], 80),
        ({"fullName": "Peter Ouma"}, {}, ["NAME_MISMATCH"], 55),
        ({"dateOfBirth": "1991-01-31"}, {}, ["DOB_MISMATCH"], 50),
        ({}, {"FullData": {"Date_of_Death": "2020-01-01"}}, ["DECEASED"], 100),
        # A detail that cannot be compared prevents a clear result.
        (BORN, {"DOB": "Not Available"}, [], None),
        *((BORN, {"DOB": day}, [], 5) for day in ("31/01/1990", "31-01-1990")),
        *(
            (BORN, {"DOB": day}, [], None)
            for day in ("soon", "31/1/1990", "31 January 1990")
        ),
        ({}, {"FullName": "Not Available"}, ["NAME_NOT_COMPARED"], None),
        ({}, {"FullName": None}, ["NAME_NOT_COMPARED"], None),
        # One word of the name, or the name in other letters, is no other name.
        ({}, {"FullName": "KAMAU"}, ["NAME_NOT_COMPARED"], None),
        ({}, {"FullName": "OUMA"}, ["NAME_MISMATCH"], 55),
        # Nor are words in place of a missing one.
        *(({}, {"FullName": f"JANE {nil} KAMAU"}, [], 5) for nil in ("null", "N/A", 0)),
        *(
            ({}, {"FullName": nil}, ["NAME_NOT_COMPARED"], None)
            for nil in ("null null", "UNKNOWN", "n.a.", 0)
        ),
        ({}, {"FullName": "جين كاماو"}, ["NAME_NOT_COMPARED"], None),
        ({}, {"Gender": "Other", "FullData": "Not Available"}, [], 5),
    ],
)
def test_record_of_a_person_maps_to_a_finding(
    smile_id: FakeSmileId, subject, person, flags, score
):
    smile_id.person = person

    answer = finding_of(smile_id, **{**JANE, **subject})

    assert (codes(answer), answer.score) == (flags, score)


@pytest.mark.parametrize(
    ("subject", "kind", "pin", "taxpayer"),
    [
        ({"kraPin": "a000000000a"}, "TAX_INFORMATION", "a000000000a", "INDIVIDUAL"),
        ({"kraPin": "P000000000A"}, "TAX_INFORMATION", "P000000000A", "COMPANY"),
        ({"idNumber": "00000000"}, "KRA_PIN", "A744610021G", "INDIVIDUAL"),
    ],
)
def test_pin_without_its_status_has_no_score(smile_id, subject, kind, pin, taxpayer):
    smile_id.person = {"Secondary_ID_Number": "A744610021G"}

    answer = finding_of(smile_id, "KRA_PIN", fullName=JANE["fullName"], **subject)

    assert smile_id.asked(ID_PATH)[0]["id_type"] == kind
    assert (answer.score, answer.flags) == (None, [])
    assert (answer.details["kraPin"], answer.details["pinStatus"]) == (pin, None)
    assert answer.details["taxpayerType"] == taxpayer


@pytest.mark.parametrize(
    ("subject", "flags", "score"),
    [
        ({"kraPin": "A000000001A"}, ["PIN_NOT_FOUND"], 80),
        ({"kraPin": "A000000000A", "fullName": "X Y"}, ["NAME_MISMATCH"], 55),
    ],
)
def test_pin_without_its_status_keeps_its_flags(
    smile_id: FakeSmileId, subject, flags, score
):
    answer = finding_of(
        smile_id, "KRA_PIN", **{"fullName": JANE["fullName"], **subject}
    )

    assert (codes(answer), answer.score) == (flags, score)


def test_pin_without_status_and_name_says_that_the_status_is_unknown(smile_id):
    smile_id.person = {"FullName": "Not Available"}

    answer = finding_of(smile_id, "KRA_PIN", kraPin="A000000000A", fullName="X Y")

    assert codes(answer) == ["NAME_NOT_COMPARED"]
    assert "whether it is active is not known" in answer.summary


def test_company_that_is_active_is_clear(smile_id: FakeSmileId):
    answer = finding_of(smile_id, "BUSINESS_VERIFICATION", **ACACIA)

    assert (answer.score, answer.flags) == (5, [])
    assert answer.details == {
        "registrationNumber": "PVT-0000000",
        "registeredName": "ACACIA TEA LIMITED",
        "companyType": "PRIVATE_LIMITED_COMPANY",
        "companyStatus": "ACTIVE",
        "incorporatedOn": "2016-03-14",
        "registeredAddress": "L.R. No. 209/1, Moi Avenue, Nairobi",
        "directors": [
            {
                "fullName": "JANE KAMAU",
                "role": "DIRECTOR",
                "nationality": "Kenyan",
                "appointedOn": None,
            },
            {
                "fullName": "PAUL OUMA",
                "role": "COMPANY_SECRETARY",
                "nationality": None,
                "appointedOn": None,
            },
        ],
        "shareholders": [
            {"fullName": "JANE KAMAU", "shares": 1600, "percent": None},
            {"fullName": "PAUL OUMA", "shares": None, "percent": 40.0},
        ],
        "nameMatch": "MATCH",
    }


@pytest.mark.parametrize(("untold", "told"), [("N/A", None), (None, None), ([], [])])
def test_directors_and_owners_are_null_when_not_told(smile_id, untold, told):
    lists = ("directors", "proprietors", "fiduciaries", "beneficial_owners")
    smile_id.results = dict.fromkeys(lists, untold)

    answer = finding_of(smile_id, "BUSINESS_VERIFICATION", **ACACIA)

    assert answer.details["directors"] == answer.details["shareholders"] == told
    assert answer.score == 5


@pytest.mark.parametrize(
    ("subject", "company", "flags", "score"),
    [
        ({"registrationNumber": "PVT-0000001"}, {}, ["COMPANY_NOT_FOUND"], 80),
        *(
            ({"registrationNumber": number}, {}, [], None)
            # Nor does it have numbers without letters: these are incomplete.
            for number in ("CS/1231", "cs 1231", "CS/No. 1231", "12345671")
        ),
        ({"fullName": "Baraka Ltd"}, {}, ["NAME_MISMATCH"], 55),
        ({"fullName": None}, {}, [], 5),
        *(
            ({}, {"status": word}, ["COMPANY_DISSOLVED"], 90)
            for word in ("Dissolved", "STRUCK OFF", "Deregistered", "In liquidation")
        ),
        ({}, {"status": "Registered"}, [], 5),
        *(({}, {"status": word}, [], None) for word in ("Dormant", "N/A")),
        *(
            ({}, {"legal_name": nil}, ["NAME_NOT_COMPARED"], None)
            for nil in ("N/A", "null null", "-", "?", "*****")
        ),
        ({"fullName": "Null Ltd"}, {"legal_name": "NULL LIMITED"}, [], 5),
        ({}, {"registration_date": "soon", "company_type": "N/A"}, [], 5),
    ],
)
def test_record_of_a_company_maps_to_a_finding(
    smile_id: FakeSmileId, subject, company, flags, score
):
    smile_id.company = company

    answer = finding_of(smile_id, "BUSINESS_VERIFICATION", **{**ACACIA, **subject})

    assert (codes(answer), answer.score) == (flags, score)


@pytest.mark.parametrize(
    ("code", "failure", "told"),
    [
        ("1014", Refused, "does not take a number of this form"),
        ("1015", Unavailable, "could not reach the register"),
        ("1016", Refused, "has not activated this product"),
        ("0001", Unavailable, "answered with an error"),
        # Codes of Basic KYC, which is another product.
        ("1020", Unavailable, "not understood"),
        ("1022", Unavailable, "not understood"),
        ("7777", Unavailable, "not understood"),
        (None, Unavailable, "not understood"),
    ],
)
def test_result_code_maps_to_an_outcome(
    smile_id: FakeSmileId, code, failure, told, caplog
):
    smile_id.results = {"ResultCode": code}

    with pytest.raises(failure) as error:
        finding_of(smile_id)

    assert told in error.value.message
    if code not in RESULTS:
        assert "unknown code" in caplog.text
    for text in [error.value.message, caplog.text]:
        assert "JANE" not in text
        assert "00000000" not in text


@pytest.mark.parametrize(
    ("status", "code"),
    [
        *((400, code) for code in ("2201", "2203", "2999", "JANE DOE", None)),
        *((status, code) for status in (401, 403) for code in ("2205", "2999")),
    ],
)
def test_error_code_maps_to_a_failure(smile_id: FakeSmileId, code, status, caplog):
    smile_id.says = (status, {"code": code, "error": "JANE DOE"})

    with pytest.raises(Unavailable if code == "2201" else Refused) as error:
        finding_of(smile_id)

    assert ERRORS.get(code, ("", f"status {status}"))[1] in error.value.message
    assert ("unknown code" in caplog.text) == (code not in ERRORS)
    assert "JANE" not in error.value.message + caplog.text


@pytest.mark.parametrize("told", ["1234560", 1234560, None])
def test_number_matches_without_its_leading_zeros(smile_id: FakeSmileId, told):
    smile_id.results = {"IDNumber": told}

    assert codes(finding_of(smile_id, **{**JANE, "idNumber": "01234560"})) == []


@pytest.mark.parametrize(
    "results",
    [
        {"IDNumber": "00000099"},
        {"PartnerParams": {"job_id": "another"}},
        {"PartnerParams": None},
        {"Actions": {"Verify_ID_Number": "Issuer Unavailable"}},
        {"Actions": {"Verify_ID_Number": "Not Done"}},
        {"ResultCode": "1013", "Actions": {"Verify_ID_Number": "Issuer Unavailable"}},
        {"Actions": "Verified"},
    ],
)
def test_doubtful_answer_is_unavailable(smile_id: FakeSmileId, results):
    smile_id.results = results

    with pytest.raises(Unavailable):
        finding_of(smile_id)


@pytest.mark.parametrize("fault", [{"status": 500}, {"wrong_signature": True}])
def test_faulty_answer_is_unavailable(smile_id: FakeSmileId, fault: dict[str, Any]):
    for name, value in fault.items():
        setattr(smile_id.faults, name, value)

    with pytest.raises(Unavailable):
        finding_of(smile_id)


@pytest.mark.parametrize("attempt", [1, 2])
def test_job_with_a_lost_answer_is_read_again_for_free(smile_id, attempt):
    smile_id.faults.half = True
    with pytest.raises(Unavailable):
        finding_of(smile_id)
    smile_id.faults.half = False

    answer = ask(smile_id.adapter(), inquiry("IDENTITY", attempt=attempt, **JANE))

    assert answer.score == 5
    assert len(smile_id.jobs) == len(smile_id.asked(STATUS_PATH)) == 1


def test_next_attempt_begins_another_job(smile_id: FakeSmileId):
    smile_id.results = {"ResultCode": "1015"}
    for attempt in (1, 2):
        with pytest.raises(Unavailable):
            ask(smile_id.adapter(), inquiry("IDENTITY", attempt=attempt, **JANE))
    smile_id.results = {}

    answer = ask(smile_id.adapter(), inquiry("IDENTITY", attempt=3, **JANE))

    assert answer.score == 5
    assert list(smile_id.jobs) == ["run-1", "run-1-2", "run-1-3"]


def test_unreadable_earlier_job_begins_no_other(smile_id: FakeSmileId):
    finding_of(smile_id)
    smile_id.has_job_status = False

    with pytest.raises(Unavailable, match="does not tell its answer"):
        ask(smile_id.adapter(), inquiry("IDENTITY", attempt=3, **JANE))
    assert len(smile_id.jobs) == 1


def test_running_job_is_polled_for_a_limited_time(smile_id: FakeSmileId):
    finding_of(smile_id)
    smile_id.is_at_work = True
    asked = inquiry("IDENTITY", **JANE)

    with pytest.raises(AnswerPending) as pause:
        smile_id.adapter().ask(asked)
    assert pause.value.ask_at > asked.asked_at

    asked = replace(asked, asked_at=asked.asked_at - timedelta(minutes=16))
    with pytest.raises(Unavailable, match="too long"):
        smile_id.adapter().ask(asked)


def test_answer_that_is_not_final_is_read_later(smile_id: FakeSmileId):
    smile_id.results = {"IsFinalResult": "false"}

    with pytest.raises(AnswerPending):
        finding_of(smile_id)


def test_wrong_credentials_are_refused(smile_id: FakeSmileId):
    adapter = SmileId(PARTNER, "another", smile_id.url, [smile_id.host])

    with pytest.raises(Refused, match="does not take the credentials"):
        adapter.ask(inquiry("IDENTITY", **JANE))


@pytest.mark.parametrize(
    ("check", "subject"), [("CRB_SCORE", JANE), ("KRA_PIN", {"fullName": "A"})]
)
def test_unsupported_inquiry_is_refused(smile_id: FakeSmileId, check, subject):
    with pytest.raises(Refused):
        smile_id.adapter().ask(inquiry(check, **subject))
    assert not smile_id.requests


def test_company_with_a_postal_address_gets_the_whole_extract(smile_id):
    address = {"postalAddress": "P.O. Box 1234", "postalCode": "00100"}
    number = {"registrationNumber": "PVT-0000000"}

    ask(smile_id.adapter(), inquiry("BUSINESS_VERIFICATION", **number, **address))

    body = json.loads(smile_id.requests[-1].body)
    assert body["id_type"] == "BUSINESS_REGISTRATION"
    assert (body["postal_address"], body["postal_code"]) == ("P.O. Box 1234", "00100")
