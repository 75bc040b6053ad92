import pytest
from django.db import Error, IntegrityError, connection, transaction
from django.utils.timezone import now

from tests.world.clients import Api, company
from tests.world.orders import create_report_with_status
from tests.world.threads import run_at_once
from verification.checks.models import CheckDefinition, CheckResult
from verification.consents.models import Consent
from verification.payments.models import Payment
from verification.reports.models import Report, ReportStatus, StatusChange
from verification.reports.status import InvalidTransition, Transition, apply_transitions
from workspaces.models import LedgerEntry

ENDED = {"READY", "FAILED", "CANCELLED"}
# Every move of the contract; PARTIAL to PARTIAL is a retry, or the end of one.
MOVES = {
    "DRAFT": "RUNNING CANCELLED",
    "PENDING_CONSENT": "PENDING_PAYMENT RUNNING FAILED CANCELLED",
    "PENDING_PAYMENT": "RUNNING FAILED CANCELLED",
    "RUNNING": "PARTIAL READY FAILED CANCELLED",
    "PARTIAL": "RUNNING PARTIAL READY FAILED CANCELLED",
    "READY": "RUNNING PARTIAL",
    "FAILED": "RUNNING PARTIAL",
}
LEGAL = {(source, t) for source, targets in MOVES.items() for t in targets.split()}


def create_report_in(api: Api, status: str) -> Report:
    CheckDefinition.objects.update(price=0)
    report = api.create(company(), draft=True)
    Report.objects.filter(pk=report["id"]).update(
        status=status,
        launched_at=None if status == "DRAFT" else now(),
        completed_at=now() if status in ENDED else None,
    )
    return Report.objects.get(pk=report["id"])


def apply_move(report: Report, target: str) -> None:
    changes = {
        "completed_at": now() if target in ENDED else None,
        "launched_at": report.launched_at or now(),
    }
    apply_transitions([Transition(report, target, "tested", "test", changes)], now())


def test_transitions_name_every_status():
    targets = {target for _, target in LEGAL}

    assert {s: set(t.split()) for s, t in MOVES.items()} == Report.TRANSITIONS
    assert set(Report.TRANSITIONS) | {"CANCELLED"} == set(ReportStatus.values)
    assert targets | {"DRAFT", "PENDING_CONSENT"} == set(ReportStatus.values)
    assert "CANCELLED" not in Report.TRANSITIONS


def test_every_move_follows_the_transitions(api: Api):
    for source in ReportStatus.values:
        report = create_report_in(api, source)
        legal = {target for of, target in LEGAL if of == source}
        for target in {*ReportStatus.values} - legal:
            with pytest.raises(InvalidTransition, match=f"{source} cannot become"):
                apply_move(report, target)
            assert Report.objects.get(pk=report.pk).status == source
        assert not report.status_changes.filter(trigger="tested").exists()
        for target in legal:
            with transaction.atomic():
                report.refresh_from_db()
                apply_move(report, target)
                assert report.status == target
                assert Report.objects.get(pk=report.pk).status == target
                change = report.status_changes.get(trigger="tested")
                assert (change.source, change.target) == (source, target)
                assert change.actor == "test"
                transaction.set_rollback(True)


def test_moves_are_made_all_or_none(api: Api):
    good, stale = create_report_in(api, "RUNNING"), create_report_in(api, "RUNNING")
    apply_move(Report.objects.get(pk=stale.pk), "CANCELLED")
    changes = {"completed_at": now()}

    with pytest.raises(InvalidTransition), transaction.atomic():
        apply_transitions(
            [Transition(r, "READY", "tested", "test", changes) for r in (good, stale)],
            now(),
        )

    statuses = [Report.objects.get(pk=r.pk).status for r in (good, stale)]
    assert statuses == ["RUNNING", "CANCELLED"]


@pytest.mark.django_db(transaction=True)
def test_one_of_two_concurrent_moves_wins(api: Api):
    report = create_report_in(api, "RUNNING")
    copies = [Report.objects.get(pk=report.pk) for _ in range(6)]

    answers = run_at_once(
        6, lambda n: apply_move(copies[n], ["READY", "CANCELLED"][n % 2])
    )

    assert answers.count(None) == 1
    assert sum(isinstance(a, InvalidTransition) for a in answers) == 5
    assert report.status_changes.filter(trigger="tested").count() == 1


@pytest.mark.django_db(transaction=True)
def test_status_changes_are_append_only(api: Api):
    api.create(company())
    for sql in [
        "UPDATE reports_statuschange SET trigger = 'x'",
        "DELETE FROM reports_statuschange",
        "TRUNCATE reports_statuschange",
        "UPDATE workspaces_ledgerentry SET amount = -1",
        "DELETE FROM workspaces_ledgerentry",
    ]:
        with pytest.raises(Error, match="append-only"), transaction.atomic():
            connection.cursor().execute(sql)

        assert StatusChange.objects.count() == LedgerEntry.objects.count() == 1, sql


IMPOSSIBLE = [
    (Report, "READY", {"completed_at": None}, "report_completed_at_tells_its_end"),
    (Report, "RUNNING", {"completed_at": now()}, "report_completed_at_tells_its_end"),
    (Report, "DRAFT", {"launched_at": now()}, "report_launched_at_unless_draft"),
    (Report, "RUNNING", {"launched_at": None}, "report_launched_at_unless_draft"),
    (Report, "READY", {"risk_score": 101}, "report_risk_score_0_to_100"),
    (CheckResult, "READY", {"completed_at": None}, "result_completed_at_iff_ended"),
    (
        CheckResult,
        "READY",
        {"next_attempt_at": now()},
        "only_unfinished_results_are_due",
    ),
    (CheckResult, "READY", {"score": 101}, "result_score_0_to_100"),
    (CheckResult, "READY", {"failure_code": "SOURCE_DOWN"}, "failed_results_say_why"),
    (CheckResult, "FAILED", {"failure_code": ""}, "failed_results_say_why"),
    (CheckResult, "READY", {"name": "IDENTITY"}, "a_report_has_each_check_once"),
    (CheckResult, "RUNNING", {"completed_at": now()}, "result_completed_at_iff_ended"),
    (Consent, "PENDING_CONSENT", {"token_digest": None}, "hosted_consent_has_a_link"),
    (Consent, "PENDING_CONSENT", {"expires_at": None}, "hosted_consent_has_a_link"),
    (Consent, "RUNNING", {"token_digest": b"x"}, "hosted_consent_has_a_link"),
    (
        Consent,
        "RUNNING",
        {"attestation": None},
        "an_attested_consent_has_its_attestation",
    ),
    (Payment, "PENDING_PAYMENT", {"status": "PAID"}, "paid_at_iff_paid"),
    (Payment, "PENDING_PAYMENT", {"paid_at": now()}, "paid_at_iff_paid"),
    (Payment, "PENDING_PAYMENT", {"amount": -1}, "payment_amount_is_not_negative"),
]


def test_database_refuses_impossible_reports(api: Api):
    # The running one last: bringing the others where they are would end it.
    statuses = sorted({status for _, status, _, _ in IMPOSSIBLE} - {"RUNNING"})
    made = {
        status: create_report_with_status(api, status)
        for status in (*statuses, "RUNNING")
    }
    for model, status, change, constraint in IMPOSSIBLE:
        rows = model.objects.filter(
            **{"pk" if model is Report else "report": made[status]}
        )
        assert rows.exists()
        with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
            rows.update(**change)
