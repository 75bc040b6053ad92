"""The base of the console's views: the place of a member, permissions, long lists.

The address of each page names a workspace and an environment. `member_required` finds
both for this member only, checks the permission of the member's role, and refuses
forms of a suspended workspace, so that no view can forget a check.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ObjectDoesNotExist
from django.db import transaction
from django.db.models import Model, Q, QuerySet
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseRedirect,
    QueryDict,
)
from django.shortcuts import render
from django.urls import reverse
from django.utils.functional import Promise, cached_property
from django.utils.translation import gettext_lazy as _

from verification.accounts.sessions import has_second_factor, second_factor_url
from verification.api.guides import addresses
from verification.backoffice import audit
from verification.console.navigation import (
    Count,
    Section,
    count_waiting,
    groups_for,
    section_of,
)
from verification.console.order_inputs import Offer
from verification.db.base import ResultPage
from verification.golive.applications import ActingUser
from verification.links import top_up_url
from verification.privacy.disclosures import record_disclosures
from verification.privacy.models import Channel
from verification.reports.models import Report
from verification.web.pages import View, allow_sources, private_page, read_id
from workspaces import rate_limits
from workspaces.members import (
    ALLOWED,
    NotAllowed,
    Permission,
    WorkspaceSuspended,
    has_permission,
    lock_workspace,
)
from workspaces.models import (
    Account,
    ApiKey,
    Client,
    Environment,
    Member,
    Workspace,
)

Text = str | Promise
PAGE_SIZE = 20
# The number of workspaces in the switch; a page lists them all.
SWITCH_SIZE = 8
LAST_PAGE = 10**6
# The rights that members of a suspended workspace keep; they may also leave it.
WHILE_SUSPENDED = {
    Permission.SEE,
    Permission.SEE_ADMINISTRATION,
    Permission.EXPORT_IN_FULL,
}
# Files of ours, and the rules by which the browser fetches pages early
SCRIPTS = ["'self'", "'inline-speculation-rules'"]
# The prefix of members among the actors of timelines
MEMBER = "member "
KEY = "key "


# Refusals of verbs -> why, or what says why of the exception
Refusals = Mapping[type[Exception], Text | Callable[[Any], Text]]


def refusal_text(refusals: Refusals, error: Exception) -> Text:
    why = next(text for kind, text in refusals.items() if isinstance(error, kind))
    return why(error) if callable(why) else why


class Refused(Exception):
    """A verb refuses; the member gets this answer."""

    def __init__(self, answer: HttpResponse) -> None:
        super().__init__()
        self.answer = answer


def page_number(request: HttpRequest) -> int:
    """Return the page of a list that the query names; 0 for a missing or wrong one."""
    text = request.GET.get("page", "")
    is_number = text.isascii() and text.isdigit() and len(text) < 8
    return min(int(text), LAST_PAGE) if is_number else 0


@cache
def _path(name: str, *ids: str) -> str:
    """Return the path of a page, to be formatted with its place and these ids.

    A page leads to dozens of them.
    """
    marks = {one: UUID(int=n) for n, one in enumerate(["workspace", *ids])}
    path = reverse(f"console:{name}", kwargs={**marks, "environment": "sandbox"})
    path = path.replace("sandbox", "{environment}", 1)
    for one, mark in marks.items():
        path = path.replace(str(mark), f"{{{one}}}", 1)
    return path


@dataclass(frozen=True)
class Place:
    """A request of a member, in one workspace and environment."""

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
        return self.client.where

    @property
    def lookups(self) -> dict[str, Any]:
        """Field lookups for the rows of this workspace and environment."""
        return self.client.lookups

    @property
    def client(self) -> Client:
        return Client(self.workspace, self.account, f"{MEMBER}{self.member.pk}")

    @cached_property
    def offer(self) -> Offer:
        return Offer.to(self.client)

    @property
    def api_url(self) -> str:
        """The API's URL for keys of this environment."""
        sandbox, production = addresses()
        return sandbox if self.is_sandbox else production

    @property
    def top_up_url(self) -> str:
        """The page where the member can top up the balance; empty if they cannot.

        Play money needs it only once a test key has limited it.
        """
        is_limited = self.account.ceiling is not None
        can_pay = is_limited if self.is_sandbox else bool(settings.PAYMENT_PROVIDER)
        may_pay = has_permission(self.member, Permission.MANAGE_SETTINGS)
        return top_up_url(self.account.pk) if can_pay and may_pay else ""

    @property
    def by(self) -> ActingUser:
        return ActingUser(self.member.user, audit.actor_of(self.request))

    @cached_property
    def section(self) -> Section | None:
        match = self.request.resolver_match
        return section_of(match.url_name or "") if match else None

    @cached_property
    def groups(self) -> Iterable[tuple[Text, list[Section]]]:
        """The navigation's groups, with the sections that the member is offered."""
        return groups_for(self.client, self.offered)

    @cached_property
    def waiting(self) -> dict[str, Count]:
        """The counts beside the sections of the navigation."""
        names = {section.name for group, these in self.groups for section in these}
        return count_waiting(self.client, names)

    @cached_property
    def workspaces(self) -> list[Workspace]:
        """The first workspaces of the member's user, for the switch."""
        found = Workspace.objects.filter(members__user=self.member.user_id)
        return list(found.only("name").order_by("name", "id")[:SWITCH_SIZE])

    @property
    def posted(self) -> QueryDict | None:
        """The data for a form, or None if the request is no POST."""
        return self.request.POST if self.request.method == "POST" else None

    @property
    def files(self) -> Any:
        """The files for a form, or None if the request is no POST."""
        return self.request.FILES if self.request.method == "POST" else None

    @property
    def paging(self) -> dict[str, Any]:
        """The page that the query names, as arguments for a function that lists."""
        return {"page": page_number(self.request), "size": PAGE_SIZE}

    @property
    def offered(self) -> Set[Permission]:
        """The permissions whose verbs the pages offer the member."""
        allowed = ALLOWED[self.member.role]
        return allowed & WHILE_SUSPENDED if self.workspace.is_suspended else allowed

    @property
    def may_run_reports(self) -> bool:
        """True in the sandbox, and in production once the workspace is live."""
        return self.is_sandbox or self.workspace.is_live

    @property
    def is_protected(self) -> bool:
        """True for pages of production, and pages that both environments share."""
        return not self.is_sandbox or bool(self.section and self.section.of_workspace)

    def require_second_factor(self) -> None:
        """Refuse the request if a live workspace's member has proven no second factor.

        For the sake of people's data, money, keys and the team.
        """
        if self.workspace.is_live and not has_second_factor(self.request):
            is_post = self.posted is not None
            page = self.url("dashboard") if is_post else self.request.get_full_path()
            shown = {"after": page, "proof": second_factor_url(self.request.user)}
            raise Refused(self.render("second_factor", shown, status=403))

    def require_live(self) -> None:
        """Refuse the request before reports may run here."""
        if not self.may_run_reports:
            raise Refused(self.render("reports/not_live", status=403))

    def require_rate(self, limit: int, *subjects: str) -> None:
        """Count the request; refuse it above the limit of a minute."""
        rates = [rate_limits.count(subject, limit) for subject in subjects]
        if any(rate.exceeded for rate in rates):
            answer = render(self.request, "429.html", status=429)
            raise Refused(_with_retry_after(answer))

    def is_valid_upload(self, form: forms.Form, purpose: str, limit: int) -> bool:
        """Validate a form with a file, whose inspection takes time.

        The file counts once, and once more for each second, for user and workspace.
        """
        users = (self.member.user_id, self.workspace.pk)
        subjects = [f"{purpose}:{one}" for one in users]
        self.require_rate(limit, *subjects)
        with rate_limits.count_seconds(*subjects):
            return form.is_valid()

    def get_report(self, report: UUID) -> Report:
        """Return a report of this place. Raises Report.DoesNotExist."""
        joined = Report.objects.select_related("consent", "payment")
        found = joined.get(pk=report, **self.lookups)
        found.workspace = self.workspace
        return found

    def record(self, action: str, obj: Model, *fields: str, reason: str = "") -> None:
        """Record an action in the audit trail, in the transaction of the action."""
        who = audit.actor_of(self.request)
        more: dict[str, Any] = {"fields": fields, "reason": reason}
        audit.record(action, who, obj, workspace_id=self.workspace.pk, **more)

    def disclose(
        self, report_ids: Iterable[UUID], channel: Channel = Channel.CONSOLE
    ) -> None:
        """Record that the member reads findings of these reports."""
        record_disclosures(report_ids, channel, self.client.actor)

    def disclose_risks(self, reports: Iterable[Report]) -> None:
        """Record that a list shows the member the risk of rated reports."""
        self.disclose(row.pk for row in reports if row.risk_score is not None)

    def save(self, form: forms.ModelForm, action: str, page: str) -> HttpResponse:
        """Save a valid form, record it in the audit trail, and redirect to the page."""
        with transaction.atomic():
            # Another member may be saving the first row of this form.
            lock_workspace(self.workspace.pk)
            self.record(action, form.save(), *form.changed_data)
        return self.to(page, success=_("Saved."))

    def url(self, name: str, environment: str = "", **arguments: Any) -> str:
        place = {
            "workspace": self.workspace.pk,
            "environment": environment or self.environment,
        }
        if all(isinstance(one, UUID) for one in arguments.values()):
            return _path(name, *arguments).format(**place, **arguments)
        return reverse(f"console:{name}", kwargs={**place, **arguments})

    def to(
        self,
        name: str,
        *,
        success: Text = "",
        error: Text = "",
        query: str = "",
        **arguments: Any,
    ) -> HttpResponse:
        """Redirect to a page, which shows the message. The browser follows with GET."""
        if success:
            messages.success(self.request, str(success))
        if error:
            messages.error(self.request, str(error))
        url = self.url(name, **arguments)
        response = HttpResponseRedirect(f"{url}?{query}" if query else url)
        response.status_code = 303
        return response

    def to_report(
        self, report: UUID, *, success: Text = "", error: Text = ""
    ) -> HttpResponse:
        """Redirect to the page of a report, which shows the message."""
        return self.to("reports-detail", success=success, error=error, report=report)

    @contextmanager
    def refusing(
        self, refusals: Refusals, page: str, **arguments: Any
    ) -> Iterator[None]:
        """Redirect to the page, which says why, if a verb refuses."""
        try:
            yield
        except tuple(refusals) as e:
            error = refusal_text(refusals, e)
            raise Refused(self.to(page, error=error, **arguments)) from e

    def render(
        self, name: str, shown: Mapping[str, Any] | None = None, status: int = 200
    ) -> HttpResponse:
        context = {
            "place": self,
            "account": self.account,
            "section": self.section.name if self.section else "",
            "can": {p.value: True for p in self.offered},
            **(shown or {}),
        }
        listed = context.get("page")
        if isinstance(listed, ResultPage) and listed.number and not listed.rows:
            # The last rows of the list went, or changed their state.
            query = self.request.GET.copy()
            query.pop("page", None)
            return HttpResponseRedirect(f"{self.request.path}?{query.urlencode()}")
        page = render(self.request, f"console/{name}.html", context, status=status)
        allow_sources(page, script_src=SCRIPTS, connect_src=["'self'"])
        return _with_retry_after(page) if status == 503 else page


