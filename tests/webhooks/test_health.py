import re
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.utils.timezone import now

from tests.world.clock import let_time_pass
from tests.world.deliveries import (
    URL,
    age_failures,
    configure_receiver,
    delivery_statuses,
    get_delivery,
    record_events,
)
from tests.world.receiver import Receiver, Script
from verification.jobs.models import Job
from verification.notifications.delivery import send_due_notifications
from verification.notifications.models import Notification
from webhooks import attempts, health
from webhooks.attempts import claim
from webhooks.delivery import send_due_deliveries
from webhooks.models import Configuration
from webhooks.sender import Answer
from workspaces.models import Workspace

pytestmark = pytest.mark.django_db


def ended(claimed: Any, status: int) -> Any:
    return claimed, now(), Answer(status, "", "", 3, None)


def attempt(*statuses: int) -> Configuration:
    """Record one attempt with each of these answers, one after the other."""
    for status in statuses:
        let_time_pass()
        attempts.record_attempts([ended(claim(1)[0], status)])
    return Configuration.objects.get()


def run_mails() -> None:
    """Run the jobs that write to owners."""
    for job in Job.objects.filter(function__startswith="webhooks.health"):
        getattr(health, job.function.rpartition(".")[2])(*job.arguments)
        job.delete()
    send_due_notifications()


def test_owner_is_notified_once_at_the_fourth_failure_in_a_row(
    workspace: Workspace,
):
    configure_receiver(workspace)
    record_events(workspace, 9)
    attempt(500, 500, 500)
    run_mails()
    assert mail.outbox == []
    attempt(500, 500, 500)
    run_mails()
    (told,) = mail.outbox
    assert told.to == ["owner@acacia.test"]
    english = told.subject.partition(" / ")[0]
    assert english == "[SANDBOX] Your webhook receiver is failing"
    assert URL in told.body


def test_mail_leads_to_what_helps_a_failing_receiver(workspace: Workspace, client):
    configure_receiver(workspace)
    record_events(workspace, 9)
    attempt(500, 500, 500, 500)
    run_mails()

    found = re.search(r"(/docs/\S+)#(\S+)", str(mail.outbox[0].body))

    assert found
    assert f'id="{found[2]}"' in client.get(found[1]).content.decode()


def test_repeated_job_notifies_the_owner_once(workspace: Workspace):
    configure_receiver(workspace)
    record_events(workspace, 9)
    configuration = attempt(500, 500, 500, 500)
    health.notify_failing(str(configuration.pk))
    health.notify_failing(str(configuration.pk))
    run_mails()
    assert Notification.objects.count() == len(mail.outbox) == 1


def test_success_resets_the_failures(workspace: Workspace):
    configure_receiver(workspace)
    record_events(workspace, 9)
    configuration = attempt(500, 500, 500, 200, 500, 500)
    assert configuration.failures_in_row == 2
    run_mails()
    assert mail.outbox == []


def test_owner_of_a_recovered_receiver_is_not_notified(workspace: Workspace):
    configure_receiver(workspace)
    record_events(workspace, 9)
    attempt(500, 500, 500, 500, 200)
    run_mails()
    assert mail.outbox == []


def test_410_disables_until_the_client_enables_again(
    receiver: Receiver, workspace: Workspace
):
    receiver.scripts["/hook"] = Script(status=410)
    configure_receiver(workspace, receiver.url("/hook", host="localhost"))
    record_events(workspace)
    send_due_deliveries()
    configuration = Configuration.objects.get()
    assert (configuration.enabled, configuration.disabled_reason) == (False, "GONE")
    assert configuration.updated_at == configuration.disabled_at
    assert delivery_statuses() == {"FAILED": 1}
    run_mails()
    assert "410" in mail.outbox[0].body

    Configuration.objects.update(enabled=True, disabled_at=None, disabled_reason="")
    record_events(workspace)
    Configuration.objects.update(enabled=False)
    let_time_pass()
    send_due_deliveries()
    assert len(receiver.received) == 1
    receiver.scripts.clear()
    Configuration.objects.update(enabled=True)
    send_due_deliveries()
    assert delivery_statuses() == {"FAILED": 1, "DELIVERED": 1}


