"""What staff see of refunds; a second person approves those above the limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from verification.backoffice.office import ReadOnlyAdmin, asking_page
from verification.ordering.refunding import NotRefundable, Staff, approve, reject
from verification.payments.models import Refund


def staff_of(request: HttpRequest) -> Staff:
    return Staff(request.user.pk, f"staff {request.user.get_username()}"[:100])


@admin.register(Refund)
class RefundAdmin(ReadOnlyAdmin):
    list_display = ["id", "checkout", "amount", "status", "requested_by", "created_at"]
    list_filter = ["status", "cause"]
    list_select_related = ["checkout"]
    search_ids = ("id", "checkout_id", "checkout__report_id")
    search_exact = ("provider_refund",)
    actions = ["approve", "reject"]  # type: ignore[assignment]
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

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("payments.change_refund")

    @admin.action(description="Approve", permissions=["decide"])
    def approve(
        self, request: HttpRequest, refunds: QuerySet[Refund]
    ) -> TemplateResponse | None:
        told = "This money is given back. It cannot be undone."
        return self._decide(request, refunds, approve, "approve", "approved", told)

    @admin.action(description="Reject", permissions=["decide"])
    def reject(
        self, request: HttpRequest, refunds: QuerySet[Refund]
    ) -> TemplateResponse | None:
        told = "This money is not given back. Another refund can be asked for."
        return self._decide(request, refunds, reject, "reject", "rejected", told)

    def _decide(
        self,
        request: HttpRequest,
        refunds: QuerySet[Refund],
        verb: Callable[..., Any],
        action: str,
        done: str,
        told: str,
    ) -> TemplateResponse | None:
        if "confirmed" not in request.POST:
            return asking_page(
                self,
                request,
                "admin/decide_refunds.html",
                action=action,
                title=f"{action.capitalize()} refunds",
                refunds=refunds.select_related("checkout"),
                told=told,
            )
        for refund in refunds:
            try:
                with transaction.atomic():
                    verb(refund.pk, by=staff_of(request))
                    self.log_change(request, refund, done, verb=done)
            except NotRefundable as e:
                self.message_user(request, f"{refund.pk}: {e}", messages.ERROR)
            else:
                self.message_user(request, f"{refund.pk}: {done}.", messages.SUCCESS)
        return None
