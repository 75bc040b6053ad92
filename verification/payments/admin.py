from django.contrib import admin

from verification.backoffice import ReadOnlyAdmin
from verification.payments.models import Payment


@admin.register(Payment)
class PaymentAdmin(ReadOnlyAdmin):
    list_display = ["id", "report", "status", "amount", "currency", "paid_at"]
    list_filter = ["status"]
    list_select_related = ["report"]
    search_ids = ("id", "report_id")
    fields = [
        "id",
        "report",
        "status",
        "amount",
        "currency",
        "generation",
        "expires_at",
        "paid_at",
    ]
