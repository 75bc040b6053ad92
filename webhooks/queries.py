"""List a workspace's deliveries: filtered, newest first, with an exact total."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db.models import QuerySet

from verification.db.base import force_custom_plan
from webhooks.models import Delivery


@dataclass(frozen=True, slots=True)
class DeliveryPage:
    deliveries: list[Delivery]
    total: int


def deliveries_of(workspace_id: UUID, environment: str) -> QuerySet[Delivery]:
    """Return the deliveries with their events, without the payloads."""
    return (
        Delivery.objects.filter(workspace=workspace_id, environment=environment)
        .select_related("event")
        .defer("event__payload")
    )


@force_custom_plan()
def list_deliveries(
    workspace_id: UUID,
    environment: str,
    *,
    event: str | None = None,
    status: str | None = None,
    page: int,
    size: int,
) -> DeliveryPage:
    """Return one page of the deliveries, and their total number."""
    found = deliveries_of(workspace_id, environment)
    if event:
        found = found.filter(name=event)
    if status:
        found = found.filter(status=status)
    first = page * size
    # Ids grow with time, and the index is sorted by them.
    deliveries = list(found.order_by("-event_id")[first : first + size])
    # After a page that is not full the total is known without a count.
    total = first + len(deliveries)
    if len(deliveries) == size or (first and not deliveries):
        total = found.order_by().count()
    return DeliveryPage(deliveries, total)
