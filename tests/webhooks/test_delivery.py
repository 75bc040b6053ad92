import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import pytest
import time_machine
from django.db import connection, transaction
from django.utils.timezone import now
from standardwebhooks import Webhook

from tests.world.clients import Api, person
from tests.world.clock import let_time_pass
from tests.world.deliveries import (
    SECRET,
    attempt_results,
    configure_receiver,
    delivery_statuses,
    get_delivery,
    record_events,
)
from tests.world.receiver import Receiver, Script
from tests.world.waiting import until
from verification.jobs.models import Job
from verification.jobs.names import JobName
from webhooks import delivery
from webhooks.attempts import MAX_CONCURRENT_REQUESTS, claim, record_attempts
from webhooks.delivery import _collect_ended, _InFlight, _start, send_due_deliveries
from webhooks.models import Attempt, Configuration, Delivery, Event
from webhooks.sender import Sender, signing_key
from workspaces.models import Workspace


def test_event_arrives_signed_with_its_id(
    receiver: Receiver, url: str, workspace: Workspace
):
    configure_receiver(workspace, url)
    (event_id,) = record_events(workspace)
    send_due_deliveries()

    (received,) = receiver.received
    assert Webhook(signing_key(SECRET)).verify(received.body, received.headers) == {
        "event": "report.ready",
        "timestamp": Event.objects.get().created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "data": {"n": 0},
    }
    assert received.headers["webhook-id"] == str(event_id)
    assert received.headers["content-type"] == "application/json"
    delivery = get_delivery(status="DELIVERED", status_code=200, attempts=1)
    assert delivery.delivered_at
    assert delivery.next_attempt_at is None
    attempt = Attempt.objects.get()
    assert (attempt.answer, attempt.url, attempt.number) == ("ok", url, 1)


def test_every_event_of_a_report_arrives(receiver: Receiver, url: str, api: Api):
    configure_receiver(api.workspace, url, events=Event.Name.values)
    made = api.create(person())
    api.work()
    send_due_deliveries()
    events = [json.loads(received.body) for received in receiver.received]
    assert sorted(event["event"] for event in events) == [
        *["check.completed"] * 3,
        "report.created",
        "report.ready",
    ]
    assert {event["data"]["reportId"] for event in events} == {made["id"]}


def test_event_that_is_not_enabled_is_not_delivered(workspace: Workspace):
    configure_receiver(workspace, events=["report.ready"])
    Job.objects.all().delete()
    record_events(workspace, name=Event.Name.REPORT_CREATED)
    assert delivery_statuses() == {}
    assert not Job.objects.filter(function=JobName.SEND_DELIVERIES).exists()


def test_enabled_events_decide_when_the_event_is_recorded(workspace: Workspace):
    configuration = configure_receiver(workspace, enabled=False)
    record_events(workspace)
    configuration.enabled = True
    configuration.save()
    assert delivery_statuses() == {}


def test_events_of_the_other_environment_are_not_delivered(workspace: Workspace):
    configure_receiver(workspace, environment="production")
    record_events(workspace)
    assert delivery_statuses() == {}


def test_rolled_back_event_is_not_delivered(workspace: Workspace):
    configure_receiver(workspace)
    Job.objects.all().delete()
    with transaction.atomic():
        record_events(workspace)
        transaction.set_rollback(True)
    assert delivery_statuses() == {}
    assert not Job.objects.exists()


def test_attempts_share_id_and_body_but_not_the_time(
    receiver: Receiver, url: str, workspace: Workspace
):
    receiver.scripts["/hook"] = Script(status=500)
    configure_receiver(workspace, url)
    record_events(workspace)
    send_due_deliveries()
    let_time_pass()
    with time_machine.travel(now() + timedelta(hours=1)):
        send_due_deliveries()
    first, second = receiver.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    sent = [int(each.headers["webhook-timestamp"]) for each in (first, second)]
    assert 3_600 <= sent[1] - sent[0] <= 3_610


def test_failed_delivery_is_retried_after_5_seconds(
    receiver: Receiver, url: str, workspace: Workspace
):
    receiver.scripts["/hook"] = Script(status=500, body=b"sorry")
    configure_receiver(workspace, url)
    record_events(workspace)
    Job.objects.all().delete()  # it runs now
    send_due_deliveries()
    delivery = get_delivery(status="RETRYING", status_code=500, failures=1)
    wait = delivery.next_attempt_at - now()
    assert timedelta(seconds=3) < wait < timedelta(seconds=6.1)
    (job,) = Job.objects.filter(function=JobName.SEND_DELIVERIES, due_at__gt=now())
    assert abs(job.due_at - delivery.next_attempt_at) < timedelta(seconds=0.1)


