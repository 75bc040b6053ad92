import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.fakes.metropol import ACCOUNT, FakeMetropol
from tests.fakes.metropol import metropol as metropol
from tests.providers.inquiries import ask, codes, inquiry
from verification.providers.base import AnswerPending, Refused, Unavailable
from verification.providers.metropol import CODES, REPORTS, request_hash
from verification.providers.name_comparison import VERSION

STAMP = "20260102030405678000"
BODY = b'{"report_type":3,"identity_number":"880000088","identity_type":"001"}'
CLEAN, PAST, LISTED, POOR, THIN = (
    f"{digit * 2}00000{digit * 2}" for digit in ("9", "8", "7", "5", "6")
)
SCORES = ("CRB_SCORE", "CREDITBUREAU_SCORE")
FILES = ("CRB_STANDARD", "CRB_FULL", "CREDITBUREAU_COMP")


def finding_of(metropol: FakeMetropol, check: str, number: str = CLEAN, **subject: Any):
    key = "idNumber"
    if check == "CREDITBUREAU_COMP":
        key, number = "registrationNumber", "PVT-0000099" if number == CLEAN else number
    return ask(metropol.adapter(), inquiry(check, **{key: number}, **subject))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (BODY, "3d3208770e27a8818489e8c9fd428cc895b466487baa6ed31ca72486c8511330"),
        (b"", "c3b6cb19178d5c5a84c67ac0f71315e88acd78fc1f610c4ff65968867c7ae750"),
    ],
)
def test_hash_equals_known_cases(body: bytes, expected: str):
    assert request_hash("priv-test", body, "pub-test", STAMP) == expected


@pytest.mark.parametrize("check", REPORTS)
@pytest.mark.parametrize("wraps", [False, True])
def test_clean_report_is_clear_in_both_envelopes(metropol, check, wraps):
    metropol.wraps = wraps

    answer = finding_of(metropol, check)

    assert answer.flags == []
    assert answer.score == (5 if check == "CREDITBUREAU_STATUS" else 17)
    assert answer.provider_reference == "3d05e0ef-2dad-4027-ba00-421c6d964d57"


def test_request_body_is_compact_and_in_order(metropol: FakeMetropol):
    finding_of(metropol, "CRB_SCORE", PAST)

    assert metropol.requests[0].body == BODY


def test_company_has_its_own_identity_type(metropol: FakeMetropol):
    finding_of(metropol, "CREDITBUREAU_COMP", "pvt-0000099")

    assert json.loads(metropol.requests[0].body) == {
        "report_type": 10,
        "identity_number": "PVT-0000099",
        "identity_type": "005",
        "loan_amount": 10000,
        "report_reason": 3,
        "application_ref_no": "run-1",
    }


@pytest.mark.parametrize("check", REPORTS)
def test_empty_report_has_no_credit_record(metropol, check):
    metropol.says = [(200, {"api_code": "E017", "has_error": False})]

    answer = finding_of(metropol, check)

    assert (codes(answer), answer.score) == (["NO_CREDIT_RECORD"], 40)
    known = {key for key, value in answer.details.items() if value is not None}
    assert known <= {"idNumber", "registrationNumber"}


def test_test_identity_has_an_empty_report(metropol: FakeMetropol):
    assert codes(finding_of(metropol, "CRB_SCORE", THIN)) == ["NO_CREDIT_RECORD"]


@pytest.mark.parametrize("check", SCORES)
@pytest.mark.parametrize(
    ("points", "flags", "score"),
    [
        (900, [], 5),
        (501, [], 57),
        ("501", [], 57),
        (411, [], 70),
        (410, ["LOW_CREDIT_SCORE"], 70),
        (200, ["LOW_CREDIT_SCORE"], 100),
        *((bad, [], None) for bad in (199, 901, None, "None", [], True, "NaN")),
    ],
)
def test_credit_score_maps_to_a_score(metropol, check, points, flags, score):
    metropol.data = {"credit_score": points}

    answer = finding_of(metropol, check)

    assert (codes(answer), answer.score) == (flags, score)


