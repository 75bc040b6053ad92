from tests.world.clients import ATTESTED, HOSTED, Api, company, error_codes, person
from tests.world.orders import EMPLOYMENT, fault_codes, faults_of_each, with_value
from verification.checks.models import CheckDefinition

ABOUT_PEOPLE = [
    "IDENTITY",
    "CRB_SCORE",
    "CRB_STANDARD",
    "CRB_FULL",
    "CREDITBUREAU_SCORE",
    "CREDITBUREAU_STATUS",
]
PERSON_MEMBERS = {
    "idNumber": "12345678",
    "dateOfBirth": "1990-01-31",
    "firstName": "Wanjiku",
    "middleName": "Njeri",
    "lastName": "Kamau",
}


def requesting(item: dict, *checks: str) -> dict:
    return {**item, "checksRequested": list(checks), "consent": ATTESTED}


def test_subject_refuses_members_of_the_other_type(api: Api):
    items = [company(**{name: value}) for name, value in PERSON_MEMBERS.items()]

    *companies, someone = faults_of_each(
        api, *items, person(registrationNumber="PVT-1")
    )

    for member, fault in zip(PERSON_MEMBERS, companies, strict=True):
        assert fault == {f"subject/{member}": "not-allowed-here"}
    assert someone == {"subject/registrationNumber": "not-allowed-here"}


def test_company_accepts_common_members(api: Api):
    item = company(email="info@baobab.test", phone="+254712345678", country="UG")

    report = api.create(item)

    subject = api.report(report["id"])["subject"]
    assert subject.items() >= item["subject"].items()


def test_checks_need_the_number_of_their_subject(api: Api):
    of_people = [requesting(person(idNumber=None), check) for check in ABOUT_PEOPLE]
    firms = ("BUSINESS_VERIFICATION", "CREDITBUREAU_COMP")
    of_firms = [requesting(company(registrationNumber=None), one) for one in firms]

    faults = faults_of_each(api, *of_people, *of_firms)

    assert faults == [
        *[{"subject/idNumber": "missing-input"}] * len(of_people),
        *[{"subject/registrationNumber": "missing-input"}] * len(of_firms),
    ]
    made = api.create(
        *[requesting(person(), check) for check in ABOUT_PEOPLE],
        *[requesting(company(), check) for check in firms],
    )
    assert {report["status"] for report in made} == {"RUNNING"}


def test_tax_check_of_a_person_needs_pin_or_id_number(api: Api):
    neither = requesting(person(idNumber=None), "KRA_PIN")

    assert fault_codes(api, neither) == {"subject/idNumber": "missing-input"}
    api.create(with_value(neither, "subject/kraPin", "A012345678Z"))
    api.create(with_value(neither, "subject/idNumber", "12345678"))


def test_tax_check_of_a_company_needs_its_pin(api: Api):
    item = requesting(company(), "KRA_PIN")

    assert fault_codes(api, item) == {"subject/kraPin": "missing-input"}
    report = api.create(with_value(item, "subject/kraPin", "P051234567Z"))
    assert api.report(report["id"])["subject"]["kraPin"] == "P051234567Z"


def test_reference_needs_employer_and_referee(api: Api):
    check = "EMPLOYER_VERIFICATION"
    left_out = [
        requesting(person(**{**EMPLOYMENT, member: None}), check)
        for member in EMPLOYMENT
    ]
    null = with_value(
        requesting(person(**EMPLOYMENT), check), "subject/refereeName", None
    )

    *faults, fault_of_null = faults_of_each(api, *left_out, null)

    for member, fault in zip(EMPLOYMENT, faults, strict=True):
        assert fault == {f"subject/{member}": "missing-input"}
    assert fault_of_null == {"subject/refereeName": "missing-input"}


def test_inputs_are_returned_with_the_subject(api: Api):
    item = requesting(
        person(**EMPLOYMENT, jobTitle="Nurse", employmentStart="2020-02-29"),
        "EMPLOYER_VERIFICATION",
    )

    report = api.create(item)

    subject = api.report(report["id"])["subject"]
    assert subject.items() >= item["subject"].items()


