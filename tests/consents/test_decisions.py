import threading
import time
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine
from django.db import DatabaseError, transaction
from django.utils.timezone import now

from tests.world.clients import HOSTED, Api, company, person
from tests.world.threads import at_once
from verification.checks.models import CheckResult
from verification.consents.decisions import (
    ConsentClosed,
    NotSigned,
    decline,
    grant,
    withdraw,
)
from verification.consents.links import consent_links, expire_consents
from verification.consents.models import Consent, ConsentRecord
from verification.consents.records import Evidence, digest_of
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


def hosted(api: Api, **more: Any) -> Consent:
    made = api.create({**person(), "consent": HOSTED}, **more)
    return Consent.objects.get(report=made["id"])


def status(api: Api, consent: Consent) -> str:
    return api.report(str(consent.report_id))["status"]


def money() -> dict[str, int]:
    kinds = LedgerEntry.objects.values_list("kind", flat=True)
    return {kind: list(kinds).count(kind) for kind in set(kinds)}


def events() -> list[str]:
    return sorted(Event.objects.values_list("name", flat=True))


def test_a_granted_report_runs_at_once_and_gets_ready(api: Api):
    consent = hosted(api)
    record = grant(consent.pk, 1, EVIDENCE)
    assert status(api, consent) == "RUNNING"
    api.work()
    assert status(api, consent) == "READY"
    assert record.evidence["typedName"] == "Wanjiku Kamau"
    assert record.evidence["checks"] == ["IDENTITY", "KRA_PIN", "CRB_SCORE"]
    assert record.evidence["purpose"] == "Loan application"
    assert record.language == "sw"


def with_birthday(consent: Consent, born: str) -> Consent:
    """The consent, of a report with this birthday, which the API may refuse by now."""
    report = consent.report
    report.subject = {**report.subject, "dateOfBirth": born}
    report.save()
    return consent


@pytest.mark.parametrize(
    ("at", "may_grant"),
    [("2026-11-22T20:59:59Z", False), ("2026-11-22T21:00:01Z", True)],
)
def test_a_subject_can_grant_from_the_18th_birthday_in_nairobi(
    api: Api, at: str, may_grant: bool
):
    with time_machine.travel(datetime.fromisoformat(at), tick=False):
        consent = with_birthday(hosted(api), "2008-11-23")
        if may_grant:
            grant(consent.pk, 1, EVIDENCE)
        else:
            with pytest.raises(ConsentClosed, match="UNDER_AGE"):
                grant(consent.pk, 1, EVIDENCE)
    assert ConsentRecord.objects.count() == may_grant


def test_who_was_born_on_29_february_is_18_on_1_march(api: Api):
    consent = with_birthday(hosted(api), "2008-02-29")
    with time_machine.travel(datetime.fromisoformat("2026-02-28T12:00:00Z")):
        Consent.objects.update(expires_at=now() + timedelta(days=9))
        with pytest.raises(ConsentClosed, match="UNDER_AGE"):
            grant(consent.pk, 1, EVIDENCE)
    with time_machine.travel(datetime.fromisoformat("2026-03-01T12:00:00Z")):
        grant(consent.pk, 1, EVIDENCE)


def test_a_subject_under_18_can_decline_and_the_client_learns_why(api: Api):
    consent = with_birthday(hosted(api), "2013-05-01")
    decline(consent.pk, 1, replace(EVIDENCE, typed_name=""), "UNDER_AGE")
    report = api.report(str(consent.report_id))
    assert report["failure"] == {
        "code": "CONSENT_DECLINED",
        "message": "The subject is under 18; a parent or guardian has to consent.",
    }
    assert report["consentState"]["reason"] == "UNDER_AGE"


def test_the_client_reads_the_reason_that_the_subject_gave(api: Api):
    consent = hosted(api)
    decline(consent.pk, 1, EVIDENCE, "I did not apply")
    assert api.report(str(consent.report_id))["consentState"]["reason"] == (
        "I did not apply"
    )
    withdrawn = hosted(api)
    grant(withdrawn.pk, 1, EVIDENCE)
    withdraw(withdrawn.pk, 1, EVIDENCE, "")
    state = api.get(f"/reports/{withdrawn.report_id}/consent/state").json()
    assert (state["status"], state["reason"]) == ("WITHDRAWN", None)


