from datetime import timedelta

import pytest
from django.db import transaction
from django.utils.timezone import now

from tests.webhooks.test_configuration import forget_jobs, is_woken
from tests.world.clients import Api
from tests.world.deliveries import (
    configure_receiver,
    ended_fields,
    record_delivery,
    remove_receiver,
    retrying_fields,
    update_delivery,
)
from tests.world.threads import SECONDS, start_and_block, uncommitted
from verification.jobs.models import Job
from verification.jobs.names import JobName
from webhooks import redelivery
from webhooks.configuration import NotConfigured
from webhooks.models import Configuration, Delivery, Event
from webhooks.redelivery import (
    ConfigurationDisabled,
    EventPurged,
    TooManyTests,
    recover,
    redeliver,
    send_test,
)


def again(api: Api, delivery: Delivery) -> Delivery:
    return redeliver(api.workspace.pk, api.environment, delivery.pk)


def is_due_anew(delivery: Delivery) -> bool:
    delivery.refresh_from_db()
    return (
        (delivery.status, delivery.failures) == ("PENDING", 0)
        and (delivery.leased_until, delivery.delivered_at) == (None, None)
        and delivery.next_attempt_at <= now()
    )


def as_it_is(delivery: Delivery) -> dict:
    return Delivery.objects.filter(pk=delivery.pk).values().get()


@pytest.mark.parametrize(
    "fields",
    [
        ended_fields("DELIVERED"),
        ended_fields("FAILED"),
        retrying_fields(),
        retrying_fields(now(), leased_until=now() - timedelta(seconds=1)),
    ],
    ids=["delivered", "failed", "retrying", "lease over"],
)
def test_delivery_of_any_status_is_sent_again(api: Api, fields):
    configure_receiver(api.workspace)
    delivery = record_delivery(api, **fields)
    forget_jobs()

    told = again(api, delivery)

    assert is_due_anew(delivery)
    assert told.status == "PENDING"
    assert delivery.attempts == fields.get("attempts", 0)
    assert is_woken()


def test_leased_delivery_is_left_alone(api: Api):
    configure_receiver(api.workspace)
    soon = now() + timedelta(seconds=30)
    delivery = record_delivery(api, **retrying_fields(soon, leased_until=soon))
    before = as_it_is(delivery)

    assert again(api, delivery).status == "RETRYING"

    assert as_it_is(delivery) == before


def test_redelivery_goes_to_the_present_configuration(api: Api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api)
    remove_receiver(api.workspace)
    present = configure_receiver(api.workspace)

    again(api, delivery)

    assert is_due_anew(delivery)
    assert delivery.configuration == present


def test_redelivery_is_refused_without_a_configuration(api: Api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api)
    remove_receiver(api.workspace)
    before = as_it_is(delivery)

    with pytest.raises(NotConfigured):
        again(api, delivery)
    with pytest.raises(NotConfigured):
        recover(api.workspace.pk, "sandbox", now() - timedelta(days=1))
    with pytest.raises(NotConfigured):
        send_test(api.workspace.pk, "sandbox")

    assert as_it_is(delivery) == before
    assert not Event.objects.filter(name="webhook.test").exists()


def test_redelivery_is_refused_when_disabled(api: Api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api, **ended_fields("FAILED"))
    configure_receiver(api.workspace, enabled=False)
    before = as_it_is(delivery)

    with pytest.raises(ConfigurationDisabled):
        again(api, delivery)
    with pytest.raises(ConfigurationDisabled):
        recover(api.workspace.pk, "sandbox", now() - timedelta(days=1))
    with pytest.raises(ConfigurationDisabled):
        send_test(api.workspace.pk, "sandbox")

    assert as_it_is(delivery) == before
    assert not Event.objects.filter(name="webhook.test").exists()


def test_redelivery_is_refused_after_the_purge(api: Api):
    configure_receiver(api.workspace)
    delivery = record_delivery(api, **ended_fields("FAILED"))
    Event.objects.update(payload=None)
    before = as_it_is(delivery)

    with pytest.raises(EventPurged):
        again(api, delivery)
    assert recover(api.workspace.pk, "sandbox", now() - timedelta(days=60)) == 0

    assert as_it_is(delivery) == before


def test_delivery_of_another_workspace_is_not_found(
    api: Api, live_api: Api, another_api: Api
):
    configure_receiver(api.workspace)
    delivery = record_delivery(api, **ended_fields("FAILED"))
    before = as_it_is(delivery)

    for stranger in (live_api, another_api):
        configure_receiver(stranger.workspace, environment=stranger.environment)
        with pytest.raises(Delivery.DoesNotExist):
            again(stranger, delivery)
        long_ago = now() - timedelta(days=60)
        assert recover(stranger.workspace.pk, stranger.environment, long_ago) == 0

    assert as_it_is(delivery) == before


