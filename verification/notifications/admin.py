from django.contrib import admin

from verification.backoffice.model_admin import ReadOnlyAdmin, choice_filter
from verification.notifications.models import Block, Channel, Notification
from verification.notifications.outbox import NotResendable, send_again
from verification.values.clock import now


@admin.register(Notification)
class NotificationAdmin(ReadOnlyAdmin):
    list_display = ["kind", "channel", "status", "sandbox", "workspace", "created_at"]
    list_filter = ["status", "kind", "channel", "sandbox"]
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace")
    search_exact = ("cause", "provider_reference")
    actions = ["send_again"]
    confirm = {"send_again": "Who has it already gets it a second time."}
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
            send_again,
            "it is sent again.",
            audited="sent-again",
            refusals=NotResendable,
        )


def to_review(blocks):
    """Return unreviewed blocks by recipients who do not know the workspace."""
    return blocks.filter(reason=Block.Reason.UNKNOWN, lifted_at=None, reviewed_at=None)


ReviewFilter = choice_filter("review", "review", {"open": ("to review", to_review)})


@admin.register(Block)
class BlockAdmin(ReadOnlyAdmin):
    list_display = ["workspace", "reason", "channel", "is_active", "created_at"]
    list_filter = [ReviewFilter, "reason", ("lifted_at", admin.EmptyFieldListFilter)]
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