@pytest.mark.parametrize(
    ("known", "typed", "is_taken"),
    [
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
    ],
)
def test_a_signature_is_like_the_name_of_the_subject(
    api: Api, known: str, typed: str, is_taken: bool
):
    made = api.create({**person(fullName=known), "consent": HOSTED})
    consent = Consent.objects.get(report=made["id"])
    evidence = replace(EVIDENCE, typed_name=typed)
    if is_taken:
        grant(consent.pk, 1, evidence)
    else:
        with pytest.raises(NotSigned):
            grant(consent.pk, 1, evidence)
    assert ConsentRecord.objects.count() == is_taken


def test_who_decides_for_a_company_needs_a_position(api: Api):
    made = api.create({**company(), "consent": HOSTED})
    consent = Consent.objects.get(report=made["id"])
    with pytest.raises(NotSigned):
        grant(consent.pk, 1, EVIDENCE)
    record = grant(consent.pk, 1, replace(EVIDENCE, position="Director"))
    assert record.evidence["position"] == "Director"


def test_a_granted_report_that_somebody_else_pays_waits_for_the_payment(api: Api):
    item = {**person(), "consent": HOSTED, "paymentMode": "CANDIDATE"}
    consent = Consent.objects.get(report=api.create(item)["id"])
    grant(consent.pk, 1, EVIDENCE)
    assert status(api, consent) == "PENDING_PAYMENT"
    api.work()
    assert status(api, consent) == "PENDING_PAYMENT"


def test_a_granted_draft_can_be_launched(api: Api):
    consent = hosted(api, draft=True)
    path = f"/reports/{consent.report_id}/launch"
    assert api.refused(path)["reasons"] == ["CONSENT_OUTSTANDING"]
    grant(consent.pk, 1, EVIDENCE)
    assert status(api, consent) == "DRAFT"
    assert api.post(path).status_code == 200


def test_a_declined_report_has_failed_and_costs_nothing(paying_api: Api):
    consent = hosted(paying_api)
    decline(consent.pk, 1, EVIDENCE, "I did not apply")
    report = paying_api.report(str(consent.report_id))
    assert report["status"] == "FAILED"
    assert report["failure"]["code"] == "CONSENT_DECLINED"
    assert report["consentState"]["status"] == "DECLINED"
    assert {r["status"] for r in report["checkResults"]} == {"CANCELLED"}
    assert money() == {"TOP_UP": 1, "CHARGE": 3, "REVERSAL": 3}
    assert paying_api.account.balance == MONEY
    assert events() == ["report.created", "report.failed"]


def test_a_declined_draft_stays_one(api: Api):
    consent = hosted(api, draft=True)
    decline(consent.pk, 1, EVIDENCE, "")
    assert status(api, consent) == "DRAFT"
    assert events() == ["report.created"]


def test_a_consent_withdrawn_in_time_stops_what_was_not_asked(paying_api: Api):
    consent = hosted(paying_api)
    grant(consent.pk, 1, EVIDENCE)
    withdraw(consent.pk, 1, EVIDENCE, "")
    report = paying_api.report(str(consent.report_id))
    assert report["status"] == "CANCELLED"
    assert {r["status"] for r in report["checkResults"]} == {"CANCELLED"}
    assert paying_api.account.balance == MONEY
    paying_api.work()
    assert paying_api.report(str(consent.report_id)) == report


def test_a_consent_withdrawn_late_leaves_what_was_found(api: Api):
    consent = hosted(api)
    grant(consent.pk, 1, EVIDENCE)
    api.work()
    record = withdraw(consent.pk, 1, EVIDENCE, "")
    report = api.report(str(consent.report_id))
    assert (report["status"], report["consentState"]["status"]) == (
        "READY",
        "WITHDRAWN",
    )
    assert record.evidence["made"] == "all"


def test_what_was_not_granted_cannot_be_withdrawn(api: Api):
    consent = hosted(api)
    with pytest.raises(ConsentClosed, match="PENDING"):
        withdraw(consent.pk, 1, EVIDENCE, "")


