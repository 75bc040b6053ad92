from decimal import Decimal

import pytest

from tests.world.clients import (
    ATTESTED,
    HOSTED,
    Api,
    company,
    error_codes,
    person,
)
from tests.world.employer import employment_item
from tests.world.orders import (
    PAYER,
    two_checks,
    with_value,
)
from tests.world.payments import pay_report
from verification.checks.models import CheckDefinition
from verification.consents.models import Consent, ConsentStatus
from verification.payments.audit import audit_everything
from verification.payments.models import Payment
from verification.reports.drafts import edit_draft
from verification.reports.models import Report
from webhooks.models import Event
from workspaces.models import LedgerEntry

EVERYTHING = {
    "subject": {"subjectType": "COMPANY", "registrationNumber": "PVT-9"},
    "checksRequested": ["BUSINESS_VERIFICATION", "CREDITBUREAU_COMP"],
    "purpose": "Another purpose",
    "consent": HOSTED,
    "paymentMode": "THIRD_PARTY",
    "payer": PAYER,
    "reuse": False,
}


def edit(api: Api, report_id: str, **members) -> dict:
    return api.act(edit_draft, report_id, members)


def edit_faults(api: Api, report_id: str, **members) -> dict[str, str]:
    return error_codes(api.refused(f"/reports/{report_id}/draft", members))


@pytest.fixture
def draft(api: Api) -> str:
    item = {**two_checks(email="wanjiku@acacia.test"), "reference": "A-1"}
    return api.create(item, draft=True)["id"]


def test_edit_keeps_omitted_members(api: Api, draft: str):
    before = api.report(draft)

    after = edit(api, draft, purpose="Another purpose")

    changed = {k for k in after if after[k] != before[k]}
    assert changed == {"purpose", "updatedAt", "checkResults"}
    assert after == api.report(draft)


def test_edit_keeps_the_id_of_a_subject_with_a_name_alone(api: Api):
    draft = api.create(employment_item(idNumber=None), draft=True)["id"]
    before = Report.objects.get(pk=draft).subject_id

    edit(api, draft, purpose="Another purpose")

    assert Report.objects.get(pk=draft).subject_id == before


def test_edit_ignores_null_members(api: Api):
    item = {**two_checks(), "paymentMode": "THIRD_PARTY", "payer": PAYER}
    report = api.create({**item, "consent": HOSTED}, draft=True)
    before = api.report(report["id"])

    after = edit(api, report["id"], **dict.fromkeys(EVERYTHING))

    for name in ("subject", "paymentState", "consentState", "paymentMode", "purpose"):
        assert after[name] == before[name]


def test_edit_replaces_every_member(api: Api, draft: str):
    after = edit(api, draft, **EVERYTHING)

    assert after["subject"]["registrationNumber"] == "PVT-9"
    assert after["subject"]["email"] is None
    assert after["checksRequested"] == EVERYTHING["checksRequested"]
    assert [r["checkName"] for r in after["checkResults"]] == after["checksRequested"]
    assert after["purpose"] == "Another purpose"
    assert after["consentState"]["consentUrl"]
    assert after["paymentMode"] == "THIRD_PARTY"
    assert after["paymentState"]["status"] == "PENDING"
    assert after["paymentState"]["amount"]["amount"] == 1200
    assert after["reference"] == "A-1"


def test_edit_replaces_the_whole_subject(api: Api, draft: str):
    other = {"subjectType": "INDIVIDUAL", "fullName": "Otieno", "idNumber": "7"}

    subject = edit(api, draft, subject=other)["subject"]

    assert (subject["email"], subject["lastName"]) == (None, None)
    assert api.get("/reports", search="Wanjiku").json()["totalElements"] == 0
    assert api.get("/reports", search="Otieno").json()["totalElements"] == 1
    assert api.get("/reports", search="A-1").json()["totalElements"] == 1


def test_edit_runs_and_bills_nothing(api: Api, draft: str):
    edit(api, draft, **EVERYTHING)
    api.work()

    assert api.report(draft)["status"] == "DRAFT"
    assert not LedgerEntry.objects.exists()


def test_edit_refuses_unknown_members(api: Api, draft: str):
    unknown = ["draft", "reference", "id", "status", "Purpose"]
    for value in (None, "x", True):
        assert edit_faults(api, draft, **dict.fromkeys(unknown, value)) == {
            f"#/{member}": "unknown-member" for member in unknown
        }


def test_edit_lists_all_its_faults(api: Api, draft: str):
    assert edit_faults(
        api,
        draft,
        subject={"subjectType": "INDIVIDUAL", "fullName": "W", "bogus": 1},
        checksRequested=["KRA_PIN", 5, "NOPE"],
        purpose="",
        payer=PAYER,
        bogus=1,
    ) == {
        "#/subject/bogus": "unknown-member",
        "#/subject/idNumber": "missing-input",
        "#/checksRequested/1": "invalid-type",
        "#/checksRequested/2": "unknown-check",
        "#/purpose": "required",
        "#/payer": "not-allowed-here",
        "#/bogus": "unknown-member",
    }


