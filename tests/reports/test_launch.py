from decimal import Decimal

import pytest

from tests.world.clients import (
    ATTESTED,
    HOSTED,
    NOT_OBTAINED,
    Api,
    company,
    error_codes,
)
from tests.world.orders import (
    PAYER,
    count_rows,
    movements,
    two_checks,
)
from tests.world.payments import pay_report
from tests.world.threads import run_at_once
from verification.checks.models import CheckDefinition
from verification.consents.models import Consent
from verification.payments.models import Payment
from verification.reports import launch as verbs
from verification.reports.models import Report


def launch(api: Api, report_id: str) -> dict:
    return api.act(verbs.launch, report_id)


def reasons(api: Api, report_id: str) -> list[str]:
    before = count_rows()
    problem = api.refused(f"/reports/{report_id}/launch")
    assert (problem["status"], problem["code"]) == (409, "report-not-launchable")
    assert count_rows() == before
    assert problem["reportStatus"] == api.report(report_id)["status"]
    return problem["reasons"]


def test_launch_bills_and_runs_a_draft(api: Api):
    created = api.create(two_checks(), draft=True)

    report = launch(api, created["id"])

    assert report["status"] == "RUNNING"
    assert movements(api) == [("CHARGE", -50, 1)] * 2
    api.work()
    assert api.report(created["id"])["status"] == "READY"


def test_launch_accepts_an_empty_object(api: Api):
    report = api.create(two_checks(), draft=True)

    problem = api.refused(f"/reports/{report['id']}/launch", {"force": True})
    assert error_codes(problem) == {"#/force": "unknown-member"}
    assert api.post(f"/reports/{report['id']}/launch", {}).status_code == 200


def test_launch_without_consent_names_the_way_out(api: Api):
    for consent, way_out in [
        (HOSTED, "send the subject the consentUrl"),
        (None, "edit the draft with one"),
        (NOT_OBTAINED, "edit the draft with consent.obtained true"),
    ]:
        report = api.create({**two_checks(), "consent": consent}, draft=True)

        problem = api.refused(f"/reports/{report['id']}/launch")
        assert problem["reasons"] == ["CONSENT_OUTSTANDING"]
        assert way_out in problem["detail"]
        assert ("consentUrl" in problem["detail"]) is (consent == HOSTED)
    api.post(f"/reports/{report['id']}/draft", {"consent": ATTESTED})
    assert launch(api, report["id"])["status"] == "RUNNING"


def test_launch_needs_that_hosted_consent_is_given(api: Api):
    report = api.create({**two_checks(), "consent": HOSTED}, draft=True)
    for status, way_out in [
        ("DECLINED", "edit the draft with a consent"),
        ("WITHDRAWN", "edit the draft with a consent"),
        ("EXPIRED", "/consent/resend"),
    ]:
        Consent.objects.update(status=status)

        problem = api.refused(f"/reports/{report['id']}/launch")
        assert problem["reasons"] == ["CONSENT_OUTSTANDING"]
        assert way_out in problem["detail"]
    Consent.objects.update(status="GRANTED")
    assert launch(api, report["id"])["status"] == "RUNNING"


def test_launch_without_consent_when_none_is_needed(api: Api):
    report = api.create(company(), draft=True)

    assert launch(api, report["id"])["status"] == "RUNNING"


def test_launch_is_refused_without_payment(api: Api):
    mode = {"paymentMode": "THIRD_PARTY", "payer": PAYER}
    report = api.create({**two_checks(), **mode}, draft=True)

    for status in ("PENDING", "FAILED"):
        Payment.objects.update(status=status)
        assert reasons(api, report["id"]) == ["PAYMENT_OUTSTANDING"]
    pay_report(api, report)
    assert launch(api, report["id"])["status"] == "RUNNING"
    assert movements(api) == []


def test_refused_launch_lists_all_reasons(api: Api):
    item = {**two_checks(), "consent": HOSTED, "paymentMode": "CANDIDATE"}
    report = api.create(item, draft=True)

    assert reasons(api, report["id"]) == ["CONSENT_OUTSTANDING", "PAYMENT_OUTSTANDING"]


def test_launch_prices_the_draft(api: Api):
    created = api.create(two_checks(), draft=True)
    CheckDefinition.objects.filter(name="KRA_PIN").update(price=Decimal("75.50"))

    report = launch(api, created["id"])

    assert report["paymentState"]["amount"]["amount"] == 125.5
    assert api.account.balance == Decimal("-125.50")


