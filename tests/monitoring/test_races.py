"""Several clusters, clients and subjects at the same moment."""

from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction

from monitoring.alerts import compare_runs
from monitoring.models import Alert, Rule, RuleStatus, Run
from monitoring.pauses import notify_paused, pause_for_withdrawal
from monitoring.runs import launch_due_runs, launch_rules
from tests.world.clients import Api, person
from tests.world.clients import workspace as workspace
from tests.world.members import create_member
from tests.world.orders import _the_ledger_adds_up as _the_ledger_adds_up
from tests.world.rules import (
    CHANGING,
    create_rule,
    move_rules_back,
    raise_alert,
    rule_request,
    store_rule,
)
from tests.world.threads import (
    SECONDS,
    run_at_once,
    start,
    start_and_block,
    uncommitted,
)
from verification.console.workspace import close_workspace
from verification.db.ids import uuid7
from verification.notifications.models import Notification
from verification.reports.launch import retry
from verification.reports.models import Report
from verification.reports.status import NotRetryable
from webhooks.models import Event
from workspaces import ledger
from workspaces.create import create_workspace
from workspaces.members import lock_workspace
from workspaces.models import Client, LedgerEntry

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

DAY = timedelta(days=1)


@pytest.fixture
def api(transactional_db: None, workspace: Any) -> Api:
    return Api(workspace, "sandbox")


def copies(original: Rule, count: int) -> None:
    """Copy a rule; each copy seals its subject itself."""
    members = {
        field.attname: getattr(original, field.attname)
        for field in Rule._meta.concrete_fields
        if field.attname != "id"
    }
    Rule.objects.bulk_create([Rule(id=uuid7(), **members) for _ in range(count)])


def test_three_clusters_launch_500_due_rules_each_once(api: Api):
    owners = [api]
    for number in range(4):
        other = create_workspace(name=f"Client {number}", owner_email="o@o.test")
        owners.append(Api(other, "sandbox"))
    for owner in owners:
        copies(store_rule(owner), 99)
    move_rules_back(DAY)

    def cluster(_: int) -> None:
        # Once for the schedule, and once for the job that the last launch scheduled.
        for _ in range(3):
            launch_due_runs()

    assert run_at_once(3, cluster) == [None] * 3

    assert Run.objects.count() == 500
    assert Run.objects.values("rule").distinct().count() == 500
    assert Report.objects.count() == 500
    charges = LedgerEntry.objects.filter(kind="CHARGE")
    assert charges.count() == 500
    assert charges.values("result_id").distinct().count() == 500
    assert not Rule.objects.exclude(runs_made=1).exists()


def test_three_comparisons_at_once_raise_one_alert(api: Api):
    for _ in range(5):
        create_rule(api, id_number=CHANGING)
    api.work()
    compare_runs(*map(str, Run.objects.values_list("report_id", flat=True)))
    move_rules_back(DAY)
    launch_due_runs()
    api.work()
    runs = Run.objects.filter(compared_at=None).values_list("report_id", flat=True)
    forward = list(map(str, runs))

    def compare(number: int) -> None:
        compare_runs(*(forward if number % 2 else reversed(forward)))

    assert run_at_once(3, compare) == [None] * 3
    assert Alert.objects.count() == 5
    assert Event.objects.filter(name="monitoring.alert.created").count() == 5


def test_rule_deleted_during_its_launch_is_gone_or_has_run(api: Api):
    for _ in range(8):
        made = store_rule(api)
        move_rules_back(DAY)

        def act(number: int, made: Rule = made) -> Any:
            if number:
                return api.delete(f"/monitoring/{made.pk}").status_code
            return launch_due_runs()

        assert run_at_once(2, act) == [None, 204]
    assert Run.objects.count() == 0
    # Runs that were launched before the deletion continue as reports without a rule.
    for report in Report.objects.all():
        assert report.monitoring_id
        assert report.status == "RUNNING"


def test_withdrawal_launch_and_comparison_do_not_deadlock(
    api: Api,
):
    for _ in range(6):
        create_rule(api, id_number=CHANGING)
    api.work()
    for _ in range(4):
        Rule.objects.update(
            status=RuleStatus.ACTIVE,
            pause_reason="",
            paused_at=None,
            consent_withdrawn_at=None,
        )
        move_rules_back(DAY)
        report = Report.objects.filter(completed_at__isnull=False).first()
        ended = [str(run.report_id) for run in Run.objects.all()]

        def act(number: int, report: Report | None = report, ended: Any = ended) -> Any:
            if number == 0:
                return launch_due_runs()
            if number == 1:
                return compare_runs(*reversed(ended))
            with transaction.atomic():
                pause_for_withdrawal([rule.pk for rule in Rule.objects.all()])
            return None

        assert run_at_once(4, act) == [None] * 4
        assert not Rule.objects.filter(status=RuleStatus.ACTIVE).exists()
        # No report of before the withdrawal is still running.
        assert not Report.objects.filter(status="RUNNING").exists()


