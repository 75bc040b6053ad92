from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q, Sum
from django.db.models.functions import Cast, Floor, Right
from django.utils.timezone import now

from verification.encryption import EncryptedJSONField
from verification.ids import NUMBER_DIGITS, uuid7
from verification.reports.models import Report
from workspaces.models import Account, Environment, Workspace

# The payer can answer a prompt for this long; then the network ends it.
PROMPT_LIVES = timedelta(minutes=3)
# Looks are late by less than this, where the provider answers them.
PROMPT_MARGIN = timedelta(minutes=1)


class CheckoutStatus(models.TextChoices):
    OPEN = "OPEN"
    # The provider has the money, whatever we make of it.
    PAID = "PAID"
    # It was paid, and all of it had gone back before we learnt of it.
    REVERSED = "REVERSED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


class CheckoutKind(models.TextChoices):
    """The place where the payer pays."""

    PAGE = "PAGE", "On the provider's page"
    PROMPT = "PROMPT", "By an M-Pesa prompt on the payer's phone"


class Doubt(models.TextChoices):
    """A reason why a person must look at a checkout."""

    OTHER_CURRENCY = "OTHER_CURRENCY", "Another currency was paid than asked"
    CONTRADICTED = "CONTRADICTED", "The provider now says that it is not paid"
    DISPUTED = "DISPUTED", "The payer disputes it at their bank"
    DISPUTE_LOST = "DISPUTE_LOST", "A dispute was lost: the bank took the money back"
    FRAUD_WARNING = "FRAUD_WARNING", "The payer's bank suspects fraud"
    REFUND_FAILED = "REFUND_FAILED", "Money could not be given back"
    REFUND_STUCK = "REFUND_STUCK", "A refund waits for somebody, or for days"
    REFUNDED_ELSEWHERE = "REFUNDED_ELSEWHERE", "Given back at the provider, not by us"
    PAYS_NOTHING = "PAYS_NOTHING", "Money stays that pays for nothing any more"
    BOOKS_DIFFER = "BOOKS_DIFFER", "The provider's books say something else"


# Doubts about refunds, which alert operators within minutes.
REFUND_DOUBTS = [Doubt.REFUND_FAILED, Doubt.REFUND_STUCK]


class CheckoutQuerySet(models.QuerySet["Checkout"]):
    def paying(self, payment_id: UUID) -> CheckoutQuerySet:
        """Filter the checkouts that pay this payment: one, or several parts."""
        return self.filter(payment_id=payment_id, is_counted=True)

    def refunds_waiting(self) -> CheckoutQuerySet:
        """Filter checkouts with a refund that needs a person."""
        return self.filter(doubts__overlap=REFUND_DOUBTS)

    def parts(self, payment_id: UUID) -> CheckoutQuerySet:
        """Filter the parts of this payment that wait for the rest."""
        return self.filter(payment_id=payment_id, is_part=True, is_counted=False)

    def missing(self, payment: Payment) -> Decimal:
        """Return the rest of an outstanding payment, after the parts that came."""
        parts = self.parts(payment.pk).aggregate(sum=Sum("paid_amount"))
        return payment.amount - (parts["sum"] or Decimal(0))

    def not_whole(self) -> CheckoutQuerySet:
        """Filter checkouts that refunds or disputes have left with less than the
        amount that counts."""
        gone = F("refunded") + F("disputed")
        return self.alias(gone=gone).filter(
            gone__gt=F("paid_amount") - F("counted_amount")
        )


