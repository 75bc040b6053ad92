from datetime import UTC, datetime, timedelta
from decimal import Decimal
from urllib.parse import parse_qsl, urlsplit
from uuid import UUID

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, User
from django.core.cache import cache
from django.test import Client
from django.utils.timezone import now

import verification
from tests.golive.applications import submitted
from tests.world.clients import person
from tests.world.deliveries import configure_receiver
from tests.world.members import create_member
from tests.world.payments import candidate_item, end_checkout
from tests.world.payments import open_page as opened_checkout
from tests.world.rules import top_up_account
from tests.world.staff import (
    create_call,
    enter_request,
    listed_ids,
    log_in,
    read_page,
    staff_request,
)
from verification.backoffice import widgets
from verification.backoffice.approvals import StaffActor
from verification.checks.models import CheckResult
from verification.db.ids import first_id_at, uuid7
from verification.golive.models import NameChange
from verification.jobs.models import Job
from verification.notifications.models import Block, Notification
from verification.notifications.recipients import block
from verification.payments.models import Refund
from verification.privacy.models import SubjectRequest
from verification.privacy.staff_erasures import request_for_person
from verification.reports.models import Report
from verification.staff.dashboard import (
    BOX_ENVIRONMENTS,
    BOXES,
    Box,
    callback,
    figures,
)
from verification.values.local_time import format_nairobi
from webhooks.models import Configuration
from workspaces.create import OPERATOR_ID, operator_account
from workspaces.models import Account, LedgerEntry, StaffEntry

