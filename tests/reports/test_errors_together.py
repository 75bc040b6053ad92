from typing import Any

import pytest

from tests.world.clients import ATTESTED, Api, company, error_codes, person
from tests.world.orders import PAYER, count_rows, fault_codes, with_value
from verification.checks.models import CheckDefinition

WRONG = {
    "subject": {
        "subjectType": "INDIVIDUAL",
        "fullName": 7,
        "email": "nobody",
        "registrationNumber": "PVT-1",
        "nickname": "Shiku",
    },
    "checksRequested": [5, "NOPE", "IDENTITY", "IDENTITY", "BUSINESS_VERIFICATION"],
    "consent": {**ATTESTED, "method": "TELEPATHY", "obtainedAt": "now"},
    "paymentMode": "THIRD_PARTY",
    "payer": {"name": ""},
    "reference": "x" * 101,
}


def test_all_faults_of_a_report_are_listed(api: Api):
    assert fault_codes(api, WRONG) == {
        "subject/fullName": "invalid-type",
        "subject/email": "invalid-format",
        "subject/registrationNumber": "not-allowed-here",
        "subject/nickname": "unknown-member",
        "subject/idNumber": "missing-input",
        "checksRequested/0": "invalid-type",
        "checksRequested/1": "unknown-check",
        "checksRequested/3": "duplicate",
        "checksRequested/4": "subject-type-not-accepted",
        "purpose": "required",
        "consent/method": "invalid-choice",
        "consent/obtainedAt": "invalid-format",
        "payer/name": "required",
        "payer/email": "required",
        "reference": "too-long",
    }


def test_each_fault_is_listed_once(api: Api):
    problem = api.refused("/reports", {"reports": [WRONG]})

    told_of = [(e["pointer"], e["code"]) for e in problem["errors"]]
    assert len(told_of) == len(set(told_of))
    first = "reports[0].subject.fullName must be a string"
    assert problem["detail"] == f"{first}, and {len(told_of) - 1} more."


def test_faults_are_in_the_order_of_the_request(api: Api):
    good, wrong = company(), with_value(company(), "purpose", "")
    problem = api.refused(
        "/reports", {"reports": [wrong, good, {"x": 1}, wrong], "drfat": True}
    )

    numbers = [e["pointer"].split("/")[2:3] for e in problem["errors"]]
    assert numbers == [[], ["0"], *[["2"]] * (len(numbers) - 3), ["3"]]


def test_at_most_100_faults_are_listed(api: Api):
    problem = api.refused(
        "/reports", {"reports": [with_value(company(), "purpose", "")] * 150}
    )

    assert len(problem["errors"]) == 100
    assert problem["errors"][99]["pointer"] == "#/reports/99/purpose"
    first = "reports[0].purpose must not be empty"
    assert problem["detail"] == f"{first}, and more than 99 more."


@pytest.mark.parametrize("number", [0, 17, 49])
def test_one_faulty_report_creates_none(api: Api, number: int):
    items = [company()] * 50
    items[number] = with_value(company(), "subject/registrationNumber", None)
    before = count_rows()

    problem = api.refused("/reports", {"reports": items}, Idempotency_Key="all")

    assert error_codes(problem) == {
        f"#/reports/{number}/subject/registrationNumber": "missing-input"
    }
    assert count_rows() == before


def test_answer_is_in_the_order_of_the_request(api: Api):
    items = [company(fullName=f"Company {n}") for n in range(120)]

    reports = api.create(*items)

    assert len(reports) == 120
    for number in (0, 1, 57, 119):
        report = api.report(reports[number]["id"])
        assert report["subject"]["fullName"] == f"Company {number}"


def test_pointer_escapes_special_characters(api: Api):
    assert fault_codes(api, with_value(company(), "a~b c%é", 1)) == {
        "a~0b%20c%25%C3%A9": "unknown-member"
    }
    slashed = {**company(), "a/b": 1}
    assert fault_codes(api, slashed) == {"a~1b": "unknown-member"}


def test_misspelt_payment_mode_adds_no_payer_fault(api: Api):
    item = {**person(), "paymentMode": "THIRDPARTY", "payer": PAYER}

    assert fault_codes(api, item) == {"paymentMode": "invalid-choice"}


def test_check_for_another_subject_type_needs_no_inputs(api: Api):
    item = {**company(), "checksRequested": ["CRB_FULL"], "consent": ATTESTED}

    assert fault_codes(api, item) == {"checksRequested/0": "subject-type-not-accepted"}


def test_inactive_check_is_refused(api: Api):
    CheckDefinition.objects.filter(name="CRB_SCORE").update(active=False)

    assert fault_codes(api, person()) == {"checksRequested/2": "inactive-check"}


@pytest.mark.parametrize(
    ("checks", "errors"),
    [
        ([], {"checksRequested": "too-few"}),
        (["CRB_SCORE"] * 11, {"checksRequested": "too-many"}),
        (["identity"], {"checksRequested/0": "unknown-check"}),
        (["AML"], {"checksRequested/0": "unknown-check"}),
        ([["IDENTITY"], None], dict.fromkeys(["checksRequested/0"], "invalid-type")),
        (["CRB_SCORE", "CRB_SCORE"], {"checksRequested/1": "duplicate"}),
    ],
)
def test_checks_must_be_1_to_10_known_names(api: Api, checks: Any, errors: Any):
    problem = fault_codes(api, {**person(), "checksRequested": checks})

    assert problem.items() >= errors.items()
    assert len(problem) - len(errors) == checks.count(None)


@pytest.mark.parametrize("depth", [300, 600, 800])
def test_deeply_nested_body_is_refused(api: Api, depth: int):
    deep: Any = 1
    for _ in range(depth):
        deep = [deep]
    item = with_value(with_value(person(), "subject/subjectType", 5), "subject/x", deep)

    assert fault_codes(api, item)["subject/x"] == "unknown-member"


def test_number_that_json_readers_round_is_refused(api: Api):
    check = CheckDefinition.objects.get(name="BUSINESS_VERIFICATION")
    check.required_inputs += [
        {"key": "turnover", "type": "NUMBER", "required": True, "label": ""}
    ]
    check.save()

    for value, code in {
        10**30: "out-of-range",
        -(2**53): "out-of-range",
        "5": "invalid-type",
        True: "invalid-type",
    }.items():
        assert fault_codes(api, company(turnover=value)) == {"subject/turnover": code}
    report = api.create(company(turnover=2.5))
    assert api.report(report["id"])["subject"]["turnover"] == 2.5
