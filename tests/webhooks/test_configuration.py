from contextlib import ExitStack
from datetime import timedelta

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from tests.world.clients import Api
from tests.world.deliveries import (
    SECRET,
    configure_receiver,
    delivery_statuses,
    record_delivery,
    record_events,
    remove_receiver,
    retrying_fields,
    update_delivery,
)
from tests.world.threads import (
    SECONDS,
    count_waiting,
    run_at_once,
    start_and_block,
    uncommitted,
)
from tests.world.waiting import until
from verification.jobs.models import Job
from webhooks.configuration import NotConfigured, SecretRequired
from webhooks.models import Configuration, Delivery

ANOTHER = "another-secret-of-16"


def only(api: Api) -> Configuration:
    return Configuration.objects.get(
        workspace=api.workspace, environment=api.environment
    )


def forget_jobs() -> None:
    Job.objects.filter(function="webhooks.delivery.send_due_deliveries").delete()


def is_woken() -> bool:
    return Job.objects.filter(function="webhooks.delivery.send_due_deliveries").exists()


def test_each_environment_has_one_configuration(api: Api, live_api: Api):
    first = configure_receiver(api.workspace)
    configure_receiver(
        live_api.workspace, environment="production", url="https://live.acacia.test/"
    )

    again = configure_receiver(
        api.workspace, url="https://other.acacia.test/", events=["report.ready"]
    )

    assert again.pk == first.pk
    assert (again.url, again.enabled_events) == (
        "https://other.acacia.test/",
        ["report.ready"],
    )
    assert again.updated_at > first.updated_at
    assert again.created_at == first.created_at
    assert only(live_api).url == "https://live.acacia.test/"


def test_first_configuration_needs_a_secret(api: Api):
    with pytest.raises(SecretRequired):
        configure_receiver(api.workspace, secret=None)

    assert not Configuration.objects.exists()


def test_omitted_secret_stays(api: Api):
    configure_receiver(api.workspace)

    configure_receiver(api.workspace, secret=None)

    assert only(api).secrets(now()) == [SECRET]
    assert only(api).previous_secret_ends_at is None


def test_same_secret_changes_nothing(api: Api):
    configure_receiver(api.workspace, secret=ANOTHER)
    configure_receiver(api.workspace)
    ends_at = only(api).previous_secret_ends_at

    configure_receiver(api.workspace)

    assert only(api).previous_secret_ends_at == ends_at
    assert only(api).secrets(now()) == [SECRET, ANOTHER]


def test_old_secret_signs_for_a_day_beside_the_new_one(api: Api):
    configure_receiver(api.workspace)

    configure_receiver(api.workspace, secret=ANOTHER)

    changed = only(api)
    assert changed.previous_secret_ends_at == changed.updated_at + timedelta(days=1)
    almost = changed.updated_at + timedelta(hours=23, minutes=59)
    assert changed.secrets(almost) == [ANOTHER, SECRET]
    assert changed.secrets(changed.previous_secret_ends_at) == [ANOTHER]


def test_replaced_secrets_sign_for_a_day_each(api: Api):
    configure_receiver(api.workspace)
    configure_receiver(api.workspace, secret=ANOTHER)
    hour_ago = F("previous_secret_ends_at") - timedelta(hours=1)
    Configuration.objects.update(previous_secret_ends_at=hour_ago)

    configure_receiver(api.workspace, secret="the-third-secret")

    changed = only(api)
    # A string, as version 1.0.0 reads it after a rollback.
    assert changed.previous_secret == ANOTHER
    latest = changed.updated_at
    signing = [
        changed.secrets(latest + timedelta(minutes=minutes))
        for minutes in (22 * 60, 23 * 60 + 30, 24 * 60)
    ]
    third = "the-third-secret"
    assert signing == [[third, ANOTHER, SECRET], [third, ANOTHER], [third]]


def test_five_secrets_sign_at_most_and_each_once(api: Api):
    for secret in (SECRET, ANOTHER, SECRET):
        configure_receiver(api.workspace, secret=secret)
    assert only(api).secrets(now()) == [SECRET, ANOTHER]

    for number in range(5):
        configure_receiver(api.workspace, secret=f"a-newer-secret-{number}")

    newest_first = [f"a-newer-secret-{number}" for number in (4, 3, 2, 1, 0)]
    assert only(api).secrets(now()) == newest_first


def test_secret_is_sealed_in_the_table(api: Api):
    configure_receiver(api.workspace)

    (sealed,) = Configuration.objects.raw(
        "SELECT id, secret::text AS stored FROM webhooks_configuration"
    )
    assert SECRET.encode().hex() not in sealed.stored
    assert SECRET not in sealed.stored