def test_hosted_consent_of_a_company_needs_a_number_to_confirm(api: Api):
    CheckDefinition.objects.filter(name="AML_SCREENING").update(active=True)
    item = requesting(company(registrationNumber=None), "AML_SCREENING")

    for draft in (True, False):
        refused = api.refused(
            "/reports", {"reports": [{**item, "consent": HOSTED, "draft": draft}]}
        )
        (error,) = refused["errors"]
        assert error["pointer"] == "#/reports/0/subject/registrationNumber"
        assert error["code"] == "missing-input"
        for named in ("registrationNumber", "kraPin", "CUSTOMER_ATTESTED"):
            assert named in error["detail"]
    assert api.create(item)["status"] == "RUNNING"
    assert api.create({**item, "consent": None, "draft": True})["status"] == "DRAFT"


def test_missing_company_number_is_one_fault(api: Api):
    subject = company(registrationNumber=None)
    item = {**requesting(subject, "KRA_PIN"), "consent": HOSTED}

    assert fault_codes(api, item) == {"subject/kraPin": "missing-input"}
    assert api.create(with_value(item, "subject/kraPin", "P123456789Z"))["consentState"]


def test_edit_that_leaves_a_hosted_company_without_number_is_refused(api: Api):
    CheckDefinition.objects.filter(name="AML_SCREENING").update(active=True)
    item = requesting(company(), "AML_SCREENING")
    report = api.create({**item, "consent": HOSTED, "draft": True})
    named = {"subjectType": "COMPANY", "fullName": "Baobab Traders Limited"}

    problem = api.refused(f"/reports/{report['id']}/draft", {"subject": named})

    assert error_codes(problem) == {"#/subject/registrationNumber": "missing-input"}


def test_input_is_unknown_without_a_check_that_needs_it(api: Api):
    item = requesting(person(kraPin="A012345678Z"), "IDENTITY")

    assert fault_codes(api, item) == {"subject/kraPin": "unknown-member"}
    assert fault_codes(api, with_value(item, "subject/kraPin", None)) == {
        "subject/kraPin": "unknown-member"
    }
    item["checksRequested"] += ["KRA_PIN"]
    assert api.create(item)["status"] == "RUNNING"


def test_missing_input_is_listed_with_missing_consent(api: Api):
    item = {**person(idNumber=None), "checksRequested": ["CRB_SCORE"]}
    del item["consent"]

    assert fault_codes(api, item) == {
        "subject/idNumber": "missing-input",
        "consent": "consent-required",
    }


def test_live_key_refuses_sandbox_numbers(live_api: Api):
    items = []
    for digit in "0123456789":
        pin, number = f"A90000000{digit}Z", f"SBX-000000{digit}"
        items += [
            requesting(person(idNumber=f"9000000{digit}", kraPin=pin), "KRA_PIN"),
            company(registrationNumber=number),
            company(registrationNumber=number.lower()),
            person(idNumber=f"9000-000{digit}"),
        ]

    taxed = dict.fromkeys(("subject/idNumber", "subject/kraPin"), "not-allowed-here")
    firm = {"subject/registrationNumber": "not-allowed-here"}
    spaced = {"subject/idNumber": "not-allowed-here"}
    assert faults_of_each(live_api, *items) == [taxed, firm, firm, spaced] * 10


def test_number_in_another_form_is_refused(api: Api):
    numbers = ["31234561.0", "'31234561", "31,234,561", "3123\u200b4561", "3123456O"]
    items = [requesting(person(idNumber=number), "IDENTITY") for number in numbers]
    firm = company(registrationNumber="123456.0", kraPin="P12345678Z")

    for draft in (False, True):
        *people, of_firm = faults_of_each(
            api,
            *items,
            requesting(firm, "KRA_PIN", "BUSINESS_VERIFICATION"),
            draft=draft,
        )
        assert people == [{"subject/idNumber": "invalid-format"}] * len(numbers)
        assert of_firm == {
            "subject/registrationNumber": "invalid-format",
            "subject/kraPin": "invalid-format",
        }


def test_sandbox_knows_its_numbers_in_every_country(api: Api):
    items = []
    for country in ("KE", "NG", "GB"):
        someone = person(idNumber="90000003", kraPin="A900000003Z", country=country)
        firm = company(registrationNumber="SBX-0000003", country=country)
        items += [requesting(someone, "IDENTITY", "KRA_PIN"), firm]

    assert {report["status"] for report in api.create(*items)} == {"RUNNING"}


def test_link_is_made_for_a_subject_without_contact(api: Api):
    item = {**person(), "consent": HOSTED, "paymentMode": "CANDIDATE"}

    report = api.create(item)

    assert report["consentState"]["consentUrl"]
    assert api.report(report["id"])["subject"]["email"] is None
