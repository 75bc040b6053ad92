"""Admin pages on which staff approve and reject; `approvals` has the rules.

A file of its own: jobs know the rules, and do without the admin's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from verification.backoffice.approvals import DecisionRefused, staff_actor
from verification.backoffice.dialogs import redirect_back
from verification.backoffice.model_admin import ReadOnlyAdmin, confirmation_page


def run_dialog(
    page: admin.ModelAdmin, request: HttpRequest, row: Model, verb: Callable[[], str]
) -> HttpResponse:
    """Run the verb of a dialog in a transaction and return to the row's page.

    The page shows the text that the verb returns, or why it refuses.
    """
    try:
        with transaction.atomic():
            done = verb()
    except DecisionRefused as e:
        page.message_user(request, str(e), messages.ERROR)
    else:
        page.message_user(request, done, messages.SUCCESS)
    return redirect_back(request, row)


class ApprovalAdmin(ReadOnlyAdmin):
    """A list of requests that staff approve or reject, after a confirmation page.

    `verbs` take the id of a row and `by`, and raise DecisionRefused. `consequences` are
    the texts of the confirmation pages, `columns` the attributes of a row they show.
    """

    actions: Any = ["approve", "reject"]
    verbs: ClassVar[dict[str, Callable[..., Any]]]
    consequences: ClassVar[dict[str, str]]
    columns: ClassVar[Sequence[str]]

    def has_decide_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(
            f"{self.opts.app_label}.change_{self.opts.model_name}"
        )

    @admin.action(description="Approve", permissions=["decide"])
    def approve(
        self, request: HttpRequest, rows: QuerySet[Any]
    ) -> TemplateResponse | None:
        return self._decide(request, rows, "approve", "approved")

    @admin.action(description="Reject", permissions=["decide"])
    def reject(
        self, request: HttpRequest, rows: QuerySet[Any]
    ) -> TemplateResponse | None:
        return self._decide(request, rows, "reject", "rejected")

    def _decide(
        self, request: HttpRequest, rows: QuerySet[Any], action: str, done: str
    ) -> TemplateResponse | None:
        if "confirmed" not in request.POST:
            return self._confirmation_page(request, rows, action)
        for row in rows:
            try:
                with transaction.atomic():
                    self.verbs[action](row.pk, by=staff_actor(request))
                    self.log_change(request, row, done, verb=done)
            except DecisionRefused as e:
                self.message_user(request, f"{row.pk}: {e}", messages.ERROR)
            else:
                self.message_user(request, f"{row.pk}: {done}.", messages.SUCCESS)
        return None

    def _confirmation_page(
        self, request: HttpRequest, rows: QuerySet[Any], action: str
    ) -> TemplateResponse:
        names = self.columns
        return confirmation_page(
            self,
            request,
            "admin/decide.html",
            action=action,
            title=f"{action.capitalize()} {self.opts.verbose_name_plural}",
            headings=[name.replace("_", " ").capitalize() for name in names],
            rows=[(row.pk, [getattr(row, name) for name in names]) for row in rows],
            told=self.consequences[action],
        )