def test_edit_obeys_rules_together_with_kept_members(api: Api, draft: str):
    assert edit_faults(api, draft, checksRequested=["BUSINESS_VERIFICATION"]) == {
        "#/checksRequested/0": "subject-type-not-accepted"
    }
    assert edit_faults(api, draft, subject=company()["subject"]).keys() >= {
        "#/checksRequested/0"
    }
    assert edit_faults(api, draft, paymentMode="THIRD_PARTY") == {"#/payer": "required"}


def test_refused_edit_changes_nothing(api: Api, draft: str):
    before = api.report(draft)

    edit_faults(api, draft, purpose="Other", checksRequested=["NOPE"])

    assert api.report(draft) == before


def test_draft_shows_its_present_price(api: Api, draft: str):
    CheckDefinition.objects.filter(name="KRA_PIN").update(price=Decimal("75.50"))

    assert api.report(draft)["paymentState"]["amount"]["amount"] == 125.5


def grant(report_id: str, status: str = ConsentStatus.GRANTED) -> None:
    Consent.objects.filter(report=report_id).update(status=status)


@pytest.fixture
def hosted_draft(api: Api) -> dict:
    return api.create({**two_checks(), "consent": HOSTED}, draft=True)


def test_edit_of_a_notice_member_voids_the_consent(api: Api, hosted_draft: dict):
    edits = with_value(two_checks(idNumber="7"), "purpose", "Other")
    edits["checksRequested"] = ["IDENTITY"]
    links = {None, hosted_draft["consentState"]["consentUrl"]}

    for status, member in [
        ("GRANTED", "subject"),
        ("GRANTED", "checksRequested"),
        ("GRANTED", "purpose"),
        ("DECLINED", "purpose"),
        ("EXPIRED", "purpose"),
        ("WITHDRAWN", "purpose"),
    ]:
        grant(hosted_draft["id"], status)
        subject = person(idNumber=str(len(links)))["subject"]
        members = {**edits, "subject": subject}

        state = edit(api, hosted_draft["id"], **{member: members[member]})[
            "consentState"
        ]

        assert state["status"] == "PENDING", (status, member)
        assert state["consentUrl"] not in links
        links.add(state["consentUrl"])


def test_draft_without_consent_says_that_it_waits_for_one(api: Api):
    report = api.create({**two_checks(), "consent": None}, draft=True)

    path = f"/reports/{report['id']}"
    unanswered = {
        "status": "PENDING",
        "consentUrl": None,
        "expiresAt": None,
        "reason": None,
    }
    assert report["consentState"] == unanswered
    assert api.report(report["id"])["consentState"] == unanswered
    assert api.get(f"{path}/consent/state").json() == unanswered
    assert edit(api, report["id"], purpose="Other")["consentState"] == unanswered
    assert Event.objects.get().payload["report"]["consentStatus"] == "PENDING"
    resend = api.refused(f"{path}/consent/resend")
    assert resend["code"] == "consent-not-resendable"
    assert resend["consentStatus"] == "PENDING"
    assert "edit the draft" in resend["detail"]


def test_draft_whose_checks_need_no_consent_says_so(api: Api):
    report = api.create(company(), draft=True)

    assert report["consentState"]["status"] == "NOT_REQUIRED"
    assert api.report(report["id"])["consentState"]["status"] == "NOT_REQUIRED"
    assert Event.objects.get().payload["report"]["consentStatus"] == "NOT_REQUIRED"


def test_edit_of_other_members_keeps_the_consent(api, hosted_draft):
    grant(hosted_draft["id"])

    # An empty edit is accepted.
    for edits in ({"reuse": False}, {"consent": HOSTED}, {}):
        state = edit(api, hosted_draft["id"], **edits)["consentState"]
        assert state["status"] == "GRANTED"


def test_pending_consent_link_survives_an_edit(api, hosted_draft):
    after = edit(api, hosted_draft["id"], consent=HOSTED, purpose="Other")

    assert after["consentState"] == hosted_draft["consentState"]


def test_new_request_after_a_refusal_makes_a_new_link(api: Api, hosted_draft: dict):
    grant(hosted_draft["id"], ConsentStatus.DECLINED)

    state = edit(api, hosted_draft["id"], consent=HOSTED)["consentState"]

    assert state["status"] == "PENDING"
    assert state["consentUrl"] != hosted_draft["consentState"]["consentUrl"]


def test_edit_attests_the_consent_of_a_draft(api: Api, hosted_draft: dict):
    state = edit(api, hosted_draft["id"], consent=ATTESTED)["consentState"]

    assert state == {
        "status": "ATTESTED",
        "consentUrl": None,
        "expiresAt": None,
        "reason": None,
    }


def test_edit_keeps_an_attestation(api: Api, draft: str):
    after = edit(api, draft, purpose="Other", checksRequested=["IDENTITY"])

    assert after["consentState"]["status"] == "ATTESTED"
    assert Consent.objects.get().attestation["method"] == "CUSTOMER_WEB_FORM"