def test_five_days_and_ten_failures_disable(workspace: Workspace):
    configure_receiver(workspace)
    record_events(workspace, 2)
    assert attempt(*[500] * 9).enabled
    age_failures(failing_since=timedelta(days=5))
    configuration = attempt(500)
    assert configuration.disabled_reason == "FAILING"
    assert claim(10) == []
    run_mails()
    assert "nothing could be delivered" in mail.outbox[-1].body


def test_ten_failures_within_five_days_do_not_disable(workspace: Workspace):
    configure_receiver(workspace)
    record_events(workspace, 2)
    attempt(*[500] * 9)
    age_failures(failing_since=timedelta(days=4, hours=23))
    assert attempt(500).enabled


def test_few_failures_in_five_days_do_not_disable(workspace: Workspace):
    configure_receiver(workspace)
    record_events(workspace, 2)
    attempt(*[500] * 8)
    age_failures(failing_since=timedelta(days=9))
    assert attempt(500).enabled


def test_receiver_rests_after_ten_failures_in_a_row(workspace: Workspace):
    configure_receiver(workspace)
    record_events(workspace, 20)
    configuration = attempt(*[500] * 10)
    rest = configuration.resting_until - now()
    assert timedelta(seconds=28) < rest <= timedelta(seconds=30)
    assert claim(10) == []


def test_rests_grow_to_five_minutes(workspace: Workspace):
    configure_receiver(workspace)
    record_events(workspace, 20)
    rests = []
    attempt(*[500] * 9)
    for _ in range(6):
        rest = attempt(500).resting_until - now()
        rests.append(round(rest.total_seconds()))
    assert rests == [30, 60, 120, 240, 300, 300]


def test_rested_receiver_gets_a_probe_and_then_all_deliveries(workspace: Workspace):
    configure_receiver(workspace)
    record_events(workspace, 20)
    attempt(*[500] * 10)
    let_time_pass()
    (probe,) = claim(10)
    assert claim(10) == []
    attempts.record_attempts([ended(probe, 200)])
    let_time_pass()
    assert len(claim(10)) == 10


def test_late_answer_of_the_old_url_does_not_count(
    workspace: Workspace,
):
    configure_receiver(workspace)
    record_events(workspace)
    (late,) = claim(1)
    Configuration.objects.update(url="https://new.acacia.test/", updated_at=now())
    attempts.record_attempts([ended(late, 410)])
    configuration = Configuration.objects.get()
    assert configuration.enabled
    assert configuration.failures_in_row == 0
    assert get_delivery().status == "FAILED"


def test_burst_of_failures_is_one_rest(workspace: Workspace):
    configure_receiver(workspace)
    record_events(workspace, 30)
    burst = claim(20, {Configuration.objects.get().pk: 20})
    attempts.record_attempts([ended(one, 500) for one in burst[:12]])
    attempts.record_attempts([ended(one, 500) for one in burst[12:]])
    configuration = Configuration.objects.get()
    rest = configuration.resting_until - now()
    assert timedelta(seconds=28) < rest <= timedelta(seconds=30)
    assert (configuration.failures_in_row, configuration.rests) == (20, 1)


def test_failures_between_successes_are_not_in_a_row(workspace: Workspace):
    """All deliveries are claimed before the first fails."""
    configure_receiver(workspace)
    record_events(workspace, 20)
    claimed = claim(20, {Configuration.objects.get().pk: 20})
    for number, one in enumerate(claimed):
        attempts.record_attempts([ended(one, 500 if number % 2 else 200)])
    configuration = Configuration.objects.get()
    assert (configuration.failures_in_row, configuration.resting_until) == (1, None)
    assert not Job.objects.filter(function__startswith="webhooks.health").exists()
