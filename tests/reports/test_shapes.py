from itertools import product
from typing import Any

import pytest

from tests.world.clients import HOSTED, Api, company, person
from tests.world.orders import (
    EMPLOYMENT,
    PAYER,
    fault_codes,
    fault_codes_of_each,
    with_value,
)
from verification.reports.models import Report
from verification.reports.request import (
    ConsentInput,
    PayerInput,
    ReportItem,
    SubjectInput,
)

FULL = {
    **person(
        email="wanjiku@acacia.test",
        phone="+254712345678",
        dateOfBirth="1990-01-31",
        country="KE",
    ),
    "paymentMode": "THIRD_PARTY",
    "payer": {**PAYER, "phone": "+254712345678"},
    "draft": False,
    "reuse": True,
    "reference": "A-1",
}
SHAPES = {"": ReportItem, "subject/": SubjectInput, "consent/": ConsentInput}
MEMBERS = {
    f"{place}{field.alias}": field
    for place, shape in {**SHAPES, "payer/": PayerInput}.items()
    for name, field in shape.model_fields.items()
}
ENUMS = {"subject/subjectType", "consent/mode", "consent/method", "paymentMode"}
OBJECTS = {"subject", "consent", "payer"}
BOOLEANS = {"draft", "reuse", "consent/obtained"}
LISTS = {"checksRequested"}
STRINGS = set(MEMBERS) - ENUMS - OBJECTS - BOOLEANS - LISTS
LIMITS = {
    "purpose": 500,
    "reference": 100,
    "subject/fullName": 200,
    "subject/firstName": 200,
    "subject/middleName": 200,
    "subject/lastName": 200,
    "payer/name": 200,
    "consent/policyVersion": 100,
    "consent/evidenceReference": 200,
}
VALUES: dict[str, Any] = {
    "string": "text",
    "number": 7,
    "float": 1.5,
    "boolean": True,
    "array": ["x"],
    "object": {"x": 1},
}


def test_request_with_every_member_is_accepted(api: Api):
    assert api.create(FULL)["status"] == "PENDING_PAYMENT"


def test_unknown_member_is_refused_at_any_depth(api: Api):
    paths = [
        "bogus",
        "Purpose",
        "subject/bogus",
        "subject/full_name",
        "consent/obtained_at",
        "payer/iban",
    ]
    for value in ("x", None, {"deep": [1]}):
        items = [with_value(FULL, path, value) for path in paths]
        assert fault_codes_of_each(api, items) == [
            {path: "unknown-member"} for path in paths
        ]


def test_unknown_member_of_the_body_is_refused(api: Api):
    assert fault_codes(api, FULL, drafft=True) == {"#/drafft": "unknown-member"}


@pytest.mark.parametrize(
    ("name", "misspelt"),
    [
        ("checksRequested", "checks_requested"),
        ("paymentMode", "payment_mode"),
    ],
)
def test_python_name_of_a_member_is_refused(api: Api, name: str, misspelt: str):
    item = {**FULL, misspelt: FULL[name]}
    del item[name]

    assert fault_codes(api, item)[misspelt] == "unknown-member"


def test_member_of_another_type_is_refused(api: Api):
    right = {
        **dict.fromkeys(STRINGS, "string"),
        **dict.fromkeys(ENUMS, ""),
        **dict.fromkeys(BOOLEANS, "boolean"),
        **dict.fromkeys(LISTS, "array"),
        **dict.fromkeys(OBJECTS, "object"),
    }
    wrong = [
        (path, value)
        for path, (kind, value) in product(MEMBERS, VALUES.items())
        if kind != right[path]
    ]

    codes = fault_codes_of_each(api, [with_value(FULL, *each) for each in wrong])

    for (path, value), faults in zip(wrong, codes, strict=True):
        wanted = "invalid-choice" if path in ENUMS else "invalid-type"
        assert faults == {path: wanted}, value


