from django.contrib import admin, messages
from django.db import transaction
from django.utils.timezone import now

from verification.backoffice.model_admin import ReadOnlyAdmin
from verification.notifications.models import Block, Channel, Notification
from verification.notifications.outbox import NotResendable, send_again


@admin.register(Notification)
class NotificationAdmin(ReadOnlyAdmin):
    list_display = ["kind", "channel", "status", "sandbox", "workspace", "created_at"]
    list_filter = ["status", "kind", "channel", "sandbox"]
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace")
    search_exact = ("cause", "provider_reference")
    actions = ["send_again"]  # type: ignore[assignment]
    sure = {"send_again": "Who has it already gets it a second time."}
    # What it says holds a link and is shown to nobody.
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
            return "kept no longer"
        return mask_recipient(notification.recipient, notification.channel)

    def has_send_again_permission(self, request):
        return request.user.has_perm("notifications.change_notification")

    @admin.action(description="Send again", permissions=["send_again"])
    def send_again(self, request, notifications):
        for notification in notifications:
            try:
                with transaction.atomic():
                    send_again(notification)
                    told = "sent again"
                    self.log_change(request, notification, told, verb="sent-again")
            except NotResendable:
                told = f"{notification} waits already, was cancelled or is too old."
                self.message_user(request, told, messages.ERROR)
                continue
            self.message_user(
                request, f"{notification} is sent again.", messages.SUCCESS
            )


def to_review(blocks):
    """Those of recipients who do not know the workspace, which nobody looked into."""
    return blocks.filter(reason=Block.Reason.UNKNOWN, lifted_at=None, reviewed_at=None)


class ReviewFilter(admin.SimpleListFilter):
    title = "review"
    parameter_name = "review"

    def lookups(self, request, model_admin):
        return [("open", "to review")]

    def queryset(self, request, blocks):
        return to_review(blocks) if self.value() == "open" else blocks


@admin.register(Block)
class BlockAdmin(ReadOnlyAdmin):
    list_display = ["workspace", "reason", "channel", "is_active", "created_at"]
    list_filter = [ReviewFilter, "reason", ("lifted_at", admin.EmptyFieldListFilter)]
    list_select_related = ["workspace"]
    search_ids = ("id", "workspace")
    actions = ["mark_reviewed"]  # type: ignore[assignment]
    sure = {"mark_reviewed": "They leave the list of blocks that a person must read."}
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

    def has_mark_reviewed_permission(self, request):
        return request.user.has_perm("notifications.change_block")

    @admin.action(description="Mark as reviewed", permissions=["mark_reviewed"])
    def mark_reviewed(self, request, blocks):
        for block in to_review(blocks):
            with transaction.atomic():
                Block.objects.filter(pk=block.pk).update(reviewed_at=now())
                self.log_change(request, block, "reviewed", verb="reviewed")
            self.message_user(request, f"{block} is reviewed.", messages.SUCCESS)


def mask_recipient(recipient, channel):
    """`w…@acacia.test`, `+2547…78`"""
    if channel == Channel.EMAIL:
        name, _, domain = recipient.rpartition("@")
        return f"{name[:1]}…@{domain}"
    return f"{recipient[:5]}…{recipient[-2:]}"
