"""Access: who has received a report, and the register of accesses."""

from datetime import timedelta

import pytest
import time_machine
from django.utils.timezone import now

from tests.world.clients import Api, person
from tests.world.console import ConsoleVisitor
from tests.world.members import create_member
from verification.backoffice import audit
from verification.backoffice.models import ActorKind
from verification.notifications.models import DailyCount
from verification.privacy import disclosures
from verification.privacy.access import record_access
from verification.privacy.disclosures import RecipientKind, recipients_of
from verification.privacy.models import Disclosure, RequestKind, SubjectRequest
from verification.reports.models import Report
from webhooks.models import Attempt, Delivery, Event

pytestmark = pytest.mark.django_db


@pytest.fixture
def report(api: Api) -> Report:
    made = api.create(person())
    api.work()
    return Report.objects.get(pk=made["id"])


def kinds(report: Report) -> list[str]:
    return [one.kind for one in recipients_of([report])[report.pk]]


def test_read_by_a_key_is_a_disclosure(api: Api, report: Report):
    assert kinds(report) == []

    api.report(str(report.pk))

    (row,) = Disclosure.objects.all()
    assert (row.report_id, row.channel) == (report.pk, "API")
    assert row.recipient.startswith("key ")
    assert kinds(report) == [RecipientKind.API]


def test_further_read_within_the_hour_costs_no_statement(
    api: Api, report: Report, django_assert_num_queries: object
):
    api.report(str(report.pk))
    first = Disclosure.objects.get()

    api.report(str(report.pk))
    assert Disclosure.objects.get().last_at == first.last_at

    disclosures._recorded.clear()
    api.report(str(report.pk))
    assert Disclosure.objects.get().last_at == first.last_at
    disclosures._recorded.clear()
    with time_machine.travel(now() + timedelta(hours=2)):
        api.report(str(report.pk))
    row = Disclosure.objects.get()
    assert row.first_at == first.first_at
    assert row.last_at > first.last_at + timedelta(hours=1)


def test_remembered_disclosures_are_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(disclosures, "MOST_REMEMBERED", 10)

    for nth in range(30):
        assert disclosures._is_due((nth, "API", "key"))  # type: ignore[arg-type]

    assert len(disclosures._recorded) == 10
    assert not disclosures._is_due((29, "API", "key"))  # type: ignore[arg-type]
    disclosures._recorded.clear()


def test_pdf_and_console_are_disclosures(api: Api, report: Report):
    api.get(f"/reports/{report.pk}/pdf")
    member = ConsoleVisitor(create_member(api.workspace, "VIEWER"))
    member.page("reports-detail", report=report.pk)

    assert kinds(report) == [RecipientKind.PDF, RecipientKind.CONSOLE]


def test_refused_read_is_no_disclosure(another_api: Api, report: Report):
    assert another_api.get(f"/reports/{report.pk}").status_code == 404
    assert another_api.get(f"/reports/{report.pk}/pdf").status_code == 404

    assert not Disclosure.objects.exists()


def test_answering_receiver_and_staff_are_recipients(api: Api, report: Report):
    event = Event.objects.filter(report_id=report.pk).earliest("id")
    delivery = Delivery.objects.create(
        event=event,
        workspace=report.workspace,
        environment=report.environment,
        name=event.name,
        status="FAILED",
        created_at=now(),
    )
    for number, (host, status) in enumerate(
        [("down.acacia.test", 503), ("hooks.acacia.test", 204)], 1
    ):
        Attempt.objects.create(
            delivery=delivery,
            number=number,
            url=f"https://{host}/verification?token=secret",
            started_at=now(),
            duration_ms=5,
            status_code=status,
        )
    audit.record("report.opened", audit.Actor(ActorKind.STAFF, "grace"), report)

    found = recipients_of([report])[report.pk]

    assert [(one.kind, one.host) for one in found] == [
        (RecipientKind.WEBHOOK, "hooks.acacia.test"),
        (RecipientKind.STAFF, ""),
    ]


def test_accesses_of_a_day_are_one_request(report: Report):
    for _ in range(3):
        record_access(report, RequestKind.ACCESS)
    record_access(report, RequestKind.PORTABILITY)

    rows = SubjectRequest.objects.order_by("id")
    assert [(one.kind, one.outcome, one.origin) for one in rows] == [
        ("ACCESS", "DONE", "SUBJECT"),
        ("PORTABILITY", "DONE", "SUBJECT"),
    ]
    assert {one.subject_id for one in rows} == {report.subject_id}
    DailyCount.objects.update(day=now() - timedelta(days=1))
    record_access(report, RequestKind.ACCESS)
    assert rows.filter(kind="ACCESS").count() == 2
