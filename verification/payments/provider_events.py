"""Events of payment providers: store each once, and poll the checkout that it names.

An event moves no money, because only the answer to a poll is settled. After 90 days a
job deletes the bodies of events and the phones of prompts. The event's type, time,
checkout and hash stay.
"""

import logging
from datetime import timedelta
from hashlib import sha256
from uuid import UUID

from django.db import transaction

from verification.jobs.claims import update_in_batches
from verification.jobs.queue import job
from verification.payments.alerts import raise_review_flag
from verification.payments.models import Checkout, PaymentEvent, ReviewFlag
from verification.payments.refunds import try_refunds_now
from verification.payments.settlement import poll_now
from verification.providers.payment_provider import ProviderEvent
from verification.reports.status import locked_reports
from verification.values.clock import now

logger = logging.getLogger(__name__)

RETENTION = timedelta(days=90)


@transaction.atomic
def record_provider_event(provider: str, event: ProviderEvent, body: bytes) -> bool:
    """Store an event with a valid signature; return False for a repeated event.

    The body is not stored if the report is erased, or if no checkout is named: it may
    be about a person whose erasure would not find it.
    """
    try:
        checkouts = Checkout.objects.filter(provider=provider, pk=UUID(event.reference))
    except ValueError:
        # The event names only the provider's id of the money.
        name = event.transaction
        is_id = name.isascii() and name.isprintable()
        checkouts = Checkout.objects.of_transaction(provider, name if is_id else "")
    checkout = checkouts.first()
    # Locked, so that an erasure comes before the event or erases its body.
    about = checkout.report_id if checkout else None
    report = locked_reports().filter(pk=about).first() if about else None
    is_kept = checkout is not None and not (report and report.erased_at)
    _, is_new = PaymentEvent.objects.get_or_create(
        provider=provider,
        event_id=event.event_id,
        defaults={
            "type": event.type[:100].replace("\x00", ""),
            "checkout": checkout,
            "body_sha256": sha256(body).digest(),
            "body": body.decode(errors="replace") if is_kept else None,
        },
    )
    if not is_new:
        return False
    if checkout is None:
        logger.warning("an event of %s names no checkout of ours", provider)
        return True
    # The provider's API alone reports changes of a known dispute.
    if event.is_dispute and not checkout.disputes.exists():
        raise_review_flag(checkout.pk, ReviewFlag.DISPUTED)
    if event.is_fraud_warning:
        raise_review_flag(checkout.pk, ReviewFlag.FRAUD_WARNING)
    if event.is_refund:
        try_refunds_now(checkout.pk)
    poll_now(checkout.pk)
    return True


@job
def purge_payment_events() -> None:
    """Erase bodies of provider events and phones of prompts after `RETENTION`."""
    before = now() - RETENTION
    events = PaymentEvent.objects.filter(body__isnull=False, received_at__lt=before)
    update_in_batches(events.order_by("received_at"), body=None)
    prompts = Checkout.objects.filter(phone__isnull=False, created_at__lt=before)
    update_in_batches(prompts.order_by("created_at"), phone=None)
