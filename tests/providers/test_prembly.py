from typing import Any

import pytest

from tests.fakes.prembly import FakePrembly
from tests.fakes.prembly import prembly as prembly
from tests.providers.inquiries import ask, codes, inquiry
from verification.providers.base import Refused, Unavailable
from verification.providers.prembly import CODES, REFUSALS
from verification.settings.providers import live_providers

JANE = {"idNumber": "10101010", "fullName": "Jane Wanjiku Kamau"}
PIN = {"kraPin": "a123456789b", "fullName": "Jane Wanjiku Kamau"}
ACACIA = {"registrationNumber": "PVT-AB12CDE", "fullName": "Acacia Tea Ltd"}
ALI = {"first_name": "ALI", "surname": "ALI"}
SUBJECTS = {"IDENTITY": JANE, "KRA_PIN": PIN, "BUSINESS_VERIFICATION": ACACIA}
NOT_FOUND = {
    "IDENTITY": "ID_NOT_FOUND",
    "KRA_PIN": "PIN_NOT_FOUND",
    "BUSINESS_VERIFICATION": "COMPANY_NOT_FOUND",
}


def finding_of(prembly: FakePrembly, check: str = "IDENTITY", **subject: Any):
    asked = inquiry(check, **{**SUBJECTS[check], **subject})
    return ask(prembly.adapter(), asked)


@pytest.mark.parametrize("check", SUBJECTS)
def test_matching_record_is_clear(prembly: FakePrembly, check: str):
    answer = finding_of(prembly, check)

    assert (answer.score, answer.flags) == (5, [])
    assert answer.provider_reference == "2eb008cb-b489-4d28-a9e4-7b21e89b2a99"
    assert answer.details["nameMatch"] == "MATCH"


@pytest.mark.parametrize("check", SUBJECTS)
def test_another_name_is_flagged(prembly: FakePrembly, check: str):
    answer = finding_of(prembly, check, fullName="Peter Ouma")

    assert (codes(answer), answer.score) == (["NAME_MISMATCH"], 55)


