"""Payments of reports, checkouts at providers, refunds, disputes and provider events.

A payment asks a payer for the price of one report. Each attempt to pay is a checkout,
and its refunds and disputes take money of that checkout back.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q, Sum
from django.db.models.functions import Floor, Now

from verification.db.encryption import EncryptedJSONField
from verification.db.ids import number_index, number_of_id
from verification.db.models import DatedRow, Row
from verification.reports.models import Report, ReportStatus
from verification.values.clock import now
from workspaces.models import Account, Environment, Workspace

# The payer can answer a prompt for this long; then the network ends it.
PROMPT_LIFETIME = timedelta(minutes=3)
# A poll that the provider answers is late by less than this.
PROMPT_MARGIN = timedelta(minutes=1)


class PaymentStatus(models.TextChoices):
    NOT_REQUIRED = "NOT_REQUIRED"
    PENDING = "PENDING"
    PAID = "PAID"
    FAILED = "FAILED", "The last attempt failed"
    EXPIRED = "EXPIRED"
    REFUNDED = "REFUNDED"
    CANCELLED = "CANCELLED"


# Statuses of a report in which its payer can pay.
PAYABLE_STATUSES = {ReportStatus.DRAFT, ReportStatus.PENDING_PAYMENT}


class Payment(Row):
    """The amount that the subject or a nominated payer pays for one report.

    A report that its workspace pays for has no row. A free report of a payer has a row,
    because an edit can give the report a price.
    """

    # A payer can pay a payment with one of these statuses.
    OUTSTANDING = (PaymentStatus.PENDING, PaymentStatus.FAILED)

    report = models.OneToOneField(Report, models.CASCADE, related_name="payment")
    status = models.CharField(max_length=12, choices=PaymentStatus)
    amount = models.DecimalField(max_digits=10, decimal_places=2)
    currency = models.CharField(max_length=3, default="KES")
    # {name, email, phone} of a nominated payer
    payer = EncryptedJSONField(null=True)
    # The number of the valid link. A new link raises it, which ends the old link.
    generation = models.PositiveIntegerField(default=1)
    # SHA-256 of the link's token. The token is derived and never stored.
    token_digest = models.BinaryField(null=True, unique=True)
    expires_at = models.DateTimeField(null=True)
    # The time of the valid link. A new link needs a minute between.
    link_made_at = models.DateTimeField(db_default=Now(), editable=False)
    reminded_at = models.DateTimeField(null=True, editable=False)
    # The time when the payer asked for a new link. Only the client can send one.
    link_requested_at = models.DateTimeField(null=True, editable=False)
    paid_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="paid_at_iff_paid",
                condition=Q(status__in=["PAID", "REFUNDED"], paid_at__isnull=False)
                | (~Q(status__in=["PAID", "REFUNDED"]) & Q(paid_at=None)),
            ),
            models.CheckConstraint(
                name="payment_amount_is_not_negative", condition=Q(amount__gte=0)
            ),
            models.CheckConstraint(
                name="payment_has_a_link_unless_free",
                condition=Q(status="NOT_REQUIRED")
                | Q(token_digest__isnull=False, expires_at__isnull=False),
            ),
        ]
        indexes = [
            # For expiry and reminders.
            models.Index(
                fields=["expires_at"],
                condition=Q(status__in=["PENDING", "FAILED"]),
                name="payments_waiting",
            )
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.amount} {self.currency}"

    @property
    def is_outstanding(self) -> bool:
        return self.status in self.OUTSTANDING

    @property
    def is_settled(self) -> bool:
        """True if the payer owes nothing: the payment is paid, or free."""
        return self.status in {PaymentStatus.PAID, PaymentStatus.NOT_REQUIRED}

    def set_status(self, status: PaymentStatus) -> None:
        """Save the status and its times, and mark the report as changed.

        The caller holds both.
        """
        self.status = status
        self.save(update_fields=["status", "paid_at", "expires_at"])
        Report.objects.filter(pk=self.report_id).update(updated_at=now())


class CheckoutStatus(models.TextChoices):
    OPEN = "OPEN"
    # The provider has the money, even if it pays nothing here.
    PAID = "PAID"
    # The first poll that reports the money also reports that all of it has gone back.
    REVERSED = "REVERSED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


# A payer may pay these: after a declined card, providers let them try another one.
UNFINISHED_STATUSES = (CheckoutStatus.OPEN, CheckoutStatus.FAILED)


class CheckoutKind(models.TextChoices):
    """The place where the payer pays."""

    PAGE = "PAGE", "On the provider's page"
    PROMPT = "PROMPT", "By an M-Pesa prompt on the payer's phone"


class ReviewFlag(models.TextChoices):
    """A reason why a person must look at a checkout."""

    OTHER_CURRENCY = "OTHER_CURRENCY", "Paid in another currency than requested"
    CONTRADICTED = "CONTRADICTED", "The provider no longer reports it as paid"
    DISPUTED = "DISPUTED", "The payer disputes it at their bank"
    DISPUTE_LOST = "DISPUTE_LOST", "A dispute was lost: the bank took the money back"
    FRAUD_WARNING = "FRAUD_WARNING", "The payer's bank suspects fraud"
    REFUND_FAILED = "REFUND_FAILED", "A refund has failed"
    REFUND_STUCK = "REFUND_STUCK", "A refund waits for a person, or for days"
    REFUNDED_ELSEWHERE = "REFUNDED_ELSEWHERE", "Refunded at the provider, not by us"
    PAYS_NOTHING = "PAYS_NOTHING", "It holds money that pays for nothing"
    BOOKS_DIFFER = "BOOKS_DIFFER", "The provider's books differ"


# Flags about refunds, which alert the operators within minutes.
REFUND_REVIEW_FLAGS = [ReviewFlag.REFUND_FAILED, ReviewFlag.REFUND_STUCK]


class CheckoutQuerySet(models.QuerySet["Checkout"]):
    def paying(self, payment_id: UUID) -> CheckoutQuerySet:
        """Filter the checkouts that pay this payment: one, or several parts."""
        return self.filter(payment_id=payment_id, is_counted=True)

    def unfinished(self, payment_id: UUID) -> CheckoutQuerySet:
        """Filter the checkouts of this payment that may still be paid."""
        return self.filter(payment_id=payment_id, status__in=UNFINISHED_STATUSES)

    def with_flagged_refunds(self) -> CheckoutQuerySet:
        """Filter checkouts with a refund that needs a person."""
        # The index has only checkouts with flags.
        flagged = self.exclude(review_flags=[])
        return flagged.filter(review_flags__overlap=REFUND_REVIEW_FLAGS)

    def of_transaction(self, provider: str, transaction: str) -> CheckoutQuerySet:
        """Filter the checkout whose money has this id at the provider."""
        known = self.filter(provider=provider).exclude(transaction="")
        return known.filter(transaction=transaction)

    def parts(self, payment_id: UUID) -> CheckoutQuerySet:
        """Filter the parts of this payment that wait for the rest."""
        return self.filter(payment_id=payment_id, is_part=True, is_counted=False)

    def missing(self, payment: Payment) -> Decimal:
        """Return the rest of an outstanding payment, after the parts that came."""
        parts = self.parts(payment.pk).aggregate(sum=Sum("paid_amount"))
        return payment.amount - (parts["sum"] or Decimal(0))

    def partly_returned(self) -> CheckoutQuerySet:
        """Filter checkouts that refunds or disputes have left with less than the
        amount that counts."""
        gone = F("refunded") + F("refunded_elsewhere") + F("disputed")
        return self.alias(gone=gone).filter(
            gone__gt=F("paid_amount") - F("counted_amount")
        )


class Checkout(DatedRow):
    """One attempt to pay at a provider: for a report, or to top up an account.

    A job polls the provider when `next_poll_at` has passed. Events of the provider only
    bring that time forward. The checkout's id is its reference at the provider.
    """

    report = models.ForeignKey(
        Report, models.PROTECT, null=True, related_name="checkouts"
    )
    # The report's payment. This is no foreign key, because an edit of a draft replaces
    # the payment, and the checkout of the old payment stays.
    payment_id = models.UUIDField(null=True)
    account = models.ForeignKey(
        Account, models.PROTECT, null=True, related_name="checkouts"
    )
    environment = models.CharField(max_length=10, choices=Environment)
    provider = models.CharField(max_length=20)
    kind = models.CharField(
        max_length=6, choices=CheckoutKind, default=CheckoutKind.PAGE
    )
    status = models.CharField(
        max_length=9, choices=CheckoutStatus, default=CheckoutStatus.OPEN
    )
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    currency = models.CharField(max_length=3)
    # The address of the payment page, and the provider's id of it. Both are blank until
    # the provider has answered.
    url = models.TextField(blank=True)
    session = models.CharField(max_length=255, blank=True)
    # For a prompt: the phone (E.164) until `purge_payment_events` erases it, and the
    # reason why the prompt failed (`PromptFailure`).
    phone = EncryptedJSONField(null=True)
    failure = models.CharField(max_length=11, blank=True)
    paid_amount = models.DecimalField(max_digits=12, decimal_places=2, null=True)
    paid_currency = models.CharField(max_length=3, blank=True)
    # The provider's id of the money, which a refund names.
    transaction = models.CharField(max_length=255, blank=True)
    # The contents of the payer's receipt (`payments.payer_messages.Receipt`).
    receipt = EncryptedJSONField(null=True)
    # True if this money pays the report or tops up the account. `counted_amount` is the
    # amount that does; the surplus is refunded.
    is_counted = models.BooleanField(default=False)
    counted_amount = models.DecimalField(
        max_digits=12, decimal_places=2, default=Decimal(0)
    )
    # The money is less than the payment's amount, and waits for the rest.
    is_part = models.BooleanField(default=False)
    # The sum of its refunds, except failed and rejected ones.
    refunded = models.DecimalField(max_digits=12, decimal_places=2, default=Decimal(0))
    # The sum of the amounts that its disputes hold, or have lost.
    disputed = models.DecimalField(
        max_digits=12, decimal_places=2, default=Decimal(0), editable=False
    )
    # Money that somebody refunded in the provider's dashboard, as far as
    # REFUNDED_ELSEWHERE has reported it.
    refunded_elsewhere = models.DecimalField(
        max_digits=12, decimal_places=2, default=Decimal(0), editable=False
    )
    # Each flag once, the oldest first; `payments.alerts` raises and clears them.
    review_flags = ArrayField(
        models.CharField(max_length=20, choices=ReviewFlag), default=list, blank=True
    )
    # The time when the unfinished part of the report was refunded or left to staff.
    # Null before that, and again when `refund_unfinished_part` has to look once more.
    accounted_at = models.DateTimeField(null=True, editable=False)
    # Staff's reason to keep money here that pays for nothing.
    reason_to_keep = models.CharField(max_length=500, blank=True)
    # The provider's own text.
    message = models.CharField(max_length=200, blank=True)
    started_by = models.CharField(max_length=100)
    # The language of the page that opened the checkout; blank before that.
    language = models.CharField(max_length=2, blank=True)
    paid_at = models.DateTimeField(null=True)
    next_poll_at = models.DateTimeField(null=True)
    # The time of the latest poll.
    polled_at = models.DateTimeField(null=True, editable=False)
    # The number of polls in a row without an answer.
    unanswered = models.PositiveSmallIntegerField(default=0)

    objects = CheckoutQuerySet.as_manager()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="a_checkout_is_for_a_report_or_an_account",
                condition=Q(
                    report__isnull=False, payment_id__isnull=False, account=None
                )
                | Q(report=None, payment_id=None, account__isnull=False),
            ),
            models.CheckConstraint(
                name="play_money_is_paid_in_the_sandbox",
                condition=Q(provider="sandbox", environment="sandbox")
                | (~Q(provider="sandbox") & Q(environment="production")),
            ),
            models.CheckConstraint(
                name="a_prompt_asks_a_payer_for_whole_shillings",
                condition=Q(kind="PAGE", phone__isnull=True, failure="")
                | Q(
                    kind="PROMPT",
                    payment_id__isnull=False,
                    url="",
                    currency="KES",
                    amount=Floor("amount"),
                ),
            ),
            models.CheckConstraint(
                name="checkout_amount_is_positive", condition=Q(amount__gt=0)
            ),
            models.CheckConstraint(
                name="paid_checkout_has_amount_and_time",
                condition=Q(
                    status="PAID",
                    paid_amount__isnull=False,
                    paid_at__isnull=False,
                )
                | (~Q(status="PAID") & Q(paid_amount=None, paid_at=None)),
            ),
            models.CheckConstraint(
                name="counted_amount_was_paid",
                condition=Q(is_counted=False, counted_amount=0)
                | Q(
                    is_counted=True,
                    status="PAID",
                    counted_amount__gt=0,
                    counted_amount__lte=F("paid_amount"),
                    paid_currency=F("currency"),
                ),
            ),
            models.CheckConstraint(
                name="waiting_part_is_not_refunded",
                condition=Q(is_part=False)
                | Q(status="PAID", paid_currency=F("currency"))
                & (Q(is_counted=True) | Q(refunded=0, disputed=0)),
            ),
            models.CheckConstraint(
                name="paid_amount_covers_refunds",
                condition=Q(refunded=0, disputed=0)
                | Q(
                    refunded__gte=0,
                    disputed__gte=0,
                    refunded__lte=F("paid_amount") - F("disputed"),
                ),
            ),
            models.UniqueConstraint(
                fields=["payment_id"],
                condition=Q(is_counted=True, is_part=False, payment_id__isnull=False),
                name="a_payment_is_paid_once",
            ),
            models.UniqueConstraint(
                fields=["payment_id"],
                condition=Q(kind="PROMPT", status="OPEN"),
                name="payment_has_one_open_prompt",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_poll_at"],
                condition=Q(next_poll_at__isnull=False),
                name="checkouts_to_poll",
            ),
            models.Index(
                fields=["payment_id", "-id"],
                condition=Q(payment_id__isnull=False),
                name="checkouts_of_a_payment",
            ),
            models.Index(
                fields=["id"],
                condition=Q(
                    Q(is_counted=True) | Q(is_part=True),
                    accounted_at=None,
                    payment_id__isnull=False,
                ),
                name="checkouts_to_account_for",
            ),
            # For the purge of phones.
            models.Index(
                fields=["created_at"],
                condition=Q(phone__isnull=False),
                name="checkout_phones",
            ),
            # For the list of checkouts that need a person.
            models.Index(
                fields=["id"], condition=~Q(review_flags=[]), name="review_flags"
            ),
            # For events that carry only the provider's id.
            models.Index(
                fields=["provider", "transaction"],
                condition=~Q(transaction=""),
                name="checkouts_by_transaction",
            ),
            # For the daily reconciliation.
            models.Index(
                fields=["paid_at"],
                condition=Q(paid_at__isnull=False),
                name="checkouts_paid",
            ),
            # For the search by a receipt's number.
            number_index("checkouts_by_number"),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.money} ({self.provider})"

    @property
    def money(self) -> str:
        """The amount paid, or the amount to pay before that."""
        if self.paid_amount is None:
            return f"{self.currency} {self.amount:,.2f}"
        return f"{self.paid_currency} {self.paid_amount:,.2f}"

    @property
    def workspace(self) -> Workspace:
        """The workspace of the report or account that the checkout pays."""
        row: Report | Account | None = self.report or self.account
        assert row is not None  # noqa: S101
        return row.workspace

    @property
    def reference(self) -> str:
        return str(self.pk)

    @property
    def number(self) -> str:
        """The receipt's number, in groups that a person can read out."""
        return number_of_id("P", self.id)

    @property
    def is_prompt(self) -> bool:
        return self.kind == CheckoutKind.PROMPT

    @property
    def is_waiting_prompt(self) -> bool:
        """True while the prompt waits for the payer's answer, as of the latest poll."""
        return self.is_prompt and self.status == CheckoutStatus.OPEN

    @property
    def prompt_ends_at(self) -> datetime:
        return self.created_at + PROMPT_LIFETIME

    @property
    def is_overdue_prompt(self) -> bool:
        """True if the payer may leave the waiting prompt and pay another way."""
        return self.is_waiting_prompt and now() >= self.prompt_ends_at + PROMPT_MARGIN

    @property
    def review_flag_labels(self) -> list[str]:
        return [str(ReviewFlag(name).label) for name in self.review_flags]

    @property
    def refundable(self) -> Decimal:
        return (self.paid_amount or Decimal(0)) - self.refunded - self.disputed

    @property
    def kept_amount(self) -> Decimal:
        """The rest of the counted amount. Refunds take the surplus first."""
        return min(self.counted_amount, self.refundable)

    def count(self, amount: Decimal) -> None:
        """Count this much of the money for the report or the account."""
        self.is_counted, self.counted_amount = True, amount


