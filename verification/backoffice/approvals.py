"""Pages of what waits for a second person, who approves or rejects it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.template.response import TemplateResponse

from verification.backoffice.model_admin import ReadOnlyAdmin, confirmation_page
from verification.backoffice.roles import staff_actor

Verb = Callable[..., Any]


class ApprovalAdmin(ReadOnlyAdmin):
    """History with two actions, each done after a page that asks.

    `verbs` are called with a row's id and `by`; what they raise when they do nothing
    is `refusal`. `told` says what follows, and `asked` names the columns of the page.
    """

    actions: Any = ["approve", "reject"]
    verbs: ClassVar[dict[str, Verb]]
    refusal: ClassVar[type[Exception]]
    told: ClassVar[dict[str, str]]
    asked: ClassVar[Sequence[str]]

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
            return self._ask(request, rows, action)
        for row in rows:
            try:
                with transaction.atomic():
                    self.verbs[action](row.pk, by=staff_actor(request))
                    self.log_change(request, row, done, verb=done)
            except self.refusal as e:
                self.message_user(request, f"{row.pk}: {e}", messages.ERROR)
            else:
                self.message_user(request, f"{row.pk}: {done}.", messages.SUCCESS)
        return None

    def _ask(
        self, request: HttpRequest, rows: QuerySet[Any], action: str
    ) -> TemplateResponse:
        chosen = list(rows)
        return confirmation_page(
            self,
            request,
            "admin/decide.html",
            action=action,
            title=f"{action.capitalize()} {self.opts.verbose_name_plural}",
            headings=[name.replace("_", " ").capitalize() for name in self.asked],
            rows=[
                (row.pk, [getattr(row, name) for name in self.asked]) for row in chosen
            ],
            told=self.told[action],
        )