@pytest.mark.parametrize(
    ("subject", "data", "flags", "score"),
    [
        ({"dateOfBirth": "1990-01-31"}, {}, [], 5),
        ({"dateOfBirth": "1991-01-31"}, {}, ["DOB_MISMATCH"], 50),
        ({"dateOfBirth": "1990-02-28"}, {}, ["DOB_MISMATCH"], 50),
        # Of a year alone registers make 1 January; days and months are swapped.
        ({"dateOfBirth": "1990-01-01"}, {}, [], None),
        ({"dateOfBirth": "1990-05-12"}, {"date_of_birth": "1990-01-01"}, [], None),
        (
            {"dateOfBirth": "1991-05-12"},
            {"date_of_birth": "1990-01-01"},
            ["DOB_MISMATCH"],
            50,
        ),
        ({"dateOfBirth": "1990-04-03"}, {"date_of_birth": "1990-03-04"}, [], None),
        *(
            (
                {"dateOfBirth": "1990-01-31"},
                {"date_of_birth": day, "dob": None},
                [],
                5,
            )
            for day in (
                "31-01-1990",
                "31/01/1990",
                "31 January 1990",
                "31/01/1990 12:00:00 AM",
                "1990-01-31T00:00:00",
                "1990-01-31T00:00:00Z",
                # Midnight in Kenya, as UTC.
                "1990-01-30T21:00:00.000Z",
                "1990-01-31T00:00:00+10:00",
                "1990-01-31T23:59:00-05:00",
            )
        ),
        # So may be the day on which computers begin to count.
        ({"dateOfBirth": "1985-05-12"}, {"date_of_birth": "1970-01-01"}, [], None),
        ({"dateOfBirth": "1970-01-01"}, {"date_of_birth": "1970-01-01"}, [], 5),
        # A nil date is no birthday.
        *(
            (
                {"dateOfBirth": "1990-01-31"},
                {"date_of_birth": nil, "dob": nil},
                [],
                None,
            )
            for nil in ("1900-01-01", "0001-01-01T00:00:00", "1001-07-28")
        ),
        ({}, {"date_of_death": "2020-01-01"}, ["DECEASED"], 100),
        ({}, {"dod": "2020-01-01"}, ["DECEASED"], 100),
        # Registers that store numbers as integers drop leading zeros.
        ({"idNumber": "01234567"}, {"id_number": 1234567}, [], 5),
        # A nil date is no death; a malformed date leaves it open.
        *(
            ({}, {"date_of_death": nil}, [], 5)
            for nil in (
                "0000-00-00",
                "0001-01-01T00:00:00",
                "1900-01-01",
                "9999-12-31",
                "N/A",
            )
        ),
        *(
            ({}, {"date_of_death": day}, [], None)
            # The last two are before and on the date of birth.
            for day in (
                *("last year", "1970-01-01", "2199-01-01"),
                *("1989-01-31", "1990-01-31"),
            )
        ),
        # Words in place of a missing name are no name.
        *(
            ({"fullName": "Jane Wanjiku Kamau"}, {"other_name": nil}, [], 5)
            for nil in ("N/A", "null", "NONE", "-")
        ),
        # One that follows itself may be the person's or the source's: nobody knows.
        *(
            ({"fullName": "Jane Wanjiku Kamau"}, names, ["NAME_NOT_COMPARED"], None)
            for names in (
                {"other_name": "KAMAU"},
                {"first_name": "KAMAU", "other_name": "KAMAU"},
            )
        ),
        # Elsewhere in the name it is another ancestor's.
        *(
            (
                {"fullName": "Mohamed Abdi Noor"},
                {"first_name": "MOHAMED", "other_name": other, "surname": "MOHAMED"},
                ["NAME_MISMATCH"],
                55,
            )
            for other in ("ABDI", "MOHAMED ABDI")
        ),
        ({"fullName": "Ali Hassan Ali"}, {**ALI, "other_name": "HASSAN"}, [], 5),
        (
            {"fullName": "Ali Hassan Ali"},
            {**ALI, "other_name": "OMAR"},
            ["NAME_MISMATCH"],
            55,
        ),
        # The other form of the answer has the whole name in one member.
        ({}, {"identity_name": "Jane Wanjiku Kamau", "surname": None}, [], 5),
        # A detail that cannot be compared prevents a clear result.
        (
            {"dateOfBirth": "1990-01-31"},
            {"date_of_birth": "soon", "dob": None},
            [],
            None,
        ),
        (
            {},
            {"first_name": None, "other_name": "", "surname": None, "last_name": None},
            ["NAME_NOT_COMPARED"],
            None,
        ),
    ],
)
def test_record_of_a_person_maps_to_a_finding(prembly, subject, data, flags, score):
    prembly.data = data

    answer = finding_of(prembly, **subject)

    assert (codes(answer), answer.score) == (flags, score)


def test_person_has_all_details_of_the_answer(prembly: FakePrembly):
    assert finding_of(prembly).details == {
        "idNumber": "10101010",
        "serialNumber": "237890241",
        "fullName": "JANE WANJIKU KAMAU",
        "dateOfBirth": "1990-01-31",
        "gender": "FEMALE",
        "citizenship": "KENYAN",
        "placeOfBirth": "NYERI",
        "lifeStatus": None,
        "nameMatch": "MATCH",
        "dateOfBirthMatch": None,
    }


@pytest.mark.parametrize(
    ("word", "status", "flags", "score"),
    [
        ("Active", "ACTIVE", [], 5),
        *(
            (word, word.upper(), ["PIN_INACTIVE"], 75)
            for word in ("Inactive", "Suspended", "Cancelled", "Stopped", "Dormant")
        ),
        *(
            (word, "INACTIVE", ["PIN_INACTIVE"], 75)
            for word in ("Not active", "Deactivated", "Expired")
        ),
        *(
            (word, "SUSPENDED", ["PIN_INACTIVE"], 75)
            for word in ("Blacklisted", "Blocked")
        ),
        *(
            (word, "CANCELLED", ["PIN_INACTIVE"], 75)
            for word in ("Canceled", "Closed", "Deregistered", "Revoked", "Terminated")
        ),
        ("Asleep", None, [], None),
        (None, None, [], None),
    ],
)
def test_status_of_a_pin_maps_to_flags(prembly, word, status, flags, score):
    prembly.data = {"pin_status": word}

    answer = finding_of(prembly, "KRA_PIN")

    assert answer.details["pinStatus"] == status
    assert (codes(answer), answer.score) == (flags, score)