@pytest.mark.parametrize(
    ("code", "status", "flags", "score"),
    [
        ("001", None, ["NO_CREDIT_RECORD"], 40),
        ("002", None, ["NO_CREDIT_RECORD"], 40),
        ("003", "NOT_LISTED", [], 5),
        ("004", "LISTED", ["ADVERSE_LISTING"], 85),
        ("005", "HISTORICAL", ["PAST_DELINQUENCY"], 35),
        # Silence is neither a listing nor clean.
        *((bad, None, [], None) for bad in ("006", "", None, 3)),
    ],
)
def test_delinquency_code_maps_to_a_listing(metropol, code, status, flags, score):
    metropol.data = {"delinquency_code": code}

    answer = finding_of(metropol, "CREDITBUREAU_STATUS")

    assert answer.details["listingStatus"] == status
    assert (codes(answer), answer.score) == (flags, score)


@pytest.mark.parametrize(
    ("number", "flags", "score"),
    [
        (PAST, ["PAST_DELINQUENCY"], 57),
        (LISTED, ["NON_PERFORMING_ACCOUNT"], 85),
        (POOR, ["LOW_CREDIT_SCORE", "NON_PERFORMING_ACCOUNT"], 85),
    ],
)
@pytest.mark.parametrize("check", ["CRB_STANDARD", "CRB_FULL"])
def test_test_identity_maps_to_a_finding(metropol, check, number, flags, score):
    answer = finding_of(metropol, check, number)

    assert (codes(answer), answer.score) == (flags, score)


@pytest.mark.parametrize("check", FILES)
@pytest.mark.parametrize(
    ("account", "status", "flags", "score", "is_open"),
    [
        ({"account_status": "Fully Settled"}, "SETTLED", [], 17, 0),
        ({"account_status": "D"}, "NON_PERFORMING", ["NON_PERFORMING_ACCOUNT"], 85, 1),
        ({"days_in_arrears": 90}, "ACTIVE", [], 17, 1),
        ({"days_in_arrears": 91}, "ACTIVE", ["NON_PERFORMING_ACCOUNT"], 85, 1),
        # The bureau keeps the last arrears of an account that is paid.
        ({"account_status": "K", "days_in_arrears": 91}, "SETTLED", [], 17, 0),
        # An unknown code is never clean.
        ({"account_status": "Frozen"}, None, [], None, None),
        ({"days_in_arrears": "many"}, "ACTIVE", [], None, 1),
        ({"overdue_balance": None}, "ACTIVE", [], None, 1),
    ],
)
def test_account_maps_to_details(
    metropol, check, account, status, flags, score, is_open
):
    metropol.account = account

    answer = finding_of(metropol, check)

    assert answer.details["accounts"][0]["status"] == status
    assert answer.details["openAccounts"] == is_open
    assert (codes(answer), answer.score) == (flags, score)


@pytest.mark.parametrize(
    ("second", "is_open", "is_bad", "days", "flags"),
    [
        ({}, 1, 0, 0, []),
        ({"days_in_arrears": 91}, 1, 1, 91, ["NON_PERFORMING_ACCOUNT"]),
        ({"days_in_arrears": None}, 1, None, None, []),
        ({"account_status": "-"}, None, None, 0, []),
        (
            {"account_status": "-", "days_in_arrears": 91},
            *(None, 1, 91, ["NON_PERFORMING_ACCOUNT"]),
        ),
        (
            {"account_status": "D", "days_in_arrears": None},
            *(1, 1, None, ["NON_PERFORMING_ACCOUNT"]),
        ),
        # A paid account has no present arrears.
        ({"account_status": "K", "days_in_arrears": 91}, 0, 0, 0, []),
        (None, None, None, None, []),
    ],
)
def test_account_figures_are_null_when_an_account_leaves_them_open(
    metropol, second, is_open, is_bad, days, flags
):
    other = second if second is None else {**ACCOUNT, **second}
    metropol.data = {"account_info": [ACCOUNT, other]}

    answer = finding_of(metropol, "CRB_FULL")

    assert answer.details["openAccounts"] == (None if is_open is None else 1 + is_open)
    assert answer.details["nonPerformingAccounts"] == is_bad
    assert answer.details["worstDaysInArrears"] == days
    assert codes(answer) == flags


