"""The outcome of each code that a source's documents list.

This list repeats the adapters' tables in full, so that a test fails if an adapter drops
a code. Flags stand for a finding. LATER is retried, and then FAILED and retryable;
REFUSED is FAILED at once; WAITS gets another call at a set time.
"""

from contextlib import ExitStack
from typing import Any

import pytest

from tests.fakes.companies_house import FakeCompaniesHouse
from tests.fakes.gleif import ACACIA, FakeGleif
from tests.fakes.kra import FakeKra
from tests.fakes.metropol import FakeMetropol
from tests.fakes.opensanctions import FakeOpenSanctions
from tests.fakes.prembly import FakePrembly
from tests.fakes.smile_id import FakeSmileId
from tests.providers.inquiries import ask, codes, inquiry
from verification.providers.base import AnswerPending, Refused, Unavailable

LATER, REFUSED, WAITS = Unavailable, Refused, AnswerPending
JANE = {"fullName": "Jane Wanjiku Kamau"}
TEA = {"fullName": "Acacia Tea Ltd"}
BUSINESS = "BUSINESS_VERIFICATION"
UNKNOWN = "not understood"


def smile(code: str) -> dict[str, Any]:
    return {
        "results": {"ResultCode": code, "Actions": {"Verify_ID_Number": "Verified"}}
    }


def smile_error(code: str, status: int = 400) -> dict[str, Any]:
    return {"says": (status, {"code": code, "error": "of no matter"})}


def kra(code: str, status: int = 200, **more: Any) -> dict[str, Any]:
    return {"says": (status, {"ResponseCode": code, **more})}


def metropol(code: Any, *, has_error: bool = True) -> dict[str, Any]:
    body = {"api_code": code, "has_error": has_error, "credit_score": 800}
    # The adapter repeats a request after an error of the clock.
    return {"says": [(200, body)] * 2}


def prembly(code: str) -> dict[str, Any]:
    return {"answer_with": {"response_code": code, "verification": {}}}


def status(code: int) -> dict[str, Any]:
    return {"says": (code, {"error": "of no matter"})}


