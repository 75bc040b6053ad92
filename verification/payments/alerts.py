"""Review flags of checkouts, and alerts to the operators about payments.

A review flag says why a person must look at a checkout. Each flag is raised and cleared
on its own, so that none hides another. A new flag records an alert, and so do problems
of the service, in their own transactions. Each address of OPERATOR_ALERTS gets an
e-mail about urgent alerts within minutes, and about all others once a day.
"""

from collections import defaultdict
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from hashlib import sha256
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Func, Q, QuerySet, Value

from verification.db.ids import uuid7
from verification.jobs.queue import job
from verification.notifications.models import Channel, Language
from verification.notifications.models import Kind as NotificationKind
from verification.notifications.outbox import OutgoingMessage, notify
from verification.payments.models import (
    REFUND_REVIEW_FLAGS,
    Checkout,
    LedgerAudit,
    OperatorAlert,
    OperatorAlertKind,
    ReviewFlag,
)
from verification.values.clock import now
from verification.values.formats import one_line

RETENTION = timedelta(days=90)
# One e-mail lists this many alerts and counts the others. The admin lists all.
MAX_LISTED = 50
# The causes of alerts about unfinished parts end with this word.
UNFINISHED = "part"
URGENT = (
    OperatorAlertKind.UNOPENED,
    OperatorAlertKind.REFUND,
    OperatorAlertKind.ACCESS,
    OperatorAlertKind.LEDGER,
)
# One row counts all alerts of such a kind in an hour or a day.
COUNTED = (
    OperatorAlertKind.SIGNATURE,
    OperatorAlertKind.UNOPENED,
    OperatorAlertKind.ACCESS,
)
# Operators get an e-mail about this many refused attempts of one kind in an hour.
MANY_ATTEMPTS = 100
# The time between two e-mails about unopened checkouts with the same reason.
PAUSE = timedelta(hours=1)


@transaction.atomic
def raise_review_flag(
    checkout_id: UUID, flag: ReviewFlag, cause: object = None
) -> bool:
    """Add the flag to the checkout and alert the operators.

    Returns False if the checkout has the flag already, or had it for this cause.
    """
    alert = _cause(OperatorAlertKind.REVIEW, checkout_id, flag, cause)
    if cause and OperatorAlert.objects.filter(cause=alert).exists():
        return False
    without = Checkout.objects.filter(pk=checkout_id).exclude(
        review_flags__contains=[flag]
    )
    flags = Func(F("review_flags"), Value(flag.value), function="array_append")
    is_new = bool(without.update(review_flags=flags))
    if is_new:
        alert_about_review_flag(checkout_id, flag, cause or uuid7())
    return is_new


@transaction.atomic
def clear_review_flag(checkout_id: UUID, flag: ReviewFlag) -> bool:
    """Remove the flag from the checkout.

    The flag may have left the payment's unfinished part to staff, so a job accounts for
    its checkouts again. Returns False if the checkout has no such flag.
    """
    flagged = Checkout.objects.filter(pk=checkout_id, review_flags__contains=[flag])
    flags = Func(F("review_flags"), Value(flag.value), function="array_remove")
    if not flagged.update(review_flags=flags):
        return False
    payment = Checkout.objects.filter(pk=checkout_id, payment_id__isnull=False)
    of_payment = Checkout.objects.filter(payment_id__in=payment.values("payment_id"))
    of_payment.update(accounted_at=None)
    return True


def alert_about_review_flag(checkout_id: UUID, flag: ReviewFlag, cause: object) -> None:
    """Alert the operators of the flag, once for each cause."""
    is_about_refund = flag in REFUND_REVIEW_FLAGS
    record_alert(
        OperatorAlertKind.REFUND if is_about_refund else OperatorAlertKind.REVIEW,
        checkout_id,
        flag,
        cause,
        message=str(flag.label),
        checkout_id=checkout_id,
    )


def alert_unfinished_part(checkout: Checkout, amount: Decimal) -> None:
    """Alert the operators that staff decide about a checkout's unfinished part."""
    record_alert(
        OperatorAlertKind.REFUND,
        checkout.pk,
        UNFINISHED,
        message=(
            f"{checkout.paid_currency} {amount:.2f} of it was not done: staff decide"
        ),
        checkout_id=checkout.pk,
    )


def keep_unfinished_part(checkout_id: UUID) -> None:
    """Send no alert about this unfinished part: a person has said why it is kept."""
    alerts = OperatorAlert.objects.filter(checkout=checkout_id, notified_at=None)
    alerts.filter(cause__endswith=f":{UNFINISHED}").update(notified_at=now())


@transaction.atomic
def count_refused_signature() -> None:
    """Count a provider event of today (UTC) with a wrong signature."""
    day = now().astimezone(UTC).date()
    message = f"events of {day} were refused, as their signature was wrong"
    _count_alert(OperatorAlertKind.SIGNATURE, day, message=message)


def count_refused_access(kind: str) -> None:
    """Count a refused attempt of this hour. `kind` is `logins` or `API keys`."""
    hour = f"{now().astimezone(UTC):%Y-%m-%dT%H}"
    message = f"{kind} were refused in the hour that began at {hour}:00 UTC"
    _count_alert(OperatorAlertKind.ACCESS, kind, hour, message=message)