@pytest.mark.parametrize(
    ("data", "status", "flags", "score"),
    [
        ({}, "ACTIVE", [], 5),
        ({"status": "active"}, "ACTIVE", [], 5),
        *(
            ({"status": word}, "DISSOLVED", ["COMPANY_DISSOLVED"], 90)
            for word in ("Dissolved", "struck off", "deregistered", "ceased")
        ),
        ({"status": "wound up"}, "DISSOLVED", ["COMPANY_DISSOLVED"], 90),
        *(
            ({"status": word}, "DISSOLVED", ["COMPANY_DISSOLVED"], 90)
            for word in ("canceled", "cancelled", "deleted", "revoked", "terminated")
        ),
        *(
            ({"status": word}, word.upper(), ["COMPANY_DISSOLVED"], 90)
            for word in ("inactive", "deactivated", "suspended", "insolvent")
        ),
        *(
            ({"status": word}, word.upper(), ["COMPANY_DISSOLVED"], 90)
            for word in ("bankrupt", "not_active", "winding_up", "in_receivership")
        ),
        # A word that we do not know is no proof of anything.
        ({"status": "asleep"}, "ASLEEP", [], None),
        ({"status": None}, None, [], None),
        ({"verified": False}, "ACTIVE", [], None),
        ({"businessName": None}, "ACTIVE", ["NAME_NOT_COMPARED"], None),
        ({"partners": "none", "registrationDate": "soon"}, "ACTIVE", [], 5),
    ],
)
def test_record_of_a_company_maps_to_a_finding(prembly, data, status, flags, score):
    prembly.data = data

    answer = finding_of(prembly, "BUSINESS_VERIFICATION")

    assert answer.details["companyStatus"] == status
    assert (codes(answer), answer.score) == (flags, score)


def test_company_has_all_details_of_the_answer(prembly: FakePrembly):
    assert finding_of(prembly, "BUSINESS_VERIFICATION").details == {
        "registrationNumber": "PVT-AB12CDE",
        "registeredName": "ACACIA TEA LIMITED",
        "companyType": None,
        "companyStatus": "ACTIVE",
        "incorporatedOn": "2001-09-22",
        "registeredAddress": "Moi Avenue, Nairobi",
        "directors": [
            {
                "fullName": "JANE KAMAU",
                "role": "DIRECTOR",
                "nationality": "Kenyan",
                "appointedOn": None,
            }
        ],
        "shareholders": None,
        "nameMatch": "MATCH",
    }


@pytest.mark.parametrize(
    ("number", "sent", "kind"),
    [
        ("PVT/2016/028721", "PVT/2016/028721", "CR12"),
        ("CPR/2015/652153", "CPR/2015/652153", "CR12"),
        ("C. 12345", "C.12345", "CR12"),
        ("bn-2QQQQQZV", "BN-2QQQQQZV", "CR13"),
        ("BN AQQQQQZV", "BN-AQQQQQZV", "CR13"),
        ("pvt ab12cde", "PVT-AB12CDE", "CR12"),
        ("PVTAB12CDE", "PVT-AB12CDE", "CR12"),
        ("LLP - AB12CDE", "LLP-AB12CDE", "LLP"),
    ],
)
def test_number_is_sent_as_the_register_writes_it(prembly, number, sent, kind):
    finding_of(prembly, "BUSINESS_VERIFICATION", registrationNumber=number)

    assert prembly.asked() == {"company_id": sent, "check_type": kind}


@pytest.mark.parametrize("check", SUBJECTS)
@pytest.mark.parametrize("status", [200, 404])
def test_missing_record_is_a_finding_with_any_http_status(prembly, check, status):
    prembly.says = (status, {"status": True, "response_code": "01"})

    assert codes(finding_of(prembly, check)) == [NOT_FOUND[check]]