def _with_retry_after(response: HttpResponse) -> HttpResponse:
    response["Retry-After"] = str(rate_limits.WINDOW_SECONDS)
    return response


PlaceView = Callable[..., Any]


def member_required(
    read: Permission = Permission.SEE,
    write: Permission | None = None,
    *,
    while_suspended: bool = False,
) -> Callable[[PlaceView], View]:
    """Require the permission `read`, or `write` for a POST (by default the same).

    A suspended workspace may POST only to views with `while_suspended`.
    """

    def decorate(view: PlaceView) -> View:
        @private_page
        @log_in_first
        @wraps(view)
        def shown(
            request: HttpRequest, workspace: UUID, environment: str, **arguments: Any
        ) -> HttpResponse:
            place = _find_place(request, workspace, environment)
            is_post = request.method == "POST"
            needed = write if is_post and write else read
            try:
                if place.is_protected:
                    place.require_second_factor()
                if needed not in ALLOWED[place.member.role]:
                    raise NotAllowed(needed)
                if is_post and place.workspace.is_suspended and not while_suspended:
                    raise WorkspaceSuspended
                answer: HttpResponse = view(place, **arguments)
                return answer
            except Refused as refused:
                return refused.answer
            except NotAllowed:
                return place.render("not_allowed", status=403)
            except WorkspaceSuspended:
                return place.render("suspended", status=403)
            except ObjectDoesNotExist:
                raise Http404 from None

        return shown

    return decorate