class Checkout(models.Model):
    """One try to pay at a payment provider: for a report, or to top up an account.

    It is due when `next_look_at` has passed: the provider is then asked what became of
    it. Events of the provider only bring that moment forward. Our name for it at the
    provider is its id.
    """

    Status = CheckoutStatus
    Doubt = Doubt

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    report = models.ForeignKey(
        Report, models.PROTECT, null=True, related_name="checkouts"
    )
    # The report's payment. No foreign key: an edit of a draft replaces the payment, and
    # money for the earlier one must still be found.
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
    # Where the payer pays, and the provider's name for it; blank until it answered.
    url = models.TextField(blank=True)
    session = models.CharField(max_length=255, blank=True)
    # Of a prompt: the phone (E.164) until `payments.purging` forgets it, and why the
    # prompt failed, a `PromptFailure`.
    phone = EncryptedJSONField(null=True)
    failure = models.CharField(max_length=11, blank=True)
    paid_amount = models.DecimalField(max_digits=12, decimal_places=2, null=True)
    paid_currency = models.CharField(max_length=3, blank=True)
    # What the provider calls the payment; a refund names it.
    transaction = models.CharField(max_length=255, blank=True)
    # What the payer of a report was told when it was counted: `payments.receipts`.
    receipt = EncryptedJSONField(null=True)
    # Whether it is this money that paid the report, or topped up the account, and how
    # much of it: what came on top is given back.
    is_counted = models.BooleanField(default=False)
    counted_amount = models.DecimalField(
        max_digits=12, decimal_places=2, default=Decimal(0)
    )
    # Less than the payment asks for: kept for the rest, and counted with it.
    is_part = models.BooleanField(default=False)
    # The sum of its refunds that did not fail and were not rejected.
    refunded = models.DecimalField(max_digits=12, decimal_places=2, default=Decimal(0))
    # The sum of what its disputes hold, or have lost.
    disputed = models.DecimalField(
        max_digits=12, decimal_places=2, default=Decimal(0), editable=False
    )
    # What was given back at the provider by others, as far as a person was told.
    refunded_elsewhere = models.DecimalField(
        max_digits=12, decimal_places=2, default=Decimal(0), editable=False
    )
    # Each once, the oldest first; `payments.doubts` raises and clears them.
    doubts = ArrayField(
        models.CharField(max_length=20, choices=Doubt), default=list, blank=True
    )
    # When its report did no more for this money, and what was not done went back or was
    # left to staff. Null until then, and again when that is to be looked at once more.
    accounted_at = models.DateTimeField(null=True, editable=False)
    # The reason of the person who left money here that pays for nothing.
    kept_because = models.CharField(max_length=500, blank=True)
    # The provider's words.
    message = models.CharField(max_length=200, blank=True)
    started_by = models.CharField(max_length=100)
    # Of the page it was opened from; blank until then.
    language = models.CharField(max_length=2, blank=True)
    created_at = models.DateTimeField(default=now, editable=False)
    paid_at = models.DateTimeField(null=True)
    next_look_at = models.DateTimeField(null=True)
    # When the provider was last asked.
    looked_at = models.DateTimeField(null=True, editable=False)
    # Looks in a row that the provider did not answer.
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
                name="a_paid_checkout_tells_what_was_paid",
                condition=Q(
                    status="PAID",
                    paid_amount__isnull=False,
                    paid_at__isnull=False,
                )
                | (~Q(status="PAID") & Q(paid_amount=None, paid_at=None)),
            ),
            models.CheckConstraint(
                name="what_counts_was_paid",
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
                name="a_part_is_kept_whole",
                condition=Q(is_part=False)
                | Q(status="PAID", paid_currency=F("currency"))
                & (Q(is_counted=True) | Q(refunded=0, disputed=0)),
            ),
            models.CheckConstraint(
                name="no_more_is_given_back_than_was_paid",
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
                name="one_prompt_waits",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_look_at"],
                condition=Q(next_look_at__isnull=False),
                name="checkouts_to_look_at",
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
            # What is to be forgotten.
            models.Index(
                fields=["created_at"],
                condition=Q(phone__isnull=False),
                name="checkout_phones",
            ),
            # What needs a person.
            models.Index(fields=["id"], condition=~Q(doubts=[]), name="doubts"),
            # Events that do not carry our name for it.
            models.Index(
                fields=["provider", "transaction"],
                condition=~Q(transaction=""),
                name="checkouts_by_transaction",
            ),
            # What is compared with the provider's books day by day.
            models.Index(
                fields=["paid_at"],
                condition=Q(paid_at__isnull=False),
                name="checkouts_paid",
            ),
            # What is read out of a receipt.
            models.Index(
                Right(Cast("id", models.TextField()), NUMBER_DIGITS),
                name="checkouts_by_number",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.money} ({self.provider})"

    @property
    def money(self) -> str:
        """What was paid, or what is asked for as long as nothing was."""
        if self.paid_amount is None:
            return f"{self.currency} {self.amount:.2f}"
        return f"{self.paid_currency} {self.paid_amount:.2f}"

    @property
    def workspace(self) -> Workspace:
        """The one whose report it pays, or whose account it tops up."""
        row: Report | Account | None = self.report or self.account
        assert row is not None  # noqa: S101
        return row.workspace

    @property
    def reference(self) -> str:
        return str(self.pk)

    @property
    def number(self) -> str:
        """The receipt's number, as a person reads it out."""
        text = self.id.hex[-NUMBER_DIGITS:].upper()
        return f"P-{text[:4]}-{text[4:8]}-{text[8:]}"

    @property
    def is_prompt(self) -> bool:
        return self.kind == CheckoutKind.PROMPT

    @property
    def is_waiting_prompt(self) -> bool:
        """Whether the prompt still waits for the payer's answer, as far as we know."""
        return self.is_prompt and self.status == CheckoutStatus.OPEN

    @property
    def prompt_ends_at(self) -> datetime:
        return self.created_at + PROMPT_LIVES

    @property
    def is_overdue_prompt(self) -> bool:
        """Whether the payer may leave the prompt, and pay another way."""
        return self.is_waiting_prompt and now() >= self.prompt_ends_at + PROMPT_MARGIN

    @property
    def doubt(self) -> str:
        """The checkout's doubts as staff read them; "" if there is none."""
        return ", ".join(self.doubts)

    @property
    def doubt_labels(self) -> list[str]:
        return [str(Doubt(name).label) for name in self.doubts]

    @property
    def refundable(self) -> Decimal:
        return (self.paid_amount or Decimal(0)) - self.refunded - self.disputed

    @property
    def kept(self) -> Decimal:
        """The rest of the amount that counts; refunds take the surplus first."""
        return min(self.counted_amount, self.refundable)

    def count(self, amount: Decimal) -> None:
        """Let this much of the money pay the report or top up the account."""
        self.is_counted, self.counted_amount = True, amount
