from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from django.db import DatabaseError, transaction
from django.utils.timezone import now

from tests.world.clients import HOSTED, Api, company, person
from tests.world.employer import employment_item
from tests.world.threads import run_at_once, start_and_block, uncommitted
from verification.checks.models import CheckResult
from verification.consents.links import consent_links, expire_consents
from verification.consents.models import Consent, ConsentRecord
from verification.consents.subject_decisions import (
    ConsentClosed,
    Evidence,
    decline,
    digest_of,
    grant,
    is_signature,
)
from verification.privacy.withdrawals import withdraw
from verification.reports.models import Report
from webhooks.models import Event
from workspaces.ledger import top_up
from workspaces.models import LedgerEntry

MONEY = Decimal(1_000)
EVIDENCE = Evidence(
    text="Acacia Lenders asks ...",
    notice_version="ke-2026-11",
    language="sw",
    typed_name="Wanjiku Kamau",
    confirmed_by="DATE_OF_BIRTH",
    address="192.0.2.7",
    user_agent="Opera Mini",
)


@pytest.fixture
def paying_api(live_api: Api) -> Api:
    """A production key of a workspace with money."""
    top_up(live_api.workspace, "production", MONEY, actor="tests", note="")
    return live_api


def create_hosted_consent(api: Api, **more: Any) -> Consent:
    report = api.create({**person(), "consent": HOSTED}, **more)
    return Consent.objects.get(report=report["id"])


def status(api: Api, consent: Consent) -> str:
    return api.report(str(consent.report_id))["status"]


def money() -> dict[str, int]:
    kinds = LedgerEntry.objects.values_list("kind", flat=True)
    return {kind: list(kinds).count(kind) for kind in set(kinds)}


def events() -> list[str]:
    return sorted(Event.objects.values_list("name", flat=True))


def test_granted_report_runs_at_once_and_gets_ready(api: Api):
    consent = create_hosted_consent(api)
    record = grant(consent.pk, 1, EVIDENCE)
    assert status(api, consent) == "RUNNING"
    api.work()
    assert status(api, consent) == "READY"
    assert record.evidence["typedName"] == "Wanjiku Kamau"
    assert record.evidence["checks"] == ["IDENTITY", "KRA_PIN", "CRB_SCORE"]
    assert record.evidence["purpose"] == "Loan application"
    assert record.language == "sw"


def set_birthday(consent: Consent, born: str) -> Consent:
    """Store a birthday that the API may refuse; return the consent."""
    report = consent.report
    report.subject = {**report.subject, "dateOfBirth": born}
    report.save()
    return consent


@pytest.mark.parametrize(
    ("at", "may_grant"),
    [("2026-11-22T20:59:59Z", False), ("2026-11-22T21:00:01Z", True)],
)
def test_subject_can_grant_from_the_18th_birthday_in_nairobi(
    api: Api, at: str, may_grant: bool
):
    with time_machine.travel(datetime.fromisoformat(at), tick=False):
        consent = set_birthday(create_hosted_consent(api), "2008-11-23")
        if may_grant:
            grant(consent.pk, 1, EVIDENCE)
        else:
            with pytest.raises(ConsentClosed, match="UNDER_AGE"):
                grant(consent.pk, 1, EVIDENCE)
    assert ConsentRecord.objects.count() == may_grant


def test_birthday_of_29_february_is_on_1_march(api: Api):
    consent = set_birthday(create_hosted_consent(api), "2008-02-29")
    with time_machine.travel(datetime.fromisoformat("2026-02-28T12:00:00Z")):
        Consent.objects.update(expires_at=now() + timedelta(days=9))
        with pytest.raises(ConsentClosed, match="UNDER_AGE"):
            grant(consent.pk, 1, EVIDENCE)
    with time_machine.travel(datetime.fromisoformat("2026-03-01T12:00:00Z")):
        grant(consent.pk, 1, EVIDENCE)