@transaction.atomic
def count_failed_opening(provider: str, code: str) -> None:
    """Count a checkout that the provider did not open, by reason and hour."""
    hour = f"{now().astimezone(UTC):%Y-%m-%dT%H}"
    message = f"pages of {provider} to pay on did not open: {code}"
    reason = f"{provider}:{code}"[:80]
    _count_alert(OperatorAlertKind.UNOPENED, reason, hour, message=message)


def _count_alert(kind: OperatorAlertKind, *cause: object, message: str) -> None:
    """Count one more alert of this cause; record it if it is the first."""
    counted = OperatorAlert.objects.filter(cause=_cause(kind, *cause))
    if not counted.update(times=F("times") + 1):
        record_alert(kind, *cause, message=message)


def recent_failed_openings() -> dict[str, int]:
    """Return {provider: checkouts not opened} of this hour and the one before."""
    hour = now().replace(minute=0, second=0, microsecond=0)
    lately = OperatorAlert.objects.filter(
        kind=OperatorAlertKind.UNOPENED, created_at__gte=hour - timedelta(hours=1)
    )
    found: dict[str, int] = defaultdict(int)
    for cause, times in lately.values_list("cause", "times"):
        found[cause.split(":")[1]] += times
    return dict(found)


def record_alert(
    kind: OperatorAlertKind,
    *cause: object,
    message: str,
    checkout_id: UUID | None = None,
) -> None:
    """Record an alert for the next e-mail to operators, once for each cause."""
    alert = OperatorAlert(
        kind=kind,
        cause=_cause(kind, *cause),
        message=one_line(message)[:300],
        checkout_id=checkout_id,
    )
    OperatorAlert.objects.bulk_create([alert], ignore_conflicts=True)


def _cause(kind: OperatorAlertKind, *cause: object) -> str:
    name = ":".join(map(str, cause))
    if len(name) > 100:
        name = f"{name[:80]}:{sha256(name.encode()).hexdigest()[:16]}"
    return f"{kind.lower()}:{name}"


@job
def send_urgent_alerts() -> None:
    """Send the e-mail about urgent alerts."""
    _send_email(OperatorAlert.objects.filter(kind__in=URGENT))


@job
def send_daily_alerts() -> None:
    """Send the daily e-mail about all alerts that no e-mail has listed."""
    _send_email(OperatorAlert.objects.all())


@transaction.atomic
def _send_email(among: QuerySet[OperatorAlert]) -> None:
    """Send one e-mail to each address. Parallel jobs take different alerts."""
    if not settings.OPERATOR_ALERTS:
        return
    alerts = _unsent_alerts(among)
    OperatorAlert.objects.filter(pk__in=[alert.pk for alert in alerts]).update(
        notified_at=now()
    )
    lines = [_line(alert) for alert in alerts if _is_unresolved(alert)]
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
                cause=f"payment-trouble:{alerts[0].pk}:{number}",
                recipient=address,
                context=context,
                # As the lines are
                language=Language.ENGLISH,
            )
            for number, address in enumerate(settings.OPERATOR_ALERTS)
        )
    )


def _unsent_alerts(among: QuerySet[OperatorAlert]) -> list[OperatorAlert]:
    # The count of wrong signatures goes on until the day is over.
    midnight = datetime.combine(now().astimezone(UTC), time(), UTC)
    counting = Q(kind=OperatorAlertKind.SIGNATURE, created_at__gte=midnight)
    few = Q(kind=OperatorAlertKind.ACCESS, times__lt=MANY_ATTEMPTS)
    # A cleared flag sends the unfinished part through `refund_unfinished_part` first.
    undecided = Q(cause__endswith=f":{UNFINISHED}", checkout__accounted_at=None)
    unsent = (
        among.select_for_update(of=("self",), skip_locked=True)
        .filter(notified_at=None)
        .exclude(counting)
        .exclude(undecided)
        .exclude(few)
        .select_related("checkout")
        .order_by("id")
    )
    return [alert for alert in unsent if not _was_sent_recently(alert)]


def _was_sent_recently(alert: OperatorAlert) -> bool:
    if alert.kind != OperatorAlertKind.UNOPENED:
        return False
    reason, _, _ = alert.cause.rpartition(":")
    same = OperatorAlert.objects.filter(cause__startswith=f"{reason}:")
    return same.filter(notified_at__gt=now() - PAUSE).exists()


def _is_unresolved(alert: OperatorAlert) -> bool:
    """Return whether a person still has to act on the alert."""
    checkout = alert.checkout
    if checkout is None or checkout.review_flags:
        return True
    # Another checkout of the payment may have the flag that left the part to staff.
    is_unfinished = alert.cause.endswith(f":{UNFINISHED}")
    refunds = checkout.refunds.filter(created_at__gte=alert.created_at)
    return is_unfinished and not refunds.exists()


def _line(alert: OperatorAlert) -> str:
    times = f"{alert.times} " if alert.kind in COUNTED else ""
    number = f"{alert.checkout.number} " if alert.checkout else ""
    return f"{alert.get_kind_display()}: {number}{times}{alert.message}"


@job
def purge_operator_alerts() -> None:
    """Delete alerts and outcomes of audits that are older than `RETENTION`."""
    OperatorAlert.objects.filter(created_at__lt=now() - RETENTION).delete()
    LedgerAudit.objects.filter(made_at__lt=now() - RETENTION).delete()