class RefundStatus(models.TextChoices):
    REQUESTED = "REQUESTED", "Waits for a second person"
    REJECTED = "REJECTED"
    # Waits for the request to the provider, or for the provider's result.
    APPROVED = "APPROVED"
    DONE = "DONE"
    FAILED = "FAILED"


class RefundCause(models.TextChoices):
    STAFF = "STAFF", "Decided by staff"
    PAID_TWICE = "PAID_TWICE", "The payment was paid already"
    NOT_ASKED = "NOT_ASKED", "The report no longer asks for this payment"
    OVERPAID = "OVERPAID", "More was paid than requested"
    SHORT = "SHORT", "Less was paid than requested, and the rest did not come"
    NOT_DONE = "NOT_DONE", "Checks that it paid for were not done"
    ELSEWHERE = "ELSEWHERE", "Refunded at the provider, and recorded by staff"


class Refund(DatedRow):
    """Money of one checkout that goes back through the provider that took it.

    A job sends or polls it when `next_try_at` has passed. Its id is its reference at
    the provider, so that a retry finds a refund whose answer was lost.
    """

    checkout = models.ForeignKey(Checkout, models.PROTECT, related_name="refunds")
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    cause = models.CharField(max_length=10, choices=RefundCause)
    reason = models.CharField(max_length=300)
    status = models.CharField(max_length=9, choices=RefundStatus)
    requested_by = models.CharField(max_length=100)
    # Ids of staff users, because their names can change.
    requested_by_user = models.BigIntegerField(null=True)
    decided_by_user = models.BigIntegerField(null=True)
    # True if another person must approve it (REFUND_NEEDS_SECOND_ABOVE).
    needs_second = models.BooleanField(default=False)
    decided_by = models.CharField(max_length=100, blank=True)
    decided_at = models.DateTimeField(null=True)
    # The provider's id of the refund; blank until the provider has answered.
    provider_refund = models.CharField(max_length=255, blank=True)
    message = models.CharField(max_length=200, blank=True)
    tries = models.PositiveSmallIntegerField(default=0)
    # The time when REFUND_STUCK was raised for it.
    stuck_at = models.DateTimeField(null=True, editable=False)
    next_try_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="refund_amount_is_positive", condition=Q(amount__gt=0)
            ),
            models.CheckConstraint(
                name="refunds_are_tried_while_approved",
                condition=Q(status="APPROVED", next_try_at__isnull=False)
                | (~Q(status="APPROVED") & Q(next_try_at=None)),
            ),
            models.CheckConstraint(
                name="refund_ended_at_iff_ended",
                condition=Q(
                    status__in=["REJECTED", "DONE", "FAILED"], ended_at__isnull=False
                )
                | Q(status__in=["REQUESTED", "APPROVED"], ended_at=None),
            ),
            models.CheckConstraint(
                name="large_refunds_are_decided_by_another",
                condition=Q(needs_second=False)
                | Q(status__in=["REQUESTED", "REJECTED"])
                | Q(
                    Q(requested_by_user__isnull=False, decided_by_user__isnull=False),
                    ~Q(decided_by_user=F("requested_by_user")),
                ),
            ),
            models.UniqueConstraint(
                fields=["checkout", "cause"],
                condition=~Q(cause__in=["STAFF", "ELSEWHERE"]),
                name="service_refunds_once_for_a_cause",
            ),
            models.UniqueConstraint(
                fields=["checkout", "provider_refund"],
                condition=~Q(provider_refund=""),
                name="a_refund_of_the_provider_is_recorded_once",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_try_at"],
                condition=Q(next_try_at__isnull=False),
                name="refunds_to_try",
            ),
            # For refunds that wait for a second person.
            models.Index(
                fields=["id"],
                condition=Q(status="REQUESTED"),
                name="refunds_to_decide",
            ),
            models.Index(
                fields=["ended_at"],
                condition=Q(ended_at__isnull=False),
                name="refunds_ended",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.amount} of {self.checkout_id}"

    @property
    def money(self) -> str:
        return f"{self.checkout.paid_currency} {self.amount:,.2f}"

    @property
    def workspace(self) -> str:
        return self.checkout.workspace.name

    @property
    def environment(self) -> str:
        return self.checkout.environment

    @property
    def provider(self) -> str:
        return self.checkout.provider


