from typing import Any

from tests.world.clients import ATTESTED, Api, company, error_codes, person
from tests.world.orders import (
    PAYER,
    count_rows,
    fault_codes,
    faults_of_each,
    with_value,
)
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


def test_one_faulty_report_creates_none(api: Api):
    before = count_rows()
    for number in (0, 17, 49):
        items = [company()] * 50
        items[number] = with_value(company(), "subject/registrationNumber", None)

        problem = api.refused("/reports", {"reports": items}, Idempotency_Key="all")

        assert error_codes(problem) == {
            f"#/reports/{number}/subject/registrationNumber": "missing-input"
        }
    assert count_rows() == before


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


CHECKS: list[tuple[list[Any], dict[str, str]]] = [
    ([], {"checksRequested": "too-few"}),
    (["CRB_SCORE"] * 11, {"checksRequested": "too-many"}),
    (["identity"], {"checksRequested/0": "unknown-check"}),
    (["AML"], {"checksRequested/0": "unknown-check"}),
    ([["IDENTITY"], None], {"checksRequested/0": "invalid-type"}),
    (["CRB_SCORE", "CRB_SCORE"], {"checksRequested/1": "duplicate"}),
]


def test_checks_must_be_1_to_10_known_names(api: Api):
    items = [{**person(), "checksRequested": checks} for checks, _ in CHECKS]

    for (checks, errors), fault in zip(
        CHECKS, faults_of_each(api, *items), strict=True
    ):
        assert fault.items() >= errors.items()
        assert len(fault) - len(errors) == checks.count(None)


def test_deeply_nested_body_is_refused(api: Api):
    items, deep = [], 1
    for depth in range(1, 801):
        deep = [deep]  # type: ignore[assignment]
        if depth in {300, 600, 800}:
            items.append(with_value(person(), "subject/subjectType", 5))
            items[-1]["subject"]["x"] = deep

    faults = faults_of_each(api, *items)

    assert [fault["subject/x"] for fault in faults] == ["unknown-member"] * 3


def test_number_that_json_readers_round_is_refused(api: Api):
    check = CheckDefinition.objects.get(name="BUSINESS_VERIFICATION")
    check.required_inputs += [
        {"key": "turnover", "type": "NUMBER", "required": True, "label": ""}
    ]
    check.save()

    codes = {
        10**30: "out-of-range",
        -(2**53): "out-of-range",
        "5": "invalid-type",
        True: "invalid-type",
    }
    faults = faults_of_each(api, *[company(turnover=value) for value in codes])
    assert faults == [{"subject/turnover": code} for code in codes.values()]
    report = api.create(company(turnover=2.5))
    assert api.report(report["id"])["subject"]["turnover"] == 2.5