def test_null_is_refused_for_required_members(api: Api):
    required = {
        "subject": "required",
        "subject/subjectType": "required",
        "subject/fullName": "required",
        "subject/idNumber": "missing-input",
        "subject/country": "required",
        "checksRequested": "required",
        "purpose": "required",
        "consent": "consent-required",
        "consent/mode": "required",
        "consent/obtained": "required",
        "consent/obtainedAt": "required",
        "consent/method": "required",
        "consent/policyVersion": "required",
        "paymentMode": "required",
        "payer": "required",
        "payer/name": "required",
    }
    for path in MEMBERS:
        item = with_value(FULL, path, None)
        if path in required:
            assert fault_codes(api, item) == {path: required[path]}
        else:
            api.create(item)


def test_missing_required_member_is_refused(api: Api):
    required = {
        "subject": "required",
        "checksRequested": "required",
        "purpose": "required",
        "consent": "consent-required",
        "subject/subjectType": "required",
        "consent/mode": "required",
        "payer/name": "required",
    }
    items = []
    for path in required:
        item = with_value(FULL, path, None)
        *way, last = path.split("/")
        del (item[way[0]] if way else item)[last]
        items.append(item)

    assert fault_codes_of_each(api, items) == [
        {path: code} for path, code in required.items()
    ]


def test_text_is_accepted_up_to_its_limit(api: Api):
    items = [with_value(FULL, path, "é" * limit) for path, limit in LIMITS.items()]
    longer = [with_value(FULL, path, "é" * (n + 1)) for path, n in LIMITS.items()]
    number = company(registrationNumber="9" * 65)
    email = with_value(FULL, "subject/email", f"{'a' * 250}@b.test")

    api.create(*items, company(registrationNumber="9" * 64))

    assert fault_codes_of_each(api, [*longer, number, email]) == [
        {path: "too-long"}
        for path in (*LIMITS, "subject/registrationNumber", "subject/email")
    ]


def test_text_that_nobody_sees_is_refused(api: Api):
    unseen = ("", "  ", "\u3000", "\x1c", "\u200f", "\u202e \u200d")
    empty = list(product(sorted(LIMITS), unseen))

    codes = fault_codes_of_each(api, [with_value(FULL, *each) for each in empty])

    assert codes == [{path: "required"} for path, _ in empty]


def test_spaces_around_a_text_are_stripped(api: Api):
    report = api.create(person(fullName="  Wanjiku  Kamau "))

    assert api.report(report["id"])["subject"]["fullName"] == "Wanjiku  Kamau"


@pytest.mark.parametrize(("reports", "code"), [([], "too-few"), ({}, "invalid-type")])
def test_request_needs_a_report(api: Api, reports: Any, code: str):
    problem = api.refused("/reports", {"reports": reports})

    assert [(e["pointer"], e["code"]) for e in problem["errors"]] == [
        ("#/reports", code)
    ]


def test_request_has_at_most_500_reports(api: Api):
    item = {**company(), "draft": True}

    assert len(api.create(*[item] * 500)) == 500
    assert fault_codes(api, *[item] * 501) == {"reports": "too-many"}
    assert Report.objects.count() == 500


def test_request_without_reports_is_refused(api: Api):
    assert fault_codes(api, *[], draft=True, reports=None) == {"reports": "required"}
    problem = api.refused("/reports", {"draft": True})
    assert problem["errors"][0]["pointer"] == "#/reports"


def test_report_that_is_no_object_is_refused(api: Api):
    assert fault_codes(api, None) == {"#/reports/0": "required"}
    for item in (5, "x", [], True):
        assert fault_codes(api, item) == {"#/reports/0": "invalid-type"}


def test_draft_flag_must_be_a_boolean(api: Api):
    for value in ("true", 0, 1, []):
        assert fault_codes(api, company(), draft=value) == {"#/draft": "invalid-type"}


def test_check_input_of_another_type_is_refused(api: Api):
    item = {
        **person(**EMPLOYMENT, employmentStart="2020-02-30"),
        "checksRequested": ["EMPLOYER_VERIFICATION"],
        "consent": HOSTED,
    }
    item = with_value(item, "subject/employerName", 5)
    item = with_value(item, "subject/refereeName", " ")
    item = with_value(item, "subject/refereeEmail", "nobody")
    item = with_value(item, "subject/jobTitle", "x" * 201)

    assert fault_codes(api, item) == {
        "subject/employerName": "invalid-type",
        "subject/refereeName": "required",
        "subject/refereeEmail": "invalid-format",
        "subject/jobTitle": "too-long",
        "subject/employmentStart": "invalid-format",
    }