class DisputeStatus(models.TextChoices):
    OPEN = "OPEN"
    WON = "WON"
    LOST = "LOST", "Lost: the money is gone"


class Dispute(DatedRow):
    """A payer's bank takes money of a checkout back, or may do so.

    An open or lost dispute holds its amount: no refund may use it, and the balance of a
    top-up loses it.
    """

    checkout = models.ForeignKey(Checkout, models.PROTECT, related_name="disputes")
    # The provider's id of the dispute.
    provider_dispute = models.CharField(max_length=255)
    status = models.CharField(max_length=4, choices=DisputeStatus)
    # The amount that the provider reports, and how much of the checkout's money it
    # holds.
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    held_amount = models.DecimalField(
        max_digits=12, decimal_places=2, default=Decimal(0)
    )
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["checkout", "provider_dispute"],
                name="a_dispute_is_recorded_once",
            ),
            models.CheckConstraint(
                name="dispute_holds_at_most_its_amount",
                condition=Q(held_amount__gte=0, held_amount__lte=F("amount")),
            ),
            models.CheckConstraint(
                name="won_dispute_holds_nothing",
                condition=~Q(status="WON") | Q(held_amount=0),
            ),
            models.CheckConstraint(
                name="dispute_ended_at_iff_ended",
                condition=Q(status="OPEN", ended_at=None)
                | (~Q(status="OPEN") & Q(ended_at__isnull=False)),
            ),
        ]
        indexes = [
            # For the daily reconciliation.
            models.Index(
                fields=["id"], condition=Q(status="OPEN"), name="disputes_open"
            )
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.amount} of {self.checkout_id}"


