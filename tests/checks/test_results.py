from dataclasses import fields

import pytest

from tests.checks.engine import (
    FAILED,
    FINDING,
    definitions,
    events,
    found,
    ledger_totals,
    only_result,
    snapshot_tables,
    work_until_done,
)
from tests.world.clients import HOSTED, person
from tests.world.threads import start_and_block, uncommitted
from verification.checks.due_checks import claim
from verification.checks.events import FlagBody
from verification.checks.models import CheckResult
from verification.checks.results import Completed, Failed, record_outcomes
from verification.consents.models import Consent
from verification.consents.subject_decisions import Evidence, grant
from verification.privacy.withdrawals import withdraw
from verification.providers.base import Flag
from verification.reports.models import StatusChange
from verification.reports.status import ENGINE
from webhooks.models import Event
from workspaces.models import Account, LedgerEntry

FOUND = found(5)


def take_place_of_event(api, name, cause):
    """Take the place of an event that is to come: its insert is refused."""
    Event.objects.create(
        workspace=api.workspace, environment="sandbox", name=name, cause=cause
    )


def one_check(number=0):
    return person(idNumber=str(20000000 + number)) | {"checksRequested": ["IDENTITY"]}


def test_flag_of_an_event_has_the_members_of_a_finding():
    assert {field.name for field in fields(Flag)} == set(FlagBody.model_fields)


def test_outcome_is_recorded_with_report_money_and_events(api):
    ordered = api.create(one_check())
    (claimed,) = claim(1)

    record_outcomes([(claimed, FAILED)], definitions())

    result = only_result()
    report = result.report
    change = StatusChange.objects.get(report=report, target="FAILED")
    entry = LedgerEntry.objects.get(kind="REVERSAL")
    last = Event.objects.exclude(name="report.created")
    assert report.status == "FAILED"
    assert (entry.result_id, entry.actor) == (result.pk, ENGINE)
    assert events() == [
        ("check.failed", f"{result.pk}:1"),
        ("report.created", ordered["id"]),
        ("report.failed", f"{ordered['id']}:1"),
    ]
    assert {
        result.completed_at,
        report.completed_at,
        change.created_at,
        entry.created_at,
        *last.values_list("created_at", flat=True),
    } == {result.completed_at}


@pytest.mark.parametrize("name", ["check.failed", "report.failed"])
def test_outcome_is_not_recorded_without_its_event(api, name):
    ordered = api.create(one_check())
    (claimed,) = claim(1)
    cause = claimed.result_id if name == "check.failed" else ordered["id"]
    take_place_of_event(api, name, f"{cause}:1")
    before, balance = snapshot_tables(), api.account.balance

    record_outcomes([(claimed, FAILED)], definitions())

    assert snapshot_tables() == before
    assert api.account.balance == balance
    assert not StatusChange.objects.filter(target="FAILED").exists()


def test_outcome_is_not_recorded_without_its_reversal(api):
    api.create(one_check())
    (claimed,) = claim(1)
    LedgerEntry.objects.create(
        account=api.account,
        kind="REVERSAL",
        amount=1,
        result_id=claimed.result_id,
        attempt=1,
        actor="tests",
    )
    before = snapshot_tables()

    record_outcomes([(claimed, FAILED)], definitions())

    assert snapshot_tables() == before


@pytest.mark.parametrize(
    "bad",
    [
        FOUND,
        Completed("high", FINDING),
        Completed(101, FINDING),
        Completed(5, FINDING | {"details": {"seen": object()}}),
        Completed(5, {}),
        Failed("ACME\0DOWN", "", retryable=True),
    ],
    ids=[
        "event refused",
        "a word for a score",
        "score out of range",
        "no JSON",
        "no summary",
        "NUL",
    ],
)
def test_bad_outcome_does_not_stop_the_others(api, bad):
    api.create(*[one_check(number) for number in range(3)])
    claims = claim(3)
    if bad is FOUND:
        take_place_of_event(api, "check.completed", f"{claims[1].result_id}:1")

    before, middle, after = ((claimed, FOUND) for claimed in claims)
    record_outcomes([before, (middle[0], bad), after], definitions())

    still = CheckResult.objects.get(status="RUNNING")
    assert still.pk == claims[1].result_id
    assert still.claims == 1
    assert CheckResult.objects.filter(status="COMPLETED").count() == 2
    assert Event.objects.filter(name="report.ready").count() == 2


