from __future__ import annotations

from decimal import Decimal

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils.timezone import now

from verification.encryption import EncryptedJSONField
from verification.ids import uuid7
from verification.reports.models import Report
from workspaces.models import Account, Environment


class PaymentStatus(models.TextChoices):
    NOT_REQUIRED = "NOT_REQUIRED"
    PENDING = "PENDING"
    PAID = "PAID"
    FAILED = "FAILED", "The last attempt failed"
    EXPIRED = "EXPIRED"
    REFUNDED = "REFUNDED"
    CANCELLED = "CANCELLED"


class Payment(models.Model):
    """What the subject or a nominated payer pays for one report.

    A report that the workspace pays for has no row. One that costs nothing has a row
    for its payer, who is asked when an edit makes it cost something.
    """

    Status = PaymentStatus
    # Money can be taken for it.
    OUTSTANDING = (PaymentStatus.PENDING, PaymentStatus.FAILED)

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    report = models.OneToOneField(Report, models.CASCADE, related_name="payment")
    status = models.CharField(max_length=12, choices=PaymentStatus)
    amount = models.DecimalField(max_digits=10, decimal_places=2)
    currency = models.CharField(max_length=3, default="KES")
    # {name, email, phone} of a nominated payer
    payer = EncryptedJSONField(null=True)
    # Which link is the valid one; a new link raises it and so kills the old.
    generation = models.PositiveIntegerField(default=1)
    # SHA-256 of the link's token; the token itself is derived, and kept nowhere.
    token_digest = models.BinaryField(null=True, unique=True)
    expires_at = models.DateTimeField(null=True)
    # When the present link was made; another is made once a minute at most.
    link_made_at = models.DateTimeField(db_default=Now(), editable=False)
    reminded_at = models.DateTimeField(null=True, editable=False)
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
                name="who_is_asked_to_pay_has_a_link",
                condition=Q(status="NOT_REQUIRED")
                | Q(token_digest__isnull=False, expires_at__isnull=False),
            ),
        ]
        indexes = [
            # What expiry and reminders look for.
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
        """Nothing is owed: it was paid and kept, or never cost anything."""
        return self.status in {PaymentStatus.PAID, PaymentStatus.NOT_REQUIRED}


class CheckoutStatus(models.TextChoices):
    OPEN = "OPEN"
    # The provider has the money, whatever we make of it.
    PAID = "PAID"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


class Doubt(models.TextChoices):
    """What a person must look at."""

    OTHER_AMOUNT = "OTHER_AMOUNT", "Another amount or currency was paid than asked"
    CONTRADICTED = "CONTRADICTED", "The provider now says that it is not paid"
    DISPUTED = "DISPUTED", "The payer disputes it at their bank"
    REFUND_FAILED = "REFUND_FAILED", "Money could not be given back"
    REFUND_STUCK = "REFUND_STUCK", "A refund has not come to an end for days"
    REFUNDED_ELSEWHERE = "REFUNDED_ELSEWHERE", "Given back at the provider, not by us"
    BOOKS_DIFFER = "BOOKS_DIFFER", "The provider's books say something else"


class Checkout(models.Model):
    """One visit to a payment provider: for a report, or to top up an account.

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
    # Which payment asked. No foreign key: an edited draft asks anew, and what was paid
    # meanwhile must be found.
    payment_id = models.UUIDField(null=True)
    account = models.ForeignKey(
        Account, models.PROTECT, null=True, related_name="checkouts"
    )
    environment = models.CharField(max_length=10, choices=Environment)
    provider = models.CharField(max_length=20)
    status = models.CharField(
        max_length=9, choices=CheckoutStatus, default=CheckoutStatus.OPEN
    )
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    currency = models.CharField(max_length=3)
    # Where the payer pays, and the provider's name for it; blank until it answered.
    url = models.TextField(blank=True)
    session = models.CharField(max_length=255, blank=True)
    paid_amount = models.DecimalField(max_digits=12, decimal_places=2, null=True)
    paid_currency = models.CharField(max_length=3, blank=True)
    # What the provider calls the payment; a refund names it.
    transaction = models.CharField(max_length=255, blank=True)
    # What the payer of a report was told when it was counted: `payments.receipts`.
    receipt = EncryptedJSONField(null=True)
    # Whether it is this money that paid the report, or topped up the account.
    is_counted = models.BooleanField(default=False)
    # The sum of its refunds that did not fail and were not rejected.
    refunded = models.DecimalField(max_digits=12, decimal_places=2, default=Decimal(0))
    # What was given back at the provider by others, as far as a person was told.
    refunded_elsewhere = models.DecimalField(
        max_digits=12, decimal_places=2, default=Decimal(0), editable=False
    )
    # Each once, the oldest first; `payments.doubts` raises and clears them.
    doubts = ArrayField(
        models.CharField(max_length=20, choices=Doubt), default=list, blank=True
    )
    # What a person said who left money here that counts for nothing.
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
                name="only_the_whole_amount_counts",
                condition=Q(is_counted=False)
                | Q(
                    status="PAID",
                    paid_amount=F("amount"),
                    paid_currency=F("currency"),
                ),
            ),
            models.CheckConstraint(
                name="no_more_is_given_back_than_was_paid",
                condition=Q(refunded=0)
                | Q(refunded__gt=0, refunded__lte=F("paid_amount")),
            ),
            models.UniqueConstraint(
                fields=["payment_id"],
                condition=Q(is_counted=True, payment_id__isnull=False),
                name="a_payment_is_paid_once",
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
        ]

    def __str__(self) -> str:
        return f"{self.status} {self.amount} {self.currency} ({self.provider})"

    @property
    def reference(self) -> str:
        return str(self.pk)

    @property
    def number(self) -> str:
        """The receipt's number, as a person reads it out."""
        text = self.id.hex[-12:].upper()
        return f"P-{text[:4]}-{text[4:8]}-{text[8:]}"

    @property
    def doubt(self) -> str:
        """All of them, as staff read them; "" where there is none."""
        return ", ".join(self.doubts)

    @property
    def doubt_labels(self) -> list[str]:
        return [str(Doubt(name).label) for name in self.doubts]

    @property
    def refundable(self) -> Decimal:
        return (self.paid_amount or Decimal(0)) - self.refunded


class RefundStatus(models.TextChoices):
    REQUESTED = "REQUESTED", "Waits for a second person"
    REJECTED = "REJECTED"
    # Waits for the provider to be asked, or to be asked what became of it.
    APPROVED = "APPROVED"
    DONE = "DONE"
    FAILED = "FAILED"


class RefundCause(models.TextChoices):
    STAFF = "STAFF", "Decided by staff"
    PAID_TWICE = "PAID_TWICE", "The payment had been paid already"
    NOT_ASKED = "NOT_ASKED", "The report had ended, or asked for something else"


class Refund(models.Model):
    """Money of one checkout given back, through the provider that took it.

    It is due when `next_try_at` has passed. Our name for it at the provider is its id,
    so that a try whose answer was lost is found again and not paid twice.
    """

    Status = RefundStatus
    Cause = RefundCause

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    checkout = models.ForeignKey(Checkout, models.PROTECT, related_name="refunds")
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    cause = models.CharField(max_length=10, choices=RefundCause)
    reason = models.CharField(max_length=300)
    status = models.CharField(max_length=9, choices=RefundStatus)
    requested_by = models.CharField(max_length=100)
    # Users of the back office by their ids, since names can be changed.
    requested_by_user = models.BigIntegerField(null=True)
    decided_by_user = models.BigIntegerField(null=True)
    # Above an amount that the operator sets, another person must agree.
    needs_second = models.BooleanField(default=False)
    decided_by = models.CharField(max_length=100, blank=True)
    decided_at = models.DateTimeField(null=True)
    # The provider's name for it, once it has said so.
    provider_refund = models.CharField(max_length=255, blank=True)
    message = models.CharField(max_length=200, blank=True)
    tries = models.PositiveSmallIntegerField(default=0)
    # When a person was told that it takes too long.
    stuck_at = models.DateTimeField(null=True, editable=False)
    next_try_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=now, editable=False)
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
                fields=["checkout"],
                condition=~Q(cause="STAFF"),
                name="a_surplus_is_given_back_once",
            ),
        ]
        indexes = [
            models.Index(
                fields=["next_try_at"],
                condition=Q(next_try_at__isnull=False),
                name="refunds_to_try",
            ),
            # What waits for a second person.
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


class PaymentEvent(models.Model):
    """An event of a payment provider as it came, once its signature was right.

    The database takes the same event once. The body is forgotten after 90 days.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    provider = models.CharField(max_length=20)
    event_id = models.CharField(max_length=255)
    type = models.CharField(max_length=100)
    # Our checkout's; null where the event names none that we know.
    checkout = models.ForeignKey(
        Checkout, models.PROTECT, null=True, related_name="events"
    )
    body_sha256 = models.BinaryField()
    body = EncryptedJSONField(null=True)
    received_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "event_id"], name="an_event_is_taken_once"
            )
        ]
        indexes = [
            # What the purge looks for.
            models.Index(
                fields=["received_at"],
                condition=Q(body__isnull=False),
                name="payment_events_with_body",
            )
        ]

    def __str__(self) -> str:
        return f"{self.type} ({self.provider})"


class BooksCompared(models.Model):
    """Up to which day, in UTC, a provider's books were compared with ours."""

    provider = models.CharField(max_length=20, primary_key=True)
    day = models.DateField()

    def __str__(self) -> str:
        return f"{self.provider} up to {self.day}"


class SandboxCheckout(models.Model):
    """What the built-in provider of the sandbox knows of one checkout."""

    # Our reference, which is the checkout's id.
    reference = models.CharField(max_length=40, primary_key=True)
    state = models.CharField(max_length=9, default="OPEN")
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    currency = models.CharField(max_length=3)
    description = models.CharField(max_length=200)
    return_url = models.TextField()
    cancel_url = models.TextField()
    paid_amount = models.DecimalField(max_digits=12, decimal_places=2, null=True)
    # {our reference of a refund: amount as text}
    refunds = models.JSONField(default=dict)
    created_at = models.DateTimeField(default=now, editable=False)
    paid_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.state} {self.amount} {self.currency}"
