"""E-mail to operators about payments that need a person.

Code that meets a trouble records it in its own transaction. An alert about urgent
troubles goes out within minutes, and an e-mail about all others once a day, to each
address of OPERATOR_ALERTS.

What a person must look at about a checkout: raised and cleared one by one, so that
none hides another.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from hashlib import sha256
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Func, Q, QuerySet, Value
from django.utils.timezone import now

from verification.db.ids import uuid7
from verification.jobs.queue import job
from verification.notifications.models import Channel
from verification.notifications.models import Kind as NotificationKind
from verification.notifications.outbox import OutgoingMessage, notify
from verification.payments.models import (
    REFUND_REVIEW_FLAGS,
    Checkout,
    OperatorAlert,
    OperatorAlertKind,
    ReviewFlag,
)
from verification.values.wire import one_line

RETENTION = timedelta(days=90)
# One e-mail lists this many and counts the rest, which the back office lists.
MAX_LISTED = 50
# Causes of unfinished parts end with this word.
UNFINISHED = "part"
URGENT = (
    OperatorAlertKind.UNOPENED,
    OperatorAlertKind.REFUND,
    OperatorAlertKind.ACCESS,
)
# One row counts all troubles of such a kind in an hour or a day.
COUNTED = (
    OperatorAlertKind.SIGNATURE,
    OperatorAlertKind.UNOPENED,
    OperatorAlertKind.ACCESS,
)
# Refused attempts of one kind in an hour from which on operators are alerted.
MANY_ATTEMPTS = 100
# The time between two e-mails about unopened checkouts with the same reason.
PAUSE = timedelta(hours=1)


def record_alert(
    kind: OperatorAlertKind,
    *cause: object,
    message: str,
    checkout_id: UUID | None = None,
) -> None:
    """Record a trouble for the next e-mail to operators, once for each cause."""
    name = ":".join(map(str, cause))
    if len(name) > 100:
        name = f"{name[:80]}:{sha256(name.encode()).hexdigest()[:16]}"
    OperatorAlert.objects.bulk_create(
        [
            OperatorAlert(
                kind=kind,
                cause=f"{kind.lower()}:{name}",
                message=one_line(message)[:300],
                checkout_id=checkout_id,
            )
        ],
        ignore_conflicts=True,
    )


def alert_unfinished_part(checkout: Checkout, amount: Decimal) -> None:
    """Record that staff decide about the unfinished part of a checkout's money."""
    told = f"{checkout.paid_currency} {amount:.2f} of it was not done: staff decide"
    names = checkout.pk, UNFINISHED
    record_alert(
        OperatorAlertKind.REFUND, *names, message=told, checkout_id=checkout.pk
    )


@transaction.atomic
def count_refused_signature() -> None:
    """Count an event of today whose signature is wrong."""
    day = now().astimezone(UTC).date()
    message = f"events of {day} were refused, as their signature was wrong"
    refused = OperatorAlert.objects.filter(cause=f"signature:{day}")
    if not refused.update(times=F("times") + 1):
        record_alert(OperatorAlertKind.SIGNATURE, day, message=message)


def count_refused_access(what: str) -> None:
    """Count a refused attempt of this hour: `logins` or `API keys`."""
    hour = f"{now().astimezone(UTC):%Y-%m-%dT%H}"
    counted = OperatorAlert.objects.filter(cause=f"access:{what}:{hour}")
    if not counted.update(times=F("times") + 1):
        message = f"{what} were refused in the hour that began at {hour}:00 UTC"
        record_alert(OperatorAlertKind.ACCESS, what, hour, message=message)


@transaction.atomic
def count_failed_opening(provider: str, code: str) -> None:
    """Count a checkout that a provider did not open, by reason and hour."""
    hour = f"{now().astimezone(UTC):%Y-%m-%dT%H}"
    name = f"{provider}:{code}"[:80]
    counted = OperatorAlert.objects.filter(cause=f"unopened:{name}:{hour}")
    if not counted.update(times=F("times") + 1):
        message = f"pages of {provider} to pay on did not open: {code}"
        record_alert(OperatorAlertKind.UNOPENED, name, hour, message=message)


def recent_failed_openings() -> dict[str, int]:
    """Provider -> checkouts that it did not open, in this hour and the one before."""
    hour = now().replace(minute=0, second=0, microsecond=0)
    lately = OperatorAlert.objects.filter(
        kind=OperatorAlertKind.UNOPENED, created_at__gte=hour - timedelta(hours=1)
    )
    found: dict[str, int] = defaultdict(int)
    for cause, times in lately.values_list("cause", "times"):
        found[cause.split(":")[1]] += times
    return dict(found)


@job
def send_urgent_alerts() -> None:
    """Send the e-mail about urgent troubles."""
    _send_email(OperatorAlert.objects.filter(kind__in=URGENT))


@job
def send_daily_alerts() -> None:
    """Send the daily e-mail about all troubles that no e-mail has named."""
    _send_email(OperatorAlert.objects.all())


