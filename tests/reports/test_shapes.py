from itertools import product
from typing import Any

from tests.world.clients import HOSTED, Api, company, error_codes, person
from tests.world.orders import (
    EMPLOYMENT,
    PAYER,
    fault_codes,
    faults_of_each,
    with_value,
)
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
    unknown = "bogus Purpose subject/bogus subject/full_name consent/obtained_at"
    # Of Python
    unknown += " checks_requested payment_mode"
    sent = list(product(unknown.split(), ("x", None, {"deep": [1]})))

    faults = faults_of_each(api, *[with_value(FULL, *one) for one in sent])

    assert faults == [{path: "unknown-member"} for path, _ in sent]


def test_unknown_member_of_payer_or_body_is_refused(api: Api):
    item = with_value(FULL, "payer/iban", "x")

    assert fault_codes(api, item, drafft=True) == {
        "#/drafft": "unknown-member",
        "payer/iban": "unknown-member",
    }


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
    # A problem lists at most 100 faults.
    for sent in (wrong[at : at + 100] for at in range(0, len(wrong), 100)):
        faults = faults_of_each(api, *[with_value(FULL, *one) for one in sent])
        for (path, value), fault in zip(sent, faults, strict=True):
            wanted = "invalid-choice" if path in ENUMS else "invalid-type"
            assert fault == {path: wanted}, value


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
    faults = faults_of_each(api, *[with_value(FULL, path, None) for path in required])

    assert faults == [{path: code} for path, code in required.items()]
    api.create(*[with_value(FULL, path, None) for path in set(MEMBERS) - set(required)])


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
        items.append(with_value(FULL, path, None))
        *way, last = path.split("/")
        del (items[-1][way[0]] if way else items[-1])[last]

    faults = faults_of_each(api, *items)

    assert faults == [{path: code} for path, code in required.items()]


def test_text_is_accepted_up_to_its_limit(api: Api):
    limits = LIMITS | {"subject/registrationNumber": 64}

    def with_length(path: str, length: int) -> dict[str, Any]:
        of_firm = path == "subject/registrationNumber"
        return with_value(
            company() if of_firm else FULL, path, ("9" if of_firm else "é") * length
        )

    api.create(*[with_length(path, limit) for path, limit in limits.items()])
    *faults, of_email = faults_of_each(
        api,
        *[with_length(path, limit + 1) for path, limit in limits.items()],
        with_value(FULL, "subject/email", f"{'a' * 250}@b.test"),
    )

    assert faults == [{path: "too-long"} for path in limits]
    assert of_email == {"subject/email": "too-long"}


def test_text_that_nobody_sees_is_refused(api: Api):
    empty = ("", "  ", "\u3000", "\x1c", "\u200f", "\u202e \u200d")
    sent = list(product(sorted(LIMITS), empty))

    faults = faults_of_each(api, *[with_value(FULL, *one) for one in sent])

    assert faults == [{path: "required"} for path, _ in sent]


def test_spaces_around_a_text_are_stripped(api: Api):
    report = api.create(person(fullName="  Wanjiku  Kamau "))

    assert api.report(report["id"])["subject"]["fullName"] == "Wanjiku  Kamau"


def test_request_has_1_to_500_reports(api: Api):
    item = {**company(), "draft": True}

    assert fault_codes(api, *[item] * 501) == {"reports": "too-many"}
    for body, code in [
        ({"reports": []}, "too-few"),
        ({"reports": {}}, "invalid-type"),
        ({"reports": None}, "required"),
        ({"draft": True}, "required"),
    ]:
        assert error_codes(api.refused("/reports", body)) == {"#/reports": code}


def test_report_that_is_no_object_is_refused(api: Api):
    null, *others = faults_of_each(api, None, 5, "x", [], True)

    assert null == {"": "required"}
    assert others == [{"": "invalid-type"}] * 4


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