def test_minor_can_decline_and_the_client_reads_why(api: Api):
    consent = set_birthday(create_hosted_consent(api), "2013-05-01")
    decline(consent.pk, 1, replace(EVIDENCE, typed_name=""), "UNDER_AGE")
    report = api.report(str(consent.report_id))
    assert report["failure"] == {
        "code": "CONSENT_DECLINED",
        "message": "The subject is under 18; a parent or guardian has to consent.",
    }
    assert report["consentState"]["reason"] == "UNDER_AGE"


def test_client_reads_the_reason_of_the_subject(api: Api):
    consent = create_hosted_consent(api)
    decline(consent.pk, 1, EVIDENCE, "I did not apply")
    assert api.report(str(consent.report_id))["consentState"]["reason"] == (
        "I did not apply"
    )
    withdrawn = create_hosted_consent(api)
    grant(withdrawn.pk, 1, EVIDENCE)
    withdraw(withdrawn.pk, 1, EVIDENCE, "")
    state = api.get(f"/reports/{withdrawn.report_id}/consent/state").json()
    assert (state["status"], state["reason"]) == ("WITHDRAWN", None)


def test_signature_is_like_the_subjects_name():
    for known, typed, is_taken in (
        ("Wanjiku Kamau", "wanjiku kamau", True),
        ("Wanjiku Kamau", "Kamau, Wanjiku Njeri", True),
        ("Wanjiku Njeri Kamau", "Wanjiku Kamau", True),
        ("Wanjiku Kamau", "W. Kamau", True),
        ("Wanjiku Kamau", "xx", False),
        ("Wanjiku Kamau", "Kamau", False),
        ("Wanjiku Kamau", "Otieno Odhiambo", False),
        ("Wanjiku Kamau", "W* K*", False),
        ("Wanjiku Kamau", "*", False),
        ("Wanjiku Kamau", "", False),
        ("Wanjiku", "Wanjiku Kamau", True),
        ("Wanjiku", "Otieno Odhiambo", False),
    ):
        report = Report(subject_type="INDIVIDUAL", subject={"fullName": known})
        assert is_signature(report, typed) is is_taken, (known, typed)


def test_grant_needs_a_signature(api: Api):
    consent = create_hosted_consent(api)
    with pytest.raises(ValueError, match="no signature"):
        grant(consent.pk, 1, replace(EVIDENCE, typed_name="Otieno Odhiambo"))
    assert not ConsentRecord.objects.exists()


def test_signer_of_a_company_needs_a_position(api: Api):
    report = api.create({**company(), "consent": HOSTED})
    consent = Consent.objects.get(report=report["id"])
    with pytest.raises(ValueError, match="no signature"):
        grant(consent.pk, 1, EVIDENCE)
    record = grant(consent.pk, 1, replace(EVIDENCE, position="Director"))
    assert record.evidence["position"] == "Director"


def test_granted_report_waits_for_its_payer(api: Api):
    item = {**person(), "consent": HOSTED, "paymentMode": "CANDIDATE"}
    consent = Consent.objects.get(report=api.create(item)["id"])
    grant(consent.pk, 1, EVIDENCE)
    assert status(api, consent) == "PENDING_PAYMENT"
    api.work()
    assert status(api, consent) == "PENDING_PAYMENT"


def test_granted_draft_can_be_launched(api: Api):
    consent = create_hosted_consent(api, draft=True)
    path = f"/reports/{consent.report_id}/launch"
    assert api.refused(path)["reasons"] == ["CONSENT_OUTSTANDING"]
    grant(consent.pk, 1, EVIDENCE)
    assert status(api, consent) == "DRAFT"
    assert api.post(path).status_code == 200