def test_a_report_whose_consent_was_withdrawn_is_not_retried(paying_api: Api):
    consent = hosted(paying_api)
    grant(consent.pk, 1, EVIDENCE)
    paying_api.work()  # no live source: all of them fail
    withdraw(consent.pk, 1, EVIDENCE, "")
    refused = paying_api.refused(f"/reports/{consent.report_id}/retry")
    assert refused["code"] == "report-not-retryable"


@pytest.mark.parametrize("verb", [grant, lambda *a: decline(*a, "")])
def test_the_same_answer_twice_is_one_answer(api: Api, verb: Any):
    consent = hosted(api)
    first = verb(consent.pk, 1, EVIDENCE)
    assert verb(consent.pk, 1, EVIDENCE) == first
    assert ConsentRecord.objects.count() == 1


def test_the_other_answer_comes_too_late(api: Api):
    consent = hosted(api)
    grant(consent.pk, 1, EVIDENCE)
    with pytest.raises(ConsentClosed, match="GRANTED"):
        decline(consent.pk, 1, EVIDENCE, "")


@pytest.mark.django_db(transaction=True)
def test_of_a_grant_and_a_refusal_at_once_one_wins(transactional_db, api: Api):
    consent = hosted(api)

    def either(number: int) -> str:
        if number % 2:
            return grant(consent.pk, 1, EVIDENCE).happened
        return decline(consent.pk, 1, EVIDENCE, "").happened

    answers = at_once(6, either)
    said = {answer for answer in answers if isinstance(answer, str)}
    assert len(said) == 1
    assert sum(isinstance(answer, ConsentClosed) for answer in answers) == 3
    assert ConsentRecord.objects.count() == 1


def test_a_report_that_was_cancelled_takes_no_consent(api: Api):
    consent = hosted(api)
    api.post(f"/reports/{consent.report_id}/cancel")
    with pytest.raises(ConsentClosed, match="REPORT_ENDED"):
        grant(consent.pk, 1, EVIDENCE)


def test_a_link_that_was_replaced_takes_no_consent(api: Api):
    consent = hosted(api)
    Consent.objects.update(link_made_at=now() - timedelta(minutes=2))
    before = api.get(f"/reports/{consent.report_id}/consent/state").json()
    answer = api.post(f"/reports/{consent.report_id}/consent/resend")
    assert answer.status_code == 200
    assert answer.json()["consentUrl"] != before["consentUrl"]
    with pytest.raises(ConsentClosed, match="REPLACED"):
        grant(consent.pk, 1, EVIDENCE)
    grant(consent.pk, 2, EVIDENCE)


def test_a_link_is_made_once_a_minute_at_most(api: Api):
    consent = hosted(api)
    path = f"/reports/{consent.report_id}/consent/resend"
    answer = api.post(path)
    assert (answer.status_code, answer.json()["code"]) == (429, "rate-limited")
    assert 1 <= int(answer["Retry-After"]) <= 60


@pytest.mark.parametrize("item", [person(), company()])
def test_who_is_not_asked_gets_no_link(api: Api, item: Any):
    report_id = api.create(item)["id"]
    refused = api.refused(f"/reports/{report_id}/consent/resend")
    assert refused["code"] == "consent-not-resendable"


def test_another_workspace_cannot_send_a_link(api: Api, another_api: Api):
    consent = hosted(api)
    refused = another_api.refused(f"/reports/{consent.report_id}/consent/resend")
    assert refused["code"] == "not-found"


def test_a_link_that_nobody_answers_expires_and_the_report_has_failed(paying_api: Api):
    consent = hosted(paying_api)
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
    assert ConsentRecord.objects.get().happened == "EXPIRED"


def test_a_link_that_cannot_be_closed_holds_up_no_other(api: Api):
    bad, good = hosted(api), hosted(api)
    Event.objects.create(
        workspace=api.workspace,
        environment="sandbox",
        name="report.failed",
        cause=f"{bad.report_id}:consent:1",
    )
    Consent.objects.update(expires_at=now())

    expire_consents()

    assert status(api, bad) == "PENDING_CONSENT"
    assert status(api, good) == "FAILED"