class PaymentEvent(Row):
    """An event of a payment provider with a valid signature, as it arrived.

    The database takes the same event once. A job deletes the body after 90 days.
    """

    provider = models.CharField(max_length=20)
    event_id = models.CharField(max_length=255)
    type = models.CharField(max_length=100)
    # Null if the event names no known checkout.
    checkout = models.ForeignKey(
        Checkout, models.PROTECT, null=True, related_name="events"
    )
    body_sha256 = models.BinaryField()
    body = EncryptedJSONField(null=True)
    received_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "event_id"], name="payment_event_is_stored_once"
            )
        ]
        indexes = [
            # For the purge.
            models.Index(
                fields=["received_at"],
                condition=Q(body__isnull=False),
                name="payment_events_with_body",
            )
        ]

    def __str__(self) -> str:
        return f"{self.type} ({self.provider})"


class OperatorAlertKind(models.TextChoices):
    UNOPENED = "UNOPENED", "Checkout not opened"
    REFUND = "REFUND", "Refund needs a person"
    REVIEW = "REVIEW", "Payment to review"
    BOOKS = "BOOKS", "Books differ"
    UNREAD = "UNREAD", "Books not read"
    SIGNATURE = "SIGNATURE", "Signatures refused"
    ACCESS = "ACCESS", "Access refused"
    LEDGER = "LEDGER", "Ledger does not add up"


