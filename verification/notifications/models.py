"""Notifications, blocks by recipients, sandbox addresses and daily counts."""

from dataclasses import dataclass

from django.db import models
from django.db.models import Q

from verification.db.encryption import EncryptedJSONField, KeyedHashField
from verification.db.models import DatedRow, Row
from verification.values.clock import now


class Kind(models.TextChoices):
    """The messages; each has its templates in `templates/notifications/`."""

    # To the subject; from `consents.subject_messages`
    CONSENT_REQUEST = "CONSENT_REQUEST"
    CONSENT_REMINDER = "CONSENT_REMINDER"
    CONSENT_LOCKED = "CONSENT_LOCKED"
    CONSENT_CODE = "CONSENT_CODE"
    CONSENT_RECEIPT = "CONSENT_RECEIPT"
    ACCESS_CODE = "ACCESS_CODE"
    ACCESS_LINK = "ACCESS_LINK"
    # `privacy.my_data` sends it
    MY_DATA = "MY_DATA"
    # To the referee; from `references`
    REFERENCE_REQUEST = "REFERENCE_REQUEST"
    REFERENCE_REMINDER = "REFERENCE_REMINDER"
    REFERENCE_RECEIPT = "REFERENCE_RECEIPT"
    # To the payer; from `payments.payer_messages`
    PAYMENT_REQUEST = "PAYMENT_REQUEST"
    PAYMENT_REMINDER = "PAYMENT_REMINDER"
    PAYMENT_SHORT = "PAYMENT_SHORT"
    PAYMENT_RECEIPT = "PAYMENT_RECEIPT"
    PAYMENT_REFUNDED = "PAYMENT_REFUNDED"
    # To the operator; from `payments.alerts`
    PAYMENT_TROUBLE = "PAYMENT_TROUBLE"
    # To the data protection officer and to owners; from `privacy.requests`
    REQUESTS_DUE = "REQUESTS_DUE"
    # To the owner; from `payments.payer_messages`, `workspaces.ledger`,
    # `monitoring.pauses`, `reports.hosted_links` and `webhooks.health`
    TOP_UP_RECEIPT = "TOP_UP_RECEIPT"
    TOP_UP_REFUNDED = "TOP_UP_REFUNDED"
    LOW_BALANCE = "LOW_BALANCE"
    MONITORING_PAUSED = "MONITORING_PAUSED"
    NEW_LINK_WANTED = "NEW_LINK_WANTED"
    WEBHOOK_FAILING = "WEBHOOK_FAILING"
    WEBHOOK_DISABLED = "WEBHOOK_DISABLED"
    # Members choose these; from `digests`
    MEMBER_NEWS = "MEMBER_NEWS"
    MEMBER_DIGEST = "MEMBER_DIGEST"
    # To invited people; from `workspaces.members` and `accounts.colleagues`
    INVITATION = "INVITATION"
    STAFF_INVITATION = "STAFF_INVITATION"
    # To the holder of an account; from `notify_account_holder`
    ACCOUNT_CONFIRM = "ACCOUNT_CONFIRM"
    ACCOUNT_EXISTS = "ACCOUNT_EXISTS"
    ACCOUNT_RESET = "ACCOUNT_RESET"
    ACCOUNT_CHANGED = "ACCOUNT_CHANGED"
    # To owners and the requester; from `golive.review`
    GO_LIVE_KEY = "GO_LIVE_KEY"
    GO_LIVE_APPROVED = "GO_LIVE_APPROVED"
    GO_LIVE_REJECTED = "GO_LIVE_REJECTED"
    GO_LIVE_NAME = "GO_LIVE_NAME"
    # To the subject, the client and the reviewer; from `privacy.corrections`
    CORRECTION_RECEIPT = "CORRECTION_RECEIPT"
    CORRECTION_ANSWER = "CORRECTION_ANSWER"
    CORRECTION_OPENED = "CORRECTION_OPENED"
    CORRECTION_RERUN = "CORRECTION_RERUN"
    # To the subject; from `decisions.notices` and `privacy.reviews`
    ADVERSE_NOTICE = "ADVERSE_NOTICE"
    REVIEW_ANSWER = "REVIEW_ANSWER"
    # To an address that a member adds; from `workspaces.sandbox_addresses`
    SANDBOX_ADDRESS = "SANDBOX_ADDRESS"


