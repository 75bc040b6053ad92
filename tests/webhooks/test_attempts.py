from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import transaction
from django.utils.timezone import now

from tests.world.clients import Api
from tests.world.clock import let_time_pass
from tests.world.deliveries import (
    attempt_results,
    configure_receiver,
    delivery_statuses,
    get_delivery,
    record_events,
)
from tests.world.receiver import Receiver, Script
from tests.world.threads import SECONDS, start_and_block, uncommitted
from verification.jobs.models import Job
from verification.jobs.names import JobName
from webhooks.attempts import (
    MAX_CLAIMED,
    MAX_CONCURRENT_REQUESTS,
    RETRY_DELAYS,
    ClaimShares,
    claim,
    next_retry_delay,
    record_attempts,
    renew_claims,
)
from webhooks.delivery import _collect_ended, _InFlight, _start, send_due_deliveries
from webhooks.models import Configuration, Delivery
from webhooks.sender import Answer, Sender
from workspaces.models import Workspace

OK = Answer(200, "", "ok", 3, None)


def test_claim_takes_at_most_the_share_of_a_configuration(workspace: Workspace):
    configuration = configure_receiver(workspace)
    record_events(workspace, 40)
    assert len(claim(1000)) == MAX_CONCURRENT_REQUESTS
    assert claim(1000) == []
    assert len(claim(1000, {configuration.pk: 25})) == 15


def test_delivery_claimed_twice_is_recorded_once(
    receiver: Receiver, url: str, workspace: Workspace
):
    receiver.scripts["/hook"] = Script(drip=0.002)
    configure_receiver(workspace, url)
    record_events(workspace)
    flight = _InFlight()
    with Sender(at_once=MAX_CONCURRENT_REQUESTS) as post:
        for _ in range(2):
            _start(post, claim(1), flight)
            # A removal and a recovery have the same effect.
            Delivery.objects.update(next_attempt_at=now())
        while flight.claims:
            record_attempts(_collect_ended(post, flight))
    assert len(receiver.received) == 2
    assert attempt_results() == [(1, 200, "")]


def test_backlog_of_one_configuration_delays_no_other(
    workspace: Workspace, another_api: Api
):
    configure_receiver(workspace)
    configure_receiver(another_api.workspace, "https://hooks.baobab.test/")
    record_events(workspace, 100)
    record_events(another_api.workspace, 3)
    claimed = [c.configuration.url for c in claim(6)]
    assert claimed.count("https://hooks.baobab.test/") == 3


def test_late_sender_overwrites_nothing(workspace: Workspace):
    configure_receiver(workspace)
    record_events(workspace)
    (late,) = claim(1)
    let_time_pass()
    (present,) = claim(1)
    record_attempts([(present, now(), OK)])
    record_attempts([(late, now(), Answer(500, "", "", 3, None))])
    assert delivery_statuses() == {"DELIVERED": 1}
    assert attempt_results() == [(1, 200, "")]
    assert Configuration.objects.get().failures_in_row == 0


def test_current_claim_counts_when_two_are_recorded_together(
    workspace: Workspace, caplog
):
    configure_receiver(workspace)
    record_events(workspace)
    (late,) = claim(1)
    let_time_pass()
    (present,) = claim(1)
    failed = Answer(500, "", "", 3, None)
    caplog.clear()
    record_attempts([(late, now(), failed), (present, now(), OK)])
    assert (delivery_statuses(), attempt_results()) == (
        {"DELIVERED": 1},
        [(1, 200, "")],
    )
    assert not caplog.text


def test_delivery_of_a_dead_sender_is_due_when_its_lease_ends(
    receiver: Receiver, url: str, workspace: Workspace
):
    configure_receiver(workspace, url)
    record_events(workspace)
    claim(1)
    Job.objects.all().delete()  # it runs now
    send_due_deliveries()
    assert receiver.received == []
    assert Job.objects.filter(
        function=JobName.SEND_DELIVERIES, due_at__gt=now()
    ).exists()
    let_time_pass()
    send_due_deliveries()
    assert delivery_statuses() == {"DELIVERED": 1}