def test_declined_report_fails_and_costs_nothing(paying_api: Api):
    consent = create_hosted_consent(paying_api)
    decline(consent.pk, 1, EVIDENCE, "I did not apply")
    report = paying_api.report(str(consent.report_id))
    assert report["status"] == "FAILED"
    assert report["failure"]["code"] == "CONSENT_DECLINED"
    assert report["consentState"]["status"] == "DECLINED"
    assert {r["status"] for r in report["checkResults"]} == {"CANCELLED"}
    assert money() == {"TOP_UP": 1, "CHARGE": 3, "REVERSAL": 3}
    assert paying_api.account.balance == MONEY
    assert events() == ["report.created", "report.failed"]


def test_declined_draft_stays_a_draft(api: Api):
    consent = create_hosted_consent(api, draft=True)
    decline(consent.pk, 1, EVIDENCE, "")
    assert status(api, consent) == "DRAFT"
    assert events() == ["report.created"]


def test_early_withdrawal_cancels_open_checks(paying_api: Api):
    consent = create_hosted_consent(paying_api)
    grant(consent.pk, 1, EVIDENCE)
    withdraw(consent.pk, 1, EVIDENCE, "")
    report = paying_api.report(str(consent.report_id))
    assert report["status"] == "CANCELLED"
    assert {r["status"] for r in report["checkResults"]} == {"CANCELLED"}
    assert paying_api.account.balance == MONEY
    paying_api.work()
    assert paying_api.report(str(consent.report_id)) == report


def test_check_whose_referee_is_asked_has_begun_before_a_withdrawal(paying_api: Api):
    made = paying_api.create({**employment_item(), "consent": HOSTED})
    consent = Consent.objects.get(report=made["id"])
    grant(consent.pk, 1, EVIDENCE)
    paying_api.work()

    record = withdraw(consent.pk, 1, EVIDENCE, "")

    assert record.evidence["made"] == "some"


def test_findings_are_not_reused_after_a_withdrawal(api: Api):
    consent = create_hosted_consent(api)
    grant(consent.pk, 1, EVIDENCE)
    api.work()
    waiting = api.create(person())["id"]

    withdraw(consent.pk, 1, EVIDENCE, "")
    later = api.create(person() | {"reuse": True})["id"]
    api.work()

    for report_id in (waiting, later):
        report = api.report(report_id)
        assert report["status"] == "READY"
        assert not any(result["reused"] for result in report["checkResults"])


def test_late_withdrawal_leaves_the_findings(api: Api):
    consent = create_hosted_consent(api)
    grant(consent.pk, 1, EVIDENCE)
    api.work()
    record = withdraw(consent.pk, 1, EVIDENCE, "")
    report = api.report(str(consent.report_id))
    assert (report["status"], report["consentState"]["status"]) == (
        "READY",
        "WITHDRAWN",
    )
    assert record.evidence["made"] == "all"


def test_only_a_granted_consent_can_be_withdrawn(api: Api):
    consent = create_hosted_consent(api)
    with pytest.raises(ConsentClosed, match="PENDING"):
        withdraw(consent.pk, 1, EVIDENCE, "")


def test_report_is_not_retried_after_a_withdrawal(paying_api: Api):
    consent = create_hosted_consent(paying_api)
    grant(consent.pk, 1, EVIDENCE)
    paying_api.work()  # no live source: all of them fail
    withdraw(consent.pk, 1, EVIDENCE, "")
    refused = paying_api.refused(f"/reports/{consent.report_id}/retry")
    assert refused["code"] == "report-not-retryable"


@pytest.mark.parametrize("verb", [grant, lambda *a: decline(*a, "")])
def test_repeated_decision_is_recorded_once(api: Api, verb: Any):
    consent = create_hosted_consent(api)
    first = verb(consent.pk, 1, EVIDENCE)
    assert verb(consent.pk, 1, EVIDENCE) == first
    assert ConsentRecord.objects.count() == 1