def test_delivery_fails_after_ten_attempts(
    receiver: Receiver, url: str, workspace: Workspace
):
    receiver.scripts["/hook"] = Script(status=500)
    configure_receiver(workspace, url)
    record_events(workspace)
    for _ in range(12):
        send_due_deliveries()
        let_time_pass()
    assert delivery_statuses() == {"FAILED": 1}
    assert attempt_results() == [(number, 500, "") for number in range(1, 11)]


def test_retry_after_is_honoured(receiver: Receiver, url: str, workspace: Workspace):
    receiver.scripts["/hook"] = Script(status=503, headers={"Retry-After": "120"})
    configure_receiver(workspace, url)
    record_events(workspace)
    send_due_deliveries()
    wait = get_delivery().next_attempt_at - now()
    assert timedelta(seconds=115) < wait <= timedelta(seconds=120)


def test_delivery_to_a_blocked_target_fails_at_once(
    receiver: Receiver, workspace: Workspace
):
    configure_receiver(workspace, "https://127.0.0.1/")
    record_events(workspace)
    send_due_deliveries()
    assert delivery_statuses() == {"FAILED": 1}
    assert attempt_results() == [(1, None, "TARGET_BLOCKED")]


def test_unreadable_event_delays_no_other(
    receiver: Receiver, url: str, workspace: Workspace
):
    configure_receiver(workspace, url)
    bad, _ = record_events(workspace, 2)
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE webhooks_event
            SET payload = set_byte(payload, 30, get_byte(payload, 30) # 1) WHERE id = %s
            """,
            [bad],
        )
    send_due_deliveries()
    assert get_delivery(pk=bad).status == "FAILED"
    assert delivery_statuses() == {"FAILED": 1, "DELIVERED": 1}
    assert Configuration.objects.get().failures_in_row == 0


def test_event_that_was_restricted_since_is_not_sent(
    receiver: Receiver, url: str, workspace: Workspace
):
    configure_receiver(workspace, url)
    (personal,) = record_events(workspace)
    (impersonal,) = record_events(workspace, name=Event.Name.REPORT_ERASED)
    Event.objects.update(restricted_at=now())
    send_due_deliveries()
    stopped = get_delivery(pk=personal)
    # Without an attempt, as the objection ends those that wait
    assert (stopped.status, stopped.attempts) == ("FAILED", 0)
    assert get_delivery(pk=impersonal).status == "DELIVERED"
    assert len(receiver.received) == 1
    assert Attempt.objects.count() == 1


def test_both_secrets_sign_while_the_old_one_is_valid(
    receiver: Receiver, url: str, workspace: Workspace
):
    old = "an older secret, 24 long"
    configure_receiver(workspace, url, secret=old)
    configure_receiver(workspace, url)
    record_events(workspace)
    send_due_deliveries()
    Configuration.objects.update(previous_secret_ends_at=now())
    record_events(workspace)
    send_due_deliveries()
    first, second = receiver.received
    for secret in (SECRET, old):
        Webhook(signing_key(secret)).verify(first.body, first.headers)
    assert len(first.headers["webhook-signature"].split()) == 2
    assert len(second.headers["webhook-signature"].split()) == 1


@contextmanager
def hanging_until(receiver: Receiver, path: str, requests: int) -> Iterator[None]:
    """Let `/hangs` hang until so many requests of the path arrived; cut it then."""

    def cut() -> None:
        until(lambda: [r.path for r in receiver.received].count(path) >= requests)
        receiver.scripts["/hangs"] = Script(cut_after=0)
        receiver.drop_connections()

    receiver.scripts["/hangs"] = Script(hangs=True)
    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(cut)
        yield
        done.result()


def test_at_most_ten_requests_of_a_configuration_are_under_way(
    receiver: Receiver, workspace: Workspace
):
    configure_receiver(workspace, receiver.url("/hangs", host="localhost"))
    record_events(workspace, 30)
    with hanging_until(receiver, "/hangs", MAX_CONCURRENT_REQUESTS):
        send_due_deliveries()
    # A few more were claimed while the first of them were recorded, and no more once
    # ten had failed in a row: it rests, and the others wait as if never claimed.
    sent = len(receiver.received)
    assert sent < 2 * MAX_CONCURRENT_REQUESTS
    assert attempt_results() == [(1, None, "BROKEN")] * sent
    assert delivery_statuses() == {"RETRYING": sent, "PENDING": 30 - sent}
    assert not Delivery.objects.filter(leased_until__isnull=False).exists()


@pytest.mark.parametrize("status", [410, 500, 429])
def test_refusing_receiver_gets_only_requests_under_way(
    receiver: Receiver, url: str, workspace: Workspace, status: int
):
    receiver.scripts["/hook"] = lambda received: Script(
        status=200 if len(receiver.received) <= 20 else status
    )
    configure_receiver(workspace, url)
    record_events(workspace, 80)
    send_due_deliveries()
    assert len(receiver.received) <= 20 + 2 * MAX_CONCURRENT_REQUESTS
    assert delivery_statuses()["DELIVERED"] == 20
    assert Delivery.objects.filter(status="PENDING", attempts=0).count() >= 40


def test_events_of_a_suspended_workspace_wait_until_it_is_resumed(
    receiver: Receiver, url: str, workspace: Workspace
):
    configure_receiver(workspace, url)
    record_events(workspace)
    workspace.suspend("Unpaid invoices")
    Job.objects.all().delete()
    send_due_deliveries()
    assert delivery_statuses() == {"PENDING": 1}
    assert not Job.objects.exists()
    workspace.resume()
    assert Job.objects.filter(function=JobName.SEND_DELIVERIES).exists()
    send_due_deliveries()
    assert delivery_statuses() == {"DELIVERED": 1}


def test_event_sealed_with_an_unknown_key_waits(
    receiver: Receiver, url: str, workspace: Workspace, settings
):
    configure_receiver(workspace, url)
    record_events(workspace)
    ring = settings.FIELD_KEYS
    settings.FIELD_KEYS = [("k99", b"x" * 32)]
    send_due_deliveries()
    assert get_delivery().next_attempt_at > now() + timedelta(seconds=50)
    assert (delivery_statuses(), attempt_results()) == ({"PENDING": 1}, [])
    settings.FIELD_KEYS = ring
    let_time_pass()
    send_due_deliveries()
    assert delivery_statuses() == {"DELIVERED": 1}


def test_timestamp_is_the_time_of_the_attempt(
    receiver: Receiver, url: str, workspace: Workspace
):
    configure_receiver(workspace, url)
    record_events(workspace, 2)
    flight = _InFlight()
    with time_machine.travel(now()) as clock, Sender(at_once=1) as post:
        receiver.scripts["/hook"] = lambda received: clock.shift(5) or Script()
        _start(post, claim(99), flight)
        while flight.claims:
            record_attempts(_collect_ended(post, flight))
    attempts = Attempt.objects.order_by("started_at")
    first, last = (int(each.started_at.timestamp()) for each in attempts)
    assert last - first >= 5
    assert [int(each.headers["webhook-timestamp"]) for each in receiver.received] == [
        first,
        last,
    ]


def test_hanging_receiver_delays_no_other(
    receiver: Receiver, url: str, workspace: Workspace, another_api: Api, settings
):
    settings.WEBHOOK_TIMEOUT_SECONDS = 30
    configure_receiver(workspace, receiver.url("/hangs", host="localhost"))
    configure_receiver(another_api.workspace, url)
    record_events(workspace, 30)
    record_events(another_api.workspace, 30)
    with hanging_until(receiver, "/hook", 30):
        send_due_deliveries()
    assert not Attempt.objects.filter(error="TIMED_OUT").exists()


def test_renewed_delivery_is_not_claimed_again(
    receiver: Receiver, url: str, workspace: Workspace, monkeypatch
):
    receiver.scripts["/hook"] = Script(hangs=True)
    configure_receiver(workspace, url)
    record_events(workspace)
    monkeypatch.setattr(delivery, "RENEW_SECONDS", 0)
    flight = _InFlight()
    with Sender() as sender:
        _start(sender, claim(1), flight)
        receiver.wait_for(1)
        let_time_pass()
        assert _collect_ended(sender, flight) == []
        assert claim(1) == []
        receiver.drop_connections()
        while flight.claims:
            record_attempts(_collect_ended(sender, flight))

    assert len(receiver.received) == 1
    assert attempt_results() == [(1, None, "BROKEN")]