PIN = {"KRAPIN": "A744610021G", "Name": "JANE KAMAU", "StatusOfPIN": "Active"}
FAKES: dict[str, tuple[type, str, dict[str, Any]]] = {
    "smile_id": (FakeSmileId, "IDENTITY", {**JANE, "idNumber": "00000000"}),
    "kra": (FakeKra, "KRA_PIN", {"kraPin": "A744610021G"}),
    "kra by id": (FakeKra, "KRA_PIN", {"idNumber": "41789723"}),
    "metropol": (FakeMetropol, "CRB_SCORE", {"idNumber": "990000099"}),
    "prembly": (FakePrembly, "IDENTITY", {**JANE, "idNumber": "10101010"}),
    "gleif": (FakeGleif, BUSINESS, {**TEA, "registrationNumber": ACACIA}),
    "companies_house": (
        FakeCompaniesHouse,
        BUSINESS,
        {**TEA, "registrationNumber": "445790", "country": "GB"},
    ),
    "opensanctions": (FakeOpenSanctions, "AML_SCREENING", JANE),
}
# Source, answer of its fake, and outcome: flags, or a failure and the client's text.
LISTED: list[tuple[str, dict[str, Any], Any, str]] = [
    ("smile_id", smile("1012"), [], ""),
    ("smile_id", smile("1013"), ["ID_NOT_FOUND"], ""),
    ("smile_id", smile("1014"), REFUSED, "does not take a number of this form"),
    ("smile_id", smile("1015"), LATER, "could not reach the register"),
    ("smile_id", smile("1016"), REFUSED, "has not activated this product"),
    ("smile_id", smile("0001"), LATER, "answered with an error"),
    # Codes of Basic KYC and AML, which we do not use.
    *(
        ("smile_id", smile(code), LATER, UNKNOWN)
        for code in ("1020", "1021", "1022", "1023", "1030", "1031")
    ),
    *(
        ("smile_id", smile_error(code), LATER, "has an error of its own")
        for code in ("2201", "2301", "2401")
    ),
    ("smile_id", smile_error("2203"), REFUSED, "could not read the request"),
    ("smile_id", smile_error("2204"), REFUSED, "does not take a value"),
    ("smile_id", smile_error("2205"), REFUSED, "does not take the credentials"),
    ("smile_id", smile_error("2405"), REFUSED, "does not take the credentials"),
    ("smile_id", smile_error("2207"), REFUSED, "has disabled the account"),
    ("smile_id", smile_error("2208"), REFUSED, "has deleted the account"),
    ("smile_id", smile_error("2209"), REFUSED, "does not take the user id"),
    ("smile_id", smile_error("2210"), REFUSED, "knows no such user"),
    ("smile_id", smile_error("2212"), REFUSED, "does not take this kind of job"),
    ("smile_id", smile_error("2213"), REFUSED, "misses something"),
    ("smile_id", smile_error("2413"), REFUSED, "misses something"),
    ("smile_id", smile_error("2216"), REFUSED, "wants a photo"),
    # Smile ID knows the job, and gives the same answer to the next request.
    ("smile_id", smile_error("2215"), LATER, "does not tell its answer"),
    ("smile_id", smile_error("2098"), REFUSED, "status 400"),
    ("kra", kra("23000", Status="OK", PINDATA=PIN), [], ""),
    ("kra", kra("19005", Status="NOK"), ["PIN_NOT_FOUND"], ""),
    ("kra", kra("23000", Status="NOK", PINDATA=PIN), LATER, UNKNOWN),
    # Codes of other products: certificates, obligations, stations.
    *(
        ("kra", kra(code, Status="OK"), LATER, UNKNOWN)
        for code in ("83000", "83002", "20000", "20001", "84000", "84002", "70001")
    ),
    ("kra", {"says": (400, {"ErrorCode": "400"})}, REFUSED, "status 400"),
    ("kra", {"says": (401, {"errorCode": "401"})}, REFUSED, "status 401"),
    ("kra", {"says": (403, {"ErrorCode": "403"})}, REFUSED, "status 403"),
    ("kra by id", kra("30002"), ["PIN_NOT_FOUND"], ""),
    ("kra by id", {"says": (400, {"ErrorCode": "30002"})}, ["PIN_NOT_FOUND"], ""),
    ("kra by id", {"says": (400, {"ErrorCode": "400"})}, REFUSED, "status 400"),
    *(("metropol", metropol(c, has_error=False), [], "") for c in (None, 200, "200")),
    ("metropol", metropol(1010, has_error=False), [], ""),
    ("metropol", metropol("E017", has_error=False), ["NO_CREDIT_RECORD"], ""),
    ("metropol", metropol("E002"), REFUSED, "misses the key"),
    ("metropol", metropol("E003"), REFUSED, "does not authorise the account"),
    ("metropol", metropol("E004"), REFUSED, "does not take the key"),
    ("metropol", metropol("E016"), REFUSED, "does not sell this report"),
    ("metropol", metropol("E018"), REFUSED, "test identities alone"),
    ("metropol", metropol("E019"), REFUSED, "kind of number"),
    ("metropol", metropol("E023"), REFUSED, "misses the time"),
    ("metropol", metropol("E024"), LATER, "does not take the time"),
    ("metropol", metropol("E025"), LATER, "does not take the time"),
    ("metropol", metropol("E026"), REFUSED, "misses the hash"),
    ("metropol", metropol("E027"), REFUSED, "does not take the hash"),
    ("metropol", metropol("E028"), REFUSED, "does not take the credentials"),
    ("metropol", metropol("E029"), REFUSED, "does not sell this report"),
    ("metropol", metropol("E030"), REFUSED, "does not take the credentials"),
    ("metropol", metropol("E409"), WAITS, ""),
    ("prembly", prembly("00"), [], ""),
    ("prembly", prembly("01"), ["ID_NOT_FOUND"], ""),
    ("prembly", prembly("02"), LATER, "could not reach the register"),
    ("prembly", prembly("03"), REFUSED, "has no balance left"),
    ("prembly", prembly("07"), LATER, UNKNOWN),
    ("prembly", status(400), REFUSED, "could not read the request"),
    ("prembly", status(401), REFUSED, "does not take the credentials"),
    ("prembly", status(402), REFUSED, "has no balance left"),
    ("prembly", status(403), REFUSED, "does not sell this"),
    ("gleif", status(404), ["COMPANY_NOT_FOUND"], ""),
    ("gleif", status(400), REFUSED, "status 400"),
    ("companies_house", status(404), ["COMPANY_NOT_FOUND"], ""),
    ("companies_house", status(401), REFUSED, "does not take the key"),
    ("companies_house", status(403), REFUSED, "does not let this key"),
    ("companies_house", status(429), WAITS, ""),
    ("opensanctions", status(400), REFUSED, "status 400"),
    ("opensanctions", status(401), REFUSED, "does not take the key"),
    ("opensanctions", status(402), REFUSED, "has no balance left"),
    ("opensanctions", status(403), REFUSED, "does not take the key"),
    ("opensanctions", status(404), REFUSED, "does not have the dataset"),
    # Statuses of all sources: limits and outages.
    *(
        (source, status(code), LATER, f"status {code}")
        for source in ("kra", "prembly", "gleif", "opensanctions")
        for code in (429, 503)
    ),
    *(
        (source, status(503), LATER, "status 503")
        for source in ("smile_id", "companies_house")
    ),
]