def test_known_bad_account_is_flagged_beside_an_open_one(metropol):
    bad, unknown = {"days_in_arrears": 91}, {"days_in_arrears": None}
    metropol.data = {"account_info": [{**ACCOUNT, **one} for one in (bad, unknown)]}

    answer = finding_of(metropol, "CRB_FULL")

    assert answer.details["nonPerformingAccounts"] is None
    assert codes(answer) == ["NON_PERFORMING_ACCOUNT"]


@pytest.mark.parametrize(
    ("data", "is_whole"),
    [
        ({"delinquency_code": "005"}, True),
        ({"delinquency_code": "005", "has_fraud": None}, False),
        # Where there are no accounts, the bureau has no standing and no score.
        ({"delinquency_code": "001"}, True),
        ({"delinquency_code": "002", "account_info": [], "credit_score": None}, True),
        ({"delinquency_code": "002", "account_info": [], "has_fraud": None}, False),
    ],
)
def test_report_with_a_flag_is_whole_when_the_bureau_told_all(metropol, data, is_whole):
    metropol.data = data

    answer = finding_of(metropol, "CRB_FULL")

    assert answer.score is not None
    assert answer.is_whole == is_whole


@pytest.mark.parametrize("day", ["29-04-2014", "29/04/2014", "29 April 2014"])
def test_date_in_another_format_is_left_out(metropol: FakeMetropol, day):
    metropol.account = {"date_opened": day}

    answer = finding_of(metropol, "CRB_FULL")

    assert answer.details["accounts"][0]["openedOn"] is None


@pytest.mark.parametrize("check", ["CRB_FULL", "CREDITBUREAU_COMP"])
@pytest.mark.parametrize(
    ("data", "flags", "score"),
    [
        ({"has_fraud": True}, ["FRAUD_ALERT"], 95),
        ({"has_fraud": None}, [], None),
        # A bad credit score alone does not make an open answer whole.
        ({"has_fraud": None, "credit_score": 600}, [], None),
        ({"has_fraud": None, "credit_score": 410}, ["LOW_CREDIT_SCORE"], 70),
        (
            {"no_of_bounced_cheques": {"last_12_months": 2}},
            ["BOUNCED_CHEQUES"],
            50,
        ),
        ({"no_of_bounced_cheques": {}}, [], None),
        ({"no_of_bounced_cheques": {"last_12_months": -1}}, [], None),
        ({"credit_score": None}, [], None),
        ({"delinquency_code": "006"}, [], None),
        ({"delinquency_code": "001"}, ["NO_CREDIT_RECORD"], 40),
        *(
            ({"delinquency_code": "002", "account_info": no}, ["NO_CREDIT_RECORD"], 40)
            for no in (None, [])
        ),
        (
            {"delinquency_code": "002", "account_info": [], "has_fraud": True},
            ["NO_CREDIT_RECORD", "FRAUD_ALERT"],
            95,
        ),
        # A contradiction is never clean.
        ({"delinquency_code": "002"}, [], None),
    ],
)
def test_full_report_maps_to_flags(metropol, check, data, flags, score):
    metropol.data = data

    answer = finding_of(metropol, check)

    assert (codes(answer), answer.score) == (flags, score)