# Envelope -> failure, text for the client, and whether the adapter logs a warning.
@pytest.mark.parametrize(
    ("envelope", "failure", "told", "logged"),
    [
        ({"response_code": "02"}, Unavailable, "could not reach the register", False),
        ({"response_code": "03"}, Refused, "has no balance left", False),
        ({"response_code": "99"}, Unavailable, "code 99, which is not", True),
        ({"response_code": None}, Unavailable, "code ?, which is not", True),
        ({"response_code": "JANE KAMAU"}, Unavailable, "code ?, which is not", True),
        ({"verification": {"status": "PENDING"}}, Unavailable, "not come to an", False),
        ({"verification": {"status": "NOT-VERIFIED"}}, Unavailable, "code 00,", True),
        ({"verification": {"status": "ASLEEP"}}, Unavailable, "code 00,", True),
        # An answer without a person does not say that there is none.
        *(
            ({"data": nothing}, Unavailable, "did not give it", False)
            for nothing in ({}, None, [])
        ),
        ({"data": "JANE KAMAU"}, Unavailable, "did not give it", False),
        (
            {"data": {"id_number": "9", "pin": "9", "registrationNumber": "9"}},
            Unavailable,
            "something else",
            False,
        ),
    ],
)
@pytest.mark.parametrize("check", SUBJECTS)
def test_code_maps_to_an_outcome(
    prembly, envelope, failure, told, logged, check, caplog
):
    prembly.answer_with = envelope

    with pytest.raises(failure) as error:
        finding_of(prembly, check)

    assert told in error.value.message
    assert ("unknown code" in caplog.text) == logged
    assert "JANE" not in error.value.message + caplog.text


@pytest.mark.parametrize("code", CODES)
def test_record_is_ignored_when_the_code_denies_it(prembly: FakePrembly, code):
    prembly.answer_with = {"response_code": code, "verification": {"status": "X"}}

    with pytest.raises((Unavailable, Refused)):
        finding_of(prembly)


@pytest.mark.parametrize(
    ("status", "body", "failure", "told"),
    [
        *((s, {"detail": "JANE"}, Refused, told) for s, told in REFUSALS.items()),
        (402, {"response_code": "03"}, Refused, "has no balance left"),
        (409, {"detail": "JANE"}, Refused, "status 409"),
        (400, {"response_code": "00", "data": {}}, Refused, "could not read"),
        (429, {}, Unavailable, "status 429"),
        (500, {}, Unavailable, "status 500"),
        (503, "<html>", Unavailable, "status 503"),
        (200, "<html>", Unavailable, "not with JSON"),
        (200, [], Unavailable, "no object"),
    ],
)
def test_status_maps_to_a_result(prembly, status, body, failure, told, caplog):
    prembly.says = (status, body)

    with pytest.raises(failure) as error:
        finding_of(prembly)

    assert told in error.value.message
    assert ("unknown status" in caplog.text) == (status == 409)
    assert "JANE" not in error.value.message + caplog.text


def test_wrong_credentials_are_refused_without_repeating_them(prembly: FakePrembly):
    with pytest.raises(Refused, match="does not take the credentials") as error:
        prembly.adapter("another").ask(inquiry("IDENTITY", **JANE))

    assert "another" not in error.value.message


@pytest.mark.parametrize(
    ("check", "subject"),
    [
        ("CRB_SCORE", JANE),
        ("KRA_PIN", JANE),
        ("BUSINESS_VERIFICATION", {}),
        ("IDENTITY", {**JANE, "country": "UG"}),
    ],
)
def test_unsupported_inquiry_is_refused(prembly: FakePrembly, check, subject):
    with pytest.raises(Refused):
        prembly.adapter().ask(inquiry(check, **subject))
    assert not prembly.requests


@pytest.mark.parametrize(
    ("answer", "may_be_charged"),
    [
        ({"response_code": "02", "billing_info": {"was_charged": False}}, False),
        ({"response_code": "02", "billing_info": {"was_charged": True}}, True),
        ({"response_code": "02", "billing_info": None}, False),
        ({"response_code": "99", "billing_info": {"was_charged": False}}, False),
        ({"response_code": "99", "billing_info": {}}, True),
        ({"data": None}, True),
    ],
)
def test_unfinished_answer_tells_whether_it_was_charged(
    prembly: FakePrembly, answer, may_be_charged
):
    prembly.answer_with = answer

    with pytest.raises(Unavailable) as error:
        finding_of(prembly)

    assert error.value.may_be_charged is may_be_charged


def test_adapter_uses_the_documented_paths(prembly: FakePrembly, monkeypatch):
    finding_of(prembly)
    monkeypatch.setenv("PREMBLY_APP_ID", "app")
    monkeypatch.setenv("PREMBLY_API_KEY", "of no worth")

    assert prembly.requests[-1].path == "/verification/ke/national_id"
    assert live_providers()["prembly"][1]["url"] == "https://api.prembly.com"
