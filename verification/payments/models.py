from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q, Sum
from django.db.models.functions import Cast, Floor, Now, Right
from django.utils.timezone import now

from verification.db.encryption import EncryptedJSONField
from verification.db.ids import NUMBER_DIGITS, uuid7
from verification.reports.models import Report
from workspaces.models import Account, Environment, Workspace


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
    # When the payer asked for another link, which the client alone can send.
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


# The payer can answer a prompt for this long; then the network ends it.
PROMPT_LIFETIME = timedelta(minutes=3)
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


class ReviewFlag(models.TextChoices):
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
REFUND_REVIEW_FLAGS = [ReviewFlag.REFUND_FAILED, ReviewFlag.REFUND_STUCK]


class CheckoutQuerySet(models.QuerySet["Checkout"]):
    def paying(self, payment_id: UUID) -> CheckoutQuerySet:
        """Filter the checkouts that pay this payment: one, or several parts."""
        return self.filter(payment_id=payment_id, is_counted=True)

    def with_flagged_refunds(self) -> CheckoutQuerySet:
        """Filter checkouts with a refund that needs a person."""
        return self.filter(review_flags__overlap=REFUND_REVIEW_FLAGS)

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
        gone = F("refunded") + F("disputed")
        return self.alias(gone=gone).filter(
            gone__gt=F("paid_amount") - F("counted_amount")
        )


class Checkout(models.Model):
    """One try to pay at a payment provider: for a report, or to top up an account.

    It is due when `next_poll_at` has passed: the provider is then asked what became of
    it. Events of the provider only bring that moment forward. Our name for it at the
    provider is its id.
    """

    Status = CheckoutStatus
    ReviewFlag = ReviewFlag

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
    review_flags = ArrayField(
        models.CharField(max_length=20, choices=ReviewFlag), default=list, blank=True
    )
    # When its report did no more for this money, and what was not done went back or was
    # left to staff. Null until then, and again when that is to be looked at once more.
    accounted_at = models.DateTimeField(null=True, editable=False)
    # The reason of the person who left money here that pays for nothing.
    reason_to_keep = models.CharField(max_length=500, blank=True)
    # The provider's words.
    message = models.CharField(max_length=200, blank=True)
    started_by = models.CharField(max_length=100)
    # Of the page it was opened from; blank until then.
    language = models.CharField(max_length=2, blank=True)
    created_at = models.DateTimeField(default=now, editable=False)
    paid_at = models.DateTimeField(null=True)
    next_poll_at = models.DateTimeField(null=True)
    # When the provider was last asked.
    polled_at = models.DateTimeField(null=True, editable=False)
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
                fields=["next_poll_at"],
                condition=Q(next_poll_at__isnull=False),
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
            models.Index(
                fields=["id"], condition=~Q(review_flags=[]), name="review_flags"
            ),
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
        return self.created_at + PROMPT_LIFETIME

    @property
    def is_overdue_prompt(self) -> bool:
        """Whether the payer may leave the prompt, and pay another way."""
        return self.is_waiting_prompt and now() >= self.prompt_ends_at + PROMPT_MARGIN

    @property
    def doubt(self) -> str:
        """The checkout's doubts as staff read them; "" if there is none."""
        return ", ".join(self.review_flags)

    @property
    def review_flag_labels(self) -> list[str]:
        return [str(ReviewFlag(name).label) for name in self.review_flags]

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
    OVERPAID = "OVERPAID", "More was paid than asked"
    SHORT = "SHORT", "Less was paid than asked, and the rest did not come"
    NOT_DONE = "NOT_DONE", "What it was paid for was not done"
    ELSEWHERE = "ELSEWHERE", "Given back at the provider, and recorded by staff"


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
                fields=["checkout", "cause"],
                condition=~Q(cause__in=["STAFF", "ELSEWHERE"]),
                name="the_service_gives_back_once_for_a_cause",
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

    @property
    def money(self) -> str:
        return f"{self.checkout.paid_currency} {self.amount:.2f}"

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


class Dispute(models.Model):
    """A payer's bank takes money of a checkout back, or may do so.

    What is open or lost can neither be given back nor, of a top-up, be spent.
    """

    Status = DisputeStatus

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    checkout = models.ForeignKey(Checkout, models.PROTECT, related_name="disputes")
    # The provider's name for it.
    provider_dispute = models.CharField(max_length=255)
    status = models.CharField(max_length=4, choices=DisputeStatus)
    # As the provider tells it, and how much of the checkout's money that is.
    amount = models.DecimalField(max_digits=12, decimal_places=2)
    held = models.DecimalField(max_digits=12, decimal_places=2, default=Decimal(0))
    created_at = models.DateTimeField(default=now, editable=False)
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["checkout", "provider_dispute"],
                name="a_dispute_is_recorded_once",
            ),
            models.CheckConstraint(
                name="disputes_hold_no_more_than_they_are_about",
                condition=Q(held__gte=0, held__lte=F("amount")),
            ),
            models.CheckConstraint(
                name="a_dispute_that_was_won_holds_nothing",
                condition=~Q(status="WON") | Q(held=0),
            ),
            models.CheckConstraint(
                name="dispute_ended_at_iff_ended",
                condition=Q(status="OPEN", ended_at=None)
                | (~Q(status="OPEN") & Q(ended_at__isnull=False)),
            ),
        ]
        indexes = [
            # What the reconciliation asks about every day.
            models.Index(
                fields=["id"], condition=Q(status="OPEN"), name="disputes_open"
            )
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


class OperatorAlertKind(models.TextChoices):
    UNOPENED = "UNOPENED", "Checkout not opened"
    REFUND = "REFUND", "Refund needs somebody"
    DOUBT = "DOUBT", "Payment in doubt"
    BOOKS = "BOOKS", "Books differ"
    UNREAD = "UNREAD", "Books not read"
    SIGNATURE = "SIGNATURE", "Signatures refused"
    ACCESS = "ACCESS", "Access refused"


class OperatorAlert(models.Model):
    """What operators are told by e-mail, each cause once. It names ids, and nobody."""

    Kind = OperatorAlertKind

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=9, choices=OperatorAlertKind)
    cause = models.CharField(max_length=150, unique=True)
    checkout = models.ForeignKey(
        Checkout, models.PROTECT, null=True, related_name="troubles"
    )
    message = models.CharField(max_length=300)
    times = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(default=now, editable=False)
    # When the e-mail about it was written, or it had passed by itself by then.
    notified_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        indexes = [
            models.Index(
                fields=["id"], condition=Q(notified_at=None), name="troubles_to_tell"
            ),
            # What the purge looks for.
            models.Index(fields=["created_at"], name="troubles_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.message}"


class ReconciliationProgress(models.Model):
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
    # Of a FAILED prompt: a `PromptFailure`.
    failure = models.CharField(max_length=11, blank=True)
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