def test_launched_report_keeps_its_price(api: Api):
    report = api.create(two_checks())
    CheckDefinition.objects.update(price=Decimal(1))

    assert api.report(report["id"])["paymentState"]["amount"]["amount"] == 100
    api.work()
    assert api.account.balance == Decimal(-100)


def test_payment_link_keeps_its_price(api: Api):
    report = api.create({**two_checks(), "paymentMode": "CANDIDATE"}, draft=True)
    CheckDefinition.objects.update(price=Decimal(900))

    assert api.report(report["id"])["paymentState"]["amount"]["amount"] == 100
    pay_report(api, report)
    assert launch(api, report["id"])["paymentState"]["amount"]["amount"] == 100


def test_free_draft_is_repriced_at_launch(api: Api):
    CheckDefinition.objects.update(price=Decimal(0))
    report = api.create({**two_checks(), "paymentMode": "CANDIDATE"}, draft=True)
    CheckDefinition.objects.update(price=Decimal(50))

    assert report["paymentState"]["status"] == "NOT_REQUIRED"
    assert reasons(api, report["id"]) == ["PAYMENT_OUTSTANDING"]
    edited = api.post(f"/reports/{report['id']}/draft", {"paymentMode": "CANDIDATE"})
    assert edited.json()["paymentState"]["paymentUrl"]


def test_free_draft_is_launched_without_payment(api: Api):
    CheckDefinition.objects.update(price=Decimal(0))
    report = api.create({**two_checks(), "paymentMode": "CANDIDATE"}, draft=True)

    assert launch(api, report["id"])["status"] == "RUNNING"
    assert movements(api) == []


def test_launch_is_refused_with_an_inactive_check(api: Api):
    report = api.create(two_checks(), draft=True)
    CheckDefinition.objects.filter(name="KRA_PIN").update(active=False)

    problem = api.refused(f"/reports/{report['id']}/launch")

    assert error_codes(problem) == {"#/checksRequested/1": "inactive-check"}
    assert api.report(report["id"])["status"] == "DRAFT"
    assert movements(api) == []


def test_launch_is_refused_without_a_subject(api: Api):
    report = api.create(two_checks(), draft=True)
    Report.objects.update(subject=None)

    assert api.report(report["id"])["subject"] is None
    problem = api.refused(f"/reports/{report['id']}/launch")
    assert error_codes(problem) == {"#/subject": "required"}
    other = {"subject": two_checks()["subject"]}
    assert api.post(f"/reports/{report['id']}/draft", {}).status_code == 400
    assert api.post(f"/reports/{report['id']}/draft", other).status_code == 200
    assert launch(api, report["id"])["status"] == "RUNNING"


def test_launch_is_refused_with_a_number_in_another_form(api: Api):
    report = api.create(two_checks(), draft=True)
    draft = Report.objects.get()
    draft.subject = {**draft.subject, "idNumber": "31234561.0"}
    draft.save()

    for verb, body in [("launch", None), ("draft", {"purpose": "Rent"})]:
        problem = api.refused(f"/reports/{report['id']}/{verb}", body)
        assert error_codes(problem) == {"#/subject/idNumber": "invalid-format"}
    assert api.report(report["id"])["subject"]["idNumber"] == "31234561.0"


def test_launch_of_a_prepaid_draft_needs_balance(live_api: Api):
    report = live_api.create(company(), draft=True)

    problem = live_api.refused(f"/reports/{report['id']}/launch")

    assert problem["code"] == "insufficient-balance"
    assert live_api.report(report["id"])["status"] == "DRAFT"
    assert movements(live_api) == []


@pytest.mark.django_db(transaction=True)
def test_one_of_many_concurrent_launches_succeeds(api: Api):
    report = api.create(two_checks(), draft=True)

    answers = run_at_once(6, lambda _: api.post(f"/reports/{report['id']}/launch"))

    assert sorted(answer.status_code for answer in answers) == [200, *[409] * 5]
    assert movements(api) == [("CHARGE", -50, 1)] * 2
    changes = Report.objects.get(pk=report["id"]).status_changes.all()
    assert [change.trigger for change in changes] == ["created", "launched"]
