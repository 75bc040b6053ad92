"""Checkouts: open a provider's payment page, or send an M-Pesa prompt.

The row is committed before the call to the provider, so that every checkout that takes
money is known here. `open_checkout`, `open_prompt` and `open_top_up` make the row;
`open_at_provider` and `send_prompt` call the provider.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, cast
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils.translation import gettext as _

from verification import links
from verification.consents.models import is_consent_refused
from verification.db.encryption import keyed_hash
from verification.notifications.models import Channel
from verification.notifications.recipients import active_blocks, count_today
from verification.payments.alerts import count_failed_opening
from verification.payments.models import (
    PAYABLE_STATUSES,
    Checkout,
    CheckoutKind,
    CheckoutStatus,
    Payment,
    PaymentStatus,
    ReviewFlag,
)
from verification.payments.payer_messages import payer_of
from verification.payments.refunds import provider_message
from verification.payments.registry import (
    NoPaymentProvider,
    can_prompt,
    checkout_provider,
    minimum_amount,
    provider_named,
)
from verification.payments.settlement import PROMPT_POLL_TIMES, schedule_poll, settle
from verification.providers.base import ProviderError, Refused
from verification.providers.payment_provider import (
    CheckoutRequest,
    CheckoutSnapshot,
    CheckoutState,
    PromptFailure,
)
from verification.reports.create import blocked_check_reason
from verification.reports.hosted_links import is_over
from verification.reports.models import Report, ReportStatus
from verification.reports.status import lock_with_report, locked_reports
from verification.values.clock import now
from workspaces.models import Account

logger = logging.getLogger(__name__)

PAYER = "payer"
SOURCES_CHANGED = "SOURCES_CHANGED"
# A payer who returns within this time, or clicks twice, gets the open checkout again.
REUSE_WINDOW = timedelta(minutes=20)
CHECKOUT_LIFETIME = timedelta(hours=1)
# The link expires this much later than the checkouts that the payer can finish.
CHECKOUT_GRACE = timedelta(minutes=5)
FIRST_POLL_DELAY = timedelta(minutes=1)
# These limits keep the holder of a link from flooding a phone.
PROMPTS_PER_LINK_PER_HOUR = 4
PROMPTS_PER_PHONE_PER_DAY = 8
MIN_TOP_UP, MAX_TOP_UP = Decimal(100), Decimal(1_000_000)


class PaymentClosed(Exception):
    """The payment takes no money now.

    `status` is a `closed_reason`, PROMPTED (a prompt waits on the payer's phone), or
    NO_PROMPT (no prompt can ask for this amount).
    """

    def __init__(self, status: str) -> None:
        super().__init__(f"The payment is {status}.")
        self.status = status


class TooManyPrompts(Exception):
    """This link or this phone has reached its limit of prompts."""


class PhoneBlocked(Exception):
    """The owner of this phone has blocked the report's workspace."""


class CheckoutNotOpened(Exception):
    """The checkout has no provider, or the provider failed to open it."""


@contextmanager
def _alert_without_provider() -> Iterator[None]:
    """Open a transaction; without a provider, alert operators after its rollback."""
    try:
        with transaction.atomic():
            yield
    except NoPaymentProvider as e:
        logger.error("a checkout was not opened: no payment provider is configured")
        count_failed_opening("nobody", e.code)
        raise CheckoutNotOpened from e


@_alert_without_provider()
def open_checkout(
    payment_id: UUID, generation: int, *, beside: bool = False
) -> Checkout:
    """Return the payment's open checkout, or make one; `beside` always makes one.

    The caller calls `open_at_provider` next, unless the checkout has its `url`. Raises
    PaymentClosed, and CheckoutNotOpened if no provider is configured.
    """
    report, payment, at = _lock_for_payment(payment_id, generation)
    missing = Checkout.objects.missing(payment)
    reusable = Checkout.objects.filter(
        payment_id=payment.pk,
        status=CheckoutStatus.OPEN,
        amount=missing,
        created_at__gt=at - REUSE_WINDOW,
    ).exclude(url="")
    if not beside and (checkout := reusable.order_by("-id").first()):
        return checkout
    return _create_checkout(_checkout_for(report, payment, missing), at)


@_alert_without_provider()
def open_prompt(
    payment_id: UUID, generation: int, phone: str, language: str
) -> Checkout:
    """Make a checkout for a prompt on this phone; the caller calls `send_prompt` next.

    Raises PaymentClosed (PROMPTED if a prompt waits already), TooManyPrompts,
    PhoneBlocked, and CheckoutNotOpened if no provider is configured.
    """
    report, payment, at = _lock_for_payment(payment_id, generation)
    missing = Checkout.objects.missing(payment)
    if not can_prompt(report.environment, missing, payment.currency):
        raise PaymentClosed("NO_PROMPT")
    prompts = Checkout.objects.filter(payment_id=payment.pk, kind=CheckoutKind.PROMPT)
    recent = prompts.filter(created_at__gt=at - timedelta(hours=1)).count()
    hashed = keyed_hash("prompts to a phone", phone).hex()
    subject = f"prompts:{report.environment}:{hashed}"
    if recent >= PROMPTS_PER_LINK_PER_HOUR or not count_today(
        subject, PROMPTS_PER_PHONE_PER_DAY
    ):
        raise TooManyPrompts
    # The limits come first, so that a link reveals few blocks.
    if active_blocks(report.workspace_id, [(Channel.SMS, phone)]).exists():
        raise PhoneBlocked
    checkout = _checkout_for(
        report,
        payment,
        missing,
        kind=CheckoutKind.PROMPT,
        phone=phone,
        language=language,
    )
    return _create_checkout(checkout, at)


@_alert_without_provider()
def open_top_up(account: Account, amount: Decimal, actor: str) -> Checkout:
    """Make a checkout whose money goes to the account's balance.

    Raises PaymentClosed if the workspace is suspended, CheckoutNotOpened if no provider
    is configured, and ValueError for an amount out of range.
    """
    if account.workspace.is_suspended:
        raise PaymentClosed("SUSPENDED")
    least = minimum_top_up(account)
    if not least <= amount <= MAX_TOP_UP:
        raise ValueError(f"a top-up is {least} to {MAX_TOP_UP}")
    checkout = Checkout(
        account=account,
        environment=account.environment,
        amount=amount,
        currency=account.currency,
        started_by=actor,
    )
    return _create_checkout(checkout, now())


def minimum_top_up(account: Account) -> Decimal:
    return max(MIN_TOP_UP, minimum_amount(account.environment, account.currency))


def _lock_for_payment(
    payment_id: UUID, generation: int
) -> tuple[Report, Payment, datetime]:
    """Lock report and payment for a new checkout; return them and the time after that.

    Raises PaymentClosed.
    """
    try:
        report, payment = lock_with_report(Payment, payment_id)
    except Payment.DoesNotExist:
        # An edit of the draft has replaced the payment, and its link with it.
        raise PaymentClosed("REPLACED") from None
    at = now()
    if closed := closed_reason(report, payment, generation, at):
        raise PaymentClosed(closed)
    waiting = Checkout.objects.filter(payment_id=payment.pk, kind=CheckoutKind.PROMPT)
    if waiting.filter(status=CheckoutStatus.OPEN).exists():
        raise PaymentClosed("PROMPTED")
    until = at + CHECKOUT_LIFETIME + CHECKOUT_GRACE
    payment.expires_at = max(payment.expires_at or until, until)
    payment.set_status(PaymentStatus.PENDING)
    return report, payment, at


def closed_reason(
    report: Report, payment: Payment, generation: int, at: datetime
) -> str | None:
    """Return the reason why this link takes no payment, or None.

    A reason is a PaymentStatus, REPLACED (by a newer link), WAITS_FOR_CONSENT,
    REPORT_ENDED, SUSPENDED, SOURCES_CHANGED (a check can no longer run) or EXAMINED (a
    person looks at money that came for this payment).
    """
    if payment.generation != generation:
        return "REPLACED"
    if not payment.is_outstanding:
        return payment.status
    if report.status == ReportStatus.PENDING_CONSENT:
        return "WAITS_FOR_CONSENT"
    # A refusal of consent ends the report.
    is_refused = is_consent_refused(report)
    if report.status not in PAYABLE_STATUSES or report.subject is None or is_refused:
        return "REPORT_ENDED"
    if is_over(payment, at):
        return PaymentStatus.EXPIRED
    # Money of checkouts that are open already still counts.
    if report.workspace.is_suspended:
        return "SUSPENDED"
    if blocked_check_reason(report):
        return SOURCES_CHANGED
    flagged = Checkout.objects.filter(
        payment_id=payment.pk, review_flags__contains=[ReviewFlag.OTHER_CURRENCY]
    )
    return "EXAMINED" if flagged.exists() else None


def _checkout_for(
    report: Report, payment: Payment, missing: Decimal, **fields: Any
) -> Checkout:
    return Checkout(
        report=report,
        payment_id=payment.pk,
        environment=report.environment,
        amount=missing,
        currency=payment.currency,
        started_by=PAYER,
        **fields,
    )


def _create_checkout(checkout: Checkout, at: datetime) -> Checkout:
    checkout.provider = checkout_provider(checkout.environment).name
    checkout.created_at = at
    checkout.next_poll_at = at + (
        PROMPT_POLL_TIMES[0] if checkout.is_prompt else FIRST_POLL_DELAY
    )
    checkout.save(force_insert=True)
    schedule_poll(checkout.next_poll_at)
    return checkout


@transaction.atomic
def end_overdue_prompt(payment_id: UUID) -> None:
    """End an overdue prompt, so that its payer can pay another way.

    Polls of it go on. If its money still arrives, it pays the payment, or goes back if
    another checkout has paid. Raises Payment.DoesNotExist.
    """
    lock_with_report(Payment, payment_id)
    prompts = Checkout.objects.filter(payment_id=payment_id, kind=CheckoutKind.PROMPT)
    for prompt in prompts.filter(status=CheckoutStatus.OPEN):
        if prompt.is_overdue_prompt:
            settle(prompt.pk, _failed_snapshot(PromptFailure.TIMED_OUT))


def _failed_snapshot(failure: PromptFailure, message: str = "") -> CheckoutSnapshot:
    return CheckoutSnapshot(CheckoutState.FAILED, message=message, failure=failure)


def open_at_provider(checkout: Checkout, language: str) -> str:
    """Open the checkout at the provider and return its address.

    Call it outside a transaction, as it calls the provider. Raises CheckoutNotOpened.
    """
    request = _checkout_request(checkout, language)
    try:
        page = provider_named(checkout.provider).begin(request)
    except ProviderError as e:
        logger.error("checkout %s was not opened: %s", checkout.pk, e.code)
        count_failed_opening(checkout.provider, e.code)
        # Polls of the checkout go on, as the provider's answer may only have been lost.
        _record_message(checkout, e.message)
        raise CheckoutNotOpened from e
    Checkout.objects.filter(pk=checkout.pk).update(
        url=page.url, session=page.session, language=language
    )
    return page.url


def send_prompt(checkout: Checkout) -> None:
    """Send the prompt to the payer's phone, once.

    Call it outside a transaction, as it calls the provider. If the answer is lost, a
    poll finds out whether the provider has sent the prompt.
    """
    request = _checkout_request(checkout, checkout.language)
    provider = provider_named(checkout.provider)
    row = Checkout.objects.filter(pk=checkout.pk)
    try:
        snapshot = provider.send_prompt(request, str(checkout.phone))
    except ProviderError as e:
        logger.error("the prompt of checkout %s was not sent: %s", checkout.pk, e.code)
        _record_message(checkout, e.message)
        if isinstance(e, Refused):
            # The phone is often the reason, so this is no alert. If the provider
            # refuses all calls, opening its page fails too and alerts the operators.
            settle(checkout.pk, _failed_snapshot(PromptFailure.NOT_SENT, e.message))
        else:
            count_failed_opening(checkout.provider, e.code)
        return
    if snapshot.state == CheckoutState.OPEN:
        row.update(session=checkout.reference)
    else:
        settle(checkout.pk, snapshot)


@transaction.atomic
def _record_message(checkout: Checkout, text: str) -> None:
    """Record why the provider opened no checkout, unless the report is erased."""
    # Locked, so that an erasure comes before the text or erases it.
    about = checkout.report_id
    report = locked_reports().filter(pk=about).first() if about else None
    message = provider_message(text, report)
    Checkout.objects.filter(pk=checkout.pk).update(message=message)


def _checkout_request(checkout: Checkout, language: str) -> CheckoutRequest:
    if checkout.account:
        path = links.top_up_path(checkout.account.pk)
        workspace = checkout.account.workspace
        description = _("Top-up for %(name)s") % {"name": workspace.requester.name}
        email = workspace.contact_email
    else:
        report = cast(Report, checkout.report)
        path = links.payment_path(cast(UUID, checkout.payment_id))
        name = report.workspace.requester.name
        description = _("Verification report for %(name)s") % {"name": name}
        email = payer_of(report).get("email", "")
    page = f"{settings.BASE_URL}{path}"
    return CheckoutRequest(
        checkout.reference,
        checkout.amount,
        checkout.currency,
        description,
        email,
        language,
        return_url=f"{page}back/{checkout.pk}",
        cancel_url=page,
        expires_at=checkout.created_at + CHECKOUT_LIFETIME,
    )
