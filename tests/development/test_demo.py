"""The demo that `make run` makes, beside what a newcomer orders in its workspace."""

from datetime import timedelta

import pytest
from allauth.mfa.utils import is_mfa_enabled
from django.utils.timezone import now

from monitoring.models import Rule
from tests.world.clients import Api, person
from tests.world.rules import store_rule
from verification.audit_trail.models import UnsealedEvent
from verification.backoffice.models import AuditEvent
from verification.batches.models import Batch
from verification.decisions.models import Decision
from verification.development.demo import (
    PEOPLE,
    UNDECIDED,
    Demo,
    apply_to_go_live,
    demo_workspace,
    fill,
)
from verification.development.local_pages import APPLICANT, OWNER, STAFF, make_person
from verification.golive.models import Application
from verification.jobs.models import Job
from verification.jobs.names import JobName
from verification.payments.models import Checkout
from verification.reports.models import Report, StatusChange
from webhooks.models import Attempt, Configuration, Delivery
from workspaces.models import Workspace


@pytest.fixture
def newcomer(workspace) -> Api:
    """Uses the key that `make run` prints."""
    return Api(demo_workspace(), "sandbox")


def test_demo_moves_no_rows_of_a_newcomer(newcomer):
    demo = Demo(newcomer.workspace)
    demo.create(*(demo.person(0) for _ in range(5)))
    mine = newcomer.create(person())["id"]
    rule = store_rule(newcomer)
    newcomer.work()
    before = times(mine), Rule.objects.values().get(pk=rule.pk)

    demo.move_into_the_past()

    assert (times(mine), Rule.objects.values().get(pk=rule.pk)) == before
    newest = Report.objects.get(pk=mine).created_at
    assert all(report.created_at < newest for report in demo.reports)


def test_all_events_of_the_demo_wait_for_their_seals(newcomer):
    Demo(demo_workspace()).move_into_the_past()

    events = AuditEvent.objects.values_list("pk", flat=True)
    waiting = UnsealedEvent.objects.values_list("event_id", flat=True)
    assert set(events) == set(waiting) != set()


def test_failed_deliveries_of_the_demo_have_all_their_attempts(newcomer):
    demo = Demo(newcomer.workspace)
    demo.receive_events()
    demo.create(*(demo.person(0) for _ in range(12)))
    newcomer.work()
    demo.decide()

    demo.move_into_the_past()

    failed = Delivery.objects.filter(status="FAILED")
    assert failed.exists()
    for delivery in failed:
        numbers = list(delivery.attempt_set.values_list("number", flat=True))
        assert numbers == list(range(1, 11))
        assert delivery.attempts == len(numbers)
    assert not Attempt.objects.filter(started_at__gt=now()).exists()
    # In the order of the console's list
    deliveries = Delivery.objects.order_by("event_id")
    created = list(deliveries.values_list("created_at", flat=True))
    assert created == sorted(created)


def test_figures_of_the_demo_are_counted_at_once(newcomer):
    Demo(newcomer.workspace).move_into_the_past()

    assert Job.objects.filter(function=JobName.COUNT_CHANGED_DAYS).exists()


def times(report: str) -> list:
    changes = StatusChange.objects.filter(report=report).order_by("id")
    return [
        Report.objects.values().get(pk=report),
        *changes.values_list("created_at", flat=True),
    ]


@pytest.mark.usefixtures("live_source")
def test_demo_company_is_checked_in_the_sandbox(settings, workspace):
    settings.GO_LIVE_ENVIRONMENT = "production"
    apply_to_go_live()

    application = Application.objects.get()
    assert application.status == "SUBMITTED"
    assert application.report.environment == "sandbox"


def test_demo_creates_everything_once_when_repeated(newcomer, settings):
    mine = newcomer.create({**person(), "reference": "LN-1001"})["id"]
    numbers = []
    for _ in range(2):
        demo = Demo(demo_workspace())
        demo.receive_events()
        demo.order()
        demo.answer_requests()
        demo.pay()
        demo.cancel_reports()
        apply_to_go_live()
        numbers.append(
            {
                "reports": demo.reports.count(),
                "references": demo.reports.values("reference").distinct().count(),
                "paid": Checkout.objects.filter(report__in=demo.reports).count(),
                "disputed": Checkout.objects.filter(review_flags=["DISPUTED"]).count(),
                "cancelled": demo.reports.filter(status="CANCELLED").count(),
                "granted": demo.hosted_consents().filter(status="GRANTED").count(),
                "declined": demo.hosted_consents().filter(status="DECLINED").count(),
                "receivers": Configuration.objects.count(),
                "submitted": Application.objects.filter(status="SUBMITTED").count(),
                "workspaces": Workspace.objects.count(),
            }
        )

    assert numbers[0] == numbers[1]
    assert numbers[0]["reports"] == numbers[0]["references"] > 50
    ones = ("disputed", "declined", "receivers", "submitted")
    assert [numbers[0][name] for name in ones] == [1] * 4
    assert [numbers[0][name] for name in ("paid", "cancelled", "granted")] == [3, 2, 3]
    assert newcomer.report(mine)["status"] == "RUNNING"


def test_demo_decides_and_orders_by_a_file_once(newcomer):
    mine = newcomer.create(person())["id"]
    demo = Demo(newcomer.workspace)
    demo.order()
    newcomer.work()

    for _ in range(2):
        demo.decide()
        demo.order_by_file()

    decided = Decision.objects.values_list("status", "report__risk_level").distinct()
    assert set(decided) >= {("APPROVED", "LOW"), ("DECLINED", "HIGH")}
    assert not Decision.objects.filter(report=mine).exists()
    undecided = demo.reports.filter(status="READY", decisions=None)
    assert undecided.count() == UNDECIDED
    batch = Batch.objects.get()
    assert len(batch.report_ids) == len(PEOPLE)
    demo.move_into_the_past()
    since = now() - timedelta(days=3)
    assert {r.completed_at > since for r in undecided} == {True}
    assert demo.reports.filter(completed_at__lt=since).exists()


def test_demo_people_have_the_second_factor_that_they_need(db):
    owner, applicant, staff = (
        make_person(person, name="Grace") for person in (OWNER, APPLICANT, STAFF)
    )

    assert [is_mfa_enabled(user) for user in (owner, applicant, staff)] == [
        False,
        True,
        True,
    ]


def test_filled_demo_is_left_alone(newcomer):
    demo = Demo(newcomer.workspace)
    demo.create(demo.person(0))
    demo.move_into_the_past()
    (report,) = demo.reports

    fill()

    assert [(r.pk, r.created_at) for r in demo.reports] == [
        (report.pk, report.created_at)
    ]
    assert report.created_at < now()
