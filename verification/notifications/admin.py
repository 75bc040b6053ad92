from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.db import transaction

from verification.backoffice.approvals import staff_actor
from verification.backoffice.model_admin import (
    ReadOnlyAdmin,
    choice_filter,
    empty_filter,
)
from verification.consents.links import consent_links, opens_data
from verification.consents.models import Consent
from verification.decisions import notices
from verification.links import digest
from verification.notifications import outbox
from verification.notifications.models import Block, Channel, Kind, Notification
from verification.notifications.outbox import NotResendable
from verification.payments.links import payment_links
from verification.references.requests import ReferenceClosed, reference_links
from verification.reports.hosted_links import (
    HostedLinks,
    NotRenewable,
    ResendTooSoon,
    is_over,
)
from verification.values.clock import now
from workspaces.members import open_invitations

# The links in these messages, which say nothing without them
LINKS: dict[str, HostedLinks[Any]] = {
    Kind.CONSENT_REQUEST: consent_links,
    Kind.CONSENT_REMINDER: consent_links,
    Kind.ACCESS_LINK: consent_links,
    Kind.REVIEW_ANSWER: consent_links,
    Kind.PAYMENT_REQUEST: payment_links,
    Kind.PAYMENT_REMINDER: payment_links,
    Kind.PAYMENT_SHORT: payment_links,
    Kind.REFERENCE_REQUEST: reference_links,
    Kind.REFERENCE_REMINDER: reference_links,
}


@admin.register(Notification)
class NotificationAdmin(ReadOnlyAdmin):
    list_display = ["kind", "channel", "status", "sandbox", "workspace", "created_at"]
    list_filter = ["status", "kind", "channel", "sandbox"]
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace")
    search_exact = ("cause", "provider_reference")
    actions = ["send_again"]
    confirm = {"send_again": "Anyone who has it already gets it a second time."}
    # The context holds a link, so no page shows it.
    fields = [
        "id",
        "kind",
        "channel",
        "language",
        "sandbox",
        "workspace",
        "cause",
        "masked_recipient",
        "status",
        "error",
        "attempts",
        "rounds",
        "next_attempt_at",
        "provider_reference",
        "created_at",
        "sent_at",
    ]

    def get_queryset(self, request):
        return super().get_queryset(request).defer("context")

    @admin.display(description="Recipient")
    def masked_recipient(self, notification):
        if notification.recipient is None:
            return "erased"
        return mask_recipient(notification.recipient, notification.channel)

    @admin.action(description="Send again", permissions=["act"])
    def send_again(self, request, notifications):
        self.run_on_each(
            request,
            notifications,
            lambda row: _send_again(row, staff_actor(request).name),
            "it is sent again.",
            audited="sent-again",
            refusals=(
                NotResendable,
                NotRenewable,
                ReferenceClosed,
                ResendTooSoon,
                notices.NoticeRefused,
            ),
        )


@transaction.atomic
def _send_again(message, by):
    if message.kind == Kind.ADVERSE_NOTICE:
        notices.send_message_again(message, by)
        return
    context = message.context or {}
    if message.kind in LINKS and message.report_id and context:
        _require_open_link(message)
    is_invitation = message.kind in (Kind.INVITATION, Kind.STAFF_INVITATION)
    if is_invitation and context and not _is_open_invitation(message):
        raise NotResendable("Its link no longer works: invite them again instead.")
    outbox.send_again(message)


def _is_open_invitation(message):
    token = message.context["url"].strip("/").split("/")[-1]
    if message.kind == Kind.INVITATION:
        return open_invitations().filter(token_digest=digest(token)).exists()
    invited = User.objects.filter(
        staff_invitation__token_digest=digest(token),
        staff_invitation__expires_at__gt=now(),
        is_active=True,
    )
    return any(not user.has_usable_password() for user in invited)


def _require_open_link(message):
    """Raise an error that says why the link in the message leads nowhere any more."""
    links = LINKS[message.kind]
    digests = [digest(part) for part in message.context["link"].split("/")]
    for found in links.model.objects.filter(report=message.report_id):
        report, row = links.lock(found.pk)
        if row.token_digest in digests:
            at = now()
            if message.kind in (Kind.ACCESS_LINK, Kind.REVIEW_ANSWER):
                is_open = opens_data(row, at)
            else:
                links.require_renewable(report, row, at)
                is_open = not is_over(row, at)
            if not is_open:
                raise NotResendable("Its link has expired: send a new link instead.")
            if isinstance(row, Consent) and row.is_locked_for_good:
                raise NotResendable("Its link is locked: send a new link instead.")
            return
    raise NotResendable("A newer link has taken the place of its link.")


def to_review(blocks):
    """Return unreviewed blocks by recipients who do not know the workspace."""
    return blocks.filter(reason=Block.Reason.UNKNOWN, lifted_at=None, reviewed_at=None)


ReviewFilter = choice_filter("review", "review", {"open": ("to review", to_review)})


@admin.register(Block)
class BlockAdmin(ReadOnlyAdmin):
    list_display = ["workspace", "reason", "channel", "is_active", "created_at"]
    list_filter = [
        ReviewFilter,
        "reason",
        empty_filter("lifted_at", "in force", "lifted"),
    ]
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace")
    actions = ["mark_reviewed"]
    confirm = {
        "mark_reviewed": "They leave the list of blocks that a person must read."
    }
    fields = [
        "id",
        "workspace",
        "reason",
        "channel",
        "notification",
        "created_at",
        "lifted_at",
        "reviewed_at",
    ]

    @admin.display(boolean=True, description="Active")
    def is_active(self, block):
        return block.lifted_at is None

    @admin.action(description="Mark as reviewed", permissions=["act"])
    def mark_reviewed(self, request, blocks):
        self.run_on_each(
            request,
            to_review(blocks),
            lambda row: Block.objects.filter(pk=row.pk).update(reviewed_at=now()),
            "it is reviewed.",
            audited="reviewed",
        )


def mask_recipient(recipient, channel):
    """`w…@acacia.test`, `+2547…78`"""
    if channel == Channel.EMAIL:
        name, _, domain = recipient.rpartition("@")
        return f"{name[:1]}…@{domain}"
    return f"{recipient[:5]}…{recipient[-2:]}"
