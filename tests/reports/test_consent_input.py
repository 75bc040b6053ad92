from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tests.world.clients import ATTESTED, HOSTED, NOT_OBTAINED, Api, company, person
from tests.world.orders import fault_codes, faults_of_each
from verification.consents.models import Consent

METHODS = [
    "CUSTOMER_WEB_FORM",
    "CUSTOMER_MOBILE_APP",
    "PAPER_FORM",
    "VERBAL_RECORDED",
    "EMAIL",
    "OTHER",
]


def without_consent(item: dict) -> dict:
    return {k: v for k, v in item.items() if k != "consent"}


def test_check_that_needs_consent_is_refused_without(api: Api):
    assert fault_codes(api, without_consent(person())) == {
        "consent": "consent-required"
    }


def test_check_that_needs_no_consent_runs_without(api: Api):
    report = api.create(company())

    assert report["status"] == "RUNNING"
    assert report["consentState"] == {
        "status": "NOT_REQUIRED",
        "consentUrl": None,
        "expiresAt": None,
        "reason": None,
    }


def test_hosted_consent_link_lasts_14_days(api: Api):
    report = api.create({**person(), "consent": HOSTED})

    state = report["consentState"]
    expires = datetime.fromisoformat(state["expiresAt"])
    assert report["status"] == "PENDING_CONSENT"
    assert state["status"] == "PENDING"
    assert abs(expires - datetime.now(UTC) - timedelta(days=14)) < timedelta(minutes=1)
    assert report["paymentState"]["status"] == "NOT_REQUIRED"
    assert api.get(f"/reports/{report['id']}/consent/state").json() == state


def test_hosted_consent_accepts_only_its_mode(api: Api):
    others = {**ATTESTED, "evidenceReference": "F-1"}
    del others["mode"]

    faults = faults_of_each(
        api,
        *[{**person(), "consent": {**HOSTED, k: v}} for k, v in others.items()],
    )

    assert faults == [{f"consent/{k}": "not-allowed-here"} for k in others]


def test_attestation_needs_each_member(api: Api):
    needed = ["obtained", "obtainedAt", "method", "policyVersion"]
    consents = [{k: v for k, v in ATTESTED.items() if k != one} for one in needed]

    faults = faults_of_each(api, *[{**person(), "consent": one} for one in consents])

    assert faults == [{f"consent/{one}": "required"} for one in needed]


def test_attestation_has_one_of_the_methods(api: Api):
    def by(method: str) -> dict:
        consent = {**ATTESTED, "method": method, "evidenceReference": "F-1"}
        return {**person(), "consent": consent}

    made = api.create(*[by(method) for method in METHODS])
    faults = faults_of_each(api, *[by(m) for m in ("FAX", "customer_web_form", "")])

    assert {report["consentState"]["status"] for report in made} == {"ATTESTED"}
    kept = [one.attestation["method"] for one in Consent.objects.all()]
    assert sorted(kept) == sorted(METHODS)
    assert faults == [{"consent/method": "invalid-choice"}] * 3


def test_only_a_draft_accepts_consent_not_obtained(api: Api):
    item = {**person(), "consent": NOT_OBTAINED}
    complete = {**item, "consent": {**ATTESTED, "obtained": False}}

    assert fault_codes(api, complete) == {"consent/obtained": "consent-required"}
    assert fault_codes(api, item) == {
        "consent/obtained": "consent-required",
        "consent/obtainedAt": "required",
        "consent/method": "required",
        "consent/policyVersion": "required",
    }
    api.create(item, draft=True)


def test_hosted_draft_has_a_link_before_launch(api: Api):
    report = api.create({**person(), "consent": HOSTED}, draft=True)

    assert report["status"] == "DRAFT"
    assert report["consentState"]["status"] == "PENDING"
    assert report["consentState"]["consentUrl"]


def test_consent_is_stored_when_no_check_needs_it(api: Api):
    report = api.create({**company(), "consent": HOSTED})

    assert report["status"] == "PENDING_CONSENT"


def birthday_of_age(years: int, days: int = 0) -> str:
    """Return the birthday of a person who reached this age so many days ago."""
    today = datetime.now(ZoneInfo("Africa/Nairobi")).date() - timedelta(days=days)
    # 29 February may not exist in the year of birth.
    today -= timedelta(days=(today.month, today.day) == (2, 29))
    return date(today.year - years, today.month, today.day).isoformat()


@pytest.mark.parametrize("draft", [False, True])
def test_hosted_consent_is_refused_for_a_subject_under_18(api: Api, draft: bool):
    item = {**person(dateOfBirth=birthday_of_age(18, days=-1)), "consent": HOSTED}

    problem = api.refused("/reports", {"reports": [item], "draft": draft})

    (error,) = problem["errors"]
    assert error["pointer"] == "#/reports/0/consent/mode"
    assert error["code"] == "not-allowed-here"
    assert "CUSTOMER_ATTESTED with the consent of a parent" in error["detail"]


def test_attested_consent_is_accepted_for_a_subject_under_18(api: Api):
    report = api.create(
        {**person(dateOfBirth=birthday_of_age(12)), "consent": ATTESTED}
    )

    assert report["consentState"]["status"] == "ATTESTED"


def test_hosted_consent_is_accepted_for_a_subject_of_18(api: Api):
    report = api.create({**person(dateOfBirth=birthday_of_age(18)), "consent": HOSTED})

    assert report["consentState"]["status"] == "PENDING"


def test_edit_to_hosted_consent_is_refused_under_18(api: Api):
    report = api.create({**person(), "consent": HOSTED}, draft=True)
    subject = person(dateOfBirth=birthday_of_age(15))["subject"]

    problem = api.refused(f"/reports/{report['id']}/draft", {"subject": subject})

    assert problem["errors"][0]["pointer"] == "#/consent/mode"
