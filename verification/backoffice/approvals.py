"""Decisions that a second person makes, and the pages on which staff make them.

This is the one place for refunds and staff ledger entries above a limit, go-live
applications and name changes, removals of a colleague's second factor, and promotions.

- A person requests. Nobody decides on what the service requests: it is done at once.
- Another person decides, see `is_second_person`. A requester may reject their own
  refund or ledger entry, which moves no money.
- A verb locks the request, and refuses one that has a decision already.
- The audit trail records the request and the decision with actor and reason, each in
  the transaction of its verb: `refund.approved`, `name-change.asked`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from typing import Any, ClassVar, NamedTuple, Protocol

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.timezone import now

from verification.backoffice.dialogs import redirect_back
from verification.backoffice.model_admin import ReadOnlyAdmin, confirmation_page


class DecisionRefused(Exception):
    """A request or decision is refused and changes nothing; the text says why."""


class StaffActor(NamedTuple):
    """The user who requests or decides. The id stays when the name changes."""

    user: int | None
    name: str


SERVICE = StaffActor(None, "service")


def staff_actor(request: HttpRequest) -> StaffActor:
    return StaffActor(request.user.pk, f"staff {request.user.get_username()}"[:100])


def is_second_person(user: int | None, requesters: Collection[int | None]) -> bool:
    """Return whether a user may decide on what these users requested.

    Requesters may not, nor may another account with the e-mail address of one. The
    service (None) is no person.
    """
    if user is None or user in requesters:
        return False
    email = User.objects.filter(pk=user).values_list("email", flat=True).first()
    people = [one for one in requesters if one is not None]
    linked = User.objects.filter(pk__in=people, email__iexact=email)
    return not (email and linked.exists())


class ApprovalRequest(Protocol):
    """A locked row that one member of staff requested and another one approves."""

    status: str
    requested_by_user: Any
    decided_by: str
    decided_by_user: Any
    decided_at: datetime | None


def record_approval(
    request: ApprovalRequest, by: StaffActor, refusal: type[DecisionRefused]
) -> None:
    """Set who approves a request; the caller sets its status and saves it.

    Raises `refusal` if this is no second person, or if the request has a decision.
    """
    if not is_second_person(by.user, [request.requested_by_user]):
        raise refusal("Another person than who asked for it must approve it.")
    record_rejection(request, by, refusal)


def record_rejection(
    request: ApprovalRequest, by: StaffActor, refusal: type[DecisionRefused]
) -> None:
    """Set who rejects a request, like `record_approval`; the requester may, too."""
    if request.status != "REQUESTED":
        raise refusal(f"It is {request.status} already.")
    request.decided_by, request.decided_by_user = by.name, by.user
    request.decided_at = now()


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