@pytest.mark.parametrize(("source", "answers", "becomes", "told"), LISTED)
def test_listed_code_maps_to_an_outcome(source, answers, becomes, told):
    kind, check, subject = FAKES[source]
    with ExitStack() as stack:
        fake = stack.enter_context(kind())
        for name, value in answers.items():
            setattr(fake, name, value)
        if isinstance(becomes, list):
            assert codes(ask(fake.adapter(), inquiry(check, **subject))) == becomes
            return
        failure = stack.enter_context(pytest.raises(becomes, match=told or None))
        fake.adapter().ask(inquiry(check, **subject))

    if becomes is not AnswerPending:
        assert failure.value.code == (
            "SOURCE_UNAVAILABLE" if becomes is LATER else "SOURCE_REFUSED"
        )


# Letter, word -> status, and whether the account is bad, open or unknown.
@pytest.mark.parametrize(
    ("letter", "word", "ours", "is_bad", "is_open"),
    [
        ("A", "Closed", "CLOSED", False, False),
        ("B", "Dormant", "DORMANT", False, True),
        ("C", "Performing", "PERFORMING", False, True),
        ("D", "Non-performing", "NON_PERFORMING", True, True),
        ("E", "Write-off", "WRITTEN_OFF", True, True),
        ("F", "Legal", "LEGAL", True, True),
        ("G", "Collection", "COLLECTION", True, True),
        ("H", "Active", "ACTIVE", False, True),
        ("I", "Terms extended", "TERMS_EXTENDED", False, True),
        ("J", "Early settlement", "SETTLED_EARLY", False, False),
        ("K", "Fully settled", "SETTLED", False, False),
        ("L", "Revoked", "REVOKED", False, True),
        ("M", "Suspended", "SUSPENDED", False, True),
        ("N", "Not updated", "NOT_UPDATED", False, True),
        ("P", "Paid up", "PAID_UP", False, False),
        ("Q", "Disability/Deceased/Insurance", "INSURED_EVENT", False, True),
        ("R", "Deferred", "DEFERRED", False, True),
        ("-", "Unknown", None, False, None),
    ],
)
def test_status_of_an_account_maps_to_our_word(letter, word, ours, is_bad, is_open):
    with FakeMetropol() as fake:
        for told in (letter, word):
            fake.account = {"account_status": told}
            fake.seen.clear()
            asked = inquiry("CRB_STANDARD", idNumber="990000099")

            answer = ask(fake.adapter(), asked)

            assert answer.details["accounts"][0]["status"] == ours
            assert answer.details["openAccounts"] == is_open
            assert codes(answer) == (["NON_PERFORMING_ACCOUNT"] if is_bad else [])
            assert (answer.score is None) == (ours is None)