def test_a_draft_whose_link_expired_can_have_another(api: Api):
    consent = hosted(api, draft=True)
    later = now() + timedelta(days=15)
    Consent.objects.update(expires_at=now(), link_made_at=now() - timedelta(days=14))
    expire_consents()
    assert status(api, consent) == "DRAFT"
    with time_machine.travel(later):
        state = api.post(f"/reports/{consent.report_id}/consent/resend").json()
        assert state["status"] == "PENDING"
        grant(consent.pk, 2, EVIDENCE)


def test_a_record_cannot_be_changed_and_its_evidence_can_be_erased(api: Api):
    grant(hosted(api).pk, 1, EVIDENCE)
    records = ConsentRecord.objects.all()
    for change in ({"language": "en"}, {"created_at": now()}, {"evidence": b"other"}):
        with pytest.raises(DatabaseError), transaction.atomic():
            records.update(**change)
    with pytest.raises(DatabaseError), transaction.atomic():
        records.delete()
    assert records.update(evidence=None) == 1


def test_a_record_shows_when_somebody_changed_it(api: Api):
    record = grant(hosted(api).pk, 1, EVIDENCE)
    stored = ConsentRecord.objects.get()
    assert bytes(stored.digest) == digest_of(stored, stored.evidence)
    assert digest_of(record, {**stored.evidence, "typedName": "x"}) != record.digest


def test_nothing_is_asked_before_consent(api: Api):
    consent = hosted(api)
    api.work()
    assert not CheckResult.objects.filter(
        report=consent.report_id, started_at__isnull=False
    ).exists()


def while_held(report_id: Any, first: Any, then: Any) -> list[Any]:
    """Do the second while the first, which is not committed yet, holds the report."""
    done = threading.Event()

    def either(number: int) -> Any:
        if number:
            done.wait(5)
            return then()
        with transaction.atomic():
            Report.objects.select_for_update(no_key=True).get(pk=report_id)
            first()
            done.set()
            time.sleep(0.4)
        return None

    return at_once(2, either)


@pytest.mark.django_db(transaction=True)
def test_an_edit_that_waited_for_a_grant_voids_it(transactional_db, api: Api):
    consent = hosted(api, draft=True)
    path = f"/reports/{consent.report_id}/draft"
    while_held(
        consent.report_id,
        lambda: grant(consent.pk, 1, EVIDENCE),
        lambda: api.post(path, {"purpose": "Something else"}),
    )
    assert Consent.objects.get().status == "PENDING"
    refused = api.refused(f"/reports/{consent.report_id}/launch")
    assert refused["reasons"] == ["CONSENT_OUTSTANDING"]


@pytest.mark.django_db(transaction=True)
def test_a_launch_that_waited_for_a_withdrawal_is_refused(transactional_db, api: Api):
    consent = hosted(api, draft=True)
    grant(consent.pk, 1, EVIDENCE)
    path = f"/reports/{consent.report_id}/launch"
    _, answer = while_held(
        consent.report_id,
        lambda: withdraw(consent.pk, 1, EVIDENCE, ""),
        lambda: api.post(path),
    )
    assert answer.json()["reasons"] == ["CONSENT_OUTSTANDING"]
    assert status(api, consent) == "DRAFT"


@pytest.mark.django_db(transaction=True)
def test_a_new_link_that_waited_for_a_grant_is_refused(transactional_db, api: Api):
    consent = hosted(api, draft=True)
    Consent.objects.update(link_made_at=now() - timedelta(minutes=2))
    _, answer = while_held(
        consent.report_id,
        lambda: grant(consent.pk, 1, EVIDENCE),
        lambda: api.post(f"/reports/{consent.report_id}/consent/resend"),
    )
    assert answer.json()["code"] == "consent-not-resendable"
    assert Consent.objects.get().status == "GRANTED"


def test_who_is_to_pay_is_shown_and_so_a_change_of_it_asks_anew(api: Api):
    consent = hosted(api, draft=True)
    grant(consent.pk, 1, EVIDENCE)
    api.post(f"/reports/{consent.report_id}/draft", {"paymentMode": "CANDIDATE"})
    assert Consent.objects.get().status == "PENDING"