class OperatorAlert(DatedRow):
    """A message to the operators about payments, once for each cause.

    It holds ids and no personal data.
    """

    kind = models.CharField(max_length=9, choices=OperatorAlertKind)
    cause = models.CharField(max_length=150, unique=True)
    checkout = models.ForeignKey(
        Checkout, models.PROTECT, null=True, related_name="operator_alerts"
    )
    message = models.CharField(max_length=300)
    times = models.PositiveIntegerField(default=1)
    # The time of the e-mail, or when it was resolved before it.
    notified_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        indexes = [
            models.Index(
                fields=["id"],
                condition=Q(notified_at=None),
                name="operator_alerts_to_send",
            ),
            # For the purge.
            models.Index(fields=["created_at"], name="operator_alerts_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.message}"


class LedgerAudit(models.Model):
    """The outcome of one audit of the ledger."""

    differences = models.PositiveIntegerField()
    # Everything that was made or changed since then was compared.
    since = models.DateTimeField(null=True, editable=False)
    # Everything was compared at some time since then; null if not all was yet.
    all_since = models.DateTimeField(null=True, editable=False)
    made_at = models.DateTimeField(default=now, editable=False, db_index=True)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.differences} differences"


class AuditWalk(models.Model):
    """The progress of the audit of the ledger; see `payments.audit`."""

    class Name(models.TextChoices):
        NIGHT = "NIGHT", "What came since the last night"
        ROUND = "ROUND", "All rows, over as many nights as it takes"

    name = models.CharField(max_length=5, choices=Name, primary_key=True)
    # Rows that were created or changed before this time are compared.
    read_to = models.DateTimeField()
    # The first time that a night compares; the time at which a round began.
    since = models.DateTimeField(null=True)
    # The time at which the walk ends; null between two walks.
    until = models.DateTimeField(null=True)
    # Lists of kind, id and fault.
    found = models.JSONField(default=list)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.name} until {self.read_to}"

    @property
    def is_complete(self) -> bool:
        return self.until is None or self.read_to >= self.until

    @property
    def differences(self) -> list[tuple[str, UUID, str]]:
        return [(kind, UUID(pk), fault) for kind, pk, fault in self.found]

    def remember(self, differences: list[tuple[str, UUID, str]]) -> None:
        self.found = [[kind, str(pk), fault] for kind, pk, fault in differences]


