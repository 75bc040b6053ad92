"""Retention: what is erased when, what stays, and what holds a report."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.utils.timezone import now

from monitoring.models import Alert, Rule
from tests.world.clients import HOSTED, Api, person
from tests.world.orders import STATUSES, create_report_with_status
from tests.world.rules import raise_alert, store_rule
from tests.world.staff import change_url, enter_request
from verification.backoffice.models import AuditEvent
from verification.checks.models import CheckResult
from verification.consents.models import Consent
from verification.consents.notices import notice_for
from verification.jobs.models import Job
from verification.notifications.models import Notification
from verification.privacy import retention
from verification.privacy.access import load_reports
from verification.privacy.models import (
    Hold,
    Origin,
    Outcome,
    RequestKind,
    RetentionRun,
    SubjectRequest,
)
from verification.privacy.requests import answer_request, open_request
from verification.privacy.retention import erase_expired_reports, kept_longer
from verification.reports.models import Report, SearchEntry
from webhooks.models import Event
from workspaces.models import Environment, Workspace

DAY = timedelta(days=1)


def age(report_id: str, days: int) -> None:
    """Let the report have ended so many days ago."""
    Report.objects.filter(pk=report_id).update(completed_at=now() - days * DAY)


@pytest.fixture
def ended(api: Api) -> str:
    made = api.create({**person(), "reference": "loan-1"})
    api.work()
    return made["id"]


def test_expired_report_keeps_its_skeleton_and_nothing_else(api: Api, ended: str):
    before = api.report(ended)
    age(ended, 364)
    erase_expired_reports()
    assert api.report(ended)["erasedAt"] is None
    age(ended, 366)

    erase_expired_reports()

    report = api.report(ended)
    assert report["erasedAt"] is not None
    erased = ("subject", "purpose", "reference", "riskScore")
    assert {name: report[name] for name in erased} == dict.fromkeys(erased)
    assert [
        (r["checkName"], r["status"], r["summary"], r["details"], r["score"])
        for r in report["checkResults"]
    ] == [
        (r["checkName"], "COMPLETED", None, None, None) for r in before["checkResults"]
    ]
    kept = ("id", "status", "checksRequested", "paymentState", "createdAt")
    assert {n: report[n] for n in kept} == {n: before[n] for n in kept}
    assert not SearchEntry.objects.exists()
    assert not Event.objects.filter(payload__isnull=False).exists()
    assert not Event.objects.filter(name="report.erased").exists()
    run = RetentionRun.objects.get()
    assert (run.report_count, run.environment) == (1, "sandbox")
    # Erasing twice changes nothing.
    erase_expired_reports()
    assert api.report(ended) == report
    assert RetentionRun.objects.count() == 1


def test_each_environment_has_its_own_retention(
    api: Api, ended: str, workspace: Workspace
):
    workspace.sandbox_retention_days = 30
    workspace.save()
    age(ended, 31)

    erase_expired_reports()

    assert api.report(ended)["erasedAt"] is not None


def test_erased_report_has_no_pdf_and_is_neither_found_nor_reused(api: Api, ended: str):
    age(ended, 366)
    erase_expired_reports()

    answer = api.get(f"/reports/{ended}/pdf")

    assert answer.status_code == 410
    assert answer.json()["code"] == "report-erased"
    for search in ("Wanjiku", "12345678", "loan-1"):
        assert api.get("/reports", search=search).json()["content"] == []
    (listed,) = api.get("/reports").json()["content"]
    assert listed["subjectName"] is None
    again = api.create(person())
    api.work()
    assert [r["reused"] for r in api.report(again["id"])["checkResults"]] == [False] * 3


def test_old_draft_is_cancelled_and_erased(api: Api):
    draft = api.create({**person(), "draft": True})
    Report.objects.filter(pk=draft["id"]).update(updated_at=now() - 366 * DAY)

    erase_expired_reports()

    report = api.report(draft["id"])
    assert (report["status"], report["subject"]) == ("CANCELLED", None)


@pytest.mark.parametrize("change", ["edited", "launched", "ended"])
def test_draft_that_changes_while_a_run_is_interrupted_stays(
    api: Api, monkeypatch, change: str
):
    draft = api.create({**person(), "draft": True})["id"]
    Report.objects.filter(pk=draft).update(updated_at=now() - 366 * DAY)
    with monkeypatch.context() as stopping:
        beats = iter([True])
        stopping.setattr(retention, "beat", lambda: next(beats, False))
        erase_expired_reports()
    assert RetentionRun.objects.filter(report_ids__contains=[draft]).exists()

    if change == "edited":
        api.post(f"/reports/{draft}/draft", {"purpose": "Another loan"})
    else:
        api.post(f"/reports/{draft}/launch")
    if change == "ended":
        api.work()
    retention.finish_open_runs()

    assert api.report(draft)["erasedAt"] is None
    assert not RetentionRun.objects.filter(report_ids__isnull=False).exists()


def leave_alone(workspace: Workspace, days: int) -> None:
    """Let the workspace be suspended, and its reports unchanged, for so many days."""
    workspace.suspend("Unpaid invoices")
    before = now() - days * DAY
    Workspace.objects.filter(pk=workspace.pk).update(suspended_at=before)
    Report.objects.update(updated_at=before)


# The running one last: bringing the others where they are would end it.
UNDER_WAY = sorted(STATUSES[:5], key=lambda status: status == "RUNNING")


def test_reports_that_a_suspension_stopped_are_cancelled_and_erased(
    api: Api, workspace: Workspace
):
    for status in UNDER_WAY:
        create_report_with_status(api, status)
    leave_alone(workspace, 366)

    erase_expired_reports()

    reports = Report.objects.all()
    assert [(one.status, one.subject) for one in reports] == [("CANCELLED", None)] * 5
    assert not CheckResult.objects.filter(next_attempt_at__isnull=False).exists()
    assert RetentionRun.objects.get().report_count == 5
    erase_expired_reports()
    assert RetentionRun.objects.count() == 1


def test_reports_of_a_shorter_suspension_or_none_stay(api: Api, workspace: Workspace):
    for status in UNDER_WAY:
        if status != "DRAFT":
            create_report_with_status(api, status)
    before = [(one.pk, one.status, None) for one in Report.objects.order_by("pk")]
    reports = Report.objects.order_by("pk").values_list("pk", "status", "erased_at")
    leave_alone(workspace, 364)
    erase_expired_reports()
    assert list(reports.all()) == before

    leave_alone(workspace, 400)
    workspace.refresh_from_db()
    workspace.resume()
    erase_expired_reports()

    assert list(reports.all()) == before


def test_hold_keeps_a_report_that_a_suspension_stopped(api: Api, workspace: Workspace):
    report_id = create_report_with_status(api, "RUNNING")
    leave_alone(workspace, 400)
    Hold.objects.create(
        report_id=report_id, reason="A court asks", ends_at=now() + DAY, held_by="staff"
    )

    erase_expired_reports()

    assert Report.objects.get().erased_at is None


def test_rules_of_a_long_suspended_workspace_are_deleted(
    api: Api, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(retention, "BATCH_SIZE", 1)
    store_rule(api)
    store_rule(api)
    leave_alone(workspace, 364)
    erase_expired_reports()
    assert Rule.objects.exists()

    leave_alone(workspace, 366)
    erase_expired_reports()

    assert not Rule.objects.exists()
    assert RetentionRun.objects.count() == 2


def test_hold_keeps_a_report_until_it_ends_or_is_released(api: Api, ended: str):
    age(ended, 400)
    hold = Hold.objects.create(
        report_id=ended, reason="A court asks", ends_at=now() + DAY, held_by="staff"
    )
    erase_expired_reports()
    assert api.report(ended)["erasedAt"] is None

    hold.released_at, hold.released_by = now(), "staff"
    hold.save()
    erase_expired_reports()

    assert api.report(ended)["erasedAt"] is not None


def test_request_for_the_data_keeps_a_report_until_it_is_answered(api: Api, ended: str):
    report = Report.objects.get(pk=ended)
    for kind in RequestKind:
        asked = open_request(kind, Origin.STAFF, requested_by="grace", report=report)
        (shown,) = load_reports([report], now())
        is_kept = kind not in {RequestKind.ERASURE, RequestKind.OBJECTION}

        assert bool(kept_longer([report], now())) == is_kept == shown.is_held, kind

        answer_request(asked, Outcome.DONE)
        assert not kept_longer([report], now())
    open_request(RequestKind.ACCESS, Origin.STAFF, requested_by="grace", report=report)
    age(ended, 400)
    erase_expired_reports()
    assert api.report(ended)["erasedAt"] is None


def test_open_join_keeps_a_report_outside_the_sandbox_alone(api: Api, ended: str):
    report = Report.objects.get(pk=ended)
    enter_request(report, origin=Origin.SUBJECT, proved_address=b"digest")
    assert kept_longer([report], now()) == set()

    SubjectRequest.objects.update(environment=Environment.PRODUCTION)

    assert kept_longer([report], now()) == {report.pk}


def test_database_refuses_an_erased_report_with_a_name(api: Api, ended: str):
    age(ended, 366)
    erase_expired_reports()

    for column in ("subject_name", "purpose", "search_name"):
        unnamed = pytest.raises(IntegrityError, match="erased_report_names_nobody")
        with unnamed, transaction.atomic():
            Report.objects.filter(pk=ended).update(**{column: "Wanjiku"})


def end_long_ago(api: Api, count: int) -> None:
    """Create reports whose retention was over yesterday."""
    api.create(*[person(idNumber=str(20_000_000 + n)) for n in range(count)])
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE checks_checkresult SET status = 'COMPLETED', completed_at = now(),
            next_attempt_at = NULL"""
        )
        cursor.execute(
            """UPDATE reports_report SET status = 'READY',
            completed_at = now() - interval '366 days'"""
        )


