"""The daily digest of a member."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core import mail
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.world.decisions import (
    Officer,
    create_case,
    create_ready_report,
    demand_second,
)
from tests.world.member_messages import choose, messages_to
from tests.world.members import create_member
from tests.world.rules import raise_alert
from tests.world.threads import run_at_once
from verification.digests.messages import send_digests
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Kind, Notification
from verification.values.local_time import NAIROBI
from workspaces import members
from workspaces.models import DigestDay, Member, MessageChoice, Workspace

pytestmark = pytest.mark.django_db

TOMORROW = datetime(2026, 11, 17, 7, 1, tzinfo=NAIROBI)
DAY = timedelta(days=1)


def lines_of(member: Member) -> list[list[tuple[str, int]]]:
    """Return (kind, count) of each line, for each digest that the member got."""
    found: list[Any] = [
        one.context["lines"] for one in messages_to(member, Kind.MEMBER_DIGEST)
    ]
    return [[(line["kind"], line["count"]) for line in lines] for lines in found]


def test_digest_counts_what_happened_and_links_to_it(live_api, officer, clock):
    for _ in range(2):
        raise_alert(live_api)
    clock.move_to(TOMORROW)
    send_digests()
    send_due_notifications()

    (message,) = [one for one in mail.outbox if one.to == [officer.user.email]]
    assert message.subject.startswith("What has happened in Acacia Lenders / ")
    assert "- Monitoring has raised 2 alerts\n" in message.body
    assert "/production/monitoring/alerts/\n" in message.body
    assert "since 16 November 2026, 07:00 (Nairobi time)" in message.body


def test_digest_waits_for_seven_in_nairobi(live_api, officer, clock):
    raise_alert(live_api)
    clock.move_to(TOMORROW - timedelta(minutes=2))
    send_digests()
    assert lines_of(officer) == []

    clock.move_to(TOMORROW)
    send_digests()
    assert lines_of(officer) == [[("ALERT", 1)]]


def test_no_digest_if_nothing_happened(live_api, officer, clock):
    clock.move_to(TOMORROW)
    send_digests()

    assert lines_of(officer) == []
    assert DigestDay.objects.get().day == TOMORROW.date()


def test_each_event_is_in_one_digest(live_api, officer, clock):
    raise_alert(live_api)
    for days in range(3):
        clock.move_to(TOMORROW + days * DAY)
        send_digests()
        raise_alert(live_api)
        send_digests()

    assert lines_of(officer) == [[("ALERT", 1)]] * 3


def test_days_without_the_service_are_in_the_next_digest(live_api, officer, clock):
    clock.move_to(TOMORROW)
    send_digests()
    clock.pass_by(hours=1)
    raise_alert(live_api)
    clock.move_to(TOMORROW + 3 * DAY)
    send_digests()

    assert lines_of(officer) == [[("ALERT", 1)]]


def test_one_digest_tells_all_kinds_of_both_environments(live_api, api, officer, clock):
    choose(officer, "sandbox", ALERT="DAILY")
    raise_alert(api)
    raise_alert(live_api)
    clock.move_to(TOMORROW)
    send_digests()
    send_due_notifications()

    (message,) = [one for one in mail.outbox if one.to == [officer.user.email]]
    assert not message.subject.startswith("[SANDBOX]")
    assert "In the sandbox:\n\n- Monitoring has raised an alert\n" in message.body


def test_digest_of_the_sandbox_alone_says_so(api, officer, clock):
    choose(officer, "sandbox", ALERT="DAILY")
    raise_alert(api)
    clock.move_to(TOMORROW)
    send_digests()
    send_due_notifications()

    (message,) = mail.outbox
    assert message.subject.startswith("[SANDBOX] ")


def test_sandbox_is_in_no_digest_unless_chosen(api, officer, clock):
    raise_alert(api)
    clock.move_to(TOMORROW)
    send_digests()

    assert not Notification.objects.exists()


def test_viewer_gets_no_digest_unless_chosen(live_api, api, officer, clock):
    viewer = create_member(live_api.workspace, "VIEWER")
    raise_alert(live_api)
    clock.move_to(TOMORROW)
    send_digests()
    assert messages_to(viewer) == []

    choose(viewer, "sandbox", REPORT_READY="DAILY")
    create_ready_report(api)
    clock.move_to(TOMORROW + DAY)
    send_digests()
    assert len(messages_to(viewer)) == 1


def test_job_that_runs_again_or_beside_itself_sends_no_second_digest(
    clock, live_api, officer, transactional_db
):
    raise_alert(live_api)
    clock.move_to(TOMORROW)
    run_at_once(2, send_digests)
    DigestDay.objects.all().delete()
    send_digests()

    assert lines_of(officer) == [[("ALERT", 1)]]


def test_job_killed_in_the_middle_sends_the_others_next_time(
    live_api, another_api, officer, clock, monkeypatch
):
    other = create_member(another_api.workspace, "ADMIN", "other")
    choose(other, "sandbox", ALERT="DAILY")
    raise_alert(live_api)
    raise_alert(another_api)
    clock.move_to(TOMORROW)
    monkeypatch.setattr("verification.digests.messages.WORKSPACES_AT_ONCE", 1)
    calls = []

    def die_at_the_third() -> bool:
        calls.append(1)
        if len(calls) == len(Workspace.objects.all()):
            raise KeyboardInterrupt
        return True

    monkeypatch.setattr("verification.digests.messages.beat", die_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        send_digests()
    assert Notification.objects.filter(kind=Kind.MEMBER_DIGEST).count() == 1
    monkeypatch.undo()
    clock.pass_by(minutes=10)
    send_digests()

    digests = Notification.objects.filter(kind=Kind.MEMBER_DIGEST)
    assert {one.recipient for one in digests} == {officer.user.email, other.user.email}
    assert digests.count() == 2


def test_proposal_is_in_the_digest_of_all_but_its_maker(api, officer, clock):
    maker = Officer(api)
    for member in (officer, maker.member):
        choose(member, "sandbox", DECISION_WAITING="DAILY")
    demand_second(api)
    maker.decide(create_ready_report(api))
    clock.move_to(TOMORROW)
    send_digests()

    (message,) = Notification.objects.filter(kind=Kind.MEMBER_DIGEST)
    assert message.recipient == officer.user.email
    (line,) = message.context["sandboxLines"]
    assert (line["kind"], line["count"]) == ("DECISION_WAITING", 1)
    send_due_notifications()
    (letter,) = mail.outbox
    assert f"- A report needs a decision\n    {line['url']}\n" in letter.body
    assert line["url"].endswith("/sandbox/queue/")


def test_waiting_reports_are_in_the_digest_as_one_line(api, officer, clock):
    choose(officer, "sandbox", DECISION_WAITING="DAILY")
    for _ in range(2):
        create_case(api)
    clock.move_to(TOMORROW)
    send_digests()

    (message,) = messages_to(officer)
    (line,) = message.context["sandboxLines"]
    assert line["count"] == 2
    assert line["url"].endswith("/sandbox/queue/")


def test_number_of_statements_does_not_grow_with_workspaces_and_members(
    live_api, another_api, officer, clock
):
    def statements() -> int:
        DigestDay.objects.all().delete()
        Notification.objects.all().delete()
        with CaptureQueriesContext(connection) as queries:
            send_digests()
        return len(queries)

    raise_alert(live_api)
    clock.move_to(TOMORROW)
    before = statements()
    for number in range(5):
        create_member(another_api.workspace, "ADMIN", f"other-{number}")
        create_member(live_api.workspace, "ADMIN", f"more-{number}")

    assert statements() == before
    assert Notification.objects.count() == 6


def test_one_click_turns_off_what_comes_in_the_digest(live_api, officer, clock):
    choose(officer, REPORT_READY="DAILY", REPORT_FAILED="NOW")
    raise_alert(live_api)
    clock.move_to(TOMORROW)
    send_digests()
    (message,) = messages_to(officer)
    path = message.context["offUrl"].partition("/console/")[2]

    answer = Client().post(f"/console/{path}", {"List-Unsubscribe": "One-Click"})

    assert answer.status_code == 204
    times = dict(MessageChoice.objects.values_list("kind", "time"))
    assert times == {
        "REPORT_READY": "OFF",
        "REPORT_FAILED": "NOW",
        "ALERT": "OFF",
        "DECISION_WAITING": "OFF",
        "HAND_OVER": "OFF",
    }


def test_member_who_left_before_the_morning_gets_none(live_api, officer, clock):
    raise_alert(live_api)
    members.leave(officer)
    clock.move_to(TOMORROW)
    send_digests()

    assert not Notification.objects.exists()
