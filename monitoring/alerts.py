"""What clients do with alerts: read them, and say that they were dealt with."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from monitoring.listing import alerts_of
from monitoring.models import Alert
from verification.ordering.client import Client


@transaction.atomic
def edit_alert(
    client: Client, alert_id: UUID, *, read: bool | None, actioned: bool | None
) -> Alert:
    """None leaves it as it is. Raises Alert.DoesNotExist where it is not theirs."""
    alert = alerts_of(client).select_for_update(no_key=True).get(pk=alert_id)
    alert.read = alert.read if read is None else read
    alert.actioned = alert.actioned if actioned is None else actioned
    alert.save(update_fields=["read", "actioned"])
    return alert


def mark_all_read(client: Client) -> int:
    """How many there were."""
    return alerts_of(client).filter(read=False).update(read=True)