def test_delivery_of_a_removed_configuration_is_not_sent(workspace: Workspace):
    configuration = configure_receiver(workspace)
    record_events(workspace)
    Delivery.objects.update(status="FAILED", next_attempt_at=None)
    configuration.delete()
    assert claim(10) == []


@pytest.mark.django_db(transaction=True)
def test_leases_begin_again_in_the_order_of_deliveries(
    transactional_db: None, workspace: Workspace
):
    configure_receiver(workspace)
    first, last = sorted(record_events(workspace, 2))
    claims = sorted(claim(2), key=lambda one: one.event.pk, reverse=True)
    rows = Delivery.objects.select_for_update(nowait=True)

    with uncommitted(lambda: rows.get(pk=first)):
        renewing = start_and_block(lambda: renew_claims(claims))
        with transaction.atomic():
            rows.get(pk=last)

    renewing.result(SECONDS)


def test_attempt_that_cannot_be_recorded_loses_no_other(workspace: Workspace):
    configure_receiver(workspace)
    record_events(workspace, 2)
    bad, good = claim(2)
    unknown = Answer(99_999_999, "", "", 3, None)
    record_attempts([(bad, now(), unknown), (good, now(), OK)])
    assert get_delivery(pk=good.event.pk).status == "DELIVERED"
    assert get_delivery(pk=bad.event.pk).status == "PENDING"


ID = uuid4()


def grown(*notes: tuple[bool, float]) -> int:
    shares = ClaimShares()
    for acknowledged, seconds in notes:
        shares.note(ID, acknowledged=acknowledged, seconds=seconds)
    return shares.grown.get(ID, MAX_CONCURRENT_REQUESTS)


def test_quick_acknowledgements_raise_the_share_up_to_a_limit():
    assert grown(*[(True, 0.1)] * 5) == MAX_CONCURRENT_REQUESTS + 5
    assert grown(*[(True, 0.1)] * 1_000) == MAX_CLAIMED


@pytest.mark.parametrize("last", [(False, 0.1), (True, 1.5)])
def test_failure_or_slow_answer_resets_the_share(last: tuple[bool, float]):
    assert grown(*[(True, 0.1)] * 50, last) == MAX_CONCURRENT_REQUESTS


def waits(failures: int, status: int | None = 500, retry_after: float | None = None):
    return [next_retry_delay(failures, status, retry_after) for _ in range(300)]


@pytest.mark.parametrize(("failures", "seconds"), list(enumerate(RETRY_DELAYS, 1)))
def test_retry_delay_is_that_of_the_schedule_with_jitter(failures: int, seconds: int):
    found = waits(failures)
    assert min(found) >= timedelta(seconds=seconds * 0.8)
    assert max(found) <= timedelta(seconds=seconds * 1.2)
    assert max(found) - min(found) > timedelta(seconds=seconds * 0.2)


def test_ten_attempts_take_about_three_days():
    assert (
        timedelta(days=3) < timedelta(seconds=sum(RETRY_DELAYS)) < timedelta(days=3.5)
    )


def test_no_retry_follows_the_tenth_attempt():
    assert next_retry_delay(10, 500, None) is None


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(
    ("failures", "asked", "waited"),
    [(1, 60, 60), (1, 3_600, 3_600), (1, 90_000, 3_600), (9, 200_000, 172_800)],
)
def test_retry_after_makes_the_delay_longer_within_bounds(
    status: int, failures: int, asked: int, waited: int
):
    assert set(waits(failures, status, asked)) == {timedelta(seconds=waited)}


def test_retry_after_never_makes_the_delay_shorter():
    assert min(waits(2, 429, 1)) >= timedelta(seconds=240)


@pytest.mark.parametrize("status", [200, 400, 500, 502, None])
def test_retry_after_counts_only_with_429_and_503(status: int | None):
    assert max(waits(1, status, 600)) <= timedelta(seconds=6)