def test_paid_draft_is_edited_where_its_price_and_payer_stay(api: Api):
    item = {**two_checks(), "paymentMode": "THIRD_PARTY", "payer": PAYER}
    report = api.create(item, draft=True)
    pay_report(api, report)

    for edits, why in [
        ({"checksRequested": ["IDENTITY"]}, "would change that to 50.00."),
        ({"paymentMode": "SELF"}, "by the payer of this draft, and the edit names"),
        ({"paymentMode": "CANDIDATE"}, "by the payer of this draft, and the edit"),
    ]:
        problem = api.refused(f"/reports/{report['id']}/draft", edits)
        assert problem["code"] == "report-not-editable"
        assert "100.00 KES was paid" in problem["detail"]
        assert why in problem["detail"]
        assert "cancel the draft" in problem["detail"]
    assert api.report(report["id"])["paymentState"]["status"] == "PAID"
    checks = ["KRA_PIN", "IDENTITY"]
    after = edit(api, report["id"], purpose="Other", checksRequested=checks)
    assert after["paymentState"]["status"] == "PAID"


def test_edit_of_a_paid_draft_keeps_the_price_that_was_paid(api: Api):
    report = api.create({**two_checks(), "paymentMode": "CANDIDATE"}, draft=True)
    pay_report(api, report)
    CheckDefinition.objects.filter(name="KRA_PIN").update(price=Decimal("75.50"))
    api.create({**two_checks(), "checksRequested": ["IDENTITY"]})
    api.work()

    checks = ["KRA_PIN", "IDENTITY"]
    after = edit(api, report["id"], purpose="Other", checksRequested=checks)

    assert after["paymentState"]["amount"]["amount"] == 100
    assert api.post(f"/reports/{report['id']}/launch").status_code == 200
    assert audit_everything().differences == []


def test_edit_of_a_paid_draft_reuses_no_result_of_another_subject(api: Api):
    api.create({**two_checks(), "checksRequested": ["IDENTITY"]})
    api.work()
    item = {**two_checks(), "paymentMode": "THIRD_PARTY", "payer": PAYER}
    report = api.create(item, draft=True)
    assert pay_report(api, report)["paymentState"]["amount"]["amount"] == 50

    assert edit(api, report["id"], purpose="Other")["purpose"] == "Other"
    for edits in ({"subject": two_checks(idNumber="7")["subject"]}, {"reuse": False}):
        problem = api.refused(f"/reports/{report['id']}/draft", edits)
        assert "would change that to 100.00." in problem["detail"]


def test_edit_to_another_amount_makes_a_new_link(api: Api):
    report = api.create({**two_checks(), "paymentMode": "CANDIDATE"}, draft=True)

    same = edit(api, report["id"], purpose="Other")["paymentState"]
    other = edit(api, report["id"], checksRequested=["IDENTITY"])["paymentState"]
    own = edit(api, report["id"], paymentMode="SELF")["paymentState"]

    assert same == report["paymentState"]
    assert other["paymentUrl"] != same["paymentUrl"]
    assert other["amount"]["amount"] == 50
    assert (own["status"], own["paymentUrl"]) == ("NOT_REQUIRED", None)


def test_edit_of_the_payment_mode_removes_the_payer(api: Api):
    item = {**person(), "paymentMode": "THIRD_PARTY", "payer": PAYER}
    report = api.create(item, draft=True)

    after = edit(api, report["id"], paymentMode="CANDIDATE")

    assert after["paymentMode"] == "CANDIDATE"
    assert Payment.objects.get().payer is None


def test_edit_to_the_same_payment_mode_keeps_payer_and_link(api: Api):
    item = {**person(), "paymentMode": "THIRD_PARTY", "payer": PAYER}
    report = api.create(item, draft=True)

    for edits in ({}, {"payer": PAYER}):
        after = edit(api, report["id"], paymentMode="THIRD_PARTY", **edits)

        assert after["paymentState"] == report["paymentState"]
        assert Payment.objects.get().payer == {**PAYER, "phone": None}


def test_edit_keeps_a_full_name_made_of_long_parts(api: Api):
    item = person(fullName=None, firstName="J" * 150, lastName="K" * 150)
    before = api.report(api.create(item, draft=True)["id"])

    after = edit(api, before["id"], purpose="Other")

    assert after["subject"] == before["subject"]
    assert len(after["subject"]["fullName"]) == 301


def test_payer_of_a_free_draft_stays(api: Api):
    api.create(person())
    api.work()
    payer = {"name": "Otieno Ltd", "email": "pay@otieno.test"}
    draft = {**person(), "paymentMode": "THIRD_PARTY", "payer": payer, "draft": True}
    report = api.create(draft)
    assert report["paymentState"]["status"] == "NOT_REQUIRED"

    edited = api.post(f"/reports/{report['id']}/draft", {"reuse": False})

    assert edited.status_code == 200, edited.content
    assert edited.json()["paymentState"]["status"] == "PENDING"
    assert edited.json()["paymentState"]["amount"]["amount"] == 250