# Messages to subjects, payers and referees, whose addresses the client gives.
THIRD_PARTY_KINDS = frozenset(
    k for k in Kind if k.startswith(("CONSENT_", "REFERENCE_"))
) | {
    Kind.PAYMENT_REQUEST,
    Kind.PAYMENT_REMINDER,
    Kind.PAYMENT_SHORT,
    Kind.PAYMENT_RECEIPT,
    Kind.PAYMENT_REFUNDED,
    Kind.ACCESS_CODE,
    Kind.ACCESS_LINK,
    Kind.CORRECTION_RECEIPT,
    Kind.CORRECTION_ANSWER,
    Kind.ADVERSE_NOTICE,
    Kind.REVIEW_ANSWER,
}
# Messages that a subject has asked for, about their own data, or that the law owes
# them: no block stops them.
OWN_DATA_KINDS = frozenset(
    {
        Kind.ACCESS_CODE,
        Kind.MY_DATA,
        Kind.CORRECTION_RECEIPT,
        Kind.CORRECTION_ANSWER,
        Kind.ADVERSE_NOTICE,
        Kind.REVIEW_ANSWER,
    }
)
# Messages that a visitor of the recipient's link has asked for.
CODE_KINDS = (Kind.ACCESS_CODE, Kind.CONSENT_CODE)
# Messages that a workspace can cause before it is live, to people who never agreed.
NEWCOMER_KINDS = frozenset({Kind.INVITATION, Kind.SANDBOX_ADDRESS})
# Messages to people who may not know the workspace, and who can block it.
BLOCKABLE_KINDS = (THIRD_PARTY_KINDS - OWN_DATA_KINDS) | NEWCOMER_KINDS
# Messages that each member chooses; `workspaces.member_messages` finds who gets them.
CHOSEN_KINDS = frozenset(
    {
        Kind.LOW_BALANCE,
        Kind.MONITORING_PAUSED,
        Kind.WEBHOOK_FAILING,
        Kind.WEBHOOK_DISABLED,
        Kind.MEMBER_NEWS,
        Kind.MEMBER_DIGEST,
    }
)


class Channel(models.TextChoices):
    EMAIL = "EMAIL", "E-mail"
    SMS = "SMS", "SMS"


class Language(models.TextChoices):
    ENGLISH = "en"
    KISWAHILI = "sw"


# The value for both languages, if the recipient's is unknown.
BILINGUAL = ""


class NotificationStatus(models.TextChoices):
    PENDING = "PENDING"
    SENT = "SENT"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    # The recipient must not get it; `error` says why.
    WITHHELD = "WITHHELD"


class NotificationError(models.TextChoices):
    """Why the last attempt failed; blank if it did not."""

    REFUSED = "REFUSED", "The address or number was refused."
    NOT_TAKEN = "NOT_TAKEN", "The mail server or gateway would not take it now."
    UNREACHABLE = "UNREACHABLE", "The mail server or gateway could not be reached."
    LATE = "LATE", "The code would not have worked any more."
    NOT_WRITTEN = "NOT_WRITTEN", "The message could not be written."
    INTERRUPTED = "INTERRUPTED", "Every attempt ended before its outcome was known."
    BLOCKED = "BLOCKED", "The recipient has blocked messages of this workspace."
    SANDBOX = "SANDBOX", "The sandbox sends to members and confirmed addresses only."
    RECIPIENT_LIMIT = "RECIPIENT_LIMIT", "The recipient got as many as a day allows."
    WORKSPACE_LIMIT = "WORKSPACE_LIMIT", "The workspace sent as many as a day allows."
    OPERATOR_LIMIT = (
        "OPERATOR_LIMIT",
        "Workspaces that are not live sent as many as a day allows.",
    )


S = NotificationStatus