pytestmark = pytest.mark.django_db
AT = datetime(2026, 11, 20, 14, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def fresh():
    cache.clear()
    yield
    cache.clear()


def boxes(client: Client, of: str = "boxes") -> dict[str, int]:
    context = callback(staff_request(client), {})
    return {box["title"]: box["count"] for box in context[of]}


def linked_ids(client: Client, box: Box, environment: str) -> set[str]:
    """Return the ids of the rows in the list to which the box links."""
    query = dict(parse_qsl(urlsplit(box.url(environment)).query))
    return listed_ids(client, apps.get_model(box.label), **query)


@pytest.fixture
def open_tasks(api):
    """Create a row for every box."""
    doubted = end_checkout(
        opened_checkout(api.create(candidate_item())), currency="USD"
    )
    Refund.objects.create(
        checkout=doubted,
        amount=1,
        cause="STAFF",
        status="REQUESTED",
        requested_by="staff grace",
    )
    StaffEntry.objects.create(
        id=uuid7(),
        account=api.account,
        kind="TOP_UP",
        amount=1,
        status="REQUESTED",
        needs_second=True,
        requested_by="staff grace",
        requested_by_user=1,
    )
    hours_ago = now() - timedelta(hours=2)
    stuck = api.create(person())["id"]
    Report.objects.filter(pk=stuck).update(updated_at=hours_ago)
    configure_receiver(api.workspace)
    Configuration.objects.update(failures_in_row=3, failing_since=now())
    Job.objects.create(function="x", gave_up_at=now())
    block(api.workspace.pk, [("EMAIL", "amina@payer.test")], Block.Reason.UNKNOWN)
    create_call(stuck, end="IN_DOUBT", ended_at=now())
    Notification.objects.filter(pk=Notification.objects.first().pk).update(
        status="FAILED", next_attempt_at=None
    )
    owner = create_member(api.workspace, "OWNER")
    submitted(owner)
    NameChange.objects.create(
        workspace=api.workspace, legal_name="Acacia Limited", asked_by=owner.user
    )
    typed = {"subjectType": "INDIVIDUAL", "country": "KE", "idNumber": "12345678"}
    request_for_person(typed, "A letter", by=StaffActor(1, "staff grace"))
    late = enter_request(received_at=now() - timedelta(days=30))
    assert late.is_overdue
    Account.objects.filter(environment="production").exclude(
        workspace=OPERATOR_ID
    ).update(low_balance_notified_at=now())


def test_boxes_count_open_tasks_and_link_to_their_lists(open_tasks, superuser):
    everything = dict.fromkeys((box.title for box in BOXES), 1)
    assert boxes(superuser) | boxes(superuser, "sandbox_boxes") == everything

    for box, environment in BOX_ENVIRONMENTS:
        for row in box.found(environment):
            assert str(row.pk) in linked_ids(superuser, box, environment), box.title


def test_sandbox_has_its_own_boxes(open_tasks, superuser, live_api):
    top_up_account(live_api, 1_000)
    real = live_api.create(person())["id"]
    Report.objects.filter(pk=real).update(updated_at=now() - timedelta(hours=2))

    apart = boxes(superuser, "sandbox_boxes")

    assert apart == {
        "Payments to review": 1,
        "Refunds to decide": 1,
        "Entries to decide": 1,
        "Reports stuck": 1,
        "Receivers failing or disabled": 1,
        "Messages not sent": 1,
    }
    production = boxes(superuser)
    assert production["Reports stuck"] == 1
    assert production["Payments to review"] == 0
    (stuck,) = (box for box in BOXES if box.title == "Reports stuck")
    assert real in linked_ids(superuser, stuck, "production")
    assert real not in linked_ids(superuser, stuck, "sandbox")


def test_boxes_without_tasks_show_zero(superuser):
    assert set(boxes(superuser).values()) == {0}
    assert boxes(superuser, "sandbox_boxes") == {}


def test_each_role_sees_its_own_work(open_tasks):
    user = User.objects.create_user("grace", is_staff=True)
    user.groups.add(Group.objects.get(name="Finance"))
    client = Client()
    log_in(client, user)

    everything = boxes(client) | boxes(client, "sandbox_boxes")
    assert set(everything) == {
        "Payments to review",
        "Refunds to decide",
        "Entries to decide",
        "Source calls in doubt",
        "Reports stuck",
        "Low balances",
    }


def test_open_requests_say_which_is_due_next(superuser):
    """Staff see a request before it is late."""
    enter_request(received_at=now() - timedelta(days=2))
    first = enter_request(received_at=now() - timedelta(days=3))

    html = read_page(superuser, "/admin/")

    assert boxes(superuser)["Requests of subjects open"] == 2
    assert boxes(superuser)["Requests of subjects overdue"] == 0
    assert f"next due {format_nairobi(first.due_at)}" in html
    listed = listed_ids(superuser, SubjectRequest, state="clocked")
    assert str(first.pk) in listed


def test_open_requests_are_for_roles_that_see_them():
    enter_request()
    user = User.objects.create_user("grace", is_staff=True)
    user.groups.add(Group.objects.get(name="Privacy officer"))
    client = Client()
    log_in(client, user)

    assert "Requests of subjects open" in boxes(client)


def test_dashboard_costs_few_queries_and_is_cached(
    rows, superuser, django_assert_max_num_queries
):
    # Session and user, a count for each box and environment, and three for the figures.
    # Two more check the second factor, and one finds the next deadline.
    with django_assert_max_num_queries(29):
        superuser.get("/admin/")
    with django_assert_max_num_queries(4):
        superuser.get("/admin/")


def result_at(api, at, status="COMPLETED", ms=100) -> None:
    report = Report.objects.get(pk=api.create(person())["id"])
    made = report.results.first()
    report.results.exclude(pk=made.pk).delete()
    CheckResult.objects.filter(pk=made.pk).update(
        id=first_id_at(at),
        status=status,
        completed_at=at,
        next_attempt_at=None,
        duration_ms=ms,
        failure_code="X" if status == "FAILED" else "",
    )


def test_checks_are_counted_by_hour_and_by_day(live_api, api):
    top_up_account(live_api, 10_000)
    result_at(api, AT - timedelta(minutes=5))
    result_at(live_api, AT - timedelta(minutes=10), ms=100)
    result_at(live_api, AT - timedelta(minutes=20), "FAILED", ms=300)
    result_at(live_api, AT - timedelta(hours=23))
    result_at(live_api, AT - timedelta(days=3))
    result_at(live_api, AT - timedelta(days=9))

    found = figures(AT)

    assert (found.hours.total, found.days.total) == (3, 4)
    assert (found.hours.done[-1], found.hours.failed[-1]) == (2, 1)
    assert found.hours.starts[-1] == AT.replace(minute=0)
    assert found.hours.done[0] == 1
    assert found.hours.median[-1] == 200
    assert found.hours.median[5] is None
    assert found.days.done == [0, 0, 0, 1, 0, 1, 2]
    assert round(found.hours.failure_rate) == 33
    assert (found.sandbox_hours.total, found.sandbox_days.total) == (1, 1)


def test_revenue_is_charges_less_refunds(api, live_api):
    account = live_api.account
    play = api.account
    for owner, kind, amount in [
        (account, "CHARGE", -250),
        (account, "REVERSAL", 50),
        (account, "TOP_UP", 9_000),
        (play, "CHARGE", -700),
        (operator_account("production"), "CHARGE", -300),
    ]:
        at = AT - timedelta(days=1)
        LedgerEntry.objects.create(
            id=UUID(int=first_id_at(at).int + amount + 10_000),
            account=owner,
            kind=kind,
            amount=amount,
            result_id=None if kind == "TOP_UP" else uuid7(),
            attempt=1,
            created_at=at,
        )

    assert figures(AT).revenue == [0, 0, 0, 0, 0, Decimal(200), 0]


def test_day_of_revenue_begins_at_midnight_in_nairobi(live_api):
    for hour in (20, 22):
        at = datetime(2026, 11, 19, hour, 30, tzinfo=UTC)
        LedgerEntry.objects.create(
            id=first_id_at(at),
            account=live_api.account,
            kind="CHARGE",
            amount=-hour,
            result_id=uuid7(),
            attempt=1,
            created_at=at,
        )

    assert figures(AT).revenue == [0, 0, 0, 0, 0, 20, 22]


def test_charts_have_a_label_and_accept_no_data():
    assert 'aria-label="2 checks"' in widgets.bar_chart("2 checks", [1, 1], [0, 1])
    assert widgets.bar_chart("none", [0, 0]).count("<rect") == 2
    assert 'd=""' in widgets.line_chart("none", [None, None])
    assert "&lt;b&gt;" in widgets.bar_chart("<b>", [])


def test_new_ids_are_above_the_first_id_of_now():
    assert first_id_at(now()) <= uuid7()
    assert first_id_at(now() + timedelta(seconds=2)) > uuid7()


def test_menu_shows_the_version(superuser: Client):
    page = superuser.get("/admin/").content.decode()

    assert f"Back office {verification.__version__}" in page