def test_second_decision_is_refused(api: Api):
    consent = create_hosted_consent(api)
    grant(consent.pk, 1, EVIDENCE)
    with pytest.raises(ConsentClosed, match="GRANTED"):
        decline(consent.pk, 1, EVIDENCE, "")


@pytest.mark.django_db(transaction=True)
def test_one_of_a_simultaneous_grant_and_refusal_wins(transactional_db, api: Api):
    consent = create_hosted_consent(api)

    def decide(number: int) -> str:
        if number % 2:
            return grant(consent.pk, 1, EVIDENCE).decision
        return decline(consent.pk, 1, EVIDENCE, "").decision

    answers = run_at_once(6, decide)
    said = {answer for answer in answers if isinstance(answer, str)}
    assert len(said) == 1
    assert sum(isinstance(answer, ConsentClosed) for answer in answers) == 3
    assert ConsentRecord.objects.count() == 1


def test_cancelled_report_takes_no_consent(api: Api):
    consent = create_hosted_consent(api)
    api.post(f"/reports/{consent.report_id}/cancel")
    with pytest.raises(ConsentClosed, match="REPORT_ENDED"):
        grant(consent.pk, 1, EVIDENCE)


def test_replaced_link_takes_no_consent(api: Api):
    consent = create_hosted_consent(api)
    Consent.objects.update(link_made_at=now() - timedelta(minutes=2))
    before = api.get(f"/reports/{consent.report_id}/consent/state").json()
    answer = api.post(f"/reports/{consent.report_id}/consent/resend")
    assert answer.status_code == 200
    assert answer.json()["consentUrl"] != before["consentUrl"]
    with pytest.raises(ConsentClosed, match="REPLACED"):
        grant(consent.pk, 1, EVIDENCE)
    grant(consent.pk, 2, EVIDENCE)


def test_link_is_renewed_once_a_minute(api: Api):
    consent = create_hosted_consent(api)
    path = f"/reports/{consent.report_id}/consent/resend"
    answer = api.post(path)
    assert (answer.status_code, answer.json()["code"]) == (429, "rate-limited")
    assert 1 <= int(answer["Retry-After"]) <= 60


@pytest.mark.parametrize("item", [person(), company()])
def test_attested_consent_has_no_link(api: Api, item: Any):
    report_id = api.create(item)["id"]
    refused = api.refused(f"/reports/{report_id}/consent/resend")
    assert refused["code"] == "consent-not-resendable"


def test_another_workspace_cannot_send_a_link(api: Api, another_api: Api):
    consent = create_hosted_consent(api)
    refused = another_api.refused(f"/reports/{consent.report_id}/consent/resend")
    assert refused["code"] == "not-found"


def test_unanswered_link_expires_and_fails_the_report(paying_api: Api):
    consent = create_hosted_consent(paying_api)
    expire_consents()
    assert status(paying_api, consent) == "PENDING_CONSENT"
    Consent.objects.update(expires_at=now())
    with pytest.raises(ConsentClosed, match="EXPIRED"):
        grant(consent.pk, 1, EVIDENCE)
    expire_consents()
    consent_links.expire(consent.pk)
    report = paying_api.report(str(consent.report_id))
    assert (report["status"], report["failure"]["code"]) == (
        "FAILED",
        "CONSENT_EXPIRED",
    )
    assert paying_api.account.balance == MONEY
    assert ConsentRecord.objects.get().decision == "EXPIRED"


def test_link_that_fails_to_expire_blocks_no_other(api: Api):
    bad, good = create_hosted_consent(api), create_hosted_consent(api)
    Event.objects.create(
        workspace=api.workspace,
        environment="sandbox",
        name="report.failed",
        cause=f"{bad.report_id}:{bad.report.results.count()}",
    )
    Consent.objects.update(expires_at=now())

    expire_consents()

    assert status(api, bad) == "PENDING_CONSENT"
    assert status(api, good) == "FAILED"


