"""Pages of long lists.

Where a member is: one of their workspaces, in one environment.

Both are in the address of every page. A page is opened through `opened`, which finds
them for this member alone, asks for the role's permission, and refuses what a
suspended workspace may not do; so no view can forget to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Model
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext_lazy as _

from verification.accounts.sessions import has_second_factor, second_factor_url
from verification.backoffice import audit
from verification.golive.applications import ActingUser
from verification.web.pages import View, private_page
from workspaces.members import ALLOWED, NotAllowed, Permission, has_permission
from workspaces.models import Account, Client, Environment, Member, Workspace

PAGE_SIZE = 20
LAST_PAGE = 10**6


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list, the first of which is 0."""

    rows: list[Any]
    total: int
    number: int

    @property
    def first(self) -> int:
        return self.number * PAGE_SIZE + 1

    @property
    def last(self) -> int:
        return self.number * PAGE_SIZE + len(self.rows)

    @property
    def before(self) -> int | None:
        return self.number - 1 if self.number else None

    @property
    def after(self) -> int | None:
        return self.number + 1 if self.last < self.total and self.rows else None


def page_number(request: HttpRequest) -> int:
    """Whatever stands in the address, a page."""
    text = request.GET.get("page", "")
    is_number = text.isascii() and text.isdigit() and len(text) < 8
    return min(int(text), LAST_PAGE) if is_number else 0


@private_page
def too_large(request: HttpRequest) -> HttpResponse:
    return render(request, "console/too_large.html", status=413)


# Each page of the navigation, and the first words of the names of those below it.
NAVIGATION = [
    ("dashboard", _("Overview")),
    ("reports", _("Reports")),
    ("keys", _("Keys")),
    ("money", _("Balance")),
    ("webhooks", _("Webhooks")),
    ("monitoring", _("Monitoring")),
    ("sandbox", _("Test subjects")),
    ("mailbox", _("Mailbox")),
    ("members", _("Members")),
    ("golive", _("Go live")),
    ("settings", _("Settings")),
]
# What concerns a workspace as a whole, in whichever environment it is opened.
WORKSPACE_SECTIONS = {"keys", "money", "members", "golive", "settings"}


@dataclass(frozen=True)
class Place:
    request: HttpRequest
    member: Member
    account: Account

    @property
    def workspace(self) -> Workspace:
        return self.member.workspace

    @property
    def environment(self) -> str:
        return self.account.environment

    @property
    def is_sandbox(self) -> bool:
        return self.environment == Environment.SANDBOX

    @property
    def where(self) -> tuple[UUID, str]:
        return self.workspace.pk, self.environment

    @property
    def client(self) -> Client:
        return Client(self.workspace, self.account, f"member {self.member.pk}")

    @property
    def api_url(self) -> str:
        """Where keys of this environment are taken: the other's host refuses them."""
        host = settings.SANDBOX_HOST if self.is_sandbox else settings.PRODUCTION_HOST
        scheme = urlsplit(settings.BASE_URL).scheme
        return f"{scheme}://{host}" if host else settings.BASE_URL

    @property
    def by(self) -> ActingUser:
        user = self.request.user
        assert isinstance(user, User)  # noqa: S101
        return ActingUser(user, audit.actor_of(self.request))

    @property
    def section(self) -> str:
        match = self.request.resolver_match
        return (match.url_name or "").partition("-")[0] if match else ""

    @property
    def needs_second_factor(self) -> bool:
        """Whether this member has to prove a second factor before the page opens.

        Members of a live workspace do, where people's data, money, keys and the team
        are: in production, and on pages of the whole workspace.
        """
        return (
            self.workspace.go_live == Workspace.GoLive.APPROVED
            and not (self.is_sandbox and self.section not in WORKSPACE_SECTIONS)
            and not has_second_factor(self.request)
        )

    def _is_in_navigation(self, page: str) -> bool:
        """Whether the navigation leads there from here."""
        if page == "mailbox" and not has_permission(
            self.member, Permission.MANAGE_MAILBOX
        ):
            return False
        return self.is_sandbox or page not in {"sandbox", "mailbox"}

    def record(self, action: str, obj: Model, *fields: str, reason: str = "") -> None:
        """Into the audit trail, in the transaction of what was done."""
        who = audit.actor_of(self.request)
        more: dict[str, Any] = {"fields": fields, "reason": reason}
        audit.record(action, who, obj, workspace_id=self.workspace.pk, **more)

    def url(self, name: str, environment: str = "", **arguments: Any) -> str:
        place = {
            "workspace": self.workspace.pk,
            "environment": environment or self.environment,
        }
        return reverse(f"console:{name}", kwargs={**place, **arguments})

    def to(self, name: str, **arguments: Any) -> HttpResponse:
        """What follows is a GET whatever this was."""
        response = HttpResponseRedirect(self.url(name, **arguments))
        response.status_code = 303
        return response

    def render(
        self, name: str, shown: Mapping[str, Any] | None = None, status: int = 200
    ) -> HttpResponse:
        context = {
            "place": self,
            "section": self.section,
            "navigation": [n for n in NAVIGATION if self._is_in_navigation(n[0])],
            "can": {p.value: True for p in ALLOWED[self.member.role]},
            "environments": Environment.values,
            **(shown or {}),
        }
        return render(self.request, f"console/{name}.html", context, status=status)


PlaceView = Callable[..., Any]


def member_required(
    read: Permission = Permission.SEE,
    write: Permission | None = None,
    *,
    while_suspended: bool = False,
) -> Callable[[PlaceView], View]:
    """`read` is needed to see the page, `write` to send its form."""

    def decorate(view: PlaceView) -> View:
        @private_page
        @login_required
        @wraps(view)
        def shown(
            request: HttpRequest, workspace: UUID, environment: str, **arguments: Any
        ) -> HttpResponse:
            place = _find_place(request, workspace, environment)
            sends = request.method == "POST"
            if place.needs_second_factor:
                after = place.url("dashboard") if sends else request.get_full_path()
                shown = {"after": after, "proof": second_factor_url(request.user)}
                return place.render("second_factor", shown, status=403)
            needed = write if sends and write else read
            if needed not in ALLOWED[place.member.role]:
                return place.render("not_allowed", status=403)
            if sends and place.workspace.is_suspended and not while_suspended:
                return place.render("suspended", status=403)
            try:
                answer: HttpResponse = view(place, **arguments)
                return answer
            except NotAllowed:
                return place.render("not_allowed", status=403)
            except ObjectDoesNotExist:
                raise Http404 from None

        return shown

    return decorate


def _find_place(request: HttpRequest, workspace: UUID, environment: str) -> Place:
    """A stranger's workspace is not found, like one that does not exist."""
    try:
        member = Member.objects.select_related("workspace").get(
            user=request.user.pk, workspace=workspace
        )
        account = Account.objects.get(workspace=workspace, environment=environment)
    except ObjectDoesNotExist:
        raise Http404 from None
    account.workspace = member.workspace
    return Place(request, member, account)
