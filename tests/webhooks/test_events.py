from datetime import timedelta

import pytest
from django.utils.timezone import now

from tests.world.deliveries import configure_receiver, delivery_statuses, record_events
from tests.world.receiver import Receiver
from verification.jobs import claims
from webhooks.delivery import send_due_deliveries
from webhooks.events import purge_events
from webhooks.models import Attempt, Configuration, Delivery, Event
from workspaces.models import Workspace


@pytest.mark.parametrize(("days", "kept"), [(29, True), (31, False)])
def test_purge_erases_payloads_and_answers_after_30_days(
    receiver: Receiver, workspace: Workspace, days: int, kept: bool
):
    configure_receiver(workspace, receiver.url("/hook", host="localhost"))
    record_events(workspace)
    send_due_deliveries()
    then = now() - timedelta(days=days)
    Event.objects.update(created_at=then)
    Attempt.objects.update(started_at=then)
    purge_events()
    assert (Event.objects.get().payload is not None) is kept
    assert (Attempt.objects.get().answer is not None) is kept
    assert delivery_statuses() == {"DELIVERED": 1}
    assert Attempt.objects.get().status_code == 200


def test_waiting_delivery_fails_after_30_days(workspace: Workspace):
    configure_receiver(workspace)
    record_events(workspace, 2)
    Delivery.objects.filter(pk=Delivery.objects.first().pk).update(
        created_at=now() - timedelta(days=31)
    )
    purge_events()
    assert delivery_statuses() == {"PENDING": 1, "FAILED": 1}


def test_purge_deletes_all_old_events_without_a_receiver(
    workspace: Workspace, monkeypatch
):
    monkeypatch.setattr(claims, "BATCH_SIZE", 2)
    record_events(workspace, 6)
    Event.objects.update(created_at=now() - timedelta(days=31))
    newest = Event.objects.latest("pk")
    Event.objects.filter(pk=newest.pk).update(created_at=now() - timedelta(days=29))
    purge_events()
    assert Event.objects.get().payload == newest.payload


def test_purge_erases_expired_secrets(workspace: Workspace):
    configure_receiver(workspace, secret="an older secret of mine")
    configure_receiver(workspace)
    purge_events()
    assert Configuration.objects.get().previous_secret
    Configuration.objects.update(previous_secret_ends_at=now())
    purge_events()
    purged = Configuration.objects.get()
    assert (purged.previous_secret, purged.older_secrets) == (None, None)