def test_draft_gets_a_new_link_after_expiry(api: Api):
    consent = create_hosted_consent(api, draft=True)
    later = now() + timedelta(days=15)
    Consent.objects.update(expires_at=now(), link_made_at=now() - timedelta(days=14))
    expire_consents()
    assert status(api, consent) == "DRAFT"
    with time_machine.travel(later):
        state = api.post(f"/reports/{consent.report_id}/consent/resend").json()
        assert state["status"] == "PENDING"
        grant(consent.pk, 2, EVIDENCE)


def test_record_cannot_be_changed_and_its_evidence_can_be_erased(api: Api):
    grant(create_hosted_consent(api).pk, 1, EVIDENCE)
    records = ConsentRecord.objects.all()
    for change in ({"language": "en"}, {"created_at": now()}, {"evidence": b"other"}):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            records.update(**change)
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        records.delete()
    assert records.update(evidence=None) == 1


def test_changed_record_is_detected(api: Api):
    record = grant(create_hosted_consent(api).pk, 1, EVIDENCE)
    stored = ConsentRecord.objects.get()
    assert bytes(stored.digest) == digest_of(stored, stored.evidence)
    assert digest_of(record, {**stored.evidence, "typedName": "x"}) != record.digest


def test_no_source_is_called_before_consent(api: Api):
    consent = create_hosted_consent(api)
    api.work()
    assert not CheckResult.objects.filter(
        report=consent.report_id, started_at__isnull=False
    ).exists()


def run_while_locked(report_id: Any, first: Any, then: Any) -> Any:
    """Do the second while the first, which is not committed yet, holds the report."""

    def lock_and_do() -> None:
        Report.objects.select_for_update(no_key=True).get(pk=report_id)
        first()

    with uncommitted(lock_and_do):
        second = start_and_block(then)
    return second.result()


@pytest.mark.django_db(transaction=True)
def test_edit_after_a_grant_voids_it(transactional_db, api: Api):
    consent = create_hosted_consent(api, draft=True)
    path = f"/reports/{consent.report_id}/draft"
    run_while_locked(
        consent.report_id,
        lambda: grant(consent.pk, 1, EVIDENCE),
        lambda: api.post(path, {"purpose": "Something else"}),
    )
    assert Consent.objects.get().status == "PENDING"
    refused = api.refused(f"/reports/{consent.report_id}/launch")
    assert refused["reasons"] == ["CONSENT_OUTSTANDING"]


@pytest.mark.django_db(transaction=True)
def test_launch_after_a_withdrawal_is_refused(transactional_db, api: Api):
    consent = create_hosted_consent(api, draft=True)
    grant(consent.pk, 1, EVIDENCE)
    path = f"/reports/{consent.report_id}/launch"
    answer = run_while_locked(
        consent.report_id,
        lambda: withdraw(consent.pk, 1, EVIDENCE, ""),
        lambda: api.post(path),
    )
    assert answer.json()["reasons"] == ["CONSENT_OUTSTANDING"]
    assert status(api, consent) == "DRAFT"


@pytest.mark.django_db(transaction=True)
def test_new_link_after_a_grant_is_refused(transactional_db, api: Api):
    consent = create_hosted_consent(api, draft=True)
    Consent.objects.update(link_made_at=now() - timedelta(minutes=2))
    answer = run_while_locked(
        consent.report_id,
        lambda: grant(consent.pk, 1, EVIDENCE),
        lambda: api.post(f"/reports/{consent.report_id}/consent/resend"),
    )
    assert answer.json()["code"] == "consent-not-resendable"
    assert Consent.objects.get().status == "GRANTED"


def test_edit_of_the_payer_asks_for_consent_again(api: Api):
    consent = create_hosted_consent(api, draft=True)
    grant(consent.pk, 1, EVIDENCE)
    api.post(f"/reports/{consent.report_id}/draft", {"paymentMode": "CANDIDATE"})
    assert Consent.objects.get().status == "PENDING"
