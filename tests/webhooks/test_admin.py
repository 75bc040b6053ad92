from datetime import timedelta

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils.timezone import now

from tests.world.clients import Api
from tests.world.deliveries import (
    SECRET,
    URL,
    configure_receiver,
    ended_fields,
    record_delivery,
    retrying_fields,
)
from tests.world.staff import (
    assert_read_only,
    change_url,
    list_url,
    listed_ids,
    log_in,
    read_page,
    reveal,
    run_action,
)
from verification.backoffice.models import AuditEvent
from verification.values.masking import DOTS
from webhooks.models import Attempt, Configuration, Delivery, Event
from workspaces.create import create_workspace

MODELS = [Configuration, Delivery]


@pytest.fixture
def rows(api: Api) -> Api:
    configure_receiver(api.workspace, secret="earlier-secret-of-16")
    configure_receiver(api.workspace)
    delivery = record_delivery(api, **ended_fields("FAILED"))
    Attempt.objects.create(
        delivery=delivery,
        number=1,
        url=URL,
        started_at=now(),
        duration_ms=84,
        status_code=503,
        answer="98765432 is unknown",
    )
    return api


@pytest.mark.parametrize("model", MODELS)
def test_lists_and_pages_open_and_show_no_secret(rows, superuser, model):
    row = model.objects.get()

    html = read_page(superuser, list_url(model)) + read_page(superuser, change_url(row))

    assert str(row.pk) in html
    for secret in (SECRET, "earlier-secret", "98765432"):
        assert secret not in html


@pytest.mark.parametrize("model", [Event, Delivery])
def test_lists_name_events_as_clients_know_them(rows, superuser, model):
    found = read_page(superuser, list_url(model)).split("<tbody")[1].split("</table")[0]

    assert "report.created" in found
    assert "A report is created." not in found


@pytest.mark.parametrize("model", MODELS)
def test_staff_cannot_add_edit_or_delete(rows, superuser, model):
    row = model.objects.get()
    assert_read_only(superuser, row)


def test_long_list_costs_the_same(rows, superuser, django_assert_max_num_queries):
    for number in range(12):
        record_delivery(rows)
        other = create_workspace(name=f"Other {number}", owner_email="o@other.test")
        configure_receiver(other)

    for model in MODELS:
        with django_assert_max_num_queries(7):
            read_page(superuser, list_url(model))


def test_configuration_page_shows_the_receivers_health(rows, superuser):
    at, hour = now(), timedelta(hours=1)
    tripped = {"failures_in_row": 12, "failing_since": at}
    gone = {"enabled": False, "disabled_reason": "GONE", "disabled_at": at}
    for fields, told in (
        ({}, "well"),
        ({"failures_in_row": 3, "failing_since": at}, "3 failures in a row"),
        (tripped | {"resting_until": at - hour}, "12 failures in a row"),
        (tripped | {"resting_until": at + hour}, "resting after 12 failures in a row"),
        (gone, "disabled: The receiver answered 410 Gone."),
    ):
        Configuration.objects.update(**fields)
        html = read_page(superuser, list_url(Configuration))
        assert told in html
        assert ("resting after" in html) == ("resting" in told)
    assert told in read_page(superuser, change_url(Configuration.objects.get()))


def test_filter_finds_failing_configurations(rows, superuser, live_api: Api):
    well = configure_receiver(live_api.workspace, environment="production")
    ill = Configuration.objects.exclude(pk=well.pk)
    at = now()
    ill.update(
        enabled=False,
        failures_in_row=10,
        failing_since=at,
        resting_until=at + timedelta(hours=1),
        disabled_at=at,
        disabled_reason="FAILING",
    )

    for trouble in ("failing", "resting", "disabled"):
        found = listed_ids(superuser, Configuration, trouble=trouble)
        assert found & {str(well.pk), str(ill.get().pk)} == {str(ill.get().pk)}


def test_delivery_is_found_by_its_ids(rows, superuser):
    wanted = Delivery.objects.get()
    record_delivery(rows)
    report = str(wanted.event.report_id)

    assert listed_ids(superuser, Delivery, q=str(wanted.pk)) == {str(wanted.pk)}
    with CaptureQueriesContext(connection) as captured:
        assert listed_ids(superuser, Delivery, q=report) == {str(wanted.pk)}
    # An OR over two tables could use the index of neither.
    compared = [one["sql"] for one in captured if '"report_id" = ' in one["sql"]]
    assert compared
    assert not any(" OR " in sql for sql in compared)
    assert listed_ids(superuser, Delivery, q="report.created") == set()