@pytest.mark.parametrize("first", ["retry", "withdrawal"])
def test_no_retry_at_the_moment_of_a_withdrawal_asks_a_source(api: Api, first: str):
    create_rule(api, "IDENTITY", subject=person(idNumber="90000008")["subject"])
    api.work()
    run = Run.objects.get()
    client = Client.of(api.workspace, api.environment, "test")

    def withdraw() -> None:
        with transaction.atomic():
            pause_for_withdrawal([run.rule_id])

    def try_again() -> None:
        with suppress(NotRetryable):
            retry(client, run.report_id)

    actions = [withdraw, try_again]
    if first == "retry":
        actions.reverse()
    with uncommitted(actions[0]):
        second = start_and_block(actions[1])
    second.result(SECONDS)

    status = "CANCELLED" if first == "retry" else "FAILED"
    assert api.report(str(run.report_id))["status"] == status


def test_balance_for_one_run_launches_one_run_of_two_clusters(live_api: Api):
    for _ in range(4):
        store_rule(live_api)
    ledger.top_up(live_api.workspace, "production", Decimal(100), actor="t", note="")
    move_rules_back(DAY)

    assert run_at_once(3, lambda _: launch_due_runs()) == [None] * 3
    launch_due_runs()

    assert live_api.account.balance == 0
    assert Run.objects.count() == 2
    paused = Rule.objects.filter(pause_reason="INSUFFICIENT_BALANCE")
    assert paused.count() == 2


def test_pause_and_resume_at_once_leave_a_valid_state(api: Api):
    made = store_rule(api)
    for _ in range(5):

        def act(number: int) -> int:
            verb = "pause" if number % 2 else "resume"
            return api.post(f"/monitoring/{made.pk}/{verb}").status_code

        assert run_at_once(4, act) == [200] * 4
        made.refresh_from_db()
        assert made.is_active is (made.pause_reason == "")


def test_several_jobs_notify_an_owner_once(live_api: Api):
    for _ in range(5):
        store_rule(live_api)
    move_rules_back(DAY)
    launch_due_runs()

    run_at_once(4, lambda _: notify_paused())

    told = Notification.objects.get(kind="MONITORING_PAUSED")
    assert told.context["count"] == 5


def test_unread_alerts_are_locked_in_the_order_in_which_they_came(api: Api):
    made = store_rule(api)
    first, last = (raise_alert(api, made) for _ in range(2))
    # A write moves the row to the end of the table.
    first.save()
    rows = Alert.objects.select_for_update(nowait=True)

    with uncommitted(lambda: rows.get(pk=first.pk)):
        reading = start_and_block(lambda: api.put("/monitoring/alerts/read-all"))
        with transaction.atomic():
            rows.get(pk=last.pk)

    assert reading.result(SECONDS).status_code == 204
    assert not Alert.objects.filter(read=False).exists()


def test_rules_of_a_workspace_that_closes_are_locked_in_order(api: Api):
    owner = create_member(api.workspace, "OWNER")
    first, last = (store_rule(api) for _ in range(2))
    # A write moves the row to the end of the table.
    first.save()
    rows = Rule.objects.select_for_update(nowait=True)

    with uncommitted(lambda: rows.get(pk=first.pk)):
        closing = start_and_block(lambda: close_workspace(owner))
        with transaction.atomic():
            rows.get(pk=last.pk)

    assert closing.result(SECONDS)
    assert not Rule.objects.filter(status=RuleStatus.ACTIVE).exists()


@pytest.mark.parametrize("verb", ["create", "resume"])
def test_workspace_that_closes_gets_no_active_rule(api: Api, verb: str):
    owner = create_member(api.workspace, "OWNER")
    path, body = "/monitoring", rule_request()
    if verb == "resume":
        paused = store_rule(api)
        assert api.post(f"/monitoring/{paused.pk}/pause").status_code == 200
        path, body = f"/monitoring/{paused.pk}/resume", {}

    with uncommitted(lambda: close_workspace(owner)):
        answer = start_and_block(lambda: api.post(path, body))

    assert answer.result(SECONDS).json()["code"] == "workspace-suspended"
    assert not Rule.objects.filter(status=RuleStatus.ACTIVE).exists()


def test_launch_waits_for_no_lock_of_a_suspended_workspace(api: Api):
    made = store_rule(api)
    move_rules_back(DAY)
    api.workspace.suspend("Unpaid invoices")
    ids = [made.pk]

    # Verbs such as a resume lock the workspace, and then its rules.
    with uncommitted(lambda: lock_workspace(api.workspace.pk)):
        start(lambda: launch_rules(ids)).result(10)
        assert Rule.objects.get().put_off_until is None

    launch_rules(ids)
    assert Rule.objects.get().put_off_until is not None