def log_in_first(view: View) -> View:
    """Redirect to the log-in, or let htmx reload the page: a part cannot hold a log-in.

    Its form's page follows the log-in of a posted form. A form that htmx posts gets an
    empty answer, so that the page keeps its input.
    """

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **arguments: Any) -> HttpResponse:
        if request.user.is_authenticated:
            return view(request, *args, **arguments)
        is_post = request.method == "POST"
        if "HX-Request" not in request.headers:
            sent_from = urlsplit(request.headers.get("Referer", "") if is_post else "")
            page = urlunsplit(("", "", sent_from.path, sent_from.query, ""))
            return redirect_to_login(page or request.get_full_path())
        if is_post:
            return HttpResponse(status=204)
        return HttpResponse(headers={"HX-Refresh": "true"})

    return answer


def post_required(permission: Permission) -> Callable[[PlaceView], View]:
    """Like `member_required`, for a view that only takes POST.

    A GET leads to the report or the overview: a page that shows a form's errors has the
    form's address, which a browser opens again after a log-in or in another language.
    """

    def decorate(view: PlaceView) -> View:
        @wraps(view)
        def answer(place: Place, **arguments: Any) -> HttpResponse:
            if place.posted is None and "report" in arguments:
                return place.to_report(arguments["report"])
            if place.posted is None:
                return place.to("dashboard")
            answered: HttpResponse = view(place, **arguments)
            return answered

        return member_required(Permission.SEE, permission)(answer)

    return decorate