def test_full_report_has_person_and_amounts(metropol: FakeMetropol):
    answer = finding_of(metropol, "CRB_FULL", fullName="Peter Marangi")

    details = answer.details
    assert (details["fullName"], details["nameMatch"]) == ("Peter Marangi", "MATCH")
    assert details["dateOfBirth"] == "1978-01-01"
    assert details["addresses"] == [
        {"street": "Moi Road", "town": "Nakuru", "country": "Kenya"}
    ]
    assert details["employers"] == [{"name": "Testing Metropol", "reportedOn": None}]
    assert details["accounts"] == [
        {
            "lender": None,
            "product": "PERSONAL_LOAN",
            "accountNumber": "DM_88100521214888",
            "status": "ACTIVE",
            "openedOn": "2014-04-29",
            "currency": "KES",
            "originalAmount": 60000.5,
            "balance": 6600,
            "overdue": 0,
            "daysInArrears": 0,
            "lastPaidOn": None,
        }
    ]
    assert details["scoreTrend"] == [{"month": "2026-05", "creditScore": 501}]
    assert (details["totalBalance"], details["currency"]) == (6600, "KES")
    assert details["enquiriesLast12Months"] == 3


def test_another_name_is_flagged(metropol: FakeMetropol):
    answer = finding_of(metropol, "CRB_FULL", fullName="Jane Kamau")

    assert (codes(answer), answer.score) == (["NAME_MISMATCH"], 55)


@pytest.mark.parametrize("status", [200, 400, 401])
@pytest.mark.parametrize(
    ("code", "failure"),
    [
        ("E028", Refused),
        ("E024", Unavailable),
        ("E409", AnswerPending),
        ("E999", Unavailable),
        ("Peter M", Unavailable),
    ],
)
def test_error_code_maps_to_a_failure(metropol, code, failure, status, caplog):
    metropol.says = [(status, {"api_code": code, "has_error": True})] * 2

    with pytest.raises(failure) as error:
        finding_of(metropol, "CRB_SCORE")

    assert CODES.get(code, ("", ""))[1] in str(error.value)
    assert ("unknown code" in caplog.text) == (code not in CODES)
    assert "Peter" not in str(error.value) + caplog.text


@pytest.mark.parametrize(
    ("status", "body", "failure"),
    [
        (200, {"api_code": None, "has_error": True}, Unavailable),
        (200, {"api_code": 200}, Unavailable),
        (200, {}, Unavailable),
        (200, [], Unavailable),
        (
            200,
            {"has_error": False, "identity_number": "1", "credit_score": 800},
            Unavailable,
        ),
        (400, {}, Refused),
        (404, "<html>", Unavailable),
        (429, {}, Unavailable),
        (503, {}, Unavailable),
    ],
)
def test_malformed_answer_raises_an_error(metropol, status, body, failure):
    metropol.says = [(status, body)]

    with pytest.raises(failure):
        finding_of(metropol, "CRB_SCORE")


@pytest.mark.parametrize(
    ("asked", "told"),
    [("01234567", 1234567), ("1234567", "01234567"), (CLEAN, None)],
)
def test_number_matches_without_its_leading_zeros(metropol, asked, told):
    metropol.anybody = (501, "005")
    metropol.data = {"identity_number": told}

    assert codes(finding_of(metropol, "CRB_SCORE", asked)) == []


@pytest.mark.parametrize("told", [None, "None", {}])
@pytest.mark.parametrize("check", FILES)
def test_report_without_accounts_is_unavailable(metropol, check, told):
    metropol.data = {"account_info": told}

    with pytest.raises(Unavailable):
        finding_of(metropol, check)


@pytest.mark.parametrize(("times", "failure"), [(1, None), (2, Unavailable)])
def test_clock_error_is_retried_once(metropol, times, failure):
    metropol.ahead, metropol.ahead_times = timedelta(minutes=1), times
    if failure is None:
        assert finding_of(metropol, "CRB_SCORE").score == 17
        return
    with pytest.raises(failure, match="time of the request") as error:
        finding_of(metropol, "CRB_SCORE")
    assert not error.value.may_be_charged


def test_repeated_question_waits_for_a_limited_time(metropol: FakeMetropol):
    finding_of(metropol, "CRB_SCORE")
    asked = inquiry("CREDITBUREAU_SCORE", idNumber=CLEAN)

    with pytest.raises(AnswerPending) as pause:
        metropol.adapter().ask(asked)
    assert pause.value.ask_at >= asked.asked_at + timedelta(seconds=60)

    asked = replace(asked, asked_at=asked.asked_at - timedelta(minutes=16))
    with pytest.raises(Unavailable):
        metropol.adapter().ask(asked)


