"""Decisions that a second person makes; `model_admin.ApprovalAdmin` is their page.

This is the one place for refunds and staff ledger entries above a limit, go-live
applications and name changes, removals of a colleague's second factor, and promotions.

- A person requests. Nobody decides on what the service requests: it is done at once.
- Another person decides, see `is_second_person`. A requester may reject their own
  refund or ledger entry, which moves no money.
- A verb locks the request, and refuses one that has a decision already.
- The audit trail records the request and the decision with actor and reason, each in
  the transaction of its verb: `refund.approved`, `name-change.requested`.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from django.contrib.auth.models import User
from django.http import HttpRequest

from verification.values.clock import now


class DecisionRefused(Exception):
    """A request or decision is refused and changes nothing; the text says why."""


NOT_SECOND_PERSON = (
    "Another person must approve this: you requested it, or the requester has your "
    "e-mail address."
)


class StaffActor(NamedTuple):
    """The user who requests or decides. The id stays when the name changes."""

    user: int | None
    name: str


SERVICE_STAFF = StaffActor(None, "service")


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
        raise refusal(NOT_SECOND_PERSON)
    record_rejection(request, by, refusal)


def record_rejection(
    request: ApprovalRequest, by: StaffActor, refusal: type[DecisionRefused]
) -> None:
    """Set who rejects a request, like `record_approval`; the requester may, too."""
    if request.status != "REQUESTED":
        raise refusal(f"It is {request.status} already.")
    request.decided_by, request.decided_by_user = by.name, by.user
    request.decided_at = now()