class Notification(DatedRow):
    """One message to one person. The table is the queue.

    The row is due when `next_attempt_at` has passed. A sender claims it: it moves that
    time to the end of its lease (`leased_until`) and counts `fence`. The sender writes
    the outcome only if the fence is still the same, so a late one overwrites nothing.
    """

    workspace = models.ForeignKey(
        "workspaces.Workspace",
        models.PROTECT,
        null=True,
        related_name="notifications",
    )
    kind = models.CharField(max_length=18, choices=Kind)
    channel = models.CharField(max_length=5, choices=Channel)
    # Such as a consent and its link. A cause has one message for each channel.
    cause = models.CharField(max_length=150)
    # The report that the message is about, if it is about one.
    report_id = models.UUIDField(null=True, editable=False)
    # An e-mail address, or a number in E.164; erased with `context` after 30 days.
    recipient = EncryptedJSONField(null=True)
    # The values for the templates.
    context = EncryptedJSONField(null=True)
    language = models.CharField(max_length=2, choices=Language)
    sandbox = models.BooleanField()
    status = models.CharField(
        max_length=9, choices=NotificationStatus, db_default=S.PENDING
    )
    # 1, and one more each time that staff send it again.
    rounds = models.PositiveSmallIntegerField(db_default=1)
    # Attempts of the present round, the current one included.
    attempts = models.PositiveSmallIntegerField(db_default=0)
    # Attempts of this round that may have sent it: their sender died before it recorded
    # an outcome, or the gateway did not say. A second doubt ends an SMS.
    doubts = models.SmallIntegerField(db_default=0)
    # Counts all claims.
    fence = models.PositiveIntegerField(db_default=0)
    next_attempt_at = models.DateTimeField(null=True, editable=False)
    leased_until = models.DateTimeField(null=True, editable=False)
    error = models.CharField(max_length=15, choices=NotificationError, db_default="")
    # When the limits of a day counted it.
    counted_at = models.DateTimeField(null=True, editable=False)
    # The gateway's id of the message.
    provider_reference = models.CharField(max_length=100, db_default="")
    sent_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cause", "channel"], name="one_notification_a_cause"
            ),
            models.CheckConstraint(
                name="notifications_wait_until_they_end",
                condition=Q(status=S.PENDING) ^ Q(next_attempt_at=None),
            ),
            models.CheckConstraint(
                name="ended_notifications_are_not_leased",
                condition=Q(leased_until=None) | Q(next_attempt_at__isnull=False),
            ),
            models.CheckConstraint(
                name="waiting_notifications_can_be_written",
                condition=Q(recipient__isnull=False, context__isnull=False)
                | Q(next_attempt_at=None),
            ),
            models.CheckConstraint(
                name="sent_at_iff_sent",
                condition=Q(status=S.SENT) ^ Q(sent_at=None),
            ),
        ]
        indexes = [
            # The claim, longest due first.
            models.Index(
                fields=["next_attempt_at"],
                condition=Q(next_attempt_at__isnull=False),
                name="notifications_due",
            ),
            # The claims that come before it: codes, and other messages of production.
            models.Index(
                fields=["sandbox", "next_attempt_at"],
                condition=Q(kind__in=CODE_KINDS, next_attempt_at__isnull=False),
                name="notifications_codes_due",
            ),
            models.Index(
                fields=["next_attempt_at"],
                condition=Q(sandbox=False, next_attempt_at__isnull=False),
                name="notifications_live_due",
            ),
            # The list of failed messages in the admin.
            models.Index(
                fields=["id"],
                condition=Q(status=S.FAILED),
                name="notifications_failed",
            ),
            # The mailbox of a workspace's sandbox, newest first.
            models.Index(
                fields=["workspace", "-id"],
                condition=Q(sandbox=True),
                name="notifications_mailbox",
            ),
            # The messages about a report
            models.Index(
                fields=["report_id"],
                condition=Q(report_id__isnull=False),
                name="notifications_of_a_report",
            ),
            # The rows that the purge erases.
            models.Index(
                fields=["created_at"],
                condition=Q(recipient__isnull=False),
                name="notifications_with_recipient",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


class Block(DatedRow):
    """A recipient's wish that a workspace does not write to an address again.

    Only a keyed hash of the address is kept. A block ends when its recipient lifts it.
    """

    class Reason(models.TextChoices):
        UNWANTED = "UNWANTED", "Does not want messages of this workspace"
        UNKNOWN = "UNKNOWN", "Does not know this workspace"

    # Found by the index of the constraint.
    workspace = models.ForeignKey(
        "workspaces.Workspace", models.PROTECT, related_name="blocks", db_index=False
    )
    channel = models.CharField(max_length=5, choices=Channel)
    address_hash = KeyedHashField()
    reason = models.CharField(max_length=8, choices=Reason)
    # The message whose link the recipient opened; null from a hosted page.
    notification = models.ForeignKey(
        Notification, models.PROTECT, null=True, related_name="blocks"
    )
    lifted_at = models.DateTimeField(null=True, editable=False)
    # When staff have looked into a workspace that a recipient does not know.
    reviewed_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "address_hash"],
                condition=Q(lifted_at=None),
                name="one_block_an_address",
            ),
        ]
        indexes = [
            # The list of blocks to review in the admin.
            models.Index(
                fields=["id"],
                condition=Q(reason="UNKNOWN", lifted_at=None, reviewed_at=None),
                name="blocks_to_review",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.reason} {self.id}"


class RefusedAddress(Row):
    """An e-mail address of a member that the mail server has refused for good.

    Only a keyed hash of it is kept, for 30 days, or until the member tries again.
    """

    address_hash = KeyedHashField()
    refused_at = models.DateTimeField(default=now)

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["address_hash"], name="one_refusal_an_address"
            )
        ]

    def __str__(self) -> str:
        return f"refused on {self.refused_at:%Y-%m-%d}"


