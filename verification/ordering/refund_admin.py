"""What staff see of refunds; a second person approves those above the limit."""

from __future__ import annotations

from django.contrib import admin

from verification.backoffice.deciding import DecidingAdmin
from verification.ordering.refunding import NotRefundable, approve, reject
from verification.payments.models import Refund


@admin.register(Refund)
class RefundAdmin(DecidingAdmin):
    list_display = ["id", "checkout", "amount", "status", "requested_by", "created_at"]
    list_filter = ["status", "cause", "checkout__environment"]
    list_select_related = ["checkout"]
    search_ids = ("id", "checkout_id", "checkout__report_id")
    search_exact = ("provider_refund",)
    verbs = {"approve": approve, "reject": reject}
    refusal = NotRefundable
    told = {
        "approve": "This money is given back. It cannot be undone.",
        "reject": "This money is not given back. Another refund can be asked for.",
    }
    asked = [
        "money",
        "workspace",
        "environment",
        "reason",
        "requested_by",
        "provider",
    ]
    fields = [
        "id",
        "checkout",
        "amount",
        "cause",
        "reason",
        "status",
        "requested_by",
        "needs_second",
        "decided_by",
        "decided_at",
        "provider_refund",
        "message",
        "tries",
        "next_try_at",
        "created_at",
        "ended_at",
    ]