def test_replacement_resets_the_failures(api: Api):
    configure_receiver(api.workspace)
    at = now()
    Configuration.objects.update(
        enabled=False,
        failures_in_row=12,
        failing_since=at,
        resting_until=at,
        disabled_at=at,
        disabled_reason="FAILING",
    )

    configure_receiver(api.workspace)

    found = only(api)
    assert found.enabled
    assert (found.failures_in_row, found.failing_since) == (0, None)
    assert (found.resting_until, found.disabled_at) == (None, None)
    assert found.disabled_reason == ""


def test_waiting_deliveries_are_sent_when_enabled(api: Api):
    configure_receiver(api.workspace)
    forget_jobs()

    configure_receiver(api.workspace, enabled=False)
    assert not is_woken()

    configure_receiver(api.workspace)
    assert is_woken()


def test_removal_fails_waiting_deliveries_and_keeps_others(api: Api):
    configure_receiver(api.workspace)
    pending, leased, delivered = (record_delivery(api) for _ in range(3))
    soon = now() + timedelta(seconds=30)
    update_delivery(leased, **retrying_fields(soon, leased_until=soon))
    update_delivery(
        delivered, status="DELIVERED", next_attempt_at=None, delivered_at=now()
    )

    remove_receiver(api.workspace)

    assert not Configuration.objects.exists()
    for delivery in (pending, leased):
        delivery.refresh_from_db()
        assert delivery.status == "FAILED"
        assert (delivery.next_attempt_at, delivery.leased_until) == (None, None)
    delivered.refresh_from_db()
    assert delivered.status == "DELIVERED"


def test_removal_reads_and_changes_no_ended_delivery(api: Api):
    """Ended deliveries are many, and no index finds them by their configuration."""
    configure_receiver(api.workspace)
    delivered = record_delivery(api)
    update_delivery(
        delivered, status="DELIVERED", next_attempt_at=None, delivered_at=now()
    )

    with CaptureQueriesContext(connection) as captured:
        remove_receiver(api.workspace)

    deliveries = [one["sql"] for one in captured if "webhooks_delivery" in one["sql"]]
    assert deliveries
    assert all('"next_attempt_at" IS NOT NULL' in sql for sql in deliveries)
    constraints = connection.introspection.get_constraints(
        connection.cursor(), "webhooks_delivery"
    )
    tables = {
        one["foreign_key"][0] for one in constraints.values() if one["foreign_key"]
    }
    assert "webhooks_configuration" not in tables


def test_removal_leaves_the_other_environment_alone(api: Api, live_api: Api):
    configure_receiver(api.workspace)
    configure_receiver(live_api.workspace, environment="production")
    theirs = record_delivery(live_api)

    remove_receiver(api.workspace)

    theirs.refresh_from_db()
    assert (theirs.status, theirs.configuration) == ("PENDING", only(live_api))


def test_second_removal_raises_not_configured(api: Api):
    configure_receiver(api.workspace)
    remove_receiver(api.workspace)

    with pytest.raises(NotConfigured):
        remove_receiver(api.workspace)


@pytest.mark.django_db(transaction=True)
@pytest.mark.slow
def test_many_requests_at_once_create_one_configuration(transactional_db, api: Api):
    def either(number: int):
        if number % 4 == 3:
            return remove_receiver(api.workspace)
        return configure_receiver(api.workspace, url=f"https://n{number}.acacia.test/")

    for _ in range(5):
        answers = run_at_once(8, either)
        wrong = [a for a in answers if isinstance(a, Exception)]
        assert all(isinstance(a, NotConfigured) for a in wrong), wrong
        assert Configuration.objects.count() <= 1


@pytest.mark.django_db(transaction=True)
def test_configuration_removed_meanwhile_is_not_found(transactional_db, api: Api):
    configure_receiver(api.workspace)

    with uncommitted(lambda: remove_receiver(api.workspace)):
        again = start_and_block(lambda: api.delete("/webhooks/config"))

    assert again.result().status_code == 404


@pytest.mark.django_db(transaction=True)
def test_event_is_recorded_during_a_removal(transactional_db, api: Api):
    configure_receiver(api.workspace)

    with uncommitted(lambda: record_delivery(api)):
        removal = start_and_block(lambda: remove_receiver(api.workspace))
    removal.result()

    delivery = Delivery.objects.get()
    assert delivery.status == "FAILED"


@pytest.mark.django_db(transaction=True)
def test_removal_waits_for_no_delivery_while_it_has_the_configuration(
    transactional_db, api: Api
):
    configure_receiver(api.workspace)
    rows = Delivery.objects.select_for_update(no_key=True)

    with ExitStack() as held:
        with uncommitted(lambda: record_delivery(api)):
            # It waits for the event, which needs the configuration.
            removal = start_and_block(lambda: remove_receiver(api.workspace))
            (later,) = record_events(api.workspace)
            held.enter_context(uncommitted(lambda: rows.get(pk=later)))
        until(lambda: count_waiting() == 1)
        # An erasure records its event while it holds the delivery.
        record_events(api.workspace)

    removal.result(SECONDS)
    assert not Configuration.objects.exists()
    assert set(delivery_statuses()) == {"FAILED"}
