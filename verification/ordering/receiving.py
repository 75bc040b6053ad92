"""Taking in events of payment providers: kept once, and never believed.

An event only says that there is something to see. The checkout it names is then looked
at, which is where money is counted.
"""

from __future__ import annotations

import logging
from hashlib import sha256
from uuid import UUID

from django.db import transaction

from verification.ordering.looking import look_now
from verification.payments.models import Checkout, Doubt, PaymentEvent
from verification.providers.checkout import ProviderEvent

logger = logging.getLogger(__name__)


@transaction.atomic
def receive(provider: str, event: ProviderEvent, body: bytes) -> bool:
    """Keep an event whose signature was right; False for one that came before."""
    checkout = _checkout_of(provider, event.reference)
    _, is_new = PaymentEvent.objects.get_or_create(
        provider=provider,
        event_id=event.event_id,
        defaults={
            "type": event.type[:100].replace("\x00", ""),
            "checkout": checkout,
            "body_sha256": sha256(body).digest(),
            "body": body.decode(errors="replace"),
        },
    )
    if not is_new:
        return False
    if checkout is None:
        logger.warning("%s tells of a payment that is not known here", provider)
        return True
    if "dispute" in event.type:
        Checkout.objects.filter(pk=checkout.pk).update(doubt=Doubt.DISPUTED)
    look_now(checkout.pk)
    return True


def _checkout_of(provider: str, reference: str) -> Checkout | None:
    try:
        pk = UUID(reference)
    except ValueError:
        return None
    return Checkout.objects.filter(pk=pk, provider=provider).first()