def test_recovery_sends_only_failed_deliveries_since_then(api: Api):
    configure_receiver(api.workspace)
    since = now() - timedelta(hours=2)
    old, edge, new = (record_delivery(api, **ended_fields("FAILED")) for _ in range(3))
    update_delivery(old, created_at=since - timedelta(microseconds=1))
    update_delivery(edge, created_at=since)
    others = [
        record_delivery(api, **ended_fields("DELIVERED")),
        record_delivery(api, **retrying_fields()),
    ]
    before = [as_it_is(delivery) for delivery in (old, *others)]
    forget_jobs()

    assert recover(api.workspace.pk, "sandbox", since) == 2

    assert is_due_anew(edge)
    assert is_due_anew(new)
    assert [as_it_is(delivery) for delivery in (old, *others)] == before
    assert is_woken()
    assert recover(api.workspace.pk, "sandbox", since) == 0


@pytest.mark.django_db(transaction=True)
def test_recovery_locks_deliveries_in_the_order_of_senders(
    transactional_db: None, api: Api
):
    configure_receiver(api.workspace)
    first, last = (record_delivery(api) for _ in range(2))
    # Their times are not in the order of their ids.
    update_delivery(first, **ended_fields("FAILED", created_at=now()))
    update_delivery(last, **ended_fields("FAILED"))
    rows = Delivery.objects.select_for_update(nowait=True)
    since = now() - timedelta(days=1)

    with uncommitted(lambda: rows.get(pk=first.pk)):
        recovery = start_and_block(lambda: recover(api.workspace.pk, "sandbox", since))
        with transaction.atomic():
            rows.get(pk=last.pk)

    assert recovery.result(SECONDS) == 2


def test_recovery_goes_on_in_batches(api: Api, monkeypatch):
    monkeypatch.setattr(redelivery, "RECOVERED_AT_ONCE", 2)
    configure_receiver(api.workspace)
    rows = [record_delivery(api, **ended_fields("FAILED")) for _ in range(5)]

    assert recover(api.workspace.pk, "sandbox", now() - timedelta(days=1)) == 5

    assert set(Delivery.objects.filter(status="PENDING")) == {rows[0], rows[1]}
    # They fail again at once, and the job leaves them alone.
    Delivery.objects.update(**ended_fields("FAILED"))
    for waiting in (2, 1):
        recovering = Job.objects.filter(function=JobName.GO_ON_RECOVERING)
        arguments = recovering.get().arguments
        recovering.delete()
        redelivery.go_on_recovering(*arguments)
        assert Delivery.objects.filter(status="PENDING").count() == waiting
        Delivery.objects.update(**ended_fields("FAILED"))
    assert not recovering.exists()


def test_recovery_has_constant_cost(api: Api, django_assert_max_num_queries):
    configure_receiver(api.workspace)
    for _ in range(12):
        record_delivery(api, **ended_fields("FAILED"))

    # The lock, the configuration, the ids, the update, the job; a savepoint around.
    with django_assert_max_num_queries(7):
        assert recover(api.workspace.pk, "sandbox", now() - timedelta(days=1)) == 12


def test_test_event_is_always_delivered(api: Api):
    configuration = configure_receiver(api.workspace, events=[])
    forget_jobs()

    delivery = send_test(api.workspace.pk, "sandbox")

    assert (delivery.name, delivery.status) == ("webhook.test", "PENDING")
    assert delivery.configuration == configuration
    assert delivery.event.payload["workspaceId"] == str(api.workspace.pk)
    assert delivery.event.payload["test"] is True
    assert delivery.event.report_id is None
    assert is_woken()


@pytest.mark.usefixtures("new_minute")
def test_sixth_test_event_in_a_minute_is_refused(api: Api, live_api: Api):
    configure_receiver(api.workspace)
    configure_receiver(live_api.workspace, environment="production")

    for _ in range(5):
        send_test(api.workspace.pk, "sandbox")
    with pytest.raises(TooManyTests) as refused:
        send_test(api.workspace.pk, "sandbox")

    assert 0 < refused.value.rate.resets_in <= 60
    assert Event.objects.filter(name="webhook.test").count() == 5
    assert send_test(api.workspace.pk, "production")
    assert Configuration.objects.count() == 2
