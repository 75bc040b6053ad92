from django.contrib import admin

from verification.backoffice.office import ReadOnlyAdmin, link
from verification.payments.models import Checkout, PaymentEvent, Trouble

# Payments, checkouts and refunds are in ordering: their actions are verbs of it.


@admin.register(PaymentEvent)
class PaymentEventAdmin(ReadOnlyAdmin):
    list_display = ["id", "provider", "type", "checkout_page", "received_at"]
    search_ids = ("id", "checkout_id")
    search_exact = ("event_id",)
    fields = [
        "id",
        "provider",
        "event_id",
        "type",
        "checkout_page",
        "body_hash",
        "received_at",
    ]
    personal_fields = ("body_opened",)

    def get_queryset(self, request):
        return super().get_queryset(request).defer("body")

    @admin.display(description="Checkout")
    def checkout_page(self, event):
        # By hand: the checkout itself is not needed.
        if event.checkout_id is None:
            return "-"
        return link(Checkout(pk=event.checkout_id), str(event.checkout_id))

    @admin.display(description="SHA-256 of the body")
    def body_hash(self, event):
        return bytes(event.body_sha256).hex()

    @admin.display(description="Body")
    def body_opened(self, event):
        return event.body


@admin.register(Trouble)
class TroubleAdmin(ReadOnlyAdmin):
    list_display = ["created_at", "kind", "message", "times", "told_at"]
    list_filter = ["kind", ("told_at", admin.EmptyFieldListFilter)]
    search_ids = ("id", "checkout_id")
    fields = [
        "id",
        "kind",
        "message",
        "times",
        "checkout_page",
        "created_at",
        "told_at",
    ]

    @admin.display(description="Checkout")
    def checkout_page(self, trouble):
        return link(trouble.checkout) if trouble.checkout else "-"