@transaction.atomic
def _send_email(among: QuerySet[OperatorAlert]) -> None:
    """Send one e-mail; jobs that run at the same time share the troubles out."""
    if not settings.OPERATOR_ALERTS:
        return
    troubles = _unsent_alerts(among)
    OperatorAlert.objects.filter(pk__in=[one.pk for one in troubles]).update(
        notified_at=now()
    )
    lines = [_line(one) for one in troubles if _is_unresolved(one)]
    if not lines:
        return
    context = {
        "count": len(lines),
        "lines": lines[:MAX_LISTED],
        "more": len(lines) - len(lines[:MAX_LISTED]),
        "url": f"{settings.BASE_URL}/admin/",
    }
    notify(
        *(
            OutgoingMessage(
                NotificationKind.PAYMENT_TROUBLE,
                Channel.EMAIL,
                cause=f"payment-trouble:{troubles[0].pk}:{number}",
                recipient=address,
                context=context,
            )
            for number, address in enumerate(settings.OPERATOR_ALERTS)
        )
    )


@job
def purge_operator_alerts() -> None:
    """Delete alerts that are older than `RETENTION`."""
    OperatorAlert.objects.filter(created_at__lt=now() - RETENTION).delete()


def _unsent_alerts(among: QuerySet[OperatorAlert]) -> list[OperatorAlert]:
    untold = among.select_for_update(of=("self",), skip_locked=True)
    # The count of wrong signatures goes on until the day is over.
    midnight = datetime.combine(now().astimezone(UTC), time(), UTC)
    counting = untold.filter(notified_at=None).exclude(
        kind=OperatorAlertKind.SIGNATURE, created_at__gte=midnight
    )
    few = Q(kind=OperatorAlertKind.ACCESS, times__lt=MANY_ATTEMPTS)
    # After a doubt is cleared, `account_for` looks at the unfinished part first.
    undecided = Q(cause__endswith=f":{UNFINISHED}", checkout__accounted_at=None)
    found = (
        counting.exclude(undecided)
        .exclude(few)
        .select_related("checkout")
        .order_by("id")
    )
    return [one for one in found.order_by("id") if not _was_sent_recently(one)]


def _was_sent_recently(trouble: OperatorAlert) -> bool:
    if trouble.kind != OperatorAlertKind.UNOPENED:
        return False
    same, _, _ = trouble.cause.rpartition(":")
    told = OperatorAlert.objects.filter(cause__startswith=f"{same}:")
    return told.filter(notified_at__gt=now() - PAUSE).exists()


def _is_unresolved(trouble: OperatorAlert) -> bool:
    """Return whether a person still has to see to the trouble."""
    checkout = trouble.checkout
    if checkout is None or checkout.review_flags:
        return True
    # The doubt about an unfinished part may be of another checkout of the payment.
    is_unfinished = trouble.cause.endswith(f":{UNFINISHED}")
    refunds = checkout.refunds.filter(created_at__gte=trouble.created_at)
    return is_unfinished and not (checkout.reason_to_keep or refunds.exists())


def _line(trouble: OperatorAlert) -> str:
    times = f"{trouble.times} " if trouble.kind in COUNTED else ""
    number = f"{trouble.checkout.number} " if trouble.checkout else ""
    return f"{trouble.get_kind_display()}: {number}{times}{trouble.message}"


@transaction.atomic
def raise_review_flag(checkout_id: UUID, doubt: ReviewFlag) -> bool:
    """False when it is there already."""
    without = Checkout.objects.filter(pk=checkout_id).exclude(
        review_flags__contains=[doubt]
    )
    changed = Func(F("review_flags"), Value(doubt.value), function="array_append")
    is_new = bool(without.update(review_flags=changed))
    if is_new:
        alert_about_review_flag(checkout_id, doubt, uuid7())
    return is_new


def alert_about_review_flag(checkout_id: UUID, doubt: ReviewFlag, cause: UUID) -> None:
    """Have operators told of it."""
    names, told = (checkout_id, doubt, cause), str(doubt.label)
    kind = (
        OperatorAlertKind.REFUND
        if doubt in REFUND_REVIEW_FLAGS
        else OperatorAlertKind.DOUBT
    )
    record_alert(kind, *names, message=told, checkout_id=checkout_id)


@transaction.atomic
def clear_review_flag(checkout_id: UUID, doubt: ReviewFlag) -> bool:
    """False when it is not there. What was left to staff by it is looked at again."""
    having = Checkout.objects.filter(pk=checkout_id, review_flags__contains=[doubt])
    changed = Func(F("review_flags"), Value(doubt.value), function="array_remove")
    if not having.update(review_flags=changed):
        return False
    its = Checkout.objects.filter(pk=checkout_id, payment_id__isnull=False)
    of_payment = Checkout.objects.filter(payment_id__in=its.values("payment_id"))
    of_payment.update(accounted_at=None)
    return True
