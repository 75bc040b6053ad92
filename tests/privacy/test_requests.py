"""The register of requests: deadlines, answers, reminders and figures."""

from datetime import timedelta

import pytest
from django.core import mail
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils.timezone import now
from prometheus_client.parser import text_string_to_metric_families

from tests.world.clients import Api, person
from tests.world.members import create_member
from tests.world.staff import enter_request
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Notification
from verification.notifications.templates import write_email
from verification.privacy.models import Outcome, RequestKind, SubjectRequest
from verification.privacy.requests import (
    DETAILS_RETENTION,
    NOTICE,
    answer_request,
    count_open_requests,
    erase_old_details,
    remind_of_deadlines,
)
from verification.reports.models import Report
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


@pytest.fixture
def officers(settings) -> list[str]:
    settings.PRIVACY_CONTACTS = ["dpo@operator.test", "deputy@operator.test"]
    return settings.PRIVACY_CONTACTS


def correction(workspace: Workspace, **fields) -> SubjectRequest:
    return enter_request(
        kind=RequestKind.CORRECTION,
        workspace=workspace,
        environment="production",
        **fields,
    )


def reminders() -> list[tuple[str, list[str], list[str]]]:
    """Return (recipient, due, overdue) of each e-mail, oldest first."""
    rows = Notification.objects.filter(kind="REQUESTS_DUE").order_by("id")
    return [(r.recipient, r.context["due"], r.context["overdue"]) for r in rows]


@pytest.mark.parametrize(
    ("kind", "days"),
    [
        ("ACCESS", 7),
        ("PORTABILITY", 30),
        ("CORRECTION", 14),
        ("OBJECTION", 14),
        ("ERASURE", 14),
    ],
)
def test_deadline_depends_on_the_right(kind: str, days: int):
    row = enter_request(kind=RequestKind(kind))

    assert row.due_at - row.received_at == days * DAY


def test_request_of_a_report_names_its_client_and_subject(api: Api):
    report = Report.objects.get(pk=api.create(person())["id"])

    row = enter_request(report)

    assert (row.workspace, row.environment) == (api.workspace, "sandbox")
    assert row.subject_id == report.subject_id


@pytest.mark.parametrize(
    ("fields", "constraint"),
    [
        ({"outcome": "DONE"}, "answered_requests_have_an_outcome"),
        ({"outcome": "REFUSED", "answered_at": now()}, "refused_requests_say_why"),
        ({"answered_at": now()}, "answered_requests_have_an_outcome"),
    ],
)
def test_database_refuses_half_an_answer(fields: dict[str, object], constraint: str):
    row = enter_request()

    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        SubjectRequest.objects.filter(pk=row.pk).update(**fields)


def test_officers_get_one_mail_before_and_one_after_the_deadline(officers: list[str]):
    row = enter_request()
    remind_of_deadlines()
    assert reminders() == []

    SubjectRequest.objects.update(due_at=now() + NOTICE - timedelta(minutes=1))
    remind_of_deadlines()
    remind_of_deadlines()

    first = reminders()
    assert [(to, len(due), late) for to, due, late in first] == [
        (officer, 1, []) for officer in officers
    ]
    assert first[0][1][0].startswith(f"{row.number}, Access: ")

    passed = {"received_at": now() - 7 * DAY, "due_at": now() - timedelta(minutes=1)}
    SubjectRequest.objects.update(**passed)
    remind_of_deadlines()
    remind_of_deadlines()

    second = reminders()[2:]
    assert [(to, due, len(late)) for to, due, late in second] == [
        (officer, [], 1) for officer in officers
    ]


def test_mail_is_sent_and_names_nobody(officers: list[str], workspace: Workspace):
    correction(workspace, received_at=now() - 30 * DAY)
    enter_request(received_at=now() - 5 * DAY)

    remind_of_deadlines()
    send_due_notifications()

    bodies = {to: message.body for message in mail.outbox for to in message.to}
    assert bodies.keys() >= {*officers}
    body = bodies[officers[0]]
    assert "The deadline of these has passed" in body
    assert "by the day that is named" in body
    assert workspace.name in body
    assert "Wanjiku" not in body


@pytest.mark.parametrize(
    ("kind", "page", "word"),
    [
        ("CORRECTION", "corrections/", "Marekebisho"),
        ("REVIEW", "queue/", "Uamuzi kuangaliwa na mtu"),
    ],
)
def test_owner_is_reminded_of_what_the_workspace_answers(
    workspace: Workspace, kind: str, page: str, word: str
):
    owner = create_member(workspace, "OWNER")
    live = {"workspace": workspace, "environment": "production"}
    row = enter_request(kind=RequestKind(kind), **live)
    enter_request(**live)
    SubjectRequest.objects.update(due_at=now() + DAY)

    remind_of_deadlines()

    ((to, due, late),) = reminders()
    assert (to, late) == (owner.user.email, [])
    assert [line.partition(",")[0] for line in due] == [row.number]
    (mail_row,) = Notification.objects.filter(kind="REQUESTS_DUE")
    assert mail_row.context["url"].endswith(f"{workspace.pk}/production/{page}")
    kiswahili = write_email(mail_row).text.partition("Habari,")[2]
    assert f"- {row.number}, {word}, {workspace.name}: " in kiswahili


def test_answered_requests_and_the_sandbox_are_not_reminded(
    api: Api, officers: list[str]
):
    report = Report.objects.get(pk=api.create(person())["id"])
    enter_request(report, received_at=now() - 30 * DAY)
    answer_request(enter_request(received_at=now() - 30 * DAY), Outcome.DONE)

    remind_of_deadlines()

    assert reminders() == []


def test_figures_count_open_and_overdue_requests_by_right(
    client: Client, settings, workspace: Workspace
):
    settings.METRICS_TOKEN = "correct horse"
    correction(workspace, received_at=now() - 30 * DAY)
    correction(workspace)
    answer_request(correction(workspace), Outcome.DONE)

    answer = client.get("/metrics", headers={"Authorization": "Bearer correct horse"})

    assert count_open_requests() == {
        **dict.fromkeys(RequestKind.values, (0, 0)),
        "CORRECTION": (2, 1),
    }
    samples = {
        (sample.name, sample.labels["kind"]): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
        if "kind" in sample.labels
    }
    name = "verification_subject_requests"
    assert samples[f"{name}_open", "CORRECTION"] == 2
    assert samples[f"{name}_overdue", "CORRECTION"] == 1
    assert samples[f"{name}_overdue", "ACCESS"] == 0


def test_overdue_request_is_a_figure_and_no_failure(client: Client):
    enter_request(received_at=now() - 30 * DAY)

    before = client.get("/readyz")
    SubjectRequest.objects.update(received_at=now(), due_at=now() + DAY)
    after = client.get("/readyz")

    figures = [answer.json()["subjectRequestsOverdue"] for answer in (before, after)]
    assert figures == [1, 0]
    assert before.status_code == after.status_code


def test_details_of_a_request_are_erased_long_after_its_answer():
    old, young, unanswered = enter_request(), enter_request(), enter_request()
    for row in (old, young):
        answer_request(row, Outcome.DONE)
    passed = now() - DETAILS_RETENTION - timedelta(minutes=1)
    SubjectRequest.objects.filter(pk=old.pk).update(answered_at=passed)

    erase_old_details()

    left = SubjectRequest.objects.filter(details__isnull=False)
    assert {row.pk for row in left} == {young.pk, unanswered.pk}