def test_outcome_that_is_never_recorded_fails_the_check(api):
    api.create(one_check())
    take_place_of_event(api, "check.completed", f"{only_result().pk}:1")

    work_until_done(api)

    assert only_result().failure_code == "ENGINE_GAVE_UP"
    assert ledger_totals() == {"CHARGE": -50, "REVERSAL": 50}


def test_failed_recording_is_logged_without_the_message(api, log_lines):
    api.create(one_check())
    (claimed,) = claim(1)

    secret = Failed("ACME_DOWN", "Wanjiku" * 50, retryable=True)
    record_outcomes([(claimed, secret)], definitions())

    logged = str(log_lines())
    assert f"recording of checks: {claimed.result_id} failed: DataError" in logged
    assert "Wanjiku" not in logged


def test_batch_takes_a_bounded_number_of_statements(api, django_assert_max_num_queries):
    api.create(*[one_check(number) for number in range(40)])
    known = definitions()
    few, many = claim(2), claim(38)

    with django_assert_max_num_queries(10):
        record_outcomes([(claimed, FAILED) for claimed in few], known)
    with django_assert_max_num_queries(10):
        record_outcomes([(claimed, FAILED) for claimed in many], known)


def test_empty_batch_takes_no_statement(db, django_assert_num_queries):
    with django_assert_num_queries(0):
        record_outcomes([], {})


def test_each_run_of_a_check_has_its_own_event(api):
    ordered = api.create(one_check())
    (claimed,) = claim(1)
    record_outcomes([(claimed, FAILED)], definitions())
    api.post(f"/reports/{ordered['id']}/retry")
    (claimed,) = claim(1)

    record_outcomes([(claimed, FOUND)], definitions())

    result = only_result().pk
    assert events() == [
        ("check.completed", f"{result}:2"),
        ("check.failed", f"{result}:1"),
        ("report.created", ordered["id"]),
        ("report.failed", f"{ordered['id']}:1"),
        ("report.ready", f"{ordered['id']}:2"),
    ]


def test_report_paid_by_its_subject_has_no_reversal(api):
    api.create(one_check() | {"paymentMode": "SELF"})
    (claimed,) = claim(1)
    report = claimed.report
    type(report).objects.filter(pk=report.pk).update(payment_mode="CANDIDATE")

    record_outcomes([(claimed, FAILED)], definitions())

    assert only_result().status == "FAILED"
    assert not LedgerEntry.objects.filter(kind="REVERSAL").exists()


def test_outcomes_of_many_workspaces_are_recorded_together(api, another_api, live_api):
    api.create(one_check())
    another_api.create(one_check())

    record_outcomes([(claimed, FAILED) for claimed in claim(10)], definitions())

    for account in Account.objects.all():
        assert account.balance == 0
    assert LedgerEntry.objects.filter(kind="REVERSAL").count() == 2


def test_check_that_took_months_is_recorded(api):
    api.create(one_check())
    CheckResult.objects.update(started_at="2020-01-01T00:00:00Z")

    record_outcomes([(claimed, FOUND) for claimed in claim(1)], definitions())

    assert only_result().status == "COMPLETED"
    assert only_result().duration_ms == 2**31 - 1


@pytest.mark.django_db(transaction=True)
def test_event_has_the_consent_status_at_the_lock(api):
    one_check = person() | {"checksRequested": ["IDENTITY"], "consent": HOSTED}
    api.create(one_check, one_check)
    kept, withdrawn = Consent.objects.order_by("pk")
    for consent in (kept, withdrawn):
        grant(consent.pk, 1, Evidence(typed_name="Wanjiku Kamau"))
    claims = claim(2)

    with uncommitted(lambda: withdraw(withdrawn.pk, 1, Evidence(), "")):
        recording = start_and_block(
            lambda: record_outcomes([(one, found(5)) for one in claims], definitions())
        )
    recording.result()

    ends = Event.objects.filter(name="check.completed")
    assert {e.report_id: e.payload["report"]["consentStatus"] for e in ends} == {
        kept.report_id: "GRANTED",
        withdrawn.report_id: "WITHDRAWN",
    }