class SandboxAddress(Row):
    """An address that gets the sandbox messages of a workspace.

    A member confirms it by a code that the service sends to it.
    """

    # Found by the index of the constraint.
    workspace = models.ForeignKey(
        "workspaces.Workspace",
        models.PROTECT,
        related_name="sandbox_addresses",
        db_index=False,
    )
    channel = models.CharField(max_length=5, choices=Channel)
    # An e-mail address, or a number in E.164.
    address = EncryptedJSONField()
    address_hash = KeyedHashField()
    # A keyed hash; null once the address is confirmed.
    code_hash = KeyedHashField(null=True)
    wrong_codes = models.PositiveSmallIntegerField(db_default=0)
    confirmed_at = models.DateTimeField(null=True, editable=False)
    # When the code was sent.
    created_at = models.DateTimeField(default=now, editable=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "address_hash"], name="one_sandbox_address"
            ),
            models.CheckConstraint(
                name="sandbox_addresses_wait_for_a_code_or_are_confirmed",
                condition=Q(code_hash=None) ^ Q(confirmed_at=None),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.channel} {self.id}"


class DailyCount(models.Model):
    """The messages to a recipient or by a workspace, or prompts to a phone, in a day.

    Days are those of UTC.
    """

    pk = models.CompositePrimaryKey("subject", "day")
    # An address: "requests:production:<keyed hash>" (likewise "receipts", "codes",
    # "access" and "prompts"). A workspace: "workspace:<id>", "codes:workspace:<id>".
    # Both: "requests:production:<id of the workspace>:<half of the keyed hash>", or
    # "newcomers:<id of the workspace>:<half of the keyed hash>".
    # All newcomers: "newcomers", or "newcomers:<keyed hash>" for one address.
    # Mails about an account: "ACCOUNT_RESET:<hour>:<keyed hash>".
    subject = models.CharField(max_length=100)
    day = models.DateField()
    count = models.PositiveIntegerField()

    def __str__(self) -> str:
        return f"{self.subject} {self.count}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of an attempt: sent if it has no error. Permanent errors end it."""

    error: NotificationError | None = None
    permanent: bool = False
    # The recipient must not get the message.
    withheld: bool = False
    # The mail server or gateway was unreachable, so it has not seen the message.
    is_away: bool = False
    # The gateway may have sent the message.
    in_doubt: bool = False
    # The gateway's id of the message.
    reference: str = ""
