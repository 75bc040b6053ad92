from datetime import UTC, datetime, timedelta

import pytest

from tests.clients import ATTESTED, HOSTED, Api, company, person
from tests.orders import put, told
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


def test_a_check_that_needs_consent_is_not_run_without(api: Api):
    assert told(api, without_consent(person())) == {"consent": "consent-required"}


def test_a_check_that_needs_no_consent_runs_without(api: Api):
    made = api.create(company())

    assert made["status"] == "RUNNING"
    assert made["consentState"] == {
        "status": "NOT_REQUIRED",
        "consentUrl": None,
        "expiresAt": None,
    }


def test_hosted_consent_waits_with_its_link_for_14_days(api: Api):
    made = api.create({**person(), "consent": HOSTED})

    state = made["consentState"]
    expires = datetime.fromisoformat(state["expiresAt"])
    assert made["status"] == "PENDING_CONSENT"
    assert state["status"] == "PENDING"
    assert abs(expires - datetime.now(UTC) - timedelta(days=14)) < timedelta(minutes=1)
    assert made["paymentState"]["status"] == "NOT_REQUIRED"
    assert api.get(f"/reports/{made['id']}/consent/state").json() == state


def test_every_link_is_its_own(api: Api):
    items = [{**person(), "consent": HOSTED}] * 120

    urls = {made["consentState"]["consentUrl"] for made in api.create(*items)}

    assert len(urls) == 120


@pytest.mark.parametrize("member", [m for m in ATTESTED if m != "mode"])
def test_hosted_consent_sends_its_mode_alone(api: Api, member: str):
    item = {**person(), "consent": {**HOSTED, member: ATTESTED[member]}}

    assert told(api, item) == {f"consent/{member}": "not-allowed-here"}


def test_hosted_consent_takes_no_evidence(api: Api):
    item = put({**person(), "consent": HOSTED}, "consent/evidenceReference", "F-1")

    assert told(api, item) == {"consent/evidenceReference": "not-allowed-here"}


@pytest.mark.parametrize(
    "member", ["obtained", "obtainedAt", "method", "policyVersion"]
)
def test_an_attestation_is_complete(api: Api, member: str):
    consent = {k: v for k, v in ATTESTED.items() if k != member}

    assert told(api, {**person(), "consent": consent}) == {
        f"consent/{member}": "required"
    }


@pytest.mark.parametrize("method", METHODS)
def test_an_attestation_says_how_consent_was_given(api: Api, method: str):
    consent = {**ATTESTED, "method": method, "evidenceReference": "F-1"}

    made = api.create({**person(), "consent": consent})

    assert made["consentState"]["status"] == "ATTESTED"
    assert Consent.objects.get().attestation["method"] == method


@pytest.mark.parametrize("method", ["FAX", "customer_web_form", ""])
def test_there_are_no_other_methods(api: Api, method: str):
    item = {**person(), "consent": {**ATTESTED, "method": method}}

    assert told(api, item) == {"consent/method": "invalid-choice"}


def test_consent_not_obtained_is_for_drafts_only(api: Api):
    item = {**person(), "consent": {"mode": "CUSTOMER_ATTESTED", "obtained": False}}

    assert told(api, item) == {"consent/obtained": "consent-required"}
    draft = api.create(item, draft=True)
    assert draft["consentState"] == {
        "status": "PENDING",
        "consentUrl": None,
        "expiresAt": None,
    }


def test_a_draft_may_leave_consent_out(api: Api):
    made = api.create(without_consent(person()), draft=True)

    assert made["consentState"]["status"] == "NOT_REQUIRED"


def test_a_hosted_draft_has_its_link_before_it_is_launched(api: Api):
    made = api.create({**person(), "consent": HOSTED}, draft=True)

    assert made["status"] == "DRAFT"
    assert made["consentState"]["status"] == "PENDING"
    assert made["consentState"]["consentUrl"]


def test_consent_given_for_nothing_that_needs_it_is_kept(api: Api):
    made = api.create({**company(), "consent": HOSTED})

    assert made["status"] == "PENDING_CONSENT"