def test_deliveries_are_filtered(rows, superuser):
    failed = Delivery.objects.get()
    record_delivery(rows)

    assert listed_ids(superuser, Delivery, status__exact="FAILED") == {str(failed.pk)}
    assert len(listed_ids(superuser, Delivery, name__exact="report.created")) == 2
    assert not listed_ids(superuser, Delivery, environment__exact="production")


def test_delivery_page_shows_attempts_and_links(rows, superuser):
    delivery = Delivery.objects.get()

    html = read_page(superuser, change_url(delivery))

    assert "503" in html
    assert change_url(delivery.event) in html
    assert change_url(delivery.configuration) in html
    assert change_url(delivery) in read_page(superuser, change_url(delivery.event))

    Delivery.objects.update(status="FAILED", next_attempt_at=None, leased_until=None)
    delivery.configuration.delete()
    assert "503" in read_page(superuser, change_url(delivery))


def test_delivery_page_shows_payload_and_answers_after_a_reason(rows, superuser):
    delivery = Delivery.objects.get()
    subject = delivery.event.payload["subject"]["id"]

    html = read_page(superuser, change_url(delivery))
    assert "reportId" in html
    assert "84 ms" in html
    assert DOTS in html
    for hidden in (subject, "98765432 is unknown"):
        assert hidden not in html

    reveal(superuser, delivery, "The receiver asks what it got")

    html = read_page(superuser, change_url(delivery))
    assert subject in html
    assert "98765432 is unknown" in html
    event = AuditEvent.objects.get(action="delivery.revealed")
    assert event.fields == ["payload", "answers"]
    assert event.reason == "The receiver asks what it got"


def test_redeliver_button_shows_when_redelivery_is_possible(rows, superuser):
    delivery = Delivery.objects.get()
    url = change_url(delivery).replace("change", "redeliver_this")
    sent = {"_form_submitted": "on"}
    assert url in read_page(superuser, change_url(delivery))
    superuser.get(url)
    delivery.refresh_from_db()
    assert delivery.status == "FAILED"

    superuser.post(url, sent)

    delivery.refresh_from_db()
    assert delivery.status == "PENDING"
    assert AuditEvent.objects.filter(action="delivery.redelivered").count() == 1
    Event.objects.filter(pk=delivery.pk).update(payload=None)
    html = read_page(superuser, change_url(delivery))
    assert url not in html
    assert "Not possible: its payload is purged." in html
    assert superuser.post(url, sent).status_code == 403


def test_redelivery_shows_a_message_for_each_delivery(rows, superuser):
    failed = Delivery.objects.get()
    soon = now() + timedelta(seconds=30)
    leased = record_delivery(rows, **retrying_fields(soon, leased_until=soon))
    purged = record_delivery(rows, **ended_fields("FAILED"))
    Event.objects.filter(pk=purged.pk).update(payload=None)

    told = run_action(superuser, "redeliver", failed, leased, purged)

    assert sorted(told) == sorted(
        [
            f"{failed} is sent again.",
            f"{leased} is being sent at this moment.",
            f"{purged} was not sent again: its payload is purged.",
        ]
    )
    failed.refresh_from_db()
    assert failed.status == "PENDING"
    leased.refresh_from_db()
    assert (leased.status, leased.next_attempt_at) == ("RETRYING", soon)


def test_refused_redelivery_shows_the_reason(rows, superuser):
    failed = Delivery.objects.get()

    configure_receiver(rows.workspace, enabled=False)
    (disabled,) = run_action(superuser, "redeliver", failed)
    rows.delete("/webhooks/config")
    (removed,) = run_action(superuser, "redeliver", failed)

    assert disabled.endswith("its configuration is disabled.")
    assert removed.endswith("its workspace has no configuration.")
    failed.refresh_from_db()
    assert failed.status == "FAILED"


def test_staff_with_view_permission_cannot_redeliver(rows):
    user = User.objects.create_user("grace", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_delivery"))
    client = Client()
    log_in(client, user)
    failed = Delivery.objects.get()

    assert "redeliver" not in read_page(client, list_url(Delivery))
    run_action(client, "redeliver", failed)

    failed.refresh_from_db()
    assert failed.status == "FAILED"