def test_more_reports_than_a_batch_are_erased(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    end_long_ago(api, 5)
    monkeypatch.setattr(retention, "BATCH_SIZE", 2)

    erase_expired_reports()

    # All batches belong to one run.
    assert RetentionRun.objects.count() == 1
    assert not Report.objects.filter(erased_at=None).exists()
    assert not CheckResult.objects.filter(question__isnull=False).exists()
    assert not Notification.objects.filter(recipient__isnull=False).exists()


def test_job_goes_on_in_another_run_when_its_time_is_up(
    api: Api, monkeypatch: pytest.MonkeyPatch
):
    end_long_ago(api, 5)
    monkeypatch.setattr(retention, "JOB_SECONDS", 0.0)

    erase_expired_reports()

    waiting = Job.objects.values_list("function", flat=True)
    assert "verification.privacy.retention.erase_expired_reports" in waiting


def test_database_refuses_a_retention_beyond_its_limits(workspace: Workspace):
    for days in (
        {"retention_days": 6},
        {"sandbox_retention_days": 0},
        {"retention_days": 3651},
    ):
        limits = pytest.raises(IntegrityError, match="retention_has_limits")
        with limits, transaction.atomic():
            Workspace.objects.filter(pk=workspace.pk).update(**days)


def test_staff_read_how_many_reports_fewer_days_erase(
    workspace: Workspace, ended: str, superuser: Client
):
    age(ended, 100)
    typed = {
        "name": workspace.name,
        "retention_days": "7",
        "sandbox_retention_days": "30",
    }

    html = superuser.post(change_url(workspace), typed).content.decode()

    assert "1 sandbox reports will be erased within hours" in html
    workspace.refresh_from_db()
    assert workspace.sandbox_retention_days == 365

    assert superuser.post(change_url(workspace), {**typed, "erases": "on"})
    workspace.refresh_from_db()
    assert (workspace.retention_days, workspace.sandbox_retention_days) == (7, 30)
    event = AuditEvent.objects.get(action="workspace.changed")
    assert event.fields == ["retention_days", "sandbox_retention_days"]


def test_alerts_are_erased_with_their_report(api: Api, ended: str):
    raise_alert(api, report_id=ended)
    age(ended, 366)

    erase_expired_reports()

    assert not Alert.objects.exists()


def test_notices_name_the_days_of_their_environment(api: Api, workspace: Workspace):
    workspace.change_retention(365, 30)
    made = api.create({**person(), "consent": HOSTED})["id"]

    notice = notice_for(Consent.objects.get(report=made), "en")

    assert "30 days" in notice.text
    assert "365" not in notice.text


def test_subject_reads_the_end_that_the_retention_keeps_to(
    api: Api, ended: str, workspace: Workspace
):
    workspace.change_retention(3650, 3650)
    report = Report.objects.get(pk=ended)

    (one,) = load_reports([report], now())

    assert report.completed_at is not None
    assert one.kept_until == report.completed_at + timedelta(365)


def test_notice_of_an_earlier_report_names_its_earlier_days(
    api: Api, workspace: Workspace
):
    made = api.create({**person(), "consent": HOSTED})["id"]
    workspace.change_retention(3650, 3650)

    notice = notice_for(Consent.objects.get(report=made), "en")

    assert "365 days" in notice.text


def test_announced_number_counts_old_drafts(api: Api, workspace: Workspace, ended: str):
    draft = api.create({**person(), "draft": True})["id"]
    age(ended, 40)
    Report.objects.filter(pk=draft).update(updated_at=now() - timedelta(40))

    assert retention.count_expired(workspace, "sandbox", 30) == 2