class AuditTotal(models.Model):
    """The sum of an account's entries that a walk has passed."""

    walk = models.ForeignKey(
        AuditWalk, models.CASCADE, related_name="totals", db_index=False
    )
    account_id = models.UUIDField()
    total = models.DecimalField(max_digits=20, decimal_places=2)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["walk", "account_id"], name="an_account_has_a_total_in_a_walk"
            )
        ]

    def __str__(self) -> str:
        return f"{self.total} of {self.account_id}"


class ReconciliationProgress(models.Model):
    """The last day (UTC) whose books of a provider were compared with ours."""

    provider = models.CharField(max_length=20, primary_key=True)
    day = models.DateField()

    def __str__(self) -> str:
        return f"{self.provider} up to {self.day}"


class SandboxCheckout(models.Model):
    """The sandbox provider's own record of one checkout."""

    # The checkout's id.
    reference = models.CharField(max_length=40, primary_key=True)
    state = models.CharField(max_length=9, default="OPEN")
    # For a FAILED prompt: its `PromptFailure`.
    failure = models.CharField(max_length=11, blank=True)
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    currency = models.CharField(max_length=3)
    description = models.CharField(max_length=200)
    return_url = models.TextField()
    cancel_url = models.TextField()
    paid_amount = models.DecimalField(max_digits=12, decimal_places=2, null=True)
    # {id of a refund: amount as text}
    refunds = models.JSONField(default=dict)
    created_at = models.DateTimeField(default=now, editable=False)
    paid_at = models.DateTimeField(null=True)
    # When the payer's bank disputed all of it; the dispute stays open.
    disputed_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.state} {self.amount} {self.currency}"