@pytest.mark.parametrize("check", [*SCORES, "CREDITBUREAU_STATUS", "CRB_STANDARD"])
def test_good_record_whose_name_was_not_compared_has_no_score(metropol, check):
    answer = finding_of(metropol, check, fullName="Peter Marangi")

    assert (codes(answer), answer.score) == (["NAME_NOT_COMPARED"], None)
    assert answer.name_comparison is None


def test_bad_record_whose_name_was_not_compared_stays_bad(metropol):
    answer = finding_of(metropol, "CRB_STANDARD", LISTED, fullName="Peter Marangi")

    assert codes(answer) == ["NAME_NOT_COMPARED", "NON_PERFORMING_ACCOUNT"]
    assert answer.score == 85
    # The summary names the worst flag.
    assert answer.summary == answer.flags[1].message


@pytest.mark.parametrize(
    ("stated", "given", "flags", "score"),
    [
        (None, None, ["NAME_NOT_COMPARED"], None),
        ("Baobab Traders Limited", None, ["NAME_NOT_COMPARED"], None),
        ("Baobab Traders Limited", "Baobab Traders Ltd", [], 17),
        ("Baobab Traders Limited", "Acacia Holdings Ltd", ["NAME_MISMATCH"], 55),
        # The bureau's name shows the client whose record it is.
        (None, "Baobab Traders Ltd", [], 17),
    ],
)
def test_good_record_of_a_company_has_no_score_when_the_bureau_gives_no_name(
    metropol, stated, given, flags, score
):
    metropol.data = {"company_name": given}

    answer = finding_of(metropol, "CREDITBUREAU_COMP", fullName=stated)

    assert (codes(answer), answer.score) == (flags, score)
    assert (answer.name_comparison is None) == (not (stated and given))


def test_bad_record_of_a_company_without_a_name_stays_bad(metropol):
    metropol.data = {"company_name": None, "has_fraud": True}

    answer = finding_of(metropol, "CREDITBUREAU_COMP")

    assert codes(answer) == ["NAME_NOT_COMPARED", "FRAUD_ALERT"]
    assert answer.score == 95


@pytest.mark.parametrize(
    ("name", "reason", "strength", "flags"),
    [
        ("Marangi Peter", "OTHER_ORDER", 95, []),
        ("Grace Atieno", "DIFFERENT", 0, ["NAME_MISMATCH"]),
    ],
)
def test_finding_has_the_comparison_of_names(metropol, name, reason, strength, flags):
    answer = finding_of(metropol, "CRB_FULL", fullName=name)

    assert codes(answer) == flags
    assert answer.name_comparison == {
        "matcherVersion": VERSION,
        "likeness": answer.details["nameMatch"],
        "reason": reason,
        "strength": strength,
    }


@pytest.mark.parametrize("keys", [{"public_key": "x"}, {"private_key": "x"}])
def test_wrong_keys_are_refused(metropol: FakeMetropol, keys: dict[str, str]):
    with pytest.raises(Refused):
        metropol.adapter(**keys).ask(inquiry("CRB_SCORE", idNumber=CLEAN))


def test_unsold_product_is_refused(metropol: FakeMetropol):
    metropol.is_sold = False

    with pytest.raises(Refused, match="does not sell"):
        finding_of(metropol, "CRB_FULL")


@pytest.mark.parametrize("check", REPORTS)
def test_faulty_answer_is_unavailable(metropol, check):
    metropol.faults.status = 500

    with pytest.raises(Unavailable):
        finding_of(metropol, check)


def test_unsupported_inquiry_is_refused(metropol: FakeMetropol):
    for check, subject in [("IDENTITY", {"idNumber": CLEAN}), ("CRB_SCORE", {})]:
        with pytest.raises(Refused):
            metropol.adapter().ask(inquiry(check, **subject))
    assert not metropol.requests