def _find_place(request: HttpRequest, workspace: UUID, environment: str) -> Place:
    """Raise Http404 for a workspace of others, as for one that does not exist."""
    try:
        member = Member.objects.select_related("workspace").get(
            user=request.user.pk, workspace=workspace
        )
        account = Account.objects.get(workspace=workspace, environment=environment)
    except ObjectDoesNotExist:
        raise Http404 from None
    account.workspace = member.workspace
    assert isinstance(request.user, User)  # noqa: S101
    member.user = request.user
    return Place(request, member, account)


def dashboard_url(member: Member) -> str:
    """Return the sandbox's overview, where nothing costs money or names real people."""
    return reverse("console:dashboard", args=[member.workspace_id, "sandbox"])


def member_name(member: Member) -> str:
    return member.user.get_full_name() or member.user.email


def deciders_of(workspace: Workspace) -> QuerySet[Member]:
    """Return the members who may decide about reports, with their users, by name."""
    roles = [r for r, can in ALLOWED.items() if Permission.DECIDE_REPORTS in can]
    found = workspace.members.filter(role__in=roles, user__is_active=True)
    return found.select_related("user").order_by("user__first_name", "id")


def names_of_actors(workspace_id: UUID, actors: Iterable[str]) -> dict[str, str]:
    """Return the names of members and keys by their actors.

    Such as "member 0199…" of a present member, and "key vrf_test_012…Ubx". Reviews of
    corrections name the user of a member.
    """
    actors = [*actors]
    called = [a.removeprefix(MEMBER) for a in actors if a.startswith(MEMBER)]
    ids = [known for one in called if (known := read_id(one))]
    is_one = Q(pk__in=ids) | Q(user__username__in=called)
    members = Member.objects.filter(is_one, workspace=workspace_id)
    names = {
        f"{MEMBER}{known}": member_name(one)
        for one in members.select_related("user")
        for known in (one.pk, one.user.username)
    }
    if ends := [actor[-4:] for actor in actors if actor.startswith(KEY)]:
        keys = ApiKey.objects.filter(workspace=workspace_id, last_characters__in=ends)
        for key in keys:
            names[f"{KEY}{key}"] = str(_("the key “%(name)s”") % {"name": key.name})
    return names


@private_page
def too_large(request: HttpRequest) -> HttpResponse:
    return render(request, "console/too_large.html", status=413)


@private_page
def not_found(request: HttpRequest) -> HttpResponse:
    text = _("There is no page at this address in your workspaces.")
    if request.method == "POST":
        # Such as a second press of a button that removes something
        text = _("Nothing was done: it is gone, perhaps because you did this already.")
    return render(request, "console/not_found.html", {"text": text}, status=404)
